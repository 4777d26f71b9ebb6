"""Write Parquet, and Arrow IPC streams and files: all data is kept, including `sas.*` metadata."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from app.dataset.parquet import write_row_groups
from app.tables.write.output_options import OutputOptions
from app.tables.write.output_pieces import OutputPieces, Piece
from app.tables.write.output_table import Outgoing, said_of

_PANDAS_ATTRS = b"PANDAS_ATTRS"


def write_arrow(table: Outgoing, _options: OutputOptions) -> Iterator[Piece]:
    """Yield an Arrow IPC stream, as `pyarrow.ipc.open_stream` reads it."""
    return _written(pa.ipc.new_stream, table)


def write_arrow_file(table: Outgoing, _options: OutputOptions) -> Iterator[Piece]:
    """Yield an Arrow IPC file (Feather version 2), as `pyarrow.ipc.open_file` reads it."""
    return _written(pa.ipc.new_file, table)


def _with_attrs(schema: pa.Schema) -> pa.Schema:
    """Return the schema with the metadata that `pandas.read_parquet` makes `DataFrame.attrs` of.

    These are the data set's `name` and `label`, and the variables' `labels` and `formats` by column.
    """
    said = said_of(schema.metadata)
    of_columns = {field.name: said_of(field.metadata) for field in schema}
    attrs = {
        "name": ".".join(said[key] for key in ("library", "member") if said.get(key)),
        "label": said.get("label", ""),
        "labels": {name: each["label"] for name, each in of_columns.items() if each.get("label")},
        "formats": {name: each["format"] for name, each in of_columns.items() if each.get("format")},
    }
    return schema.with_metadata({**(schema.metadata or {}), _PANDAS_ATTRS: json.dumps(attrs, ensure_ascii=False)})


def _written(open_writer: Callable[[OutputPieces, pa.Schema], Any], table: Outgoing) -> Iterator[Piece]:
    target = OutputPieces()
    with open_writer(target, table.schema) as writer:
        yield from target.rest()
        for batch in table.batches:
            writer.write_batch(batch)
            yield from target.taken()
    yield from target.rest()


def write_parquet(table: Outgoing, options: OutputOptions) -> Iterator[Piece]:
    """Yield a Parquet file. One row group at a time is in memory (about 32 MiB)."""
    target = OutputPieces()
    for _ in write_row_groups(_with_attrs(table.schema) if options.attrs else table.schema, table.batches, target):
        yield from target.taken()
    yield from target.rest()
