"""Character sets of transport files: any in which ASCII is ASCII."""

from typing import Final

import pyarrow as pa

from app.model.errors import TheirError

DEFAULT: Final = "utf-8"

_ASCII: Final = bytes(range(0x20, 0x7F))


def checked(charset: str) -> str:
    """The name of a Python codec, as it is. Raises TheirError for an unknown one, and for one that has no ASCII."""
    if not _has_ascii(charset):
        raise TheirError("charset", "", -1, f"{charset!r} is no character set that a transport file can be in")
    return charset


def own(schema: pa.Schema) -> str:
    """The character set in which a table's texts came, if a transport file can be in it; else UTF-8."""
    said = (schema.metadata or {}).get(b"sas.encoding", b"").decode("utf-8", "replace")
    return said if _has_ascii(said) else DEFAULT


def _has_ascii(charset: str) -> bool:
    try:
        return _ASCII.decode(charset, "replace") == _ASCII.decode("ascii")
    except (LookupError, ValueError):
        return False
