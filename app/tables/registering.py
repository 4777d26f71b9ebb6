"""SQL statements that register tables in a catalog of Spark: a Hive metastore or Unity Catalog.

Names of tables and columns come from senders, so everything is quoted.

Source: Spark SQL reference, "CREATE DATASOURCE TABLE", "Identifiers" and "Literals".
"""

import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

import pyarrow as pa

from app.model.names import library_and_member

Format = Literal["delta", "parquet"]

OWN_SCHEMA = "attachment_gateway"
"""The schema of the pipeline's own tables, `files` and `quality`."""

_UNSAFE = re.compile(r"[^a-z0-9_]")
_ESCAPED = re.compile(r"[\x00-\x1f\x7f'\\]")
_LONGEST = 128
"""Characters of a name in a Hive metastore."""

_TYPES = {
    pa.bool_(): "BOOLEAN",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.date32(): "DATE",
    pa.timestamp("us"): "TIMESTAMP_NTZ",
    pa.timestamp("us", "UTC"): "TIMESTAMP",
    pa.time64("us"): "BIGINT",
    pa.duration("us"): "BIGINT",
}


class Registered(NamedTuple):
    """A table to register: its name here, its columns, and its location as path or URL."""

    name: str
    schema: pa.Schema
    location: str


def statements(
    tables: Iterable[Registered], using: Format = "delta", catalog: str | None = None, schema: str | None = None
) -> Iterator[str]:
    """Yield the statements that register tables, each without a semicolon. They may be run again.

    A table LIBRARY.MEMBER becomes `library.member` in the catalog; characters other than letters, digits and `_`
    become `_`. With `schema`, all tables are in this schema, as `library_member`. Parquet needs the columns; Delta has
    them in its log.
    """
    schemas: set[str] = set()
    taken: set[tuple[str, str]] = set()
    for each in tables:
        library, member = library_and_member(each.name)
        within, plain = _plain(library) if library else OWN_SCHEMA, _plain(member)
        if schema is not None:
            within, plain = schema, f"{within}_{plain}"[:_LONGEST] if library else plain
        name, number = plain, 2
        while (within, name) in taken:
            name, number = f"{plain}_{number}", number + 1
        taken.add((within, name))
        prefix = "".join(f"{_identifier(part)}." for part in (catalog, within) if part)
        if within not in schemas:
            schemas.add(within)
            yield f"CREATE SCHEMA IF NOT EXISTS {prefix.removesuffix('.')}"
        columns = ""
        if using == "parquet":
            typed = (f"{_identifier(field.name)} {_type(field.type)}" for field in each.schema)
            columns = f"\n  ({', '.join(typed)})"
        label = (each.schema.metadata or {}).get(b"sas.label", b"").decode()
        comment = f"\n  COMMENT {_literal(label)}" if label else ""
        location = each.location if "://" in each.location else f"file://{each.location}"
        yield (
            f"CREATE TABLE IF NOT EXISTS {prefix}{_identifier(name)}{columns}\n  USING {using.upper()}{comment}"
            f"\n  LOCATION {_literal(location)}"
        )


def _plain(text: str) -> str:
    return _UNSAFE.sub("_", text.lower())[:_LONGEST] or "_"


def _type(data_type: pa.DataType) -> str:
    if pa.types.is_decimal(data_type):
        return f"DECIMAL({data_type.precision}, {data_type.scale})"
    return _TYPES[data_type]


def _identifier(name: str) -> str:
    doubled = name.replace("`", "``")
    return f"`{doubled}`"


def _literal(text: str) -> str:
    escaped = _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return f"'{escaped}'"
