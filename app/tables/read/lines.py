"""Read lines of JSON, many at once."""

import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import orjson

from app.tables.read.request import unreadable

BLOCK_BYTES = 2 << 20
LONGEST_LINE = 64 << 20

GZIP_MAGIC: Final = b"\x1f\x8b"
ZLIB_OR_GZIP: Final = 32 + zlib.MAX_WBITS
"""The argument of zlib that reads either kind of stream."""

Row = Any
"""The value of a line: an object or an array."""


def pieces(file: BinaryIO) -> Iterator[bytes]:
    """Yield a file from its beginning."""
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
                    stream = _next_member(what)
                yield stream.decompress(fed, BLOCK_BYTES)
                fed = stream.unconsumed_tail or stream.unused_data
        yield stream.flush()
    except zlib.error as error:
        raise unreadable(f"not a {what}: {error}") from None
    if not stream.eof:
        raise unreadable(f"the {what} is cut off")


def _next_member(what: str) -> "zlib._Decompress":
    """Return the decompressor of a gzip file's next member. Raises InvalidInputError for bytes after a zlib stream."""
    if what == "zlib stream":
        raise unreadable("bytes follow the zlib stream")
    return zlib.decompressobj(ZLIB_OR_GZIP)


def blocks(stream: Iterator[bytes]) -> Iterator[list[bytes]]:
    """Yield the lines of a stream that are not blank, many at a time."""
    tail = b""
    for piece in stream:
        *whole, tail = (tail + piece).split(b"\n")
        if len(tail) > LONGEST_LINE:
            raise unreadable(f"a line is longer than {LONGEST_LINE} bytes")
        if lines := [line for line in whole if line and not line.isspace()]:
            yield lines
    if tail and not tail.isspace():
        yield [tail]


def parsed(lines: list[bytes], kind: type, first: int) -> list[Row]:
    """Return the values of lines, all of one type; `first` is the number of the first, from 1. Raises
    InvalidInputError."""
    try:
        rows: list[Row] = orjson.loads(b"[" + b",".join(lines) + b"]")
    except orjson.JSONDecodeError:
        rows = _one_by_one(lines, first)
    if len(rows) != len(lines) or set(map(type, rows)) - {kind}:
        rows = _one_by_one(lines, first)
        for number, row in enumerate(rows, first):
            if type(row) is not kind:
                raise unreadable(f"it is not a JSON {'object' if kind is dict else 'array'}", number)
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
            raise unreadable(f"not JSON: {error}", number) from None
    return rows
