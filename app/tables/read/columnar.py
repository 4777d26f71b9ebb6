"""Read Parquet and Arrow, which are tables already; each of their readers needs the schema first."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from app.dataset import side_columns
from app.model.errors import InvalidInputError
from app.tables.read import extension_types, int96_times, shared_values
from app.tables.read.arrow_inflation import ARROW_MAGIC, check_messages
from app.tables.read.damage_errors import ARROW, PARQUET, damaged, refused
from app.tables.read.read_request import FileTable, ReadOptions, Remark, check_columns, rows_a_batch, unreadable

Batches = Callable[[], Iterator[pa.RecordBatch]]


class _Opened(NamedTuple):
    """The schema of a file, its batches, the number of rows that it states (None: none), and remarks for people."""

    schema: pa.Schema
    batches: Batches
    rows: int | None = None
    remarks: tuple[Remark, ...] = ()


_PARQUET_MAGIC, _ENCRYPTED_MAGIC = b"PAR1", b"PARE"
_ERRORS = (pa.ArrowException, OSError)


def read_parquet(file: BinaryIO, options: ReadOptions) -> FileTable:
    """Read a Parquet file."""
    del options
    file.seek(0)
    head = file.read(len(_PARQUET_MAGIC))
    if head == _ENCRYPTED_MAGIC:
        raise unreadable("the Parquet file is encrypted; write it without encryption")
    if head != _PARQUET_MAGIC:
        raise unreadable("not a Parquet file: its first four bytes are not PAR1")

    def opened() -> _Opened:
        parquet = _parquet(file)
        schema = parquet.schema_arrow
        rows = rows_a_batch(len(schema))
        longest = shared_values.longest_shared(partial(_parquet, file), parquet) if len(schema) else 0
        step = shared_values.rows_of(longest, rows)
        groups = sum(parquet.metadata.row_group(number).num_rows for number in range(parquet.num_row_groups))
        if groups != parquet.metadata.num_rows:
            raise damaged(PARQUET, f"it announces {parquet.metadata.num_rows:,} rows, but its row groups {groups:,}")
        remarks = tuple(int96_times.remarks(parquet, lambda unit: _parquet(file, int96=unit)))
        return _Opened(schema, lambda: _parquet(file).iter_batches(step, use_threads=False), groups, remarks)

    return _reading(file, PARQUET, opened)


def read_arrow(file: BinaryIO, options: ReadOptions) -> FileTable:
    """Read an Arrow IPC file (Feather version 2) or stream."""
    del options
    file.seek(0)
    is_file = file.read(len(ARROW_MAGIC)) == ARROW_MAGIC

    def reader() -> pa.ipc.RecordBatchFileReader | pa.ipc.RecordBatchStreamReader:
        file.seek(0)
        return (pa.ipc.open_file if is_file else pa.ipc.open_stream)(pa.PythonFile(file, "r"))

    def batches() -> Iterator[pa.RecordBatch]:
        found = reader()
        return map(found.get_batch, range(found.num_record_batches)) if is_file else iter(found)

    def opened() -> _Opened:
        remark = check_messages(file, is_file=is_file)
        return _Opened(reader().schema, batches, remarks=(Remark(None, remark),) if remark else ())

    return _reading(file, ARROW, opened)


def _reading(file: BinaryIO, kind: str, open_: Callable[[], _Opened]) -> FileTable:
    try:
        opened = open_()
        schema = extension_types.plain_schema(opened.schema)
        check_columns(len(schema))
        for field in schema:  # names that are not UTF-8, which no reader checks, raise UnicodeDecodeError
            side_columns.missing_of(field), side_columns.bytes_of(field), field.name, getattr(field.type, "tz", None)
    except UnicodeDecodeError:
        raise damaged(kind, "the names or the metadata of its columns are not UTF-8") from None
    except _ERRORS as error:
        raise _explained(file, kind, error) from None

    def batches() -> Iterator[pa.RecordBatch]:
        rows = number = 0
        try:
            for number, batch in enumerate(opened.batches(), 1):
                _validate(batch, kind, _named(number, rows))
                rows += batch.num_rows
                plain = extension_types.plain_batch(batch, schema)
                yield from shared_values.slices(plain, rows_a_batch(len(schema)))
        except _ERRORS as error:
            raise _explained(file, kind, error, f"in {_named(number + 1, rows)}") from None
        if opened.rows is not None and rows != opened.rows and len(schema):
            raise damaged(kind, f"it announces {opened.rows:,} rows, but has {rows:,}")

    return FileTable(schema, batches, opened.remarks)


def _named(batch: int, rows_before: int) -> str:
    return f"batch {batch:,} (from row {rows_before + 1:,} on)"


def _explained(file: BinaryIO, kind: str, error: BaseException, where: str = "") -> InvalidInputError:
    """Return the error of a file that Arrow refuses. Of Parquet, the damaged column is looked for."""
    place = _damaged_column(file) if kind == PARQUET else ""
    return refused(kind, error, place or where)


def _damaged_column(file: BinaryIO) -> str:
    """Return the place of the first column of a row group that cannot be read; "" if all of them can, or none.

    Dictionaries are not expanded: a small file of them may be a huge table.
    """
    try:
        shared = shared_values.of_bytes(_parquet(file))
        opened = _parquet(file, shared.with_dictionaries)
    except _ERRORS:
        return ""
    names = [opened.schema.column(number).path for number in range(len(opened.schema))]
    for group in range(opened.num_row_groups):
        for number, name in enumerate(names):
            step = shared_values.ROWS_OF_DIFFERENCES if name in shared.of_differences else rows_a_batch(len(names))
            try:
                for _ in opened.iter_batches(step, row_groups=[group], columns=[name], use_threads=False):
                    pass
            except _ERRORS:
                chunk = opened.metadata.row_group(group).column(number)
                begin = chunk.dictionary_page_offset or chunk.data_page_offset
                groups = f"{group + 1:,} of {opened.num_row_groups:,}"
                return f"in column {name} of row group {groups} (from byte {begin:,} on)"
    return ""


def _validate(batch: pa.RecordBatch, kind: str, where: str) -> None:
    """Raise InvalidInputError for a damaged batch.

    Arrow trusts a file's offsets, texts and dictionary indexes; wrong ones point outside of its memory.
    """
    for field, column in zip(batch.schema, batch.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            raise refused(kind, error, f"in column {field.name} of {where}") from None


def _parquet(
    file: BinaryIO, read_dictionary: list[str] | None = None, *, int96: str = int96_times.UNIT
) -> pq.ParquetFile:
    return pq.ParquetFile(
        pa.PythonFile(file, "r"),
        read_dictionary=read_dictionary,
        coerce_int96_timestamp_unit=int96,
        page_checksum_verification=True,
    )
