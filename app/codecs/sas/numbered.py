"""The specification's tables over numbered fields: the attachment layout for TIB/Rendezvous.

A row that the queue layouts write as bytes is a field here, and a text with its length is two. All fields of a message
have one name, which identifies the message. They are found by their identifiers, which begin with 1, in any order.
Messages of many fields of the usual types are read all at once with NumPy (`find_fields`), all others field by field.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from app.codecs.rendezvous.constants import HEADER_SIZE, LONG_SIZE, MEDIUM_SIZE, MOST_DEPTH, SHORT_SIZE_LIMIT
from app.codecs.rendezvous.field_values import size_of
from app.codecs.rendezvous.fields import message_end, places, whole_message_end
from app.codecs.rendezvous.tibrv_message import Field, decode_field, encode_message
from app.codecs.sas.message_reader import Fault
from app.wire import Layout, Many, Num, Raw, Text, WireError
from app.wire.kinds import Buffer, Kind, named

L = TypeVar("L", bound=Layout)

Value = tuple[str, Any]
"""The API's name of a field's type, and the field's value."""

INTEGERS: Final = frozenset({"I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64"})

_TYPES: Final = {"i": "I32", "long": "I32", "h": "I16", "I": "U32", "d": "F64"}
HIGHEST_ID: Final = 65_535
"""The highest identifier that a field can have, and so the most numbered fields of a message."""
_RANGES: Final = {
    "i": (-(1 << 31), 1 << 31),
    "long": (-(1 << 31), 1 << 31),
    "h": (-(1 << 15), 1 << 15),
    "I": (0, 1 << 32),
}
_OPAQUE_SIZE: Final = 4
"""Passwords, of four bytes, are opaque; other fields of bytes are strings."""
_NUMBER_SIZES: Final = {"I16": 2, "I32": 4, "U32": 4, "F64": 8}


class NumberedField(NamedTuple):
    """A field, and the bytes of its message where it and its data begin."""

    at: int
    data_at: int
    field: Field


def message_name(body: Buffer) -> str:
    """Return the name of the first field, which identifies a message; empty for none. Raises WireError."""
    end = message_end(body, 0, len(body))
    first = next(places(body, HEADER_SIZE, end), None)
    return (first.name or "") if first else ""


def numbered(body: Buffer) -> list[NumberedField]:
    """Return the fields of a whole message by their identifiers, which go from 1 on without a gap.

    A message in which no field has an identifier has them in the order of the wire. Raises WireError.
    """
    found = []
    for number, place in enumerate(places(body, HEADER_SIZE, whole_message_end(body))):
        if number == HIGHEST_ID:
            raise WireError(f"field[{number}]", place.at, f"more than {HIGHEST_ID:,} fields, which have no identifiers")
        found.append(NumberedField(place.at, place.data_at, decode_field(body, place, f"field[{number}]", MOST_DEPTH)))
    if not any(each.field.id for each in found):
        return found
    found.sort(key=lambda each: each.field.id)
    for number, each in enumerate(found, 1):
        if each.field.id != number:
            raise WireError(f"field {each.field.id}", each.at, f"identifier {each.field.id} instead of {number}")
    return found


class FieldReader:
    """The fields of a message, taken one after the other. Every method raises WireError."""

    def __init__(self, body: Buffer, charset: str = "latin-1") -> None:
        self.fields = numbered(body)
        self.at = 0
        self._size, self._charset = len(body), charset

    @property
    def left(self) -> int:
        """How many fields have not been taken."""
        return len(self.fields) - self.at

    def place(self, ahead: int = 0) -> int:
        """Return the byte where the field `ahead` fields further begins."""
        index = self.at + ahead
        return self.fields[index].at if 0 <= index < len(self.fields) else self._size

    def data_at(self, ahead: int) -> int:
        """Return the byte where the data of the field `ahead` fields further begin."""
        return self.fields[self.at + ahead].data_at

    def type_of(self, ahead: int) -> str:
        """Return the type of the field `ahead` fields further: INT for integers, empty after the last."""
        index = self.at + ahead
        if index >= len(self.fields):
            return ""
        found = self.fields[index].field.type
        return "INT" if found in INTEGERS else found

    def field(self, row: str) -> Field:
        """Take any field."""
        if not self.left:
            raise WireError(row, self._size, f"the message ends after {self.at} fields")
        self.at += 1
        return self.fields[self.at - 1].field

    def integer(self, row: str, code: str = "i") -> int:
        """Take an integer of any width whose value fits the row's."""
        field = self.field(row)
        low, high = _RANGES[code]
        if field.type not in INTEGERS:
            raise WireError(row, self.place(-1), f"{field.type} instead of an integer")
        if not low <= field.value < high:
            raise WireError(row, self.place(-1), f"{field.value} is not from {low} to {high - 1}")
        return int(field.value)

    def count(self, row: str, fields_each: int = 1) -> int:
        """Take a number of items of at least `fields_each` fields, which the message must still have."""
        number = self.integer(row)
        if not 0 <= number * fields_each <= self.left:
            why = f"{number} times {fields_each} fields, but {self.left} are left"
            raise WireError(row, self.place(-1), why)
        return number

    def string(self, row: str) -> bytes:
        """Take the bytes of a string, without its NUL."""
        field = self.field(row)
        if field.type == "STRING":
            return str(field.value).encode("latin-1")
        if field.type == "OPAQUE":
            return bytes(field.value)
        raise WireError(row, self.place(-1), f"{field.type} instead of STRING")

    def words(self, row: str) -> str:
        """Take a string as text in the message's character set."""
        data = self.string(row)
        try:
            return data.decode(self._charset)
        except UnicodeError as error:
            raise WireError(row, self.place(-1), f"not {self._charset}: {error}") from None

    def text(self, row: str) -> str:
        """Take a length and a text; the length may count the NUL."""
        length = self.integer(f"{row}.length")
        text = self.words(row)
        size = len(text.encode(self._charset))
        if length not in {size, size + 1}:
            raise WireError(row, self.place(-2), f"a length of {length}, and the text has {size} bytes")
        return text

    def raw(self, row: str, size: int) -> bytes:
        """Take at most `size` bytes, and pad them with zeros."""
        data = self.string(row)
        if len(data) > size:
            raise WireError(row, self.place(-1), f"{len(data)} bytes instead of {size}")
        return data.ljust(size, b"\0")

    def table(self, layout: type[L], path: str, *, without_last: bool = False) -> L:
        """Take the fields of a layout's rows. The message may end before the last row, which has its default then, if
        it may be `without_last`."""
        values: dict[str, Any] = {}
        first = self.at
        for name, kind, _ in layout.ROWS:
            if without_last and not self.left and name == layout.ROWS[-1][0]:
                break
            row = f"{path}{name}"
            match kind:
                case Num(code, enum):
                    load = named(enum)
                    value = self.integer(row, code)
                    values[name] = load(value) if load else value
                case Raw(size):
                    values[name] = self.raw(row, size)
                case Text():
                    values[name] = self.text(row)
                case Many(of, str(count)):
                    if not 0 <= values[count] * fields_of(of.ROWS) <= self.left:
                        fault = count, f"{values[count]} entries in {self.left} fields"
                        self.check(fault, layout, path, first)
                    values[name] = [self.table(of, f"{row}[{at}].") for at in range(values[count])]  # type: ignore[type-var]
                case _:
                    raise TypeError(f"{row} is not a row of numbered fields: {kind}")
        return layout(**values)

    def check(self, fault: Fault | None, layout: type[Layout], path: str, first: int) -> None:
        """Raise WireError for a fault in a row of a layout whose fields begin with field `first`."""
        if fault is None:
            return
        row, why = fault
        names = [name for name, _, _ in layout.ROWS]
        # The last of a row's fields has its value; the length of a text is before it.
        number = fields_of(layout.ROWS[: names.index(row) + 1]) - 1
        raise WireError(f"{path}{row}", self.fields[first + number].at, why)

    def end(self, row: str) -> None:
        """Make sure that all fields have been taken."""
        if self.left:
            raise WireError(row, self.place(), f"{self.left} fields too many")


def fields_of(rows: Iterable[tuple[str, Kind, str]]) -> int:
    """Return how many fields rows take; one that is repeated as often as another says takes none by itself."""
    return sum(2 if isinstance(kind, Text) else not isinstance(kind, Many) for _, kind, _ in rows)


# --- writing ----------------------------------------------------------------------------------------------------------


def text_values(text: str, charset: str, row: str, *, or_one: bool = False) -> list[Value]:
    """Return a length and a text; with `or_one` the length of no text is 1. Raises WireError."""
    string = string_value(text.encode(charset), row)
    return [("I32", len(string[1]) or int(or_one)), string]


def string_value(data: bytes, row: str) -> Value:
    """Return bytes as a string. Raises WireError for a NUL, which would end it."""
    if (nul := data.find(0)) >= 0:
        raise WireError(row, nul, "a NUL within a string")
    return "STRING", data.decode("latin-1")


def table_values(layout: Layout, charset: str, path: str) -> Iterator[Value]:
    """Return the fields of a layout's rows. Raises WireError for what a field cannot hold."""
    for name, kind, _ in layout.ROWS:
        value, row = getattr(layout, name), f"{path}{name}"
        match kind:
            case Num(code):
                yield _TYPES[code], int(value)
            case Raw(size) if size == _OPAQUE_SIZE:
                yield "OPAQUE", bytes(value)
            case Raw():
                yield string_value(value.rstrip(b"\0"), row)
            case Text(_, or_one):
                yield from text_values(value, charset, row, or_one=or_one)
            case Many():
                for index, entry in enumerate(value):
                    yield from table_values(entry, charset, f"{row}[{index}].")


def write_message(name: str, values: Iterable[Value]) -> bytes:
    """Return a message whose fields have one name and identifiers from 1 on. Raises WireError."""
    return encode_message([Field(name, number, kind, value) for number, (kind, value) in enumerate(values, 1)])


def values_size(name: str, values: Iterable[Value]) -> int:
    """Return the bytes of fields in a message."""
    total = 0
    for kind, value in values:
        size = _NUMBER_SIZES.get(kind) or len(value) + (kind == "STRING")
        total += len(name) + 5 + len(size_of(size)) + size
    return total


def grouped(name: str, heads: int, entries: Iterable[Sequence[Value]], limit: int) -> Iterator[list[Sequence[Value]]]:
    """Group entries so that each group, after `heads` numbers, fits a message of at most `limit` bytes.

    Raises WireError for an entry that does not fit a message of its own.
    """
    head = HEADER_SIZE + values_size(name, [("I32", 0)] * heads)
    group: list[Sequence[Value]] = []
    used, fields = head, heads
    for entry in entries:
        size = values_size(name, entry)
        if head + size > limit:
            raise WireError(name, 0, f"an entry of {size} bytes, but a message has room for {limit - head}")
        if used + size > limit or fields + len(entry) > HIGHEST_ID:
            yield group
            group, used, fields = [], head, heads
        group.append(entry)
        used += size
        fields += len(entry)
    if group:
        yield group


Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]


class FoundFields(NamedTuple):
    """The fields of a message in the order of their identifiers."""

    type: Bytes
    data_at: Integers
    size: Integers


def find_fields(buffer: Bytes, prefix: bytes) -> FoundFields | None:
    """Find the fields of a message that all begin with `prefix`: the length of the name area, the name and its NUL.

    All that begins so may be a field; those are, at which the one before ends. None stands for any other message.
    """
    type_at = len(prefix) + 2
    at = prefix_places(buffer, prefix)
    if not at.size or at[0] != HEADER_SIZE:
        return None
    sizes = sizes_at(buffer, at + type_at + 1)
    if sizes is None:
        return None
    data_at, size = sizes
    end = data_at + size
    if end[-1] != len(buffer) or (end[:-1] != at[1:]).any():
        chain = _chain(at, end, len(buffer))
        if chain is None:
            return None
        at, data_at, size = at[chain], data_at[chain], size[chain]
    ids = (buffer[at + len(prefix)].astype(np.int64) << 8) | buffer[at + len(prefix) + 1]
    expected = np.arange(1, len(ids) + 1)
    kinds = buffer[at + type_at]
    if (ids != expected).any():
        order = np.argsort(ids, kind="stable")
        if (ids[order] != expected).any():
            return None
        kinds, data_at, size = kinds[order], data_at[order], size[order]
    return FoundFields(kinds, data_at, size)


def prefix_places(buffer: Bytes, prefix: bytes) -> Integers:
    """Return where a message has these bytes and room for an identifier, a type and a size after them."""
    last = len(buffer) - len(prefix) - 4
    if last < HEADER_SIZE:
        return np.empty(0, np.int64)
    begins = buffer[: last + 1] == prefix[0]
    for offset in range(1, len(prefix)):
        begins &= buffer[offset : last + 1 + offset] == prefix[offset]
    begins[:HEADER_SIZE] = False
    return np.flatnonzero(begins)


def sizes_at(buffer: Bytes, at: Integers) -> tuple[Integers, Integers] | None:
    """Return where the data of fields begin and how many bytes they have, by the sizes that stand at these places."""
    marks = buffer[at]
    size, data_at = marks.astype(np.int64), at + 1
    known = marks < SHORT_SIZE_LIMIT
    if known.all():
        return data_at, size
    for mark, width in ((MEDIUM_SIZE, 2), (LONG_SIZE, 4)):
        chosen = np.flatnonzero(marks == mark)
        known[chosen] = True
        places = data_at[chosen][:, None] + np.arange(width)
        number = np.zeros(len(chosen), np.int64)
        for column in buffer[np.minimum(places, len(buffer) - 1)].T:
            number = (number << 8) | column
        size[chosen] = number - width
        data_at[chosen] += width
    return (data_at, size) if known.all() else None


def _chain(at: Integers, end: Integers, size: int) -> list[int] | None:
    """Return the places that are fields: the first, and each that the one before ends at, to the end of the message."""
    following = np.searchsorted(at, end)
    followers = np.where(at[np.minimum(following, len(at) - 1)] == end, following, -1).tolist()
    chain, index = [0], 0
    while end[index] != size:
        index = followers[index]
        if index <= chain[-1]:
            return None
        chain.append(index)
    return chain


def integers_at(buffer: Bytes, at: Integers) -> Integers:
    """Return the numbers of 4 bytes at these places."""
    raw = np.ascontiguousarray(buffer[at[:, None] + np.arange(4)])
    return raw.view(">i4").reshape(-1).astype(np.int64)
