"""Objects of finished content on their way into the store."""

from hashlib import sha256
from typing import Any

from app.codecs.sas.files import FileDescription, Tally, contradictions
from app.model.records import AttachmentRecord, Finished
from app.ports import ObjectWriter
from app.service.content.access import object_name


def announced(description: FileDescription, tally: Tally) -> dict[str, Any]:
    """Return the fields of `Finished` that keep what a sender says of a file, and what its records contradict."""
    return {
        "record_length": description.lrecl,
        "announced_size": description.filesize,
        "warnings": contradictions(description, tally),
    }


class Measured:
    """What goes into an object, counted and digested on its way."""

    def __init__(self, target: ObjectWriter) -> None:
        self._target, self._digest, self.size = target, sha256(), 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._digest.update(data)
        self.size += len(data)
        self._target.write(data)

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def stored(self, record: AttachmentRecord, content_type: str, dialects: int | None = None) -> Finished:
        """What finishing found out of an attachment whose object this was."""
        return Finished(
            record.id,
            size=self.size,
            sha256=self.sha256,
            content_type=content_type,
            storage="store",
            finished_at=0,
            object_name=object_name(record.id),
            dialects=dialects,
        )
