"""Column types for values from outside, which may not fit a database's text or integer types."""

import re
from collections.abc import Callable, Sequence
from struct import error as StructError  # noqa: N812 - the library has no other name for it
from typing import Any, TypeVar

from sqlalchemy import JSON, BigInteger, Integer, LargeBinary, Text
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

from app.model.errors import CatalogDamaged, with_type

T = TypeVar("T", bound=tuple[Any, ...])

UNREADABLE = (TypeError, ValueError, LookupError, StructError)
"""Errors of a conversion to which a database gives values that this program has not written."""

# PostgreSQL stores no NUL and no driver encodes a lone surrogate, but a sender's names may contain both.
_UNSTORABLE = re.compile("[\0\x1a\ud800-\udfff]")
_ESCAPED = re.compile("\x1a([0-9a-f]{4})")


class AnyText(TypeDecorator[str]):
    """Any Python string. Characters that no database stores become SUBSTITUTE (U+001A) and four hexadecimal digits."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return storable(value)

    def bind_processor(self, dialect: Dialect) -> Callable[[str | None], str | None]:  # noqa: ARG002
        return storable

    def process_result_value(self, value: Any | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return original(value)

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any | None], str | None]:  # noqa: ARG002
        return original


def damaged(what: str, error: Exception) -> CatalogDamaged:
    """Return the error about a value or a row that cannot be read."""
    repair = "stop the gateway and run `attachment-gateway fsck --repair`"
    return CatalogDamaged(f"the catalog is damaged: {what} cannot be read ({with_type(error)}): {repair}")


def original(value: str | None) -> str | None:
    """Return the text for which `storable` returned this one. Raises CatalogDamaged."""
    try:
        if value is None or "\x1a" not in value:
            return value
        return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), value)
    except TypeError as error:
        raise damaged("a text", error) from error


def storable(value: str | None) -> str | None:
    """Return a text with the characters that no database stores escaped."""
    # Most texts are printable, which is found faster than a pattern.
    if value is None or value.isprintable() or not _UNSTORABLE.search(value):
        return value
    return _UNSTORABLE.sub(lambda match: f"\x1a{ord(match[0]):04x}", value)


def all_storable(values: Sequence[str | None]) -> Sequence[str | None]:
    """Return texts as `storable` does. Mostly all of them are printable, which is found at once."""
    return values if "".join(filter(None, values)).isprintable() else [*map(storable, values)]


class Octets(LargeBinary):
    """Bytes, which every driver accepts unchanged."""

    def bind_processor(self, dialect: Dialect) -> None:
        """Return no processor: the driver's wrapper costs more time than the bytes."""


class BitMask(TypeDecorator[int]):
    """A set of bits of any width, in hexadecimal: 64 bits are already too many for SQL's signed integers."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else f"{value:x}"

    def process_result_value(self, value: Any | None, dialect: Dialect) -> int | None:  # noqa: ARG002
        try:
            return None if value is None else int(value, 16)
        except UNREADABLE as error:
            raise damaged("a set of bits", error) from error


class Tuples(TypeDecorator[tuple[T, ...]]):
    """Tuples in JSON, each as a list of its fields. `read` makes one of such a list, which `what` names in errors."""

    impl = JSON
    cache_ok = True

    def __init__(self, read: Callable[[Sequence[Any]], T], what: str) -> None:
        super().__init__()
        self.read, self.what = read, what

    def process_bind_param(self, value: tuple[T, ...] | None, dialect: Dialect) -> list[Any] | None:  # noqa: ARG002
        return None if value is None else [*map(tuple, value)]

    def process_result_value(self, value: Any | None, dialect: Dialect) -> tuple[T, ...]:  # noqa: ARG002
        try:
            return tuple(map(self.read, value or ()))
        except UNREADABLE as error:
            raise damaged(self.what, error) from error


# SQLite numbers rows automatically only in a column of type INTEGER.
RowNumber = BigInteger().with_variant(Integer, "sqlite")
