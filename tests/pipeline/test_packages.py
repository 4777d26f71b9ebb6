"""Packages come to what the same results come to one by one."""

from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from adapters.object_store import ObjectStore
from adapters.sql_catalog import SqlCatalog
from app.model.attachment import AttachmentState
from app.model.records import AttachmentRecord, Checkpoint
from app.pipeline.commit import packages
from app.pipeline.commit.commit import CommittedBatch
from app.pipeline.commit.packages import Findings
from app.ports import Catalog, Packed
from app.testing.host_results import assert_same, in_folder, settings, tables
from tests.support.damaged_archive import Archive, Killed, die_after, objects
from tests.support.local_steps import committer_of, found_up_to, opened_run, run_batch

MOST_EVENTS = 10_000


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path)


@pytest.fixture(autouse=True)
def small_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "LEAST", 1)
    monkeypatch.setattr(packages, "AT_ONCE", 16)


def events(folder: Path) -> Counter[tuple[str, str, str]]:
    with closing(SqlCatalog(settings(folder).catalog_url)) as catalog:
        return Counter((each.type, each.subject, repr(each.data)) for each in catalog.events_after(0, MOST_EVENTS))


def one_by_one(archive: Archive, folder: Path, *, in_place: bool) -> CommittedBatch:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SqlCatalog, "packing", lambda _catalog: None)
        committed = run_batch(folder, archive.journal, in_place=in_place)
    assert committed is not None
    return committed


@pytest.mark.parametrize("in_place", [False, True])
def test_packages_come_to_the_same_as_results_one_by_one(archive: Archive, tmp_path: Path, in_place: bool) -> None:
    with opened_run(archive.out, archive.journal, in_place=in_place) as run:
        found = found_up_to(run, archive.numbers[-1], None)
        packaged = [*found.finished()]
        assert len(packaged) > 3
        assert sum(len(package.attachments) for package in packaged) >= 40
        assert sum(len(run.catalog.unpacked(rows).messages) for rows in found.messages()) > 10
        committed = committer_of(run).commit(found)
        assert all(each.complete_at for each in run.catalog.messages(None, None, 500).items)
    apart = one_by_one(archive, tmp_path / "apart", in_place=in_place)
    assert committed is not None
    assert committed._replace(began_at=0, ended_at=0, tables=()) == apart._replace(began_at=0, ended_at=0, tables=())
    assert sorted(committed.tables) == sorted(apart.tables)
    assert_same(in_folder(archive.out, archive.journal), in_folder(tmp_path / "apart", archive.journal), settled=True)
    assert tables(archive.out) == tables(tmp_path / "apart")
    assert events(archive.out) == events(tmp_path / "apart")


def keep_some(catalog: Catalog, found: Findings) -> list[str]:
    """Save attachments of some packages, as if a part of each had come before. Return their identifiers."""
    kept = []
    for package in [*found.finished()][::2]:
        (result,) = packages.finished_in(package, catalog, package.attachments[:1])
        assert result.record is not None
        catalog.checkpoint(Checkpoint(attachments=[receiving(result.record)]))
        kept.append(result.record.id)
    return kept


def receiving(record: AttachmentRecord) -> AttachmentRecord:
    return AttachmentRecord(record.id, record.source, record.correl_id, first_received_at=record.first_received_at)


def test_attachments_that_the_catalog_has_are_committed_one_by_one(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others stay in their packages."""
    left_out: set[str] = set()
    add_finished = SqlCatalog.add_finished

    def watched(catalog: SqlCatalog, packed: Sequence[Packed], now: int, without: Collection[str] = ()) -> bool:
        left_out.update(without)
        return add_finished(catalog, packed, now, without)

    monkeypatch.setattr(SqlCatalog, "add_finished", watched)
    with opened_run(archive.out, archive.journal) as run:
        found = found_up_to(run, archive.numbers[-1], None)
        known = keep_some(run.catalog, found)
        assert len(known) > 1
        assert committer_of(run).commit(found) is not None
        assert left_out == set(known)
    archive.assert_as_if_whole()


def test_what_is_deleted_before_a_killed_commit_is_repeated_stays_deleted(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        die_after(patched, SqlCatalog, "add_messages")
        with pytest.raises(Killed):
            run_batch(archive.out, archive.journal)
    with closing(SqlCatalog(settings(archive.out).catalog_url)) as catalog:
        deleted = next(event.subject for event in catalog.events_after(0, 9) if event.type == "attachment.finished")
        record = catalog.attachment(deleted)
        assert record is not None
        assert record.object_name in objects(archive.out)
        catalog.set_state([deleted], AttachmentState.DELETED)
        ObjectStore(settings(archive.out).content_url).delete(str(record.object_name))
    assert run_batch(archive.out, archive.journal) is not None
    with closing(SqlCatalog(settings(archive.out).catalog_url)) as catalog:
        again = catalog.attachment(deleted)
    assert again is not None
    assert again.state is AttachmentState.DELETED
    assert record.object_name not in objects(archive.out)
    assert set(events(archive.out).values()) == {1}
