"""`rm`: delete attachments, alone or of whole messages."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.markup import escape

from app.cli.client import DEFAULT_URL, Client, Refused, Url, connect
from app.cli.console import Failure, Yes, confirm, err, size, state
from app.cli.lists import IDENTIFIER, STATE, Column, List

_KEPT = "the setting retention.deliveries says when the gateway removes it"
_DELETED = "deleted"


def rm(
    identifiers: Annotated[list[str], typer.Argument(metavar="ID...", help="Identifiers of attachments or messages.")],
    *,
    yes: Yes = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Delete attachments with their content; of a message, delete all its attachments.

    Deliveries cannot be deleted. Use `quarantine dismiss` for entries of the quarantine.
    """
    with connect(url) as client:
        doomed = {each["id"]: each for identifier in identifiers for each in _found(client, identifier)}
        grid = List((IDENTIFIER, STATE, Column("Name", least=12), Column("Size", is_number=True, order=1)))
        for each in doomed.values():
            grid.add_row(each["id"], state(each["state"]), escape(each["name"]), size(each["size"]))
        if not yes:
            err.print(grid)
        attachments = "1 attachment" if len(doomed) == 1 else f"{len(doomed):,} attachments"
        confirm(f"Delete {attachments}?", yes=yes)
        for identifier in doomed:
            client.request("DELETE", f"attachments/{identifier}")
            err.print(f"{identifier} was deleted", highlight=False)


def _found(client: Client, identifier: str) -> Iterator[dict[str, Any]]:
    """Yield the attachment with this identifier, or the attachments of the message that has it. Raises Failure."""
    if attachment := _one(client, f"attachments/{identifier}"):
        if attachment["state"] == _DELETED:
            raise Failure(f"attachment {identifier} has already been deleted")
        yield attachment
    elif message := _one(client, f"messages/{identifier}"):
        there = [each for each in message["attachments"] if each["state"] not in (None, _DELETED)]
        if not there:
            raise Failure(f"message {identifier} has no attachment that could be deleted")
        yield from there
    elif _one(client, f"deliveries/{identifier}"):
        raise Failure(f"{identifier} is a delivery, which cannot be deleted", _KEPT)
    else:
        raise Failure(f"there is no attachment and no message with the identifier {identifier}")


def _one(client: Client, path: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = client.get(path)
    except Refused as refused:
        if refused.status != 404:
            raise
        return None
    return found
