"""The rules of the MQMDE: one test for each row of IBM's tables ("MQMDE - Message descriptor extension")."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from app.codecs.ibm_mq.extension import INITIAL, ExtensionError, Grouping, extension, on_put
from app.codecs.ibm_mq.headers import MQDLH, MQMD1, MQMD2, MQMDE
from app.codecs.ibm_mq.image import read_image, write_image
from app.model.message import PhysicalMessage
from app.wire import Context
from app.wire.kinds import Order

GROUP = b"\x07" * 24
SAID: Mapping[str, Any] = {
    "group_id": GROUP,
    "msg_seq_number": 3,
    "offset": 64,
    "msg_flags": 10,
    "original_length": 4,
}
VALID = MQMDE(encoding=785, coded_char_set_id=500, format="MQSTR", **SAID)
ENCODINGS: Mapping[Order, int] = {">": 273, "<": 546}
WRITINGS = [
    (Context(order, charset), ccsid) for order in ENCODINGS for charset, ccsid in (("latin-1", 819), ("cp500", 500))
]


BIG = Context(">")


def put(
    descriptor: MQMD1, header: MQMDE, context: Context = BIG, written: Context | None = None, ccsid: int = 819
) -> PhysicalMessage:
    """The message that is kept of this descriptor, which announces the context, and of this MQMDE with data behind."""
    announcing = replace(descriptor, format="MQHMDE", encoding=ENCODINGS[context.order], coded_char_set_id=ccsid)
    return read_image(announcing.encode(context) + header.encode(written or context) + b"data", "", "")


def assert_honoured(message: PhysicalMessage) -> None:
    assert {name: getattr(message, name) for name in SAID} == SAID
    assert (message.format, message.encoding, message.ccsid, bytes(message.body)) == ("MQSTR", 785, 500, b"data")


def assert_is_data(message: PhysicalMessage, header: bytes) -> None:
    assert (message.format, bytes(message.body)) == ("MQHMDE", header + b"data")


@pytest.mark.parametrize(("context", "ccsid"), WRITINGS)
def test_table_1_version_1_and_valid_is_honoured(context: Context, ccsid: int) -> None:
    assert_honoured(put(MQMD1(), VALID, context, ccsid=ccsid))


@pytest.mark.parametrize(("context", "ccsid"), WRITINGS)
def test_table_1_version_2_with_default_fields_and_valid_is_honoured(context: Context, ccsid: int) -> None:
    assert_honoured(put(MQMD2(), VALID, context, ccsid=ccsid))


@pytest.mark.parametrize("name", SAID)
def test_table_1_version_2_with_a_field_that_is_not_default_and_valid_is_data(name: str) -> None:
    message = put(MQMD2(**{name: SAID[name]}), VALID)
    assert_is_data(message, VALID.encode(BIG))
    assert getattr(message, name) == SAID[name]


INVALID = [
    (2248, {"struc_length": 71}, 8),
    (2248, {"struc_length": -1}, 8),
    (2249, {"msg_flags": 32}, 64),
    (2249, {"msg_flags": 0x800}, 64),
    (2250, {"msg_seq_number": 0}, 56),
    (2250, {"msg_seq_number": 1_000_000_000}, 56),
    (2251, {"offset": -1}, 60),
    (2251, {"offset": 1_000_000_000}, 60),
]


@pytest.mark.parametrize("own", [INITIAL, Grouping(msg_seq_number=2)], ids=["default", "not default"])
@pytest.mark.parametrize(("reason", "change", "at"), INVALID)
def test_table_1_any_version_and_invalid_fails_with_the_reason(
    own: Grouping, reason: int, change: dict[str, int], at: int
) -> None:
    raw = b"before" + MQMDE(**{**SAID, **change}).encode(BIG) + b"data"
    with pytest.raises(ExtensionError) as refusal:
        on_put(own, 8, raw, 6, 273, 819)
    assert (refusal.value.reason, refusal.value.at) == (reason, 6 + at)
    assert refusal.value.row == f"MQMDE.{next(iter(change))}"


@pytest.mark.parametrize(
    ("flags", "original_length", "data", "reason"),
    [
        (2, 0, b"", 2252),
        (2, 1, b"", None),
        (4, 0, b"", None),
        (4, -1, b"", 2252),
        (6, 3, b"four", 2252),
        (6, 4, b"four", None),
        (8, -1, b"four", None),
    ],
)
def test_table_1_the_original_length_of_a_report_on_a_segment(
    flags: int, original_length: int, data: bytes, reason: int | None
) -> None:
    """IBM MQ, "OriginalLength (MQLONG)": it counts for reports only, and for these is not less than what is there."""
    header = MQMDE(msg_flags=flags, original_length=original_length)
    raw = header.encode(BIG) + data
    assert on_put(INITIAL, 8, raw, 0, 273, 819) is not None
    if reason is None:
        assert on_put(INITIAL, 4, raw, 0, 273, 819) is not None
        return
    with pytest.raises(ExtensionError) as refusal:
        on_put(INITIAL, 4, raw, 0, 273, 819)
    assert (refusal.value.reason, refusal.value.at) == (reason, 68)


def test_table_1_an_extension_that_is_cut_off_fails_with_2248() -> None:
    raw = VALID.encode(BIG)
    for cut in range(8, 72):
        with pytest.raises(ExtensionError) as refusal:
            on_put(INITIAL, 8, raw[:cut], 0, 273, 819)
        assert refusal.value.reason == 2248


@pytest.mark.parametrize("descriptor", [MQMD1, MQMD2])
@pytest.mark.parametrize(("written", "_ccsid"), WRITINGS[1:])
def test_table_1_any_version_and_a_wrong_character_set_or_encoding_is_data(
    descriptor: type[MQMD1], written: Context, _ccsid: int
) -> None:
    message = put(descriptor(), VALID, written=written)
    assert_is_data(message, VALID.encode(written))
    assert (message.group_id, message.msg_flags) == (b"", 0)


@pytest.mark.parametrize("descriptor", [MQMD1, MQMD2])
@pytest.mark.parametrize("version", [0, 1, 3])
def test_table_1_any_version_and_an_extension_of_a_version_that_is_not_supported_is_data(
    descriptor: type[MQMD1], version: int
) -> None:
    header = MQMDE(version=version, **SAID)
    assert_is_data(put(descriptor(), header), header.encode(BIG))


def test_table_1_wrong_and_invalid_is_data() -> None:
    header = MQMDE(version=3, msg_seq_number=0, struc_length=1)
    assert_is_data(put(MQMD1(), header), header.encode(BIG))


@pytest.mark.parametrize("ccsid", [0, -1, -3, 99999])
def test_the_character_set_of_the_data_is_not_checked(ccsid: int) -> None:
    """Under "CodedCharSetId (MQLONG)" of the MQMDE: "The queue manager does not check that this field is valid"."""
    message = put(MQMD1(), MQMDE(coded_char_set_id=ccsid, format="MQSTR", **SAID))
    assert (message.ccsid, message.format, message.group_id) == (ccsid, "MQSTR", GROUP)


def test_table_2_the_initial_values() -> None:
    header = MQMDE()
    assert (header.struc_id, header.version, header.struc_length, header.coded_char_set_id) == ("MDE", 2, 72, 0)
    assert (header.format, header.flags) == ("", 0)
    assert Grouping(header.group_id, header.msg_seq_number, header.offset, header.msg_flags, -1) == INITIAL
    assert (bytes(24), 1, 0, 0, header.original_length) == INITIAL


def test_the_dead_letter_segment_has_its_extension_between_the_dead_letter_header_and_the_data() -> None:
    """The special case: the fields of the descriptor that is kept have their default values."""
    context = Context("<")
    descriptor = MQMD2(format="MQDEAD", encoding=546, coded_char_set_id=819)
    letter = MQDLH(reason=2053, encoding=546, coded_char_set_id=819, format="MQHMDE")
    kept = b"".join(structure.encode(context) for structure in (descriptor, letter, VALID)) + b"data"
    message = read_image(kept, "", "")
    assert_honoured(message)
    assert message.properties["mqdlh.reason"] == "2053"


MESSAGE = PhysicalMessage("", "", 8, body=b"data", encoding=785, ccsid=500, format="MQSTR")


@pytest.mark.parametrize("name", SAID)
@pytest.mark.parametrize(("context", "ccsid"), WRITINGS)
def test_mqget_version_1_prefixes_an_extension_when_a_field_is_not_default(
    name: str, context: Context, ccsid: int
) -> None:
    message = MESSAGE._replace(**{name: SAID[name]})
    raw = extension(message, ENCODINGS[context.order], ccsid)
    expected = MQMDE(encoding=785, coded_char_set_id=500, format="MQSTR", **{name: SAID[name]})
    assert MQMDE.decode(raw, 0, context) == (expected, 72)
    assert MQMD1.decode(write_image(message))[0].format == "MQHMDE"


def test_mqget_version_1_prefixes_nothing_when_all_fields_are_default() -> None:
    assert extension(MESSAGE, 546, 819) == extension(MESSAGE._replace(group_id=bytes(24)), 546, 819) == b""
    assert MQMD1.decode(write_image(MESSAGE))[0].format == "MQSTR"


def test_mqget_version_1_writes_in_a_character_set_that_python_cannot_read() -> None:
    raw = extension(MESSAGE._replace(msg_flags=8), 785, 1047)
    assert raw[:8] == "MDE ".encode("cp500") + b"\0\0\0\2"
