"""The MQTT fixed header against the tables of its document, and against paho-mqtt's packets."""

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from app.codecs.mqtt.fixed_header import (
    MAX_REMAINING_LENGTH,
    FixedHeader,
    PacketType,
    largest_payload,
    length_bytes,
    length_size,
    publish_size,
)
from app.wire import WireError

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


@pytest.mark.parametrize("digits", ["8000", "808000", "FF00", "80808000", "FFFFFFFF", "8080808001", "FFFFFFFF7F"])
def test_longer_lengths_than_needed_or_possible_are_refused(digits: str) -> None:
    packet = bytes.fromhex("30" + digits)
    with pytest.raises(WireError, match="remaining_length"):
        FixedHeader.decode(packet)
    with pytest.raises(WireError, match="remaining_length"):
        list(FixedHeader.cells(packet))


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
    assert (header.type, header.dup, header.qos, header.retain) == (
        first >> 4,
        first >> 3 & 1,
        first >> 1 & 3,
        first & 1,
    )
    assert isinstance(header.type, PacketType)
    assert (end, header.encode()) == (len(packet), packet)
    assert [cell.value for cell in FixedHeader.cells(packet)] == [*vars(header).values()]


@given(st.binary(max_size=8))
def test_any_bytes_are_a_header_or_a_wire_error(packet: bytes) -> None:
    try:
        header, end = FixedHeader.decode(packet)
    except WireError:
        return
    assert header.encode() == packet[:end]


class _Packets:
    """Stands where paho has its socket, and keeps what would be sent."""

    def __init__(self) -> None:
        self.sent = b""

    def send(self, data: bytes) -> int:
        self.sent += data
        return len(data)

    def close(self) -> None: ...

    def fileno(self) -> int:
        return -1


@pytest.mark.parametrize("payload", [0, 1, 100, 127, 16_370, 16_384, 2_097_140, 2_097_152])
@pytest.mark.parametrize("topic", ["t", "sas/bücher", "x" * 200])
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("version", [MQTTProtocolVersion.MQTTv311, MQTTProtocolVersion.MQTTv5])
def test_a_publish_is_as_large_as_paho_makes_it(
    version: MQTTProtocolVersion, qos: int, topic: str, payload: int
) -> None:
    client = Client(CallbackAPIVersion.VERSION2, protocol=version)
    packets = _Packets()
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
