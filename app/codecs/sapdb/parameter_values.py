"""Values of data parts: an undef byte, and the bytes that the parameter's description states; and the codes of texts.

The undef byte says that a value is missing (`Undef`); any other byte says that one is there, and is the type's fill.
"""

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

from app.codecs.sapdb.constants import (
    ASCII_TEXTS,
    EBCDIC_TEXTS,
    LONGS,
    MOMENTS,
    NUMBERS,
    UNICODE_TEXTS,
    WHOLE_NUMBERS,
    DataType,
    MessCode,
    Undef,
)
from app.codecs.sapdb.numbers import NumberOverflow, decode_number, encode_number
from app.codecs.sapdb.packet_records import LongDescriptor, ParameterInfo, VardataParameterInfo
from app.codecs.sapdb.temporal_digits import (
    DateFormat,
    Time,
    date_text,
    parse_date,
    parse_time,
    parse_timestamp,
    time_text,
    timestamp_text,
)
from app.wire import Context, WireError
from app.wire.kinds import Buffer, Order

Value = Decimal | str | bytes | bool | date | datetime | Time | LongDescriptor | Undef
Described = ParameterInfo | VardataParameterInfo

_MISSING: Final = {int(member): member for member in Undef}
BLANK, _ZERO, WIDE, _EBCDIC_BLANK = 0x20, 0x00, 0x01, 0x40
FIRST_UNDEF: Final = min(_MISSING)
"""The lowest undef byte that says that there is no value."""

EBCDIC: Final = "cp500"
_UCS2: Final[dict[Order, str]] = {">": "utf-16-be", "<": "utf-16-le"}
_NO_FRAC: Final = 255
LONG_SIZE: Final = 41
"""Bytes of a LONG value in a row: the undef byte and the descriptor."""


class Code(NamedTuple):
    """How a packet writes texts: the Python codec of its own code, and of columns that are Unicode in any packet."""

    text: str
    unicode: str

    @property
    def is_unicode(self) -> bool:
        """Return whether texts of the packet's code have two bytes a character."""
        return self.text == self.unicode


def code_of(mess_code: int, order: Order) -> Code:
    """Return the code of a packet. Codes that are not known are read as ISO 8859-1, which takes any bytes."""
    match mess_code:
        case MessCode.UNICODE:
            return Code(_UCS2[">"], _UCS2[">"])
        case MessCode.UNICODE_SWAP:
            return Code(_UCS2["<"], _UCS2["<"])
        case MessCode.UNICODE_NATIVE:
            return Code(_UCS2[order], _UCS2[order])
        case MessCode.UTF8:
            return Code("utf-8", _UCS2[order])
        case MessCode.EBCDIC:
            return Code(EBCDIC, _UCS2[order])
        case _:
            return Code("latin-1", _UCS2[order])


class Manner(NamedTuple):
    """How one packet writes values: its code, the order of its numbers, and the format of dates and times."""

    code: Code
    context: Context
    date_format: DateFormat = DateFormat.ISO


def in_out_len(data_type: int, length: int, *, unicode_packet: bool = False) -> int:
    """Return the bytes of a value in a data part, with its undef byte, as the kernel describes it.

    Dates and times are in an external format. Raises WireError for types whose values have no known size.
    """
    wide = 1 + unicode_packet
    sizes = {
        NUMBERS: (length + 1) // 2 + 2,
        LONGS: LONG_SIZE,
        UNICODE_TEXTS: 2 * length + 1,
        ASCII_TEXTS: length * wide + 1,
        EBCDIC_TEXTS | _BYTES: length + 1,
        MOMENTS: _MOMENT_CHARS.get(data_type, 0) * wide + 1,
        _BOOLEANS: 2,
    }
    found = next((size for types, size in sizes.items() if data_type in types), None)
    if found is None:
        raise WireError("data_type", 0, f"values of type {data_type} have no known size")
    return found


def least_in_out_len(info: Described) -> int:
    """Return the fewest bytes that values of a description can have in a data part, with their undef byte.

    A length in bytes is an int2, so it ends at 32,767. Dates and times have several formats, and types that are not
    known have any size.
    """
    if info.data_type in MOMENTS:
        return 1
    try:
        return min(in_out_len(info.data_type, info.length), _MOST_IN_OUT_LEN)
    except WireError:
        return 1


_MOST_IN_OUT_LEN: Final = (1 << 15) - 1
_MOMENT_CHARS: Final[dict[int, int]] = {DataType.DATE: 10, DataType.TIME: 8, DataType.TIMESTAMP: 26}
_BYTES: Final = frozenset({DataType.CHAR_BYTE, DataType.VARCHAR_BYTE, DataType.ROWID})
_BOOLEANS: Final = frozenset({DataType.BOOLEAN})


def decode_value(data_type: int, field: Buffer, manner: Manner, row: str = "value", at: int = 0) -> Value:
    """Return the value of a field that begins with its undef byte, at byte `at`. Raises WireError.

    Blanks after texts and zeros after VARCHAR BYTE are fill. Values of types that are not known are bytes.
    """
    if not len(field):
        raise WireError(row, at, "a value without its undef byte")
    undef = field[0]
    if undef in _MISSING:
        return _MISSING[undef]
    return decode_content(data_type, field[1:], manner, row, at + 1, undef=undef)


def decode_content(
    data_type: int, content: Buffer, manner: Manner, row: str = "value", at: int = 0, *, undef: int = BLANK
) -> Value:
    """Return the value of a field without its undef byte: as vardata have it. Raises WireError.

    `undef` is the undef byte of its texts (`text_codec`).
    """
    if data_type in NUMBERS:
        number = decode_number(content, row, at)
        _require_range(number, data_type, row, at)
        return number
    if data_type in LONGS:
        if len(content) != LongDescriptor.SIZE:
            raise WireError(row, at, f"a LONG descriptor of {len(content)} bytes, but it has {LongDescriptor.SIZE}")
        return LongDescriptor.decode(content, 0, manner.context)[0]
    if data_type == DataType.BOOLEAN:
        if len(content) != 1:
            raise WireError(row, at, f"a boolean of {len(content)} bytes")
        if content[0] > 1:
            raise WireError(row, at, NO_BOOLEAN)
        return bool(content[0])
    codec = text_codec(data_type, manner.code, undef)
    if codec is None:
        return bytes(content).rstrip(b"\0") if data_type == DataType.VARCHAR_BYTE else bytes(content)
    text = decode_text(content, codec, row, at).rstrip(" ")
    return _PARSERS[data_type](text, row, at) if data_type in _PARSERS else text


NO_BOOLEAN: Final = "the value is neither 00 nor 01, which are the booleans"


def beyond(data_type: int) -> str:
    """Return why a number is none of SMALLINT or INTEGER."""
    limits = WHOLE_NUMBERS[data_type]
    return f"the number is beyond {DataType(data_type).name}, which is {limits[0]:,} to {limits[-1]:,}"


def _require_range(number: Decimal | int, data_type: int, row: str, at: int) -> None:
    """Raise NumberOverflow for a number that SMALLINT or INTEGER does not have."""
    limits = WHOLE_NUMBERS.get(data_type)
    if limits is not None and not limits[0] <= number <= limits[-1]:
        raise NumberOverflow(row, at, beyond(data_type))


_PARSERS: Final[dict[int, Callable[[str, str, int], Value]]] = {
    DataType.DATE: parse_date,
    DataType.TIME: parse_time,
    DataType.TIMESTAMP: parse_timestamp,
}


def text_codec(data_type: int, code: Code, undef: int) -> str | None:
    """Return the Python codec of a type's texts; None for a type whose values are bytes.

    An undef byte is the fill of the texts. So it says that texts of one byte a character have two, as they do in
    packets of a Unicode code, or that they are in EBCDIC, as they may be in packets of that code.
    """
    if data_type in UNICODE_TEXTS:
        return code.unicode
    if data_type in EBCDIC_TEXTS:
        return EBCDIC
    if data_type in ASCII_TEXTS or data_type in MOMENTS:
        if undef == _EBCDIC_BLANK and code.text == EBCDIC:
            return EBCDIC
        return code.unicode if undef == WIDE else "latin-1"
    return None


def encode_value(value: Value | int | None, info: Described, manner: Manner, row: str = "value") -> bytes:
    """Return the field of a value: `info.in_out_len` bytes that begin with the undef byte. None is NULL.

    Raises WireError for a value that its parameter cannot have, and NumberOverflow for too large numbers.
    """
    size = info.in_out_len
    if size < 1:
        raise WireError(row, 0, f"a value of {size} bytes")
    if value is None or isinstance(value, Undef):
        return bytes([Undef.NULL if value is None else value]).ljust(size, b"\0")
    content = encode_content(value, info, manner, row)
    undef, filler = fill(info.data_type, manner)
    if len(content) > size - 1:
        raise WireError(row, 0, f"{value!r} takes {len(content)} bytes, but there is room for {size - 1}")
    rest = size - 1 - len(content)
    return bytes([undef]) + content + (filler * (rest // len(filler) + 1))[:rest]


def written_undef(code: Code) -> int:
    """Return the undef byte of texts that are written in a packet of a code: they are in ASCII or Unicode."""
    return WIDE if code.is_unicode else BLANK


def fill(data_type: int, manner: Manner) -> tuple[int, bytes]:
    """Return the undef byte of a defined value of a type, and the byte that pads its field."""
    codec = text_codec(data_type, manner.code, written_undef(manner.code))
    if codec is None:
        return _ZERO, b"\0"
    if codec == EBCDIC:
        return _EBCDIC_BLANK, " ".encode(EBCDIC)
    return (WIDE if codec == manner.code.unicode else BLANK), " ".encode(codec)


def encode_content(value: Any, info: Described, manner: Manner, row: str = "value") -> bytes:
    """Return the bytes of a value without an undef byte and without fill. Raises WireError and NumberOverflow."""
    try:
        if info.data_type in NUMBERS:
            _require_range(value, info.data_type, row, 0)
            return encode_number(value, info.length, fraction(info))
        if info.data_type in LONGS:
            return bytes(value.encode(manner.context))
        if info.data_type == DataType.BOOLEAN:
            return bytes([bool(value)])
        codec = text_codec(info.data_type, manner.code, written_undef(manner.code))
        if codec is None:
            return bytes(memoryview(value))
        return encode_text(_text(value, manner), codec, row)
    except (TypeError, AttributeError, ArithmeticError) as error:
        raise WireError(row, 0, f"{value!r} is not a value of type {info.data_type}: {error}") from None


def fraction(info: Described) -> int | None:
    """Return the digits after the point of a number; None for floating-point ones."""
    if info.data_type in WHOLE_NUMBERS:
        return 0
    is_float = info.data_type in {DataType.FLOAT, DataType.VFLOAT, DataType.NUMBER}
    return None if is_float or info.frac == _NO_FRAC else info.frac


def _text(value: Any, manner: Manner) -> str:
    if isinstance(value, datetime):
        return timestamp_text(value, manner.date_format)
    if isinstance(value, date):
        return date_text(value, manner.date_format)
    if isinstance(value, Time):
        return time_text(value, manner.date_format)
    if isinstance(value, str):
        return value
    raise TypeError("no text")


def decode_text(data: Buffer, codec: str, row: str, at: int) -> str:
    """Return the text of bytes that begin at byte `at`. Raises WireError."""
    try:
        return str(data, codec)
    except UnicodeDecodeError as error:
        raise WireError(row, at + error.start, f"{codec} does not have these bytes: {error.reason}") from None


def encode_text(text: str, codec: str, row: str) -> bytes:
    """Return the bytes of a text. Raises WireError."""
    try:
        return text.encode(codec)
    except UnicodeEncodeError as error:
        raise WireError(row, 0, f"{text[error.start : error.end]!r} has no bytes in {codec}") from None
