"""Read NDJSON: a JSON object per line, whose names are columns.

A name that a line does not have is missing, as null is.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, BinaryIO

import pyarrow as pa

from app.tables.read import lines
from app.tables.read.json_columns import Column
from app.tables.read.request import Options, Reading, check_columns, rows_a_batch

RARE = 8
"""A name is rare if fewer than one row in this number has it."""

Row = dict[str, Any]
Cells = tuple[str, Sequence[Any], Sequence[int]]
"""A column's name, its values, and the numbers of their rows."""


def read(file: BinaryIO, options: Options) -> Reading:
    """Read a file of JSON objects, one per line.

    A column has the type of all its values; it is text if they are of several types. Raises InvalidInputError for
    lines that are not objects.
    """
    columns: dict[str, Column] = {}
    for first, rows in _rows(file):
        counts = Counter(chain.from_iterable(rows))
        check_columns(len(columns.keys() | counts.keys()))
        for name, values, numbers in _cells(rows, counts, first):
            if name not in columns:
                columns[name] = Column(options.type_of(name))
            columns[name].see(values, numbers)
    schema = pa.schema([(name, column.data_type) for name, column in columns.items()])
    types = dict.fromkeys(schema.types)

    def arrays(rows: list[Row]) -> Iterator[pa.Array]:
        there = set(chain.from_iterable(rows))
        nulls = {data_type: pa.nulls(len(rows), data_type) for data_type in types}
        for (name, column), data_type in zip(columns.items(), schema.types, strict=True):
            yield column.values([row.get(name) for row in rows]) if name in there else nulls[data_type]

    def batches() -> Iterator[pa.RecordBatch]:
        step = rows_a_batch(len(columns))
        for _, block in _rows(file):
            for at in range(0, len(block), step):
                yield pa.RecordBatch.from_arrays(list(arrays(block[at : at + step])), schema=schema)

    remarks = chain.from_iterable(column.remarks(name) for name, column in columns.items())
    return Reading(schema, batches, tuple(remarks))


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


def _rows(file: BinaryIO) -> Iterator[tuple[int, list[Row]]]:
    """Yield the file's objects, many at a time, and the number of the first, from 1."""
    first = 1
    for block in lines.blocks(lines.pieces(file)):
        yield first, lines.parsed(block, dict, first)
        first += len(block)
