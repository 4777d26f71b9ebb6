"""What the buffers of parts hold, by kind; kinds without a reader here are bytes.

Data and vardata parts cannot be read by themselves: what their rows are is said by a shortinfo part (`rows`).
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from itertools import chain
from typing import Annotated, Any, Final, NamedTuple

from app.codecs.sapdb.constants import IoType, PartKind, Undef
from app.codecs.sapdb.numbers import decode_number, encode_number, field_size
from app.codecs.sapdb.packet_records import (
    ApplicationParameter,
    LongDescriptor,
    ParameterInfo,
    Parsid,
    VardataParameterInfo,
)
from app.codecs.sapdb.parameter_values import LONG_SIZE, Manner, decode_text, encode_text
from app.wire import Layout, Num, Raw, WireError, row
from app.wire.kinds import Buffer


class SessionInfo(Layout):
    """The buffer of a session_info_returned part."""

    unicode_database: Annotated[int, Num("B")] = row("1: the database has Unicode names")
    session_id: Annotated[bytes, Raw(4)] = row("session, as in its parsids")
    date_format_name_length: Annotated[int, Num("B")] = row("bytes of the name of the national date format")
    date_format_name: Annotated[bytes, Raw(100)] = row("name of the national date format")
    coded_length: Annotated[int, Num("B")] = row("bytes of the coded date format")
    coded: Annotated[bytes, Raw(50)] = row("coded date format")
    date_language: Annotated[bytes, Raw(6)] = row("language of dates")
    language: Annotated[bytes, Raw(6)] = row("language")
    date_format: Annotated[int, Num("B")] = row("format of dates and times")
    numeric_characters: Annotated[bytes, Raw(4)] = row("characters in numbers")
    unused: Annotated[bytes, Raw(18)] = row("unused")
    dictionary: Annotated[bytes, Raw(2000)] = row("dictionary")
    page_size: Annotated[bytes, Raw(5)] = row("bytes of a page, as text")
    unused2: Annotated[bytes, Raw(3)] = row("unused")
    kernel_version: Annotated[bytes, Raw(5)] = row("version of the kernel, as text")
    unused3: Annotated[bytes, Raw(3)] = row("unused")


COUNT_SIZE: Final = field_size(10) + 1
"""Bytes of a row count or a position: an undef byte and a number of type fixed(10)."""

CONV_TABLE_SIZE: Final = 256
_IO_TYPE_AT: Final = 1


class LongValue(NamedTuple):
    """One value of a longdata part: its undef byte and descriptor, and the bytes that the descriptor points at."""

    undef: int
    descriptor: LongDescriptor
    data: bytes


class LongDemand(NamedTuple):
    """What is asked for of one LONG value. None is an undefined number."""

    undef: int
    at_once: int
    position: int | None
    length: int | None


class PartBuffer(NamedTuple):
    """What a reader gets: a part's buffer, its number of arguments, how it is written, and where it is for errors."""

    buffer: Buffer
    arg_count: int
    manner: Manner
    row: str
    at: int

    def refuse(self, offset: int, why: str) -> WireError:
        return WireError(self.row, self.at + offset, why)

    def require_size(self, size: int) -> None:
        """Raise WireError unless each argument has this size in bytes."""
        if len(self.buffer) != self.arg_count * size:
            raise self.refuse(0, f"{len(self.buffer)} bytes, but {self.arg_count} arguments have {size} each")


class PartCodec(NamedTuple):
    """How the parts of a kind are read and written. A writer returns the number of arguments and the buffer."""

    read: Callable[[PartBuffer], Any]
    write: Callable[[Any, Manner], tuple[int, bytes]]


def decode_part(kind: int, held: PartBuffer) -> Any:
    """Return what a part holds; its bytes for a kind that is not known, and for data, whose rows need a description.

    Raises WireError.
    """
    known = KINDS.get(kind)
    return bytes(held.buffer) if known is None else known.read(held)


def encode_part(kind: int, value: Any, manner: Manner) -> tuple[int, bytes]:
    """Return the number of arguments and the buffer of a part. Raises WireError for what its kind cannot have."""
    known = KINDS.get(kind)
    return (1, bytes(memoryview(value))) if known is None else known.write(value, manner)


# --- texts ------------------------------------------------------------------------------------------------------------


def _texts(held: PartBuffer, count: int) -> tuple[str, ...]:
    """Return `count` texts. A byte with its length comes before each text."""
    texts, at = [], 0
    buffer = held.buffer
    for number in range(count):
        if at >= len(buffer):
            raise held.refuse(at, f"{number} texts instead of {count}")
        end = at + 1 + buffer[at]
        if end > len(buffer):
            raise held.refuse(at, f"a text of {buffer[at]} bytes, but {len(buffer) - at - 1} are left")
        texts.append(decode_text(buffer[at + 1 : end], held.manner.code.text, held.row, held.at + at + 1))
        at = end
    if at != len(buffer):
        raise held.refuse(at, f"{len(buffer) - at} bytes after {count} texts")
    return tuple(texts)


def _write_names(names: Sequence[str], manner: Manner) -> tuple[int, bytes]:
    out = bytearray()
    for name in names:
        raw = encode_text(name, manner.code.text, "text")
        if len(raw) > 255:
            raise WireError("text", len(out), f"{name!r} takes {len(raw)} bytes, at most 255 fit")
        out.append(len(raw))
        out += raw
    return len(names), bytes(out)


def _fixed_texts(count: int) -> PartCodec:
    """Return a kind of part with one argument, which has `count` texts."""

    def write(texts: Sequence[str], manner: Manner) -> tuple[int, bytes]:
        if len(texts) != count:
            raise WireError("text", 0, f"{len(texts)} texts instead of {count}")
        return 1, _write_names(texts, manner)[1]

    return PartCodec(lambda held: _texts(held, count), write)


# --- numbers ----------------------------------------------------------------------------------------------------------


def read_count(field: Buffer, row: str, at: int) -> int | None:
    """Return a row count or a position; None for an undefined one. -1 says that nobody counted. Raises WireError."""
    if len(field) != COUNT_SIZE:
        raise WireError(row, at, f"a number of {len(field)} bytes instead of {COUNT_SIZE}")
    if field[0] == Undef.NULL:
        return None
    number = decode_number(field[1:], row, at + 1)
    if number != (whole := number.to_integral_value()):
        raise WireError(row, at + 1, f"{number} is not a whole number")
    return int(whole)


def write_count(count: int | None) -> bytes:
    """Return the bytes of a row count or a position. Raises NumberOverflow."""
    if count is None:
        return bytes([Undef.NULL]) + bytes(COUNT_SIZE - 1)
    return b"\0" + encode_number(Decimal(count), 10, 0)


def _read_demands(held: PartBuffer) -> tuple[LongDemand, ...]:
    size = 2 + 2 * COUNT_SIZE
    held.require_size(size)
    found = []
    for at in range(0, len(held.buffer), size):
        position, length = (
            read_count(held.buffer[at + start : at + start + COUNT_SIZE], held.row, held.at + at + start)
            for start in (2, 2 + COUNT_SIZE)
        )
        found.append(LongDemand(held.buffer[at], held.buffer[at + 1], position, length))
    return tuple(found)


def _write_demands(demands: Sequence[LongDemand], _: Manner) -> tuple[int, bytes]:
    fields = [
        bytes([each.undef, each.at_once]) + write_count(each.position) + write_count(each.length) for each in demands
    ]
    return len(fields), b"".join(fields)


# --- records ----------------------------------------------------------------------------------------------------------


def _records(layout: type[Layout]) -> PartCodec:
    """Return a kind of part whose arguments are records of one layout."""

    def read(held: PartBuffer) -> tuple[Layout, ...]:
        held.require_size(layout.SIZE)
        places = range(0, len(held.buffer), layout.SIZE)
        return tuple(layout.decode(held.buffer, at, held.manner.context)[0] for at in places)

    return PartCodec(read, _write_records)


def _write_records(records: Sequence[Layout], manner: Manner) -> tuple[int, bytes]:
    return len(records), b"".join(record.encode(manner.context) for record in records)


def _read_session_info(held: PartBuffer) -> SessionInfo:
    if len(held.buffer) != SessionInfo.SIZE:
        raise held.refuse(0, f"session info of {len(held.buffer)} bytes, but it has {SessionInfo.SIZE}")
    return SessionInfo.decode(held.buffer)[0]


def _read_vardata_info(held: PartBuffer) -> tuple[ParameterInfo | VardataParameterInfo, ...]:
    size = ParameterInfo.SIZE
    held.require_size(size)
    found: list[ParameterInfo | VardataParameterInfo] = []
    for at in range(0, len(held.buffer), size):
        is_input = held.buffer[at + _IO_TYPE_AT] == IoType.INPUT
        layout = VardataParameterInfo if is_input else ParameterInfo
        found.append(layout.decode(held.buffer, at, held.manner.context)[0])
    return tuple(found)


def _read_pairs(held: PartBuffer) -> tuple[tuple[int, int], ...]:
    held.require_size(2)
    return tuple((held.buffer[at], held.buffer[at + 1]) for at in range(0, len(held.buffer), 2))


def _read_tables(held: PartBuffer) -> tuple[bytes, ...]:
    held.require_size(CONV_TABLE_SIZE)
    return tuple(bytes(held.buffer[at : at + CONV_TABLE_SIZE]) for at in range(0, len(held.buffer), CONV_TABLE_SIZE))


# --- LONG values ------------------------------------------------------------------------------------------------------


def long_data(buffer: Buffer, descriptor: LongDescriptor, row: str = "longdata", at: int = 0) -> bytes:
    """Return the bytes that a descriptor points at in the buffer of its part. Raises WireError.

    A descriptor that asks for a piece points at nothing: its position is 0.
    """
    position, length = descriptor.valpos, descriptor.vallen
    if not position or not length:
        return b""
    if position < 1 or length < 0 or position - 1 + length > len(buffer):
        raise WireError(row, at, f"{length} bytes from position {position} on, but the part has {len(buffer)}")
    return bytes(buffer[position - 1 : position - 1 + length])


def _read_longs(held: PartBuffer) -> tuple[LongValue, ...]:
    """Return descriptors, each followed by the bytes of its piece. A descriptor that points elsewhere has none:
    replies repeat the descriptors of their requests."""
    buffer, at = held.buffer, 0
    found: list[LongValue] = []
    for _ in range(held.arg_count):
        if len(buffer) - at < LONG_SIZE:
            raise held.refuse(at, f"a LONG descriptor has {LONG_SIZE} bytes, and {len(buffer) - at} are left")
        descriptor, end = LongDescriptor.decode(buffer, at + 1, held.manner.context)
        is_here = descriptor.valpos == end + 1
        data = long_data(buffer, descriptor, held.row, held.at + at) if is_here else b""
        found.append(LongValue(buffer[at], descriptor, data))
        at = end + len(data)
    if at != len(buffer):
        raise held.refuse(at, f"{len(buffer) - at} bytes after {held.arg_count} LONG values")
    return tuple(found)


def _write_longs(values: Sequence[LongValue], manner: Manner) -> tuple[int, bytes]:
    out = bytearray()
    for value in values:
        out.append(value.undef)
        value.descriptor.append(out, manner.context)
        out += value.data
    return len(values), bytes(out)


_TEXT: Final = PartCodec(
    lambda held: decode_text(held.buffer, held.manner.code.text, held.row, held.at),
    lambda text, manner: (1, encode_text(text, manner.code.text, "text")),
)
_COUNT: Final = PartCodec(
    lambda held: read_count(held.buffer, held.row, held.at), lambda count, _manner: (1, write_count(count))
)

KINDS: Final[Mapping[int, PartCodec]] = {
    PartKind.APPL_PARAMETER_DESCRIPTION: _records(ApplicationParameter),
    PartKind.COLUMNNAMES: PartCodec(lambda held: _texts(held, held.arg_count), _write_names),
    PartKind.COMMAND: _TEXT,
    PartKind.CONV_TABLES_RETURNED: PartCodec(_read_tables, lambda tables, _manner: (len(tables), b"".join(tables))),
    PartKind.ERRORTEXT: _TEXT,
    PartKind.MODULNAME: _TEXT,
    PartKind.PARSID: _records(Parsid),
    PartKind.PARSID_OF_SELECT: _records(Parsid),
    PartKind.RESULTCOUNT: _COUNT,
    PartKind.RESULTTABLENAME: _TEXT,
    PartKind.SHORTINFO: _records(ParameterInfo),
    PartKind.USER_INFO_RETURNED: _fixed_texts(4),
    PartKind.LONGDATA: PartCodec(_read_longs, _write_longs),
    PartKind.TABLENAME: _TEXT,
    PartKind.SESSION_INFO_RETURNED: PartCodec(
        _read_session_info, lambda info, manner: (1, info.encode(manner.context))
    ),
    PartKind.OUTPUT_COLS_NO_PARAMETER: _records(ParameterInfo),
    PartKind.RELATIVE_POS: _COUNT,
    PartKind.ABAP_INFO: _fixed_texts(2),
    PartKind.LONG_DEMAND: PartCodec(_read_demands, _write_demands),
    PartKind.VARDATA_SHORTINFO: PartCodec(_read_vardata_info, _write_records),
    PartKind.FEATURE: PartCodec(_read_pairs, lambda pairs, _manner: (len(pairs), bytes(chain.from_iterable(pairs)))),
    PartKind.CLIENTID: _TEXT,
}
"""The kinds that are more than bytes by themselves."""
