"""Parquet and Arrow: tables already; every reader of theirs has the schema first."""

from collections.abc import Callable, Iterator
from typing import BinaryIO

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from app.tables.read.reading import Options, Reading, check_columns, rows_a_batch, unreadable

Open = Callable[[BinaryIO], tuple[pa.Schema, Iterator[pa.RecordBatch]]]


def read_parquet(file: BinaryIO, options: Options) -> Reading:
    """A Parquet file."""
    del options
    return _reading(file, "a Parquet file", _open_parquet)


def read_arrow(file: BinaryIO, options: Options) -> Reading:
    """An Arrow IPC file (Feather version 2) or stream."""
    del options
    file.seek(0)
    is_file = file.read(len(ARROW_MAGIC)) == ARROW_MAGIC
    return _reading(file, "an Arrow IPC file or stream", _open_file if is_file else _open_stream)


ARROW_MAGIC = b"ARROW1"


def _reading(file: BinaryIO, what: str, open_: Open) -> Reading:
    try:
        schema = open_(file)[0]
        check_columns(len(schema))
    except (pa.ArrowException, OSError) as error:
        raise unreadable(f"not {what}: {error}") from None

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            step = rows_a_batch(len(schema))
            for batch in open_(file)[1]:
                for at in range(0, batch.num_rows, step):
                    yield batch.slice(at, step)
        except (pa.ArrowException, OSError) as error:
            raise unreadable(f"it is damaged: {error}") from None

    return Reading(schema, batches)


def _open_parquet(file: BinaryIO) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    opened = pq.ParquetFile(pa.PythonFile(file, "r"), page_checksum_verification=True)
    return opened.schema_arrow, opened.iter_batches(rows_a_batch(len(opened.schema_arrow)), use_threads=False)


def _open_file(file: BinaryIO) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    file.seek(0)
    opened = pa.ipc.open_file(pa.PythonFile(file, "r"))
    return opened.schema, (opened.get_batch(number) for number in range(opened.num_record_batches))


def _open_stream(file: BinaryIO) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    file.seek(0)
    opened = pa.ipc.open_stream(pa.PythonFile(file, "r"))
    return opened.schema, iter(opened)
