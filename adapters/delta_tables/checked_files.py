"""Parquet files that say what their bytes are, so that damage is found before a value of it is read.

The checksums of Parquet's pages cover the values alone: not the heads of the pages, and not the footer with the names
and types of columns. So the footer of a file of ours has the CRC-32C of each 64 KiB before it, and its own:

    crc32c:1b2d3f40:AAECAwQFBgc=;

These are the CRC-32C of the footer, with its length and the mark that end the file, computed with dashes in place of
the eight digits; and those of the blocks, 4 bytes each, little-endian, in Base64. The text is the last value of the
footer's metadata. Other readers of Parquet pass over it.

The name of a file says whether it has checksums: a damaged footer cannot deny them. Files of earlier releases, and of
other programs, have none.

Source: Parquet format, "File Format" and "Metadata".
"""

import io
import re
from base64 import b64decode, b64encode
from struct import Struct
from typing import Any

from crc32c import crc32c

from app.codecs.block_checksums import BlockChecksums, are_complete, difference, matches
from app.model.errors import DamagedError, GatewayError

KEY = "attachment_gateway.crc32c"
ENDING = ".crc32c.zstd.parquet"
"""How the name of a file with checksums ends."""
BLOCK = 64 << 10
"""The bytes of a block. A piece of a file is read with less than two blocks more. The last one may be shorter."""

_DASHES = b"-" * 8
_TEXT = re.compile(rb"crc32c:([0-9a-f]{8}|-{8}):([A-Za-z0-9+/]*={0,2});")
_END = Struct("<I4s")
_MAGIC = b"PAR1"
_FOOTER_READ = 64 << 10
"""The bytes at the end of a file that are read first: most footers are shorter."""


class ChecksummedFile(io.RawIOBase):
    """A Parquet file while it is written. Holds its footer in memory until `finish`."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._checksums = BlockChecksums(BLOCK)
        self._footer: bytearray | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        view = memoryview(data).cast("B")
        if self._footer is not None:
            self._footer += view
            return len(view)
        self._file.write(data)
        self._checksums.update(view)
        return len(view)

    def end_rows(self) -> dict[str, str]:
        """Return the metadata for the footer. All that is written from now on is the footer."""
        self._footer = bytearray()
        return {KEY: f"crc32c:{_DASHES.decode()}:{b64encode(self._checksums.packed()).decode()};"}

    def finish(self) -> None:
        """Write the footer with its checksum."""
        footer = self._footer or bytearray()
        said = _said(footer)
        if said is None or said[1] != _DASHES or len(footer) != _footer_size(footer):
            raise GatewayError("the Parquet library wrote no footer that can have checksums; nothing was added")
        footer[said.start(1) : said.end(1)] = b"%08x" % crc32c(footer)
        self._file.write(footer)


class CheckedFile(io.RawIOBase):
    """A file with checksums, for reading at any offset. What is read was compared with them.

    Raises DamagedError: for the footer when it is opened, and for the blocks of what is read.
    """

    def __init__(self, file: Any, name: str) -> None:
        self._file, self._name = file, name
        self._at = 0
        self._size = file.seek(0, io.SEEK_END)
        self._footer = self._checked_footer()
        self._start = self._size - len(self._footer)
        self._kept = (-1, memoryview(b""))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def read(self, size: int | None = -1, /) -> Any:
        """Return bytes, as an object that has a buffer."""
        start = self._at
        stop = self._size if size is None or size < 0 else min(start + size, self._size)
        self._at = max(start, stop)
        if start >= self._start:
            return memoryview(self._footer)[start - self._start : stop - self._start]
        rows = self._blocks(start, min(stop, self._start))
        return rows if stop <= self._start else b"".join([rows, self._footer[: stop - self._start]])

    def _blocks(self, start: int, stop: int) -> memoryview:
        """Return bytes before the footer. The block that was read last is kept: the next piece often begins in it."""
        first, last = start // BLOCK, max(start, stop - 1) // BLOCK
        begin, end = first * BLOCK, min((last + 1) * BLOCK, self._start)
        number, kept = self._kept
        if first == last == number:
            return kept[start - begin : stop - begin]
        data = memoryview(self._exactly(begin, end))
        for at in range(last + 1 - first):
            block = data[at * BLOCK : (at + 1) * BLOCK]
            if not matches(block, first + at, self._checksums):
                raise self._differs(begin + at * BLOCK, len(block))
        self._kept = last, data[(last - first) * BLOCK :]
        return data[start - begin : stop - begin]

    def _checked_footer(self) -> bytes:
        size = self._size
        footer = self._exactly(max(0, size - _FOOTER_READ), size)
        length = _footer_size(footer)
        if length > size:
            raise self._differs(size - _END.size, _END.size)
        if length > len(footer):
            footer = self._exactly(size - length, size - len(footer)) + footer
        footer = footer[len(footer) - length :]
        said = _said(footer)
        if said is None or b"%08x" % crc32c(_DASHES.join([footer[: said.start(1)], footer[said.end(1) :]])) != said[1]:
            raise self._differs(size - length, length)
        self._checksums = b64decode(said[2])
        if not are_complete(self._checksums, size - length, BLOCK):
            raise self._differs(0, size)
        return footer

    def _exactly(self, begin: int, end: int) -> bytes:
        self._file.seek(begin)
        data: bytes = self._file.read(end - begin)
        while len(data) < end - begin:
            more = self._file.read(end - begin - len(data))
            if not more:
                raise self._error(f"its end is at byte {begin + len(data):,}, and was at byte {self._size:,}")
            data += more
        return data

    def _differs(self, begin: int, size: int) -> DamagedError:
        return self._error(difference(begin, size))

    def _error(self, why: str) -> DamagedError:
        return DamagedError(f"{self._name}: {why}")


def checked(file: Any, name: str) -> Any:
    """Return a file so that what is read of it is compared with its checksums; as it is if it has none."""
    return CheckedFile(file, name) if name.endswith(ENDING) else file


def _said(footer: bytes | bytearray) -> "re.Match[bytes] | None":
    """Return the text with the checksums. Names and values of columns, which may look like it, come before it."""
    found = None
    for found in _TEXT.finditer(footer):  # noqa: B007 - the last one counts
        pass
    return found


def _footer_size(end: bytes | bytearray) -> int:
    """Return the size of the footer at the end of these bytes, with what follows it; too large if there is none."""
    if len(end) < _END.size:
        return 1 << 32
    length, magic = _END.unpack_from(end, len(end) - _END.size)
    return length + _END.size if magic == _MAGIC else 1 << 32
