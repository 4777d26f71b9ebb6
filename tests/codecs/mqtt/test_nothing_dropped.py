"""What a publish says is used or named: every descriptor property, alone and with others, for every framing.

The publishes are encoded here, with `struct` alone.
"""

import struct
from typing import NamedTuple

import pytest

from app.codecs.mqtt import mqtt_envelope
from app.codecs.rendezvous.subjects import SUBJECT_PROPERTY
from app.framing.registry import traits
from app.model.errors import InvalidInputError
from app.model.message import EVIDENCE, PhysicalMessage

FRAMINGS = ["sas_queue", "sas_rendezvous", "mq_group", "order_packet"]
WITHOUT_DESCRIPTOR = ["sas_rendezvous", "order_packet"]


class Field(NamedTuple):
    """A descriptor property: its name, a text, what the message then has, another text, and texts that are none."""

    name: str
    text: str
    field: str
    value: object
    other: str
    wrong: tuple[str, ...]


NUMBERS = ("", "1e3", "2147483648", "-2147483649", "1_0", "one", "1.0")
FIELDS = [
    Field("encoding", "546", "encoding", 546, "273", NUMBERS),
    Field("ccsid", "1208", "ccsid", 1208, "819", NUMBERS),
    Field("format", "MQSTR   ", "format", "MQSTR", "MQPCF", ()),
    Field("message-id", "0a" * 24, "message_id", b"\x0a" * 24, "0b", ("0", "zz", "00" * 25)),
    Field("group-id", "0A" * 24, "group_id", b"\x0a" * 24, "0b" * 24, ("0", "zz", "00" * 25)),
    Field("msg-seq-number", "7", "msg_seq_number", 7, "8", NUMBERS),
    Field("offset", "-1", "offset", -1, "0", NUMBERS),
    Field("msg-flags", "+24", "msg_flags", 24, "8", NUMBERS),
    Field("original-length", "5", "original_length", 5, "6", NUMBERS),
]
IDENTIFIERS = {"message-id", "group-id"}


def string(text: str | bytes) -> bytes:
    raw = text if isinstance(text, bytes) else text.encode()
    return struct.pack(">H", len(raw)) + raw


def user(*pairs: tuple[str, str]) -> bytes:
    return b"".join(b"\x26" + string(name) + string(text) for name, text in pairs)


def image(ccsid: int = 819) -> bytes:
    """An MQMD of version 1 before a body of four bytes."""
    head = struct.pack(">4siiiiiii8sii", b"MD  ", 1, 0, 8, -1, 0, 273, ccsid, b"MQSTR   ", 0, 0)
    return head + b"M" * 24 + b"C" * 24 + bytes(324 - 48 - len(head)) + b"body"


def read(packed: bytes, framing: str, payload: bytes = b"body") -> PhysicalMessage:
    return mqtt_envelope.read(memoryview(payload), packed, "source", traits(framing), 1, lambda: "the/topic")


def own(message: PhysicalMessage) -> dict[str, str]:
    """The properties but for the topic, which messages that are numbered on arrival have as well."""
    return {name: text for name, text in message.properties.items() if name != SUBJECT_PROPERTY}


def refusal(packed: bytes, framing: str, payload: bytes = b"body") -> InvalidInputError:
    with pytest.raises(InvalidInputError) as refused:
        read(packed, framing, payload)
    return refused.value


def test_the_fields_here_are_all_fields() -> None:
    assert {field.name for field in FIELDS} | {mqtt_envelope.MSG_TYPE} == mqtt_envelope.FIELD_NAMES


@pytest.mark.parametrize("framing", FRAMINGS)
def test_with_a_message_type_every_field_is_used(framing: str) -> None:
    for field in FIELDS:
        message = read(user((field.name, field.text), ("msg-type", "8")), framing)
        assert getattr(message, field.field) == field.value
        assert (message.msg_type, own(message)) == (8, {})
    assert read(b"\x09" + string(b"C" * 16) + user(("msg-type", "8")), framing).correl_id == b"C" * 16 + bytes(8)


@pytest.mark.parametrize("framing", FRAMINGS)
def test_with_a_message_type_what_is_no_value_is_refused_by_name(framing: str) -> None:
    for field in FIELDS:
        for wrong in field.wrong:
            error = refusal(user(("msg-type", "8"), (field.name, wrong)), framing)
            assert (error.code, error.row, repr(wrong) in error.why) == ("bad-envelope", field.name, True)
        error = refusal(user(("msg-type", "8"), (field.name, field.text), (field.name, field.other)), framing)
        assert (error.code, error.row) == ("bad-envelope", field.name)
        assert "comes twice" in error.why
    error = refusal(user(("msg-type", "8"), ("msg-type", "9")), framing)
    assert (error.code, error.row) == ("bad-envelope", "msg-type")
    error = refusal(b"\x09" + string(b"C" * 25) + user(("msg-type", "8")), framing)
    assert (error.code, error.row) == ("bad-envelope", "correlation data")


@pytest.mark.parametrize("framing", WITHOUT_DESCRIPTOR)
def test_without_a_message_type_every_field_is_used_by_framings_that_need_no_descriptor(framing: str) -> None:
    for field in FIELDS:
        message = read(user((field.name, field.text)), framing)
        assert getattr(message, field.field) == field.value
        assert (message.msg_type, own(message)) == (0, {})
    assert read(b"\x09" + string(b"C" * 16), framing).correl_id == b"C" * 16 + bytes(8)


@pytest.mark.parametrize("framing", WITHOUT_DESCRIPTOR)
def test_without_a_message_type_what_is_no_value_is_refused_or_named(framing: str) -> None:
    for field in FIELDS:
        for pairs in [((field.name, wrong),) for wrong in field.wrong] + [
            ((field.name, field.text), (field.name, field.other))
        ]:
            if field.name in IDENTIFIERS:
                assert refusal(user(*pairs), framing).row == field.name
                continue
            message = read(user(*pairs), framing)
            assert message.properties[field.name] == pairs[-1][1]
            assert f"the property {field.name} is not a field" in message.properties[EVIDENCE]
    assert refusal(b"\x09" + string(b"C" * 25), framing).row == "correlation data"


@pytest.mark.parametrize("framing", sorted(set(FRAMINGS) - set(WITHOUT_DESCRIPTOR)))
def test_where_a_descriptor_is_needed_the_error_names_what_is_not_used(framing: str) -> None:
    for field in FIELDS:
        error = refusal(user((field.name, field.text)), framing)
        assert error.code == "no-envelope"
        assert error.why.endswith(f"so these are not used: {field.name}")
    packed = b"\x09" + string(b"C") + user(*((field.name, field.text) for field in FIELDS))
    names = ["correlation-data", *(field.name for field in FIELDS)]
    assert refusal(packed, framing).why.endswith(f"so these are not used: {', '.join(names)}")
    assert "not used" not in refusal(user(("own", "x")), framing).why


@pytest.mark.parametrize("framing", FRAMINGS)
def test_beside_an_image_what_says_something_else_is_named(framing: str) -> None:
    for field in FIELDS:
        message = read(user((field.name, field.text)), framing, image())
        assert (message.ccsid, message.correl_id, bytes(message.body)) == (819, b"C" * 24, b"body")
        if field.name == "format":  # it says what the image says
            assert EVIDENCE not in message.properties
        else:
            assert message.properties[EVIDENCE].endswith(f"do not say the same: {field.name}")
        assert field.name in message.properties
    same = b"\x09" + string(b"C" * 24) + user(("ccsid", "819"), ("message-id", "4d" * 24))
    assert EVIDENCE not in read(same, framing, image()).properties
    other = read(b"\x09" + string(b"D" * 24), framing, image())
    assert other.properties[EVIDENCE].endswith("do not say the same: correlation-data")


@pytest.mark.parametrize("framing", FRAMINGS)
def test_the_properties_of_an_image_stay_beside_those_of_its_publish(framing: str) -> None:
    raw = bytearray(image())
    raw[196:208] = b"sasadm      "
    message = read(b"\x03" + string("text/csv") + user(("mqmd.user_identifier", "other")), framing, bytes(raw))
    assert message.properties["content-type"] == "text/csv"
    assert message.properties["mqmd.user_identifier"] == "other"
    assert message.properties[EVIDENCE].endswith("do not say the same: mqmd.user_identifier")
    assert own(read(user(("a", "b")), framing, bytes(raw))) == {"a": "b", "mqmd.user_identifier": "sasadm"}


@pytest.mark.parametrize("framing", WITHOUT_DESCRIPTOR)
def test_own_properties_are_kept_and_contradictions_named(framing: str) -> None:
    packed = b"\x03" + string("text/csv") + b"\x08" + string("answers/here") + user(("a", "1"), ("a", "1"), ("b", "2"))
    expected = {"a": "1", "b": "2", "content-type": "text/csv", "response-topic": "answers/here"}
    assert own(read(packed, framing)) == expected
    for name, more in (("a", user(("a", "3"))), ("content-type", user(("content-type", "x")))):
        assert f"the property {name} comes twice" in read(packed + more, framing).properties[EVIDENCE]


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("order", ["<", ">"])
def test_headers_that_the_format_announces_are_removed(framing: str, order: str) -> None:
    encoding = {"<": "546", ">": "273"}
    header = struct.pack(f"{order}4siiii8sii", b"RFH ", 2, 64, 785, 1208, b"MQSTR   ", 0, 1208)
    header += struct.pack(f"{order}i", 24) + b"<usr><a>b</a></usr>     "
    packed = user(("msg-type", "8"), ("format", "MQHRF2"), ("ccsid", "819"), ("encoding", encoding[order]))
    message = read(packed, framing, header + b"body")
    assert (message.format, message.encoding, bytes(message.body)) == ("MQSTR", 785, b"body")
    assert own(message) == {"a": "b"}
    error = refusal(packed, framing, b"XXXX" + header[4:] + b"body")
    assert (error.code, error.row, error.at) == ("bad-mq-header", "MQRFH2.struc_id", 0)
    descriptor = b"MD  " + struct.pack(f"{order}7i", 1, 0, 8, -1, 0, int(encoding[order]), 819) + b"MQHMDE  "
    extension = b"MDE " + struct.pack(f"{order}2i", 2, 71) + bytes(60)
    error = refusal(b"", framing, descriptor.ljust(324, b"\0") + extension + b"body")
    assert (error.code, error.row, error.at) == ("bad-mq-header", "MQMDE.struc_length", 332)
    error = refusal(b"", framing, descriptor)
    assert error.code == "bad-mq-image"
