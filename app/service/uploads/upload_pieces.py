"""Appending to an upload: received bytes become pieces, each durable before the catalog has it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from app.model.uploads import UnknownUpload, UploadPiece, UploadRecord, UploadSuperseded
from app.ports import Catalog, ContentStore
from app.service.sending.upload_parts import PartWriter

PIECE_BYTES = 64 << 20
"""The size of a piece. A gateway that is killed loses at most so many bytes of an upload that is being received."""


@dataclass(slots=True)
class Upload:
    """An upload in the hands of one request, with its newest `record`."""

    record: UploadRecord

    @property
    def offset(self) -> int:
        """Return the number of bytes that are durable."""
        return self.record.received

    @property
    def is_complete(self) -> bool:
        return self.record.is_complete


@contextmanager
def known() -> Iterator[None]:
    """Raise UnknownUpload where the catalog or the content store no longer has what belongs to an upload."""
    try:
        yield
    except KeyError:
        raise UnknownUpload("the upload was deleted") from None


class PieceWriter:
    """A writer that appends to an upload. Its methods block; one thread at a time may call them.

    With `whole`, all bytes become one piece, or none of them is kept. Call `keep` or `drop` at the end.
    """

    def __init__(self, catalog: Catalog, store: ContentStore, upload: Upload, *, whole: bool = False) -> None:
        self._catalog, self._store, self._upload, self.whole = catalog, store, upload, whole
        self._writer: PartWriter | None = None
        self._size = 0

    def write(self, data: bytes) -> None:
        """Append bytes. Raises what storing raises, and what `keep` raises."""
        at = 0
        while at < len(data):
            if self._writer is None:
                record = self._upload.record
                name = record.object_name(UploadPiece(record.received, 0, record.turn))
                self._writer = PartWriter(self._store, name)
            room = len(data) - at if self.whole else min(len(data) - at, PIECE_BYTES - self._size)
            self._writer.write(memoryview(data)[at : at + room])
            self._size += room
            at += room
            if self._size >= PIECE_BYTES and not self.whole:
                self.keep()

    def keep(self) -> None:
        """Make what was written durable.

        Raises UnknownUpload if the upload was deleted meanwhile, and UploadSuperseded if a newer request continues it,
        of this process or of another.
        """
        if self._writer is None:
            return
        writer, self._writer, self._size = self._writer, None, 0
        written = writer.finish("", None, "")
        try:
            with known():
                self._upload.record = self._catalog.add_upload_piece(self._upload.record, written.size)
        except (UnknownUpload, UploadSuperseded):
            self._store.delete(written.object_name)
            raise

    def drop(self) -> None:
        """Remove what was written since the last piece."""
        if self._writer is not None:
            writer, self._writer, self._size = self._writer, None, 0
            writer.abandon()
