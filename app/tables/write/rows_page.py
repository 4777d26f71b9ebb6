"""A page of a data set's rows as JSON, in the data set's order or sorted by a column, for people who look at it.

Sorting reads the sort column, then only the row groups that have rows of the page. Memory is bounded by the page
and its offset, not by the data set.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.dataset import side_columns
from app.dataset.description import contents
from app.model.names import folded
from app.tables.write.json_rows import row_arrays, separated
from app.tables.write.output_pieces import Piece
from app.tables.write.output_table import OptionError, OutputOptions, OutputTable, TableFormat
from app.tables.write.selection import select
from app.tables.write.stored_table import ROWS_A_BATCH, batches

MOST_SORTED: Final = 2_000_000
"""The most rows up to the end of a sorted page."""
_PRUNED: Final = 262_144
"""While sorting, rows behind the page are dropped as soon as more rows than this are held."""
_ROW: Final = "row"
_KEY: Final = "key"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PAGE: Final = TableFormat("page", "application/json", ".json", "JSON page", lambda _table, _options: iter(()))


class PageRequest(NamedTuple):
    """What a client asks for: rows, columns (None: all), and the column to sort by, with `-` before it if descending.

    `has_more` and `missing` are facts about a data set that is not complete: whether it may have more rows than those
    that are available, and which of its parts are missing.
    """

    offset: int = 0
    limit: int = 100
    sort: str | None = None
    columns: tuple[str, ...] | None = None
    is_partial: bool = False
    has_more: bool = False
    missing: tuple[tuple[int, int], ...] = ()


class RowsPage(NamedTuple):
    """The rows of a page with all their columns, the schema of the data set, and the number of available rows."""

    asked: PageRequest
    schema: pa.Schema
    rows: pa.Table
    total: int


def page_of_file(file: pq.ParquetFile, asked: PageRequest) -> RowsPage:
    """Return the page of a stored data set. Raises OptionError."""
    schema, total = file.schema_arrow, file.metadata.num_rows
    names = _sources(schema, asked)
    if asked.sort is None:
        found = batches(file, names, min(asked.offset, total), min(asked.limit, max(0, total - asked.offset)))
        return RowsPage(asked, schema, _table(found, schema, names), total)
    key, descending = _key(schema, asked)
    chosen = _sorted(batches(file, [key], 0, total), asked, descending=descending)
    return RowsPage(asked, schema, _taken(file, names, chosen), total)


def page_of_table(table: pa.Table, asked: PageRequest) -> RowsPage:
    """Return the page of rows in memory. Raises OptionError."""
    names = _sources(table.schema, asked)
    if asked.sort is None:
        return RowsPage(asked, table.schema, table.select(names).slice(asked.offset, asked.limit), table.num_rows)
    key, descending = _key(table.schema, asked)
    chosen = _sorted(table.select([key]).to_batches(), asked, descending=descending)
    return RowsPage(asked, table.schema, table.select(names).take(chosen), table.num_rows)


def write_page(page: RowsPage) -> Iterator[Piece]:
    """Yield a page as JSON.

    Rows are arrays of values. Special missing values are null in them, and in a list of their own. Raises OptionError.
    """
    options = _PAGE.settled(OutputOptions(columns=page.asked.columns, missing="null"))
    selection = select(page.schema, options, _PAGE)
    described = {each.column: each for each in contents(page.schema, page.total).variables}
    columns = [
        {
            "name": field.name,
            "label": described[field.name].label,
            "format": described[field.name].format,
            "type": next((word for word, is_it in _TYPES.items() if is_it(field.type)), "text"),
            "length": described[field.name].length,
        }
        for field in selection.schema
    ]
    rows = [selection.apply(batch) for batch in page.rows.combine_chunks().to_batches()]
    outgoing = OutputTable(selection.schema, rows, page.rows.num_rows, _EPOCH)
    yield b'{"columns":' + orjson.dumps(columns) + b',"rows":['
    yield from separated(row_arrays(outgoing, options))
    names = selection.schema.names
    special: list[dict[str, object]] = []
    for field in page.schema:
        of = side_columns.missing_of(field)
        if of in names and field.name in page.rows.column_names:
            tags = enumerate(page.rows.column(field.name).to_pylist())
            special += [{"row": row, "column": names.index(of), "tag": tag} for row, tag in tags if tag is not None]
    is_all = not page.asked.has_more
    behind = {
        "total": page.total if is_all and not page.asked.is_partial else None,
        "rows_available": page.total,
        "has_more": page.asked.has_more or page.asked.offset + page.rows.num_rows < page.total,
        "special_missing": special,
        "missing_parts": page.asked.missing if page.asked.is_partial else None,
    }
    yield b"]," + orjson.dumps(behind)[1:]


_TYPES = {
    "number": lambda kind: pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind),
    "boolean": pa.types.is_boolean,
    "date": pa.types.is_date,
    "datetime": pa.types.is_timestamp,
    "time": pa.types.is_time,
    "duration": pa.types.is_duration,
    "bytes": lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind),
}


def _sources(schema: pa.Schema, asked: PageRequest) -> list[str]:
    """Return the columns of a page, with the side columns of their special missing values."""
    wanted = select(schema, _PAGE.settled(OutputOptions(columns=asked.columns, missing="null")), _PAGE).sources
    sides = [field.name for field in schema if side_columns.missing_of(field) in wanted]
    return [*wanted, *sides]


def _key(schema: pa.Schema, asked: PageRequest) -> tuple[str, bool]:
    """Return the column to sort by, and whether it descends. Raises OptionError."""
    assert asked.sort is not None
    if asked.offset + asked.limit > MOST_SORTED:
        raise OptionError("offset", f"sorted rows can be read up to row {MOST_SORTED}; filter them with SQL instead")
    known = {folded(field.name): field.name for field in side_columns.without_sides(schema)}
    for name, descending in ((asked.sort, False), (asked.sort.removeprefix("-"), asked.sort.startswith("-"))):
        if (column := known.get(folded(name))) is not None:
            return column, descending
    raise OptionError("sort", f"unknown variable {asked.sort.removeprefix('-')}")


def _sorted(keys: Iterable[pa.RecordBatch], asked: PageRequest, *, descending: bool) -> pa.Int64Array:
    """Return the row numbers of a page in the order of a column.

    Missing values are the smallest, as in SAS. Equal values stay in the data set's order.
    """
    end = asked.offset + asked.limit
    held: list[pa.Table] = []
    begin = rows = 0
    for batch in keys:
        numbers = pa.array(range(begin, begin + batch.num_rows), pa.int64())
        held.append(pa.table({_KEY: batch.column(0), _ROW: numbers}))
        begin, rows = begin + batch.num_rows, rows + batch.num_rows
        if rows > max(2 * end, _PRUNED):
            held = [_in_order(pa.concat_tables(held), descending=descending).slice(0, end).combine_chunks()]
            rows = held[0].num_rows
    if not held:
        return pa.array([], pa.int64())
    ordered = _in_order(pa.concat_tables(held), descending=descending)
    return ordered.column(_ROW).slice(asked.offset, asked.limit).combine_chunks()


def _in_order(table: pa.Table, *, descending: bool) -> pa.Table:
    by_key = (_KEY, "descending", "at_end") if descending else (_KEY, "ascending", "at_start")
    return table.take(pc.sort_indices(table, sort_keys=[by_key, (_ROW, "ascending", "at_end")]))


def _taken(file: pq.ParquetFile, names: list[str], chosen: pa.Int64Array) -> pa.Table:
    """Return these rows of a file, in this order. Only the row groups that have them are read."""
    wanted = sorted(chosen.to_pylist())
    found: list[pa.RecordBatch] = []
    begin = at = 0
    for group in range(file.num_row_groups):
        end = begin + file.metadata.row_group(group).num_rows
        if at == len(wanted):
            break
        if wanted[at] < end:
            for batch in file.iter_batches(ROWS_A_BATCH, row_groups=[group], columns=names, use_threads=False):
                here = []
                while at < len(wanted) and wanted[at] < begin + batch.num_rows:
                    here.append(wanted[at] - begin)
                    at += 1
                if here:
                    found.append(batch.take(pa.array(here, pa.int64())))
                begin += batch.num_rows
        begin = end
    table = _table(found, file.schema_arrow, names)
    places = {row: place for place, row in enumerate(wanted)}
    return table.take(pa.array([places[row] for row in chosen.to_pylist()], pa.int64()))


def _table(found: Iterable[pa.RecordBatch], schema: pa.Schema, names: list[str]) -> pa.Table:
    return pa.Table.from_batches(found, pa.schema([schema.field(name) for name in names], schema.metadata))
