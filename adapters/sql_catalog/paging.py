"""Pages of a listing, newest first.

A cursor says where the last page ended. So each page costs the same wherever it begins, and new rows do not shift it.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Connection, Row, Select, literal, tuple_

from app.ports import BadCursor, Page

T = TypeVar("T")

_CURSOR = re.compile(r"(-?\d{1,19}):(.*)", re.DOTALL)
_INT64 = range(-(1 << 63), 1 << 63)


def encode_cursor(time: int, identifier: str) -> str:
    """Return a cursor, an opaque text that is safe in a URL."""
    return urlsafe_b64encode(f"{time}:{identifier}".encode(errors="surrogatepass")).rstrip(b"=").decode()


def decode_cursor(cursor: str) -> tuple[int, str]:
    """Return the time and the identifier in a cursor. Raises BadCursor."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        match = _CURSOR.fullmatch(urlsafe_b64decode(padded).decode(errors="surrogatepass"))
    except ValueError:
        match = None
    if match is None or int(match[1]) not in _INT64 or encode_cursor(int(match[1]), match[2]) != cursor:
        raise BadCursor(cursor)
    return int(match[1]), match[2]


class Listing(NamedTuple, Generic[T]):
    """The order of a listing, and the conversion of its rows to records."""

    time: ColumnElement[int]
    identifier: ColumnElement[str]
    record: Callable[[Row[Any]], T]


def fetch_page(
    connection: Connection, listing: Listing[T], statement: Select[Any], cursor: str | None, limit: int
) -> Page[T]:
    """Return at most `limit` rows of a statement after a cursor. Raises BadCursor."""
    time, identifier, record = listing
    key = tuple_(time, identifier)
    if cursor is not None:
        at, name = decode_cursor(cursor)
        statement = statement.where(key < tuple_(literal(at, time.type), literal(name, identifier.type)))
    rows = connection.execute(statement.order_by(time.desc(), identifier.desc()).limit(limit + 1)).all()
    following = None
    if len(rows) > limit:
        last = rows[limit - 1]._mapping
        following = encode_cursor(last[time], last[identifier])
    return Page([record(row) for row in rows[:limit]], following)
