"""Convert record batches to Parquet and back, streaming. The Arrow schema with its `sas.*` metadata is stored too.

Short tables of the types that data sets have are written by arro3, the Parquet writer of Arrow's Rust library. It takes
a quarter of the time of pyarrow's writer, which spends most of it on what is the same in every file.
"""

import io
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any, Protocol

import arro3.io
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ROW_GROUP_BYTES = 32 << 20
ROW_GROUP_ROWS = 1 << 20
SAMPLE_ROWS = 16_384
"""The number of rows that determine the encoding of a column."""
SHORT_ROWS = 500
"""The rows below which a table is short. Zstandard takes most of the time of its file: it needs a context for each
column."""
DATA_SET_TYPES = frozenset(
    (
        pa.float64(),
        pa.date32(),
        pa.timestamp("us"),
        pa.time64("us"),
        pa.duration("us"),
        pa.string(),
        pa.binary(),
    )
)
"""The types of the columns of data sets."""
SMALL_BYTES = 1 << 20
"""The bytes of a table in memory up to which its file is made in memory."""
BUFFER_BYTES = 64 << 10
"""The bytes that are written to a sink together, since a Parquet file consists of many small pieces."""


class Sink(Protocol):
    """A destination of bytes, in order."""

    def write(self, data: bytes, /) -> Any: ...


class _File(io.RawIOBase):
    """A sink as the file that pyarrow needs."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self._sink.write(data)
        return len(data)


def write_parquet(schema: pa.Schema, batches: Iterable[pa.RecordBatch], sink: Sink) -> int:
    """Write a Parquet file and return its number of rows. Holds one row group in memory (about 32 MiB)."""
    groups = row_groups(schema, batches)
    first = [*islice(groups, 1)]
    if sum(map(_size, first)) <= SMALL_BYTES:  # so small a group is the last one
        if first and _is_short(first[0]):
            sink.write(_short_file(first[0]))
            return len(first[0])
        # With a file of Python's, each piece would be a call from C++: a third of the time of a file of 100 rows.
        held = pa.BufferOutputStream()
        rows = sum(_written(schema, iter(first), held))
        sink.write(held.getvalue().to_pybytes())
        return rows
    groups = chain(iter([first.pop()]), groups)
    with io.BufferedWriter(_File(sink), BUFFER_BYTES) as file:
        return sum(_written(schema, groups, file))


def parquet_file(table: pa.RecordBatch) -> bytes:
    """Return the file of a table of few bytes, as `write_parquet` writes it."""
    if _is_short(table):
        return _short_file(table)
    held = io.BytesIO()
    write_parquet(table.schema, [table], held)
    return held.getvalue()


def _is_short(table: pa.RecordBatch | pa.Table) -> bool:
    return bool(table.num_columns) and 0 < table.num_rows < SHORT_ROWS and DATA_SET_TYPES.issuperset(table.schema.types)


def _short_file(table: pa.RecordBatch | pa.Table) -> bytes:
    held = io.BytesIO()
    arro3.io.write_parquet(table, held, compression="snappy", dictionary_enabled=False)
    return held.getvalue()


def write_row_groups(schema: pa.Schema, batches: Iterable[pa.RecordBatch], file: io.IOBase) -> Iterator[int]:
    """Write a Parquet file row group by row group, and yield the number of rows of each one written."""
    return _written(schema, row_groups(schema, batches), file)


def _written(schema: pa.Schema, groups: Iterator[pa.Table], file: io.IOBase | pa.NativeFile) -> Iterator[int]:
    group = next(groups, None)
    sample = schema.empty_table() if group is None else group.slice(0, SAMPLE_ROWS)
    with parquet_writer(schema, file, sample) as writer:
        del sample
        while group is not None:
            rows = group.num_rows
            writer.write_table(group, row_group_size=rows)
            group = None  # otherwise two row groups would be in memory while the next one is gathered
            yield rows
            group = next(groups, None)


def parquet_writer(
    schema: pa.Schema, file: io.IOBase | pa.NativeFile, sample: pa.Table | None = None
) -> pq.ParquetWriter:
    """Return a writer with the settings of all Parquet files here.

    Strings are written by dictionary, except in columns that seldom repeat a value in `sample`: there it is slower and
    no shorter. A short table has Snappy in place of Zstandard, and no dictionary.
    """
    if sample is not None and sample.num_rows < SHORT_ROWS:
        return pq.ParquetWriter(file, schema, compression="snappy", use_dictionary=False)
    strings = [field.name for field in schema if pa.types.is_string(field.type)]
    if sample is not None:
        strings = [
            name for name in strings if pc.count_distinct(sample[name], mode="all").as_py() * 2 <= sample.num_rows
        ]
    return pq.ParquetWriter(file, schema, compression="zstd", compression_level=1, use_dictionary=strings)


def _size(rows: pa.RecordBatch | pa.Table) -> int:
    """Return the bytes of rows in memory. For few bytes it may be the size of all buffers that they share with others,
    which takes no time."""
    shared: int = rows.get_total_buffer_size()
    return shared if shared <= BUFFER_BYTES else rows.nbytes


def row_groups(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the batches as tables that make a row group each."""
    group: list[pa.RecordBatch] = []
    size = rows = 0
    for batch in batches:
        group.append(batch)
        rows += batch.num_rows
        size += _size(batch)
        if size >= ROW_GROUP_BYTES or rows >= ROW_GROUP_ROWS:
            yield pa.Table.from_batches(group, schema)
            group, size, rows = [], 0, 0
    if group:
        yield pa.Table.from_batches(group, schema)


def read_parquet(source: Any, rows_a_batch: int = 16_384) -> pa.RecordBatchReader:
    """Return a Parquet file's rows (`source`: path, seekable file or buffer), a batch at a time.

    Raises pa.ArrowInvalid if it is not a Parquet file.
    """
    file = pq.ParquetFile(source)
    return pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches(rows_a_batch))
