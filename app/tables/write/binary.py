"""Write Parquet, Arrow IPC streams and files, and SAS transport files of versions 8 and 5.

Parquet and Arrow keep all data, including `sas.*` metadata.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from app.dataset.description import sas_metadata
from app.dataset.parquet import write_row_groups
from app.tables.write.output_pieces import OutputPieces, Piece
from app.tables.write.output_table import OutputOptions, OutputTable
from app.tables.xpt.xpt_layouts import Version
from app.tables.xpt.xpt_writer import write

_PANDAS_ATTRS = b"PANDAS_ATTRS"


def write_arrow(table: OutputTable, _options: OutputOptions) -> Iterator[Piece]:
    """Yield an Arrow IPC stream, as `pyarrow.ipc.open_stream` reads it."""
    return _written(pa.ipc.new_stream, table)


def write_arrow_file(table: OutputTable, _options: OutputOptions) -> Iterator[Piece]:
    """Yield an Arrow IPC file (Feather version 2), as `pyarrow.ipc.open_file` reads it."""
    return _written(pa.ipc.new_file, table)


def _written(open_writer: Callable[[OutputPieces, pa.Schema], Any], table: OutputTable) -> Iterator[Piece]:
    target = OutputPieces()
    with open_writer(target, table.schema) as writer:
        yield from target.rest()
        for batch in table.batches:
            writer.write_batch(batch)
            yield from target.taken()
    yield from target.rest()


def write_parquet(table: OutputTable, options: OutputOptions) -> Iterator[Piece]:
    """Yield a Parquet file. One row group at a time is in memory (about 32 MiB).

    With `attrs`, its metadata has what `pandas.read_parquet` makes `DataFrame.attrs` of: the data set's `name` and
    `label`, and the variables' `labels` and `formats` by column.
    """
    schema = table.schema
    if options.attrs:
        attributes = sas_metadata(schema.metadata)
        of_columns = {field.name: sas_metadata(field.metadata) for field in schema}
        attrs = {
            "name": ".".join(attributes[key] for key in ("library", "member") if attributes.get(key)),
            "label": attributes.get("label", ""),
            "labels": {name: each["label"] for name, each in of_columns.items() if each.get("label")},
            "formats": {name: each["format"] for name, each in of_columns.items() if each.get("format")},
        }
        stated = {_PANDAS_ATTRS: json.dumps(attrs, ensure_ascii=False)}
        schema = schema.with_metadata({**(schema.metadata or {}), **stated})

    target = OutputPieces()
    for _ in write_row_groups(schema, table.batches, target):
        yield from target.taken()
    yield from target.rest()


def write_xpt(table: OutputTable, options: OutputOptions) -> Iterator[Piece]:
    """Return a transport file of version 8. Raises MisfitError, at once, for items that it cannot hold."""
    return _write(table, options, 8)


def write_xpt_5(table: OutputTable, options: OutputOptions) -> Iterator[Piece]:
    """Return a transport file of version 5, which LIBNAME XPORT reads. Raises MisfitError, at once."""
    return _write(table, options, 5)


def _write(table: OutputTable, options: OutputOptions, version: Version) -> Iterator[Piece]:
    return write(
        table.schema,
        table.batches,
        version,
        rows=table.rows,
        created=table.created.replace(tzinfo=None),
        rename=bool(options.rename),
    )
