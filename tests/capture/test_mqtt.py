"""MQTT captures: packets that paho-mqtt makes, other packets, cuts, and any bytes."""

from dataclasses import replace
from functools import partial
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.capture import hexadecimal
from app.capture.capture_entries import Entry, RefusedEntry, SkippedEntry
from app.codecs.mqtt.packets import FixedHeader, PacketType, Version
from app.codecs.rendezvous.subjects import SUBJECT_PROPERTY
from app.model.message import PhysicalMessage
from tests.codecs.mqtt.test_envelope import MESSAGES, VALID_EXTENSION
from tests.support import captures
from tests.support.captures import NOW, entries, in_hexadecimal, packet
from tests.support.sas_client import Program, binary_file, message

CONNACK, PINGREQ = bytes.fromhex("20020000"), bytes.fromhex("C000")


def read(text: bytes, version: Version | None = None, framing: str = "sas_queue") -> list[Entry]:
    return entries(partial(hexadecimal.read_mqtt, version=version), text, framing)


def expected(sent: PhysicalMessage) -> PhysicalMessage:
    return sent._replace(source=captures.SOURCE, received_at=NOW, properties={})


@given(
    MESSAGES.map(lambda each: each._replace(group_id=b"G" * 24, **VALID_EXTENSION)),
    st.sampled_from([0, 1, 2]),
    st.booleans(),
)
def test_a_publish_tells_its_version_by_its_envelope(sent: PhysicalMessage, qos: int, told: bool) -> None:
    for version in ("5", "3.1.1"):
        line = in_hexadecimal([packet(sent, version, qos)])
        assert read(line, version if told else None) == [expected(sent)]


def test_many_packets_stand_on_a_line_and_only_publishes_are_messages() -> None:
    random = Random(4)
    program = Program(random)
    sent = message(program, [binary_file(program, "a", random.randbytes(100))])
    whole = CONNACK + b"".join(packet(each, "5") + PINGREQ for each in sent)
    found = read(whole.hex(" ").encode())
    assert [each for each in found if not isinstance(each, SkippedEntry)] == [expected(each) for each in sent]
    assert [each.what for each in found if isinstance(each, SkippedEntry)] == ["CONNACK"] + ["PINGREQ"] * len(sent)


CONNECT_5, CONNECT_4 = (bytes.fromhex(f"100d00044d515454{level}02003c000161") for level in ("05", "04"))


@pytest.mark.parametrize(
    ("before", "version", "skipped"),
    [
        (CONNECT_5, None, ["CONNECT", "AUTH"]),
        (CONNECT_4, None, ["CONNECT", None]),
        (PINGREQ, "5", ["PINGREQ", "AUTH"]),
        (CONNECT_5, "3.1.1", ["CONNECT", None]),
    ],
)
@pytest.mark.parametrize("between", [b"", b"\n"])
def test_type_15_is_auth_behind_a_connect_of_mqtt_5(
    before: bytes, version: Version | None, skipped: list[str | None], between: bytes
) -> None:
    found = read(before.hex().encode() + between + b"f0021800\n", version)
    assert [getattr(each, "what", None) for each in found] == skipped


def sent_again(whole: bytes) -> bytes:
    return bytes([whole[0] | 8]) + whole[1:]


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_a_publish_that_is_sent_again_is_skipped_and_no_other_one(version: Version) -> None:
    def publish(body: bytes, qos: int = 1, identifier: int = 7, expiry: int = 60) -> bytes:
        """A packet of the specification (3.3)."""
        given = b"\5\2" + expiry.to_bytes(4) if version == "5" else b""
        rest = b"\0\1t" + (identifier.to_bytes(2) if qos else b"") + given + body
        return bytes([0x30 | qos << 1, len(rest)]) + rest

    first, other, unacknowledged = publish(b"a"), publish(b"b", identifier=8), publish(b"a", 0)
    again = sent_again(publish(b"a", expiry=9 if version == "5" else 60))
    packets = [first, other, again, sent_again(other), first, sent_again(publish(b"b")), unacknowledged, unacknowledged]
    exactly_once = publish(b"c", 2)
    packets += [exactly_once, sent_again(exactly_once), bytes.fromhex("62020007"), sent_again(exactly_once)]
    found = read(in_hexadecimal(packets), version, "order_packet")
    assert [each.body if isinstance(each, PhysicalMessage) else getattr(each, "what", None) for each in found] == [
        *(b"a", b"b", "repeated PUBLISH", "repeated PUBLISH", b"a", b"b", b"a", b"a"),
        *(b"c", "repeated PUBLISH", "PUBREL", b"c"),
    ]


def test_a_capture_may_have_its_time() -> None:
    sent = PhysicalMessage(captures.SOURCE, "sas_queue", 100001, body=b"x")
    line = b"2026-11-21T07:30:01Z " + in_hexadecimal([packet(sent, "3.1.1")])
    (found,) = read(line)
    assert isinstance(found, PhysicalMessage)
    assert found.received_at == NOW + 1_000_000


@pytest.mark.parametrize("framing", ["sas_rendezvous", "order_packet"])
@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_framings_without_an_envelope_travel_bare(version: Version, framing: str) -> None:
    sent = PhysicalMessage(captures.SOURCE, framing, body=bytes.fromhex("000000089955EEAA"), received_at=NOW)
    named = {SUBJECT_PROPERTY: "sas/bücher"} if framing == "sas_rendezvous" else {}
    assert read(in_hexadecimal([packet(sent, version)]), version, framing) == [sent._replace(properties=named)]


def test_a_packet_cut_anywhere_is_refused() -> None:
    sent = PhysicalMessage("", "sas_queue", 100001, body=b"x", properties={"a": "b"})
    for version in ("5", "3.1.1"):
        whole = packet(sent, version)
        for cut in range(1, len(whole)):
            (found,) = read(in_hexadecimal([whole[:cut]]))
            assert isinstance(found, RefusedEntry)
            assert (found.code, found.line, bytes(found.message.body)) == ("bad-mqtt-packet", 1, whole[:cut])


def test_a_packet_whose_parts_do_not_fit_is_refused() -> None:
    whole = packet(PhysicalMessage("", "sas_queue", 100001, body=b"", properties={}), "5")
    header, start = FixedHeader.decode(whole)
    for cut in range(start, len(whole)):
        cut_packet = replace(header, remaining_length=cut - start).encode() + whole[start:cut]
        (found,) = read(in_hexadecimal([cut_packet]), "5")
        assert isinstance(found, RefusedEntry)


@pytest.mark.parametrize(
    ("hexadecimal", "code", "why"),
    [
        ("30 03 0001 74", "no-envelope", "the publish on 't' has no user property msg-type"),
        ("30 0b 0001 74 4d442020 00000009", "bad-mq-image", "not version 1 or 2"),
        ("30 10 0001 74 0c 26 0008 6d73672d74797065 00", "no-envelope", "has no user property"),
        ("30 13 0001 74 0f 26 0008 6d73672d74797065 0002 7878", "bad-envelope", "'xx' is not a decimal number"),
        ("00 00", "bad-mqtt-packet", "0 is reserved"),
        ("36 00", "bad-mqtt-packet", "3 is reserved"),
        ("f0 00", "bad-mqtt-packet", "15 is reserved"),
        ("30 02 0001", "bad-mqtt-packet", "PUBLISH.topic"),
        ("30 03 0001 ff", "bad-mqtt-packet", "not UTF-8"),
    ],
)
def test_what_cannot_be_read_says_why(hexadecimal: str, code: str, why: str) -> None:
    *_, found = read(b"c000\n" + hexadecimal.encode())
    assert isinstance(found, RefusedEntry)
    assert (found.code, found.line) == (code, 2)
    assert why in found.why


def test_reading_goes_on_behind_a_bad_line_and_a_bad_envelope() -> None:
    good = packet(PhysicalMessage("", "sas_queue", 100001, body=b"x"), "5")
    bare = bytes.fromhex("3003000174")
    found = read(in_hexadecimal([bare + good, good + b"\0", good]) + b"zz\n" + in_hexadecimal([good]))
    said = [each.code if isinstance(each, RefusedEntry) else getattr(each, "body", None) for each in found]
    assert said == ["no-envelope", b"x", b"x", "bad-mqtt-packet", b"x", "bad-capture", b"x"]


@given(st.binary(max_size=60), st.sampled_from([None, "5", "3.1.1"]))
def test_any_bytes_are_entries(data: bytes, version: Version | None) -> None:
    for found in read(in_hexadecimal([data, bytes([PacketType.PUBLISH << 4, len(data)]) + data]), version):
        assert isinstance(found, PhysicalMessage | RefusedEntry | SkippedEntry)
