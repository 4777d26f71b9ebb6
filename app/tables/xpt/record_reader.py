"""Read a transport file record by record. No memory is allocated for bytes that the file does not have."""

from collections.abc import Iterator
from typing import BinaryIO, TypeVar

from app.model.errors import InvalidInputError
from app.tables.xpt.header_records import start_of
from app.tables.xpt.xpt_layouts import CONTEXT, RECORD, HeaderRecord
from app.wire import Layout

CHUNK = 8192 * RECORD
"""The number of bytes read at once."""

FIRST_CHUNK = 64 * RECORD
"""The number of bytes read first if the end may be near; each further read is twice as large."""

L = TypeVar("L", bound=Layout)


class Records:
    """A seekable file of whole records. Its errors are InvalidInputError with the byte."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = file.seek(0, 2)
        torn = self.size % RECORD
        if torn:
            why = f"the last record has {torn} of {RECORD} bytes"
            raise InvalidInputError("xpt-truncated", "record", self.size - torn, why)

    def take(self, at: int, size: int, what: str) -> bytes:
        """Return bytes from byte `at` on; `what` names them in errors."""
        if at + size > self.size:
            why = f"{at + size - self.size} bytes are missing at the end of the file"
            raise InvalidInputError("xpt-truncated", what, at, why)
        self._file.seek(at)
        pieces = []
        while size:
            piece = self._file.read(size)
            if not piece:
                raise InvalidInputError("xpt-truncated", what, at, "the file became shorter while it was read")
            pieces.append(piece)
            size -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def layout(self, layout: type[L], at: int) -> L:
        """Return the record at byte `at`."""
        return layout.decode(self.take(at, layout.SIZE, layout.__name__), 0, CONTEXT)[0]

    def header(self, name: str, at: int) -> HeaderRecord:
        """Return the header record at byte `at`, which must have this name."""
        record = self.take(at, RECORD, name)
        if not record.startswith(start_of(name)):
            raise InvalidInputError(
                "xpt-header", name, at, f"expected a header record {name}, found {record[:28].decode('latin-1')!r}"
            )
        return HeaderRecord.decode(record, 0, CONTEXT)[0]

    def is_header(self, name: str, at: int) -> bool:
        """Tell whether the header record of this name is at byte `at`."""
        return at < self.size and self.take(at, RECORD, name).startswith(start_of(name))

    def chunks(self, at: int, end: int, size: int = CHUNK) -> Iterator[bytes]:
        """Yield the bytes up to `end`, in pieces of this size except for the last one."""
        for start in range(at, end, size):
            yield self.take(start, min(size, end - start), "observations")

    def find(self, first: str, second: str, at: int) -> int:
        """Return the byte from `at` on of a header record `first` that `second` follows, or that ends the file.

        Return the file's size if there is no such byte.
        """
        start = start_of(first)
        size = FIRST_CHUNK
        while at < self.size:
            chunk = self.take(at, min(size, self.size - at), first)
            offset = chunk.find(start)
            while offset >= 0:
                behind = at + offset + RECORD
                if offset % RECORD == 0 and (behind == self.size or self.is_header(second, behind)):
                    return at + offset
                offset = chunk.find(start, offset + 1)
            at += len(chunk)
            size = min(2 * size, CHUNK)
        return self.size
