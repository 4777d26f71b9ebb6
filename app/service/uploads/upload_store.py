"""Partial uploads: they grow piece by piece, at any process that serves, until a message takes them as its parts.

The catalog has what is known of an upload, and its pieces; each piece is an object of the content store. A piece counts
when the catalog has it, so a request costs a few transactions, whatever its size. A request that may append begins a
new turn. From then on the catalog refuses pieces of requests with earlier turns, which may be at another process, or
paused there: no lock has to be released, and what they have written is never read.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from secrets import token_hex

from app.model.uploads import FOLDER, UnknownUpload, UploadLimits, UploadPiece, UploadRecord, UploadSuperseded
from app.observe import Recurring, logger
from app.ports import Catalog, ContentStore, Page
from app.service.context import ServiceContext
from app.service.retention.removal import RetentionClock
from app.service.sending.upload_parts import PartWriter, StoredPart
from app.settings import microseconds

SENT_MICROSECONDS = 3600 * 1_000_000
"""The time for which an upload stays when it was sent: the request that sends it can be repeated."""
RESERVED_AHEAD = 16 << 20
"""Bytes of an upload of unknown length that are reserved at once, where the quota has so many."""
EXPIRED_AT_ONCE = 100
PIECE_BYTES = 64 << 20
"""The size of a piece. A gateway that is killed loses at most so many bytes of an upload that is being received."""

log = logger(__name__)


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


class Uploads:
    """The uploads of all callers. Methods block."""

    def __init__(self, context: ServiceContext) -> None:
        self._catalog, self._store = context.catalog, context.store
        self._clock, self._metrics = context.clock, context.metrics
        self._ages = RetentionClock(context.clock)
        self._limits = context.settings.limits
        self._lifetime = microseconds(context.settings.retention.uploads)
        self._fault = Recurring(log, "uploads")
        self._are_strays_removed = False

    def create(
        self,
        owner: str,
        length: int | None = None,
        file_name: str | None = None,
        content_type: str = "",
        metadata: str | None = None,
        repr_digest: str | None = None,
        trace_parent: str | None = None,
    ) -> Upload:
        """Begin an upload. Raises TooManyUploads, QuotaExceeded and CatalogError."""
        now, limits = self._clock.now(), self._limits
        about = (length, file_name, content_type, metadata, repr_digest, trace_parent)
        record = UploadRecord(token_hex(16), owner, now, now + self._lifetime, *about)
        most = limits.resumable_uploads, limits.resumable_uploads_a_client, limits.resumable_bytes_a_client
        self._catalog.add_upload(record, UploadLimits(*most))
        return Upload(record)

    def page(self, owner: str | None, cursor: str | None, limit: int) -> Page[UploadRecord]:
        """Return a page of the uploads of an owner, or of all (None), newest first, without those that have expired.
        Raises BadCursor."""
        return self._catalog.uploads(owner, self._ages.now(), cursor, limit)

    def find(self, upload_id: str, owner: str) -> Upload:
        """Return an upload of this owner. Raises UnknownUpload if there is none, or if it has expired."""
        record = self._catalog.upload(upload_id)
        is_known = record is not None and record.expires_at > self._ages.now()
        if record is None or not is_known or record.owner != owner:
            is_of_another = record is not None and record.owner != owner
            raise UnknownUpload("there is no upload with this identifier", is_of_another=is_of_another)
        return Upload(record)

    def take(self, upload: Upload) -> None:
        """Begin a turn: no request with an earlier one changes the upload any more. Raises UnknownUpload."""
        with known():
            upload.record = self._catalog.take_upload(upload.record.id)

    def reserve(self, upload: Upload, size: int) -> None:
        """Let an upload grow to so many bytes. Raises QuotaExceeded, UnknownUpload and UploadSuperseded. Call `release`
        when nothing more is appended."""
        record = upload.record
        if size > record.held:
            ahead = 0 if record.length is not None else RESERVED_AHEAD
            self._reserve(upload, size, size + ahead)

    def release(self, upload: Upload) -> None:
        """Give back what was reserved for an upload beyond what has come and what is announced."""
        if upload.record.held > max(upload.record.length or 0, upload.record.received):
            self._reserve(upload, 0, 0)

    def _reserve(self, upload: Upload, least: int, most: int) -> None:
        limit = self._limits.resumable_bytes_a_client
        with known():
            upload.record = self._catalog.reserve_upload(upload.record, least, most, limit)

    def append(self, upload: Upload, *, whole: bool = False) -> PieceWriter:
        """Return a writer that appends to an upload in its turn."""
        return PieceWriter(self._catalog, self._store, upload, whole=whole)

    def note(self, upload: Upload, changed: UploadRecord) -> None:
        """Note the size or the client's digests of the whole content, or that they were compared. Raises UnknownUpload
        and UploadSuperseded."""
        with known():
            upload.record = self._catalog.change_upload(changed)

    def read(self, upload: Upload) -> Iterator[memoryview]:
        """Yield the received bytes. Raises UnknownUpload if they are deleted meanwhile."""
        left = upload.record.received
        for piece in self._catalog.upload_pieces(upload.record.id):
            if piece.offset >= upload.record.received:
                break
            left -= piece.size
            with known():
                yield from self._store.read(upload.record.object_name(piece))
        if left:
            raise UnknownUpload("the upload was deleted")

    def copy(self, upload: Upload, name: str, object_name: str) -> StoredPart:
        """Write the content of a complete upload as one object, and return it as the part of this name.

        This is the only time that content is copied. Its SHA-256 is computed meanwhile.
        """
        writer = PartWriter(self._store, object_name)
        try:
            for piece in self.read(upload):
                writer.write(piece)
        except BaseException:
            writer.abandon()
            raise
        return writer.finish(name, upload.record.file_name, upload.record.content_type)

    def sent(self, identifiers: Iterable[str]) -> None:
        """Let uploads expire soon that were sent. If that cannot be noted, they expire later: the message is queued."""
        try:
            for upload_id in identifiers:
                self._catalog.expire_upload(upload_id, self._clock.now() + SENT_MICROSECONDS)
        except Exception as error:  # noqa: BLE001 - `Recurring` logs it
            self._fault.failed(error)

    def delete(self, upload: Upload) -> None:
        """Delete an upload. What is being written to it is removed when it ends."""
        self._catalog.expire_upload(upload.record.id, 0)  # if this process is killed now, the keeper does the rest
        self._remove(upload.record)

    def expire(self) -> None:
        """Delete the uploads whose time is over, and once objects of no upload, which a killed process may leave."""
        try:
            if not self._are_strays_removed:
                folders = {name.removeprefix(FOLDER).partition("/")[0] for name in self._store.names(FOLDER)}
                for upload_id in self._catalog.unknown_uploads(sorted(folders)):
                    self._store.delete_all(list(self._store.names(f"{FOLDER}{upload_id}/")))
                self._are_strays_removed = True
            while expired := self._catalog.expired_uploads(self._ages.now(), EXPIRED_AT_ONCE):
                for record in expired:
                    self._remove(record)
                    self._metrics.uploads_expired.inc()
                    log.info("upload_expired", upload=record.id, bytes=record.received, length=record.length)
        except Exception as error:  # noqa: BLE001 - `Recurring` logs it
            self._fault.failed(error)
        else:
            self._fault.worked()

    def _remove(self, record: UploadRecord) -> None:
        """Delete the objects of an upload, also those of earlier turns that never counted, and then forget it."""
        self._store.delete_all(list(self._store.names(record.folder)))
        self._catalog.drop_upload(record.id)
