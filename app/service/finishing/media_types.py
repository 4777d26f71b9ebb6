"""The media types of received content, and what the sender of a file said of it."""

from typing import Any

from app.codecs.ibm_mq.encodings import charset
from app.codecs.sas.files import FileDescription, Tally, contradictions
from app.model.attachment import AttachmentKind
from app.model.message import PhysicalMessage


def announced(description: FileDescription, tally: Tally) -> dict[str, Any]:
    """Return the fields of `Finished` for the sender's description of a file, and what its records contradict."""
    return {
        "record_length": description.lrecl,
        "announced_size": description.filesize,
        "warnings": contradictions(description, tally),
    }


BINARY_TYPE = "application/octet-stream"
PARQUET_TYPE = "application/vnd.apache.parquet"

_REGISTERED = {"latin-1": "iso-8859-1", "utf-16-be": "utf-16be", "utf-16-le": "utf-16le"}
"""The registered names of character sets for which Python has other names."""

_CODECS = {registered: codec for codec, registered in _REGISTERED.items()}
_CHARSET = "charset="


def stored_type(kind: AttachmentKind | None, first: PhysicalMessage) -> str:
    """Return the media type of a file that begins with this message."""
    return text_type(first) if kind is AttachmentKind.TEXT_FILE else BINARY_TYPE


def text_type(first: PhysicalMessage) -> str:
    """Return the media type of a text file that begins with this message; without a charset if none is known."""
    named = charset(first.ccsid, first.encoding)
    return f"text/plain; charset={_REGISTERED.get(named, named)}" if named else "text/plain"


def text_codec(content_type: str | None) -> str | None:
    """Return the Python codec of the character set in a media type by `text_type`; None if it has none."""
    _, found, name = (content_type or "").partition(_CHARSET)
    return _CODECS.get(name, name) if found else None
