"""Read a JSON array of rows that is too long for memory: piece by piece, as often as needed.

It is the whole document, or the member `rows` of one JSON object, whose other members may be in any order. Strings may
contain any text, so brackets are searched for outside strings only. A piece of the rows ends at the last bracket of a
row that was read: as rows are arrays or objects of plain values, it ends a row, or all of them.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, NamedTuple

import orjson

from app.model.errors import InvalidInputError
from app.tables.read.json_lines import BLOCK_BYTES, LONGEST_LINE, check_members, check_metadata, fault, joined
from app.tables.read.json_numbers import See
from app.tables.read.read_request import MOST_COLUMNS, unreadable

LONGEST_METADATA = 64 << 20
"""The maximum size in bytes of the document without its rows."""

_ARRAY = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[")
_TOKEN = re.compile(rb'"[^"]*"|[\[\]{}]')
_OPENING = re.compile(rb"\s*:\s*\[")

Rows = list[Any]


class _Kind(NamedTuple):
    """A kind of rows: their type in Python, the bracket that ends one, and its name in JSON."""

    type: type
    closing: bytes
    word: str


_ARRAYS: Final = _Kind(list, b"]", "array")
_OBJECTS: Final = _Kind(dict, b"}", "object")


class Document:
    """A document in a file; `metadata` is its content without rows."""

    def __init__(self, file: BinaryIO, see: See | None = None) -> None:
        """Read the whole file once. `see` is given the text of its rows. Raises InvalidInputError if it is not JSON."""
        head, has_rows = _head(file)
        self._rows = _Array(file, len(head), _ARRAYS) if has_rows else None
        for _ in iter(()) if self._rows is None else self._rows.rows(see):
            pass
        metadata = head.removeprefix(BOM_UTF8) + (self._rows.tail if self._rows else b"")
        try:
            self.metadata = orjson.loads(metadata)
        except orjson.JSONDecodeError as error:
            raise unreadable(fault(metadata, error)) from None
        check_metadata(metadata)

    def rows(self) -> Iterator[Rows]:
        """Yield its rows, many at a time."""
        return iter(()) if self._rows is None else self._rows.rows()


def objects(file: BinaryIO, see: See | None = None) -> Iterator[list[dict[str, Any]]]:
    """Yield the objects of a JSON array, many at a time. `see` is given their text.

    Raises InvalidInputError if the file is anything else.
    """
    file.seek(0)
    head = file.read(BLOCK_BYTES)
    opening = _ARRAY.match(head)
    if opening is None:
        raise unreadable(fault(head, "it is no array"))
    array = _Array(file, opening.end(), _OBJECTS)
    yield from array.rows(see)
    if array.tail.strip() != b"]":
        raise unreadable("there is something after the end of the JSON array")


class _Array:
    """An array of rows that begins behind byte `start`; `tail` is the file from its end on, once it was read."""

    def __init__(self, file: BinaryIO, start: int, kind: _Kind) -> None:
        self._file, self._start, self._kind = file, start, kind
        self.tail = b""

    def rows(self, see: See | None = None) -> Iterator[Rows]:
        """Yield the rows, many at a time. `see` is given their text."""
        return joined(self._pieces(see))

    def _pieces(self, see: See | None) -> Iterator[tuple[int, Rows]]:
        """Yield the rows that end in each piece of the file, with its size."""
        self._file.seek(self._start)
        held, count, brackets = b"", 0, _Brackets(self._kind.closing)
        while piece := self._file.read(BLOCK_BYTES):
            end = brackets.last(piece)
            cut = len(held) + end + 1 if end >= 0 else 0
            held += piece
            # The end of an array of objects does not end a row.
            is_over = self._kind is _OBJECTS and held[cut:].lstrip().startswith(b"]")
            rows = None if is_over else _parsed(held[:cut], count, self._kind, see)
            if rows is None:
                cut = _end(_without_escapes(held))
                rows = _parsed(held[:cut], count, self._kind, see) if cut >= 0 else None
                if rows is None:
                    raise _fault(held[:cut], count, self._kind)
                yield 0, rows
                held = held[cut:]
                while piece := self._file.read(BLOCK_BYTES):
                    held = _limited(held + piece)
                self.tail = held
                return
            yield len(piece), rows
            if rows:
                count += len(rows)
                held = held[cut:]
            if len(held) > LONGEST_LINE:
                raise unreadable(f"it is longer than {LONGEST_LINE} bytes", count + 1)
        if (end := _end(_without_escapes(held))) >= 0:
            raise _fault(held[:end], count, self._kind)
        raise unreadable("the file is cut off in its rows")


def _head(file: BinaryIO) -> tuple[bytes, bool]:
    """Return the document up to the bracket that opens its rows, inclusive; the whole document if it has none."""
    held = b""
    file.seek(0)
    while piece := file.read(max(BLOCK_BYTES, len(held))):
        held = _limited(held + piece)
        depth = 0
        outside = _without_escapes(held)
        for token in _TOKEN.finditer(outside):
            found = token[0]
            if found == b'"rows"' and depth == 1 and (opening := _OPENING.match(outside, token.end())):
                return held[: opening.end()], True
            depth += (found in b"[{") - (found in b"]}")
    return held, False


def _limited(metadata: bytes) -> bytes:
    if len(metadata) >= LONGEST_METADATA:
        raise unreadable(f"its metadata is longer than {LONGEST_METADATA} bytes")
    return metadata


def _without_escapes(text: bytes) -> bytes:
    """Return the text with escaped quotes and backslashes replaced, so that every quote begins or ends a string.

    A backslash at the end then escapes the next character.
    """
    return text.replace(b"\\\\", b"__").replace(b'\\"', b"__")


class _Brackets:
    """A search for brackets outside strings, in a text that comes in pieces and begins outside a string.

    No piece is searched twice.
    """

    def __init__(self, closing: bytes) -> None:
        self._closing = closing
        self._in_string = False
        self._escape = b""

    def last(self, piece: bytes) -> int:
        """Return the position in the next piece of the last bracket outside a string, or -1."""
        before = len(self._escape)
        text = _without_escapes(self._escape + piece)
        self._escape = b"\\" if text.endswith(b"\\") else b""
        self._in_string ^= bool(text.count(b'"') % 2)
        end = max(text.rfind(b'"'), 0) if self._in_string else len(text)
        bracket = text.rfind(self._closing, 0, end)
        while bracket >= 0:
            quote = text.rfind(b'"', 0, end)
            if bracket > quote:
                return bracket - before
            end = max(text.rfind(b'"', 0, quote), 0)
            if bracket >= end:
                bracket = text.rfind(self._closing, 0, end)
        return -1


def _end(outside: bytes) -> int:
    """Return the position of the `]` that ends the rows, or -1 if it has not been read."""
    depth = 0
    for token in _TOKEN.finditer(outside):
        depth += (token[0] in b"[{") - (token[0] in b"]}")
        if depth < 0:
            return token.start()
    return -1


def _fault(text: bytes, count: int, kind: _Kind) -> InvalidInputError:
    """Return the error for the first wrong row of a text, which may be cut off. `count` rows came before."""
    depth = begin = 0
    for token in _TOKEN.finditer(_without_escapes(text)):
        depth += (token[0] in b"[{") - (token[0] in b"]}")
        if depth or token[0] not in b"]}":
            continue
        row = text[begin : token.end()].strip()
        if count and not row.startswith(b","):
            return unreadable("there is no comma before it", count + 1)
        row = row[bool(count) :].strip()
        try:
            value = orjson.loads(row)
        except orjson.JSONDecodeError as error:
            return unreadable(fault(row, error), count + 1)
        if type(value) is not kind.type:
            break
        begin, count = token.end(), count + 1
    why = f"it is not a JSON {kind.word} of plain values"
    try:
        text[begin:].decode()
    except UnicodeDecodeError:
        why += " in UTF-8"
    return unreadable(why, count + 1)


def _parsed(text: bytes, count: int, kind: _Kind, see: See | None) -> Rows | None:
    """Return the rows of a text, which have commas between them; None if it is anything else.

    A comma must precede the first row if other rows came before. `count` is their number. `see` is given the text.

    Raises InvalidInputError for a row with more values than the maximum number of columns.
    """
    text = text.strip()
    if count and text:
        if not text.startswith(b","):
            return None
        text = text[1:]
    try:
        rows: Rows = orjson.loads(b"[" + text + b"]")
    except orjson.JSONDecodeError:
        return None
    if not set(map(type, rows)) <= {kind.type}:
        return None
    if max(map(len, rows), default=0) > MOST_COLUMNS:
        number, width = next((at, len(row)) for at, row in enumerate(rows, count + 1) if len(row) > MOST_COLUMNS)
        raise unreadable(f"it has {width:,} values; at most {MOST_COLUMNS:,} are read", number)
    if kind is _OBJECTS:
        check_members(text, rows, count + 1)
    if see is not None:
        see(text, count + 1)
    return rows
