"""The result of a query in the formats in which clients get it."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from io import BytesIO
from typing import Final, Literal

import orjson
import pyarrow as pa

from app.tables.write.csv_writer import write_csv
from app.tables.write.json_rows import framed, row_blocks, separated
from app.tables.write.output_options import OutputOptions
from app.tables.write.output_pieces import Piece
from app.tables.write.output_table import Outgoing
from app.tables.write.plain_rows import PlainRows, plain
from app.tables.write.row_cells import cells

QueryFormat = Literal["json", "csv", "arrow"]

_OPTIONS: Final = OutputOptions(missing="column")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _write_json(found: pa.Table, types: pa.Schema, is_cut: bool) -> Iterator[Piece]:
    """Yield the columns with their types, and the rows as arrays."""
    made = _outgoing(found)
    columns = [{"name": field.name, "type": str(field.type)} for field in types]
    shown = cells(made.schema, _OPTIONS)
    literals = ["[", *[","] * (len(shown) - 1), "]"] if shown else ["[]"]
    yield b'{"columns":' + orjson.dumps(columns) + b',"rows":['
    yield from separated(row_blocks(made, shown, _OPTIONS, framed(",", literals, "")))
    yield b'],"truncated":' + orjson.dumps(is_cut) + b"}"


def _write_csv(found: pa.Table, _types: pa.Schema, _is_cut: bool) -> Iterator[Piece]:
    return write_csv(_outgoing(found), _OPTIONS)


def _write_arrow(found: pa.Table, _types: pa.Schema, _is_cut: bool) -> Iterator[Piece]:
    stream = BytesIO()
    with pa.ipc.new_stream(stream, found.schema) as writer:
        writer.write_table(found)
    yield stream.getvalue()


def _outgoing(found: pa.Table) -> Outgoing:
    rows = plain(PlainRows(found.schema, found.combine_chunks().to_batches()))
    return Outgoing(rows.schema, rows.batches, found.num_rows, _EPOCH)


QUERY_WRITERS: Mapping[QueryFormat, Callable[[pa.Table, pa.Schema, bool], Iterator[Piece]]] = {
    "json": _write_json,
    "csv": _write_csv,
    "arrow": _write_arrow,
}
"""The writers of a result, from its rows, the types that its columns have in DuckDB, and whether rows are left out."""
