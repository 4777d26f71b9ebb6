"""MQTT 5 packets, as far as the sender and the proxy need them."""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from struct import pack, unpack_from
from typing import NamedTuple

PUBLISH, PUBACK, CONNACK = 3, 4, 2
DUP = 8
QOS = 2
_CORRELATION_DATA, _USER_PROPERTY = 0x09, 0x26
_SIZES = {0x01: 1, 0x02: 4, 0x23: 2}
_TEXTS = (0x03, 0x08, _CORRELATION_DATA)

Identity = tuple[bytes, bytes]
"""The identity of a physical message: its correlid, and a digest of its body."""


class Packet(NamedTuple):
    first: int
    body: bytes

    @property
    def type(self) -> int:
        return self.first >> 4

    @property
    def encoded(self) -> bytes:
        return bytes([self.first]) + number(len(self.body)) + self.body


def number(value: int) -> bytes:
    """Return a variable byte integer."""
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes(encoded) + bytes([value])


def text(value: bytes) -> bytes:
    return pack(">H", len(value)) + value


class Stream:
    """Bytes of one direction of a connection, split into packets."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[Packet]:
        """Yield the packets that are complete by now."""
        self._held += data
        while (packet := self._next()) is not None:
            yield packet

    def _next(self) -> Packet | None:
        if (found := _number(self._held, 1)) is None:
            return None
        size, start = found
        if len(self._held) < start + size:
            return None
        packet = Packet(self._held[0], bytes(self._held[start : start + size]))
        del self._held[: start + size]
        return packet


def _number(data: bytes | bytearray, at: int) -> tuple[int, int] | None:
    """Return a variable byte integer and its end; None if it is not complete."""
    value = shift = 0
    while at < len(data):
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at
    return None


def connect(client_id: str) -> bytes:
    """Return a CONNECT with a clean start that keeps no session."""
    return Packet(0x10, text(b"MQTT") + bytes([5, 2, 0, 60, 0]) + text(client_id.encode())).encoded


def publish(topic: str, identifier: int, correl_id: bytes, properties: Sequence[tuple[str, str]], body: bytes) -> bytes:
    """Return a PUBLISH of QoS 1."""
    given = bytearray(bytes([_CORRELATION_DATA]) + text(correl_id))
    for name, value in properties:
        given += bytes([_USER_PROPERTY]) + text(name.encode()) + text(value.encode())
    head = text(topic.encode()) + pack(">H", identifier) + number(len(given))
    return Packet(PUBLISH << 4 | QOS, head + bytes(given) + body).encoded


def acknowledged(packet: Packet) -> tuple[int, int]:
    """Return the packet identifier and the reason code of a PUBACK."""
    (identifier,) = unpack_from(">H", packet.body)
    return identifier, packet.body[2] if len(packet.body) > 2 else 0


def published(packet: Packet) -> tuple[int, Identity]:
    """Return the packet identifier (0 with QoS 0) of a PUBLISH and the message that it carries."""
    body = packet.body
    at = 2 + unpack_from(">H", body)[0]
    identifier = 0
    if packet.first & 6:
        (identifier,) = unpack_from(">H", body, at)
        at += 2
    found = _number(body, at)
    assert found is not None
    end = found[0] + found[1]
    return identifier, identity(_correlation_data(body, found[1], end), body[end:])


def identity(correl_id: bytes, body: bytes) -> Identity:
    return correl_id.ljust(24, b"\0"), blake2b(body, digest_size=8).digest()


def _correlation_data(body: bytes, at: int, end: int) -> bytes:
    while at < end:
        kind = body[at]
        at += 1
        if kind in _SIZES:
            at += _SIZES[kind]
            continue
        if kind == 0x0B:  # subscription identifier
            at = (_number(body, at) or (0, end))[1]
            continue
        (length,) = unpack_from(">H", body, at)
        if kind == _CORRELATION_DATA:
            return body[at + 2 : at + 2 + length]
        at += 2 + length
        if kind == _USER_PROPERTY:
            at += 2 + unpack_from(">H", body, at)[0]
    return b""
