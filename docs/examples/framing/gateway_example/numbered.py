"""A framing with numbered parts: all that a message means is in its body, and no descriptor is needed.

A body is the word NUM1, a letter, a key of 16 bytes and a number of 4; behind that, a part (P) has bytes of a file, a
header (H) has the list of attachments as JSON, and a count (C) has nothing.
"""

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from app.codecs.sas import dialect
from app.framing.protocol import (
    ArrangementName,
    DeliveryContents,
    FileContent,
    Framing,
    Received,
    fixed_records,
    joined_file,
    message_identifier,
)
from app.model.attachment import AttachmentDefinition, AttachmentKind, MessageHeader
from app.model.errors import InvalidInputError
from app.model.event import Announced, Event, PartArrived, Unsequenced
from app.model.framing_facts import FramingTraits
from app.model.message import PhysicalMessage
from app.model.records import AttachmentRecord, DeliveryRecord, FramingOptions, OutgoingAttachment

_HEAD = struct.Struct(">4sc16sI")
_WORD = b"NUM1"
_TRAITS = FramingTraits("numbered", needs_descriptor=False)


@dataclass(frozen=True)
class Numbered(Framing):
    """See `app.framing.protocol.Framing`."""

    traits: FramingTraits = _TRAITS
    arrangement: ArrangementName = "numbered"
    kinds: frozenset[AttachmentKind] = frozenset({AttachmentKind.TEXT_FILE, AttachmentKind.BINARY_FILE})
    options: frozenset[str] = frozenset({"body_limit"})

    def read(self, message: PhysicalMessage, known: int) -> Event:
        letter, key, number = _head(message)
        if letter == b"P" and number:
            return PartArrived(key, number, len(message.body))
        if letter == b"C":
            return Unsequenced(key, (number, number), len(message.body))
        if letter == b"H":
            return Announced(_header(key, bytes(message.body[_HEAD.size :])), dialect.ALL)
        raise InvalidInputError("bad-numbered", "letter", 4, f"{letter!r} {number}")

    def is_header(self, message: PhysicalMessage) -> bool:
        return bytes(message.body[:5]) == _WORD + b"H" and len(message.body) >= _HEAD.size

    def attachment_key(self, message: PhysicalMessage) -> bytes:
        letter, key, _ = _head(message)
        if letter == b"H":
            raise InvalidInputError("bad-numbered", "letter", 4, "a header is a part of no attachment")
        return key

    def file(self, record: AttachmentRecord, received: Received) -> FileContent:
        return joined_file(received, _HEAD.size)

    def write(
        self, delivery: DeliveryRecord, options: FramingOptions, contents: DeliveryContents
    ) -> Iterator[PhysicalMessage]:
        numbers = count()
        for body in _bodies(delivery, options.body_limit - _HEAD.size, contents):
            yield PhysicalMessage(
                delivery.destination,
                _TRAITS.name,
                body=body,
                message_id=message_identifier(delivery.id, next(numbers)),
            )


NUMBERED = Numbered()


def _head(message: PhysicalMessage) -> tuple[bytes, bytes, int]:
    if len(message.body) < _HEAD.size:
        raise InvalidInputError("bad-numbered", "body", len(message.body), f"at least {_HEAD.size} bytes are wanted")
    word, letter, key, number = _HEAD.unpack_from(message.body)
    if word != _WORD:
        raise InvalidInputError("bad-numbered", "word", 0, f"{word!r} is not {_WORD!r}")
    return letter, key, number


def _header(key: bytes, listed: bytes) -> MessageHeader:
    try:
        entries = tuple(
            AttachmentDefinition(AttachmentKind(kind), bytes.fromhex(own), "FILENAME", name, description)
            for kind, own, name, description in json.loads(listed)
        )
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidInputError("bad-numbered", "attachments", _HEAD.size, str(error)) from error
    if not all(len(entry.correl_id) == len(key) and isinstance(entry.qualifier_2, str) for entry in entries):
        raise InvalidInputError("bad-numbered", "attachments", _HEAD.size, "a key of another size")
    return MessageHeader(key + bytes(8), 0, bytes(24), bytes(24), entries)


def _bodies(delivery: DeliveryRecord, room: int, contents: DeliveryContents) -> Iterator[bytes]:
    listed = [
        (int(each.kind), each.correl_id.hex(), each.qualifier_2, each.description) for each in delivery.attachments
    ]
    yield _HEAD.pack(_WORD, b"H", delivery.header_correl_id[:16], 0) + json.dumps(listed).encode()
    for attachment in delivery.attachments:
        number = 0
        for number, piece in enumerate(_pieces(attachment, room, contents), 1):
            yield _HEAD.pack(_WORD, b"P", attachment.correl_id, number) + piece
        yield _HEAD.pack(_WORD, b"C", attachment.correl_id, number)


def _pieces(attachment: OutgoingAttachment, room: int, contents: DeliveryContents) -> Iterator[bytes]:
    """Return the file in pieces; an empty one is a piece of nothing."""
    if not attachment.size:
        yield b""
    for piece in fixed_records(contents.pieces(attachment), room):
        yield bytes(piece)
