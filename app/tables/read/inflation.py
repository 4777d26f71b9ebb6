"""How much memory the messages of an Arrow IPC file or stream ask for once they are decompressed.

A compressed buffer says its length beforehand, and Arrow takes that much memory at once: a small file could ask for all
there is. The layout is that of "Arrow Columnar Format: Serialization and Interprocess Communication", its metadata
are Flatbuffers.
"""

import struct
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from app.tables.read.reading import unreadable

MOST_INFLATED = 256 << 20
"""Bytes that the compressed buffers of one message, a batch or a dictionary, may have when decompressed."""

ARROW_MAGIC = b"ARROW1"
_CONTINUATION = b"\xff\xff\xff\xff"
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3
_COMPRESSED_IN_V4 = b"ARROW:experimental_compression"


class _Message(NamedTuple):
    metadata: bytes
    body: int


class _Table(NamedTuple):
    """A table of a Flatbuffer: fields are asked for by number, None stands for those that it lacks."""

    data: bytes
    at: int

    def place(self, field: int) -> int | None:
        vtable = self.at - self._number("i", self.at)
        slot = 4 + 2 * field
        offset = self._number("H", vtable + slot) if slot < self._number("H", vtable) else 0
        return self.at + offset if offset else None

    def number(self, layout: str, field: int) -> int:
        at = self.place(field)
        return 0 if at is None else self._number(layout, at)

    def table(self, field: int) -> "_Table | None":
        at = self.place(field)
        return None if at is None else _Table(self.data, at + self._number("I", at))

    def structs(self, layout: str, field: int) -> Iterator[tuple[int, ...]]:
        at = self.place(field)
        if at is None:
            return
        at += self._number("I", at)
        for number in range(self._number("I", at)):
            yield struct.unpack_from("<" + layout, self.data, at + 4 + number * struct.calcsize("<" + layout))

    def _number(self, layout: str, at: int) -> int:
        if at < 0:
            raise struct.error("an offset leads out of the metadata")
        (number,) = struct.unpack_from("<" + layout, self.data, at)
        return int(number)


def _root(data: bytes) -> _Table:
    return _Table(data, struct.unpack_from("<I", data)[0])


def check_inflation(file: BinaryIO, *, is_file: bool) -> None:
    """Looks at every message's metadata, not at the data. Raises TheirError for one that asks for too much."""
    try:
        for message in _of_file(file) if is_file else _of_stream(file):
            size = _inflated(file, message)
            if size > MOST_INFLATED:
                raise unreadable(
                    f"a batch of it has {size:,} bytes when decompressed; {MOST_INFLATED:,} are read at most:"
                    " write it in smaller batches"
                )
    except struct.error as error:
        raise unreadable(f"it is damaged: {error}") from None


def _of_stream(file: BinaryIO) -> Iterator[_Message]:
    at = 0
    while True:
        metadata, body = _metadata(file, at)
        if not metadata:
            return
        yield _Message(metadata, body)
        at = body + max(_root(metadata).number("q", 3), 0)


def _of_file(file: BinaryIO) -> Iterator[_Message]:
    tail = 4 + len(ARROW_MAGIC)
    end = file.seek(0, 2) - tail
    file.seek(max(end, 0))
    (length,) = struct.unpack_from("<i", file.read(4))
    if not 0 < length <= end:
        raise struct.error("its footer is cut off")
    file.seek(end - length)
    footer = _root(file.read(length))
    for field in (2, 3):
        for offset, metadata_length, body_length in footer.structs("qi4xq", field):
            del body_length
            if offset < 0:
                raise struct.error("an offset leads out of the file")
            yield _Message(_metadata(file, offset)[0], offset + metadata_length)


def _metadata(file: BinaryIO, at: int) -> tuple[bytes, int]:
    """A message's metadata, none at the end, and the place behind them. Before Arrow 0.15 nothing stood before their
    length."""
    file.seek(at)
    head = file.read(4)
    if head == _CONTINUATION:
        head = file.read(4)
    length = int.from_bytes(head, "little", signed=True)
    return (file.read(length) if length > 0 else b""), file.tell()


def _inflated(file: BinaryIO, message: _Message) -> int:
    if not message.metadata:
        return 0
    root = _root(message.metadata)
    kind, batch = root.number("B", 1), root.table(2)
    if batch is not None and kind == _DICTIONARY_BATCH:
        batch = batch.table(1)
    if batch is None or kind not in {_DICTIONARY_BATCH, _RECORD_BATCH}:
        return 0
    if batch.place(3) is None and _COMPRESSED_IN_V4 not in message.metadata:
        return 0
    return sum(_claim(file, message.body + at) for at, length in batch.structs("qq", 2) if length)


def _claim(file: BinaryIO, at: int) -> int:
    """The length that a compressed buffer says; -1 marks one that is not compressed."""
    if at < 0:
        raise struct.error("an offset leads out of the file")
    file.seek(at)
    return max(int.from_bytes(file.read(8), "little", signed=True), 0)
