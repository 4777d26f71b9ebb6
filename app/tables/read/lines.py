"""Lines of JSON, many at once."""

import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import orjson

from app.tables.read.reading import unreadable

BLOCK_BYTES = 2 << 20
LONGEST_LINE = 64 << 20

Row = Any
"""What a line holds: an object or an array."""


def pieces(file: BinaryIO) -> Iterator[bytes]:
    """A file from its beginning."""
    file.seek(0)
    while piece := file.read(BLOCK_BYTES):
        yield piece


def inflated(file: BinaryIO) -> Iterator[bytes]:
    """What a zlib stream holds. Raises TheirError where it is none, is cut off, or goes on behind its end."""
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
    """The lines of a stream that are not blank, many at a time."""
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
    """What lines hold, each a value of this type; `first` is the number of the first, from 1. Raises TheirError."""
    try:
        rows: list[Row] = orjson.loads(b"[" + b",".join(lines) + b"]")
    except orjson.JSONDecodeError:
        rows = _one_by_one(lines, first)
    if len(rows) != len(lines) or set(map(type, rows)) - {kind}:
        rows = _one_by_one(lines, first)
        at = next(at for at, row in enumerate(rows) if type(row) is not kind)
        raise unreadable(f"it is no JSON {'object' if kind is dict else 'array'}", first + at)
    return rows


def _one_by_one(lines: list[bytes], first: int) -> list[Row]:
    rows = []
    for number, line in enumerate(lines, first):
        try:
            rows.append(orjson.loads(line))
        except orjson.JSONDecodeError as error:
            raise unreadable(f"not JSON: {error}", number) from None
    return rows
