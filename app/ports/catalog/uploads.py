"""Resumable uploads, to which requests at any process may append, one at a time."""

from typing import NamedTuple, Protocol

from app.model.uploads import UploadLimits, UploadPiece, UploadRecord
from app.ports.catalog.listing import Page


class UploadTotals(NamedTuple):
    """The number of uploads and of their received bytes."""

    uploads: int
    bytes: int


class UploadCatalog(Protocol):
    """Uploads and their pieces.

    Methods that take a record change the upload only in the turn of that record, and return the new record. They raise
    UploadSuperseded if somebody has taken the upload since, and KeyError if it is gone.
    """

    def add_upload(self, upload: UploadRecord, limits: UploadLimits) -> None:
        """Add an upload. Raises TooManyUploads and QuotaExceeded."""

    def upload(self, upload_id: str) -> UploadRecord | None:
        """Return an upload, or None if it is unknown."""

    def uploads(self, owner: str | None, now: int, cursor: str | None, limit: int) -> Page[UploadRecord]:
        """Return a page of the uploads of an owner, or of all (None), that expire after `now`. Raises BadCursor."""

    def take_upload(self, upload_id: str) -> UploadRecord:
        """Begin a new turn, and give back what the one before had reserved. Raises KeyError."""

    def reserve_upload(self, upload: UploadRecord, least: int, most: int, limit: int) -> UploadRecord:
        """Let an upload hold at least `least` bytes, and up to `most` if its owner's `limit` allows that.

        What is received and announced is held anyway. Raises QuotaExceeded.
        """

    def change_upload(self, changed: UploadRecord) -> UploadRecord:
        """Note what was not known before: the length, the client's digests, or that the content was compared with
        them. All else stays as it is."""

    def add_upload_piece(self, upload: UploadRecord, size: int) -> UploadRecord:
        """Add the piece that begins where the upload ended. Its object is durable."""

    def upload_pieces(self, upload_id: str) -> list[UploadPiece]:
        """Return the pieces of an upload in their order."""

    def expire_upload(self, upload_id: str, at: int) -> None:
        """Let an upload expire at a time, if not before. A time that is over ends the turn, too."""

    def expired_uploads(self, now: int, limit: int) -> list[UploadRecord]:
        """Return uploads that expired at or before a time."""

    def drop_upload(self, upload_id: str) -> None:
        """Forget an upload whose objects are deleted."""

    def unknown_uploads(self, upload_ids: list[str]) -> list[str]:
        """Return those of these identifiers that are of no upload."""

    def upload_totals(self) -> UploadTotals:
        """Return how much there is."""
