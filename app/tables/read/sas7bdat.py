"""Read SAS data sets as SAS itself stores them: sas7bdat files.

pyreadstat parses them, with the C library ReadStat. The library reads each byte as a character, and texts are
decoded here: its own decoders keep state from one text to the next, and have not all character sets of SAS. The file is
parsed once, some rows at a time. The rows go to a temporary file as plain doubles, texts, bytes that do not decode, and
special missing values, and the types of dates and times are determined on the way. `batches` then reads the temporary
file.
"""

import tempfile
import warnings
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import IO, Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

from app.codecs.sas.data_set_messages import Variable
from app.dataset import character_columns, checks, decode, missing, schema
from app.dataset.conversion_error import BadValueError
from app.dataset.numeric import Numbers
from app.dataset.schema import Column
from app.tables.read import sas_file_headers
from app.tables.read.damage_errors import READSTAT, SAS7BDAT, damaged, meaning
from app.tables.read.read_request import FileTable, ReadOptions, Remark, check_columns, unreadable
from app.tables.read.sas_file_headers import AsLatin1
from app.tables.read.text_charsets import Metadata

MAGIC: Final = bytes.fromhex("000000000000000000000000c2ea8160b31411cfbd92080009c7318c181f1011")
"""The first bytes of every sas7bdat file."""

CELLS_A_CHUNK = 1 << 19
"""The maximum number of cells that are parsed at once: about 60 bytes of memory each."""

CELLS_A_BATCH = 1 << 21
"""The maximum number of cells of a batch, which is one chunk or several: each call on a short column has its cost."""

MOST_BYTES = 16 << 20
"""The maximum size of the rows of a chunk or a batch, as the file has them: a long text takes more than a cell."""

_ERRORS = (Warning, ArithmeticError, ValueError, LookupError, TypeError, OSError)

_SPOOLED = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_UNSPOOLED = pa.ipc.IpcReadOptions(use_threads=False)
"""Columns are many and short: threads cost more than they save."""


def read(file: BinaryIO, options: ReadOptions) -> FileTable:
    """Read a sas7bdat file. Raises InvalidInputError for a file that is damaged, cut off or encrypted.

    Texts are in the character set that the file states, unless `options` state another one.
    """
    file.seek(0)
    if file.read(len(MAGIC)) != MAGIC:
        raise unreadable(f"not a sas7bdat file: its first {len(MAGIC)} bytes differ")
    charset = sas_file_headers.charset_of(file, SAS7BDAT, options.encoding)
    if sas_file_headers.has_no_variables(file):
        return FileTable(pa.schema([]), lambda: iter(()))
    about = _parsed(file)[1]
    if about.number_rows is None:
        raise damaged(SAS7BDAT, "the number of observations in its header is negative")
    metadata = Metadata(charset.codec)
    variables = _variables(about, metadata)
    columns = list(schema.columns(variables, [0] * len(variables)))
    spooled = _Spool()
    rows, is_ascii = _spool(file, charset.codec, about, columns, spooled.file)
    if rows != about.number_rows:
        what = f"it states {about.number_rows:,} observations, but has {rows:,}"
        raise sas_file_headers.explained(file, SAS7BDAT, what)
    attributes = {
        "sas.label": metadata.text(about.file_label or "", "data set's label"),
        "sas.obs_length": str(sum(each.length for each in variables)),
        "sas.member": metadata.text(about.table_name or "", "data set's name"),
        "sas.encoding": charset.codec,
    }
    whole = schema.arrow_schema(columns, {key: value for key, value in attributes.items() if value})

    def batches() -> Iterator[pa.RecordBatch]:
        spooled.file.seek(0)
        for raw in pa.ipc.open_stream(spooled.file, options=_UNSPOOLED):
            arrays = [array for at, column in enumerate(columns) for array in _arrays(column, raw, at)[0]]
            yield pa.RecordBatch.from_arrays(arrays, schema=whole)

    if charset.unstated and not is_ascii:
        why = f"it states no character set and was read as {charset.codec}; state its `encoding`"
        return FileTable(whole, batches, (Remark(None, why), *metadata.remarks))
    return FileTable(whole, batches, tuple(metadata.remarks))


class _Spool:
    """A temporary file that is closed when nothing refers to it any more."""

    def __init__(self) -> None:
        self.file = tempfile.TemporaryFile()  # noqa: SIM115 - readings need it as long as they yield batches

    def __del__(self) -> None:
        self.file.close()


def _parsed(file: Any, rows: range | None = None) -> tuple[dict[str, list[Any]], Any]:
    """Return these rows of the columns as lists (None: no rows), and pyreadstat's metadata.

    Raises InvalidInputError that names the damaged row, if the damage is in a row.
    """
    try:
        return _parse(file, rows)
    except _UnparsedError as error:
        damaged_row = None if rows is None else _first_damaged(file, rows)
        where = "in the description of its variables" if rows is None else ""
        raise sas_file_headers.explained(file, SAS7BDAT, meaning(error, READSTAT), where, damaged_row) from None


class _UnparsedError(Exception):
    """An error of pyreadstat."""


def _parse(file: Any, rows: range | None) -> tuple[dict[str, list[Any]], Any]:
    import pyreadstat  # noqa: PLC0415 - slow to import, and few processes read such files

    file.seek(0)
    source: Any = AsLatin1(file)
    part = {"metadataonly": True} if rows is None else {"row_offset": rows.start, "row_limit": len(rows)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # it warns of two variables with one name, and drops one of them
            return pyreadstat.read_sas7bdat(
                source,
                user_missing=True,
                disable_datetime_conversion=True,
                output_format="dict",
                **part,
            )
    except MemoryError:
        raise
    except (*_ERRORS, pyreadstat.ReadstatError, pyreadstat.PyreadstatError) as error:
        raise _UnparsedError(str(error)) from None


def _first_damaged(file: Any, rows: range) -> int:
    """Return the first of these rows, from 1, that cannot be parsed. All of them together cannot."""

    def is_damaged(count: int) -> bool:
        try:
            _parse(file, rows[:count])
        except _UnparsedError:
            return True
        return False

    return rows.start + bisect_left(range(1, len(rows)), x=True, key=is_damaged) + 1


def _variables(about: Any, metadata: Metadata) -> list[Variable]:
    """Return the variables of a file. Raises InvalidInputError."""
    names: Sequence[str] = about.column_names
    check_columns(len(names))
    if not names:
        raise damaged(SAS7BDAT, "it has not the variables that it states")
    if len(set(names)) < len(names) or not all(names):
        raise damaged(SAS7BDAT, "it has variables without a name or with the same name")
    found = []
    for raw in names:
        is_text = about.readstat_variable_types[raw] == "string"
        name = metadata.text(raw, "name", raw)
        written, read_with = (
            checks.reference(metadata.text(by_column.get(raw) or "", what, name))
            for by_column, what in (
                (about.original_variable_types, "format"),
                (about.original_variable_informats, "informat"),
            )
        )
        found.append(
            Variable(
                name=name,
                format=written.name,
                informat=read_with.name,
                label=metadata.text(about.column_names_to_labels[raw] or "", "label", name),
                type=b"\2" if is_text else b"\1",
                length=about.variable_storage_width[raw] if is_text else min(about.variable_storage_width[raw], 8),
                format_length=written.width,
                format_decimal=written.decimals,
                informat_length=read_with.width,
                informat_decimal=read_with.decimals,
            )
        )
    return found


def _spool(file: BinaryIO, charset: str, about: Any, columns: list[Column], spooled: IO[bytes]) -> tuple[int, bool]:
    """Write all rows to a temporary file. Settle the columns as the values require.

    Return the number of rows, and whether all texts are ASCII.
    """
    raw_schema = pa.schema(
        [
            field
            for at, column in enumerate(columns)
            for field in (
                (pa.field(f"{at}", pa.float64()), pa.field(f"{at} side", pa.string()))
                if column.variable.is_numeric
                else (pa.field(f"{at}", pa.string()), pa.field(f"{at} side", pa.binary()))
            )
        ]
    )
    row_bytes = max(1, sum(column.variable.length for column in columns))  # a damaged file may state lengths of 0
    step = max(1, min(CELLS_A_CHUNK // len(columns), MOST_BYTES // row_bytes))
    together = max(step, min(CELLS_A_BATCH // len(columns), MOST_BYTES // row_bytes))
    rows, is_ascii = 0, True
    with pa.ipc.new_stream(spooled, raw_schema, options=_SPOOLED) as writer:
        chunks = _chunks(file, charset, about, columns, step)
        for batch in _joined((pa.RecordBatch.from_arrays(arrays, schema=raw_schema) for arrays in chunks), together):
            for at, column in enumerate(columns):
                columns[at] = _arrays(column, batch, at, rows)[1]
                if is_ascii and not column.variable.is_numeric:
                    is_ascii = bool(pc.all(pc.string_is_ascii(batch.column(f"{at}")), min_count=0).as_py())
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows, is_ascii


def _chunks(file: BinaryIO, charset: str, about: Any, columns: Sequence[Column], step: int) -> Iterator[list[pa.Array]]:
    """Yield the rows, `step` at a time, as Arrow columns; it ends where the file has no more.

    A text has a side column of the bytes that do not decode, a number one of the letters of missing values.
    """
    kinds = [(raw, column.variable.is_numeric) for raw, column in zip(about.column_names, columns, strict=True)]
    for first in range(0, about.number_rows, step):
        found, _ = _parsed(file, range(first, min(first + step, about.number_rows)))
        arrays: list[pa.Array] = []
        for name, is_numeric in kinds:  # each list is dropped as soon as its arrays are made
            values = found.pop(name)
            if not is_numeric:
                texts = pa.array(["" if value is None else value for value in values], pa.string())
                reread = character_columns.reread(texts, charset)
                arrays += (
                    reread.strings,
                    pa.nulls(len(texts), pa.binary()) if reread.damaged is None else reread.damaged,
                )
                continue
            try:
                arrays += pa.array(values, pa.float64()), pa.nulls(len(values), pa.string())
            except (pa.ArrowInvalid, pa.ArrowTypeError):
                arrays += (
                    pa.array([None if isinstance(value, str) else value for value in values], pa.float64()),
                    pa.array([f".{value}" if isinstance(value, str) else None for value in values], pa.string()),
                )
        if not len(arrays[0]):
            return
        yield arrays


def _joined(chunks: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield batches of at most this number of rows, or of one chunk."""
    held: list[pa.RecordBatch] = []
    for chunk in chunks:
        if held and sum(each.num_rows for each in held) + chunk.num_rows > rows:
            yield pa.concat_batches(held)
            held = []
        held.append(chunk)
    if held:
        yield pa.concat_batches(held)


def _arrays(column: Column, raw: pa.RecordBatch, at: int, first: int = 0) -> tuple[list[pa.Array], Column]:
    """Return the column's array, its side column's if it has one, and the column as these values require it."""
    values, side = raw.column(f"{at}"), raw.column(f"{at} side")
    if not column.variable.is_numeric:
        if side.null_count < len(side) and not column.has_side:
            column = replace(column, has_side=True)
        return [values, side] if column.has_side else [values], column
    try:
        tags = missing.from_arrow(side) if side.null_count < len(side) else None
    except BadValueError as error:
        raise damaged(SAS7BDAT, f"variable {column.name}: {error.why}", row=first + error.row + 1) from None
    doubles = np.array(values.to_numpy(zero_copy_only=False))
    absent = ~np.isfinite(doubles)
    if odd := int(np.count_nonzero(absent)) - values.null_count:
        column = replace(column, odd=column.odd + odd)
    if tags is not None and not column.has_side:
        column = replace(column, has_side=True)
    array, column = decode.counted(column, Numbers(doubles, absent if absent.any() else None, tags), first)
    return [array, missing.to_arrow(tags, len(doubles))] if column.has_side else [array], column
