"""An upload: what its creation said, and the pieces that were received."""

from dataclasses import dataclass, field
from typing import NamedTuple

from app.model.errors import GatewayError

FOLDER = "uploads/"


class UnknownUpload(GatewayError):
    """There is no upload with this identifier, or it belongs to another caller."""


class TooManyUploads(GatewayError):
    """The maximum number of uploads is there."""


@dataclass(frozen=True, slots=True)
class UploadRecord:
    """What is known of an upload beside its bytes. Times are in microseconds since 1970-01-01 UTC.

    `length` is None until the client tells the size of the whole content. `metadata` is the client's own text
    (`Upload-Metadata` of tus), `repr_digest` its digests of the whole content (`Repr-Digest`), and `trace_parent` the
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


class Piece(NamedTuple):
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
    """An upload with its pieces, in order and without gaps. `is_gone` when it was deleted."""

    record: UploadRecord
    pieces: list[Piece] = field(default_factory=list)
    is_gone: bool = False

    @property
    def offset(self) -> int:
        """Return the number of bytes that are durable."""
        return sum(self.pieces[-1]) if self.pieces else 0

    @property
    def is_complete(self) -> bool:
        return self.record.length == self.offset
