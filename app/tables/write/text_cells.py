"""The cells of rows of text: columns converted to text, numbers in their shortest form, dates and times in ISO 8601.

A datetime is `2026-11-21T08:30:00`, with a fraction where it has one, and with a `Z` at the end if it is in UTC; a time
of day is `08:30:00`. A duration (a SAS time outside of 0 to 24 hours) has as many hours as it needs: `30:15:00`,
`-00:00:45`. Bytes are hexadecimal digits.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.dataset import side_columns
from app.tables.write.output_table import OutputOptions

_HOUR = 3_600_000_000


class _Text(NamedTuple):
    """The conversion of columns of a kind of type to text."""

    includes: Callable[[pa.DataType], bool]
    write: Callable[[pa.Array], pa.StringArray]


def is_text(data_type: pa.DataType) -> bool:
    """Tell whether values of this type are text in JSON and may need quotes in CSV."""
    return bool(pa.types.is_string(data_type))


def is_bare(data_type: pa.DataType) -> bool:
    """Tell whether values of this type are written without quotes in JSON."""
    return any(includes(data_type) for includes in _BARE)


def written(column: pa.Array) -> pa.StringArray:
    """Return a column's values as text; null stays null."""
    known = next((known for known in _TEXTS if known.includes(column.type)), None)
    return known.write(column) if known else column.cast(pa.string())


def joined(*pieces: pa.StringArray | str) -> pa.StringArray:
    """Return the concatenation of texts; null if one of them is null."""
    return pc.binary_join_element_wise(*pieces, "")


def raw(strings: pa.StringArray) -> bytes:
    """Return the concatenated bytes of all values."""
    _, offsets, data = strings.buffers()
    if data is None or not len(strings):
        return b""
    ends = memoryview(offsets).cast("i")
    first, last = ends[strings.offset], ends[strings.offset + len(strings)]
    found: bytes = data.slice(first, last - first).to_pybytes()
    return found


def lines(literals: Sequence[str], cells: Sequence[pa.StringArray], rows: int, null: str) -> memoryview:
    """Return rows of text: the first literal, the first cell, the second literal and so on; the last is a literal."""
    if not cells:
        return memoryview((literals[0] * rows).encode())
    between = [piece for pair in zip(literals, cells, strict=False) for piece in pair]
    whole = pc.binary_join_element_wise(*between, literals[-1], "", null_handling="replace", null_replacement=null)
    return memoryview(whole.buffers()[2])


def _float(column: pa.Array) -> pa.StringArray:
    """Return integral numbers, common in SAS data sets, without a point: in half the time and without exponents."""
    try:
        return column.cast(pa.int64()).cast(pa.string())
    except pa.ArrowInvalid:
        return column.cast(pa.string())


def _decimal(column: pa.Array) -> pa.StringArray:
    """Return decimals with all the digits after their point. Arrow writes small ones with an exponent."""
    strings = column.cast(pa.string())
    if b"E" not in raw(strings):
        return strings
    return pa.array([None if value is None else f"{value:f}" for value in column.to_pylist()], pa.string())


def _datetime(column: pa.Array) -> pa.StringArray:
    if column.type.tz is not None:
        return joined(_datetime(column.cast(pa.timestamp(column.type.unit))), "Z")
    return pc.replace_substring(_whole_seconds(column, pa.timestamp("s")), " ", "T")


def _time(column: pa.Array) -> pa.StringArray:
    return _whole_seconds(column, pa.time32("s"))


def _whole_seconds(column: pa.Array, seconds: pa.DataType) -> pa.StringArray:
    """Return times without a fraction if they have none: for the whole column, or else value by value."""
    try:
        return column.cast(seconds).cast(pa.string())
    except pa.ArrowInvalid:
        return pc.ascii_rtrim(pc.ascii_rtrim(column.cast(pa.string()), "0"), ".")


def _duration(column: pa.Array) -> pa.StringArray:
    ticks = column.cast(pa.duration("us")).cast(pa.int64())
    size = pc.abs(ticks)
    hours = pc.divide(size, _HOUR)
    rest = pc.subtract(size, pc.multiply(hours, _HOUR)).cast(pa.time64("us"))
    sign = pc.if_else(pc.less(ticks, 0), "-", "")
    return joined(sign, pc.ascii_lpad(hours.cast(pa.string()), 2, "0"), pc.utf8_slice_codeunits(_time(rest), 2))


def _hexadecimal(column: pa.BinaryArray) -> pa.StringArray:
    """Return bytes as pairs of hexadecimal digits."""
    if column.offset:
        column = pa.concat_arrays([column, pa.array([], column.type)])
    validity, offsets, data = column.buffers()
    ends = 2 * np.frombuffer(offsets, np.int32, len(column) + 1)
    digits = bytes(data or b"").hex().encode()
    buffers = [validity, pa.py_buffer(ends), pa.py_buffer(digits)]
    return pa.Array.from_buffers(pa.string(), len(column), buffers, column.null_count)


_BARE = (pa.types.is_floating, pa.types.is_integer, pa.types.is_decimal, pa.types.is_boolean)

_TEXTS = (
    _Text(pa.types.is_floating, _float),
    _Text(pa.types.is_decimal, _decimal),
    _Text(pa.types.is_timestamp, _datetime),
    _Text(pa.types.is_time, _time),
    _Text(pa.types.is_duration, _duration),
    _Text(pa.types.is_binary, _hexadecimal),
)


class RowCell(NamedTuple):
    """One cell of every row: its column, and the column of the tags that replace nulls in it."""

    name: str
    type: pa.DataType
    at: int
    tags_at: int | None = None

    @property
    def is_text(self) -> bool:
        """Tell whether its values are text, and not numbers or dates."""
        return is_text(self.type)

    def column(self, batch: pa.RecordBatch) -> pa.Array:
        return batch.column(self.at)

    def written(self, batch: pa.RecordBatch) -> pa.StringArray:
        """Return its values as text, without tags."""
        return written(self.column(batch))

    def tags(self, batch: pa.RecordBatch) -> pa.StringArray | None:
        """Return the special missing values in it, or None without any."""
        tags = None if self.tags_at is None else batch.column(self.tags_at)
        return None if tags is None or tags.null_count == len(tags) else tags


def cells(schema: pa.Schema, options: OutputOptions) -> list[RowCell]:
    """Return the cells of a row. With `missing=tag`, side columns are not cells of their own."""
    tags: dict[str, int] = {}
    if options.missing == "tag":
        tags = {of: at for at, field in enumerate(schema) if (of := side_columns.missing_of(field)) is not None}
    folded = set(tags.values())
    return [
        RowCell(field.name, field.type, at, tags.get(field.name)) for at, field in enumerate(schema) if at not in folded
    ]


def blank_as_null(strings: pa.StringArray) -> pa.StringArray:
    """Return text with null for the empty text."""
    return pc.if_else(pc.equal(strings, ""), None, strings)
