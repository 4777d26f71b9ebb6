"""The rows of the catalog's listings, over all pages."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import TypeVar

from app.model.attachment import AttachmentState
from app.model.records import AttachmentRecord
from app.ports import AttachmentFilter, ListingCatalog, Page

T = TypeVar("T")

AT_ONCE = 500
OPEN = (AttachmentState.RECEIVING, AttachmentState.COMPLETE)
"""The states of an attachment that has not come to an end."""


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
    return pages(partial(_page, catalog, AttachmentFilter(state)))


def ended_attachments(catalog: ListingCatalog) -> Iterator[AttachmentRecord]:
    """Yield every attachment that has come to an end."""
    for state in AttachmentState:
        if state not in OPEN:
            yield from attachments_in(catalog, state)


def batched(items: Iterable[T], size: int = AT_ONCE) -> Iterator[list[T]]:
    """Yield lists of at most `size` items."""
    coming = iter(items)
    while some := list(islice(coming, size)):
        yield some


def _page(catalog: ListingCatalog, which: AttachmentFilter, cursor: str | None) -> Page[AttachmentRecord]:
    return catalog.attachments(which, cursor, AT_ONCE)
