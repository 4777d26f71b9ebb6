"""Batches over new segments alone come to what one batch over all of the archive comes to."""

from collections.abc import Container
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from adapters.arrow_journal import ArrowJournal
from adapters.delta_tables import DeltaTables
from adapters.sql_catalog import SqlCatalog
from app.model.message import PhysicalMessage
from app.pipeline.commit import commit, packages
from app.pipeline.commit.commit import Committer
from app.pipeline.job.job import OpenRun
from app.pipeline.read.segment_shares import Rows
from app.pipeline.run import batch
from app.testing.host_results import assert_same, in_folder, settings, tables
from tests.support import mixed_journal
from tests.support.damaged_archive import Killed, die_after
from tests.support.length import IS_LONG
from tests.support.local_steps import LocalSteps, opened_run, run_batch
from tests.support.sas_client import Program, binary_file, message

KILLED_AFTER = (
    (DeltaTables, "commit"),
    (Committer, "_commit_tables"),
    (SqlCatalog, "add_finished"),
    (Committer, "_take"),
    (Committer, "_commit_catalog"),
)


class Counting(LocalSteps):
    """Steps that note which segments they read."""

    def __init__(self) -> None:
        self.read: list[int] = []

    def _read(self, run: OpenRun, numbers: Container[int], read: Rows) -> list[pa.RecordBatch]:
        self.read += [segment.number for segment in run.archive.segments() if segment.number in numbers]
        return super()._read(run, numbers, read)


def write(folder: Path, sent: list[PhysicalMessage], random: Random) -> list[int]:
    """Write messages in batches of any size to many segments, and return their numbers."""
    with closing(ArrowJournal(folder)) as journal:
        rest = [each._replace(received_at=mixed_journal.BEGAN_AT + 1000 * at) for at, each in enumerate(sent)]
        while rest:
            size = random.choice((1, 5, 20))
            journal.append(rest[:size])
            rest = rest[size:]
            if random.random() < 0.4:
                journal.seal()
        journal.seal()
        return [segment.number for segment in journal.segments() if segment.sealed_at is not None]


def run_bounded(folder: Path, journal: Path, steps: LocalSteps, *, until: int | None = None) -> None:
    """Run a batch that commits after each segment."""
    with opened_run(folder, journal) as run:
        batch.run(steps, replace(run, job=replace(run.job, commit_bytes=1)), until=until)


@pytest.mark.parametrize("seed", range(20 if IS_LONG else 1))
def test_bounded_batches_come_to_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """They are killed now and then, at any step of a commit."""
    monkeypatch.setattr(packages, "LEAST", 1)
    monkeypatch.setattr(commit, "AT_ONCE", 3)
    random = Random(seed)
    journal, whole, bounded = (tmp_path / name for name in ("journal", "whole", "bounded"))
    sent = mixed_journal.traffic(random, 8, 60_000)
    count = len(sent)
    assert len(write(journal, sent, random)) > 10
    assert run_batch(whole, journal) is not None
    killed = 0
    for place, (owner, name) in enumerate(KILLED_AFTER, 1):
        try:
            with monkeypatch.context() as patched:
                die_after(patched, owner, name)
                run_bounded(bounded, journal, LocalSteps())
        except Killed:
            killed += 1
        until = mixed_journal.BEGAN_AT + 1000 * place * count // (len(KILLED_AFTER) + 1)
        run_bounded(bounded, journal, LocalSteps(), until=until)
    assert killed > 2
    steps = Counting()
    run_bounded(bounded, journal, steps)
    assert steps.read
    assert_same(in_folder(bounded, journal), in_folder(whole, journal), settled=True)
    assert tables(bounded) == tables(whole)
    with opened_run(bounded, journal) as run:
        again = batch.run(LocalSteps(), run)
    assert again is not None
    assert again.was_known


def test_a_batch_reads_new_segments_and_those_of_what_comes_again(tmp_path: Path) -> None:
    """Of an attachment that is open, nothing is read again. One that is finished is compared."""
    program = Program(Random(5))
    journal, grown, whole = (tmp_path / name for name in ("journal", "grown", "whole"))
    first, late, *others = (
        [
            each._replace(source="s")
            for each in message(program, [binary_file(program, f"{name}.bin", name.encode() * 99)])
        ]
        for name in ("first", "late", "a", "b", "c")
    )
    changed = [each._replace(body=bytes(each.body).replace(b"first", b"other")) for each in first]
    assert changed != first
    batches = [first, late[:2], *others, late[2:], changed, first]
    read: list[list[int]] = []
    for number, sent in enumerate(batches, 1):
        with closing(ArrowJournal(journal)) as opened:
            opened.append([each._replace(received_at=mixed_journal.BEGAN_AT + number) for each in sent])
            opened.seal()
        steps = Counting()
        with opened_run(grown, journal) as run:
            batch.run(steps, run)
        read.append(steps.read)
    assert read == [[1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 6], [6, 7, 1], [7, 8, 1, 2]]
    assert run_batch(whole, journal) is not None
    assert_same(in_folder(grown, journal), in_folder(whole, journal), settled=True)
    assert tables(grown) == tables(whole)
    with closing(SqlCatalog(settings(grown).catalog_url)) as catalog:
        assert catalog.counts()["quarantine"]["kept"] == 2, "the header and the part that differ"
