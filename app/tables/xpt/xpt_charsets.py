"""Character sets of transport files: any that contains ASCII."""

from typing import Final

import pyarrow as pa

from app.model.errors import InvalidInputError

DEFAULT: Final = "utf-8"

_ASCII: Final = bytes(range(0x20, 0x7F))


def checked(charset: str) -> str:
    """Return the name of a Python codec unchanged. Raises InvalidInputError if it is unknown or does not contain
    ASCII."""
    if not _has_ascii(charset):
        raise InvalidInputError(
            "charset", "", -1, f"{charset!r} is not a character set for transport files; choose one that contains ASCII"
        )
    return charset


def own(schema: pa.Schema) -> str:
    """Return the original character set of a table's texts if a transport file can have it; else UTF-8."""
    said = (schema.metadata or {}).get(b"sas.encoding", b"").decode("utf-8", "replace")
    return said if _has_ascii(said) else DEFAULT


def _has_ascii(charset: str) -> bool:
    try:
        return _ASCII.decode(charset, "replace") == _ASCII.decode("ascii")
    except (LookupError, ValueError):
        return False
