"""Columns whose values share memory, in dictionaries and views: a small file of them may be a huge table.

They are expanded value by value, a few rows at a time, and only if each value can be one of SAS.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from app.dataset.conversion_error import BadValueError
from app.dataset.schema import LONGEST_CHARACTER
from app.tables.read.read_request import unreadable

BYTES_A_BATCH = 32 << 20
"""The maximum size in bytes of the expanded values of a batch."""

LONGEST_VALUE = 4 * LONGEST_CHARACTER
"""The maximum size in bytes of a value in UTF-8, for any destination character set: no character has more than 4."""

ROWS_OF_DIFFERENCES = BYTES_A_BATCH // (4 * LONGEST_VALUE)
"""The number of rows of differences that are read while the longest value is not known.

A value is at most as long as its page.
"""

Lengths = NDArray[np.int32] | NDArray[np.int64]
ReadDictionary = Callable[[list[str]], pq.ParquetFile]


def laid_out(column: pa.Array) -> pa.Array:
    """Return the column without dictionary or views.

    Raises BadValueError for a value that is too long for any variable.
    """
    if _longest_shared(column) > LONGEST_VALUE and (_lengths(column) > LONGEST_VALUE).any():
        row = int(np.argmax(_lengths(column) > LONGEST_VALUE))
        raise BadValueError(row, f"the value has more than {LONGEST_VALUE:,} bytes in UTF-8")
    data_type = column.type
    if pa.types.is_dictionary(data_type):
        return laid_out(_taken_views(column) if _is_view(data_type.value_type) else column.cast(data_type.value_type))
    if not _is_view(data_type):
        return column

    # Views of nulls are cleared, as Arrow follows but does not validate them.
    _, views, *data = column.buffers()
    followed = _views(column, views).copy()
    valid = column.is_valid()
    followed[~valid.to_numpy(zero_copy_only=False)] = 0
    whole = pa.Array.from_buffers(data_type, len(column), [None, pa.py_buffer(followed), *data])
    plain = pa.string() if pa.types.is_string_view(data_type) else pa.binary()
    return pc.if_else(valid, whole.cast(plain), pa.scalar(None, plain))


def _taken_views(column: pa.DictionaryArray) -> pa.Array:
    """Return the views of a dictionary for each row, which Arrow itself cannot take."""
    values, places = column.dictionary, column.indices
    _, views, *data = values.buffers()
    valid = places.is_valid().to_numpy(zero_copy_only=False)
    taken = np.zeros((len(column), 4), np.int32)
    at = places.drop_null().to_numpy(zero_copy_only=False)
    taken[valid] = _views(values, views)[at]
    valid[valid] = values.is_valid().to_numpy(zero_copy_only=False)[at]
    bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(values.type, len(column), [bits, pa.py_buffer(taken), *data])


def _views(column: pa.Array, buffer: pa.Buffer | None) -> NDArray[np.int32]:
    """Return a row of 4 numbers for each view; the first is its length."""
    end = 4 * (column.offset + len(column))
    numbers = np.frombuffer(buffer, np.int32, end) if buffer is not None and end else np.zeros(0, np.int32)
    return numbers.reshape(-1, 4)[column.offset :]


def slices(batch: pa.RecordBatch, rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the batch in parts of at most this number of rows, or fewer if values that share memory are long.

    A batch without columns may state any number of rows; it yields no part.
    """
    if not batch.num_columns:
        return
    longest = sum(min(_longest_shared(column), LONGEST_VALUE) for column in batch.columns)
    step = rows_of(longest, rows)
    for at in range(0, batch.num_rows, step):
        yield batch.slice(at, step)


def rows_of(longest: int, rows: int) -> int:
    """Return the number of rows of this size that are held at once, at most `rows`."""
    return max(1, min(rows, BYTES_A_BATCH // max(longest, 1)))


class BytesColumns(NamedTuple):
    """The columns of a Parquet file that can have long values in few bytes, by path.

    Arrow reads the first ones as dictionaries. It cannot do so where pages are encoded as differences (DELTA_BYTE_ARRAY
    and DELTA_LENGTH_BYTE_ARRAY): a value there may be the beginning of the one before.
    """

    with_dictionaries: list[str]
    of_differences: list[str]


def of_bytes(file: pq.ParquetFile) -> BytesColumns:
    leaves = [file.schema.column(number) for number in range(len(file.schema))]
    numbers = [number for number, leaf in enumerate(leaves) if leaf.physical_type == "BYTE_ARRAY"]
    different = {
        number
        for group in range(file.num_row_groups)
        for number in numbers
        if any(word.startswith("DELTA") for word in file.metadata.row_group(group).column(number).encodings)
    }
    return BytesColumns(
        [leaves[number].path for number in numbers if number not in different],
        [leaves[number].path for number in numbers if number in different],
    )


def longest_shared(read: ReadDictionary, file: pq.ParquetFile) -> int:
    """Return the size in bytes of the longest row that a Parquet file can make of values that share bytes.

    It includes values of fixed length. Raises InvalidInputError for a value that is too long for any variable: all
    values of a dictionary occur.
    """
    leaves = [file.schema.column(number) for number in range(len(file.schema))]
    fixed: int = sum(leaf.length for leaf in leaves if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY")
    names, others = of_bytes(file)
    of_others = sum(_longest_of_differences(read([]), name) for name in others)
    if not names:
        return fixed + of_others
    opened, longest = read(names), 0
    for group in range(opened.num_row_groups):
        first = next(opened.iter_batches(1, row_groups=[group], columns=names, use_threads=False), None)
        if first is not None:
            lengths = [_longest_shared(column) for column in first.columns]
            _check_longest(first.schema.names[int(np.argmax(lengths))], max(lengths))
            longest = max(longest, sum(lengths))
    return fixed + of_others + longest


def _longest_of_differences(file: pq.ParquetFile, name: str) -> int:
    longest = 0
    for batch in file.iter_batches(ROWS_OF_DIFFERENCES, columns=[name], use_threads=False):
        longest = max(longest, *(int(_lengths(column).max(initial=0)) for column in batch.columns))
        _check_longest(name, longest)
    return longest


def _check_longest(name: str, length: int) -> None:
    if length > LONGEST_VALUE:
        raise unreadable(f"column {name} has a value of more than {LONGEST_VALUE:,} bytes")


def _longest_shared(column: pa.Array) -> int:
    """Return the size in bytes of the longest value, in a dictionary even if it does not occur; 0 for other types."""
    if not pa.types.is_dictionary(column.type) and not _is_view(column.type):
        return 0
    while pa.types.is_dictionary(column.type):
        column = column.dictionary
    if _is_bytes(column.type):
        return int(pc.max(pc.binary_length(column)).as_py() or 0)
    return int(_lengths(column).max(initial=0))


def _lengths(column: pa.Array) -> Lengths:
    """Return the size in bytes of every value; an empty array for columns that are neither text nor bytes."""
    data_type = column.type
    if pa.types.is_dictionary(data_type):
        values = _lengths(column.dictionary)
        places = pc.fill_null(column.indices, 0).to_numpy(zero_copy_only=False)
        return np.where(column.is_valid().to_numpy(zero_copy_only=False), values[places], 0)
    if _is_view(data_type):
        sizes = _views(column, column.buffers()[1])[:, 0]
        return np.where(column.is_valid().to_numpy(zero_copy_only=False), sizes, 0)
    if _is_bytes(data_type):
        lengths: Lengths = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
        return lengths
    return np.zeros(0, np.int64)


def _is_view(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_string_view(data_type) or pa.types.is_binary_view(data_type))


def _is_bytes(data_type: pa.DataType) -> bool:
    return any(
        includes(data_type)
        for includes in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    )
