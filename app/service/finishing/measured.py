"""The facts that finishing finds about content: size, digest, media type, and the sender's description."""

from hashlib import sha256
from typing import Any

from app.codecs.ibm_mq.encodings import charset
from app.codecs.sas.files import FileDescription, Tally, contradictions
from app.model.message import PhysicalMessage
from app.model.records import AttachmentRecord, Finished
from app.ports import ObjectWriter
from app.service.content.access import object_name


def announced(description: FileDescription, tally: Tally) -> dict[str, Any]:
    """Return the fields of `Finished` for the sender's description of a file, and what its records contradict."""
    return {
        "record_length": description.lrecl,
        "announced_size": description.filesize,
        "warnings": contradictions(description, tally),
    }


class Measured:
    """A writer to an object that counts and digests the bytes."""

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
        """Return the finished content of an attachment that was written to this object."""
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


BINARY_TYPE = "application/octet-stream"
PARQUET_TYPE = "application/vnd.apache.parquet"

_REGISTERED = {"latin-1": "iso-8859-1", "utf-16-be": "utf-16be", "utf-16-le": "utf-16le"}
"""The registered names of character sets for which Python has other names."""

_CODECS = {registered: codec for codec, registered in _REGISTERED.items()}
_CHARSET = "charset="


def text_type(first: PhysicalMessage) -> str:
    """Return the media type of a text file that begins with this message; without a charset if none is known."""
    named = charset(first.ccsid, first.encoding)
    return f"text/plain; charset={_REGISTERED.get(named, named)}" if named else "text/plain"


def text_codec(content_type: str | None) -> str | None:
    """Return the Python codec of the character set in a media type by `text_type`; None if it has none."""
    _, found, name = (content_type or "").partition(_CHARSET)
    return _CODECS.get(name, name) if found else None
