"""The bytes of a finished attachment, wherever they are stored: written as an object, read, and as seekable files."""

import io
import os
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate
from typing import Any, BinaryIO, Protocol

from app.codecs.block_checksums import BLOCK, BlockChecksums, are_complete, blocks_of, checked, compare
from app.model.records import AttachmentRecord, Extent, Finished, StoredObject
from app.ports import ContentStore, JournalReader, JournalReferences, ObjectFile, ObjectWriter
from app.service.content.compared_blocks import ComparedBlocks

PIECE = 1 << 20
"""The most bytes that a read yields at a time."""

LEAST_SENT = 256 << 10
"""Fewer bytes than these are read and sent in less time than their file is opened, asked for its version and sent."""
MOST_SENT = 4 << 20
"""The bytes of a file piece, from which on it has no more blocks."""

MAY_WAIT = memoryview(b"")
"""An empty piece: the next step may wait for the catalog, so an event loop leaves it to a thread."""


def object_name(attachment_id: str) -> str:
    """Return the name of the content store's object that holds an attachment's content."""
    return f"attachments/{attachment_id}"


class Content(Protocol):
    """Bytes that can be read from any offset.

    `is_checked` says that reading compares each part with a checksum and raises DamagedError if it differs.
    """

    size: int
    is_checked: bool

    def read(self, offset: int, length: int) -> Iterator[memoryview]:
        """Yield these bytes in pieces of at most 1 MiB. `offset + length` must not exceed `size`."""


@dataclass(frozen=True, slots=True)
class FilePiece:
    """Bytes [start, end) of an object's file that need not be read to be sent: the system sends them itself."""

    file: ObjectFile
    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start


class StoredContent:
    """Content that is an object of the store. With `checksums` of its blocks, every read compares them."""

    def __init__(self, store: ContentStore, name: str, size: int, checksums: bytes | None = None) -> None:
        self._store, self._name, self.size, self._checksums = store, name, size, checksums
        self.is_checked = are_complete(checksums, size)

    def read(self, offset: int, length: int) -> Iterator[memoryview]:
        if not length:
            return iter(())
        return self._checked(offset, length) if self.is_checked else self._store.read(self._name, offset, length)

    def _checked(self, offset: int, length: int) -> Iterator[memoryview]:
        """Yield these bytes, out of whole blocks."""
        assert self._checksums is not None
        end, first = offset + length, offset // BLOCK
        wanted = min(self.size, blocks_of(end) * BLOCK) - first * BLOCK
        at = first * BLOCK
        for block in checked(self._store.read(self._name, at, wanted), first, self._checksums, self._name):
            yield block[max(offset - at, 0) : end - at]
            at += len(block)

    def sendable(self, compared: ComparedBlocks, offset: int, length: int) -> Iterator[memoryview | FilePiece]:
        """Yield these bytes as `read` does, but blocks that were compared lately as pieces of their file.

        They must be in memory, since an event loop that sends them must not wait for a disk.
        """
        checksums, end = self._checksums, offset + length
        file = self._store.open_file(self._name) if self.is_checked and length >= LEAST_SENT else None
        if file is None or checksums is None:
            yield from self.read(offset, length)
            return
        at = offset  # what is before was yielded
        for number in range(offset // BLOCK, blocks_of(end)):
            first, last = number * BLOCK, min(self.size, (number + 1) * BLOCK)
            version = file.version()
            if compared.has(version, number) and file.is_cached(first, last):
                if last - at >= MOST_SENT or last >= end:
                    yield FilePiece(file, at, min(last, end))
                    at = last
                continue
            if first > at:
                yield FilePiece(file, at, first)
            block = file.read(first, last)
            compare(block, number, checksums, self._name)
            if version and file.version() == version:
                compared.add(version, number)
            yield block[max(offset - first, 0) : end - first]
            at = last


class HeldContent:
    """Content in memory, which another process can be given."""

    is_checked = True

    def __init__(self, data: bytes) -> None:
        self._data, self.size = data, len(data)

    def read(self, offset: int, length: int) -> Iterator[memoryview]:
        view = memoryview(self._data)
        return (view[at : min(at + PIECE, offset + length)] for at in range(offset, offset + length, PIECE))


class JournalContent:
    """Content that is still in the journal, as extents; each body has a checksum there."""

    is_checked = True

    def __init__(self, journal: JournalReader, extents: Sequence[Extent]) -> None:
        self._journal, self.extents = journal, extents
        self._ends = array("q", accumulate(extent.length for extent in extents))
        self.size = self._ends[-1] if extents else 0

    def read(self, offset: int, length: int) -> Iterator[memoryview]:
        return joined(self._journal.views(self._within(offset, length)))

    def _within(self, offset: int, length: int) -> Iterator[Extent]:
        at = bisect_right(self._ends, offset)
        while length > 0:
            extent = self.extents[at]
            skipped = offset - (self._ends[at] - extent.length)
            if not skipped and 0 < extent.length <= min(PIECE, length):
                yield extent
                offset, length, at = offset + extent.length, length - extent.length, at + 1
                continue
            for start in range(skipped, extent.length, PIECE):
                taken = min(PIECE, extent.length - start, length)
                if not taken:
                    return
                yield Extent(extent.segment, extent.offset + start, taken)
                offset, length = offset + taken, length - taken
            at += 1


class MovingContent:
    """Content of the journal, which is read in the content store once the journal no longer has it.

    `copied` opens the copy in the store. It raises the KeyError it is given when the attachment was deleted, and
    DamagedError when there is no copy.
    """

    is_checked = True

    def __init__(self, content: JournalContent, copied: Callable[[KeyError], Content]) -> None:
        self._content: Content = content
        self._copied, self.size = copied, content.size

    def read(self, offset: int, length: int) -> Iterator[memoryview]:
        at, end = offset, offset + length
        try:
            for piece in self._content.read(at, length):
                at += len(piece)
                yield piece
        except KeyError as gone:
            yield MAY_WAIT
            self._content = self._copied(gone)
            yield from self._content.read(at, end - at)


def joined(views: Iterable[memoryview]) -> Iterator[memoryview]:
    """Yield the views joined to pieces of at most `PIECE` bytes. A larger one is yielded as it is."""
    gathered: list[memoryview] = []
    size = 0
    for view in views:
        if size and size + len(view) > PIECE:
            yield _joined(gathered)
            size = 0
        gathered.append(view)
        size += len(view)
    if gathered:
        yield _joined(gathered)


def _joined(views: list[memoryview]) -> memoryview:
    """Return the views as one. The list is emptied: whoever yields it must not hold memory while its caller waits."""
    whole = views[0] if len(views) == 1 else memoryview(b"".join(views))
    views.clear()
    return whole


def open_content(
    record: AttachmentRecord, catalog: JournalReferences, store: ContentStore, journal: JournalReader
) -> Content:
    """Return the content of a finished attachment. Raises KeyError when it is gone."""
    if record.storage == "store" and record.object_name is not None and record.size is not None:
        return StoredContent(store, record.object_name, store.size(record.object_name), record.checksums)
    if record.storage == "journal":
        return content_at(catalog.extents(record.id), record, journal)
    raise KeyError(record.id)


def content_at(extents: Sequence[Extent], record: AttachmentRecord, journal: JournalReader) -> JournalContent:
    """Return the content of an attachment that is still in the journal. Raises KeyError when the catalog has no extents
    of it any more."""
    if not extents and record.size != 0:
        raise KeyError(record.id)
    return JournalContent(journal, extents)


READ_BYTES = 1 << 20


@contextmanager
def opened(store: ContentStore, name: str) -> Iterator[BinaryIO]:
    """Open an object as a seekable file. Raises KeyError when there is none."""
    file = store.open_file(name)
    if file is not None:
        with open(os.dup(file.fileno()), "rb") as seekable:  # noqa: PTH123 - a descriptor
            yield seekable
    else:
        content = StoredContent(store, name, store.size(name))
        with io.BufferedReader(ContentFile(content), READ_BYTES) as buffered:
            yield buffered


class ContentFile(io.RawIOBase):
    """Content as a seekable file."""

    def __init__(self, content: Content) -> None:
        self._content, self._at = content, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._at = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._content.size}[whence] + offset
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        taken = min(len(buffer), max(self._content.size - self._at, 0))
        at = 0
        for piece in self._content.read(self._at, taken):
            buffer[at : at + len(piece)] = piece
            at += len(piece)
        self._at += at
        return at


class Measured:
    """A writer to the object of some content, which counts and digests the bytes."""

    def __init__(self, target: ObjectWriter) -> None:
        self._target, self._digest, self._checksums, self.size = target, sha256(), BlockChecksums(), 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._digest.update(data)
        self._checksums.update(data)
        self.size += len(data)
        self._target.write(data)

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def object(self, name: str) -> StoredObject:
        """Return the object that was written under this name."""
        return StoredObject(name, self._checksums.packed())

    def stored(self, record: AttachmentRecord, content_type: str, dialects: int | None = None, **more: Any) -> Finished:
        """Return the finished content of an attachment that was written to this object."""
        return Finished(
            record.id,
            size=self.size,
            sha256=self.sha256,
            content_type=content_type,
            storage="store",
            finished_at=0,
            object_name=object_name(record.id),
            checksums=self._checksums.packed(),
            dialects=dialects,
            **more,
        )
