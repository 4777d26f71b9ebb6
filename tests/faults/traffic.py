"""Messages with attachments as a program sends them.

They are written after "Using the SAS Common Messaging Interface", byte by byte: big-endian, `long` of 4 bytes,
character strings with a NUL that their length does not count.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from random import Random
from struct import pack
from typing import NamedTuple

from tests.faults.packets import Identity, identity

HEADER, SUBORDINATE = 100000, 100001
DATA_SET, TEXT_FILE, BINARY_FILE = 1, 2, 3
KEY_BYTES = 16
APPLICATION = b"This is the actual application message."
_DEFINITION, _VARIABLES, _OBSERVATIONS = 1, 2, 3
_TEXT_LENGTH = 12


class Message(NamedTuple):
    """A physical message. `properties` are the sender's own."""

    msg_type: int
    correl_id: bytes
    body: bytes
    properties: tuple[tuple[str, str], ...] = ()

    @property
    def identity(self) -> Identity:
        return identity(self.correl_id, self.body)


@dataclass(frozen=True)
class Attachment:
    """An attachment, its parts with their count, and the expected content: bytes, or the rows of a data set."""

    key: bytes
    kind: int
    name: str
    content: bytes
    parts: tuple[Message, ...]
    rows: tuple[tuple[float, str], ...] = ()

    @property
    def sha256(self) -> str:
        return sha256(self.content).hexdigest()


class Letter(NamedTuple):
    """An application message with its attachments."""

    head: tuple[Message, ...]
    attachments: tuple[Attachment, ...]

    @property
    def messages(self) -> list[Message]:
        return [*self.head, *chain.from_iterable(each.parts for each in self.attachments)]


def letter(random: Random, attachments: Sequence[Attachment]) -> Letter:
    header, application = _correl_id(random.randbytes(KEY_BYTES)), _correl_id(random.randbytes(KEY_BYTES))
    body = header + pack(">i", 8) + bytes(24) + application + pack(">i", len(attachments))
    for each in attachments:
        first = b"WORK" if each.kind == DATA_SET else b"FILENAME"
        body += pack(">i", each.kind) + _correl_id(each.key)
        body += _text(first) + _text(each.name.encode()) + _text(b"sent by the fault campaign") + bytes(8)
    return Letter((Message(HEADER, header, body), Message(SUBORDINATE, application, APPLICATION)), tuple(attachments))


def binary_file(random: Random, name: str, size: int, part: int = 32_000) -> Attachment:
    content = random.randbytes(size)
    length = part - 4
    records = [content[at : at + length] for at in range(0, size, length)]
    return _file(random, BINARY_FILE, name, content, records, length, part)


def text_file(random: Random, name: str, lines: int, part: int = 32_000) -> Attachment:
    records = [random.randbytes(random.randrange(60)).hex().encode() for _ in range(lines)]
    content = b"".join(record + b"\n" for record in records)
    return _file(random, TEXT_FILE, name, content, records, 32_767, part)


def data_set(random: Random, name: str, rows: int, part: int = 32_000) -> Attachment:
    """Return a data set of a number and a text."""
    values = tuple((random.randrange(1 << 40) / 8, random.randbytes(_TEXT_LENGTH // 2).hex()) for _ in range(rows))
    size = 8 + _TEXT_LENGTH
    definition = pack(">ii", _DEFINITION, 0) + _text(b"DATA") + _text(b"") + pack(">iii", rows, 2, size) + _text(b"NO")
    definition += b"N" + _text(b"NO") + pack(">i", 0) + _text(b"") + pack(">h", 0) + bytes(24)
    variables = pack(">i", _VARIABLES) + _variable(b"X", 1, 8) + _variable(b"T", 2, _TEXT_LENGTH)
    together = max(1, (part - 4) // size)
    observed = [pack(">d", number) + text.encode() for number, text in values]
    bodies = [definition, variables]
    bodies += [pack(">i", _OBSERVATIONS) + b"".join(observed[at : at + together]) for at in range(0, rows, together)]
    return _attachment(random, DATA_SET, name, b"", bodies, values)


def mixed(random: Random, count: int, largest: int = 60_000, part: int | None = None) -> Iterator[Letter]:
    """Yield letters with this number of attachments together, of every kind and of sizes up to about `largest`."""
    number = 0
    while number < count:
        together: list[Attachment] = []
        for _ in range(min(count - number, random.randint(1, 3))):
            size, limit = random.randrange(largest), part or random.choice((1_000, 8_000, 32_000))
            kind = random.choices((BINARY_FILE, TEXT_FILE, DATA_SET), (6, 3, 1))[0]
            name = f"file-{number}"
            if kind == BINARY_FILE:
                together.append(binary_file(random, name, size, limit))
            elif kind == TEXT_FILE:
                together.append(text_file(random, name, size // 64, limit))
            else:
                together.append(data_set(random, f"T{number}", size // 20, limit))
            number += 1
        yield letter(random, together)


def _file(
    random: Random, kind: int, name: str, content: bytes, records: Sequence[bytes], lrecl: int, part: int
) -> Attachment:
    bodies = [pack(">ii", lrecl, len(content))]
    held = bytearray()
    for record in records:
        if held and len(held) + 4 + len(record) > part:
            bodies.append(bytes(held))
            held.clear()
        held += pack(">i", len(record)) + record
    bodies += [bytes(held)] if held else []
    return _attachment(random, kind, name, content, bodies)


def _attachment(
    random: Random,
    kind: int,
    name: str,
    content: bytes,
    bodies: Sequence[bytes],
    rows: tuple[tuple[float, str], ...] = (),
) -> Attachment:
    key = random.randbytes(KEY_BYTES)
    parts = [Message(SUBORDINATE, _correl_id(key, number), body) for number, body in enumerate(bodies, 1)]
    count = Message(SUBORDINATE, _correl_id(key), pack(">i", len(bodies)))
    return Attachment(key, kind, name, content, (*parts, count), rows)


def _variable(name: bytes, kind: int, length: int) -> bytes:
    return _text(name) + _text(b"") * 3 + bytes([kind]) + pack(">iiiii", length, 0, 0, 0, 0) + bytes(1)


def _text(value: bytes) -> bytes:
    return pack(">i", len(value)) + value + b"\0"


def _correl_id(key: bytes, sequence: int = 0) -> bytes:
    return key + pack(">i", sequence) + bytes(4)
