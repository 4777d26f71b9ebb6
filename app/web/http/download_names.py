"""File names for downloads, made from the sender's name of a file (RFC 6266, RFC 8187)."""

import re
import unicodedata
from urllib.parse import quote

from app.model.attachment import AttachmentKind
from app.model.records import AttachmentRecord

_LONGEST = 160
"""Maximum bytes of UTF-8: file systems allow 255, and an extension or `.part` may follow."""
_RESERVED = re.compile(r"con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³]", re.IGNORECASE)
"""Device names, which Windows reserves with any extension."""
_DATA_SET_EXTENSION = ".parquet"
_EXTENSIONS = {
    AttachmentKind.TEXT_FILE: ".txt",
    AttachmentKind.BINARY_FILE: ".bin",
}
_NEEDS_REPLACING = re.compile(r'[<>:"|?*]')
_UNSAFE_IN_QUOTES = re.compile(r'[^ -~]|["\\%]')
_UNSAFE_CATEGORIES = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_JOINERS = "\u200c\u200d"
_ATTR_CHARS = "!#$&+-.^_`|~"


def file_name(record: AttachmentRecord, extension: str = _DATA_SET_EXTENSION) -> str:
    """Return a file name for an attachment's content: one safe path component, never empty.

    `extension` is that of the format in which a data set is sent.
    """
    name = _component(record.qualifier_2)
    if record.kind is AttachmentKind.DATA_SET:
        return (name or "data-set") + extension
    return name or "attachment" + _EXTENSIONS.get(record.kind or AttachmentKind.BINARY_FILE, "")


def table_file_name(name: str, extension: str) -> str:
    """Return a file name for a table, with the extension of its format."""
    return (_component(name) or "table") + extension


def _component(name: str) -> str:
    """Return the last component of a path of any system, with the characters replaced that file names must not have.

    The result may be empty.
    """
    last = re.split(r"[/\\]", name.rstrip("/\\"))[-1]
    shown = "".join("_" if unicodedata.category(c) in _UNSAFE_CATEGORIES and c not in _JOINERS else c for c in last)
    shown = _NEEDS_REPLACING.sub("_", shown).strip(" ").rstrip(".")
    if _RESERVED.fullmatch(shown.partition(".")[0].rstrip(" ")):
        shown = "_" + shown
    if len(_bytes(shown)) > _LONGEST:
        stem, dot, extension = shown.rpartition(".")
        kept = dot + extension if stem and len(_bytes(extension)) < 20 else ""
        shown = _bytes(shown)[: _LONGEST - len(_bytes(kept))].decode("utf-8", "ignore").rstrip(" .") + kept
    return shown


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "replace")


def content_disposition(name: str) -> str:
    """Return the header's value for a file name: `filename` approximated in ASCII, and `filename*` exactly."""
    bare = "".join(c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c))
    plain = _UNSAFE_IN_QUOTES.sub("_", bare)
    exact = quote(name.encode("utf-8", "replace"), safe=_ATTR_CHARS)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{exact}"
