"""Write Parquet, and Arrow IPC streams and files: all data is kept, including `sas.*` metadata."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from app.dataset.parquet import write_row_groups
from app.tables.out.options import Options
from app.tables.out.pieces import Piece, Pieces
from app.tables.out.table import Outgoing


def write_arrow(table: Outgoing, _options: Options) -> Iterator[Piece]:
    """Yield an Arrow IPC stream, as `pyarrow.ipc.open_stream` reads it."""
    return _written(pa.ipc.new_stream, table)


def write_arrow_file(table: Outgoing, _options: Options) -> Iterator[Piece]:
    """Yield an Arrow IPC file (Feather version 2), as `pyarrow.ipc.open_file` reads it."""
    return _written(pa.ipc.new_file, table)


def _written(open_writer: Callable[[Pieces, pa.Schema], Any], table: Outgoing) -> Iterator[Piece]:
    target = Pieces()
    with open_writer(target, table.schema) as writer:
        yield from target.rest()
        for batch in table.batches:
            writer.write_batch(batch)
            yield from target.taken()
    yield from target.rest()


def write_parquet(table: Outgoing, _options: Options) -> Iterator[Piece]:
    """Yield a Parquet file. One row group at a time is in memory (about 32 MiB)."""
    target = Pieces()
    for _ in write_row_groups(table.schema, table.batches, target):
        yield from target.taken()
    yield from target.rest()
