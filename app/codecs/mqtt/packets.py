"""MQTT control packets: their fixed header, the splitting of bytes into packets, and the parts of a PUBLISH.

Sources: "WebSphere MQ Telemetry Transport fixed header", which describes MQTT 3.1 and is unchanged in 3.1.1 and 5;
OASIS, MQTT Version 3.1.1 and 5.0, section 3.3.

A remaining length that is encoded in more bytes than necessary is accepted, from connections and from captures. The
document's algorithm for decoding accepts it, and MQTT 3.1.1 does not forbid it. MQTT 5 forbids it (section 1.5.5), but
a packet does not state its version, and the value is the same. This module always writes the fewest bytes.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import Annotated, Literal, NamedTuple

from app.wire import Bits, Context, Layout, Num, Varint, WireError, row
from app.wire.layout import DEFAULT

MAX_REMAINING_LENGTH = 268_435_455
"""The largest remaining length: four bytes of seven bits."""

RESERVED_QOS = 3
_LENGTH_LIMITS = (1 << 7, 1 << 14, 1 << 21, 1 << 28)


class PacketType(IntEnum):
    """Message types by the specification's mnemonics; 15 is reserved before MQTT 5, which has AUTH."""

    RESERVED_0 = 0
    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15


class FixedHeader(Layout):
    """The first 2 to 5 bytes of every MQTT packet."""

    type: Annotated[PacketType, Bits(4, PacketType)] = row("message type")
    dup: Annotated[int, Bits(1)] = row("duplicate delivery", default=0)
    qos: Annotated[int, Bits(2)] = row("quality of service; 3 is reserved", default=0)
    retain: Annotated[int, Bits(1)] = row("kept by the broker for new subscribers", default=0)
    remaining_length: Annotated[int, Varint()] = row("bytes of variable header and payload", default=0)

    def append(self, out: bytearray, context: Context = DEFAULT) -> None:
        """Append the header as `Layout.append` does. Raises WireError for reserved values, too."""
        require_defined(self, len(out))
        super().append(out, context)


def require_defined(header: FixedHeader, at: int, *, mqtt_5: bool = False) -> None:
    """Refuse the reserved message types and QoS 3 of a header at byte `at`. Raises WireError."""
    if header.type in (PacketType.RESERVED_0, PacketType.AUTH) and not (header.type and mqtt_5):
        why = "15 is reserved; in MQTT 5 it is AUTH" if header.type else "0 is reserved"
        raise WireError("FixedHeader.type", at, why)
    if header.qos == RESERVED_QOS:
        raise WireError("FixedHeader.qos", at, "3 is reserved")


def length_bytes(length: int) -> bytes:
    """Return a remaining length, or another variable byte integer, as bytes.

    Raises ValueError as `length_size` does.
    """
    last = length_size(length) - 1
    return bytes((length >> 7 * place & 0x7F) | (0x80 if place < last else 0) for place in range(last + 1))


def length_size(length: int) -> int:
    """Return the number of bytes that a remaining length takes.

    Raises ValueError outside 0 to `MAX_REMAINING_LENGTH`.
    """
    if length >= 0:
        for size, limit in enumerate(_LENGTH_LIMITS, 1):
            if length < limit:
                return size
    raise ValueError(f"a remaining length of {length:,} is not within 0 to {MAX_REMAINING_LENGTH:,}")


def publish_size(topic: str, payload_size: int, qos: int, properties_size: int | None) -> int:
    """Return the number of bytes of a whole PUBLISH packet.

    `properties_size` is the size of the properties without their length; None before MQTT 5, which has no properties.
    Raises ValueError when no packet can be that large.
    """
    remaining = _variable_header_size(topic, qos, properties_size) + payload_size
    return 1 + length_size(remaining) + remaining


def largest_payload(packet_limit: int, topic: str, qos: int, properties_size: int | None) -> int:
    """Return the most payload bytes that a PUBLISH of at most `packet_limit` bytes can carry.

    The result is negative when not even an empty payload fits.
    """
    remaining = max(min(packet_limit - 1 - size, limit - 1) for size, limit in enumerate(_LENGTH_LIMITS, 1))
    return remaining - _variable_header_size(topic, qos, properties_size)


def _variable_header_size(topic: str, qos: int, properties_size: int | None) -> int:
    size = 2 + len(topic.encode()) + (2 if qos else 0)
    return size if properties_size is None else size + length_size(properties_size) + properties_size


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

    `properties` comes without its length and is empty before MQTT 5. The payload is a slice of the packet. `identifier`
    is 0 with QoS 0.
    """

    topic: str
    properties: bytes
    payload: memoryview
    identifier: int = 0


class _Topic(Layout):
    """The length of a topic name."""

    length: Annotated[int, Num("H")] = row("bytes of the topic name")


class _Properties(Layout):
    """The length of a property section."""

    length: Annotated[int, Varint()] = row("bytes of properties")


def packets(data: memoryview, version: Version | None = None) -> Iterator[ControlPacket]:
    """Yield the packets of a buffer that holds only whole packets.

    AUTH is accepted when the version is MQTT 5, or is not given and a CONNECT of MQTT 5 came before. Raises WireError.
    """
    at = 0
    while at < len(data):
        header, start = FixedHeader.decode(data, at)
        require_flags(header, at, version)
        end = start + header.remaining_length
        if end > len(data):
            why = f"{header.remaining_length} bytes must follow, but only {len(data) - start} do"
            raise WireError("FixedHeader.remaining_length", len(data), why)
        packet = ControlPacket(at, header, start, end)
        yield packet
        version = version or ("5" if is_connect_of_mqtt_5(data, packet) else None)
        at = end


def is_connect_of_mqtt_5(data: memoryview, packet: ControlPacket) -> bool:
    """Tell whether a packet is the CONNECT of a client of MQTT 5."""
    return packet.type is PacketType.CONNECT and bytes(data[packet.start : packet.end][:7]) == b"\0\4MQTT\5"


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
    identifier = b""
    if packet.header.qos:
        identifier, at = _taken(body, at, 2, "PUBLISH.packet_identifier")
    properties = b""
    if version == "5":
        section, at = _Properties.decode(body, at)
        properties, at = _taken(body, at, section.length, "PUBLISH.properties")
    try:
        return Publish(str(topic, "utf-8"), properties, body[at:], int.from_bytes(identifier))
    except UnicodeDecodeError as error:
        raise WireError("PUBLISH.topic", packet.start + 2 + error.start, f"not UTF-8: {error.reason}") from None


def _taken(body: memoryview, at: int, size: int, name: str) -> tuple[bytes, int]:
    if size > len(body) - at:
        raise WireError(name, at, f"{size:,} bytes, but only {len(body) - at:,} are left in the packet")
    return bytes(body[at : at + size]), at + size
