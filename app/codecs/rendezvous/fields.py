"""Where the fields of a tibrvMsg lie: names, identifiers, types and sizes, without their values."""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from app.codecs.rendezvous.constants import (
    HEADER_SIZE,
    LONG_SIZE,
    MAGIC,
    MEDIUM_SIZE,
    SCALARS,
    SHORT_SIZE_LIMIT,
    WireType,
)
from app.wire import WireError
from app.wire.kinds import Buffer

_U16, _U32 = Struct(">H"), Struct(">I")
_ID_SIZE = 2


class FieldPlace(NamedTuple):
    """A field in a buffer. Every number is a byte of the buffer: the field is [at, end), its name [at + 1, name_end)
    with the NUL and the identifier after it, its type at `type_at`, its size [type_at + 1, data_at)."""

    at: int
    name_end: int
    type_at: int
    data_at: int
    end: int
    name: str | None
    id: int
    type: int


def message_end(buffer: Buffer, at: int, end: int) -> int:
    """Return the byte after the message that begins at `at`, which must not lie after `end`. Raises WireError."""
    if end - at < HEADER_SIZE:
        raise WireError("length", at, f"{end - at} bytes, and a message has at least {HEADER_SIZE}")
    (length,) = _U32.unpack_from(buffer, at)
    if bytes(buffer[at + 4 : at + HEADER_SIZE]) != MAGIC:
        found = bytes(buffer[at + 4 : at + HEADER_SIZE]).hex().upper()
        raise WireError("magic", at + 4, f"{found}, but a message has {MAGIC.hex().upper()}")
    if not HEADER_SIZE <= length <= end - at:
        raise WireError("length", at, f"a message of {length} bytes, but {end - at} are left")
    return at + int(length)


def whole_message_end(buffer: Buffer) -> int:
    """Return the size of a message that takes all of these bytes. Raises WireError."""
    end = message_end(buffer, 0, len(buffer))
    if end != len(buffer):
        raise WireError("length", 0, f"a message of {end} bytes, and {len(buffer) - end} after it")
    return end


def places(buffer: Buffer, at: int, end: int) -> Iterator[FieldPlace]:
    """Find the fields of a message whose first field is at `at` and whose last one ends at `end`. Raises WireError."""
    number = 0
    while at < end:
        row = f"field[{number}]"
        type_at = at + 1 + buffer[at]
        if type_at + 2 > end:
            raise WireError(f"{row}.name", at, f"a name area of {buffer[at]} bytes, but {end - at - 1} are left")
        name, name_end, identifier = _name(buffer, at, type_at, row)
        kind = buffer[type_at]
        data_at, size = _size(buffer, type_at + 1, end, kind, row)
        if size > end - data_at:
            raise WireError(f"{row}.data", data_at, f"{size} bytes of data, but {end - data_at} are left")
        place = FieldPlace(at, name_end, type_at, data_at, data_at + size, name, identifier, kind)
        yield place
        at = place.end
        number += 1


def _name(buffer: Buffer, at: int, type_at: int, row: str) -> tuple[str | None, int, int]:
    """Return the name, where it ends, and the identifier: 0 for none. A name area of no bytes is no name at all."""
    size = type_at - at - 1
    if not size:
        return None, at + 1, 0
    has_id = size > _ID_SIZE and not buffer[type_at - _ID_SIZE - 1]
    name_end = type_at - (_ID_SIZE if has_id else 0) - 1
    if buffer[name_end]:
        raise WireError(f"{row}.name", name_end, f"a NUL ends a name, not {buffer[name_end]:02X}")
    name = bytes(buffer[at + 1 : name_end])
    if (nul := name.find(0)) >= 0:
        raise WireError(f"{row}.name", at + 1 + nul, "a NUL within a name")
    identifier = _U16.unpack_from(buffer, type_at - _ID_SIZE)[0] if has_id else 0
    return name.decode("latin-1"), name_end, identifier


def _size(buffer: Buffer, at: int, end: int, kind: int, row: str) -> tuple[int, int]:
    """Return where the data begin, and how many bytes they have."""
    first = buffer[at]
    if first < SHORT_SIZE_LIMIT:
        return at + 1, first
    if kind in SCALARS or first not in {MEDIUM_SIZE, LONG_SIZE}:
        raise WireError(f"{row}.size", at, f"{first:02X} is not the size of a field of type {kind}")
    width = 2 if first == MEDIUM_SIZE else 4
    if at + 1 + width > end:
        raise WireError(f"{row}.size", at, f"a size of {width} bytes, but {end - at - 1} are left")
    if kind == WireType.MSG:
        # The nested message's own length takes the place of the number, and belongs to the data.
        if first != LONG_SIZE:
            raise WireError(f"{row}.size", at, "a nested message has a size of four bytes")
        return at + 1, int(_U32.unpack_from(buffer, at + 1)[0])
    number = (_U16 if width == 2 else _U32).unpack_from(buffer, at + 1)[0]
    if number < width:
        raise WireError(f"{row}.size", at + 1, f"a size of {number} that counts its own {width} bytes")
    return at + 1 + width, int(number) - width
