"""JSON that all resources share: pages, kinds, links and times.

Identifiers from brokers are hexadecimal, times are RFC 3339 in UTC, sizes are in bytes. `links` are paths on this host.
"""

from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel

from app.model.attachment import AttachmentKind
from app.ports import Page
from app.web.dependencies.request_gateway import Paging

T = TypeVar("T")
R = TypeVar("R")
KindWord = Literal["data-set", "text-file", "binary-file"]
KINDS: dict[str, AttachmentKind] = {kind.word: kind for kind in AttachmentKind}
Links = dict[str, str]


def shown(text: str) -> str:
    """Return text from the wire such that JSON can carry it: a lone surrogate becomes a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")


class PageView(BaseModel, Generic[T]):
    """One page, newest first (tables: by name). `next` is the `cursor` of the next page, null on the last page. A page
    before the last one may have fewer items than `limit`, or none."""

    items: list[T]
    next: str | None


def page_view(paging: Paging, page: Page[R], view: Callable[[R], T]) -> PageView[T]:
    """Return a page, and link to the next one."""
    paging.link_next(page.next)
    return PageView(items=[view(item) for item in page.items], next=page.next)


def kind_word(kind: AttachmentKind | None) -> Any:
    return kind.word if kind else None
