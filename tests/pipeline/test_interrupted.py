"""A commit that was killed between tables and catalog is ended by what runs next, and nothing is in a table twice."""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from adapters.delta_tables import DeltaTables
from adapters.object_store import ObjectStore
from adapters.sql_catalog import SqlCatalog
from app.model.errors import CatalogError, GatewayError
from app.model.pipeline_run import PipelineRun, RunState
from app.pipeline.commit import commit, commit_intent, packages
from app.pipeline.commit.commit import Committer
from app.pipeline.run.batch import process, unfinished
from app.service.receipts.custody_statements import statement
from app.tables.quality import QUALITY
from app.testing.host_results import settings
from tests.support.damaged_archive import Archive, Killed, die_after
from tests.support.local_steps import LocalSteps, committer_of, found_up_to, opened_run, run_batch
from tests.support.receipts import assert_version_added


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path)


@pytest.fixture(autouse=True)
def results_in_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "LEAST", 1)


def stream(archive: Archive, *ends: int) -> None:
    """Commit micro-batches that end with these segments, as a stream without a checkpoint does."""
    with opened_run(archive.out, archive.journal) as run:
        for interrupted in unfinished(run):
            process(LocalSteps(), run, interrupted)
        committer = committer_of(run)
        for end in ends:
            committer.commit(found_up_to(run, end, committer.progress))


def recorded(archive: Archive) -> list[PipelineRun]:
    """The runs in the catalog, newest first."""
    with closing(SqlCatalog(settings(archive.out).catalog_url)) as catalog:
        return catalog.pipeline_runs(None, 9).items


def begin_receipts(archive: Archive) -> None:
    with closing(SqlCatalog(settings(archive.out).catalog_url)) as catalog:
        catalog.begin_receipt_log("urn:log")


def assert_receipts_name_the_versions_with_the_rows(archive: Archive) -> None:
    with closing(SqlCatalog(settings(archive.out).catalog_url)) as catalog:
        causes = catalog.receipt_causes(0, 10_000)[0]
        found = [(each, catalog.attachment(each.subject)) for each in causes]
    assert len(found) > 20
    for cause, record in found:
        assert record is not None
        assert record.kind is not None
        said = json.loads(statement(cause, None))
        assert_version_added(said, archive.out / "tables", record.kind.word, record.observations)


def batch(archive: Archive, *_ends: int) -> None:
    assert run_batch(archive.out, archive.journal) is not None


@pytest.mark.parametrize(
    ("owner", "name", "is_said", "follows"),
    [  # any two of the moment, of whether the intent is there, and of what follows
        (DeltaTables, "commit", True, stream),
        (DeltaTables, "commit", False, batch),
        (Committer, "_commit_tables", True, batch),
        (Committer, "_commit_tables", False, stream),
        (SqlCatalog, "add_finished", True, stream),
        (SqlCatalog, "add_finished", False, batch),
        (SqlCatalog, "add_messages", True, stream),
        (SqlCatalog, "add_messages", True, batch),
        (Committer, "_commit_catalog", True, stream),
        (Committer, "_commit_catalog", True, batch),
    ],
)
def test_a_killed_stream_leaves_nothing_twice(
    archive: Archive,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    owner: type,
    name: str,
    is_said: bool,
    follows: Callable[..., None],
) -> None:
    """Its checkpoint is gone and the archive has grown. The intent may be lost as well: the tables show it."""
    held = [archive.segment(number) for number in archive.numbers[8:]]
    for segment in held:
        segment.rename(tmp_path / segment.name)
    begin_receipts(archive)
    stream(archive, 4)
    with monkeypatch.context() as patched:
        die_after(patched, owner, name)
        with pytest.raises(Killed):
            stream(archive, 8)
    store = ObjectStore(settings(archive.out).content_url)
    said = commit_intent.begun(store)
    assert said is not None
    assert said.last_segment == 8
    if not is_said:
        commit_intent.end(store)
    for segment in held:
        (tmp_path / segment.name).rename(segment)
    follows(archive, 6, 9, archive.numbers[-1])
    assert commit_intent.begun(store) is None
    archive.assert_as_if_whole()
    assert_receipts_name_the_versions_with_the_rows(archive)


def test_tables_that_are_ahead_of_an_archive_are_named(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Committing anything else would be ignored by these tables. With the segments, all is well."""
    last = archive.segment(archive.numbers[-1])
    stream(archive, 4)
    with monkeypatch.context() as patched:
        die_after(patched, Committer, "_commit_tables")
        with pytest.raises(Killed):
            batch(archive)
    last.rename(tmp_path / "last")
    with pytest.raises(GatewayError, match="lacks these messages: put the missing segments back"):
        batch(archive)
    (tmp_path / "last").rename(last)
    batch(archive)
    archive.assert_as_if_whole()


def test_every_run_is_recorded_and_none_depends_on_it(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        die_after(patched, Committer, "_commit_tables")
        with pytest.raises(Killed):
            batch(archive)
    (failed,) = recorded(archive)
    assert (failed.kind, failed.state, failed.rows) == ("batch", RunState.FAILED, 0)
    assert (failed.error or "").startswith("Killed")
    done = run_batch(archive.out, archive.journal)
    assert done is not None
    (committed, old) = recorded(archive)
    assert old == failed
    assert (committed.state, committed.error) == (RunState.COMMITTED, None)
    assert (committed.attachments, committed.refused) == (done.finished, done.refused)
    assert (committed.messages, committed.rows) == (archive.messages, sum(each.rows for each in done.tables))
    assert failed.began_at <= (failed.ended_at or 0) <= committed.began_at < (committed.ended_at or 0)

    def refuse(*_: object) -> None:
        raise CatalogError("the disk is full")

    monkeypatch.setattr(SqlCatalog, "begin_run", refuse)
    monkeypatch.setattr(SqlCatalog, "end_run", refuse)
    with capture_logs() as logs:
        batch(archive)
    assert [each["event"] for each in logs].count("run_not_recorded") == 2
    assert len(recorded(archive)) == 2


def test_a_run_asks_the_table_of_quality_alone(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many tables there are. Without that table, all are asked."""
    batch(archive)
    store = DeltaTables(archive.out / "tables")
    assert len(store.names()) > 3
    asked: set[str] = set()

    def watch(name: str) -> None:
        method = getattr(DeltaTables, name)

        def watched(tables: DeltaTables, table: str, *given: object) -> object:
            asked.add(table)
            return method(tables, table, *given)

        monkeypatch.setattr(DeltaTables, name, watched)

    watch("reached")
    watch("applications")
    batch(archive)
    assert asked == {QUALITY}
    shutil.rmtree(archive.out / "tables" / QUALITY)
    batch(archive)
    assert asked == {QUALITY, *store.names()}


@pytest.mark.parametrize("name", ["checkpoints", "complete_messages"])
def test_a_killed_commit_of_results_one_by_one_leaves_nothing_twice(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Many transactions come before the last one, and those that wait for that one are taken some at a time."""
    monkeypatch.setattr(SqlCatalog, "packing", lambda _catalog: None)
    monkeypatch.setattr(commit, "AT_ONCE", 3)
    monkeypatch.setattr(commit, "WAITING_BYTES", 1)
    with monkeypatch.context() as patched:
        die_after(patched, SqlCatalog, name)
        with pytest.raises(Killed):
            batch(archive)
    batch(archive)
    archive.assert_as_if_whole()
    with closing(SqlCatalog(settings(archive.out).catalog_url)) as catalog:
        told = Counter((event.type, event.subject) for event in catalog.events_after(0, 10_000))
    assert {each for each, times in told.items() if times > 1} == set()
