"""Resumable uploads: what the catalog knows of them. Their bytes are objects of the content store, the pieces."""

from dataclasses import dataclass
from typing import NamedTuple

from app.model.errors import GatewayError

FOLDER = "uploads/"


class UnknownUpload(GatewayError):
    """There is no upload with this identifier, or it belongs to another caller (`is_of_another`)."""

    def __init__(self, why: str, *, is_of_another: bool = False) -> None:
        super().__init__(why)
        self.is_of_another = is_of_another


class UploadSuperseded(GatewayError):
    """A newer request continues the upload, so that this one may change it no more."""


class UploadLimitReached(GatewayError):
    """The uploads would have more than the `limit` of a setting; they have `used` without the refused ones."""

    def __init__(self, why: str, limit: int, used: int) -> None:
        super().__init__(why)
        self.limit, self.used = limit, used


class TooManyUploads(UploadLimitReached):
    """There are as many uploads as a setting allows."""


class QuotaExceeded(UploadLimitReached):
    """The uploads of an owner would have more bytes than a setting allows."""

    def __init__(self, limit: int, used: int) -> None:
        why = f"your uploads have {used} bytes, and limits.resumable_bytes_a_client allows {limit}"
        super().__init__(why, limit, used)


class UploadPiece(NamedTuple):
    """A run of received bytes, which a request of this turn has brought: one object."""

    offset: int
    size: int
    turn: int


class UploadLimits(NamedTuple):
    """The most uploads of all owners and of one, and the most bytes of one owner."""

    uploads: int
    uploads_of_owner: int
    bytes_of_owner: int


@dataclass(frozen=True, slots=True)
class UploadRecord:
    """An upload. Times are in microseconds since 1970-01-01 UTC.

    `length` is None until the client tells the size of the whole content. `metadata` is the client's own text
    (`Upload-Metadata`), `repr_digest` its digests of the whole content (`Repr-Digest`), and `trace_parent` the
    `traceparent` of the request that began it. `received` bytes are durable. `held` bytes count for its owner: those
    that are received, announced, or reserved by the request that appends to it. Each request that may append has a
    `turn` of its own, the last number; those with earlier numbers change nothing any more. `is_checked` when the whole
    content was compared with the client's digests.
    """

    id: str
    owner: str
    created_at: int
    expires_at: int
    length: int | None = None
    file_name: str | None = None
    content_type: str = ""
    metadata: str | None = None
    repr_digest: str | None = None
    trace_parent: str | None = None
    received: int = 0
    held: int = 0
    turn: int = 0
    is_checked: bool = False

    @property
    def is_complete(self) -> bool:
        return self.length == self.received

    @property
    def folder(self) -> str:
        return f"{FOLDER}{self.id}/"

    def object_name(self, piece: UploadPiece) -> str:
        """Return the name of a piece's object. No two requests write to the same name."""
        return f"{self.folder}{piece.offset:016x}-{piece.turn}"
