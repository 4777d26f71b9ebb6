"""Explain MQTT packets: their fixed header, and the rest as bytes."""

from app.codecs.mqtt.fixed_header import FixedHeader
from app.codecs.mqtt.packets import packets as whole_packets
from app.trace.frames import MOST_FRAMES, Frame, Said, TooManyFrames
from app.wire import Cell


def packets(data: memoryview, _: Said) -> list[Frame]:
    """Explain whole packets, one after the other."""
    if not data:
        FixedHeader.decode(data)
    frames: list[Frame] = []
    for packet in whole_packets(data):
        if len(frames) == MOST_FRAMES:
            raise TooManyFrames(f"more than {MOST_FRAMES:,} packets; byte {packet.at} begins another")
        cells = list(FixedHeader.cells(data, packet.at))
        if packet.end > packet.start:
            rest = bytes(data[packet.start : packet.end])
            cells.append(Cell(packet.start, len(rest), "rest", rest))
        frames.append(Frame("mqtt", packet.at, cells, packet.type.name))
    return frames
