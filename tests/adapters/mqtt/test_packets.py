"""Packets are cut out of the received bytes, wherever a block ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.exception import MalformedPacket

from adapters.mqtt.packet_splitting import PacketReader
from app.codecs.mqtt.packets import length_bytes

PACKETS = st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=300)), max_size=12)


def taken(reader: PacketReader) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    while (packet := reader.packet()) is not None:
        found.append((packet[0], bytes(packet[1])))
    return found


@given(PACKETS, st.lists(st.integers(1, 400), min_size=1))
def test_every_packet_comes_whole_and_in_order(packets: list[tuple[int, bytes]], sizes: list[int]) -> None:
    stream = b"".join(bytes([command]) + length_bytes(len(body)) + body for command, body in packets)
    reader, at = PacketReader(), 0
    found: list[tuple[int, bytes]] = []
    while at < len(stream):
        size = sizes[len(found) % len(sizes)]
        reader.feed(stream[at : at + size])
        found += taken(reader)
        at += size
    assert found == packets


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_small_blocks(size: int) -> None:
    packets = [(0x32, bytes(200)), (0xD0, b""), (0x30, b"a"), (0x32, bytes(20_000)), (0x40, b"12")]
    stream = b"".join(bytes([command]) + length_bytes(len(body)) + body for command, body in packets)
    reader = PacketReader()
    found: list[tuple[int, bytes]] = []
    for at in range(0, len(stream), size):
        reader.feed(stream[at : at + size])
        found += taken(reader)
    assert found == packets


def test_a_payload_is_not_copied() -> None:
    block = b"\x30\x05hello\x30\x01!"
    reader = PacketReader()
    reader.feed(block)
    packet = reader.packet()
    assert packet is not None
    assert packet[1].obj is block


def test_a_length_of_five_bytes_is_refused() -> None:
    reader = PacketReader()
    reader.feed(b"\x30\xff\xff\xff\xff\x01")
    with pytest.raises(MalformedPacket, match="more than four bytes"):
        reader.packet()
