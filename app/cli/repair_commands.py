"""`fsck`, `rebuild`, `backup` and `restore`: check, repair and back up the data of a gateway."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.progress import Progress, TaskID, TimeRemainingColumn

from app.cli.config_command import Config, read
from app.cli.terminal import Failure, Json, Yes, bars, confirm, err, out, table
from app.model.data_formats import NewerFormat
from app.model.errors import GatewayError
from app.observe import configure_logging

if TYPE_CHECKING:
    from app.service.repair.finding_kinds import Finding
    from app.service.repair.repairs import RepairOutcome
from pathlib import Path

from app import plugins
from app.cli.command_files import require_folder
from app.cli.line_tables import ListColumn, ListTable, numbers
from app.cli.terminal import size
from app.ports import ContentStore

FOUND, UNCHECKED = 1, 2
_PASSES = 3
_SHOWN = 20
"""Maximum number of differences of one kind that are listed; the JSON has all."""


def fsck(
    path: Config = None,
    *,
    repair: Annotated[
        bool, typer.Option("--repair", help="Show a plan, ask, and repair. Stop the gateway first.")
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Check journal, catalog, content and tables against each other, and every byte against its digest.

    Exit status: 0 nothing found (or all repaired), 1 differences are left, 2 something could not be checked.
    """
    with failures(UNCHECKED):
        findings, unchecked = _repaired(path, yes, as_json) if repair else _checked(path, as_json)
    for why in unchecked:
        err.print(why, style="yellow", markup=False, highlight=False)
    if findings:
        raise typer.Exit(FOUND)
    if unchecked:
        raise typer.Exit(UNCHECKED)
    if not as_json:
        err.print("no differences were found", style="green")


def rebuild(path: Config = None, *, yes: Yes = False) -> None:
    """Make a new catalog from the journal, the content store and the old catalog, if that is intact.

    Stop the gateway first.
    """
    from app.service.repair.rebuilding import rebuild as rebuild_catalog  # noqa: PLC0415
    from app.service.repair.repair_stores import opened  # noqa: PLC0415 - a second of imports

    settings = read(path, code=UNCHECKED)
    configure_logging(settings.log.level, settings.log.format)
    if not settings.data.exists() and not settings.journal_folder.exists():
        raise Failure(f"nothing to rebuild from: no folder {settings.journal_folder}", code=UNCHECKED)
    with failures(UNCHECKED), opened(settings, write=True) as stores:
        if stores.database.exists():
            confirm(f"The catalog {stores.database.place} will be set aside, and a new one made.", yes=yes)
        with shown() as progress:
            rebuilt = rebuild_catalog(stores, progress)
    counts = f"{rebuilt.recorded:,} rows from the records, {rebuilt.replayed:,} messages from the journal"
    out.print(f"{counts}, {rebuilt.finished:,} attachments finished, {rebuilt.lost:,} lost", highlight=False)
    if rebuilt.orphaned:
        out.print(f"{rebuilt.orphaned:,} objects belong to no known attachment", highlight=False)
    if rebuilt.aside:
        out.print(f"the old catalog: {rebuilt.aside}", markup=False, highlight=False)
    for name, count in rebuilt.unsent.items():
        sentence = (
            f"webhook {name} missed the last events of the old catalog, at most {count:,}; it receives only new events"
        )
        err.print(escape(sentence), style="yellow", highlight=False)
    if rebuilt.lost:
        raise typer.Exit(FOUND)


def _checked(path: Config, as_json: bool) -> "tuple[Sequence[Finding], Sequence[str]]":
    from app.service.repair.consistency_check import checked  # noqa: PLC0415 - a second of imports
    from app.service.repair.repair_stores import opened  # noqa: PLC0415

    settings = read(path, code=UNCHECKED)
    configure_logging("warning", settings.log.format)
    with opened(settings, write=False) as stores, shown() as progress:
        found = checked(stores, progress)
    _list(found.findings, as_json)
    return found


def _repaired(path: Config, yes: bool, as_json: bool) -> "tuple[Sequence[Finding], Sequence[str]]":
    """Repair and check again, since a repair may reveal more. Return the remaining findings."""
    from app.service.repair.consistency_check import checked  # noqa: PLC0415 - a second of imports
    from app.service.repair.repair_stores import opened  # noqa: PLC0415
    from app.service.repair.repairs import plan  # noqa: PLC0415
    from app.service.repair.repairs import repair as repair_findings  # noqa: PLC0415

    settings = read(path, code=UNCHECKED)
    configure_logging("warning", settings.log.format)
    failed: dict[Finding, None] = {}
    unchecked: Sequence[str] = ()
    for _ in range(_PASSES):
        with opened(settings, write=True) as stores:
            with shown() as progress:
                findings, unchecked = checked(stores, progress)
            new = [finding for finding in findings if finding not in failed]
            planned = plan(new)
            if not planned:
                _list(new, as_json)
                return [*failed, *new], unchecked
            grid = table("Plan", ">Differences")
            for action, alike in planned.items():
                _list(alike, as_json)
                grid.add_row(action.value, f"{len(alike):,}")
            if not as_json:
                out.print(grid)
            confirm("Repair?", yes=yes)
            with shown() as progress:
                outcomes = repair_findings(stores, planned, progress)
        _show_outcomes(outcomes, as_json)
        failed |= {outcome.finding: None for outcome in outcomes if not outcome.done}
    return [*failed], unchecked


def _list(findings: "Sequence[Finding]", as_json: bool) -> None:
    if as_json:
        for finding in findings:
            typer.echo(json.dumps(finding.as_json()))
        return
    by_kind = Counter(finding.kind for finding in findings)
    for kind, count in by_kind.items():
        alike = [finding for finding in findings if finding.kind == kind]
        known = alike[0].known
        out.print(f"[bold red]{kind}[/]  {count:,}: {escape(known.what)}")
        out.print(f"  cost    {escape(known.cost)}", style="dim")
        out.print(f"  repair  {escape(known.repair)}", style="dim")
        for finding in alike[:_SHOWN]:
            detail = f": {finding.detail}" if finding.detail else ""
            out.print(f"  {escape(finding.where)}{escape(detail)}", highlight=False)
        if count > _SHOWN:
            out.print(f"  and {count - _SHOWN:,} more; --json lists all", style="dim")


def _show_outcomes(outcomes: "Sequence[RepairOutcome]", as_json: bool) -> None:
    if as_json:
        for outcome in outcomes:
            result: dict[str, Any] = {"kind": outcome.finding.kind, "subject": outcome.finding.subject}
            typer.echo(json.dumps(result | {"repaired": outcome.done, "note": outcome.note}))
        return
    done = sum(outcome.done for outcome in outcomes)
    out.print(f"repaired {done:,} of {len(outcomes):,}", highlight=False)
    for outcome in outcomes:
        if outcome.note:
            style = "green" if outcome.done else "yellow"
            out.print(f"  {outcome.finding.where}: {outcome.note}", style=style, markup=False, highlight=False)


class _Shown:
    """Progress of work, shown as a bar."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID | None = None

    def begin(self, work: str, total: int | None) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(work, total=total)

    def advance(self, amount: int) -> None:
        if self._task is not None:
            self._progress.advance(self._task, amount)


@contextmanager
def shown() -> Iterator["_Shown"]:
    """Show the progress of long work if standard error is a terminal."""
    with bars(TimeRemainingColumn) as progress:
        yield _Shown(progress)


@contextmanager
def failures(code: int) -> Iterator[None]:
    """Convert the errors of the block to a sentence and an exit status."""
    try:
        yield
    except (GatewayError, OSError) as error:
        raise Failure(str(error), code=code) from error


Place = Annotated[str, typer.Option("--to", help="Folder or URL (s3://, gs://, az://) of the backups.")]
From = Annotated[str, typer.Option("--from", help="Folder or URL of the backups.")]


def backup(
    to: Place,
    path: Config = None,
    *,
    keep: Annotated[int | None, typer.Option(min=1, help="Keep this many backups, and delete older ones.")] = None,
    as_json: Json = False,
) -> None:
    """Copy journal, catalog, content and tables while the gateway runs.

    Files that are already in the backup are not copied again.

    Receivers that share a journal publish what they have before. Exit status: 0 everything is in the backup, 1 damaged
    or missing data is not (see fsck), or the last messages of a receiver that does not answer, 2 nothing was backed up.
    """
    from app.service.repair.backup import back_up  # noqa: PLC0415 - a second of imports
    from app.service.repair.repair_stores import opened  # noqa: PLC0415

    with failures(UNCHECKED), opened(read(path, code=UNCHECKED), write=False) as stores:
        if stores.catalog is None:
            why = stores.catalog_error or f"no catalog at {stores.database.place}"
            raise Failure(f"nothing was backed up: {why}", code=UNCHECKED)
        with shown() as progress:
            report = back_up(stores, _store_of(to), progress, keep)
    if as_json:
        result = {name: getattr(report, name) for name in report.__dataclass_fields__}
        typer.echo(json.dumps(result))
    else:
        copied = f"{report.copied_files:,} copied ({size(report.copied_bytes)})"
        out.print(f"{report.id}  {report.files:,} files, {size(report.bytes)}; {copied}", highlight=False)
    for problem in report.problems:
        err.print(problem, style="yellow", markup=False, highlight=False)
    if report.problems:
        raise typer.Exit(FOUND)


def restore(
    source: From,
    path: Config = None,
    *,
    data: Annotated[Path | None, typer.Option("--data", help="Data folder to restore into.")] = None,
    backup_id: Annotated[
        str | None, typer.Option("--backup", help="Identifier of the backup. Default: the newest.")
    ] = None,
    ls: Annotated[bool, typer.Option("--list", help="List the backups; restore nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --list: print JSON, one object per line.")] = False,
) -> None:
    """Restore a backup into an empty place and compare every byte with its digest.

    Stop the old gateway for good first.
    """
    from app.service.repair import backup_manifests  # noqa: PLC0415 - a second of imports
    from app.service.repair.restoring_backup import restore as restore_backup  # noqa: PLC0415

    with failures(FOUND):
        require_folder(source)
        place = _store_of(source)
        if ls:
            _list_backups(source, place, as_json=as_json)
            return
        settings = read(path)
        if data is not None:
            settings = settings.model_copy(update={"data": data})
        with shown() as progress:
            restored = restore_backup(settings, place, backup_id, progress)
        manifest = backup_manifests.BACKUPS + restored.id
        counts = f"{restored.files:,} files, {size(restored.bytes)}"
        out.print(f"{manifest}: {counts}; the journal continues with epoch {restored.epoch}", highlight=False)
        for each in restored.receivers:
            sentence = (
                f"receiver {each.receiver} is expected back with its data folder, and nothing expires until then; if "
                f"that is lost: attachment-gateway receivers forget {each.id}"
            )
            err.print(escape(sentence), style="yellow", highlight=False)


def _list_backups(source: str, place: ContentStore, *, as_json: bool) -> None:
    from app.service.repair import backup_manifests  # noqa: PLC0415 - a second of imports

    grid = ListTable((ListColumn("Backup"), *numbers("Files", "Size")))
    for each in backup_manifests.backups(place):
        try:
            _, files = backup_manifests.read(place, each)
        except NewerFormat as error:
            err.print(str(error), style="yellow", markup=False, highlight=False)
            continue
        bytes_ = sum(file.size for file in files)
        if as_json:
            typer.echo(json.dumps({"id": each, "files": len(files), "bytes": bytes_}))
        grid.add_row(each, f"{len(files):,}", size(bytes_))
    if not grid.rows:
        raise Failure(f"there is no backup in {source} that this version can restore")
    if not as_json:
        out.print(grid)


def _store_of(place: str) -> ContentStore:
    try:
        return plugins.content_store()(place)
    except ValueError as error:
        raise GatewayError(str(error)) from error
