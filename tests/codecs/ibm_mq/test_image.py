"""MQ images: every way of writing them, the rules of the MQMDE, and the layouts as the judge of the fast reading."""

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.codecs.ibm_mq.constants import MQMT_REPORT
from app.codecs.ibm_mq.headers import MQMD1, MQMD2, MQMDE
from app.codecs.ibm_mq.image import IMAGE_OVERHEAD, descriptor_context, is_image, read_image, write_image
from app.codecs.ibm_mq.unwrap import origin
from app.model.message import PhysicalMessage
from app.wire import Context, WireError
from app.wire.kinds import Order
from tests.support.refusals import wire_error

ORDERS: dict[Order, int] = {">": 273, "<": 546}
CONTEXTS = [Context(order, charset) for order in ORDERS for charset in ("latin-1", "cp500")]
CCSIDS = {"latin-1": 819, "cp500": 500}
LONG = st.integers(-(2**31), 2**31 - 1)
IDENTIFIER = st.just(b"") | st.binary(min_size=24, max_size=24).filter(any)
FORMAT = st.sampled_from(["", "MQSTR", "MQEVENT", "FMT12345"])
PUT_TIME = st.just(0) | st.integers(1, 4_102_444_799_00).map(lambda hundredths: hundredths * 10_000)

MESSAGES = st.builds(
    PhysicalMessage,
    st.just("source"),
    st.just("sas_queue"),
    msg_type=LONG.filter(lambda msg_type: msg_type != MQMT_REPORT),
    correl_id=st.binary(min_size=24, max_size=24),
    body=st.binary(max_size=50),
    message_id=IDENTIFIER,
    group_id=IDENTIFIER,
    msg_seq_number=st.integers(1, 999_999_999),
    offset=st.integers(0, 999_999_999),
    msg_flags=st.integers(0, 31) | st.integers(0, 0x7FFFF).map(lambda high: high << 12),
    original_length=LONG,
    encoding=LONG,
    ccsid=LONG,
    format=FORMAT,
    put_time=PUT_TIME,
    received_at=st.integers(0, 2**52),
    properties=st.just({}),
)
INITIAL_GROUPING: dict[str, Any] = {
    "group_id": b"",
    "msg_seq_number": 1,
    "offset": 0,
    "msg_flags": 0,
    "original_length": -1,
}


def read(image: bytes, like: PhysicalMessage) -> PhysicalMessage:
    message = read_image(image, like.source, like.framing, like.received_at)
    return message._replace(body=bytes(message.body))


@given(MESSAGES, st.sampled_from([1, 2]))
def test_an_image_is_read_as_the_message_it_was_made_of(message: PhysicalMessage, version: Literal[1, 2]) -> None:
    image = write_image(message, version)
    assert is_image(image)
    assert read(image, message) == message
    assert len(image) - len(message.body) <= IMAGE_OVERHEAD


@given(MESSAGES)
def test_version_1_has_an_extension_only_when_there_is_something_to_say(message: PhysicalMessage) -> None:
    plain = message._replace(**INITIAL_GROUPING)
    assert len(write_image(plain)) == 324 + len(message.body)
    if message != plain:
        assert len(write_image(message)) == 324 + 72 + len(message.body)


@given(MESSAGES, st.sampled_from(CONTEXTS), st.sampled_from([MQMD1, MQMD2]), st.booleans())
def test_the_fast_reading_is_that_of_the_layouts(
    message: PhysicalMessage, context: Context, layout: type[MQMD1], has_extension: bool
) -> None:
    grouping: dict[str, Any] = {
        "group_id": message.group_id.ljust(24, b"\0"),
        "msg_seq_number": message.msg_seq_number,
        "offset": message.offset,
        "msg_flags": message.msg_flags,
        "original_length": message.original_length,
    }
    says: dict[str, Any] = {"encoding": message.encoding, "coded_char_set_id": message.ccsid, "format": message.format}
    announces: dict[str, Any] = {
        "encoding": ORDERS[context.order],
        "coded_char_set_id": CCSIDS[context.charset],
        "format": "MQHMDE",
    }
    own: dict[str, Any] = dict(announces if has_extension else says)
    own |= {"msg_type": message.msg_type, "msg_id": message.message_id.ljust(24, b"\0"), "correl_id": message.correl_id}
    if layout is MQMD2 and not has_extension:
        own |= grouping
    image = layout(**own).encode(context)
    if has_extension:
        image += MQMDE(**says, **grouping).encode(context)
    elif layout is MQMD1:
        message = message._replace(**INITIAL_GROUPING)
    assert descriptor_context(image) == (layout, context)
    assert read(image + message.body, message) == message._replace(put_time=0)


def test_the_body_is_not_copied() -> None:
    image = bytearray(write_image(PhysicalMessage("", "", 1, body=b"body")))
    body = read_image(memoryview(image), "", "").body
    image[-4:] = b"BODY"
    assert bytes(body) == b"BODY"


@pytest.mark.parametrize("order", ORDERS)
def test_an_extension_below_a_version_2_that_speaks_for_itself_is_data(order: Order) -> None:
    context = Context(order, "latin-1")
    extension = MQMDE(msg_seq_number=9, format="MQSTR").encode(context)
    image = MQMD2(format="MQHMDE", encoding=ORDERS[order], msg_seq_number=2).encode(context) + extension
    message = read_image(image, "", "")
    assert (message.msg_seq_number, message.format, bytes(message.body)) == (2, "MQHMDE", extension)


@pytest.mark.parametrize(
    "extension",
    [
        MQMDE().encode(Context("<")),
        MQMDE(version=1).encode(Context(">")),
        MQMDE().encode(Context(">", "cp500")),
    ],
    ids=["other order", "other version", "other character set"],
)
def test_an_extension_that_is_not_honoured_is_data(extension: bytes) -> None:
    image = MQMD1(format="MQHMDE", encoding=273, coded_char_set_id=819).encode() + extension
    message = read_image(image, "", "")
    assert (message.format, message.encoding, bytes(message.body)) == ("MQHMDE", 273, extension)


@pytest.mark.parametrize("extension", [MQMDE(struc_id="XDE").encode(Context(">")), b"", b"MDE "])
def test_what_is_no_extension_is_an_error_where_one_is_announced(extension: bytes) -> None:
    image = MQMD1(format="MQHMDE", encoding=273, coded_char_set_id=819).encode() + extension
    with pytest.raises(WireError, match=r"MQMDE.struc_id at byte 324.*2248"):
        read_image(image, "", "")


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("charset", ["latin-1", "cp500"])
def test_whose_it_is_and_whom_to_answer_become_properties(order: Order, charset: str) -> None:
    descriptor = MQMD1(
        report=0x100,
        feedback=2053,
        reply_to_q="ANSWERS",
        reply_to_q_mgr="QM7",
        user_identifier="sasadm",
        accounting_token=b"\x02" + bytes(30) + b"\x06",
        appl_identity_data="identity",
        put_appl_type=6,
        put_appl_name="sas.exe",
        appl_origin_data="orig",
    )
    message = read_image(descriptor.encode(Context(order, charset)) + b"data", "", "")
    assert message.properties == {
        "mqmd.report": "256",
        "mqmd.feedback": "2053",
        "mqmd.reply_to_q": "ANSWERS",
        "mqmd.reply_to_q_mgr": "QM7",
        "mqmd.user_identifier": "sasadm",
        "mqmd.accounting_token": "02" + "00" * 30 + "06",
        "mqmd.appl_identity_data": "identity",
        "mqmd.put_appl_type": "6",
        "mqmd.put_appl_name": "sas.exe",
        "mqmd.appl_origin_data": "orig",
    }
    assert origin(descriptor) == message.properties


def test_a_descriptor_that_says_nothing_has_no_properties() -> None:
    assert read_image(MQMD2().encode(), "", "").properties == {}


def test_an_extension_of_a_wrong_length_is_an_error() -> None:
    image = MQMD1(format="MQHMDE").encode() + MQMDE(struc_length=73).encode()
    with pytest.raises(WireError) as refusal:
        read_image(image, "", "")
    assert (refusal.value.row, refusal.value.at) == ("MQMDE.struc_length", 332)


@pytest.mark.parametrize("version", [1, 2])
def test_every_cut_is_a_message_or_names_its_place(version: Literal[1, 2]) -> None:
    message = PhysicalMessage("", "", 8, group_id=b"g" * 24, body=b"12", encoding=546)
    image = write_image(message, version)
    cuts = range(len(image))
    errors = [wire_error(lambda cut=cut: read_image(image[:cut], "", "")) for cut in cuts]  # type: ignore[misc]
    assert all(error is None or error.at <= cut for cut, error in enumerate(errors))
    assert errors[-2:] == [None, None]
    assert bytes(read_image(image[:-1], "", "").body) == b"1"


@given(st.data())
def test_damage_is_a_message_or_a_wire_error(data: st.DataObject) -> None:
    image = bytearray(write_image(data.draw(MESSAGES), data.draw(st.sampled_from([1, 2]))))
    for _ in range(data.draw(st.integers(1, 4))):
        image[data.draw(st.integers(0, min(len(image), 400) - 1))] = data.draw(st.integers(0, 255))
    error = wire_error(lambda: read_image(bytes(image), "", ""))
    assert error is None or 0 <= error.at <= len(image)


@pytest.mark.parametrize(
    ("payload", "row"),
    [
        (b"", "MQMD1.struc_id"),
        (b"MD", "MQMD1.struc_id"),
        (b"RFH \0\0\0\2" + bytes(400), "MQMD1.struc_id"),
        (b"MD  \0\0\0\3" + bytes(400), "MQMD1.version"),
        (b"MD  \0\0\0\1", "MQMD1.report"),
        ("MD  ".encode("cp500") + b"\2\0\0\0" + bytes(340), "MQMD2.msg_seq_number"),
    ],
)
def test_what_is_no_image_is_named(payload: bytes, row: str) -> None:
    with pytest.raises(WireError) as refusal:
        read_image(payload, "", "")
    assert refusal.value.row == row


@pytest.mark.parametrize(
    ("put_date", "put_time", "expected"),
    [
        ("20260822", "10203040", 1_787_394_030_400_000),
        ("19700101", "00000000", 0),
        ("20240229", "23595999", 1_709_251_199_990_000),
        ("", "", 0),
        ("20230229", "10203040", 0),
        ("2026082x", "10203040", 0),
        ("20260822", "10203", 0),
    ],
)
@pytest.mark.parametrize("context", CONTEXTS)
def test_put_date_and_time(put_date: str, put_time: str, expected: int, context: Context) -> None:
    image = MQMD1(put_date=put_date, put_time=put_time).encode(context)
    assert read_image(image, "", "").put_time == expected


@pytest.mark.parametrize("change", [{"format": "TOO LONG 9"}, {"msg_type": 2**31}, {"correl_id": bytes(25)}])
def test_a_value_without_room_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(WireError):
        write_image(PhysicalMessage("", "", 8)._replace(**change))
