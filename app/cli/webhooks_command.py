"""Commands for webhooks: their state, the events that were given up, and sending them again."""

from typing import Annotated

import typer
from rich.markup import escape

from app.cli.line_tables import STATE, ListColumn, ListTable, numbers, print_list
from app.cli.list_commands import Json, Limit
from app.cli.rest_client import DEFAULT_URL, Url, connect, located
from app.cli.terminal import err, print_json, state, time

webhooks = typer.Typer(no_args_is_help=True, help="Show webhooks, and send events again.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Its name in the settings.")]
Events = Annotated[
    list[int] | None, typer.Option("--event", "-e", min=1, help="Only this event (repeatable). Default: all.")
]

_WEBHOOKS = (
    ListColumn("Name", least=8),
    STATE,
    *numbers("Position", "Behind", "Dead letters"),
    ListColumn("URL", least=12, order=1),
    ListColumn("", least=12, order=2),
)
_DEAD_LETTERS = (
    *numbers("Event"),
    ListColumn("Type"),
    ListColumn("Subject", least=8),
    ListColumn("Given up", order=1),
    ListColumn("", least=12, order=2),
)


@webhooks.command("ls")
def list_webhooks(*, as_json: Json = False, url: Url = DEFAULT_URL) -> None:
    """List the configured webhooks."""
    with connect(url) as client:
        found = client.get("webhooks")["items"]
    if as_json:
        return print_json(found)
    grid = ListTable(_WEBHOOKS)
    for item in found:
        counts = (str(item[name]) for name in ("last_event", "behind", "dead_letters"))
        grid.add_row(
            escape(item["name"]), state(item["state"]), *counts, escape(item["url"]), escape(item["reason"] or "")
        )
    print_list(grid, "no webhooks")
    return None


@webhooks.command()
def dead(name: Name, *, limit: Limit = 50, as_json: Json = False, url: Url = DEFAULT_URL) -> None:
    """List the events that were given up for a webhook."""
    with connect(url) as client:
        found = list(client.pages(f"{located('webhooks', name)}/dead-letters", limit))
    if as_json:
        return print_json(found)
    grid = ListTable(_DEAD_LETTERS)
    for item in found:
        event = item["event"]
        why = "queued again" if item["queued_at"] else item["reason"]
        grid.add_row(str(item["number"]), event["type"], escape(event["subject"]), time(item["failed_at"]), escape(why))
    print_list(grid, "no dead letters")
    return None


@webhooks.command()
def replay(
    name: Name,
    *,
    events: Events = None,
    after: Annotated[
        int | None, typer.Option(min=0, help="Send all events of the log after this number, not dead letters.")
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Send dead letters, or all events after a number, again."""
    with connect(url) as client:
        if after is not None:
            client.request("POST", f"{located('webhooks', name)}/replay", json={"after": after})
            err.print(f"{name} gets the events after {after} again")
            return
        answer = client.request(
            "POST", f"{located('webhooks', name)}/dead-letters/replay", params={"event": events or []}
        )
    err.print(f"{answer.json()['dead_letters']} dead letters are sent again")


@webhooks.command()
def dismiss(name: Name, *, events: Events = None, url: Url = DEFAULT_URL) -> None:
    """Delete dead letters."""
    with connect(url) as client:
        answer = client.request("DELETE", f"{located('webhooks', name)}/dead-letters", params={"event": events or []})
    err.print(f"{answer.json()['dead_letters']} dead letters were deleted")


@webhooks.command()
def enable(name: Name, url: Url = DEFAULT_URL) -> None:
    """Send events to a webhook that disabled itself, or try one at once that is failing."""
    with connect(url) as client:
        client.request("POST", f"{located('webhooks', name)}/enable")
    err.print(f"{name} is active")
