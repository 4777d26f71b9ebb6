"""Write Parquet and the Arrow IPC stream: all data is kept, including `sas.*` metadata."""

from collections.abc import Iterator

import pyarrow as pa

from app.dataset.parquet import write_row_groups
from app.tables.out.options import Options
from app.tables.out.pieces import Piece, Pieces
from app.tables.out.table import Outgoing


def write_arrow(table: Outgoing, _options: Options) -> Iterator[Piece]:
    """Yield an Arrow IPC stream, as `pyarrow.ipc.open_stream` reads it."""
    target = Pieces()
    with pa.ipc.new_stream(target, table.schema) as writer:
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
