"""The MQTT fixed header, and how large a publish will be.

Source: "WebSphere MQ Telemetry Transport fixed header", which describes MQTT 3.1 and holds unchanged for 3.1.1 and 5.
MQTT 5 adds that a length takes the fewest bytes that it can, which is asked of every version here.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import Annotated, Self

from app.wire import Bits, Cell, Context, Layout, Varint, WireError, row
from app.wire.kinds import Buffer
from app.wire.layout import DEFAULT

MAX_REMAINING_LENGTH = 268_435_455
"""The largest remaining length: four bytes of seven bits."""

_LENGTH_LIMITS = (1 << 7, 1 << 14, 1 << 21, 1 << 28)


class PacketType(IntEnum):
    """Message types, by the mnemonics of the specification; 15 is AUTH in MQTT 5."""

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
    RESERVED_15 = 15


class FixedHeader(Layout):
    """The first 2 to 5 bytes of every MQTT packet."""

    type: Annotated[PacketType, Bits(4, PacketType)] = row("message type")
    dup: Annotated[int, Bits(1)] = row("duplicate delivery", default=0)
    qos: Annotated[int, Bits(2)] = row("quality of service; 3 is reserved", default=0)
    retain: Annotated[int, Bits(1)] = row("kept by the broker for new subscribers", default=0)
    remaining_length: Annotated[int, Varint()] = row("bytes of variable header and payload", default=0)

    @classmethod
    def decode(cls, buffer: Buffer, at: int = 0, context: Context = DEFAULT) -> tuple[Self, int]:
        """The header at byte `at`, and where it ends. Raises WireError, also for a length longer than needed."""
        header, end = super().decode(buffer, at, context)
        _require_shortest(header.remaining_length, at + 1, end)
        return header, end

    @classmethod
    def cells(cls, buffer: Buffer, at: int = 0, context: Context = DEFAULT, path: str = "") -> Iterator[Cell]:
        """The header row by row. Raises WireError as `decode` does."""
        for cell in super().cells(buffer, at, context, path):
            yield cell
            if cell.name.endswith("remaining_length"):
                _require_shortest(cell.value, cell.at, cell.at + cell.size)


def length_bytes(length: int) -> bytes:
    """A remaining length, or any length that MQTT writes alike. Raises ValueError as `length_size` does."""
    last = length_size(length) - 1
    return bytes((length >> 7 * place & 0x7F) | (0x80 if place < last else 0) for place in range(last + 1))


def length_size(length: int) -> int:
    """Bytes of a remaining length. Raises ValueError outside 0 to `MAX_REMAINING_LENGTH`."""
    if length >= 0:
        for size, limit in enumerate(_LENGTH_LIMITS, 1):
            if length < limit:
                return size
    raise ValueError(f"a remaining length of {length:,} is not within 0 to {MAX_REMAINING_LENGTH:,}")


def publish_size(topic: str, payload_size: int, qos: int, properties_size: int | None) -> int:
    """Bytes of a whole PUBLISH packet.

    `properties_size` counts the properties without their length in front; None before MQTT 5, which has none. Raises
    ValueError when no packet can be that large.
    """
    remaining = _variable_header_size(topic, qos, properties_size) + payload_size
    return 1 + length_size(remaining) + remaining


def largest_payload(packet_limit: int, topic: str, qos: int, properties_size: int | None) -> int:
    """The most bytes of payload that a PUBLISH of at most `packet_limit` bytes can carry; negative when not even an
    empty one fits."""
    remaining = max(min(packet_limit - 1 - size, limit - 1) for size, limit in enumerate(_LENGTH_LIMITS, 1))
    return remaining - _variable_header_size(topic, qos, properties_size)


def _variable_header_size(topic: str, qos: int, properties_size: int | None) -> int:
    size = 2 + len(topic.encode()) + (2 if qos else 0)
    return size if properties_size is None else size + length_size(properties_size) + properties_size


def _require_shortest(length: int, start: int, end: int) -> None:
    if end - start != length_size(length):
        why = f"{end - start} bytes for a length of {length}, which fits {length_size(length)}"
        raise WireError("FixedHeader.remaining_length", start, why)
