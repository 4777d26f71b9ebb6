"""The media types of finished content, and the character sets of text files."""

from app.codecs.ibm_mq.encodings import charset
from app.model.message import PhysicalMessage

BINARY_TYPE = "application/octet-stream"
PARQUET_TYPE = "application/vnd.apache.parquet"

_REGISTERED = {"latin-1": "iso-8859-1", "utf-16-be": "utf-16be", "utf-16-le": "utf-16le"}
"""The names that clients know of character sets that Python calls otherwise."""

_CODECS = {registered: codec for codec, registered in _REGISTERED.items()}
_CHARSET = "charset="


def text_type(first: PhysicalMessage) -> str:
    """The media type of a text file that begins with this message; one whose character set is not known to be any says
    none."""
    named = charset(first.ccsid, first.encoding)
    return f"text/plain; charset={_REGISTERED.get(named, named)}" if named else "text/plain"


def text_codec(content_type: str | None) -> str | None:
    """Return the Python codec of the character set that `text_type` gave a text file; None where it gave none."""
    _, found, name = (content_type or "").partition(_CHARSET)
    return _CODECS.get(name, name) if found else None
