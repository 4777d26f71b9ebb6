"""Read JSON objects whose names are columns: one per line (NDJSON), or the elements of one array.

A name that an object does not have is missing, as null is.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, BinaryIO

import pyarrow as pa

from app.dataset import side_columns
from app.tables.read import json_document, json_lines
from app.tables.read.json_columns import JsonColumn
from app.tables.read.read_request import NO_LINE_END, Options, Reading, Remark, check_columns, rows_a_batch

RARE = 8
"""A name is rare if fewer than one row in this number has it."""

Row = dict[str, Any]
Cells = tuple[str, Sequence[Any], Sequence[int]]
"""A column's name, its values, and the numbers of their rows."""

Rows = Callable[[], Iterator[tuple[int, list[Row]]]]
"""A function that yields all objects, many at a time, and the number of the first, from 1.

Clear a block after its use: then it is not in memory together with the next one.
"""


def read(file: BinaryIO, options: Options) -> Reading:
    """Read a file of JSON objects, one per line.

    A column has the type of all its values; it is text if they are of several types. Raises InvalidInputError for
    lines that are not objects.
    """
    return _reading(lambda: _numbered(_of_lines(file)), options, () if json_lines.ends_whole(file) else (NO_LINE_END,))


def read_array(file: BinaryIO, options: Options) -> Reading:
    """Read one JSON array of objects, in the same way."""
    return _reading(lambda: _numbered(json_document.objects(file)), options)


def _reading(blocks: Rows, options: Options, at_the_end: Sequence[str] = ()) -> Reading:
    columns: dict[str, JsonColumn] = {}
    last = 0
    for first, rows in blocks():
        last = first + len(rows) - 1
        counts = Counter(chain.from_iterable(rows))
        check_columns(len(columns.keys() | counts.keys()))
        for name, values, numbers in _cells(rows, counts, first):
            if name not in columns:
                columns[name] = JsonColumn(options.type_of(name), tags=options.tags)
            columns[name].see(values, numbers)
        rows.clear()
    schema = pa.schema(list(_fields(columns)))
    types = dict.fromkeys(schema.types)

    def arrays(rows: list[Row]) -> Iterator[pa.Array]:
        there = set(chain.from_iterable(rows))
        nulls = {data_type: pa.nulls(len(rows), data_type) for data_type in types}
        for name, column in columns.items():
            cells = [row.get(name) for row in rows] if name in there else None
            yield nulls[column.data_type] if cells is None else column.values(cells)
            if column.has_side:
                yield nulls[pa.string()] if cells is None else column.tags(cells)

    def batches() -> Iterator[pa.RecordBatch]:
        step = rows_a_batch(len(columns))
        for _, block in blocks():
            for at in range(0, len(block), step):
                yield pa.RecordBatch.from_arrays(list(arrays(block[at : at + step])), schema=schema)
            block.clear()

    remarks = chain.from_iterable(column.remarks(name) for name, column in columns.items())
    return Reading(schema, batches, (*remarks, *(Remark(None, why, last) for why in at_the_end)))


def _fields(columns: Mapping[str, JsonColumn]) -> Iterator[pa.Field]:
    taken = {name.casefold() for name in columns}
    for name, column in columns.items():
        yield pa.field(name, column.data_type)
        if column.has_side:
            yield side_columns.missing_field(name, taken)


def _cells(rows: list[Row], counts: Mapping[str, int], first: int) -> Iterator[Cells]:
    """Yield the cells of each name, in the names' order.

    Looking up a name in every row is fastest for frequent names. Rows with a rare name are found without these
    look-ups.
    """
    rare: dict[str, list[tuple[int, Any]]] = {name: [] for name, count in counts.items() if count * RARE < len(rows)}
    if rare:
        for number, row in enumerate(rows, first):
            for name in row.keys() & rare.keys():
                rare[name].append((number, row[name]))
    everywhere = range(first, first + len(rows))
    for name in counts:
        if name in rare:
            numbers, values = zip(*rare[name], strict=True)
            yield name, values, numbers
        else:
            yield name, [row.get(name) for row in rows], everywhere


def _of_lines(file: BinaryIO) -> Iterator[list[Row]]:
    first = 1
    for block in json_lines.blocks(json_lines.pieces(file)):
        yield json_lines.parsed(block, dict, first)
        first += len(block)


def _numbered(blocks: Iterator[list[Row]]) -> Iterator[tuple[int, list[Row]]]:
    first = 1
    for block in blocks:
        count = len(block)
        yield first, block
        first += count
