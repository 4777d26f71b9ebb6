"""Explains MQTT packets: their fixed header, and what follows as bytes."""

from app.codecs.mqtt.fixed_header import FixedHeader, PacketType
from app.trace.frames import Frame, Said
from app.wire import Cell, WireError

_WITH_FLAG_1 = {PacketType.PUBREL, PacketType.SUBSCRIBE, PacketType.UNSUBSCRIBE}


def packets(data: memoryview, _: Said) -> list[Frame]:
    """Whole packets, one behind the other."""
    frames: list[Frame] = []
    at = 0
    while at < len(data) or not frames:
        header, start = FixedHeader.decode(data, at)
        _require_flags(header, at)
        end = start + header.remaining_length
        if end > len(data):
            why = f"{header.remaining_length} bytes should follow, and {len(data) - start} do"
            raise WireError("FixedHeader.remaining_length", len(data), why)
        cells = list(FixedHeader.cells(data, at))
        if end > start:
            cells.append(Cell(start, end - start, "rest", bytes(data[start:end])))
        frames.append(Frame("mqtt", at, cells, PacketType(header.type).name))
        at = end
    return frames


def _require_flags(header: FixedHeader, at: int) -> None:
    """Type and flags of a packet that exists; DUP is let be, which MQTT 3.1 has on more packets than later versions."""
    if header.type == PacketType.RESERVED_0:
        raise WireError("FixedHeader.type", at, "0 is no message type")
    if header.type == PacketType.PUBLISH:
        if header.qos == 3:
            raise WireError("FixedHeader.qos", at, "3 is reserved")
    elif (header.qos, header.retain) != (1 if header.type in _WITH_FLAG_1 else 0, 0):
        raise WireError("FixedHeader.qos", at, f"QoS and RETAIN are not those of {PacketType(header.type).name}")
