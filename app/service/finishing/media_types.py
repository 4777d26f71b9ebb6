"""The media types of received content, and the sender's description of a file."""

from typing import Any

from app.codecs.ibm_mq.encodings import charset
from app.codecs.sas.file_messages import FileDescription, RecordTotals, length_contradiction, size_contradiction
from app.model.attachment import AttachmentKind
from app.model.errors import InvalidInputError
from app.model.evidence import OnDoubt
from app.model.message import PhysicalMessage
from app.model.records import DOUBTFUL_SIZE


def announced(
    description: FileDescription | None,
    tally: RecordTotals,
    on_doubt: OnDoubt,
    *,
    of_lines: bool = False,
    which: str = "",
) -> dict[str, Any]:
    """Return the fields of `Finished` for the sender's description of a file, if there is one, and warnings.

    `which` begins what is said of one of several files. Raises InvalidInputError if the size differs from the announced
    one, and such attachments are held.
    """
    if description is None:
        return {}
    contradiction = size_contradiction(description, tally, of_lines=of_lines)
    if contradiction is not None and on_doubt == "hold":
        why = f"{which}{contradiction}: bytes may be missing (the source's setting on_doubt can accept it)"
        raise InvalidInputError(DOUBTFUL_SIZE, "size of the file", -1, why)
    return {
        "record_length": description.lrecl,
        "announced_size": description.filesize,
        "warnings": tuple(
            f"{which}{each}" for each in (contradiction, length_contradiction(description, tally)) if each
        ),
    }


BINARY_TYPE = "application/octet-stream"
PARQUET_TYPE = "application/vnd.apache.parquet"

_IBM_CODE_PAGES = (37, 273, 424, 437, 500, 775, 850, 852, 855, 857, *range(860, 867), 869, 1026)
_REGISTERED = {
    "ascii": "us-ascii",
    "latin-1": "iso-8859-1",
    "utf-16-be": "utf-16be",
    "utf-16-le": "utf-16le",
    "cp858": "ibm00858",
    "cp874": "windows-874",
    "cp932": "windows-31j",
    "cp1140": "ibm01140",
    **{f"iso8859-{part}": f"iso-8859-{part}" for part in (*range(2, 11), 13, 15)},
    **{f"cp{page:03}": f"ibm{page:03}" for page in _IBM_CODE_PAGES},
    **{f"ibm{page}": f"ibm0{page}" for page in range(1141, 1150)},
    **{f"cp{page}": f"windows-{page}" for page in range(1250, 1259)},
}
"""The names that IANA has registered for character sets, where Python has others. The few others have none."""

_CODECS = {registered: codec for codec, registered in _REGISTERED.items()}


def stored_type(kind: AttachmentKind | None, first: PhysicalMessage) -> str:
    """Return the media type of a file that begins with this message; of a text file without a charset if none is
    known."""
    if kind is not AttachmentKind.TEXT_FILE:
        return BINARY_TYPE
    named = charset(first.ccsid, first.encoding)
    return f"text/plain; charset={_REGISTERED.get(named, named)}" if named else "text/plain"


def text_codec(content_type: str | None) -> str | None:
    """Return the Python codec of the character set in a media type by `stored_type`; None if it has none."""
    _, found, name = (content_type or "").partition("charset=")
    return _CODECS.get(name.lower(), name) if found else None
