"""What survives the queue manager: an append-only file of records.

A record is one unit of work, or one definition: its length, its entries, its length again. Only a record that is there
to its end counts, so a queue manager killed between any two writes leaves whole units of work. The file is written
without fsync by default (a killed process loses nothing that was written; a power cut may), with `sync` it is flushed
with every record.

A message that a unit of work had got when the queue manager was killed is back with the BackoutCount it had: believed,
the pages say only that the count survives a restart.

Only persistent messages are written. When little of the log is still needed it is written anew, and the new one
renamed into its place.
"""

import json
import os
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.queue_manager.server.queue import Message
from tests.queue_manager.server.structures import MQMD_LENGTH_2, Buffer

_LENGTH = struct.Struct("=Q")
_ENTRY = struct.Struct("=cQI")
"""What it says, of which message (by number), and the length of the rest."""
_PUT = struct.Struct("=Hd")
"""The length of the queue's name, and when the message expires (0: never)."""
_COUNT = struct.Struct("=I")

_IOV_MAX = os.sysconf("SC_IOV_MAX")
_WORTH_REWRITING = 1 << 28
_TIMES_TOO_LARGE = 8


@dataclass(frozen=True, slots=True)
class Put:
    """A message that came to a queue."""

    number: int
    queue: str
    descriptor: Buffer
    expires: float | None
    data: Buffer


@dataclass(frozen=True, slots=True)
class Got:
    """A message that is gone."""

    number: int


@dataclass(frozen=True, slots=True)
class BackedOut:
    """A message that came back, and how often it has by now."""

    number: int
    count: int


@dataclass(frozen=True, slots=True)
class Defined:
    """A queue with these attributes."""

    queue: str
    attributes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Deleted:
    queue: str


@dataclass(frozen=True, slots=True)
class ObjectDefined:
    """A channel or a namelist with these attributes; without any it is gone."""

    kind: str
    name: str
    attributes: dict[str, Any] | None


Entry = Put | Got | BackedOut | Defined | Deleted | ObjectDefined


class MessageLog:
    """The log in one file."""

    def __init__(self, path: Path, *, sync: bool = False) -> None:
        self._path, self._sync = path, sync
        self._needed: dict[int, int] = {}
        self._needed_bytes = 0
        self._descriptor = -1
        self._size = 0

    def open(self) -> Iterator[Entry]:
        """What the log holds; after the last entry it is ready for more. What was torn off at its end is cut off."""
        content = memoryview(self._path.read_bytes()) if self._path.exists() else memoryview(b"")
        at = 0
        for start, end in _records(content):
            for entry in _entries(content[start:end]):
                self._account(entry)
                yield entry
            at = end + _LENGTH.size
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.ftruncate(self._descriptor, at)
        os.lseek(self._descriptor, at, os.SEEK_SET)
        self._size = at

    def close(self) -> None:
        os.close(self._descriptor)

    def write(self, entries: Iterable[Entry]) -> None:
        """Appends one record."""
        parts: list[Buffer] = []
        for entry in entries:
            parts += _parts(entry)
            self._account(entry)
        if not parts:
            return
        length = sum(map(len, parts))
        self._write([_LENGTH.pack(length), *parts, _LENGTH.pack(length)])
        self._size += length + 2 * _LENGTH.size
        if self._sync:
            os.fdatasync(self._descriptor)

    def worth_rewriting(self) -> bool:
        """Whether the log has grown far beyond what it is still needed for."""
        return self._size > _WORTH_REWRITING and self._size > _TIMES_TOO_LARGE * self._needed_bytes

    def rewrite(self, entries: Iterable[Entry]) -> None:
        """Puts a log of one record in this one's place."""
        successor = MessageLog(self._path.with_suffix(".new"), sync=self._sync)
        successor._path.unlink(missing_ok=True)
        for _ in successor.open():
            pass
        successor.write(entries)
        successor._path.rename(self._path)
        self.close()
        self._descriptor, self._size = successor._descriptor, successor._size
        self._needed, self._needed_bytes = successor._needed, successor._needed_bytes

    def _account(self, entry: Entry) -> None:
        if isinstance(entry, Put):
            self._needed[entry.number] = len(entry.data)
            self._needed_bytes += len(entry.data)
        elif isinstance(entry, Got):
            self._needed_bytes -= self._needed.pop(entry.number)

    def _write(self, parts: list[Buffer]) -> None:
        for first in range(0, len(parts), _IOV_MAX):
            some = parts[first : first + _IOV_MAX]
            written = os.writev(self._descriptor, some)
            rest = memoryview(b"".join(some))[written:] if written < sum(map(len, some)) else memoryview(b"")
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]


def logged(message: Message) -> Put:
    return Put(
        message.number,
        message.queue.name,
        message.descriptor.packed(version=2),
        message.expires,
        message.data,
    )


def _records(content: memoryview) -> Iterator[tuple[int, int]]:
    """Where the whole records' entries start and end."""
    at = 0
    while at + _LENGTH.size <= len(content):
        start = at + _LENGTH.size
        end = start + _LENGTH.unpack_from(content, at)[0]
        if content[at:start] != content[end : end + _LENGTH.size]:
            return
        yield start, end
        at = end + _LENGTH.size


def _parts(entry: Entry) -> tuple[Buffer, ...]:
    match entry:
        case Put(number, queue, descriptor, expires, data):
            name = queue.encode()
            body = _PUT.pack(len(name), expires or 0.0) + name
            return _ENTRY.pack(b"P", number, len(body) + len(descriptor) + len(data)) + body, descriptor, data
        case Got(number):
            return (_ENTRY.pack(b"G", number, 0),)
        case BackedOut(number, count):
            return (_ENTRY.pack(b"B", number, _COUNT.size) + _COUNT.pack(count),)
        case Defined(queue, attributes):
            text = json.dumps([queue, attributes]).encode()
            return (_ENTRY.pack(b"D", 0, len(text)) + text,)
        case Deleted(queue):
            name = queue.encode()
            return (_ENTRY.pack(b"X", 0, len(name)) + name,)
        case ObjectDefined(kind, called, attributes_or_none):
            text = json.dumps([kind, called, attributes_or_none]).encode()
            return (_ENTRY.pack(b"O", 0, len(text)) + text,)


def _entries(record: memoryview) -> Iterator[Entry]:
    at = 0
    while at < len(record):
        kind, number, length = _ENTRY.unpack_from(record, at)
        at += _ENTRY.size
        yield _READERS[kind](number, record[at : at + length])
        at += length


def _read_put(number: int, body: memoryview) -> Put:
    name_length, expires = _PUT.unpack_from(body)
    name_end = _PUT.size + name_length
    descriptor_end = name_end + MQMD_LENGTH_2
    return Put(
        number,
        bytes(body[_PUT.size : name_end]).decode(),
        bytes(body[name_end:descriptor_end]),
        expires or None,
        bytes(body[descriptor_end:]),
    )


_READERS: dict[bytes, Callable[[int, memoryview], Entry]] = {
    b"P": _read_put,
    b"G": lambda number, body: Got(number),
    b"B": lambda number, body: BackedOut(number, _COUNT.unpack(body)[0]),
    b"D": lambda number, body: Defined(*json.loads(bytes(body))),
    b"X": lambda number, body: Deleted(bytes(body).decode()),
    b"O": lambda number, body: ObjectDefined(*json.loads(bytes(body))),
}
