"""Splitting of bytes into MQTT packets, and the parts of a PUBLISH.

Sources: "WebSphere MQ Telemetry Transport fixed header"; OASIS, MQTT Version 3.1.1 and 5.0, section 3.3.
"""

from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple

from app.codecs.mqtt.fixed_header import FixedHeader, PacketType, require_defined
from app.wire import Layout, Num, Varint, WireError, row

_WITH_FLAG_1 = {PacketType.PUBREL, PacketType.SUBSCRIBE, PacketType.UNSUBSCRIBE}

Version = Literal["5", "3.1.1"]


class ControlPacket(NamedTuple):
    """A packet at byte `at`; the bytes from `start` to `end` follow its fixed header."""

    at: int
    header: FixedHeader
    start: int
    end: int

    @property
    def type(self) -> PacketType:
        return PacketType(self.header.type)


class Publish(NamedTuple):
    """The parts of a PUBLISH packet.

    `properties` comes without its length and is empty before MQTT 5. The payload is a slice of the packet.
    """

    topic: str
    properties: bytes
    payload: memoryview


class _Topic(Layout):
    """The length of a topic name."""

    length: Annotated[int, Num("H")] = row("bytes of the topic name")


class _Properties(Layout):
    """The length of a property section."""

    length: Annotated[int, Varint()] = row("bytes of properties")


def packets(data: memoryview, version: Version | None = None) -> Iterator[ControlPacket]:
    """Yield the packets of a buffer that holds only whole packets.

    AUTH is accepted when the version is MQTT 5. Raises WireError.
    """
    at = 0
    while at < len(data):
        header, start = FixedHeader.decode(data, at)
        require_flags(header, at, version)
        end = start + header.remaining_length
        if end > len(data):
            why = f"{header.remaining_length} bytes must follow, but only {len(data) - start} do"
            raise WireError("FixedHeader.remaining_length", len(data), why)
        yield ControlPacket(at, header, start, end)
        at = end


def require_flags(header: FixedHeader, at: int, version: Version | None = None) -> None:
    """Check the type and the flags of a packet.

    DUP is not checked: MQTT 3.1 uses it in more packets than later versions.

    Raises WireError.
    """
    require_defined(header, at, mqtt_5=version == "5")
    flags = 1 if header.type in _WITH_FLAG_1 else 0, 0
    if header.type != PacketType.PUBLISH and (header.qos, header.retain) != flags:
        raise WireError("FixedHeader.qos", at, f"wrong QoS or RETAIN flags for {PacketType(header.type).name}")


def read_publish(data: memoryview, packet: ControlPacket, version: Version) -> Publish:
    """Return the parts of a PUBLISH packet. Its properties are not decoded. Raises WireError."""
    body = data[: packet.end]
    head, at = _Topic.decode(body, packet.start)
    topic, at = _taken(body, at, head.length, "PUBLISH.topic")
    if packet.header.qos:
        _, at = _taken(body, at, 2, "PUBLISH.packet_identifier")
    properties = b""
    if version == "5":
        section, at = _Properties.decode(body, at)
        properties, at = _taken(body, at, section.length, "PUBLISH.properties")
    try:
        return Publish(str(topic, "utf-8"), properties, body[at:])
    except UnicodeDecodeError as error:
        raise WireError("PUBLISH.topic", packet.start + 2 + error.start, f"not UTF-8: {error.reason}") from None


def _taken(body: memoryview, at: int, size: int, name: str) -> tuple[bytes, int]:
    if size > len(body) - at:
        raise WireError(name, at, f"{size:,} bytes, but only {len(body) - at:,} are left in the packet")
    return bytes(body[at : at + size]), at + size
