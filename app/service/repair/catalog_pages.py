"""The rows of the catalog's listings, over all pages."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

from app.model.attachment import AttachmentState
from app.model.records import AttachmentRecord
from app.ports import AttachmentFilter, ListingCatalog, Page

T = TypeVar("T")

AT_ONCE = 500
OPEN = (AttachmentState.RECEIVING, AttachmentState.COMPLETE)
"""The states of an unfinished attachment."""


def pages(page: Callable[[str | None], Page[T]]) -> Iterator[T]:
    """Yield the items of a listing page by page."""
    cursor: str | None = None
    while True:
        found = page(cursor)
        yield from found.items
        if found.next is None:
            return
        cursor = found.next


def attachments_in(catalog: ListingCatalog, state: AttachmentState) -> Iterator[AttachmentRecord]:
    """Yield every attachment in a state."""
    return pages(lambda cursor: catalog.attachments(AttachmentFilter(state), cursor, AT_ONCE))


def ended_attachments(catalog: ListingCatalog) -> Iterator[AttachmentRecord]:
    """Yield every attachment in another state than `OPEN`."""
    for state in AttachmentState:
        if state not in OPEN:
            yield from attachments_in(catalog, state)


def batched(items: Iterable[T]) -> Iterator[list[T]]:
    """Yield lists of at most `AT_ONCE` items."""
    remaining = iter(items)
    while some := list(islice(remaining, AT_ONCE)):
        yield some
