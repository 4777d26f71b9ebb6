"""NDJSON: a JSON object a line, whose names are columns. A name that a line lacks is missing there, as null is."""

from collections.abc import Iterator
from itertools import chain
from typing import Any, BinaryIO

import pyarrow as pa

from app.tables.read import lines
from app.tables.read.json_columns import Column
from app.tables.read.reading import Options, Reading, check_columns, rows_a_batch


def read(file: BinaryIO, options: Options) -> Reading:
    """A file of JSON objects, a line each. A column is what all its values are; where they are of several types, it is
    text. Raises TheirError for lines that are no objects."""
    columns: dict[str, Column] = {}
    for first, rows in _rows(file):
        for name in dict.fromkeys(chain.from_iterable(rows)):
            column = columns.setdefault(name, Column(options.type_of(name)))
            column.see([row.get(name) for row in rows], first)
        check_columns(len(columns))
    schema = pa.schema([(name, column.data_type) for name, column in columns.items()])

    def batches() -> Iterator[pa.RecordBatch]:
        step = rows_a_batch(len(columns))
        for _, block in _rows(file):
            for at in range(0, len(block), step):
                rows = block[at : at + step]
                arrays = [column.values([row.get(name) for row in rows]) for name, column in columns.items()]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    remarks = chain.from_iterable(column.remarks(name) for name, column in columns.items())
    return Reading(schema, batches, tuple(remarks))


def _rows(file: BinaryIO) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """The file's objects, many at a time, and the number of the first, from 1."""
    first = 1
    for block in lines.blocks(lines.pieces(file)):
        yield first, lines.parsed(block, dict, first)
        first += len(block)
