"""Commands for receivers that share a journal: which there are, and having one leave, or forgetting it."""

from typing import Annotated

import typer
from rich.markup import escape

from app.cli.line_tables import ListColumn, ListTable, numbers, print_list
from app.cli.list_commands import Json
from app.cli.rest_client import DEFAULT_URL, Url, connect, located
from app.cli.terminal import err, print_json, time

receivers = typer.Typer(no_args_is_help=True, help="Show receivers that share a journal, have one leave, or forget it.")

Journal = Annotated[str, typer.Argument(metavar="JOURNAL", help="The identifier of its own journal.")]

_RECEIVERS = (
    ListColumn("Journal", least=32),
    ListColumn("Receiver", least=8),
    *numbers("Published"),
    ListColumn("Opened", order=2),
    ListColumn("Seen"),
    ListColumn("State", order=1),
)


@receivers.command("ls")
def list_receivers(*, as_json: Json = False, url: Url = DEFAULT_URL) -> None:
    """List the receivers that share a journal."""
    with connect(url) as client:
        found = client.get("receivers")["items"]
    if as_json:
        return print_json(found)
    grid = ListTable(_RECEIVERS)
    for item in found:
        times = time(item["opened_at"]), time(item["seen_at"])
        state = item["state"] if item["state"] == "receiving" else f"[yellow]{item['state']}[/]"
        grid.add_row(escape(item["id"]), escape(item["receiver"]), str(item["published"]), *times, state)
    print_list(grid, "no receivers share a journal")
    return None


@receivers.command()
def leave(journal: Journal, url: Url = DEFAULT_URL) -> None:
    """Have a receiver leave for good: it is listed until brokers keep nothing for it and all it has is published.

    For a receiver that is away, another one takes what brokers keep for it.
    """
    with connect(url) as client:
        client.request("POST", f"{located('receivers', journal)}/leave")
    err.print(f"the receiver with the journal {escape(journal)} leaves", highlight=False)


@receivers.command()
def forget(journal: Journal, url: Url = DEFAULT_URL) -> None:
    """Forget a receiver that does not come back, so that expiry no longer waits for it."""
    with connect(url) as client:
        client.request("DELETE", located("receivers", journal))
    err.print(f"the receiver with the journal {escape(journal)} is forgotten", highlight=False)
