"""Which objects an inquiry tells of, and which of their attributes.

Source: IBM MQ, "Programmable command formats reference", the pages of the inquiries: generic names, lists of attributes
and filters.
"""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from tests.queue_manager.server.errors import Refused
from tests.queue_manager.server.inquiring import Attribute
from tests.queue_manager.server.pcf import Filter, Record
from tests.queue_manager.server.queue import Queue

_ALL_ATTRIBUTES = 1009
_FILTER_ERROR = 3150

T = TypeVar("T")
Table = dict[int, Attribute]


def select(named: Iterable[tuple[str, T]], pattern: str, table: Table, filter_: Filter | None) -> list[T]:
    """The objects whose names fit, and that the filter lets pass. Raises Refused for a filter that cannot be."""
    return [thing for name, thing in named if fnmatchcase(name, pattern) and _passes(thing, table, filter_)]


def _passes(thing: Any, table: Table, filter_: Filter | None) -> bool:
    if filter_ is None:
        return True
    if filter_.selector not in table or not filter_.known:
        raise Refused(_FILTER_ERROR)
    attribute = table[filter_.selector]
    if not _has(thing, attribute):
        return False
    value = attribute.read(thing)
    return filter_.lets_pass(value.rstrip() if isinstance(value, str) else value)


def attributes_of(
    thing: Any, table: Table, wanted: Iterable[int] | int | None, always: tuple[int, ...], filter_: Filter | None = None
) -> Record:
    """The selectors and values of the attributes that are wanted, all where nothing is said, and of those that are told
    always."""
    asked = {wanted} if isinstance(wanted, int) else set(wanted or (_ALL_ATTRIBUTES,))
    asked |= {*always, *((filter_.selector,) if filter_ is not None else ())}
    every = _ALL_ATTRIBUTES in asked
    return [
        (selector, _padded(attribute.read(thing), attribute.length))
        for selector, attribute in table.items()
        if (every or selector in asked) and _has(thing, attribute)
    ]


def _has(thing: Any, attribute: Attribute) -> bool:
    return not isinstance(thing, Queue) or thing.attributes.type in attribute.types


def _padded(value: Any, length: int) -> Any:
    if isinstance(value, str):
        return value.ljust(length)
    if isinstance(value, tuple):
        return tuple(item.ljust(length) if isinstance(item, str) else item for item in value)
    return value
