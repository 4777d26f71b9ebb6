"""Read JSON objects whose names are columns: one per line (NDJSON), or the elements of one array.

A name that an object does not have is missing, as null is.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, BinaryIO

import orjson
import pyarrow as pa

from app.dataset.numeric import MAX_EXACT
from app.tables.read import json_document, json_lines, typed_texts
from app.tables.read.json_numbers import RoundedNumbers, See
from app.tables.read.read_request import (
    NO_LINE_END,
    FileTable,
    ReadOptions,
    Remark,
    VariableType,
    check_columns,
    rows_a_batch,
    schema_with_sides,
)

_INT64 = range(-(1 << 63), 1 << 63)
_NESTED = frozenset({list, dict})
_TAG = re.compile(r"\.[A-Za-z_]")


class JsonColumn:
    """Determines the type of a column. Pass it all values, then read `data_type`."""

    def __init__(self, wanted: VariableType | None = None, *, tags: bool = False) -> None:
        """Prepare for a column. With `tags`, a string such as `.A` is a missing value of a column that is not text."""
        self._wanted, self._allows_tags = wanted, tags
        self._has_tags = False
        self._types: set[type] = set()
        self._texts = typed_texts.TextColumn(typed_texts.MOMENTS)
        self._texts_seen = 0
        self._text_rows: dict[int, int] = {}
        self._odd: tuple[int, str] | None = None
        self._least = self._most = 0
        self._nested: int | None = None

    def see(self, values: Sequence[Any], rows: Sequence[int]) -> None:
        """Add values with the numbers of their rows. A row without a value may be left out."""
        if self._allows_tags:
            tagged = [_is_tag(value) for value in values]
            self._has_tags = self._has_tags or any(tagged)
            values = [None if is_tag else value for value, is_tag in zip(values, tagged, strict=True)]
        types = set(map(type, values))
        self._types |= types
        if types & _NESTED:
            self._nested = self._nested or next(row for row, v in zip(rows, values, strict=True) if type(v) in _NESTED)
        if int in types:
            integers = [v for v in values if type(v) is int]
            self._least, self._most = min(self._least, *integers), max(self._most, *integers)
        if str in types and self._odd is None:
            texts, seen = [v for v in values if type(v) is str], self._texts_seen
            self._texts.see(pa.array(texts, pa.string()))
            remarked = [number for _, number in self._texts.remarks() if number is not None and number > seen]
            odd = self._texts.odd
            if odd is not None or remarked:
                of_texts = [row for row, v in zip(rows, values, strict=True) if type(v) is str]
                self._text_rows |= {number: of_texts[number - 1 - seen] for number in remarked}
                self._odd = None if odd is None else (of_texts[odd[0] - 1 - seen], odd[1])
            self._texts_seen += len(texts)

    @property
    def data_type(self) -> pa.DataType:
        found = self._found
        if self._wanted == "character" or self._is_mixed:
            return pa.string()
        if found == {str}:
            return self._texts.kind.data_type
        if found == {int}:
            fits = self._least in _INT64 and self._most in _INT64
            return pa.int64() if fits else pa.decimal128(20)
        if float in found or (not found and self._has_tags):
            return pa.float64()
        return pa.bool_() if bool in found else pa.null()

    @property
    def has_side(self) -> bool:
        """Tell whether it has special missing values, which need a side column."""
        return self._has_tags and self.data_type != pa.string()

    def tags(self, values: Sequence[Any]) -> pa.StringArray:
        """Return the special missing values among these values."""
        return pa.array([value.upper() if _is_tag(value) else None for value in values], pa.string())

    def values(self, values: Sequence[Any]) -> pa.Array:
        """Return the values as an array of the column's type."""
        data_type = self.data_type
        if data_type == pa.string():
            return pa.array([v if v is None or type(v) is str else _written(v) for v in values], data_type)
        if self._has_tags:
            values = [None if _is_tag(value) else value for value in values]
        if self._found == {str}:
            return self._texts.values(pa.array(values, pa.string()))
        return pa.array(values, data_type)

    def remarks(self, name: str, rounded: int | None) -> Iterator[Remark]:
        """Yield remarks on the column, for people. `rounded` is the first row whose number was rounded."""
        if self._nested is not None:
            yield Remark(name, "it holds objects or arrays, which are not supported", self._nested, wrong=True)
        elif self._is_mixed:
            words = sorted(kind.__name__ for kind in self._found)
            yield Remark(name, f"its values are of several types ({', '.join(words)}) and were converted to text")
        elif self._wanted == "numeric" and self.data_type == pa.string() and self._odd is not None:
            row, text = self._odd
            yield Remark(name, f"{text!r} is not a number, ISO date or ISO time", row, wrong=True)
        elif self._found == {str} and self.data_type != pa.string():
            yield from (Remark(name, why, self._text_rows.get(number or 0)) for why, number in self._texts.remarks())
        if rounded is not None:
            yield Remark(name, typed_texts.ROUNDED, rounded)

    @property
    def _found(self) -> set[type]:
        return self._types - {type(None)}

    @property
    def _is_mixed(self) -> bool:
        """Tell whether only text can hold all values without a change."""
        found = self._found
        if found == {int, float}:
            return self._least < -MAX_EXACT or self._most > MAX_EXACT
        return len(found) > 1 or bool(found & _NESTED)


def _is_tag(value: Any) -> bool:
    return type(value) is str and _TAG.fullmatch(value) is not None


def _written(value: Any) -> str:
    """Return a value as text; a nested one is refused in any case, and may be nested too deeply to be written."""
    return "" if type(value) in _NESTED else orjson.dumps(value).decode()


RARE = 8
"""A name is rare if fewer than one row in this number has it."""

Row = dict[str, Any]
Cells = tuple[str, Sequence[Any], Sequence[int]]
"""A column's name, its values, and the numbers of their rows."""

Rows = Callable[[See | None], Iterator[tuple[int, list[Row]]]]
"""A function that yields all objects, many at a time, and the number of the first, from 1. `see` is given their text.

Clear a block after its use: then it is not in memory together with the next one.
"""


def read(file: BinaryIO, options: ReadOptions) -> FileTable:
    """Read a file of JSON objects, one per line.

    A column has the type of all its values; it is text if they are of several types. Raises InvalidInputError for
    lines that are not objects.
    """

    def blocks(see: See | None) -> Iterator[tuple[int, list[Row]]]:
        first = 1
        for lines in json_lines.blocks(json_lines.pieces(file)):
            yield first, json_lines.parsed(lines, dict, first, see)
            first += len(lines)

    return _reading(blocks, options, () if json_lines.ends_whole(file) else (NO_LINE_END,))


def read_array(file: BinaryIO, options: ReadOptions) -> FileTable:
    """Read one JSON array of objects, in the same way."""

    def blocks(see: See | None) -> Iterator[tuple[int, list[Row]]]:
        first = 1
        for rows in json_document.objects(file, see):
            count = len(rows)
            yield first, rows
            first += count

    return _reading(blocks, options)


def _reading(blocks: Rows, options: ReadOptions, at_the_end: Sequence[str] = ()) -> FileTable:
    columns: dict[str, JsonColumn] = {}
    rounded = RoundedNumbers()
    last = 0
    for first, rows in blocks(rounded.see):
        last = first + len(rows) - 1
        counts = Counter(chain.from_iterable(rows))
        check_columns(len(columns.keys() | counts.keys()))
        for name, values, numbers in _cells(rows, counts, first):
            if name not in columns:
                columns[name] = JsonColumn(options.type_of(name), tags=options.tags)
            columns[name].see(values, numbers)
        rows.clear()
    schema = schema_with_sides((name, column.data_type, column.has_side) for name, column in columns.items())
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
        for _, block in blocks(None):
            for at in range(0, len(block), step):
                yield pa.RecordBatch.from_arrays(list(arrays(block[at : at + step])), schema=schema)
            block.clear()

    remarks = chain.from_iterable(column.remarks(name, rounded.rows.get(name)) for name, column in columns.items())
    return FileTable(schema, batches, (*remarks, *(Remark(None, why, last) for why in at_the_end)))


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
