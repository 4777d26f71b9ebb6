"""Read lines of JSON, many at once, and refuse objects that have a member twice.

Blocks grow with the width of rows, so that each call on a column has many cells.
"""

import json
import re
import zlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO, Final, TypeVar

import orjson

from app.tables.read.json_numbers import See, beyond_doubles
from app.tables.read.read_request import unreadable

BLOCK_BYTES = 2 << 20
"""The number of bytes read at once."""

LARGEST_BLOCK = 8 << 20
ROWS_A_BLOCK = 1024

LONGEST_LINE = 64 << 20

GZIP_MAGIC: Final = b"\x1f\x8b"
ZLIB_OR_GZIP: Final = 32 + zlib.MAX_WBITS
"""The argument of zlib that reads either kind of stream."""

_WIDE = "it is in UTF-16 or UTF-32, but JSON is exchanged in UTF-8 (RFC 8259); convert the file to UTF-8"

T = TypeVar("T")

Row = Any
"""The value of a line: an object or an array."""


def is_wide(text: bytes) -> bool:
    """Tell whether JSON is written in UTF-16 or UTF-32: its first character is a bracket or brace of ASCII."""
    return text.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) or b"\0" in text[:4]


def fault(text: bytes, error: object) -> str:
    """Return why a text is not JSON; `error` is the message of its parser."""
    if is_wide(text):
        return _WIDE
    try:
        text.decode()
    except UnicodeDecodeError as found:
        byte = f"byte {found.start:,} of it, 0x{text[found.start]:02X}"
        return f"{byte}, is not UTF-8, in which JSON is exchanged (RFC 8259); convert the file to UTF-8"
    if (number := beyond_doubles(text)) is not None:
        return f"the number {number:.40} is beyond the range of doubles"
    return f"not JSON: {error}"


def pieces(file: BinaryIO) -> Iterator[bytes]:
    """Yield a file from its beginning, without a byte order mark."""
    file.seek(0)
    if file.read(len(BOM_UTF8)) != BOM_UTF8:
        file.seek(0)
    while piece := file.read(BLOCK_BYTES):
        yield piece


def inflated(file: BinaryIO) -> Iterator[bytes]:
    """Yield the content of a zlib stream, or of the members of a gzip file.

    Raises InvalidInputError if it is invalid, cut off, or followed by other bytes.
    """
    stream = zlib.decompressobj(ZLIB_OR_GZIP)
    what = "zlib stream"
    try:
        for number, piece in enumerate(pieces(file)):
            if number == 0 and piece.startswith(GZIP_MAGIC):
                what = "gzip file"
            fed = piece
            while fed:
                if stream.eof:
                    if what == "zlib stream":
                        raise unreadable("bytes follow the zlib stream")
                    stream = zlib.decompressobj(ZLIB_OR_GZIP)
                yield stream.decompress(fed, BLOCK_BYTES)
                fed = stream.unconsumed_tail or stream.unused_data
        yield stream.flush()
    except zlib.error as error:
        raise unreadable(f"not a {what}: {error}") from None
    if not stream.eof:
        raise unreadable(f"the {what} is cut off")


def joined(pieces: Iterable[tuple[int, list[T]]]) -> Iterator[list[T]]:
    """Yield the rows of pieces of a file, each given with its size in bytes.

    Pieces are joined up to ROWS_A_BLOCK rows, or LARGEST_BLOCK bytes. There is no empty block.
    """
    held: list[T] = []
    size = 0
    for piece_bytes, rows in pieces:
        size += piece_bytes
        held += rows
        if held and (len(held) >= ROWS_A_BLOCK or size >= LARGEST_BLOCK):
            yield held
            held, size = [], 0
    if held:
        yield held


def blocks(stream: Iterator[bytes]) -> Iterator[list[bytes]]:
    """Yield the lines of a stream that are not blank, many at a time."""
    return joined(_lines(stream))


def _lines(stream: Iterator[bytes]) -> Iterator[tuple[int, list[bytes]]]:
    tail = b""
    for piece in stream:
        *whole, tail = (tail + piece).split(b"\n")
        if len(tail) > LONGEST_LINE:
            raise unreadable(f"a line is longer than {LONGEST_LINE} bytes")
        yield len(piece), [line for line in whole if line and not line.isspace()]
    if tail and not tail.isspace():
        yield 0, [tail]


def parsed(lines: list[bytes], kind: type, first: int, see: See | None = None) -> list[Row]:
    """Return the values of lines, all of one type; `first` is the number of the first, from 1. `see` is given their
    text. Raises InvalidInputError."""
    text = b",".join(lines)
    try:
        rows: list[Row] = orjson.loads(b"[" + text + b"]")
    except orjson.JSONDecodeError:
        rows = _one_by_one(lines, first)
    if len(rows) != len(lines) or set(map(type, rows)) - {kind}:
        rows = _one_by_one(lines, first)
        for number, row in enumerate(rows, first):
            if type(row) is not kind:
                raise unreadable(f"it is not a JSON {'object' if kind is dict else 'array'}", number)
    if kind is dict:
        check_members(text, rows, first)
    if see is not None:
        see(text, first)
    return rows


def ends_whole(file: BinaryIO) -> bool:
    """Tell whether the last line of a file has its end; an empty file has no line."""
    size = file.seek(0, 2)
    file.seek(max(0, size - 1))
    return file.read() in {b"\n", b""}


def _one_by_one(lines: list[bytes], first: int) -> list[Row]:
    rows: list[Row] = []
    for number, line in enumerate(lines, first):
        try:
            rows.append(orjson.loads(line))
        except orjson.JSONDecodeError as error:
            raise unreadable(fault(line, error), number) from None
    return rows


_BLANKS_BEFORE: Final = (b" :", b"\t:", b"\r:", b"\n:")
_BETWEEN: Final = re.compile(r"[\s,]*")


class _RepeatedError(Exception):
    """A member's name that an object has twice."""


def check_members(text: bytes, rows: Sequence[dict[str, Any]], first: int) -> None:
    """Raise InvalidInputError if an object has a member twice: parsers keep its last value and report nothing.

    Members are counted first: each has a colon after its name. Where the counts differ from the objects' members, or
    blanks precede a colon, the text is parsed again with Python's own parser.

    `rows` are the objects in a text, which has commas between them; `first` is the number of the first.
    """
    members = sum(map(len, rows))
    if text.count(b":") == members:
        return
    if text.count(b'":') == members and not any(blank in text for blank in _BLANKS_BEFORE):
        return
    written = text.decode()
    at = _after(written, 0)
    for row in range(first, first + len(rows)):
        try:
            _, at = _DECODER.raw_decode(written, at)
        except _RepeatedError as error:
            raise unreadable(f"it has the member {error} twice", row) from None
        except RecursionError:
            return  # nested values are refused later
        at = _after(written, at)


def check_metadata(text: bytes) -> None:
    """Raise InvalidInputError if an object in a JSON text has a member twice."""
    try:
        _DECODER.decode(text.decode("utf-8-sig"))
    except _RepeatedError as error:
        raise unreadable(f"its metadata have the member {error} twice in one object") from None
    except RecursionError:
        return


def _after(text: str, at: int) -> int:
    found = _BETWEEN.match(text, at)
    return found.end() if found else at


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise _RepeatedError(f"{name!r:.60}")
            seen.add(name)
    return found


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_pairs, parse_int=float)
