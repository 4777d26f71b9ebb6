"""Archives with damage and gaps: nothing wrong is finished, and what is put right is recovered by reprocessing.

The whole of a batch runs in this process, without Spark.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from adapters.arrow_journal import ArrowJournal
from adapters.arrow_journal.archive import ArrowArchive
from adapters.delta_tables import DeltaTables
from adapters.object_store import ObjectStore
from adapters.sql_catalog import SqlCatalog
from app.assembly.header_checks import Claim, claims
from app.model.errors import GatewayError
from app.model.message import Position
from app.model.records import DAMAGED_MESSAGE, DAMAGED_PART, QuarantineRecord
from app.pipeline.commit import packages
from app.pipeline.commit.commit import CommittedBatch, Committer
from app.pipeline.commit.commit_intent import IntendedBatch
from app.pipeline.commit.packages import Findings
from app.pipeline.finish import finish_outcomes
from app.pipeline.finish.finish_outcomes import Result
from app.pipeline.job.job import OpenRun
from app.pipeline.read.journal_archives import missing_segments, spoken
from app.pipeline.references import header_pass
from app.pipeline.run import batch, spark_steps
from app.pipeline.run.batch import ReprocessingScope
from app.service import context
from app.testing.host_results import assert_same, in_folder, settings, tables
from tests.support.damaged_archive import Archive, Killed, die_after, objects
from tests.support.kept import flip
from tests.support.local_steps import LocalSteps, committer_of, found_up_to, opened_run, run_batch

EVERYTHING = ReprocessingScope(1)


def quarantined(folder: Path) -> list[QuarantineRecord]:
    with closing(SqlCatalog(settings(folder).catalog_url)) as catalog:
        return sorted(catalog.quarantined(None, None, None, 500).items, key=lambda entry: entry.id)


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path)


def test_missing_segments_are_named_and_recovered_when_they_are_put_back(archive: Archive, tmp_path: Path) -> None:
    for number in (3, 7, 8):
        archive.segment(number).rename(tmp_path / str(number))
    committed = run_batch(archive.out, archive.journal)
    assert committed is not None
    assert committed.missing == ((3, 3), (7, 8))
    before = tables(archive.out), objects(archive.out)
    for number in (3, 7, 8):
        (tmp_path / str(number)).rename(archive.segment(number))
    again = run_batch(archive.out, archive.journal)
    assert again is not None
    assert again.was_known
    assert (tables(archive.out), objects(archive.out)) == before
    recovered = run_batch(archive.out, archive.journal, ReprocessingScope(3))
    assert recovered is not None
    assert (recovered.was_known, recovered.missing) == (False, ())
    assert recovered.finished > 3
    assert messages_in(committed) + messages_in(recovered) == archive.messages
    archive.assert_as_if_whole()
    after = tables(archive.out)
    unchanged = run_batch(archive.out, archive.journal, ReprocessingScope(3))
    assert unchanged is not None
    assert (unchanged.was_known, unchanged.finished, unchanged.tables) == (True, 0, ())
    assert messages_in(unchanged) == 0
    assert tables(archive.out) == after


def messages_in(committed: CommittedBatch) -> int:
    """The messages that the metrics count for a run."""
    return sum(each.messages for each in committed.received)


def test_gaps_are_those_between_present_segments_and_before_the_first() -> None:
    assert missing_segments([]) == ()
    assert missing_segments([1, 2, 3]) == ()
    assert missing_segments([7, 4, 3]) == ((1, 2), (5, 6))
    assert missing_segments([7, 4, 3], 4) == ((5, 6),)
    assert spoken(missing_segments([3, 5, 8])) == "1-2, 4, 6-7"


@pytest.mark.parametrize("place", ["body", "head"])
def test_one_damaged_bit_in_each_segment_finishes_nothing_wrong_and_is_recovered(archive: Archive, place: str) -> None:
    """A body costs its message, the head of a batch (here the last of its segment) the messages of the batch."""
    sound = {number: archive.segment(number).read_bytes() for number in archive.numbers}
    lost: dict[Position, str] = {}
    reader = ArrowArchive(archive.journal)
    for number, data in sound.items():
        sizes = reader.batch_sizes(number)
        batch = len(sizes) - 1
        bodies = [len(body) for body in reader.record_batch(number, batch)["body"].to_pylist()]
        row = bodies.index(max(bodies))
        where = f"journal segment {number}, batch {batch}"
        if place == "body":
            (extent,) = reader.extents([Position(number, batch, row)])
            lost[Position(number, batch, row)] = f"{where}, row {row}: the body fails its checksum"
            flip(archive.segment(number), extent.offset + extent.length // 2)
        else:
            lost[Position(number, batch, 0)] = f"{where}: the batch is lost"
            flip(archive.segment(number), len(data) - 8 - sizes[-1] + 300)
    committed = run_batch(archive.out, archive.journal)
    assert committed is not None
    assert committed.damaged == tuple(sound)
    entries = quarantined(archive.out)
    assert [Position.unpack(entry.position) for entry in entries] == list(lost)
    assert {entry.code for entry in entries} == {DAMAGED_MESSAGE}
    assert [entry.why for entry in entries] == list(lost.values())
    partly = in_folder(archive.out, archive.journal)
    assert {item["state"] for item in partly.attachments.values()} == {"finished", "receiving"}
    for number, data in sound.items():
        archive.segment(number).write_bytes(data)
    recovered = run_batch(archive.out, archive.journal, EVERYTHING)
    assert recovered is not None
    assert recovered.damaged == ()
    assert recovered.finished > 0
    assert {entry.state for entry in quarantined(archive.out)} == {"replayed"}
    archive.assert_as_if_whole()
    whole = in_folder(archive.out, archive.journal)
    finished = {key: item["sha256"] for key, item in partly.attachments.items() if item["state"] == "finished"}
    assert finished.items() <= {key: item["sha256"] for key, item in whole.attachments.items()}.items()


def all_checked(patched: pytest.MonkeyPatch) -> None:
    """Have batches compare all bodies with their checksums before assembly."""
    patched.setattr(batch, "process", partial(batch.process, checked=True))


@pytest.mark.parametrize("seed", range(4))
def test_bodies_that_are_read_once_come_to_what_bodies_checked_before_come_to(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """One body of each segment is damaged: of any message, and in the first round of one that comes twice."""
    reader = ArrowArchive(archive.journal)
    bodies: dict[Position, bytes] = {}
    for number in archive.numbers:
        for at in range(len(reader.batch_sizes(number))):
            rows = reader.record_batch(number, at)["body"].to_pylist()
            bodies |= {Position(number, at, row): body for row, body in enumerate(rows) if body}
    times = Counter(bodies.values())
    random = Random(seed)
    for number in archive.numbers:
        places = [place for place in bodies if place.segment == number]
        again = [place for place in places if times[bodies[place]] > 1]
        (extent,) = reader.extents([random.choice(again if again and not seed else places)])
        flip(archive.segment(number), extent.offset + random.randrange(extent.length))
    once = run_batch(tmp_path / "once", archive.journal)
    with monkeypatch.context() as patched:
        all_checked(patched)
        checked = run_batch(tmp_path / "checked", archive.journal)
    assert once is not None
    assert checked is not None
    assert once.damaged == checked.damaged == tuple(archive.numbers)
    assert_same(*(in_folder(tmp_path / name, archive.journal) for name in ("once", "checked")), settled=True)
    assert tables(tmp_path / "once") == tables(tmp_path / "checked")
    assert objects(tmp_path / "once") == objects(tmp_path / "checked")


def test_a_part_that_rots_before_it_is_finished_is_recovered(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """The references have been read from an undamaged segment; the attachment becomes quarantined."""
    sound = archive.segment(5).read_bytes()
    finish = finish_outcomes.finish

    def rotten(*given: Any, checked: bool) -> Iterator[Result]:
        at = sound.index(longest_body(archive, 5))
        flip(archive.segment(5), at + 1000)
        return finish(*given, checked=checked)

    with monkeypatch.context() as patched:
        all_checked(patched)
        patched.setattr(spark_steps, "finish", rotten)
        committed = run_batch(archive.out, archive.journal)
    assert committed is not None
    assert (committed.damaged, committed.refused) == ((5,), 1)
    assert [entry.code for entry in quarantined(archive.out)] == [DAMAGED_PART]
    archive.segment(5).write_bytes(sound)
    assert run_batch(archive.out, archive.journal, ReprocessingScope(5)) is not None
    archive.assert_as_if_whole()


def test_rows_that_were_removed_for_their_age_do_not_come_back(archive: Archive) -> None:
    assert run_batch(archive.out, archive.journal) is not None
    store = DeltaTables(settings(archive.out).tables_url)
    removed = 0
    for name in store.names():
        with suppress(KeyError):
            times = sorted(time for batch in store.rows(name, ["received_at"]) for time in batch.column(0).to_pylist())
            if times:
                removed += store.retain(name, round(times[len(times) // 2].timestamp() * 1e6) + 1)
    assert removed > 0
    kept = tables(archive.out)
    assert run_batch(archive.out, archive.journal, EVERYTHING) is not None
    assert tables(archive.out) == kept


def longest_body(archive: Archive, number: int) -> bytes:
    with closing(ArrowJournal(archive.journal)) as journal:
        found = [each for at, some in journal.replay(None) if at[0].segment == number for each in some]
    return bytes(max((each.body for each in found), key=len))


def misread(*given: Any) -> Iterator[Claim]:
    for claim in claims(*given):
        definition = claim.definition
        yield claim._replace(definition=replace(definition, qualifier_2=f"{definition.qualifier_2}X"))


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (packages, "held"),
        (DeltaTables, "replace"),
        (Committer, "_commit_tables"),
        (Committer, "_place"),
        (SqlCatalog, "checkpoints"),
        (SqlCatalog, "complete_messages"),
        (ObjectStore, "delete_all"),
    ],
)
def test_a_corrected_decoder_replaces_what_differs_exactly_once_whenever_it_is_killed(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, owner: object, name: str
) -> None:
    """Text files had other line ends, and data sets another name. The run after the killed one is an ordinary one, with
    one segment more."""
    last = archive.segment(archive.numbers[-1])
    last.rename(tmp_path / "last")
    with monkeypatch.context() as patched:
        patched.setattr(context, "in_charset", lambda text, *_: text.encode() * 2)
        patched.setattr(header_pass, "claims", misread)
        assert run_batch(archive.out, archive.journal) is not None
    with monkeypatch.context() as patched:
        die_after(patched, owner, name)
        with pytest.raises(Killed):
            run_batch(archive.out, archive.journal, EVERYTHING)
    (tmp_path / "last").rename(last)
    assert run_batch(archive.out, archive.journal) is not None
    archive.assert_as_if_whole()


class Overtaken(LocalSteps):
    """The first pass finds a damaged body. Meanwhile another driver commits the first segments."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    @contextmanager
    def assemble_and_finish(
        self, run: OpenRun, references: Any, headers: Any, batch: IntendedBatch, *, checked: bool
    ) -> Iterator[Findings]:
        with super().assemble_and_finish(run, references, headers, batch, checked=checked) as found:
            if not checked:
                with opened_run(self._archive.out, self._archive.journal) as other:
                    committer_of(other).commit(found_up_to(other, 4, None))
            yield found._replace(damaged=not checked)


def test_a_batch_that_reads_again_notices_another_driver(archive: Archive) -> None:
    with opened_run(archive.out, archive.journal) as run, pytest.raises(GatewayError, match="another process commits"):
        batch.run(Overtaken(archive), run)
    with closing(SqlCatalog(settings(archive.out).catalog_url)) as catalog:
        assert Position.unpack(catalog.progress() or 0).segment == 4
