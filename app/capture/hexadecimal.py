"""Lines of hexadecimal digits, one capture per line, optionally with its time: MQTT packets, or a tibrvMsg.

    # the first message of the morning
    2026-11-21T07:30:00.125Z 30 0f 00 03 ...
    1795246200.125 300f0003...                      # the same time in seconds since 1970
    300f0003...

Empty lines and text after a `#` are ignored, as are blanks, tabs, colons and hyphens between digits. The first word is
a time if it is an ISO 8601 time with a `T` (UTC without a zone), or a number of seconds with a point.

A publish of MQTT becomes a message as a received one does, and one that is sent again (DUP, with the packet identifier
and the bytes of an earlier one) is skipped. It does not state its MQTT version. The envelope reveals it:
user properties exist only in MQTT 5, and an MQ image stands where the payload of one version or the other begins.
Framings that travel without an envelope need the version as an argument.

A line of TIB/Rendezvous is a message as a program sends it, or a frame as a daemon and its clients exchange it. Of a
publication the data are taken, with its subject; other frames are skipped.
"""

import re
from collections.abc import Generator, Iterable, Iterator
from datetime import datetime
from functools import partial
from hashlib import blake2b
from typing import NamedTuple

from app.capture.capture_entries import BoundedLine, Entry, LineError, Origin, RefusedEntry, SkippedEntry
from app.codecs.ibm_mq.image import is_image
from app.codecs.mqtt import mqtt_envelope, properties
from app.codecs.mqtt.packets import (
    ControlPacket,
    PacketType,
    Publish,
    Version,
    is_connect_of_mqtt_5,
    packets,
    read_publish,
)
from app.codecs.rendezvous import rendezvous_envelope
from app.codecs.rendezvous.daemon import DaemonMessageKind, is_frame, read_frame
from app.codecs.rendezvous.fields import message_end
from app.model.errors import InvalidInputError
from app.model.message import PhysicalMessage
from app.model.times import to_microseconds
from app.wire import WireError

_BETWEEN_DIGITS = b" \t:-\r\n\f\v"
_NO_DIGIT = re.compile(rb"[^0-9A-Fa-f \t:\-\r\n\f\v]")
_ISO_TIME = re.compile(rb"\s*(\d{4}-\d\d-\d\dT\S*)")
_SECONDS = re.compile(rb"\s*(\d{1,11})\.(\d{1,9})(?=\s)")
"""Seconds since 1970, as `mosquitto_sub -F '%U'` prints them. A number without a point could be bytes."""


class CapturedBytes(NamedTuple):
    """The content of a line: its number, its bytes, and their capture time (µs since 1970, 0 if unknown)."""

    line: int
    data: bytes
    time: int = 0


def captures(lines: Iterable[BoundedLine], origin: Origin) -> Iterator[CapturedBytes | RefusedEntry]:
    """Yield the content of each line. A malformed line is refused as `bad-capture`."""
    for line in lines:
        try:
            line.require_whole()
            found = capture(line)
        except LineError as error:
            yield origin.refused(line.content, "bad-capture", error.why, line.number, error.at)
        else:
            if found is not None:
                yield found


def capture(line: BoundedLine) -> CapturedBytes | None:
    """Return the content of a line of hexadecimal digits, or None if it is empty. Raises LineError."""
    text = line.content.partition(b"#")[0]
    if not text.strip():
        return None
    if found := _ISO_TIME.match(text):
        try:
            time, start = microseconds(str(found[1], "latin-1")), found.end()
        except ValueError:
            raise LineError(
                found.start(1), f"{str(found[1][:40], 'latin-1')!r} is not an ISO 8601 time from 1970 on"
            ) from None
    elif found := _SECONDS.match(text):
        time, start = int(found[1] + found[2][:6].ljust(6, b"0")), found.end()
    else:
        time, start = 0, 0
    digits = text[start:]
    if wrong := _NO_DIGIT.search(digits):
        raise LineError(start + wrong.start(), f"not a hexadecimal digit: {chr(digits[wrong.start()])!r}")
    digits = digits.translate(None, _BETWEEN_DIGITS)
    if not digits:
        raise LineError(start, "no bytes follow the time")
    if len(digits) % 2:
        raise LineError(len(text), f"odd number of hexadecimal digits: {len(digits):,}")
    return CapturedBytes(line.number, bytes.fromhex(str(digits, "ascii")), time)


def microseconds(text: str) -> int:
    """Return an ISO 8601 time in microseconds since 1970; without a zone it is UTC. Raises ValueError."""
    since = to_microseconds(datetime.fromisoformat(text))
    if since < 0:
        raise ValueError(f"{text!r} is before 1970")
    return since


def read_mqtt(lines: Iterable[BoundedLine], origin: Origin, version: Version | None = None) -> Iterator[Entry]:
    """Yield the publishes of a capture in their order.

    Other packets, and publishes that came before, are skipped, by their names. Refused are, as `bad-capture`, a line;
    as `bad-mqtt-packet`, a bad packet with the rest of its line; as `bad-envelope`, `bad-mq-image` or `no-envelope`, a
    publish, with its payload as body. With `version` None, the envelope determines it; framings that travel without an
    envelope need it.
    """
    known, first_copies = version, dict[int, bytes]()
    for found in captures(lines, origin):
        if isinstance(found, RefusedEntry):
            yield found
        else:
            known = yield from _mqtt_entries(found, origin, version, known, first_copies)


def _mqtt_entries(
    found: CapturedBytes, origin: Origin, version: Version | None, known: Version | None, first_copies: dict[int, bytes]
) -> Generator[Entry, None, Version | None]:
    """Yield the entries of a line. Return the version of its packets, as it is `known` after them.

    `first_copies` are digests of publishes by their packet identifiers, which are released with PUBREL.
    """
    data, received_at = memoryview(found.data), found.time or origin.now()
    unread = PhysicalMessage(origin.initial.source, origin.initial.framing, received_at=received_at)
    at = 0
    try:
        for packet in packets(data, known):
            at = packet.at
            if packet.type is not PacketType.PUBLISH:
                if is_connect_of_mqtt_5(data, packet):
                    known = known or "5"
                elif packet.type is PacketType.PUBREL:
                    first_copies.pop(int.from_bytes(data[packet.start : packet.start + 2]), None)
                yield SkippedEntry(packet.type.name)
            elif _is_repeated(
                packet, publish := read_publish(data, packet, version or _version(data, packet)), first_copies
            ):
                yield SkippedEntry("repeated PUBLISH")
            else:
                body, given, topic = publish.payload, publish.properties, partial(str, publish.topic)
                try:
                    message = mqtt_envelope.read(body, given, unread.source, origin.framing, received_at, topic)
                except InvalidInputError as error:
                    refused = unread._replace(body=body)
                    yield RefusedEntry(refused, error.code, str(error), found.line, -1, error.row, error.at)
                else:
                    yield origin.completed(message)
            at = packet.end
    except WireError as error:
        yield RefusedEntry(unread._replace(body=data[at:]), "bad-mqtt-packet", str(error), found.line)
    return known


def _is_repeated(packet: ControlPacket, publish: Publish, first_copies: dict[int, bytes]) -> bool:
    """Tell whether a publish is one that came before, and note it. A broker counts the message expiry interval down."""
    if not publish.identifier:
        return False
    expiry = properties.message_expiry_interval(publish.properties) or slice(0, 0)
    given = publish.properties[: expiry.start], publish.properties[expiry.stop :]
    digest = blake2b(publish.topic.encode())
    for piece in (b"\0", *given, publish.payload):
        digest.update(piece)
    before, now = first_copies.get(publish.identifier), digest.digest()
    first_copies[publish.identifier] = now
    return bool(packet.header.dup) and before == now


def _version(data: memoryview, packet: ControlPacket) -> Version:
    """Return the version of a publish by its envelope; 3.1.1 without an envelope."""
    if is_image(read_publish(data, packet, "3.1.1").payload):
        return "3.1.1"
    try:
        properties.decode(read_publish(data, packet, "5").properties)
    except WireError:
        return "3.1.1"
    return "5"


def read_rendezvous(lines: Iterable[BoundedLine], origin: Origin) -> Iterator[Entry]:
    """Return the messages of a capture in their order. Refused are `bad-capture`: a line; `bad-rendezvous-message`:
    bytes that are not one whole message; `bad-mq-image`: a publication of an image that cannot be read."""
    for found in captures(lines, origin):
        if isinstance(found, RefusedEntry):
            yield found
            continue
        try:
            yield _rendezvous_entry(found.data, origin, found.time or origin.now())
        except WireError as error:
            yield origin.refused(found.data, "bad-rendezvous-message", str(error), found.line, error=error)
        except InvalidInputError as error:
            yield origin.refused(found.data, error.code, str(error), found.line)


def _rendezvous_entry(data: bytes, origin: Origin, received_at: int) -> Entry:
    initial = origin.initial
    if message_end(data, 0, len(data)) != len(data):
        raise WireError("length", 0, f"there are {len(data):,} bytes, and the message has fewer")
    if not is_frame(data):
        return PhysicalMessage(initial.source, initial.framing, body=data, received_at=received_at)
    frame = read_frame(data)
    if frame.kind != DaemonMessageKind.DATA:
        return SkippedEntry(f"frames of kind {frame.kind}")
    return rendezvous_envelope.read(frame, initial.source, origin.framing, received_at)
