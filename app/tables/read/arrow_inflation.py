"""Check the messages of an Arrow IPC file or stream: that they are whole, and how much memory they need.

A message states its length in advance, and so does a compressed buffer in it. Arrow allocates that much memory at once:
a small file could ask for all memory. Arrow also ends a stream without an error where bytes are missing, and ignores
bytes after the end. Source: "Arrow Columnar Format: Serialization and Interprocess Communication"; the metadata are
Flatbuffers.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple

from app.tables.read.damage_errors import ARROW, damaged
from app.tables.read.read_request import unreadable

MOST_INFLATED = 256 << 20
"""The maximum size in bytes of the decompressed buffers of one message, a batch or a dictionary."""

ARROW_MAGIC = b"ARROW1"
_FILE_BEGINS = 8
_BEGIN_OF_SCHEMA = 256
"""Bytes of a schema's message that are enough to recognise it."""
_CONTINUATION = b"\xff\xff\xff\xff"
_OLD_END = bytes(4)
_END = _CONTINUATION + _OLD_END
_SCHEMA, _DICTIONARY_BATCH, _RECORD_BATCH = 1, 2, 3
_COMPRESSED_IN_V4 = b"ARROW:experimental_compression"


class _Message(NamedTuple):
    metadata: bytes
    body: int
    at: int
    """The byte of the file at which it begins."""

    @property
    def end(self) -> int:
        """The byte behind its body."""
        return self.body + max(_root(self.metadata).number("q", 3), 0)

    @property
    def is_batch(self) -> bool:
        return _root(self.metadata).number("B", 1) == _RECORD_BATCH


class _Table(NamedTuple):
    """A table of a Flatbuffer. Fields are read by number; a missing field is None."""

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
            raise struct.error
        (number,) = struct.unpack_from("<" + layout, self.data, at)
        return int(number)


def _root(data: bytes) -> _Table:
    return _Table(data, struct.unpack_from("<I", data)[0])


def is_stream(head: bytes) -> bool:
    """Tell whether a file begins as an Arrow IPC stream: its first message is a schema."""
    if not head.startswith(_CONTINUATION):
        return False
    length = int.from_bytes(head[4:8], "little", signed=True)
    return length > 0 and _is_schema(head[8 : 8 + length])


def _is_schema(metadata: bytes) -> bool:
    try:
        return _root(metadata).number("B", 1) == _SCHEMA
    except struct.error:
        return False


def check_messages(file: BinaryIO, *, is_file: bool) -> str:
    """Check every message's metadata, without its data. Return a remark for people, or "".

    Raises InvalidInputError for a message that is cut off or needs too much memory, for bytes behind the end of a
    stream, and for a file whose footer lists fewer batches than the file has.
    """
    if is_file:
        _check_file(file)
        return ""
    size = file.seek(0, 2)
    at = 0
    for message in _of_stream(file, 0):
        _check_size(file, message)
        at = message.end
    file.seek(at)
    marker = file.read(len(_END))
    if not marker:
        return "the stream has no end-of-stream marker; if it was cut off there, rows are missing"
    end = at + (len(_END) if marker == _END else len(_OLD_END))
    if end != size or not _END.endswith(marker):
        raise damaged(ARROW, f"{size - at:,} bytes from byte {at:,} on are not a message")
    return ""


@contextmanager
def _within(what: str) -> Iterator[None]:
    """Raise InvalidInputError for offsets that lead out of what they are in."""
    try:
        yield
    except struct.error:
        raise damaged(ARROW, f"{what} points outside of itself") from None


def _check_file(file: BinaryIO) -> None:
    tail = 4 + len(ARROW_MAGIC)
    end = file.seek(0, 2) - tail
    file.seek(max(end, 0))
    length = int.from_bytes(file.read(4), "little", signed=True)
    if not 0 < length <= end or file.read() != ARROW_MAGIC:
        raise damaged(ARROW, "its footer, which lists the batches, is cut off")
    file.seek(end - length)
    with _within("its footer"):
        footer = _root(file.read(length))
        blocks = [block for field in (2, 3) for block in footer.structs("qi4xq", field)]

    listed = 0
    for offset, metadata_length, _ in blocks:
        message = _message(file, offset) if offset >= 0 else None
        if message is None:
            raise damaged(ARROW, f"its footer lists a batch at byte {offset:,}, where none is")
        _check_size(file, message._replace(body=offset + metadata_length))
        listed += message.is_batch
    file.seek(_FILE_BEGINS)
    # polars and others that build on arrow2 write the schema without its length, so that its end is not stated.
    is_stated = not _is_schema(file.read(_BEGIN_OF_SCHEMA))
    begin = _FILE_BEGINS if is_stated else min((offset for offset, _, _ in blocks), default=end + tail)
    found = sum(message.is_batch for message in _of_stream(file, begin))
    if found > listed:
        raise damaged(ARROW, f"its footer lists {listed:,} batches, but it has {found:,}")


def _check_size(file: BinaryIO, message: _Message) -> None:
    """Raise InvalidInputError for a batch whose compressed buffers state too many bytes."""
    size = 0
    with _within(_named(message.at)):
        root = _root(message.metadata)
        kind, batch = root.number("B", 1), root.table(2)
        if batch is not None and kind == _DICTIONARY_BATCH:
            batch = batch.table(1)
        if batch is None or kind not in {_DICTIONARY_BATCH, _RECORD_BATCH}:
            return
        if batch.place(3) is None and _COMPRESSED_IN_V4 not in message.metadata:
            return
        for at, length in batch.structs("qq", 2):
            if length:
                if message.body + at < 0:
                    raise struct.error
                file.seek(message.body + at)
                # A buffer that is not compressed has the length -1.
                size += max(int.from_bytes(file.read(8), "little", signed=True), 0)
    if size > MOST_INFLATED:
        raise unreadable(
            f"the batch at byte {message.at:,} has {size:,} bytes after decompression; at most {MOST_INFLATED:,} are "
            "read: write smaller batches, or copy the file again if it is damaged"
        )


def _of_stream(file: BinaryIO, at: int) -> Iterator[_Message]:
    """Yield the messages from byte `at` on, up to the first bytes that are not one."""
    while True:
        message = _message(file, at)
        if message is None:
            return
        yield message
        at = message.end


def _message(file: BinaryIO, at: int) -> _Message | None:
    """Return the message at a byte, or None if there are too few bytes or a length of 0, which marks the end.

    Before Arrow 0.15, no marker preceded the length.
    """
    size = file.seek(0, 2)
    file.seek(at)
    head = file.read(4)
    if head == _CONTINUATION:
        head = file.read(4)
    length = int.from_bytes(head, "little", signed=True)
    body = file.tell() + length
    if len(head) < 4 or length <= 0:
        return None
    if body > size:
        raise damaged(ARROW, f"{_named(at)} is cut off")
    message = _Message(file.read(length), body, at)
    with _within(_named(at)):
        if message.end > size:
            raise damaged(ARROW, f"{_named(at)} is cut off")
        _ = message.is_batch  # raises, too
    return message


def _named(at: int) -> str:
    return f"the message at byte {at:,}"
