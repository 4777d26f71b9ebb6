"""An upload: what its creation said, and the pieces that were received."""

from dataclasses import dataclass, field
from typing import NamedTuple

from app.model.errors import GatewayError

FOLDER = "uploads/"


class UnknownUpload(GatewayError):
    """There is no upload with this identifier, or it belongs to another caller."""


class TooManyUploads(GatewayError):
    """The maximum number of uploads is there."""


class QuotaExceeded(GatewayError):
    """The uploads of an owner would have more than `limit` bytes; they have `used` without the refused ones."""

    def __init__(self, limit: int, used: int) -> None:
        super().__init__(f"your uploads have {used} bytes, and limits.resumable_bytes_a_client allows {limit}")
        self.limit, self.used = limit, used


@dataclass(frozen=True, slots=True)
class UploadRecord:
    """What is known of an upload beside its bytes. Times are in microseconds since 1970-01-01 UTC.

    `length` is None until the client tells the size of the whole content. `metadata` is the client's own text
    (`Upload-Metadata`), `repr_digest` its digests of the whole content (`Repr-Digest`), and `trace_parent` the
    `traceparent` of the request that began it.
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

    @property
    def folder(self) -> str:
        return f"{FOLDER}{self.id}/"

    @property
    def object_name(self) -> str:
        return f"{self.folder}upload.json"


class UploadPiece(NamedTuple):
    """A run of received bytes: an object that is named by the offset of its first byte."""

    offset: int
    size: int

    def object_name(self, record: UploadRecord) -> str:
        return piece_name(record, self.offset)


def piece_name(record: UploadRecord, offset: int) -> str:
    """Return the name of the piece at this offset."""
    return f"{record.folder}{offset:016x}"


@dataclass(slots=True)
class Upload:
    """An upload with its pieces, in order and without gaps. `is_gone` when it was deleted.

    `reserved` is the size that it may reach by the request that appends to it. `is_checked` when this process has
    compared the whole content with the client's digests.
    """

    record: UploadRecord
    pieces: list[UploadPiece] = field(default_factory=list)
    is_gone: bool = False
    reserved: int = 0
    is_checked: bool = False

    @property
    def offset(self) -> int:
        """Return the number of bytes that are durable."""
        return sum(self.pieces[-1]) if self.pieces else 0

    @property
    def is_complete(self) -> bool:
        return self.record.length == self.offset

    @property
    def held(self) -> int:
        """Return the bytes that count for its owner: those that are here, and those that are announced."""
        return max(self.record.length or 0, self.offset, self.reserved)
