"""`rm`: delete attachments, messages with their attachments, and deliveries."""

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

import typer
from attachment_gateway_client import Problem
from rich.markup import escape

from app.cli.line_tables import IDENTIFIER, STATE, ListColumn, ListTable
from app.cli.rest_client import DEFAULT_URL, Client, Url, connect, located
from app.cli.terminal import Failure, Yes, confirm, err, size, state

_DELETED = "deleted"
_PLURALS = {"attachment": "attachments", "message": "messages", "delivery": "deliveries"}
"""What can be deleted, and the paths of REST."""
_COLUMNS = (
    IDENTIFIER,
    ListColumn("Kind", order=2),
    STATE,
    ListColumn("Name", least=12),
    ListColumn("Size", is_number=True, order=1),
)


class _Deletion(NamedTuple):
    """Something to delete. Messages have no state and no size."""

    what: str
    id: str
    name: str
    state: str | None = None
    size: int | None = None


def rm(
    identifiers: Annotated[
        list[str], typer.Argument(metavar="ID...", help="Identifiers of attachments, messages or deliveries.")
    ],
    *,
    yes: Yes = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Delete attachments with their content, messages with all their attachments, or deliveries that have ended.

    Use `quarantine dismiss` for entries of the quarantine.
    """
    with connect(url) as client:
        doomed = list(dict.fromkeys(each for identifier in identifiers for each in _found(client, identifier)))
        grid = ListTable(_COLUMNS)
        for each in doomed:
            grid.add_row(each.id, each.what, state(each.state), escape(each.name), size(each.size))
        if not yes:
            err.print(grid)
        counts = Counter(each.what for each in doomed)
        listed = (f"{count:,} {what if count == 1 else _PLURALS[what]}" for what, count in counts.items())
        confirm(f"Delete {', '.join(listed)}?", yes=yes)
        for each in doomed:
            client.request("DELETE", located(_PLURALS[each.what], each.id))
            err.print(f"{each.id} was deleted", highlight=False)


def _found(client: Client, identifier: str) -> Iterator[_Deletion]:
    """Yield what has this identifier; a message comes after its existing attachments. Raises Failure."""
    if attachment := _one(client, located("attachments", identifier)):
        if attachment["state"] == _DELETED:
            raise Failure(f"attachment {identifier} has already been deleted")
        yield _attachment(attachment)
    elif message := _one(client, located("messages", identifier)):
        there = (each for each in message["attachments"] if each["state"] not in (None, _DELETED))
        yield from map(_attachment, there)
        yield _Deletion("message", message["id"], f"received from {message['source']}")
    elif delivery := _one(client, located("deliveries", identifier)):
        names = ", ".join(each["name"] for each in delivery["attachments"])
        sizes = sum(each["size"] for each in delivery["attachments"])
        yield _Deletion("delivery", delivery["id"], names, delivery["state"], sizes)
    else:
        raise Failure(f"there is no attachment, message or delivery with the identifier {identifier}")


def _attachment(item: Any) -> _Deletion:
    return _Deletion("attachment", item["id"], item["name"], item["state"], item["size"])


def _one(client: Client, path: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = client.get(path)
    except Problem as problem:
        if problem.status != 404:
            raise
        return None
    return found
