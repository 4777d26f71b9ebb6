"""Pages of a listing, newest first or in another order.

A cursor says where the last page ended. So each page costs the same wherever it begins, and new rows do not shift it.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Connection, Integer, Row, Select, literal, tuple_

from app.ports import BadCursor, Page

T = TypeVar("T")

_CURSOR = re.compile(r"(-?\d{1,19}):(.*)", re.DOTALL)
_NUMBER = re.compile(r"-?\d{1,19}")
_KEY = "sort_key"
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


def between(time: ColumnElement[int], after: int | None, before: int | None) -> Iterator[ColumnElement[bool]]:
    """Yield the conditions that a time lies between two others, neither of which is included."""
    if after is not None:
        yield time > after
    if before is not None:
        yield time < before


def encode_sorted(sort: str, key: object, identifier: str) -> str:
    """Return a cursor of a listing in another order than by time; it belongs to this order only."""
    text = f"{sort}:{key}:{identifier}"
    return urlsafe_b64encode(text.encode(errors="surrogatepass")).rstrip(b"=").decode()


def decode_sorted(sort: str, cursor: str) -> tuple[str, str]:
    """Return the key and the identifier in a cursor of this order. Raises BadCursor."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        text = urlsafe_b64decode(padded).decode(errors="surrogatepass")
    except ValueError:
        raise BadCursor(cursor) from None
    given, _, rest = text.partition(":")
    key, colon, identifier = rest.rpartition(":")
    if given != sort or not colon:
        raise BadCursor(cursor)
    return key, identifier


class Listing(NamedTuple, Generic[T]):
    """The order of a listing, and the conversion of its rows to records.

    The key is a time, newest first, unless `sort` names another order.
    """

    time: ColumnElement[Any]
    identifier: ColumnElement[str]
    record: Callable[[Row[Any]], T]
    sort: str | None = None
    is_descending: bool = True


def fetch_page(
    connection: Connection, listing: Listing[T], statement: Select[Any], cursor: str | None, limit: int
) -> Page[T]:
    """Return at most `limit` rows of a statement after a cursor. Raises BadCursor."""
    key, identifier = listing.time, listing.identifier
    if cursor is not None:
        at, name = _position(listing, cursor)
        here, there = tuple_(key, identifier), tuple_(literal(at, key.type), literal(name, identifier.type))
        statement = statement.where(here < there if listing.is_descending else here > there)
    order = [each.desc() if listing.is_descending else each.asc() for each in (key, identifier)]
    keyed = statement.add_columns(key.label(_KEY)) if listing.sort else statement
    rows = connection.execute(keyed.order_by(*order).limit(limit + 1)).all()
    following = None
    if len(rows) > limit:
        last = rows[limit - 1]._mapping
        if listing.sort:
            following = encode_sorted(listing.sort, last[_KEY], last[identifier])
        else:
            following = encode_cursor(last[key], last[identifier])
    shown: list[Any] = [row[:-1] for row in rows[:limit]] if listing.sort else list(rows[:limit])
    return Page([listing.record(row) for row in shown], following)


def _position(listing: Listing[Any], cursor: str) -> tuple[object, str]:
    if listing.sort is None:
        return decode_cursor(cursor)
    text, name = decode_sorted(listing.sort, cursor)
    if not isinstance(listing.time.type, Integer):
        return text, name
    if not _NUMBER.fullmatch(text) or int(text) not in _INT64:
        raise BadCursor(cursor)
    return int(text), name
