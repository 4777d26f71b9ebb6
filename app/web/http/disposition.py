"""Names of files in `Content-Disposition`: of uploads (RFC 6266, RFC 7578), and of downloads (RFC 6266, RFC 8187)."""

import re
import unicodedata
from urllib.parse import quote, unquote_to_bytes

from python_multipart.multipart import parse_options_header

from app.model.attachment import AttachmentKind
from app.model.records import AttachmentRecord
from app.web.problems import Problem

_QUOTED = re.compile(rb'"(?:[^"\\]|\\.)*"')
_FILE_NAME_EXTENDED = re.compile(rb";\s*filename\*\s*=\s*([\w.:-]+)'[A-Za-z0-9-]*'([^\s;\"]*)", re.IGNORECASE)
_CHARSETS = {"utf-8", "iso-8859-1"}
_ESCAPES = {"%22": '"', "%0A": "\n", "%0D": "\r"}
"""The escapes of names in multipart/form-data (WHATWG HTML, "Multipart form data"). Clients escape no percent sign."""


def file_name_of(header: bytes) -> str | None:
    """Return the file name of a `Content-Disposition`: `filename*` (RFC 8187), else `filename`; None if it has none.

    Raises Problem for one that is not text.
    """
    extended = _FILE_NAME_EXTENDED.search(_QUOTED.sub(b'""', header))
    if extended is None:
        _, parameters = parse_options_header(header)
        file_name = parameters.get(b"filename")
        return None if file_name is None else name_of(file_name, "filename")
    charset, encoded = extended[1].decode().lower(), unquote_to_bytes(extended[2])
    if charset not in _CHARSETS:
        raise Problem("malformed", f"filename* is in character set {charset!r}; send UTF-8")
    try:
        return encoded.decode(charset)
    except UnicodeDecodeError:
        raise Problem("malformed", f"filename* is not {charset.upper()}") from None


def name_of(data: bytes, what: str) -> str:
    """Return a name, without the escapes of multipart/form-data. Raises Problem."""
    name = text_of(data, what)
    for escape, character in _ESCAPES.items():
        name = name.replace(escape, character)
    return name


def why_meaningless(name: str) -> str | None:
    """Return why a file or data set cannot have this name; None if it can."""
    shown = repr(name[:40])
    if not name.strip():
        return f"the name {shown} is blank; give the file a name"
    if name.strip() in (".", ".."):
        return f"{shown} is a folder, not a file; give the file a name"
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in name):
        return f"the name {shown} has control characters; give the file a name without them"
    return None


def text_of(data: bytes | bytearray, what: str) -> str:
    """Return the text of UTF-8. Raises Problem, which names `what`."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise Problem("malformed", f"the part's {what} is not UTF-8") from None


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

    `extension` is the extension of the format in which a data set is sent.
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
    if not last.isprintable():  # most names are, and the categories of their characters need not be asked for
        last = "".join("_" if unicodedata.category(c) in _UNSAFE_CATEGORIES and c not in _JOINERS else c for c in last)
    shown = _NEEDS_REPLACING.sub("_", last).strip(" ").rstrip(".")
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
