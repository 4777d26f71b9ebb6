"""Names in `Content-Disposition` (RFC 6266, RFC 7578)."""

import re
import unicodedata
from urllib.parse import unquote_to_bytes

from python_multipart.multipart import parse_options_header

from app.web.problems import Problem

_QUOTED = re.compile(rb'"(?:[^"\\]|\\.)*"')
_FILE_NAME_EXTENDED = re.compile(rb";\s*filename\*\s*=\s*([\w.:-]+)'[A-Za-z0-9-]*'([^\s;\"]*)", re.IGNORECASE)
_CHARSETS = {"utf-8", "iso-8859-1"}
_ESCAPES = {"%22": '"', "%0A": "\n", "%0D": "\r"}
"""The escapes of names in multipart/form-data (WHATWG HTML, "Multipart form data"). Clients escape no percent sign."""


def file_name_of(header: bytes) -> str | None:
    """Return the file name of a `Content-Disposition`: `filename*`, else `filename`; None if it has none.

    Raises Problem for one that is not text.
    """
    _, parameters = parse_options_header(header)
    file_name = parameters.get(b"filename")
    extended = _extended_file_name(header)
    return name_of(file_name, "filename") if extended is None and file_name is not None else extended


def name_of(data: bytes, what: str) -> str:
    """Return a name, without the escapes of multipart/form-data. Raises Problem."""
    name = text_of(data, what)
    for escape, character in _ESCAPES.items():
        name = name.replace(escape, character)
    return name


def _extended_file_name(header: bytes) -> str | None:
    """Return the value of `filename*` (RFC 8187), which has precedence over `filename`; None if there is none."""
    found = _FILE_NAME_EXTENDED.search(_QUOTED.sub(b'""', header))
    if found is None:
        return None
    charset, encoded = found[1].decode().lower(), unquote_to_bytes(found[2])
    if charset not in _CHARSETS:
        raise Problem("malformed", f"filename* is in character set {charset!r}; send UTF-8")
    try:
        return encoded.decode(charset)
    except UnicodeDecodeError:
        raise Problem("malformed", f"filename* is not {charset.upper()}") from None


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
