"""The buffers of data parts <-> record batches, a column at a time.

Where a column's cells cannot be read together, `app.codecs.sapdb.parameter_values` reads them one by one and says
exactly what is wrong with which. So errors and odd values are the same as for a single value.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.codecs.sapdb.constants import LONGS, MOMENTS, NUMBERS, WHOLE_NUMBERS, DataType, Undef
from app.codecs.sapdb.data_rows import check_rows, row_size
from app.codecs.sapdb.packet_records import LongDescriptor, ParameterInfo
from app.codecs.sapdb.parameter_values import (
    BLANK,
    EBCDIC,
    FIRST_UNDEF,
    NO_BOOLEAN,
    Described,
    Manner,
    beyond,
    decode_value,
    fill,
    fraction,
    text_codec,
    written_undef,
)
from app.codecs.sapdb.temporal_digits import Time
from app.dataset import sas_columns
from app.dataset.conversion_error import BadValueError, located, refuse_any
from app.dataset.sapdb import number_columns, text_columns, time_columns
from app.dataset.sapdb.column_types import BYTES
from app.wire import WireError
from app.wire.kinds import Buffer

Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]

LongName = Callable[[int, int, LongDescriptor], str | None]
"""What a cell says of a LONG value, by its row, its column (both from 0) and its descriptor."""

LongNamed = Callable[[str], LongDescriptor]
"""The descriptor of a LONG value by what a cell says of it. Raises InvalidInputError."""


def named_by_descriptor(_row: int, _column: int, descriptor: LongDescriptor) -> str:
    """Return the identifier of a LONG value in hexadecimal."""
    return bytes(descriptor.descriptor).hex()


class LongTimes(Exception):
    """A time of a column that has times of day is longer than a day. The column is to have durations."""

    def __init__(self, column: int) -> None:
        super().__init__(f"column {column} has times of more than 24 hours")
        self.column = column


class RowColumn(NamedTuple):
    """A column of rows about to be read: what describes it, its Arrow type, its values without their undef bytes, which
    of them are absent, their undef bytes, what reads one of them by itself, and what errors call one: its name, and its
    byte in the part."""

    number: int
    info: Described
    wanted: pa.DataType
    cells: Bytes
    absent: Flags
    undef: Bytes
    read_one: Callable[[int], Any]
    place: Callable[[int], tuple[str, int]]


# --- reading ----------------------------------------------------------------------------------------------------------


def decode(
    buffer: Buffer,
    parameters: Sequence[ParameterInfo],
    count: int,
    manner: Manner,
    schema: pa.Schema,
    long_name: LongName = named_by_descriptor,
    first: int = 0,
) -> pa.RecordBatch:
    """Return `count` rows of a data part. Undef bytes are nulls, whichever they are.

    `first` is the number of the first row, for errors. Raises WireError as `app.codecs.sapdb.data_rows.decode_rows`
    does, and LongTimes.
    """
    size = row_size(parameters)
    check_rows(buffer, parameters, size, count)
    rows = np.frombuffer(buffer, np.uint8, count * size).reshape(count, size)
    arrays = []
    for number, (info, field) in enumerate(zip(parameters, schema, strict=True)):
        arrays.append(read_column(_column(rows, number, info, field.type, manner, first), manner, long_name))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def decode_parts(
    parts: Sequence[tuple[Buffer, int]],
    parameters: Sequence[ParameterInfo],
    manner: Manner,
    schema: pa.Schema,
) -> pa.RecordBatch:
    """Return the rows of several data parts (the buffer and its number of rows of each) as one batch.

    Raises LongTimes, and WireError, which does not tell the part.
    """
    size = row_size(parameters)
    for buffer, count in parts:
        check_rows(buffer, parameters, size, count)
    joined = b"".join(buffer for buffer, _ in parts)
    return decode(joined, parameters, sum(count for _, count in parts), manner, schema)


def _column(
    rows: Bytes, number: int, info: ParameterInfo, wanted: pa.DataType, manner: Manner, first: int
) -> RowColumn:
    at, size = info.bufpos - 1, rows.shape[1]
    cells = rows[:, at : at + info.in_out_len]

    def place(row: int) -> tuple[str, int]:
        return f"row[{first + row}].value[{number}]", row * size + at

    def read_one(row: int) -> Any:
        return decode_value(info.data_type, memoryview(cells[row].tobytes()), manner, *place(row))

    undef = cells[:, 0]
    return RowColumn(number, info, wanted, cells[:, 1:], undef >= FIRST_UNDEF, undef, read_one, place)


def read_column(column: RowColumn, manner: Manner, long_name: LongName) -> pa.Array:
    """Return a column as an Arrow array. Raises WireError and LongTimes."""
    if column.info.data_type in LONGS:
        values = (None if absent else column.read_one(row) for row, absent in enumerate(column.absent))
        names = [
            long_name(row, column.number, value) if isinstance(value, LongDescriptor) else None
            for row, value in enumerate(values)
        ]
        return pa.array(names, pa.string())
    try:
        try:
            return _together(column, manner)
        except time_columns.Mixed:
            return _one_by_one(column)
    except BadValueError as error:
        for row in range(error.row + 1):  # one of them may be wrong in another way, and is the first one then
            if not column.absent[row]:
                column.read_one(row)
        if pa.types.is_time(column.wanted):
            raise LongTimes(column.number) from None
        raise WireError(*column.place(error.row), error.why) from None


def _together(column: RowColumn, manner: Manner) -> pa.Array:
    info, cells, absent = column.info, column.cells, column.absent
    data_type = info.data_type
    if data_type in NUMBERS:
        if pa.types.is_floating(column.wanted):
            return number_columns.doubles(cells, absent)
        found = number_columns.decimals(cells, absent, column.wanted.precision, column.wanted.scale)
        _refuse_beyond(found, data_type)
        return found
    if data_type == DataType.BOOLEAN:
        if cells.shape[1] != 1:
            raise time_columns.Mixed
        refuse_any((cells[:, 0] > 1) & ~absent, NO_BOOLEAN)
        return pa.array(cells[:, 0] != 0, pa.bool_(), mask=absent)
    undefs = np.unique(column.undef[~absent]).tolist() or [BLANK]
    codec, *others = {text_codec(data_type, manner.code, undef) for undef in undefs}
    if others:
        raise time_columns.Mixed
    if codec is None:
        if data_type in BYTES:
            refuse_any(cells[:, info.length :].any(axis=1) & ~absent, longer(info, "bytes"))
        return text_columns.binaries(cells, absent, trimmed=data_type == DataType.VARCHAR_BYTE)
    if data_type in MOMENTS:
        return time_columns.moments(_ascii(cells, absent, codec), absent, data_type, column.wanted)
    return _no_longer(text_columns.strings(cells, absent, codec), info, cells.shape[1])


def longer(info: Described, unit: str) -> str:
    """Return why a text or a byte string is none of its type."""
    return f"the value has more than the {info.length} {unit} of its type"


def _no_longer(found: pa.StringArray, info: Described, width: int) -> pa.StringArray:
    """Return texts that are no longer than their type. Raises BadValueError."""
    if width > info.length:
        refuse_any(text_columns.wide_lengths(pc.fill_null(found, "")) > info.length, longer(info, "characters"))
    return found


def _refuse_beyond(values: pa.Array, data_type: int) -> None:
    """Raise BadValueError for the first number that SMALLINT or INTEGER does not have."""
    limits = WHOLE_NUMBERS.get(data_type)
    if limits is not None:
        wrong = pc.or_(pc.less(values, limits[0]), pc.greater(values, limits[-1]))
        refuse_any(pc.fill_null(wrong, False).to_numpy(zero_copy_only=False), beyond(data_type))


_ASCII_OF_EBCDIC: Final = np.frombuffer(bytes(range(256)).decode(EBCDIC).encode("latin-1"), np.uint8)


def _ascii(cells: Bytes, absent: Flags, codec: str) -> Bytes:
    """Return characters of one byte of texts, where they are in ASCII. Raises Mixed."""
    if codec == "latin-1":
        return cells
    if codec == EBCDIC:
        return _ASCII_OF_EBCDIC[cells]
    if cells.shape[1] % 2:
        raise time_columns.Mixed
    high, low = (cells[:, 0::2], cells[:, 1::2]) if codec == "utf-16-be" else (cells[:, 1::2], cells[:, 0::2])
    if (high[~absent] != 0).any():
        raise time_columns.Mixed
    return np.ascontiguousarray(low)


def _one_by_one(column: RowColumn) -> pa.Array:
    """Convert the values of a column one at a time, where they are not alike."""
    is_time = pa.types.is_time(column.wanted)
    values = []
    for row, absent in enumerate(column.absent):
        value = None if absent else column.read_one(row)
        if isinstance(value, Time):
            value = timedelta(hours=value.hours, minutes=value.minutes, seconds=value.seconds)
            if is_time and value.days:
                raise LongTimes(column.number)
        values.append(None if isinstance(value, Undef) else value)
    if not is_time:
        found = pa.array(values, column.wanted)
        return _no_longer(found, column.info, column.cells.shape[1]) if pa.types.is_string(found.type) else found
    return pa.array(values, pa.duration("us")).cast(pa.int64()).cast(column.wanted)


# --- writing ----------------------------------------------------------------------------------------------------------

_NULL: Final = int(Undef.NULL)


def encode(
    batch: pa.RecordBatch,
    parameters: Sequence[ParameterInfo],
    manner: Manner,
    first: int = 0,
    long_named: LongNamed | None = None,
) -> Bytes:
    """Return the rows of a batch as an array of rows by bytes, with the bytes of a data part.

    `first` is the number of the batch's first row, for errors. Raises InvalidInputError, naming column and row, for a
    value that its column's type does not have.
    """
    rows = np.zeros((batch.num_rows, row_size(parameters)), np.uint8)
    for field, values, info in zip(batch.schema, batch.columns, parameters, strict=True):
        at = info.bufpos - 1
        place = rows[:, at : at + info.in_out_len]
        if info.data_type in LONGS:
            # A data set of SAS has no text that is missing, only empty ones.
            values = pc.if_else(pc.equal(values, ""), None, values)  # noqa: PLW2901
        with located(field.name, first):
            cells, undef = encode_column(values, info, manner, long_named)
            if cells.shape[1] > (room := info.in_out_len - 1):
                raise BadValueError(0, f"values take {cells.shape[1]} bytes, but there is room for {room}")
        place[:, 0] = undef
        width = cells.shape[1]
        place[:, 1 : 1 + width] = cells
        if width < place.shape[1] - 1:
            _, filler = fill(info.data_type, manner)
            rest = place.shape[1] - 1 - width
            place[:, 1 + width :] = np.frombuffer((filler * rest)[:rest], np.uint8)
        if values.null_count:
            is_null = values.is_null().to_numpy(zero_copy_only=False)
            place[is_null] = 0
            place[is_null, 0] = _NULL
    return rows


def encode_column(
    values: pa.Array, info: Described, manner: Manner, long_named: LongNamed | None = None
) -> tuple[Bytes, int]:
    """Return the cells of a column without their undef bytes, and the undef byte of a defined value.

    Raises BadValueError.
    """
    data_type, width = info.data_type, info.in_out_len - 1
    if data_type in LONGS and long_named is not None:
        descriptors = [None if name is None else long_named(name) for name in values.to_pylist()]
        joined = b"".join(bytes(width) if each is None else each.encode(manner.context) for each in descriptors)
        return np.frombuffer(joined, np.uint8).reshape(len(values), width), 0
    undef, _ = fill(data_type, manner)
    codec = text_codec(data_type, manner.code, written_undef(manner.code))
    if data_type in NUMBERS:
        _refuse_beyond(values, data_type)
        return number_columns.encode(values, info.length, fraction(info)), undef
    if data_type == DataType.BOOLEAN:
        flags = pc.fill_null(values, False).cast(pa.uint8()).to_numpy(zero_copy_only=False)
        return flags.reshape(-1, 1), undef
    if data_type in MOMENTS:
        cells = time_columns.encode(values, data_type, manner.date_format)
        if codec != "latin-1":
            characters = cells
            cells = np.zeros((len(characters), 2 * characters.shape[1]), np.uint8)
            cells[:, (1 if codec == "utf-16-be" else 0) :: 2] = characters
        return cells, undef
    if codec is None:
        return text_columns.encode_binaries(values, width, trimmed=data_type == DataType.VARCHAR_BYTE), undef
    return text_columns.encode_strings(sas_columns.strings(values), width, codec), undef
