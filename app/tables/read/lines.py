"""Read lines of JSON, many at once."""

import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import orjson

from app.tables.read.request import unreadable

BLOCK_BYTES = 2 << 20
LONGEST_LINE = 64 << 20

Row = Any
"""The value of a line: an object or an array."""


def pieces(file: BinaryIO) -> Iterator[bytes]:
    """Yield a file from its beginning."""
    file.seek(0)
    while piece := file.read(BLOCK_BYTES):
        yield piece


def inflated(file: BinaryIO) -> Iterator[bytes]:
    """Yield the content of a zlib stream. Raises InvalidInputError if it is invalid, cut off, or followed by other
    bytes."""
    stream = zlib.decompressobj()
    try:
        for piece in pieces(file):
            fed = piece
            while fed and not stream.eof:
                yield stream.decompress(fed, BLOCK_BYTES)
                fed = stream.unconsumed_tail
        yield stream.flush()
    except zlib.error as error:
        raise unreadable(f"not a zlib stream: {error}") from None
    if not stream.eof or stream.unused_data:
        raise unreadable("the zlib stream is cut off" if not stream.eof else "bytes follow the zlib stream")


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
        at = next(at for at, row in enumerate(rows) if type(row) is not kind)
        raise unreadable(f"it is not a JSON {'object' if kind is dict else 'array'}", first + at)
    return rows


def _one_by_one(lines: list[bytes], first: int) -> list[Row]:
    rows = []
    for number, line in enumerate(lines, first):
        try:
            rows.append(orjson.loads(line))
        except orjson.JSONDecodeError as error:
            raise unreadable(f"not JSON: {error}", number) from None
    return rows
