"""Parquet files of small tables.

pyarrow's writer takes 100 µs for a file of 100 rows, nearly all of it for what is the same in every file of a schema.
That is taken here from a file without rows, which pyarrow writes once for each schema. What is left is a page for each
column and the place of each page. Pages have plain values, without compression, dictionary or statistics.

The format is that of `parquet.thrift` of Apache Parquet, in Thrift's compact protocol.
"""

from collections.abc import Sequence
from functools import lru_cache
from struct import pack
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

MOST_ROWS = 500
MOST_BYTES = 32 << 10
"""The bytes of a table's values, and of its schema, up to which it is small: they are not compressed."""

_MAGIC = b"PAR1"
_NO_ROWS = b"\x16\x00\x19\x0c"
"""Fields 3 and 4 of the metadata of a file without rows: the number of rows and an empty list of row groups."""

_FIXED = {
    pa.float64(): 5,
    pa.date32(): 1,
    pa.timestamp("us"): 2,
    pa.time64("us"): 2,
    pa.duration("us"): 2,
}
"""The numbers of the physical types whose plain values are those of Arrow: DOUBLE, INT32 and INT64."""
_TEXTS = {pa.string(): 6, pa.binary(): 6}
"""The number of the physical type of texts and bytes, whose plain values have their length before them: BYTE_ARRAY."""
_PHYSICAL = _FIXED | _TEXTS


Places = NDArray[np.int64]


class Rows(NamedTuple):
    """The rows of one table, in columns that it shares with others."""

    columns: Sequence[pa.Array]
    start: int
    end: int
    schema: pa.Schema

    def batch(self) -> pa.RecordBatch:
        """Return the rows alone."""
        columns = [column.slice(self.start, self.end - self.start) for column in self.columns]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def small_files(tables: Sequence[Rows]) -> list[bytes | None]:
    """Return a Parquet file for each of several tables that share their columns; None for those that are not small, or
    whose schema has other types than those of data sets."""
    if any(column.type not in _PHYSICAL for column in tables[0].columns):
        return [None] * len(tables)
    starts, ends = np.array([table.start for table in tables]), np.array([table.end for table in tables])
    columns = [_column(column, starts, ends) for column in tables[0].columns]
    schemas = {id(table.schema): table.schema for table in tables}
    frames = {number: _frame(schema.serialize().to_pybytes()) for number, schema in schemas.items()}
    return [
        _file(frame, pages, rows)
        if 0 < (rows := table.end - table.start) < MOST_ROWS and (frame := frames[id(table.schema)]) is not None
        else None
        for table, *pages in zip(tables, *columns, strict=True)
    ]


class _Page(NamedTuple):
    """The plain values of the rows of one table, and which of the rows have one; None: all."""

    values: memoryview
    valid: NDArray[np.bool_] | None


def _column(column: pa.Array, starts: Places, ends: Places) -> list[_Page]:
    """Return the pages of a column: of the rows from each start to its end."""
    valid: list[NDArray[np.bool_] | None] = [None] * len(starts)
    if column.null_count:
        has_value = column.is_valid().to_numpy(zero_copy_only=False)
        before = np.concatenate(([0], np.cumsum(has_value)))
        for at in np.flatnonzero(before[ends] - before[starts] < ends - starts).tolist():
            valid[at] = has_value[starts[at] : ends[at]]
        column, starts, ends = column.drop_null(), before[starts], before[ends]
    if column.type in _TEXTS:
        values, places = _lengths_and_texts(column)
        starts, ends = places[starts], places[ends]
    else:
        width = column.type.bit_width // 8
        values = memoryview(column.buffers()[1] or b"")[column.offset * width :]
        starts, ends = starts * width, ends * width
    spans = zip(starts.tolist(), ends.tolist(), valid, strict=True)
    return [_Page(values[start:end], theirs) for start, end, theirs in spans]


def _lengths_and_texts(column: pa.Array) -> tuple[memoryview, Places]:
    """Return texts without nulls, each after its length in four bytes, and where each one begins and the last ends."""
    if not len(column):  # which may have no buffers
        return memoryview(b""), np.zeros(1, np.int64)
    _, offset_buffer, data_buffer = column.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    data = np.frombuffer(data_buffer or b"", np.uint8)[offsets[0] : offsets[-1]]
    places = offsets - offsets[0] + 4 * np.arange(len(offsets))
    joined = np.empty(places[-1], np.uint8)
    is_text = np.ones(len(joined), np.bool_)
    at = (places[:-1, None] + np.arange(4)).ravel()
    is_text[at] = False
    joined[at], joined[is_text] = np.diff(offsets).astype("<i4").view(np.uint8), data
    return joined.data, places


class _Frame(NamedTuple):
    """What all files of a schema have in common: the metadata before and after the rows, and of each column whether it
    may be null, and how the metadata of its page begins."""

    before: bytes
    after: bytes
    columns: Sequence[tuple[bool, bytes]]


@lru_cache(maxsize=128)
def _frame(serialized: bytes) -> _Frame | None:
    """Return the frame of a schema; None if it is long or has other types, or if texts in it look like the fields that
    the rows change.

    Schemas are compared by their bytes: equality of pyarrow's ignores metadata.
    """
    if len(serialized) > MOST_BYTES:
        return None
    schema = pa.ipc.read_schema(pa.py_buffer(serialized))
    if not len(schema) or any(field.type not in _PHYSICAL for field in schema):
        return None
    sink = pa.BufferOutputStream()
    pq.ParquetWriter(sink, schema).close()
    metadata = sink.getvalue().to_pybytes()[len(_MAGIC) : -len(_MAGIC) - 4]
    before, *after = metadata.split(_NO_ROWS)
    if len(after) != 1:
        return None
    return _Frame(before, after[0], [(field.nullable, _page_of(field)) for field in schema])


def _page_of(field: pa.Field) -> bytes:
    """Return how the metadata of a column begins: no place for itself, type, encodings, name and compression."""
    name = field.name.encode()
    encodings = b"\x19\x25\x00\x06"  # PLAIN for the values, RLE for the nulls
    return b"\x26\x00\x1c\x15%b%b\x19\x18%b%b\x15\x00" % (
        _signed(_PHYSICAL[field.type]),
        encodings,
        _unsigned(len(name)),
        name,
    )


def _file(frame: _Frame, pages: Sequence[_Page], rows: int) -> bytes | None:
    """Return the file of a table with this number of rows; None if it is not small."""
    pieces: list[bytes | memoryview] = [_MAGIC]
    places: list[bytes] = []
    told_rows, at = _signed(rows), len(_MAGIC)
    for (values, valid), (is_nullable, place) in zip(pages, frame.columns, strict=True):
        if valid is not None and not is_nullable:
            return None
        nulls = _nulls(rows, valid) if is_nullable else b""
        header = _page_header(len(nulls) + len(values), rows)
        size = len(header) + len(nulls) + len(values)
        told = _signed(size)
        pieces += (header, nulls, values)
        places.append(b"%b\x16%b\x16%b\x16%b\x26%b\x00\x00" % (place, told_rows, told, told, _signed(at)))
        at += size
    if at > MOST_BYTES:
        return None
    size_of_all = _signed(at - len(_MAGIC))
    metadata = b"%b\x16%b\x19\x1c\x19%b%b\x16%b\x16%b\x26%b\x16%b\x00%b" % (
        frame.before,
        told_rows,
        _list_of_structs(len(places)),
        b"".join(places),
        size_of_all,
        told_rows,
        _signed(len(_MAGIC)),
        size_of_all,
        frame.after,
    )
    return b"".join((*pieces, metadata, pack("<I", len(metadata)), _MAGIC))


@lru_cache(maxsize=4096)
def _page_header(size: int, rows: int) -> bytes:
    """Return the header of a data page with plain values that is not compressed."""
    told = _signed(size)
    return b"\x15\x00\x15%b\x15%b\x2c\x15%b\x15\x00\x15\x06\x15\x06\x00\x00" % (told, told, _signed(rows))


def _nulls(rows: int, valid: NDArray[np.bool_] | None) -> bytes:
    """Return which of the rows have a value, as run lengths or as bits, after their size in four bytes."""
    if valid is None:
        return _no_nulls(rows)
    bits = np.packbits(valid, bitorder="little").tobytes()
    run = _unsigned(len(bits) << 1 | 1)
    return pack("<I", len(run) + len(bits)) + run + bits


@lru_cache(maxsize=MOST_ROWS)
def _no_nulls(rows: int) -> bytes:
    run = _unsigned(rows << 1) + b"\x01"
    return pack("<I", len(run)) + run


def _list_of_structs(length: int) -> bytes:
    return bytes([length << 4 | 0xC]) if length < 15 else b"\xfc" + _unsigned(length)


@lru_cache(maxsize=4096)
def _signed(number: int) -> bytes:
    """Return an integer, zigzag and of variable length."""
    return _unsigned(number << 1 ^ number >> 63)


def _unsigned(number: int) -> bytes:
    """Return an integer of variable length."""
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*written, number])
