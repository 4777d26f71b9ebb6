"""Explains MQTT packets: their fixed header, and what follows as bytes; a payload that is a tibrvMsg is explained."""

from app.codecs.mqtt.fixed_header import FixedHeader, PacketType
from app.codecs.mqtt.packets import Packet, Version, read_publish
from app.codecs.mqtt.packets import packets as whole_packets
from app.trace import rendezvous
from app.trace.frames import MOST_FRAMES, Frame, Said, TooManyFrames, moved
from app.wire import Cell, WireError

_VERSIONS: tuple[Version, ...] = ("5", "3.1.1")


def packets(data: memoryview, _: Said) -> list[Frame]:
    """Explain whole packets, one after the other."""
    if not data:
        FixedHeader.decode(data)
    frames: list[Frame] = []
    for packet in whole_packets(data):
        if len(frames) == MOST_FRAMES:
            raise TooManyFrames(f"more than {MOST_FRAMES:,} packets; byte {packet.at} begins another")
        cells = list(FixedHeader.cells(data, packet.at))
        carried = _payload(data, packet)
        end = carried[0].offset if carried else packet.end
        if end > packet.start:
            rest = bytes(data[packet.start : end])
            cells.append(Cell(packet.start, len(rest), "rest", rest))
        frames += [Frame("mqtt", packet.at, cells, packet.type.name), *carried]
    return frames


def _payload(data: memoryview, packet: Packet) -> list[Frame]:
    """Return what a publish carries, where that is a tibrvMsg in one of MQTT's versions."""
    if packet.type is not PacketType.PUBLISH:
        return []
    for version in _VERSIONS:
        try:
            found = read_publish(data, packet, version).payload
        except WireError:
            continue
        if frames := rendezvous.payload(found):
            return moved(frames, packet.end - len(found))
    return []
