"""Rows of data and vardata parts, as a shortinfo part describes them.

Rows of data follow each other directly and have one length; after the last one are the bytes of LONG values. Rows of
vardata have a length in front of each field, which is always big-endian.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from app.codecs.sapdb.constants import LONGS, IoType, Undef
from app.codecs.sapdb.packet_records import ParameterInfo
from app.codecs.sapdb.parameter_values import (
    Described,
    Manner,
    Value,
    decode_content,
    decode_value,
    encode_value,
    least_in_out_len,
)
from app.wire import WireError
from app.wire.kinds import Buffer

_MOST_SHORT: Final = 245
"""The longest field that is written after a length of one byte; up to 249 bytes are read so."""

_BUFPOS_AT: Final = ParameterInfo.SIZE - 4
_IN_OUT_LEN_AT: Final = _BUFPOS_AT - 2
_IGNORED, _LONG_LENGTH = 250, 255
_MARKS: Final = {251: Undef.SPECIAL_NULL, 252: Undef.LONG_DEFAULT, 253: Undef.DEFAULT, 254: Undef.NULL}
_MARKED: Final = {undef: mark for mark, undef in _MARKS.items()}

Row = tuple[Value | None, ...]
"""The values of one row. None is a field of vardata that is to be ignored."""


class RowsError(WireError):
    """Rows that are not as many, or not as long, as their description says."""


def columns(parameters: Sequence[ParameterInfo]) -> tuple[ParameterInfo, ...]:
    """Return the parameters that a reply's rows have: output and inout."""
    return tuple(each for each in parameters if each.io_type != IoType.INPUT)


def inputs(parameters: Sequence[ParameterInfo]) -> tuple[ParameterInfo, ...]:
    """Return the parameters that a request's rows have: input and inout."""
    return tuple(each for each in parameters if each.io_type != IoType.OUTPUT)


def row_size(parameters: Sequence[ParameterInfo], numbers: Sequence[int] = ()) -> int:
    """Return the bytes of a row of a data part. `numbers` are those of the parameters in their shortinfo part, if they
    are not all of it. The byte of an error is one of that part.

    Raises WireError for places that no row can have, for two values in one place, and where an in/out length is too
    short for its length. A longer one loses no byte of a value.
    """
    end = 0
    numbered = zip(numbers or range(len(parameters)), parameters, strict=True)
    for number, each in sorted(numbered, key=lambda some: some[1].bufpos):
        at = number * ParameterInfo.SIZE
        if each.bufpos < 1 or each.in_out_len < 1:
            why = f"{each.in_out_len} bytes at position {each.bufpos} of a row"
            raise WireError(f"parameter[{number}].bufpos", at + _BUFPOS_AT, why)
        if each.bufpos <= end:
            why = f"position {each.bufpos} of a row, but the value before it ends at {end}"
            raise WireError(f"parameter[{number}].bufpos", at + _BUFPOS_AT, why)
        if each.in_out_len < (least := least_in_out_len(each)):
            why = f"{each.in_out_len}, but values of length {each.length} take {least} bytes"
            raise WireError(f"parameter[{number}].in_out_len", at + _IN_OUT_LEN_AT, why)
        end = each.bufpos - 1 + each.in_out_len
    return end


def check_rows(buffer: Buffer, parameters: Sequence[ParameterInfo], size: int, count: int) -> None:
    """Raise RowsError where a data part does not have the bytes of `count` rows of `size` bytes.

    Only LONG values may be after the rows.
    """
    has_longs = any(each.data_type in LONGS for each in parameters)
    if count < 0 or count * size > len(buffer) or (count * size < len(buffer) and not has_longs):
        raise RowsError("data", 0, f"{count} rows of {size} bytes in {len(buffer)}")


def decode_rows(buffer: Buffer, parameters: Sequence[ParameterInfo], count: int, manner: Manner) -> list[Row]:
    """Return `count` rows of a data part. Raises WireError.

    `count` is the argument count of a mass command or a reply; other requests have one row, whatever their count says.
    """
    size = row_size(parameters)
    check_rows(buffer, parameters, size, count)
    return [
        tuple(
            decode_value(
                each.data_type,
                buffer[at + each.bufpos - 1 : at + each.bufpos - 1 + each.in_out_len],
                manner,
                f"row[{number}].value[{column}]",
                at + each.bufpos - 1,
            )
            for column, each in enumerate(parameters)
        )
        for number, at in enumerate(range(0, count * size, size) if size else [])
    ]


def encode_rows(
    rows: Sequence[Sequence[Value | int | None]], parameters: Sequence[ParameterInfo], manner: Manner
) -> bytes:
    """Return the buffer of a data part. None is NULL. Raises WireError and NumberOverflow."""
    size = row_size(parameters)
    out = bytearray(size * len(rows))
    for number, row in enumerate(rows):
        if len(row) != len(parameters):
            raise WireError(f"row[{number}]", number * size, f"{len(row)} values of {len(parameters)} parameters")
        for column, (value, each) in enumerate(zip(row, parameters, strict=True)):
            at = number * size + each.bufpos - 1
            out[at : at + each.in_out_len] = encode_value(value, each, manner, f"row[{number}].value[{column}]")
    return bytes(out)


def vardata_fields(buffer: Buffer) -> Iterator[list[tuple[int, bytes | Undef | None]]]:
    """Find the rows of a vardata part: each field with the byte where its bytes begin. Raises RowsError."""
    at = number = 0
    while at < len(buffer):
        if at + 2 > len(buffer):
            raise RowsError(f"row[{number}]", at, "a row without its number of fields")
        count = int.from_bytes(buffer[at : at + 2], "big")
        at += 2
        if count > len(buffer) - at:
            raise RowsError(f"row[{number}]", at - 2, f"{count} fields in {len(buffer) - at} bytes")
        row = []
        for column in range(count):
            field, start, at = _field(buffer, at, f"row[{number}].value[{column}]")
            row.append((start, field))
        yield row
        number += 1


def _field(buffer: Buffer, at: int, row: str) -> tuple[bytes | Undef | None, int, int]:
    """Return a field, the place of its first byte, and the place after its last one."""
    if at >= len(buffer):
        raise RowsError(row, at, "a field without its length")
    first, start = buffer[at], at + 1
    if first in _MARKS:
        return _MARKS[first], start, start
    if first == _IGNORED:
        return None, start, start
    length = first
    if first == _LONG_LENGTH:
        start += 2
        length = int.from_bytes(buffer[at + 1 : start], "big")
    if start + length > len(buffer):
        raise RowsError(row, at, f"{length} bytes, but {max(0, len(buffer) - start)} are left")
    return bytes(buffer[start : start + length]), start, start + length


def decode_vardata(buffer: Buffer, parameters: Sequence[Described], manner: Manner) -> list[Row]:
    """Return the rows of a vardata part, with a field for each parameter. Raises WireError."""
    rows = []
    for number, fields in enumerate(vardata_fields(buffer)):
        if len(fields) != len(parameters):
            at = fields[0][0] if fields else 0
            raise RowsError(f"row[{number}]", at, f"{len(fields)} fields of {len(parameters)} parameters")
        values = [
            decode_content(each.data_type, field, manner, f"row[{number}].value[{column}]", at)
            if isinstance(field, bytes)
            else field
            for column, ((at, field), each) in enumerate(zip(fields, parameters, strict=True))
        ]
        rows.append(tuple(values))
    return rows


def encode_vardata(rows: Sequence[Sequence[bytes | Undef | None]]) -> bytes:
    """Return the buffer of a vardata part of fields as `vardata_fields` finds them. Raises WireError."""
    out = bytearray()
    for number, row in enumerate(rows):
        if len(row) > 0xFFFF:
            raise WireError(f"row[{number}]", len(out), f"{len(row)} fields, at most {0xFFFF} fit")
        out += len(row).to_bytes(2, "big")
        for column, field in enumerate(row):
            if field is None:
                out.append(_IGNORED)
            elif isinstance(field, Undef):
                out.append(_MARKED[field])
            elif len(field) <= _MOST_SHORT:
                out += bytes([len(field)]) + field
            elif len(field) <= 0xFFFF:
                out += bytes([_LONG_LENGTH]) + len(field).to_bytes(2, "big") + field
            else:
                why = f"{len(field)} bytes, at most {0xFFFF} fit"
                raise WireError(f"row[{number}].value[{column}]", len(out), why)
    return bytes(out)
