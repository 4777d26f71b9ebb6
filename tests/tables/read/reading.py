"""Ways to read bytes as the gateway does."""

from io import BytesIO
from typing import Any

import pyarrow as pa

from app.tables.read import file_formats
from app.tables.read.defining import Definition, define
from app.tables.read.read_request import DataSetOverrides, DataSetTarget, FileTable, ReadOptions, VariableOverrides


def opened(data: bytes, name: str = "", media_type: str = "", **options: Any) -> FileTable:
    """A file's table, in the format that its content or else its name tells."""
    file = BytesIO(data)
    return file_formats.read(file, file_formats.format_of(file, name, media_type), ReadOptions(**options))


def table_of(reading: FileTable) -> pa.Table:
    return pa.Table.from_batches(list(reading.batches()), reading.schema)


def whole(table: pa.Table) -> FileTable:
    """A table that is there already, as a file would give it."""
    return FileTable(table.schema, lambda: iter(table.to_batches()))


def defined(
    reading: FileTable | bytes,
    target: DataSetTarget | None = None,
    variables: dict[str, VariableOverrides] | None = None,
    **wishes: Any,
) -> Definition:
    source = opened(reading) if isinstance(reading, bytes) else reading
    return define(source, DataSetOverrides(variables=variables or {}, **wishes), target or DataSetTarget())


def sent(definition: Definition) -> pa.Table:
    """The table of a data set that has no errors."""
    assert definition.errors == ()
    return pa.Table.from_batches(list(definition.batches()), definition.schema)
