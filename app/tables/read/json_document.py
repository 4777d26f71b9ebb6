"""One JSON object whose member `rows` is an array too long to be held: read piece by piece, as often as wanted.

Members may stand in any order and strings may hold anything. So brackets are looked for outside strings only, and a
piece of the rows ends at the last `]` of what was read: rows are arrays of plain values, hence it ends a row, or all of
them.
"""

import re
from collections.abc import Iterator
from typing import Any, BinaryIO

import orjson

from app.tables.read.lines import BLOCK_BYTES, LONGEST_LINE
from app.tables.read.reading import MOST_COLUMNS, unreadable

LONGEST_METADATA = 64 << 20
"""Bytes of all that is no rows."""

_TOKEN = re.compile(rb'"[^"]*"|[\[\]{}]')
_OPENING = re.compile(rb"\s*:\s*\[")

Rows = list[list[Any]]


class Document:
    """A document in a file; `metadata` is all of it, with no rows."""

    def __init__(self, file: BinaryIO) -> None:
        """Reads the whole file once. Raises TheirError where it is no JSON."""
        self._file = file
        self._tail = b""
        head, self._has_rows = _head(file)
        self._start = len(head)
        for _ in self.rows():
            pass
        try:
            self.metadata = orjson.loads(head + self._tail)
        except orjson.JSONDecodeError as error:
            raise unreadable(f"it is no JSON: {error}") from None

    def rows(self) -> Iterator[Rows]:
        """Its rows, many at a time."""
        if not self._has_rows:
            return
        self._file.seek(self._start)
        held, count, brackets = b"", 0, _Brackets()
        while piece := self._file.read(BLOCK_BYTES):
            end = brackets.last(piece)
            cut = len(held) + end + 1 if end >= 0 else 0
            held += piece
            rows = _parsed(held[:cut], count)
            if rows is None:
                cut = _end(_without_escapes(held))
                rows = _parsed(held[:cut], count) if cut >= 0 else None
                if rows is None:
                    raise unreadable("it or a row soon after it is no JSON array", count + 1)
                if rows:
                    yield rows
                self._tail = self._rest(held[cut:])
                return
            if rows:
                yield rows
                count += len(rows)
                held = held[cut:]
            if len(held) > LONGEST_LINE:
                raise unreadable(f"it is longer than {LONGEST_LINE} bytes", count + 1)
        raise unreadable("the file is cut off in its rows")

    def _rest(self, held: bytes) -> bytes:
        while piece := self._file.read(BLOCK_BYTES):
            held = _limited(held + piece)
        return held


def _head(file: BinaryIO) -> tuple[bytes, bool]:
    """The document up to and with the bracket that opens its rows; all of it where it has none."""
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
    """The same with other bytes for escaped quotes and backslashes, so that every quote begins or ends a string, and a
    backslash at the end escapes what comes next."""
    return text.replace(b"\\\\", b"__").replace(b'\\"', b"__")


class _Brackets:
    """Looks for brackets outside strings, in a text that comes in pieces and begins in no string. No piece is looked at
    twice."""

    def __init__(self) -> None:
        self._in_string = False
        self._escape = b""

    def last(self, piece: bytes) -> int:
        """Where in the next piece the last `]` stands that is in no string; -1 where there is none."""
        before = len(self._escape)
        text = _without_escapes(self._escape + piece)
        self._escape = b"\\" if text.endswith(b"\\") else b""
        self._in_string ^= bool(text.count(b'"') % 2)
        bracket = _last_bracket(text, ends_in_string=self._in_string)
        return bracket - before if bracket >= 0 else -1


def _last_bracket(text: bytes, *, ends_in_string: bool) -> int:
    """Where the last `]` stands that is in no string; -1 where there is none."""
    end = max(text.rfind(b'"'), 0) if ends_in_string else len(text)
    bracket = text.rfind(b"]", 0, end)
    while bracket >= 0:
        quote = text.rfind(b'"', 0, end)
        if bracket > quote:
            break
        end = max(text.rfind(b'"', 0, quote), 0)
        if bracket >= end:
            bracket = text.rfind(b"]", 0, end)
    return bracket


def _end(outside: bytes) -> int:
    """Where the `]` stands that ends the rows; -1 where it has not come."""
    depth = 0
    for token in _TOKEN.finditer(outside):
        depth += (token[0] in b"[{") - (token[0] in b"]}")
        if depth < 0:
            return token.start()
    return -1


def _parsed(text: bytes, count: int) -> Rows | None:
    """Rows between commas, of which one stands before the first where others came before; None where it is no such.
    Raises TheirError for a row of more values than there may be columns."""
    text = text.strip()
    if count and text:
        if not text.startswith(b","):
            return None
        text = text[1:]
    try:
        rows: Rows = orjson.loads(b"[" + text + b"]")
    except orjson.JSONDecodeError:
        return None
    if not set(map(type, rows)) <= {list}:
        return None
    if max(map(len, rows), default=0) > MOST_COLUMNS:
        number, width = next((at, len(row)) for at, row in enumerate(rows, count + 1) if len(row) > MOST_COLUMNS)
        raise unreadable(f"it has {width:,} values; {MOST_COLUMNS:,} are read at most", number)
    return rows
