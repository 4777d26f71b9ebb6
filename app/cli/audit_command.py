"""`audit`: list what clients did, and what they were refused."""

import json
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.markup import escape

from app.cli.line_tables import List, ListColumn
from app.cli.list_commands import Json, Limit
from app.cli.rest_client import DEFAULT_URL, Url, connect
from app.cli.terminal import err, out, time

Result = StrEnum("Result", {"DONE": "done", "REFUSED": "refused", "FAILED": "failed", "ABANDONED": "abandoned"})

_STYLES = {"refused": "red", "failed": "yellow", "abandoned": "yellow", "done": "default"}
_ENTRIES = (
    ListColumn("Time"),
    ListColumn("Action"),
    ListColumn("Result"),
    ListColumn("Who", least=8),
    ListColumn("From", order=2),
    ListColumn("Status", is_number=True, order=3),
    ListColumn("Path", least=16),
    ListColumn("Reason", least=16, order=1),
)


def audit(
    *,
    action: Annotated[str | None, typer.Option(help="Only this action, such as sign-in, send or delete.")] = None,
    result: Annotated[Result | None, typer.Option(help="Only those with this result.")] = None,
    who: Annotated[str | None, typer.Option(help="Only those of the principal with this name or identifier.")] = None,
    after: Annotated[str | None, typer.Option(help="Only those from this time on (RFC 3339).")] = None,
    before: Annotated[str | None, typer.Option(help="Only those before this time.")] = None,
    limit: Limit = 50,
    as_json: Json = False,
    url: Url = DEFAULT_URL,
) -> None:
    """List the entries of the audit log, newest first. Needs a key with the scope admin."""
    with connect(url) as client:
        found = client.pages("audit", limit, action=action, result=result, who=who, after=after, before=before)
        if as_json:
            for entry in found:
                typer.echo(json.dumps(entry, ensure_ascii=False))
            return
        grid = List(_ENTRIES)
        for entry in found:
            grid.add_row(*_cells(entry))
    if grid.rows:
        out.print(grid)
    else:
        err.print("no entries", style="dim")


def _cells(entry: dict[str, Any]) -> tuple[str, ...]:
    who, result = entry["who"] or {}, entry["result"]
    return (
        time(entry["time"]),
        escape(entry["action"]),
        f"[{_STYLES.get(result, 'default')}]{escape(result)}[/]",
        escape(who.get("name", "-")),
        escape(entry["from"] or "-"),
        str(entry["status"] or "-"),
        escape(entry["path"] or entry.get("key") or "-"),
        escape(entry["reason"] or ""),
    )
