"""The MQTT fixed header against the tables of its document, and against paho-mqtt's packets."""

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from app.codecs.mqtt.packets import (
    MAX_REMAINING_LENGTH,
    FixedHeader,
    PacketType,
    largest_payload,
    length_bytes,
    length_size,
    packets,
    publish_size,
)
from app.wire import WireError
from tests.support.captures import Packets
from tests.support.cases import for_each

LENGTHS = [
    (0, "00"),
    (64, "40"),
    (127, "7F"),
    (128, "8001"),
    (321, "C102"),
    (16_383, "FF7F"),
    (16_384, "808001"),
    (2_097_151, "FFFF7F"),
    (2_097_152, "80808001"),
    (268_435_455, "FFFFFF7F"),
]
"""The document's table of values and digits, and its two examples."""


@pytest.mark.parametrize(("length", "digits"), LENGTHS)
def test_a_remaining_length_has_the_digits_of_the_document(length: int, digits: str) -> None:
    packet = bytes.fromhex("30" + digits)
    header = FixedHeader(PacketType.PUBLISH, remaining_length=length)
    assert header.encode() == packet
    assert FixedHeader.decode(packet) == (header, len(packet))
    assert length_size(length) == len(packet) - 1
    assert length_bytes(length) == packet[1:]
    for cut in range(len(packet)):
        with pytest.raises(WireError):
            FixedHeader.decode(packet[:cut])


@pytest.mark.parametrize(("digits", "length"), [("8000", 0), ("808000", 0), ("FF00", 127), ("C1828000", 321)])
def test_a_length_of_more_digits_than_needed_is_read_by_the_documents_algorithm(digits: str, length: int) -> None:
    packet = bytes.fromhex("30" + digits)
    header, end = FixedHeader.decode(packet)
    assert (header.remaining_length, end) == (length, len(packet))
    assert [cell.value for cell in FixedHeader.cells(packet)][-1] == length
    assert header.encode() == b"\x30" + length_bytes(length)


@pytest.mark.parametrize("digits", ["FFFFFFFF", "8080808001", "FFFFFFFF7F"])
def test_lengths_of_more_than_four_digits_are_refused(digits: str) -> None:
    packet = bytes.fromhex("30" + digits)
    with pytest.raises(WireError, match="remaining_length"):
        FixedHeader.decode(packet)
    with pytest.raises(WireError, match="remaining_length"):
        list(FixedHeader.cells(packet))


@pytest.mark.parametrize("first", [0x00, 0xF0, 0x36, 0x66])
def test_what_is_reserved_is_neither_written_nor_read(first: int) -> None:
    packet = bytes((first, 0))
    header, _ = FixedHeader.decode(packet)
    with pytest.raises(WireError, match="reserved"):
        header.encode()
    with pytest.raises(WireError, match="reserved"):
        list(packets(memoryview(packet), "3.1.1"))
    with pytest.raises(WireError, match="reserved"):
        list(packets(memoryview(packet)))


def test_type_15_is_auth_in_mqtt_5() -> None:
    (packet,) = packets(memoryview(bytes.fromhex("F000")), "5")
    assert (packet.type, packet.end) == (PacketType.AUTH, 2)


@pytest.mark.parametrize("length", [-1, MAX_REMAINING_LENGTH + 1])
def test_what_four_digits_cannot_say_is_not_written(length: int) -> None:
    with pytest.raises(ValueError, match="remaining length"):
        length_size(length)
    with pytest.raises(WireError):
        FixedHeader(PacketType.PUBLISH, remaining_length=length).encode()


@given(st.integers(0, 255), st.integers(0, MAX_REMAINING_LENGTH))
def test_every_first_byte_is_read_by_its_bits_and_written_again(first: int, length: int) -> None:
    packet = bytes((first,)) + length_bytes(length)
    header, end = FixedHeader.decode(packet)
    is_reserved = first >> 4 in (0, 15) or first >> 1 & 3 == 3
    assert (header.type, header.dup, header.qos, header.retain) == (
        first >> 4,
        first >> 3 & 1,
        first >> 1 & 3,
        first & 1,
    )
    assert isinstance(header.type, PacketType)
    assert end == len(packet)
    assert is_reserved or header.encode() == packet
    assert [cell.value for cell in FixedHeader.cells(packet)] == [*vars(header).values()]


@given(st.binary(max_size=8))
def test_any_bytes_are_a_header_or_a_wire_error(packet: bytes) -> None:
    try:
        header, end = FixedHeader.decode(packet)
        again = header.encode()
    except WireError:
        return
    assert FixedHeader.decode(again) == (header, len(again))
    assert len(again) <= end


@for_each("payload", [0, 1, 100, 127, 16_370, 16_384, 2_097_140, 2_097_152])
@for_each("topic", ["t", "sas/bücher", "x" * 200])
@for_each("qos", [0, 1, 2])
@for_each("version", [MQTTProtocolVersion.MQTTv311, MQTTProtocolVersion.MQTTv5])
def test_a_publish_is_as_large_as_paho_makes_it(
    version: MQTTProtocolVersion, qos: int, topic: str, payload: int
) -> None:
    client = Client(CallbackAPIVersion.VERSION2, protocol=version)
    packets = Packets()
    client._sock = cast("Any", packets)
    client.publish(topic, bytes(payload), qos)
    client._sock = None
    properties = 0 if version == MQTTProtocolVersion.MQTTv5 else None
    size = publish_size(topic, payload, qos, properties)
    assert size == len(packets.sent)
    assert largest_payload(size, topic, qos, properties) == payload


@given(
    st.integers(0, MAX_REMAINING_LENGTH + 5),
    st.text(min_size=1, max_size=300).filter(lambda topic: topic.isprintable()),
    st.sampled_from([0, 1, 2]),
    st.none() | st.integers(0, 70_000),
)
def test_the_largest_payload_fits_and_one_byte_more_does_not(
    limit: int, topic: str, qos: int, properties: int | None
) -> None:
    largest = largest_payload(limit, topic, qos, properties)
    if largest >= 0:
        assert publish_size(topic, largest, qos, properties) <= limit
    if largest >= -1:
        try:
            assert publish_size(topic, largest + 1, qos, properties) > limit
        except ValueError:
            assert limit >= MAX_REMAINING_LENGTH + 5


def test_no_publish_is_larger_than_the_protocol_allows() -> None:
    most = largest_payload(1 << 40, "t", 1, None)
    assert publish_size("t", most, 1, None) == MAX_REMAINING_LENGTH + 5
    with pytest.raises(ValueError, match="remaining length"):
        publish_size("t", most + 1, 1, None)
