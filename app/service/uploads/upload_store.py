"""The store of partial uploads: a folder `uploads/{id}/` of the content store for each.

`upload.json` has what the creation said. The bytes are in pieces, which are named by their offsets. An upload's offset
is the end of its last piece, so that its state is as durable as its bytes, and no request needs a transaction. What a
restarted gateway finds is the state.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from secrets import token_hex
from threading import Lock

import orjson

from app.metrics import Metrics
from app.observe import Recurring, logger
from app.ports import Clock, ContentStore
from app.service.sending.upload_parts import PartWriter, StoredPart
from app.service.uploads.upload_pieces import PieceWriter, contiguous, require_size
from app.service.uploads.upload_records import (
    FOLDER,
    QuotaExceeded,
    TooManyUploads,
    UnknownUpload,
    Upload,
    UploadRecord,
)
from app.settings import Limits

SENT_MICROSECONDS = 3600 * 1_000_000
"""The time for which an upload stays when it was sent: the request that sends it can be repeated."""
_PIECE = re.compile(r"[0-9a-f]{16}")

log = logger(__name__)


RESERVED_AHEAD = 16 << 20
"""Bytes of an upload of unknown length that are reserved at once, where the quota has so many."""


class Uploads:
    """All uploads. `lifetime` is in microseconds. `_lock` guards `_uploads`; `_quota_lock` guards what is reserved.

    One process at a time uses the store of uploads. Methods block, except `find`, `reserve` and `release`.
    """

    def __init__(self, store: ContentStore, clock: Clock, lifetime: int, limits: Limits, metrics: Metrics) -> None:
        self._store, self._clock, self.lifetime, self._limits = store, clock, lifetime, limits
        self._metrics = metrics
        metrics.uploads.set_function(lambda: len(self._uploads or ()))
        metrics.uploads_bytes.set_function(lambda: sum(each.offset for each in list((self._uploads or {}).values())))
        self._lock = Lock()
        self._quota_lock = Lock()
        self._uploads: dict[str, Upload] | None = None
        self._fault = Recurring(log, "uploads")

    @property
    def is_open(self) -> bool:
        """Return whether the uploads of earlier processes are known, so that `find` does not block."""
        return self._uploads is not None

    def open(self) -> dict[str, Upload]:
        """Read the uploads that are there, if that was not done, and remove what is of none. Return them by their
        identifiers."""
        with self._lock:
            if self._uploads is None:
                folders: dict[str, set[str]] = {}
                for name in self._store.names(FOLDER):
                    upload_id, _, last = name.removeprefix(FOLDER).partition("/")
                    folders.setdefault(upload_id, set()).add(last)
                found = {upload_id: self._load(upload_id, names) for upload_id, names in folders.items()}
                self._uploads = {upload_id: upload for upload_id, upload in found.items() if upload is not None}
            return self._uploads

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
        """Begin an upload. Raises TooManyUploads, QuotaExceeded, and what storing raises."""
        uploads = self.open()
        now = self._clock.now()
        record = UploadRecord(
            token_hex(16),
            owner,
            now,
            now + self.lifetime,
            length,
            file_name,
            content_type,
            metadata,
            repr_digest,
            trace_parent,
        )
        upload = Upload(record)
        with self._quota_lock:
            self._require_number(owner)
            self._require_bytes(upload, length or 0)
            uploads[record.id] = upload
        try:
            self._write(record)
        except BaseException:
            del uploads[record.id]
            raise
        return upload

    def of(self, owner: str | None) -> list[Upload]:
        """Return the uploads of an owner, or of all (None), newest first, without those that have expired."""
        now = self._clock.now()
        found = [
            each
            for each in list(self.open().values())
            if owner in (None, each.record.owner) and each.record.expires_at > now
        ]
        return sorted(found, key=lambda each: (each.record.created_at, each.record.id), reverse=True)

    def reserve(self, upload: Upload, size: int) -> None:
        """Let an upload grow to so many bytes. Raises QuotaExceeded. Call `release` when nothing more is appended."""
        if size > upload.held:
            with self._quota_lock:
                left = self._require_bytes(upload, size)
                upload.reserved = min(left, size if upload.record.length is not None else size + RESERVED_AHEAD)

    def release(self, upload: Upload) -> None:
        """Give back what was reserved for an upload beyond what has come and what is announced."""
        upload.reserved = 0

    def _require_number(self, owner: str) -> None:
        uploads = list(self.open().values())
        for name, count in (
            ("resumable_uploads", len(uploads)),
            ("resumable_uploads_a_client", sum(each.record.owner == owner for each in uploads)),
        ):
            if count >= getattr(self._limits, name):
                raise TooManyUploads(f"{count} uploads are there, the most that limits.{name} allows")

    def _require_bytes(self, upload: Upload, size: int) -> int:
        """Return the size that an upload may have by its owner's quota. Raises QuotaExceeded if that is less."""
        owner = upload.record.owner
        others = [each for each in list(self.open().values()) if each is not upload and each.record.owner == owner]
        limit, used = self._limits.resumable_bytes_a_client, sum(each.held for each in others)
        if used + size > limit:
            raise QuotaExceeded(limit, used + upload.offset)
        return limit - used

    def find(self, upload_id: str, owner: str) -> Upload:
        """Return an upload of this owner. Raises UnknownUpload if there is none, or if it has expired."""
        upload = self.open().get(upload_id)
        if upload is None or upload.record.owner != owner or upload.record.expires_at <= self._clock.now():
            raise UnknownUpload("there is no upload with this identifier")
        return upload

    def belongs_to_another(self, upload_id: str, owner: str) -> bool:
        """Tell whether there is an upload with this identifier, of another owner."""
        upload = self.open().get(upload_id)
        return upload is not None and upload.record.owner != owner

    def append(self, upload: Upload, *, whole: bool = False) -> PieceWriter:
        """Return a writer that appends to an upload. There must be no other."""
        return PieceWriter(self._store, upload, whole=whole)

    def set_length(self, upload: Upload, length: int) -> None:
        """Note the size of the whole content, which was not known before."""
        self._change(upload, replace(upload.record, length=length))

    def set_digest(self, upload: Upload, repr_digest: str) -> None:
        """Note the client's digests of the whole content, which were not all known before."""
        self._change(upload, replace(upload.record, repr_digest=repr_digest))

    def read(self, upload: Upload) -> Iterator[memoryview]:
        """Yield the received bytes. Raises UnknownUpload if they are deleted meanwhile."""
        for piece in tuple(upload.pieces):
            try:
                yield from self._store.read(piece.object_name(upload.record))
            except KeyError:
                raise UnknownUpload("the upload was deleted") from None

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
        soon = self._clock.now() + SENT_MICROSECONDS
        try:
            for upload_id in identifiers:
                upload = self.open().get(upload_id)
                if upload is not None and upload.record.expires_at > soon:
                    self._change(upload, replace(upload.record, expires_at=soon))
        except Exception as error:  # noqa: BLE001 - `Recurring` logs it
            self._fault.failed(error)

    def delete(self, upload: Upload) -> None:
        """Delete an upload. What is being written to it is removed when it ends."""
        upload.is_gone = True
        self.open().pop(upload.record.id, None)
        # The description goes first: pieces without one are removed at the next start.
        self._store.delete(upload.record.object_name)
        self._store.delete_all([piece.object_name(upload.record) for piece in upload.pieces])

    def trace_parent(self, identifiers: Iterable[str]) -> str | None:
        """Return the `traceparent` of the first of these uploads that has one."""
        found = (self.open().get(upload_id) for upload_id in identifiers)
        return next((each.record.trace_parent for each in found if each and each.record.trace_parent), None)

    def expire(self) -> None:
        """Delete the uploads whose time is over."""
        try:
            now = self._clock.now()
            for upload in [each for each in list(self.open().values()) if each.record.expires_at <= now]:
                self.delete(upload)
                self._metrics.uploads_expired.inc()
                log.info("upload_expired", upload=upload.record.id, bytes=upload.offset, length=upload.record.length)
        except Exception as error:  # noqa: BLE001 - `Recurring` logs it
            self._fault.failed(error)
        else:
            self._fault.worked()

    def _change(self, upload: Upload, record: UploadRecord) -> None:
        self._write(record)
        upload.record = record

    def _write(self, record: UploadRecord) -> None:
        with self._store.create(record.object_name) as target:
            target.write(orjson.dumps(asdict(record)))

    def _load(self, upload_id: str, names: set[str]) -> Upload | None:
        """Return the upload of a folder with these names; None, and remove them, if it has no description."""
        folder = f"{FOLDER}{upload_id}/"
        try:
            record = UploadRecord(**orjson.loads(b"".join(self._store.read(f"{folder}upload.json"))))
        except (KeyError, TypeError, ValueError):
            self._store.delete_all([f"{folder}{name}" for name in names])
            return None
        sizes = {int(name, 16): require_size(self._store, folder + name) for name in names if _PIECE.fullmatch(name)}
        pieces, others = contiguous(sizes)
        self._store.delete_all([f"{folder}{offset:016x}" for offset in others])
        return Upload(record, pieces)
