"""Pages of a listing, newest first or in another order.

A cursor says where the last page ended. So each page costs the same wherever it begins, and new rows do not shift it.

A page reads a bounded number of rows, whatever is searched for. The rows are read in the order of the listing, by an
index that has the rows of one condition in this order; those that do not match the other conditions are left out. Where
the page is not full after `MOST_READ` rows, it ends there, with fewer rows or none, and with a cursor. But if few rows
match one of the conditions that an index finds, all of these are read instead, and the page is whole.
"""

import operator
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Collection, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Connection, Integer, Row, Select, TextClause, false, func, literal, select, tuple_

from app.ports import BadCursor, Page, Total

T = TypeVar("T")

_CURSOR = re.compile(r"(-?\d{1,19}):(.*)", re.DOTALL)
_NUMBER = re.compile(r"-?\d{1,19}")
_KEY = "sort_key"
_INT64 = range(-(1 << 63), 1 << 63)

MOST_READ = 4_000
"""The number of rows that a page or a count reads at most. If they lie anywhere in the table, PostgreSQL takes about
12 ms."""
_FIRST_READ = 1_000
"""Most pages are full after fewer rows."""

Spelling = Callable[[ColumnElement[Any]], ColumnElement[Any]]
Condition = Callable[[Spelling], ColumnElement[bool] | TextClause]
"""A condition of a search, made of how to spell its column: `indexed` or `unindexed`."""
Place = tuple[Any, str]


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


def between(time: ColumnElement[int], after: int | None, before: int | None) -> list[Condition]:
    """Return the conditions that a time lies between two others, neither of which is included."""
    later = [] if after is None else [lambda of: of(time) > after]
    return [*later, *([] if before is None else [lambda of: of(time) < before])]


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


def indexed(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return the column itself, by which an index may find rows."""
    return column


def unindexed(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return the values of a column, as an expression that no index has. A database that chose an index for a condition
    that many rows match would then sort all of these rows."""
    return func.coalesce(column, column)


class Search(NamedTuple):
    """What a listing is searched for.

    `between` limits the key of the listing. Each of `ordered` has an index with its rows in the order of the listing;
    the first one is used, so that the one that fewest rows match comes first. Each of `found` has an index in another
    order. `others` have none.
    """

    between: Sequence[Condition] = ()
    ordered: Sequence[Condition] = ()
    found: Sequence[Condition] = ()
    others: Sequence[Condition] = ()


def equal(column: ColumnElement[Any], value: object) -> Condition:
    return lambda of: of(column) == value


def among_places(
    column: ColumnElement[str], wanted: str | None, within: Collection[str] | None
) -> tuple[list[Condition], list[Condition]]:
    """Return the conditions that a source or destination is the wanted one and one of `within` (None: any): those of
    one value, and those of several."""
    places = within if wanted is None else [wanted] if within is None or wanted in within else []
    if places is None:
        return [], []
    if len(places) == 1:
        return [equal(column, next(iter(places)))], []
    values = [literal(each, column.type) for each in sorted(places)]
    return [], [lambda of: of(column).in_(values) if values else false()]


class Listing(NamedTuple, Generic[T]):
    """The order of a listing, and the conversion of its rows to records.

    The key is a time, newest first, unless `sort` names another order.
    """

    time: ColumnElement[Any]
    identifier: ColumnElement[str]
    record: Callable[[Row[Any]], T]
    sort: str | None = None
    is_descending: bool = True

    def part(
        self, statement: Select[Any], after: Place | None, last: Place | None, of: Spelling = indexed
    ) -> Select[Any]:
        """Return the statement's rows after one place in the order, and up to another."""
        behind, up_to = (operator.lt, operator.ge) if self.is_descending else (operator.gt, operator.le)
        limits = [*([] if after is None else [(behind, after)]), *([] if last is None else [(up_to, last)])]
        for compare, (time, identifier) in limits:
            key, there = of(self.time), literal(time, self.time.type)
            place = tuple_(there, literal(identifier, self.identifier.type))
            # SQLite finds a tuple in an index only if all of the tuple are columns, and keys may be expressions.
            is_near = key <= there if compare in (operator.lt, operator.le) else key >= there
            statement = statement.where(compare(tuple_(key, self.identifier), place), is_near)
        return statement

    def ordered(self, statement: Select[Any], of: Spelling = indexed) -> Select[Any]:
        keys = (of(self.time), self.identifier)
        return statement.order_by(*(each.desc() if self.is_descending else each.asc() for each in keys))

    def place(self, row: Row[Any]) -> Place:
        return row._mapping[_KEY if self.sort else self.time], row._mapping[self.identifier]

    def cursor(self, place: Place) -> str:
        return encode_sorted(self.sort, *place) if self.sort else encode_cursor(*place)

    def position(self, cursor: str) -> Place:
        """Return the place for which `cursor` returned this text. Raises BadCursor."""
        if self.sort is None:
            return decode_cursor(cursor)
        text, name = decode_sorted(self.sort, cursor)
        if not isinstance(self.time.type, Integer):
            return text, name
        if not _NUMBER.fullmatch(text) or int(text) not in _INT64:
            raise BadCursor(cursor)
        return int(text), name


def fetch_page(
    connection: Connection,
    listing: Listing[T],
    statement: Select[Any],
    cursor: str | None,
    limit: int,
    search: Search | None = None,
) -> Page[T]:
    """Return at most `limit` rows of a statement that match a search, after a cursor. Raises BadCursor.

    There may be more rows, and then is a cursor, also when the page has fewer rows.
    """
    matching = _Matching(connection, listing, statement, search or Search())
    start = None if cursor is None else listing.position(cursor)
    following = first = None if matching.are_ordered else matching.nth(start, _FIRST_READ)
    rows = matching.rows(start, first, limit + 1)
    if first is not None and len(rows) <= limit:
        few = matching.few()
        following = None if few else matching.nth(first, MOST_READ - _FIRST_READ)
        rows += matching.rows(first, following, limit + 1 - len(rows), few)
    if len(rows) > limit:
        following = listing.place(rows[limit - 1])
    shown: list[Any] = [row[:-1] for row in rows[:limit]] if listing.sort else list(rows[:limit])
    return Page([listing.record(row) for row in shown], None if following is None else listing.cursor(following))


def newest_rows(
    connection: Connection, listing: Listing[Any], statement: Select[Any], search: Search
) -> tuple[Select[Any], bool]:
    """Return the statement for its rows that match a search, as far as `MOST_READ` rows tell it; and whether these are
    all."""
    matching = _Matching(connection, listing, statement, search)
    last = matching.nth(None, MOST_READ)
    if last is not None and matching.nth(last, 1) is None:
        last = None  # it is the last row of all
    few = None if last is None else matching.few()
    # With order and limit, databases find these rows by their place, also where they are grouped by other columns.
    rows = matching.part(None, None, few) if few else listing.ordered(matching.part(None, last)).limit(MOST_READ)
    return rows, last is None or few is not None


def count_rows(connection: Connection, listing: Listing[Any], statement: Select[Any], search: Search) -> Total:
    """Return how many of a statement's rows match a search, as far as `MOST_READ` rows tell it."""
    rows, is_all = newest_rows(connection, listing, statement, search)
    return Total(_count(connection, rows), is_all)


def _count(connection: Connection, rows: Select[Any]) -> int:
    some = rows.with_only_columns(literal(1), maintain_column_froms=True)
    return connection.scalar(select(func.count()).select_from(some.subquery())) or 0


class _Matching:
    """The rows of a statement that match a search, in the order of a listing."""

    def __init__(self, connection: Connection, listing: Listing[Any], statement: Select[Any], search: Search) -> None:
        self._connection, self._listing, self._statement, self._search = connection, listing, statement, search
        self._lead = next(iter(search.ordered), None)
        self.are_ordered = len(search.ordered) <= 1 and not search.found and not search.others
        """Whether one index has exactly these rows, in this order."""

    def rows(self, after: Place | None, last: Place | None, limit: int, few: Condition | None = None) -> list[Row[Any]]:
        """Return the first rows after a place and up to another. With `few`, all rows that match this condition are
        read."""
        part = self._listing.ordered(self.part(after, last, few), unindexed if few else indexed)
        keyed = part.add_columns(self._listing.time.label(_KEY)) if self._listing.sort else part
        return list(self._connection.execute(keyed.limit(limit)))

    def part(self, after: Place | None, last: Place | None, few: Condition | None = None) -> Select[Any]:
        """Return the statement for the rows after a place and up to another. Only the index for the first condition, or
        for `few`, can be used."""
        search, chosen, of_key = self._search, few or self._lead, unindexed if few else indexed
        conditions = (*search.ordered, *search.found, *search.others)
        matching = self._statement.where(*(each(indexed if each is chosen else unindexed) for each in conditions))
        matching = matching.where(*(each(of_key) for each in search.between))
        return self._listing.part(matching, after, last, of_key)

    def nth(self, after: Place | None, number: int) -> Place | None:
        """Return the place of the row that is so many rows after a place, among those of the index that is read; None
        if there are fewer."""
        listing, lead = self._listing, self._lead
        read = self._statement.with_only_columns(listing.time.label(_KEY), listing.identifier)
        read = read.where(*(each(indexed) for each in (*([] if lead is None else [lead]), *self._search.between)))
        row = self._connection.execute(listing.ordered(listing.part(read, after, None)).limit(1).offset(number - 1))
        found = row.first()
        return None if found is None else (found[0], found[1])

    def few(self) -> Condition | None:
        """Return a condition that an index finds, and that fewer rows match than a page reads."""
        for each in (*self._search.ordered[1:], *self._search.found):
            if _count(self._connection, self._statement.where(each(indexed)).limit(MOST_READ)) < MOST_READ:
                return each
        return None
