"""Appending to an upload: received bytes become pieces, each durable when it is named."""

from app.model.errors import GatewayError
from app.ports import ContentStore
from app.service.sending.upload_parts import PartWriter
from app.service.uploads.upload_records import UnknownUpload, Upload, UploadPiece, piece_name

PIECE_BYTES = 64 << 20
"""The size of a piece. A gateway that is killed loses at most so many bytes of an upload that is being received."""


class PieceWriter:
    """A writer that appends to an upload. Its methods block; one thread at a time may call them.

    With `whole`, all bytes become one piece, or none of them is kept. Call `keep` or `drop` at the end.
    """

    def __init__(self, store: ContentStore, upload: Upload, *, whole: bool = False) -> None:
        self._store, self._upload, self.whole = store, upload, whole
        self._writer: PartWriter | None = None
        self._size = 0

    def write(self, data: bytes) -> None:
        """Append bytes. Raises what storing raises."""
        at = 0
        while at < len(data):
            if self._writer is None:
                self._writer = PartWriter(self._store, piece_name(self._upload.record, self._upload.offset))
            room = len(data) - at if self.whole else min(len(data) - at, PIECE_BYTES - self._size)
            self._writer.write(memoryview(data)[at : at + room])
            self._size += room
            at += room
            if self._size >= PIECE_BYTES and not self.whole:
                self.keep()

    def keep(self) -> None:
        """Make what was written durable. Raises UnknownUpload if the upload was deleted meanwhile."""
        if self._writer is None:
            return
        writer, self._writer = self._writer, None
        written = writer.finish("", None, "")
        if self._upload.is_gone:
            self._store.delete(written.object_name)
            raise UnknownUpload("the upload was deleted")
        self._upload.pieces.append(UploadPiece(self._upload.offset, written.size))
        self._size = 0

    def drop(self) -> None:
        """Remove what was written since the last piece."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.abandon()
            self._size = 0


def contiguous(found: dict[int, int]) -> tuple[list[UploadPiece], list[int]]:
    """Return the pieces that follow each other without a gap, of sizes by offset, and the offsets of the others."""
    pieces: list[UploadPiece] = []
    at = 0
    while (size := found.get(at)) is not None and size > 0:
        pieces.append(UploadPiece(at, size))
        at += size
    kept = {piece.offset for piece in pieces}
    return pieces, [offset for offset in found if offset not in kept]


def require_size(store: ContentStore, name: str) -> int:
    """Return the size of an object that was listed. Raises GatewayError when it is gone."""
    try:
        return store.size(name)
    except KeyError:
        raise GatewayError(f"the object {name} is gone while it is read") from None
