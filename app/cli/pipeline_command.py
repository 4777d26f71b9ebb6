"""`pipeline`: assembly and tables on Spark."""

import json
import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import gettempdir
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from app import plugins
from app.cli import tables_command
from app.cli.config_command import Config, read
from app.cli.demo_command import demo as gateway_demo
from app.cli.line_tables import IDENTIFIER, STATE, ListColumn, ListTable, numbers, print_list
from app.cli.list_commands import Json, Limit
from app.cli.rest_client import DEFAULT_URL, Url, connect
from app.cli.terminal import FAILED, Failure, err, out, print_json, state, time
from app.model.errors import GatewayError
from app.model.times import to_microseconds
from app.observe import configure_logging, logger
from app.pipeline.read.journal_archives import spoken
from app.service.threads import collect_seldom
from app.settings import CatalogSettings, ContentSettings, Settings, TableSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from app.pipeline.commit.commit import CommittedBatch
    from app.pipeline.job.job import OpenRun
    from app.pipeline.job.spark_session import SparkSettings
    from app.pipeline.run.batch import ReprocessingScope
    from app.pipeline.watch.expectation_checks import Violation
    from app.pipeline.watch.run_monitor import RunReport

Master = Annotated[
    str | None, typer.Option(help="Spark master: local[*] (default; all cores), local[2], spark://…, k8s://….")
]
Memory = Annotated[str | None, typer.Option(help="Java heap of Spark on this machine, such as 2g.")]
Partitions = Annotated[int | None, typer.Option(min=1, help="Number of tasks of a shuffle.")]
Conf = Annotated[
    list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark; may be repeated.")
]

_JAVA_END_SECONDS = 2.0
"""Maximum time that a Java process takes to end after it closed its connections."""


def spark_settings(
    master: str | None, memory: str | None, partitions: int | None, conf: list[str] | None, *, brief: bool = False
) -> "SparkSettings":
    """Return the settings of a command's options, `brief` for one that ends after one batch.

    Raises Failure for a setting that is not KEY=VALUE.
    """
    from app.pipeline.job.spark_session import BRIEF_JAVA, SparkSettings, pairs  # noqa: PLC0415

    options = BRIEF_JAVA if brief else ""
    try:
        return SparkSettings(master, memory, partitions, java_options=options, conf=pairs(conf or []))
    except ValueError as error:
        raise Failure(str(error)) from error


@contextmanager
def spark_session(chosen: "SparkSettings", settings: Settings) -> Iterator["SparkSession"]:
    """Provide a Spark session for the block. A session that is started here ends with the block.

    Errors that people can correct become a Failure, and so do Spark's, with the file that has their traceback.
    """
    from app.pipeline.job.spark_session import active, is_connected, session  # noqa: PLC0415 - Spark is an extra, and slow to import

    try:
        found = active()
    except GatewayError as error:
        raise Failure(str(error)) from error
    from py4j.protocol import Py4JError, Py4JJavaError  # noqa: PLC0415
    from pyspark.errors import PySparkException  # noqa: PLC0415

    from app.pipeline.job import jvm, spark_failures  # noqa: PLC0415

    spark = None
    places = {"the checkpoint": settings.pipeline_checkpoint}
    try:
        if (spark := found) is None:
            spark = session("attachment-gateway", chosen)
            collect_seldom()
        if not is_connected(spark):
            places["Spark's temporary files"] = spark.sparkContext.getConf().get("spark.local.dir") or gettempdir()
        yield spark
    except GatewayError as error:
        raise Failure(*spark_failures.explain(error, None, places)) from error
    except (PySparkException, Py4JError, OSError, EOFError) as error:
        is_answer = isinstance(error, PySparkException | Py4JJavaError)
        ended = jvm.ended(0 if is_answer else _JAVA_END_SECONDS)
        if ended is None and not isinstance(error, PySparkException | Py4JError):
            raise
        why, hint = spark_failures.explain(error, ended, places)
        written = spark_failures.keep_traceback(error, ended, settings.data)
        where = "" if written is None else f"The whole traceback is in {written}"
        raise Failure(f"Spark failed: {why}", "\n".join(filter(None, (hint, where)))) from error
    finally:
        if spark is not None and found is None:
            with suppress(Py4JError, OSError):  # its Java may be gone
                spark.stop()


_MOST_SHOWN = 20
_LAST_EVENTS_SECONDS = 10
_TIMES = ["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"]
EXPECTATION = 4
"""Exit status of a run whose quality violates an expectation."""
_WHEN_SEALED = "a gateway seals its journal when it ends, and by size and age"

_RUNS = (
    IDENTIFIER,
    STATE,
    ListColumn("Kind", order=4),
    ListColumn("Began"),
    *numbers("Took", "Messages", "Attachments"),
    ListColumn("Refused", is_number=True, order=2),
    ListColumn("Quarantined", is_number=True, order=3),
    *numbers("Rows"),
    ListColumn("", least=12, order=1),
)

MakeTables = Annotated[
    bool, typer.Option("--tables/--no-tables", help="Whether to write data sets and files to tables.")
]

log = logger(__name__)

pipeline = typer.Typer(no_args_is_help=True, help="Assemble whole journals and write tables, on Apache Spark.")


@pipeline.command()
def batch(
    archives: Annotated[
        list[str],
        typer.Argument(
            metavar="ARCHIVE...",
            help="Folder or URL of sealed segments. Several are archives of several journals, in any order.",
        ),
    ],
    *,
    path: Config = None,
    to: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for content, catalog and tables. Default: as configured."),
    ] = None,
    in_place: Annotated[
        bool,
        typer.Option("--in-place", help="Leave the content of binary files in the journal; the journal must be kept."),
    ] = False,
    tables: MakeTables = True,
    until: Annotated[
        datetime | None,
        typer.Option(
            formats=_TIMES, metavar="TIME", help="Stop at the first segment that was begun at this time or later (UTC)."
        ),
    ] = None,
    again_from: Annotated[
        int | None,
        typer.Option(min=1, metavar="SEGMENT", help="Process messages from this segment on again, and commit changes."),
    ] = None,
    since: Annotated[
        datetime | None,
        typer.Option(formats=_TIMES, metavar="TIME", help="Process messages received since then again (UTC)."),
    ] = None,
    source: Annotated[str | None, typer.Option(help="Process only messages of this source again.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as one JSON object.")] = False,
    master: Master = None,
    memory: Memory = None,
    partitions: Partitions = None,
    conf: Conf = None,
) -> None:
    """Assemble and decode all new messages of an archive of segments, and write tables.

    A run reads the segments behind the last one that was committed. It commits each time that it has read the
    setting pipeline.commit_bytes.

    Parts of an attachment may be spread over several archives, each of a journal of its own. Name all of them in each
    run; a later run may name more.

    With --again-from, --since or --source, messages that were processed before are processed again, e.g. after missing
    or damaged segments were replaced. Exit status: 0 all is processed, 1 some messages are damaged, or the run failed,
    4 the quality violates an expectation.
    """
    from app.pipeline.run.batch import ReprocessingScope  # noqa: PLC0415

    settings = _settings(path, to)
    again = None
    if again_from is not None or since is not None or source is not None:
        if until is not None:
            raise Failure("--until limits new messages", "run messages again without --until")
        again = ReprocessingScope(again_from, None if since is None else to_microseconds(since), source)
    with spark_session(spark_settings(master, memory, partitions, conf, brief=True), settings) as spark:
        committed, report, violations = _run_batch(
            spark,
            settings,
            archives,
            in_place=in_place,
            tables=tables,
            again=again,
            until=None if until is None else to_microseconds(until),
        )
    if committed is None:
        raise Failure(f"no sealed segment in {', '.join(archives)}", _WHEN_SEALED)
    if as_json:
        report_json = _as_json(committed, report) | {"violations": [each._asdict() for each in violations]}
        typer.echo(json.dumps(report_json, indent=2, ensure_ascii=False))
    else:
        _show(committed, report)
    _show_unsealed(archives)
    _show_damage(committed)
    _require(violations)
    if committed.damaged:
        raise typer.Exit(FAILED)


@pipeline.command()
def stream(
    *,
    path: Config = None,
    journal: Annotated[
        str | None, typer.Option(help="Folder or URL of sealed segments. Default: the gateway's journal.")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="End when all segments that are sealed now have been processed.")
    ] = False,
    tables: MakeTables = True,
    master: Master = None,
    memory: Memory = None,
    partitions: Partitions = None,
    conf: Conf = None,
) -> None:
    """Assemble attachments while the gateway seals its journal (its setting: assembler = "spark")."""
    settings = _settings(path, None)
    if journal is None and settings.assembler != "spark":
        hint = 'set assembler = "spark" in the configuration of both, or name an archive with --journal'
        raise Failure("the gateway of this configuration assembles attachments itself", hint)
    place = journal or settings.journal.archive_url or str(settings.journal_folder.absolute())
    chosen = spark_settings(master, memory, partitions or settings.pipeline.partitions, conf)
    if chosen.connect is not None:
        hint = "Use spark://… or k8s://…, or run `pipeline batch` again and again."
        raise Failure("a stream does not run on Spark Connect, because it commits in this process", hint)
    with spark_session(chosen, settings) as spark:
        _run_stream(spark, settings, place, in_place=journal is None, once=once, tables=tables)


@pipeline.command("ls")
def list_runs(*, limit: Limit = 20, as_json: Json = False, url: Url = DEFAULT_URL) -> None:
    """List the runs that the gateway's catalog has a record of, newest first."""
    with connect(url) as client:
        found = client.pages("pipeline/runs", limit)
        if as_json:
            return print_json(found)
        grid = ListTable(_RUNS)
        for run in found:
            took = "-" if run["seconds"] is None else f"{run['seconds']:,.1f} s"
            counts = (
                f"{run[name]:,}" for name in ("messages", "attachment_count", "refused", "quarantined", "row_count")
            )
            grid.add_row(
                run["id"],
                state(run["state"]),
                run["kind"],
                time(run["began_at"]),
                took,
                *counts,
                escape(run["error"] or ""),
            )
    print_list(grid, "no runs")
    return None


@pipeline.command()
def demo(*, master: Master = None, memory: Memory = None) -> None:
    """Run the gateway's demo, assemble its journal again with Spark, and show the tables."""
    with tempfile.TemporaryDirectory(prefix="attachment-gateway-") as folder:
        gateway_demo(once=True, data=Path(folder) / "gateway")
        out.print("\n[bold]the same journal, on Spark[/]\n")
        settings = Settings(data=Path(folder) / "pipeline")
        configure_logging(settings.log.level, settings.log.format)
        with spark_session(spark_settings(master, memory, None, None, brief=True), settings) as spark:
            journal = str(Path(folder) / "gateway" / "journal")
            committed, report, _ = _run_batch(spark, settings, [journal], in_place=False, tables=True)
        if committed is None:
            raise Failure("the demo left no sealed segment", _WHEN_SEALED)
        _show(committed, report)
        place = settings.tables_url
        out.print("\n[bold]tables[/]\n")
        tables_command.ls(place=place)
        for name in sorted(each.table for each in committed.tables):
            out.print(f"\n[bold]{escape(name)}[/]\n", highlight=False)
            tables_command.head(name, rows=5, place=place)


# --- running ----------------------------------------------------------------------------------------------------------


def _settings(path: Path | None, to: Path | None) -> Settings:
    settings = read(path, transports=False)
    configure_logging(settings.log.level, settings.log.format)
    if to is None:
        return settings
    own = {"data": to, "catalog": CatalogSettings(), "content": ContentSettings(), "tables": TableSettings()}
    return settings.model_copy(update=own)


def _run_batch(
    spark: "SparkSession",
    settings: Settings,
    archives: Sequence[str],
    *,
    in_place: bool,
    tables: bool,
    again: "ReprocessingScope | None" = None,
    until: int | None = None,
) -> tuple["CommittedBatch | None", "RunReport", "list[Violation]"]:
    from app.main import SystemClock  # noqa: PLC0415
    from app.pipeline.job.job import Job, open_run  # noqa: PLC0415
    from app.pipeline.run import batch  # noqa: PLC0415
    from app.pipeline.run.spark_steps import SparkSteps  # noqa: PLC0415
    from app.pipeline.watch.progress_bars import progress  # noqa: PLC0415
    from app.pipeline.watch.run_monitor import monitored, report  # noqa: PLC0415

    job = Job.of(settings, *archives, in_place=in_place, tables=tables)
    clock = SystemClock()
    with closing(plugins.catalog()(settings.catalog_url)) as catalog:
        run = open_run(job, catalog, clock)
        with monitored(run, "batch", settings.pipeline) as monitor:
            started = clock.monotonic()
            with progress(spark, "assembling", err):
                committed = batch.run(SparkSteps(spark), run, again, until=until)
            if committed is not None:
                monitor.metrics.took(clock.monotonic() - started, {})
                monitor.committed(committed)
                _show_files(run, committed)
            return committed, report(catalog, run.archive), monitor.violations


def _run_stream(
    spark: "SparkSession", settings: Settings, journal: str, *, in_place: bool, once: bool, tables: bool
) -> None:
    from app.main import SystemClock  # noqa: PLC0415
    from app.pipeline.job.job import Job, open_run  # noqa: PLC0415
    from app.pipeline.run.streaming import run_until, start  # noqa: PLC0415
    from app.pipeline.watch.pipeline_metrics import StreamProgressListener  # noqa: PLC0415
    from app.pipeline.watch.run_monitor import monitored  # noqa: PLC0415

    ending = Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda *_: ending.set())
    job, clock = Job.of(settings, journal, in_place=in_place, tables=tables), SystemClock()
    with (
        closing(plugins.catalog()(settings.catalog_url)) as catalog,
        monitored(run := open_run(job, catalog, clock), "stream", settings.pipeline) as monitor,
    ):
        listener = StreamProgressListener(monitor.metrics)
        spark.streams.addListener(listener)
        begin = partial(
            start,
            spark,
            run,
            checkpoint=settings.pipeline_checkpoint,
            bytes_per_trigger=settings.pipeline.bytes_per_trigger,
            every=None if once else settings.pipeline.trigger.total_seconds(),
            watch=lambda _number, _results, committed: monitor.committed(committed),
        )
        log.info("assembly_started", journal=journal, spark=spark.version)
        run_until(lambda: ending.is_set() or bool(monitor.failures), begin)
        listener.ended.wait(_LAST_EVENTS_SECONDS)
        spark.streams.removeListener(listener)
        _require(monitor.failures)


def _require(violations: "list[Violation]") -> None:
    """Show violated expectations. Raises Failure if one of them is to end the run."""
    for each in violations:
        if not each.is_failure:
            err.print(escape(str(each)), style="yellow", highlight=False)
    if failed := [str(each) for each in violations if each.is_failure]:
        hint = "What was received is committed; pipeline.expectations of the configuration has the limits."
        raise Failure("\n".join(["the quality is not as expected:", *failed]), hint, EXPECTATION)


# --- showing ----------------------------------------------------------------------------------------------------------


def _show(committed: "CommittedBatch", report: "RunReport") -> None:
    states = ", ".join(f"{count:,} {state}" for state, count in report.states.items())
    out.print(f"attachments   {states or 'none'}", highlight=False)
    if report.unannounced:
        out.print(f"unannounced   {report.unannounced:,} waiting for a header", highlight=False)
    out.print(f"messages      {committed.duplicates:,} duplicates, {committed.conflicts:,} conflicts", highlight=False)
    reasons = ", ".join(f"{count:,} {escape(code)}" for code, count in report.reasons.items())
    out.print(f"quarantine    {reasons or 'empty'}", highlight=False)
    if committed.was_known:
        out.print("no change: all of it had been processed before", style="dim")
    if report.incomplete:
        grid = ListTable(
            (IDENTIFIER, ListColumn("Name", least=12), *numbers("Parts", "Expected"), ListColumn("Missing", least=8))
        )
        for record, missing in report.incomplete[:_MOST_SHOWN]:
            expected = "-" if record.parts_expected is None else f"{record.parts_expected:,}"
            received, gaps = f"{record.parts_received:,}", spoken(missing) or "unknown"
            grid.add_row(record.id, escape(record.qualifier_2), received, expected, gaps)
        out.print()
        out.print(grid)
        if len(report.incomplete) > _MOST_SHOWN:
            out.print(f"and {len(report.incomplete) - _MOST_SHOWN:,} more", style="dim")
    for each in committed.tables:
        for warning in each.warnings:
            err.print(f"{escape(each.table)}: {escape(warning)}", style="yellow", highlight=False)


def _show_unsealed(archives: Sequence[str]) -> None:
    """Print on standard error which segments were left out, since a gateway still writes them."""
    for place in archives:
        if (unsealed := plugins.archive()(place).open_segment()) is not None:
            sentence = f"segment {unsealed.number} of {escape(place)} is still written, and comes with a later run"
            err.print(f"{sentence}: {_WHEN_SEALED}", style="yellow", soft_wrap=True)


def _show_damage(committed: "CommittedBatch") -> None:
    """Print on standard error what could not be read, and how to recover it."""
    hint = "put {} back and run the same command with --again-from {}"
    if committed.missing:
        sentence = f"missing segments: {spoken(committed.missing)} (deleted by retention, or lost)"
        err.print(f"{sentence}; if they were lost, {hint.format('them', committed.missing[0][0])}", style="yellow")
    if committed.damaged:
        sentence = f"damaged segments: {spoken([(each, each) for each in committed.damaged])} (see the quarantine)"
        err.print(f"{sentence}; {hint.format('undamaged copies', committed.damaged[0])}", style="red")


def _show_files(run: "OpenRun", committed: "CommittedBatch") -> None:
    """Print on standard error which files of several archives are damaged or missing: no archive has their numbers."""
    if run.job.combined is None:
        return
    named = [*committed.damaged, *chain.from_iterable(range(first, last + 1) for first, last in committed.missing)]
    for number in named[:_MOST_SHOWN]:
        err.print(f"segment {number} is {escape(run.archive.path(number))}", highlight=False, soft_wrap=True)


def _as_json(committed: "CommittedBatch", report: "RunReport") -> dict[str, Any]:
    return {
        "attachments": report.states,
        "unannounced": report.unannounced,
        "incomplete": [
            {
                "id": record.id,
                "source": record.source,
                "name": record.qualifier_2,
                "parts_received": record.parts_received,
                "parts_expected": record.parts_expected,
                "missing": missing,
            }
            for record, missing in report.incomplete
        ],
        "quarantine": report.reasons,
        "duplicates": committed.duplicates,
        "conflicts": committed.conflicts,
        "tables": [each._asdict() for each in committed.tables],
        "known_before": committed.was_known,
        "missing_segments": committed.missing,
        "damaged_segments": committed.damaged,
    }
