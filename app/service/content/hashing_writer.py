"""The object that content is written to, measured while it is written."""

from hashlib import sha256
from typing import Any

from app.model.records import AttachmentRecord, Finished, StoredObject
from app.ports import ObjectWriter
from app.service.content.block_checksums import BlockChecksums
from app.service.content.stored_content import object_name


class Measured:
    """A writer to an object that counts and digests the bytes."""

    def __init__(self, target: ObjectWriter) -> None:
        self._target, self._digest, self._checksums, self.size = target, sha256(), BlockChecksums(), 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._digest.update(data)
        self._checksums.update(data)
        self.size += len(data)
        self._target.write(data)

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def object(self, name: str) -> StoredObject:
        """Return the object that was written under this name."""
        return StoredObject(name, self._checksums.packed())

    def stored(self, record: AttachmentRecord, content_type: str, dialects: int | None = None, **more: Any) -> Finished:
        """Return the finished content of an attachment that was written to this object."""
        return Finished(
            record.id,
            size=self.size,
            sha256=self.sha256,
            content_type=content_type,
            storage="store",
            finished_at=0,
            object_name=object_name(record.id),
            checksums=self._checksums.packed(),
            dialects=dialects,
            **more,
        )
