"""Commands that list attachments, deliveries, the quarantine and the audit log."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.markup import escape

from app.cli.line_tables import IDENTIFIER, STATE, ListColumn, ListTable, print_list, without_zeros
from app.cli.rest_client import DEFAULT_URL, Url, connect, located
from app.cli.terminal import err, facts, out, print_json, size, state, table, time
from app.model.attachment import AttachmentState, DeliveryState

KindWord = StrEnum("KindWord", {"DATA_SET": "data-set", "TEXT_FILE": "text-file", "BINARY_FILE": "binary-file"})
QuarantineState = StrEnum("QuarantineState", {"KEPT": "kept", "REPLAYED": "replayed", "DISMISSED": "dismissed"})
KEPT = QuarantineState("kept")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object per line, in the format of REST.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of rows.")]

SUBSCRIBERS = {"none": "no subscribers", "unknown": "subscribers unknown"}
"""The words for `subscribers` of a delivery: whether its destination had any."""

_ATTACHMENTS = (
    IDENTIFIER,
    STATE,
    ListColumn("Kind", order=4),
    ListColumn("Name", least=12),
    ListColumn("Size", is_number=True, order=1),
    ListColumn("Source", least=6, order=5),
    ListColumn("Received", order=3),
    ListColumn("", least=12, order=2),
)
_DELIVERIES = (
    IDENTIFIER,
    STATE,
    ListColumn("Destination", least=8, order=1),
    ListColumn("Attachments", least=12),
    ListColumn("Messages", is_number=True),
    ListColumn("Attempts", is_number=True, order=4),
    ListColumn("Created", order=3),
    ListColumn("", least=12, order=2),
)
_QUARANTINE = (
    ListColumn("ID", shorten=without_zeros),
    ListColumn("State", order=5),
    ListColumn("Source", least=6, order=3),
    ListColumn("Code", order=1),
    ListColumn("Size", is_number=True, order=6),
    ListColumn("Received", order=4),
    ListColumn("Where", least=12, order=2),
    ListColumn("Why", least=16),
)

_SHOWN_APART = frozenset(("evidence", "warnings", "progress", "links", "files"))
"""The fields of an attachment that `show` does not print as lines of the table."""

quarantine = typer.Typer(no_args_is_help=True, help="List and handle messages that the gateway cannot read.")


def attachments(
    *,
    state_: Annotated[AttachmentState | None, typer.Option("--state", help="Only attachments in this state.")] = None,
    kind: Annotated[KindWord | None, typer.Option(help="Only attachments of this kind.")] = None,
    source: Annotated[str | None, typer.Option(help="Only attachments of this source.")] = None,
    name: Annotated[str | None, typer.Option(help="Only attachments with this in their name.")] = None,
    message: Annotated[str | None, typer.Option(help="Only attachments of the message with this identifier.")] = None,
    after: Annotated[str | None, typer.Option(help="Only attachments received after this time (RFC 3339).")] = None,
    before: Annotated[str | None, typer.Option(help="Only attachments received before this time.")] = None,
    unannounced: Annotated[
        bool,
        typer.Option(
            "--unannounced", help="Instead, list what waits for its header and belongs to no known attachment."
        ),
    ] = False,
    warned: Annotated[
        bool | None,
        typer.Option("--warned/--unwarned", help="Only attachments with warnings, or only attachments without."),
    ] = None,
    limit: Limit = 50,
    as_json: Json = False,
    url: Url = DEFAULT_URL,
) -> None:
    """List attachments, newest first."""
    with connect(url) as client:
        found = client.pages(
            "attachments",
            limit,
            state=state_,
            kind=kind,
            source=source,
            name=name,
            message=message,
            received_after=after,
            received_before=before,
            announced=not unannounced,
            warned=None if warned is None else str(warned).lower(),
        )
        if as_json:
            return print_json(found)
        print_list(attachment_list(found), "nothing waits for its header" if unannounced else "no attachments")
    return None


def show_attachment(
    identifier: Annotated[str, typer.Argument(metavar="ID")], *, as_json: Json = False, url: Url = DEFAULT_URL
) -> None:
    """Show one attachment, with its warnings and the evidence for choices between several readings."""
    with connect(url) as client:
        found = client.get(located("attachments", identifier))
    if as_json:
        return print_json([found])
    evidence, warnings = found["evidence"], found["warnings"]
    parts = _parts(found["progress"])
    values = {**found, "parts": parts, "requested": _requested(found.get("requested")), "reason": _why(found)}.items()
    shown = ((name, str(value)) for name, value in values if value not in (None, "") and name not in _SHOWN_APART)
    out.print(facts(shown))
    for warning in warnings:
        out.print(f"warning: {warning}", markup=False, highlight=False)
    if files := found["files"]:
        grid = table(">File", ">Offset", ">Size", ">Record length", ">Announced size")
        for number, file in enumerate(files, 1):
            places = (number, *(file[name] for name in ("offset", "size", "record_length", "announced_size")))
            grid.add_row(*(f"{place:,}" for place in places))
        out.print(grid)
    if evidence:
        grid = table("Question", "Reading", "Decided by", "Other readings")
        for choice in evidence:
            others = ", ".join(choice["others"]) or "-"
            grid.add_row(*map(escape, (choice["question"], choice["reading"], choice["ground"], others)))
        out.print(grid)
    return None


def attachment_list(items: Iterable[dict[str, Any]]) -> ListTable:
    """Return attachments of the REST interface as a list for people."""
    grid = ListTable(_ATTACHMENTS)
    for item in items:
        grid.add_row(
            item["id"],
            state(item["state"]),
            item["kind"] or "-",
            escape(item["name"]),
            size(item["progress"]["bytes_received"] if item["size"] is None else item["size"]),
            item["source"],
            time(item["first_received_at"]),
            escape(_remark(item)),
        )
    return grid


def deliveries(
    *,
    state_: Annotated[DeliveryState | None, typer.Option("--state", help="Only deliveries in this state.")] = None,
    destination: Annotated[str | None, typer.Option(help="Only deliveries to this destination.")] = None,
    limit: Limit = 50,
    as_json: Json = False,
    url: Url = DEFAULT_URL,
) -> None:
    """List deliveries, newest first."""
    with connect(url) as client:
        found = client.pages("deliveries", limit, state=state_, destination=destination)
        if as_json:
            return print_json(found)
        grid = ListTable(_DELIVERIES)
        for item in found:
            grid.add_row(
                item["id"],
                state(item["state"]),
                item["destination"],
                escape(", ".join(attachment["name"] for attachment in item["attachments"])),
                f"{item['messages_sent']}/{'?' if item['messages_total'] is None else item['messages_total']}",
                str(item["attempts"]),
                time(item["created_at"]),
                escape(item["reason"] or SUBSCRIBERS.get(item["subscribers"], "")),
            )
    print_list(grid, "no deliveries")
    return None


@quarantine.command("ls")
def quarantined(
    *,
    state_: Annotated[QuarantineState, typer.Option("--state", help="Only messages in this state.")] = KEPT,
    source: Annotated[str | None, typer.Option(help="Only messages of this source.")] = None,
    limit: Limit = 50,
    as_json: Json = False,
    url: Url = DEFAULT_URL,
) -> None:
    """List the quarantined messages, newest first."""
    with connect(url) as client:
        found = client.pages("quarantine", limit, state=state_, source=source)
        if as_json:
            return print_json(found)
        grid = ListTable(_QUARANTINE)
        for item in found:
            where = item["row"] if item["at"] is None else f"{item['row']} at byte {item['at']}"
            grid.add_row(
                item["id"],
                state(item["state"]),
                item["source"],
                item["code"],
                size(item["size"]),
                time(item["received_at"]),
                escape(where),
                escape(item["why"]),
            )
    print_list(grid, "quarantine is empty")
    return None


@quarantine.command()
def show(
    identifier: Annotated[str, typer.Argument(metavar="ID")], *, as_json: Json = False, url: Url = DEFAULT_URL
) -> None:
    """Show one entry with its first bytes."""
    with connect(url) as client:
        entry = client.get(located("quarantine", identifier))
    if as_json:
        return print_json([entry])
    preview = bytes.fromhex(entry.pop("preview") or "")
    entry.pop("links")
    out.print(facts((name, "-" if value is None else str(value)) for name, value in entry.items()))
    if preview:
        out.print()
    for at in range(0, len(preview), 16):
        piece = preview[at : at + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in piece)
        out.print(f"{at:6d}  {piece.hex(' '):47}  {text}", markup=False, highlight=False)
    return None


@quarantine.command()
def replay(identifier: Annotated[str, typer.Argument(metavar="ID")], url: Url = DEFAULT_URL) -> None:
    """Process a quarantined message again, e.g. after correcting the source's settings."""
    with connect(url) as client:
        outcome = client.request("POST", f"{located('quarantine', identifier)}/replay").json()["outcome"]
    lines = []
    if outcome["result"] == "pending":
        lines.append("written to the journal; it is not assembled yet")
    elif outcome["result"] == "quarantined":
        lines.append(f"quarantined again as {outcome['entry']['id']}: {outcome['entry']['why']}")
    elif not outcome["attachments"]:
        lines.append("processed; no attachment is known to which it belongs")
    for attachment in outcome["attachments"]:
        reason = attachment["reason"]
        text = f"is {attachment['state']}" + (f": {reason['text']}" if reason else "")
        if attachment["state"] == "receiving":
            expected = attachment["parts_expected"] or "an unknown number of"
            text = f"is waiting: {attachment['parts_received']} of {expected} parts have arrived"
        lines.append(f"attachment {attachment['id']} {attachment['name']} {text}".replace("  ", " "))
    for line in lines:
        err.print(line, markup=False, highlight=False)


@quarantine.command()
def dismiss(identifier: Annotated[str, typer.Argument(metavar="ID")], url: Url = DEFAULT_URL) -> None:
    """Mark an entry as not needed; its bytes are deleted later."""
    with connect(url) as client:
        client.request("DELETE", located("quarantine", identifier))
    err.print(f"{identifier} was dismissed")


def _remark(item: dict[str, Any]) -> str:
    if item["reason"]:
        return _why(item)
    progress = item["progress"]
    if item["state"] == "receiving":
        return f"{_parts(progress)} parts"
    count = item["warnings_count"]
    warned = "" if not count else "1 warning" if count == 1 else f"{count} warnings"
    about = f"{item['observations']:,} observations" if item["observations"] is not None else item["description"]
    return "; ".join(filter(None, (warned, about)))


def _why(item: dict[str, Any]) -> str:
    return str(item["reason"]["text"]) if item["reason"] else ""


def _parts(progress: dict[str, Any]) -> str:
    return f"{progress['parts_received']} of {progress['parts_expected'] or '?'}"


def _requested(asked: dict[str, Any] | None) -> str:
    if asked is None:
        return ""
    where = f"at {asked['address']}" if asked["address"] else "by an event"
    more = asked["ended"] or (f"again from {time(asked['next_at'])} on" if asked["next_at"] else "not asked again")
    times = "once" if asked["requests"] == 1 else f"{asked['requests']} times"
    return f"{asked['text']}: {times}, last {time(asked['asked_at'])} {where}; {more}"


AuditResult = StrEnum(
    "AuditResult", {"DONE": "done", "REFUSED": "refused", "FAILED": "failed", "ABANDONED": "abandoned"}
)

_RESULT_STYLES = {"refused": "red", "failed": "yellow", "abandoned": "yellow", "done": "default"}
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
    result: Annotated[AuditResult | None, typer.Option(help="Only entries with this result.")] = None,
    who: Annotated[str | None, typer.Option(help="Only entries of the principal with this name or identifier.")] = None,
    after: Annotated[str | None, typer.Option(help="Only entries from this time on (RFC 3339).")] = None,
    before: Annotated[str | None, typer.Option(help="Only entries before this time.")] = None,
    limit: Limit = 50,
    as_json: Json = False,
    url: Url = DEFAULT_URL,
) -> None:
    """List the entries of the audit log, newest first. Needs a key with the scope admin."""
    with connect(url) as client:
        found = client.pages("audit", limit, action=action, result=result, who=who, after=after, before=before)
        if as_json:
            return print_json(found)
        grid = ListTable(_ENTRIES)
        for entry in found:
            style = _RESULT_STYLES.get(entry["result"], "default")
            grid.add_row(
                time(entry["time"]),
                escape(entry["action"]),
                f"[{style}]{escape(entry['result'])}[/]",
                escape((entry["who"] or {}).get("name", "-")),
                escape(entry["from"] or "-"),
                str(entry["status"] or "-"),
                escape(entry["path"] or entry.get("key") or "-"),
                escape(entry["reason"] or ""),
            )
    print_list(grid, "no entries")
    return None
