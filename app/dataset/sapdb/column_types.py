"""Which Arrow type the values of each SAP DB type become, and which SAP DB type takes the values of an Arrow type.

Numbers of a fixed point are decimals of their own precision; floating-point ones are doubles. The metadata of a field
say what its values were (`sapdb.type`, `sapdb.length`, `sapdb.frac`); its rows are written as the same again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.codecs.sapdb.constants import (
    ASCII_TEXTS,
    EBCDIC_TEXTS,
    LONGS,
    NUMBERS,
    UNICODE_TEXTS,
    DataType,
    IoType,
    ParameterMode,
)
from app.codecs.sapdb.numbers import MOST_DIGITS
from app.codecs.sapdb.packet_records import ParameterInfo
from app.codecs.sapdb.parameter_values import Described, Manner, decode_text, fraction, in_out_len
from app.dataset import sas_columns
from app.dataset.sapdb.text_columns import wide_lengths
from app.model.errors import InvalidInputError

TYPE, LENGTH, FRAC, MODE = "sapdb.type", "sapdb.length", "sapdb.frac", "sapdb.mode"
NAME = "sapdb.name"
"""Metadata of a field."""

DOUBLE_DIGITS: Final = 17
"""Decimal digits by which any two doubles differ."""

TEXTS: Final = ASCII_TEXTS | EBCDIC_TEXTS | UNICODE_TEXTS
LONG_BYTES: Final = frozenset({DataType.LONG_BYTE, DataType.LONGFILE_BYTE})
BYTES: Final = frozenset({DataType.CHAR_BYTE, DataType.VARCHAR_BYTE, DataType.ROWID})

_LONGEST_FIELD: Final = 32_767
"""The most bytes of a value that shortinfo can state, with the undef byte."""

_NOT_LATIN: Final = "[^\u0000-\u00ff]"

_PLAIN: Final[Mapping[int, pa.DataType]] = {
    DataType.BOOLEAN: pa.bool_(),
    DataType.DATE: pa.date32(),
    DataType.TIME: pa.time64("us"),
    DataType.TIMESTAMP: pa.timestamp("us"),
}


def is_unknown(data_type: int) -> bool:
    """Return whether nothing says what the values of a type are. They are bytes then."""
    return data_type not in NUMBERS | TEXTS | LONGS | BYTES and data_type not in _PLAIN


def arrow_type(info: Described) -> pa.DataType:
    """Return the type of a column. Raises InvalidInputError for a number that cannot be."""
    if info.data_type in NUMBERS:
        frac = fraction(info)
        if not 1 <= info.length <= MOST_DIGITS or not 0 <= (frac or 0) <= info.length:
            why = f"there is no number of {info.length} digits with {frac} after the decimal point"
            raise InvalidInputError("bad-column", "shortinfo", -1, why)
        return pa.float64() if frac is None else pa.decimal128(info.length, frac)
    if info.data_type in TEXTS or info.data_type in LONGS:
        return pa.string()
    return _PLAIN.get(info.data_type, pa.binary())


def field(name: str, info: Described, own_name: str | None = None) -> pa.Field:
    """Return the Arrow field of a column. `own_name` is stated if it is another one. Raises InvalidInputError."""
    kind = info.data_type.name.lower() if isinstance(info.data_type, DataType) else str(info.data_type)
    entries = {TYPE: kind, LENGTH: str(info.length), FRAC: str(info.frac), MODE: str(info.mode)}
    if own_name not in {None, name}:
        entries[NAME] = own_name
    return pa.field(name, arrow_type(info), metadata=entries)


def sapdb_metadata(of: pa.Field) -> dict[str, str]:
    """Return what the metadata of a field say of its SAP DB type."""
    entries = {key.decode("utf-8", "replace"): value for key, value in (of.metadata or {}).items()}
    return {key: entries[key].decode("utf-8", "replace") for key in (TYPE, LENGTH, FRAC, MODE) if key in entries}


def schema(names: Sequence[str], parameters: Sequence[Described], metadata: Mapping[str, str]) -> pa.Schema:
    """Return the schema of rows. Columns without a name, and those whose name is taken, are called by their number.

    The names differ also without regard to case, as names of variables do.
    """
    given = {name.casefold() for name in names}
    used: set[str] = set()

    def is_free(name: str) -> bool:
        return name.casefold() not in used and name.casefold() not in given

    fields = []
    for at, info in enumerate(parameters):
        name = own_name = names[at] if at < len(names) else ""
        if not name or name.casefold() in used:
            made = (f"{name or 'COLUMN'}_{number}" for number in count(at + 1))
            name = next(filter(is_free, made))
        used.add(name.casefold())
        fields.append(field(name, info, own_name))
    return pa.schema(fields, dict(metadata))


def long_text(data_type: int, data: bytes, manner: Manner) -> str:
    """Return the text of a LONG value; bytes become hexadecimal digits. Raises WireError."""
    if data_type in LONG_BYTES:
        return data.hex()
    is_unicode = data_type in {DataType.LONG_UNICODE, DataType.LONGFILE_UNICODE}
    return decode_text(data, manner.code.unicode if is_unicode else "latin-1", "LONG", 0)


# --- from Arrow -------------------------------------------------------------------------------------------------------


class SapdbColumnType(NamedTuple):
    """The SAP DB type of a column: its code, its length in digits, characters or bytes, and the digits after its
    point."""

    data_type: DataType
    length: int
    frac: int = 0


class Needs(NamedTuple):
    """What the values of a column of texts or byte strings need: the longest one, and whether all are ISO 8859-1."""

    length: int = 1
    is_latin: bool = True


_ANY: Final = Needs()


def _decimal(kind: pa.DataType, _needs: Needs) -> SapdbColumnType | None:
    length = max(kind.precision, kind.scale)
    return SapdbColumnType(DataType.FIXED, length, kind.scale) if kind.scale >= 0 and length <= MOST_DIGITS else None


_SMALL, _WHOLE = SapdbColumnType(DataType.SMALLINT, 5), SapdbColumnType(DataType.INTEGER, 10)
_INTEGERS: Final = {
    pa.int8(): _SMALL,
    pa.int16(): _SMALL,
    pa.uint8(): _SMALL,
    pa.int32(): _WHOLE,
    pa.uint16(): _WHOLE,
    pa.uint32(): SapdbColumnType(DataType.FIXED, 10),
    pa.int64(): SapdbColumnType(DataType.FIXED, 19),
    pa.uint64(): SapdbColumnType(DataType.FIXED, 20),
}
_INFERRED: Final[
    Sequence[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType, Needs], SapdbColumnType | None]]]
] = (
    (pa.types.is_boolean, lambda _kind, _needs: SapdbColumnType(DataType.BOOLEAN, 1)),
    (pa.types.is_integer, lambda kind, _needs: _INTEGERS[kind]),
    (pa.types.is_floating, lambda _kind, _needs: SapdbColumnType(DataType.FLOAT, DOUBLE_DIGITS)),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_date, lambda _kind, _needs: SapdbColumnType(DataType.DATE, 10)),
    (pa.types.is_time, lambda _kind, _needs: SapdbColumnType(DataType.TIME, 8)),
    (pa.types.is_duration, lambda _kind, _needs: SapdbColumnType(DataType.TIME, 8)),
    (pa.types.is_timestamp, lambda _kind, _needs: SapdbColumnType(DataType.TIMESTAMP, 26)),
    (pa.types.is_fixed_size_binary, lambda kind, _needs: SapdbColumnType(DataType.CHAR_BYTE, kind.byte_width)),
    (pa.types.is_binary, lambda _kind, needs: SapdbColumnType(DataType.VARCHAR_BYTE, needs.length)),
    (pa.types.is_large_binary, lambda _kind, needs: SapdbColumnType(DataType.VARCHAR_BYTE, needs.length)),
    (pa.types.is_null, lambda _kind, _needs: SapdbColumnType(DataType.VARCHAR_ASCII, 1)),
    (
        sas_columns.is_text,
        lambda _kind, needs: SapdbColumnType(
            DataType.VARCHAR_ASCII if needs.is_latin else DataType.VARCHAR_UNICODE, needs.length
        ),
    ),
)


def sapdb_type(of: pa.Field, needs: Needs = _ANY) -> SapdbColumnType:
    """Return the type that takes the values of a field: the one it was read from, else by its Arrow type.

    Raises InvalidInputError for types that SAP DB lacks.
    """
    if (entries := _type_of_metadata(of, needs)) is not None:
        return entries
    inferred = next((infer(of.type, needs) for includes, infer in _INFERRED if includes(of.type)), None)
    if inferred is None:
        raise InvalidInputError("column-type", of.name, -1, f"type {of.type} has no counterpart in SAP DB")
    return inferred


def type_fault(kind: str) -> str | None:
    """Return why this word of metadata names no SAP DB type; None if it names one, or is empty.

    A number is the code of a type without a name, of which values were received as bytes.
    """
    if not kind or kind.isdecimal() or kind.upper() in DataType.__members__:
        return None
    return f"unknown {TYPE} {kind[:80]!r}; choose one of: {', '.join(name.lower() for name in DataType.__members__)}"


def _type_of_metadata(of: pa.Field, needs: Needs) -> SapdbColumnType | None:
    """Return what the metadata of a field say, where that suits its type and its values."""
    entries = of.metadata or {}
    try:
        data_type = DataType[entries[TYPE.encode()].decode().upper()]
        if data_type in LONGS and pa.types.is_string(of.type):
            return SapdbColumnType(data_type, 0)
        length, frac = int(entries[LENGTH.encode()]), int(entries[FRAC.encode()])
        suits = arrow_type(ParameterInfo(0, 0, data_type, frac, length, 1, 1)) == of.type
    except (KeyError, ValueError, UnicodeDecodeError, InvalidInputError):
        return None
    if not suits:
        return None
    is_text = data_type in TEXTS
    if is_text and not needs.is_latin and data_type not in UNICODE_TEXTS:
        return None
    return SapdbColumnType(data_type, max(length, needs.length) if is_text or data_type in BYTES else length, frac)


def lengths(values: pa.Array) -> NDArray[np.int64]:
    """Return the length of each text without the blanks behind it, in characters of UCS-2, or of each byte string; 0
    for a null."""
    if sas_columns.is_text(values.type):
        return wide_lengths(pc.ascii_rtrim(sas_columns.strings(values), characters=" "))
    found: NDArray[np.int64] = pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False)
    return found.astype(np.int64)


def needs(batches: Iterable[pa.RecordBatch], before: Mapping[str, Needs] | None = None) -> dict[str, Needs]:
    """Return what the texts and the byte strings of a table need, by column, and those `before`. Reads every batch."""
    found: dict[str, Needs] = dict(before or {})
    for batch in batches:
        for field, values in zip(batch.schema, batch.columns, strict=True):
            if sas_columns.is_text(field.type):
                texts = sas_columns.strings(values)
                is_ascii = pc.all(pc.string_is_ascii(texts)).as_py() is not False
                is_latin = is_ascii or pc.any(pc.match_substring_regex(texts, _NOT_LATIN)).as_py() is not True
                added = Needs(int(lengths(values).max(initial=1)), is_latin)
            elif pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type):
                added = Needs(int(lengths(values).max(initial=1)))
            else:
                continue
            known = found.get(field.name, Needs())
            found[field.name] = Needs(max(known.length, added.length), known.is_latin and added.is_latin)
    return found


def longest(data_type: DataType, *, unicode_packet: bool = False) -> int:
    """Return the most characters or bytes that a value of a type of texts or bytes has in a packet."""
    wide = in_out_len(data_type, 1, unicode_packet=unicode_packet) - in_out_len(data_type, 0)
    return (_LONGEST_FIELD - 1) // wide


def too_long(wanted: SapdbColumnType, *, unicode_packet: bool = False) -> str:
    """Return why values of a type are too long for a packet."""
    unit = "characters" if wanted.data_type in TEXTS else "bytes"
    most = longest(wanted.data_type, unicode_packet=unicode_packet)
    kind = wanted.data_type.name.replace("_", " ")
    return f"it needs {wanted.length:,} {unit}, and {kind} has at most {most:,}: send such values as files"


def parameters(
    schema: pa.Schema, needed: Mapping[str, Needs], *, io_type: IoType = IoType.INPUT, unicode_packet: bool = False
) -> tuple[ParameterInfo, ...]:
    """Return what describes the columns of a table, whose values lie side by side in its rows.

    Raises InvalidInputError for a column that no type takes, or whose values are too long.
    """
    made: list[ParameterInfo] = []
    at = 1
    for field in schema:
        wanted = sapdb_type(field, needed.get(field.name, Needs()))
        if unicode_packet and wanted.data_type in TEXTS and wanted.data_type not in UNICODE_TEXTS:
            is_varying = wanted.data_type == DataType.VARCHAR_ASCII
            wanted = wanted._replace(data_type=DataType.VARCHAR_UNICODE if is_varying else DataType.UNICODE)
        size = in_out_len(wanted.data_type, wanted.length, unicode_packet=unicode_packet)
        if size > _LONGEST_FIELD:
            raise InvalidInputError("too-long", field.name, -1, too_long(wanted, unicode_packet=unicode_packet))
        try:
            mode = int((field.metadata or {})[MODE.encode()]) & 0xFF
        except (KeyError, ValueError):
            mode = ParameterMode.OPTIONAL if field.nullable else ParameterMode.MANDATORY
        made.append(ParameterInfo(mode, io_type, wanted.data_type, wanted.frac, wanted.length, size, at))
        at += size
    return tuple(made)
