"""The observations of a data set on TIB/Rendezvous (ATO): a field for each value, with its type before it.

They become rows of bytes, as the queue layouts have them: numbers as 8 bytes, big-endian, and texts filled up with
blanks. A message is read in one of three ways, which agree. Where every value takes as many bytes as its variable, the
message is compared with a template (`_regular`). Otherwise its fields are found and gathered all at once (`_general`).
What is unusual is read field by field, which also finds the place of an error (`_plain`).
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from app.codecs.rendezvous.constants import HEADER_SIZE, MAGIC, WireType
from app.codecs.rendezvous.field_values import size_of
from app.codecs.rendezvous.fields import message_end
from app.codecs.sas.constants import MessageKind
from app.codecs.sas.data_set_messages import DOUBLE_SIZE, Variable
from app.codecs.sas.message_reader import MESSAGE_LIMIT
from app.codecs.sas.numbered import HIGHEST_ID, Bytes, FieldReader, Integers, prefix_places, sizes_at
from app.wire import WireError
from app.wire.kinds import Buffer

_NAME: Final = b"ATO"
_PREFIX: Final = bytes([len(_NAME) + 3]) + _NAME + b"\0"
_TYPE_AT: Final = len(_PREFIX) + 2
"""Where a field's type stands: after its name, the NUL and the identifier."""
_DATA_AT: Final = _TYPE_AT + 2
_INTEGER_FIELD: Final = _DATA_AT + 4
_WORD: Final = 8
Words = npt.NDArray[np.uint64]
_NUMERIC: Final = 1
_CHARACTER: Final = 2
_READINGS: Final = (1, 0, 2)
"""What each value repeats: the type of record; nothing; the number of observations and the type of record."""


class Shape(NamedTuple):
    """The values of a row: which of them are numeric, and how many bytes each takes."""

    numeric: tuple[bool, ...]
    widths: tuple[int, ...]

    @property
    def length(self) -> int:
        return sum(self.widths)

    @classmethod
    def of(cls, variables: Sequence[Variable]) -> "Shape":
        """Return the shape of rows of these variables. Every number has 8 bytes, whatever the variable's length."""
        numeric = tuple(variable.is_numeric for variable in variables)
        widths = tuple(DOUBLE_SIZE if variable.is_numeric else variable.length for variable in variables)
        return cls(numeric, widths)


class Block(NamedTuple):
    """The values of one message: the number that it says, how many there are, and their bytes side by side."""

    stated: int
    values: int
    data: Bytes


def read_observations(body: Buffer, shape: Shape, first: int = 0) -> Block:
    """Return the values in one message, the first of which is value number `first` of its row. Raises WireError."""
    buffer = np.frombuffer(body, np.uint8)
    end = message_end(body, 0, len(body))
    if end == len(body) and shape.widths:
        found = _regular(buffer, shape, first % len(shape.widths)) or _general(buffer, shape, first)
        if found is not None:
            return found
    return _plain(body, shape, first)


# --- every value as wide as its variable ------------------------------------------------------------------------------


class _Template(NamedTuple):
    """The bytes of some values' fields, without identifiers and values."""

    data: Bytes
    mask: Bytes
    ids: Integers
    values: Integers
    texts: Integers
    """Columns of `values` that belong to texts."""


@lru_cache(maxsize=256)
def _template(shape: Shape, start: int, count: int, repeats: int) -> _Template:
    """Return the fields of `count` values from variable `start` on; the first variable follows the last."""
    data, mask = bytearray(), bytearray()
    ids: list[int] = []
    values: list[int] = []
    texts: list[int] = []

    def field(kind: int, size: int, value: bytes | None, behind: bytes = b"") -> None:
        nonlocal data, mask
        ids.append(len(data) + len(_PREFIX))
        head = size_of(size + len(behind))
        data += _PREFIX + b"\0\0" + bytes([kind]) + head
        mask += b"\xff" * len(_PREFIX) + b"\0\0\xff" + b"\xff" * len(head)
        if value is None:
            values.extend(range(len(data), len(data) + size))
        data += (bytes(size) if value is None else value) + behind
        mask += (b"\0" if value is None else b"\xff") * size + b"\xff" * len(behind)

    for index in range(start, start + count):
        number = index % len(shape.widths)
        is_numeric, width = shape.numeric[number], shape.widths[number]
        if repeats == 2:
            field(WireType.INT, 4, None)
            del values[-4:]
        if repeats:
            field(WireType.INT, 4, MessageKind.OBSERVATIONS.to_bytes(4, "big"))
        field(WireType.INT, 4, (_NUMERIC if is_numeric else _CHARACTER).to_bytes(4, "big"))
        if is_numeric:
            field(WireType.REAL, width, None)
        else:
            texts.extend(range(len(values), len(values) + width))
            field(WireType.STRING, width, None, b"\0")
    return _Template(
        np.frombuffer(bytes(data), np.uint8),
        np.frombuffer(bytes(mask), np.uint8),
        *(np.array(each, np.int64) for each in (ids, values, texts)),
    )


def _regular(buffer: Bytes, shape: Shape, phase: int) -> Block | None:
    """Read a message of whole rows, each value as wide as its variable; None for any other."""
    size = len(buffer) - HEADER_SIZE
    for repeats in (1, 0):
        heads = 2 - repeats
        template = _template(shape, phase, len(shape.widths), repeats)
        stride, body = len(template.data), size - heads * _INTEGER_FIELD
        rows, rest = divmod(body, stride)
        if rest or rows < 1 or heads + rows * len(template.ids) > HIGHEST_ID:
            continue
        stated = _heads(buffer, heads)
        if stated is None:
            continue
        cells = buffer[HEADER_SIZE + heads * _INTEGER_FIELD :].reshape(rows, stride)
        high = np.take(cells, template.ids, axis=1).astype(np.uint16)
        ids = ((high << 8) | np.take(cells, template.ids + 1, axis=1)).reshape(-1)
        if (ids != np.arange(heads + 1, heads + 1 + ids.size)).any():
            continue
        if ((cells ^ template.data) & template.mask).any():
            continue
        data = np.take(cells, template.values, axis=1)
        if template.texts.size and not np.take(data, template.texts, axis=1).all():
            return None
        return Block(stated, rows * len(shape.widths), data.reshape(-1))
    return None


def _heads(buffer: Bytes, heads: int) -> int | None:
    """Return the count in front of the values, and the type of record after it where it stands once."""
    numbers = []
    for number in range(heads):
        at = HEADER_SIZE + number * _INTEGER_FIELD
        expected = _PREFIX + (number + 1).to_bytes(2, "big") + bytes([WireType.INT, 4])
        if buffer[at : at + _DATA_AT].tobytes() != expected:
            return None
        numbers.append(int.from_bytes(buffer[at + _DATA_AT : at + _INTEGER_FIELD].tobytes(), "big", signed=True))
    return None if numbers[1:] not in ([], [MessageKind.OBSERVATIONS]) else numbers[0]


# --- values of any size -----------------------------------------------------------------------------------------------


class _Expected(NamedTuple):
    """What a shape says of some values: the bytes before their sizes, their sizes, and the words that they take."""

    heads: Bytes
    """A row for each value: the fields of integers before it, then its own name, identifier and type."""
    stated: tuple[int, int]
    """The bytes of a row that are compared with nothing: the number of values, where it stands before each."""
    least: Integers
    most: Integers
    """How many bytes each value may have, without the NUL at the end of a text. An empty text has one less than none,
    since the size before it is a NUL."""
    is_text: npt.NDArray[np.bool_]
    owner: Integers
    """The value that each word belongs to."""
    within: Integers
    """The byte of its value that each word begins with."""
    numbers: Words
    """For each word of a number all bits, for each word of a text none."""
    used: npt.NDArray[np.bool_] | None
    """The bytes of words that belong to values; None for all."""
    ends: Integers
    """The word after each value."""

    def first(self, count: int) -> "_Expected":
        """Return what is expected of the first values."""
        words = int(self.ends[count - 1])
        return _Expected(
            self.heads[:count],
            self.stated,
            self.least[:count],
            self.most[:count],
            self.is_text[:count],
            self.owner[:words],
            self.within[:words],
            self.numbers[:words],
            None if self.used is None else self.used[: words * _WORD],
            self.ends[:count],
        )


_KEPT_WORDS: Final = 1 << 16
"""The most words of values whose `_Expected` is kept for the next message."""


def _expected(shape: Shape, start: int, count: int, repeats: int) -> _Expected:
    """Return what is expected of `count` values from variable `start` on; the first variable follows the last.

    Messages of one data set differ in the number of their values, so it is made for the next power of two.
    """
    at_most = 1 << (count - 1).bit_length()
    if at_most * max(shape.length // len(shape.widths), _WORD) > _KEPT_WORDS * _WORD:
        return _made_expected(shape, start, count, repeats)
    return _kept_expected(shape, start, at_most, repeats).first(count)


def _made_expected(shape: Shape, start: int, count: int, repeats: int) -> _Expected:
    variable = (start + np.arange(count)) % len(shape.widths)
    numeric, widths = np.array(shape.numeric)[variable], np.array(shape.widths)[variable]
    fields = [bytes([WireType.INT, 4]) + value.to_bytes(4, "big") for value in (0, MessageKind.OBSERVATIONS, 0)]
    head = b"".join(_PREFIX + b"\0\0" + field for field in [*fields[2 - repeats :], b"\0"])
    heads = np.tile(np.frombuffer(head, np.uint8), (count, 1))
    first_id = 3 - repeats + (2 + repeats) * np.arange(count)
    for field in range(2 + repeats):
        at = field * _INTEGER_FIELD + len(_PREFIX)
        heads[:, at : at + 2] = (first_id + field).astype(">u2").view(np.uint8).reshape(count, 2)
    heads[:, len(head) - _TYPE_AT - 2] = np.where(numeric, _NUMERIC, _CHARACTER)
    heads[:, -1] = np.where(numeric, WireType.REAL, WireType.STRING)
    words = -(-widths // _WORD)
    ends = np.cumsum(words)
    owner = np.repeat(np.arange(count), words)
    within = _WORD * (np.arange(len(owner)) - (ends - words)[owner])
    used = (np.arange(_WORD) < (widths[owner] - within)[:, None]).reshape(-1)
    return _Expected(
        heads,
        (_DATA_AT, _INTEGER_FIELD) if repeats == 2 else (0, 0),
        np.where(numeric, DOUBLE_SIZE, -1),
        widths,
        ~numeric,
        owner,
        within,
        np.where(numeric[owner], ~np.uint64(0), np.uint64(0)),
        None if used.all() else used,
        ends,
    )


_kept_expected = lru_cache(maxsize=8)(_made_expected)


def _general(buffer: Bytes, shape: Shape, first: int) -> Block | None:
    """Read a message whose fields all have the name ATO and the usual types, in order; None for any other."""
    padded = np.concatenate((buffer, np.zeros(_WORD, np.uint8)))
    places = prefix_places(buffer, _PREFIX)
    for repeats in _READINGS:
        heads, fields = 2 - repeats, 2 + repeats
        count, rest = divmod(len(places) - heads, fields)
        if rest or count < 1 or len(places) > HIGHEST_ID or places[heads] != HEADER_SIZE + heads * _INTEGER_FIELD:
            continue
        stated = _heads(padded, max(heads, 1))
        if stated is None:
            continue
        data = _values_at(padded, places[heads::fields], _expected(shape, first % len(shape.widths), count, repeats))
        if data is not None:
            return Block(stated, count, data)
    return None


_KEPT: Final = np.frombuffer(b"".join((b"\xff" * count).ljust(_WORD, b"\0") for count in range(_WORD + 1)), np.uint64)
"""The bytes of a word that belong to its value, by how many they are."""
_FILLED: Final = np.frombuffer(b" " * _WORD, np.uint64) & ~_KEPT
"""The blanks of a word after its value."""


def _values_at(padded: Bytes, begins: Integers, expected: _Expected) -> Bytes | None:
    """Return the bytes of the values side by side, each as wide as its variable; None where one is not as expected.

    The fields of a value begin at `begins`. The integers before a value take the same bytes everywhere: only the places
    of values depend on the data. Values are gathered in words, of which the bytes after a value's end become blanks.
    """
    head_size, end = expected.heads.shape[1], len(padded) - _WORD
    sized = sizes_at(padded, begins + head_size) if begins[-1] + head_size < end else None
    if sized is None:
        return None
    at, size = sized
    ends = at + size
    if ends[-1] != end or (ends[:-1] != begins[1:]).any():
        return None
    heads = _bytes_at(padded, begins, head_size)
    heads[:, slice(*expected.stated)] = 0
    if (heads != expected.heads).any():
        return None
    size -= (padded[ends - 1] == 0) & expected.is_text
    if ((size < expected.least) | (size > expected.most)).any():
        return None
    places = np.minimum(at[expected.owner] + expected.within, end)
    kept = np.minimum(np.maximum(size[expected.owner] - expected.within, 0), _WORD)
    words = _bytes_at(padded, places, _WORD).view(np.uint64)[:, 0] & _KEPT[kept] | _FILLED[kept]
    if not (words | expected.numbers).view(np.uint8).all():
        return None
    data: Bytes = words.view(np.uint8)
    return data if expected.used is None else data[expected.used]


def _bytes_at(buffer: Bytes, at: Integers, size: int) -> Bytes:
    """Return `size` bytes from each place on, a row for each."""
    each = np.ndarray(len(buffer) - size + 1, np.dtype((np.void, size)), buffer, strides=(1,))
    return each[at].view(np.uint8).reshape(len(at), size)


# --- one field after the other ----------------------------------------------------------------------------------------


def _plain(body: Buffer, shape: Shape, first: int) -> Block:
    reader = FieldReader(body)
    stated = reader.integer("ATO.count")
    if not shape.widths:
        raise WireError("ATO", reader.place(), "observations of a data set without variables")
    refusal: WireError | None = None
    for repeats in _READINGS:
        values, rest = divmod(len(reader.fields) - 2 + repeats, repeats + 2)
        if rest or values < 0:
            continue
        reader.at = 0
        try:
            pieces = list(_values(reader, shape, first, repeats, values))
        except WireError as error:
            refusal = refusal or error
            continue
        return Block(stated, values, np.frombuffer(b"".join(pieces), np.uint8))
    if len(reader.fields) == 1:
        return Block(stated, 0, np.empty(0, np.uint8))
    raise refusal or WireError("ATO", reader.place(), f"{len(reader.fields)} fields are not whole values")


def _values(reader: FieldReader, shape: Shape, first: int, repeats: int, values: int) -> Iterator[bytes]:
    names = ["count", "record"]
    _take(reader, "ATO.", names[: 2 - repeats])
    for index in range(values):
        path = f"ATO[{index}]."
        _take(reader, path, names[2 - repeats :] if repeats else [])
        number = (first + index) % len(shape.widths)
        is_numeric, width = shape.numeric[number], shape.widths[number]
        if (reader.integer(f"{path}vtype") == _NUMERIC) != is_numeric:
            why = f"a value of another type than its variable, which is {'numeric' if is_numeric else 'character'}"
            raise WireError(f"{path}vtype", reader.place(-1), why)
        if is_numeric:
            field = reader.field(f"{path}value")
            if field.type != "F64":
                raise WireError(f"{path}value", reader.place(-1), f"{field.type} instead of F64")
            yield field.written or np.array(field.value, ">f8").tobytes()
        else:
            data = reader.string(f"{path}value")
            if len(data) > width:
                raise WireError(f"{path}value", reader.place(-1), f"{len(data)} bytes, but the variable has {width}")
            yield data.ljust(width)


def _take(reader: FieldReader, path: str, names: Sequence[str]) -> None:
    for name in names:
        found = reader.integer(f"{path}{name}")
        if name == "record" and found != MessageKind.OBSERVATIONS:
            why = f"{found}, but the type of record is {MessageKind.OBSERVATIONS.value}"
            raise WireError(f"{path}{name}", reader.place(-1), why)


# --- writing ----------------------------------------------------------------------------------------------------------


def longest_text(limit: int = MESSAGE_LIMIT) -> int:
    """Return the most bytes of a text in a message of at most `limit` bytes, as `write_observations` makes it."""
    room = limit - HEADER_SIZE - _INTEGER_FIELD
    fixed = len(_template(Shape((False,), (0,)), 0, 1, 1).data) - len(size_of(1))
    most = room - fixed
    return next(size for size in range(most, 0, -1) if fixed + len(size_of(size + 1)) + size <= room)


def write_observations(
    rows: Iterable[Buffer], shape: Shape, limit: int = MESSAGE_LIMIT, *, type_once: bool = False
) -> Iterator[bytes]:
    """Return a data set's messages of observations, each of at most `limit` bytes.

    Each buffer of `rows` holds any number of whole rows. Messages hold whole rows, where one has room for a row. With
    `type_once` the type of record stands once before the values, otherwise in front of each. Raises WireError.
    """
    repeats = 0 if type_once else 1
    room = limit - HEADER_SIZE - (2 - repeats) * _INTEGER_FIELD
    pieces = [(0, len(shape.widths), 0, shape.length)]
    whole = _template(shape, 0, len(shape.widths), repeats)
    most = min(room // max(len(whole.data), 1), (HIGHEST_ID - 2) // max(len(whole.ids), 1))
    if not most:
        pieces, most = list(_pieces(shape, room, repeats)), 1
    for cells in _whole_rows(rows, shape.length, most):
        for start, count, begin, end in pieces:
            yield _written(cells[:, begin:end], _template(shape, start, count, repeats), count, repeats)


def _whole_rows(rows: Iterable[Buffer], length: int, most: int) -> Iterator[Bytes]:
    """Return the same rows, `most` at a time."""
    held = b""
    for block in rows:
        if len(block) % max(length, 1):
            raise WireError("ATO", 0, f"{len(block)} bytes are not rows of {length}")
        held = b"".join((held, block)) if held else bytes(block)
        full = len(held) // (most * length) * most * length if length else 0
        for at in range(0, full, most * length):
            yield np.frombuffer(held, np.uint8, most * length, at).reshape(most, length)
        held = held[full:]
    if held:
        yield np.frombuffer(held, np.uint8).reshape(-1, length)


def _pieces(shape: Shape, room: int, repeats: int) -> Iterator[tuple[int, int, int, int]]:
    """Cut a row into messages: the first variable of each, how many it has, and the bytes of the row that they take."""
    start = begin = at = used = count = 0
    for number, width in enumerate(shape.widths):
        size = len(_template(shape, number, 1, repeats).data)
        if size > room:
            raise WireError("ATO", at, f"a value of {width} bytes, but a message has room for {room}")
        if count and used + size > room:
            yield start, count, begin, at
            start, begin, used, count = number, at, 0, 0
        at, used, count = at + width, used + size, count + 1
    yield start, count, begin, at


def _written(cells: Bytes, template: _Template, count: int, repeats: int) -> bytes:
    if template.texts.size and not np.take(cells, template.texts, axis=1).all():
        raise WireError("ATO", 0, "a NUL within a text")
    heads = 2 - repeats
    body = np.tile(template.data, (len(cells), 1))
    body[:, template.values] = cells
    fields = len(cells) * len(template.ids)
    ids = np.arange(heads + 1, heads + 1 + fields).reshape(len(cells), -1)
    body[:, template.ids] = ids >> 8
    body[:, template.ids + 1] = ids & 0xFF
    numbers = [len(cells) * count, MessageKind.OBSERVATIONS][:heads]
    head = b"".join(
        _PREFIX + number.to_bytes(2, "big") + bytes([WireType.INT, 4]) + int(value).to_bytes(4, "big")
        for number, value in enumerate(numbers, 1)
    )
    size = HEADER_SIZE + len(head) + body.size
    return b"".join((size.to_bytes(4, "big"), MAGIC, head, body.tobytes()))
