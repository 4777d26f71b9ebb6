"""The buffers of vardata parts <-> record batches. Fields have lengths of their own, so they are found one by one."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from app.codecs.sapdb.constants import NUMBERS, DataType, Undef
from app.codecs.sapdb.data_rows import RowsError, encode_vardata, vardata_fields
from app.codecs.sapdb.parameter_values import BLANK, Described, Manner, decode_content, text_codec
from app.dataset import sas_columns
from app.dataset.conversion_error import located
from app.dataset.sapdb.column_types import BYTES
from app.dataset.sapdb.row_columns import (
    LongName,
    RowColumn,
    encode_column,
    longer,
    named_by_descriptor,
    read_column,
)
from app.wire import WireError
from app.wire.kinds import Buffer

_Field = tuple[int, bytes | Undef | None]
_UNITS = {"utf-16-le": 2, "utf-16-be": 2}


def decode(
    buffer: Buffer,
    parameters: Sequence[Described],
    manner: Manner,
    schema: pa.Schema,
    long_name: LongName = named_by_descriptor,
    first: int = 0,
) -> pa.RecordBatch:
    """Return the rows of a vardata part. Fields without a value are nulls, whichever they are.

    `first` is the number of the first row, for errors. Raises WireError as `app.codecs.sapdb.data_rows.decode_vardata`
    does, and LongTimes.
    """
    rows = list(vardata_fields(buffer))
    for number, fields in enumerate(rows):
        if len(fields) != len(parameters):
            at = fields[0][0] if fields else 0
            raise RowsError(f"row[{first + number}]", at, f"{len(fields)} fields of {len(parameters)} parameters")
    arrays = [
        _column([row[number] for row in rows], number, info, field.type, manner, long_name, first)
        for number, (info, field) in enumerate(zip(parameters, schema, strict=True))
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _column(
    fields: Sequence[_Field],
    number: int,
    info: Described,
    wanted: pa.DataType,
    manner: Manner,
    long_name: LongName,
    first: int,
) -> pa.Array:
    def place(row: int) -> tuple[str, int]:
        return f"row[{first + row}].value[{number}]", fields[row][0]

    def read_one(row: int) -> Any:
        field = fields[row][1]
        return decode_content(info.data_type, field, manner, *place(row)) if isinstance(field, bytes) else field

    contents = [field if isinstance(field, bytes) else None for _, field in fields]
    if info.data_type in BYTES and info.data_type != DataType.VARCHAR_BYTE:
        for row, content in enumerate(contents):
            if content is not None and len(content) > info.length:
                raise WireError(*place(row), longer(info, "bytes"))
        return pa.array(contents, pa.binary())
    absent = np.array([content is None for content in contents], np.bool_)
    sizes = {len(content) for content in contents if content is not None}
    if not _can_be_padded(info, sizes, manner):
        # One of them is no value, and reading it says why.
        contents = [None if content is None else read_one(row) and None for row, content in enumerate(contents)]
    width = max(sizes, default=0)
    codec = text_codec(info.data_type, manner.code, BLANK)
    filler = b"\0" if codec is None else " ".encode(codec)
    padding = filler * (width // len(filler) + 1)
    joined = b"".join((content or b"") + padding[: width - len(content or b"")] for content in contents)
    cells = np.frombuffer(joined, np.uint8).reshape(len(contents), width)
    column = RowColumn(number, info, wanted, cells, absent, np.full(len(absent), BLANK, np.uint8), read_one, place)
    return read_column(column, manner, long_name)


def _can_be_padded(info: Described, sizes: set[int], manner: Manner) -> bool:
    """Tell whether fields of these sizes say the same with padding."""
    if info.data_type in NUMBERS:
        return 0 not in sizes
    codec = text_codec(info.data_type, manner.code, BLANK)
    if codec in _UNITS:
        return all(size % _UNITS[codec] == 0 for size in sizes)
    return codec is not None or len(sizes) <= 1 or info.data_type == DataType.VARCHAR_BYTE


def encode(batch: pa.RecordBatch, parameters: Sequence[Described], manner: Manner, first: int = 0) -> list[bytes]:
    """Return the rows of a batch, each as a vardata part has it.

    `first` is the number of the batch's first row, for errors. Raises InvalidInputError, naming column and row.
    """
    found: list[list[bytes | Undef | None]] = []
    for field, values, info in zip(batch.schema, batch.columns, parameters, strict=True):
        with located(field.name, first):
            cells, _ = encode_column(values, info, manner)
        contents = [cell.tobytes() for cell in cells]
        codec = text_codec(info.data_type, manner.code, BLANK)
        if codec is not None and sas_columns.is_text(values.type):
            blank = " ".encode(codec)
            contents = [_without(content, blank) for content in contents]
        elif info.data_type == DataType.VARCHAR_BYTE:
            contents = [content.rstrip(b"\0") for content in contents]
        present = values.is_valid().to_pylist()
        found.append([content if there else Undef.NULL for content, there in zip(contents, present, strict=True)])
    return [encode_vardata([row]) for row in zip(*found, strict=True)]


def _without(cell: bytes, blank: bytes) -> bytes:
    while cell.endswith(blank):
        cell = cell[: -len(blank)]
    return cell
