"""`backup` and `restore`: copy all data of a gateway while it runs, and restore it into an empty place."""

import json
from pathlib import Path
from typing import Annotated

import typer

from app import plugins
from app.cli.command_files import require_folder
from app.cli.config_command import Config, read
from app.cli.line_tables import List, ListColumn, numbers
from app.cli.repair_commands import FOUND, Json, failures, shown
from app.cli.terminal import Failure, err, out, size
from app.model.errors import GatewayError
from app.ports import ContentStore

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

    Exit status: 0 everything is in the backup, 1 damaged or missing data is not (see fsck).
    """
    from app.service.repair.backup import back_up  # noqa: PLC0415 - a second of imports
    from app.service.repair.repair_stores import opened  # noqa: PLC0415

    with failures(FOUND), opened(read(path), write=False) as estate:
        if estate.catalog is None:
            why = estate.catalog_error or f"no catalog at {estate.database.place}"
            raise Failure(f"nothing was backed up: {why}")
        with shown() as progress:
            report = back_up(estate, _opened(to), progress, keep)
    if as_json:
        said = {name: getattr(report, name) for name in report.__dataclass_fields__}
        typer.echo(json.dumps(said))
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
    from app.service.repair.restoring_backup import restore as put_back  # noqa: PLC0415

    with failures(FOUND):
        require_folder(source)
        place = _opened(source)
        if ls:
            return _list(source, place, as_json=as_json)
        settings = read(path)
        if data is not None:
            settings = settings.model_copy(update={"data": data})
        with shown() as progress:
            restored = put_back(settings, place, backup_id, progress)
        manifest = backup_manifests.BACKUPS + restored.id
        counts = f"{restored.files:,} files, {size(restored.bytes)}"
        return out.print(f"{manifest}: {counts}; the journal goes on with epoch {restored.epoch}", highlight=False)


def _list(source: str, place: ContentStore, *, as_json: bool) -> None:
    from app.service.repair import backup_manifests  # noqa: PLC0415 - a second of imports

    grid = List((ListColumn("Backup"), *numbers("Files", "Size")))
    for each in backup_manifests.backups(place):
        _, files = backup_manifests.read(place, each)
        bytes_ = sum(file.size for file in files)
        if as_json:
            typer.echo(json.dumps({"id": each, "files": len(files), "bytes": bytes_}))
        grid.add_row(each, f"{len(files):,}", size(bytes_))
    if not grid.rows:
        raise Failure(f"there is no backup in {source}")
    if not as_json:
        out.print(grid)


def _opened(place: str) -> ContentStore:
    try:
        return plugins.content_store()(place)
    except ValueError as error:
        raise GatewayError(str(error)) from error
