"""Side columns: the values of a variable that its own column cannot hold.

They follow the variable's column directly and exist only if such a value occurs:

- `X__missing` (string): the special missing values of a numeric variable, `._` and `.A` to `.Z`, null elsewhere;
- `X__bytes` (binary): the bytes of character values that do not decode in their character set, null elsewhere.

Their field metadata name the column they belong to.
"""

from collections.abc import Container

import pyarrow as pa

MISSING_OF = b"sas.missing_of"
BYTES_OF = b"sas.bytes_of"


def is_side(field: pa.Field) -> bool:
    return missing_of(field) is not None or bytes_of(field) is not None


def missing_of(field: pa.Field) -> str | None:
    """Return the column whose special missing values this field holds, or None if it is not such a side column."""
    return _metadata_of(field, MISSING_OF)


def bytes_of(field: pa.Field) -> str | None:
    """Return the column whose undecodable values this field holds, or None if it is not such a side column."""
    return _metadata_of(field, BYTES_OF)


def without_sides(schema: pa.Schema) -> pa.Schema:
    """Return the schema of the variables alone."""
    return pa.schema([field for field in schema if not is_side(field)], schema.metadata)


def missing_field(column: str, taken: Container[str]) -> pa.Field:
    """Return the side column of a numeric column's special missing values. `taken` are names in use, casefolded."""
    return pa.field(_name(f"{column}__missing", taken), pa.string(), metadata={MISSING_OF: column})


def bytes_field(column: str, taken: Container[str]) -> pa.Field:
    """Return the side column of a character column's undecodable values. `taken` are names in use, casefolded."""
    return pa.field(_name(f"{column}__bytes", taken), pa.binary(), metadata={BYTES_OF: column})


def _metadata_of(field: pa.Field, key: bytes) -> str | None:
    name = (field.metadata or {}).get(key)
    return None if name is None else name.decode()


def _name(wanted: str, taken: Container[str]) -> str:
    while wanted.casefold() in taken:
        wanted += "_"
    return wanted
