"""A tibrvMsg as its fields.

Fields have a name, an identifier, or both; several may have one name. They are read in the order in which they come,
and found by identifier (`by_id`), since a sender may order them otherwise. What an unknown type holds is kept as bytes.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from struct import Struct
from typing import Any, NamedTuple

from app.codecs.rendezvous.constants import (
    HEADER_SIZE,
    LONG_SIZE,
    MAGIC,
    MOST_BYTES,
    MOST_DEPTH,
    MOST_NAME_BYTES,
    RAW,
    SCALARS,
    SHORT_SIZE_LIMIT,
    WireType,
)
from app.codecs.rendezvous.field_values import read_value, size_of, write_value
from app.codecs.rendezvous.fields import FieldPlace, message_end, places, whole_message_end
from app.wire import WireError
from app.wire.kinds import Buffer

_U16, _U32 = Struct(">H"), Struct(">I")
_REWRITTEN = frozenset({"STRING", "SUBJECT", "XML", "BOOL", "F32", "F64"})
"""The types whose values a sender may write in more than one way."""


class RawValue(NamedTuple):
    """What a field of an unknown type holds."""

    wire_type: int
    data: bytes


class Field(NamedTuple):
    """One field.

    `name` is None where the wire has none, `id` 0 where there is none. `type` is the API's name of the type ("I32",
    "STRING", "MSG" ...) or RAW. The value of a MSG is its fields. `written` are the data as they came, where they are
    not what would be written for the value: text without its NUL, compressed XML.
    """

    name: str | None
    id: int
    type: str
    value: Any
    written: bytes | None = None


Message = Sequence[Field]


def is_message(buffer: Buffer) -> bool:
    """Return whether these bytes begin as a tibrvMsg does."""
    return len(buffer) >= HEADER_SIZE and bytes(buffer[4:HEADER_SIZE]) == MAGIC


def decode_message(buffer: Buffer) -> tuple[Field, ...]:
    """Return the fields of a message that takes all of these bytes. Raises WireError."""
    return decode_fields(buffer, HEADER_SIZE, whole_message_end(buffer), MOST_DEPTH)


def decode_fields(buffer: Buffer, at: int, end: int, depth: int) -> tuple[Field, ...]:
    """Return the fields in [at, end), in which messages may be nested so deep. Raises WireError."""
    return tuple(
        decode_field(buffer, place, f"field[{number}]", depth) for number, place in enumerate(places(buffer, at, end))
    )


def decode_field(buffer: Buffer, place: FieldPlace, row: str, depth: int) -> Field:
    """Return the field at a place. Raises WireError for data that its type cannot have."""
    if place.type == WireType.MSG:
        return Field(place.name, place.id, "MSG", _nested(buffer, place.data_at, place.end, row, depth))
    if place.type == WireType.MSGARRAY:
        at, end = place.data_at + _U32.size, place.end
        if at > end:
            raise WireError(f"{row}.data", place.data_at, "MSGARRAY without a count")
        (count,) = _U32.unpack_from(buffer, place.data_at)
        if count * HEADER_SIZE > end - at:
            raise WireError(f"{row}.data", place.data_at, f"{count} messages in {end - at} bytes")
        found = []
        for _ in range(count):
            following = message_end(buffer, at, end)
            found.append(_nested(buffer, at, following, row, depth))
            at = following
        if at != end:
            raise WireError(f"{row}.data", at, f"{end - at} bytes after {count} messages")
        return Field(place.name, place.id, "MSGARRAY", tuple(found))
    data = buffer[place.data_at : place.end]
    read = read_value(place.type, data, f"{row}.data", place.data_at)
    if read is None:
        return Field(place.name, place.id, RAW, RawValue(place.type, bytes(data)))
    is_written_otherwise = read.type in _REWRITTEN and write_value(read.type, read.value)[1] != data
    return Field(place.name, place.id, read.type, read.value, bytes(data) if is_written_otherwise else None)


def _nested(buffer: Buffer, at: int, end: int, row: str, depth: int) -> tuple[Field, ...]:
    if not depth:
        raise WireError(row, at, f"messages are nested deeper than {MOST_DEPTH}")
    if message_end(buffer, at, end) != end:
        raise WireError(row, at, "a nested message that is shorter than its field")
    return decode_fields(buffer, at + HEADER_SIZE, end, depth - 1)


def by_id(message: Message) -> Mapping[int, Field]:
    """Return the fields that have an identifier, by it; of several with the same one, the first."""
    found: dict[int, Field] = {}
    for field in message:
        if field.id:
            found.setdefault(field.id, field)
    return found


def by_name(message: Message) -> Mapping[str, Field]:
    """Return the fields that have a name, by it; of several with the same one, the first."""
    found: dict[str, Field] = {}
    for field in message:
        if field.name is not None:
            found.setdefault(field.name, field)
    return found


def encode_message(message: Iterable[Field]) -> bytes:
    """Return the bytes of a message. Raises WireError for names, identifiers and values that the wire cannot have."""
    body = b"".join(_encode_field(field, f"field[{number}]") for number, field in enumerate(message))
    if HEADER_SIZE + len(body) > MOST_BYTES:
        raise WireError("length", 0, f"a message of {HEADER_SIZE + len(body)} bytes, at most {MOST_BYTES} fit")
    return _U32.pack(HEADER_SIZE + len(body)) + MAGIC + body


def _encode_field(field: Field, row: str) -> bytes:
    name = _encode_name(field, row)
    if field.type == "MSG":
        return name + bytes([WireType.MSG, LONG_SIZE]) + encode_message(field.value)
    if field.type == "MSGARRAY":
        data = _U32.pack(len(field.value)) + b"".join(map(encode_message, field.value))
        return name + bytes([WireType.MSGARRAY, LONG_SIZE]) + _U32.pack(len(data) + _U32.size) + data
    if isinstance(field.value, RawValue):
        wire_type, data = field.value
    else:
        try:
            wire_type, data = write_value(field.type, field.value)
        except KeyError:
            raise WireError(f"{row}.type", 0, f"unknown type {field.type!r}") from None
        except (struct.error, ValueError, TypeError, OverflowError) as error:
            raise WireError(f"{row}.data", 0, f"{field.value!r} is not a value of type {field.type}: {error}") from None
        if field.written is not None:
            data = field.written
    if wire_type in SCALARS and len(data) >= SHORT_SIZE_LIMIT:
        raise WireError(f"{row}.size", 0, f"{field.type} of {len(data)} bytes")
    return name + bytes([wire_type]) + size_of(len(data), medium=wire_type == WireType.SUBJECT) + data


def _encode_name(field: Field, row: str) -> bytes:
    if not 0 <= field.id < 1 << 16:
        raise WireError(f"{row}.id", 0, f"identifier {field.id}, but 0 to 65535 fit")
    if field.name is None:
        if field.id:
            raise WireError(f"{row}.id", 0, f"identifier {field.id} of a field without a name")
        return b"\0"
    try:
        name = field.name.encode("latin-1") + b"\0" + (_U16.pack(field.id) if field.id else b"")
    except UnicodeEncodeError:
        raise WireError(f"{row}.name", 0, f"{field.name!r} is not ISO 8859-1") from None
    if len(name) > MOST_NAME_BYTES or "\0" in field.name:
        raise WireError(f"{row}.name", 0, f"a name of {len(name)} bytes with a NUL, at most {MOST_NAME_BYTES} fit")
    return bytes([len(name)]) + name
