"""Archives with damage and gaps: nothing wrong is finished, and what is put right is recovered by reprocessing.

The whole of a batch runs in this process, without Spark.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from adapters.arrow_journal import ArrowJournal
from adapters.delta_tables import DeltaTables
from adapters.object_store import ObjectStore
from adapters.sql_catalog import SqlCatalog
from app.assembly.headers import Claim, claims
from app.model.message import PhysicalMessage, Position
from app.model.records import DAMAGED_MESSAGE, DAMAGED_PART, QuarantineRecord
from app.pipeline import finishing, headers, steps
from app.pipeline.finishing import Result
from app.pipeline.gaps import missing_segments, spoken
from app.pipeline.reprocessing import Reprocessor
from app.pipeline.runs import Again
from app.service.finishing import files
from tests.support import mixed_journal
from tests.support.found import assert_same, in_folder, settings, tables
from tests.support.kept import flip
from tests.support.loads import messages, mixed, table
from tests.support.passes import LocalPasses, run_batch
from tests.support.sas_client import Attached, Program, binary_file, data_set, disordered

EVERYTHING = Again(1)
SEGMENTS = 12


class Archive:
    """A journal of attachments of every kind, whose messages are spread over the segments, and the results for it."""

    def __init__(self, folder: Path) -> None:
        self.journal, self.out, self.whole = folder / "journal", folder / "out", folder / "whole"
        random = Random(5)
        sent: list[PhysicalMessage] = []
        for source, program in mixed_journal.programs(random, numbered=False).items():
            its_own = disordered(messages(program, attachments(program)), random)
            sent += (each._replace(source=source) for each in its_own)
        random.shuffle(sent)
        self.add(
            [each._replace(received_at=mixed_journal.BEGAN_AT + 1000 * at) for at, each in enumerate(sent)], SEGMENTS
        )

    def add(self, sent: Sequence[PhysicalMessage], segments: int) -> None:
        size = len(sent) // segments + 1
        with closing(ArrowJournal(self.journal)) as journal:
            for start in range(0, len(sent), size):
                some = sent[start : start + size]
                for first in range(0, len(some), 9):
                    journal.append(some[first : first + 9])
                journal.seal()

    @property
    def numbers(self) -> list[int]:
        return sorted(int(path.name[:10]) for path in self.journal.glob("*.arrows"))

    def segment(self, number: int) -> Path:
        return self.journal / f"{number:010}.arrows"

    def run(self, again: Again | None = None) -> None:
        assert run_batch(self.out, self.journal, again) is not None

    def assert_as_if_whole(self) -> None:
        """Assert that catalog and tables are those of one batch over the archive as it is now."""
        self.whole = self.whole.with_name(self.whole.name + "_")
        assert run_batch(self.whole, self.journal) is not None
        mine, theirs = in_folder(self.out, self.journal), in_folder(self.whole, self.journal)
        healed = [entry for entry in mine.quarantine if entry.state == "replayed"]
        kept = [entry for entry in mine.quarantine if entry not in healed]
        assert_same(mine._replace(quarantine=kept), theirs, settled=True)
        mine_now, theirs_now = tables(self.out), tables(self.whole)
        assert {name: found for name, found in mine_now.items() if found[0] or name in theirs_now} == theirs_now
        assert sum(found[0] for name, found in theirs_now.items() if name.startswith("WORK.ROWS")) == 4 * 40 * 6
        assert objects(self.out) == objects(self.whole)


def attachments(program: Program) -> list[Attached]:
    """Return small attachments of every kind, and tables of some messages."""
    sets = [data_set(program, "WORK", f"ROWS{at % 2}", table(program, 40 * at)) for at in range(1, 4)]
    large = binary_file(program, "large.bin", program.random.randbytes(150_000))
    return [*mixed(program, 6), *sets, large]


def objects(folder: Path) -> set[str]:
    return set(ObjectStore(settings(folder).content_url).names())


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
    recovered = run_batch(archive.out, archive.journal, Again(3))
    assert recovered is not None
    assert (recovered.was_known, recovered.missing) == (False, ())
    assert recovered.finished > 3
    archive.assert_as_if_whole()
    after = tables(archive.out)
    unchanged = run_batch(archive.out, archive.journal, Again(3))
    assert unchanged is not None
    assert (unchanged.was_known, unchanged.finished, unchanged.tables) == (True, 0, ())
    assert tables(archive.out) == after


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
    for number, data in sound.items():
        with closing(ArrowJournal(archive.journal)) as journal:
            batches = [(positions, each) for positions, each in journal.replay(None) if positions[0].segment == number]
        positions, sent = batches[-1]
        row = max(range(len(sent)), key=lambda at: len(sent[at].body))
        at = data.index(bytes(sent[row].body))
        if place == "body":
            lost[positions[row]] = f"journal segment {number}, batch {positions[0].batch}, row {row}: the body fails"
            flip(archive.segment(number), at + len(sent[row].body) // 2)
        else:
            lost[positions[0]] = f"journal segment {number}, batch {positions[0].batch}: the batch is lost"
            flip(archive.segment(number), data[:at].rindex(b"\xff\xff\xff\xff") + 200)
    committed = run_batch(archive.out, archive.journal)
    assert committed is not None
    assert committed.damaged == tuple(sound)
    entries = quarantined(archive.out)
    assert [Position.unpack(entry.position) for entry in entries] == list(lost)
    assert {entry.code for entry in entries} == {DAMAGED_MESSAGE}
    assert all(entry.why.startswith(why) for entry, why in zip(entries, lost.values(), strict=True))
    partly = in_folder(archive.out, archive.journal)
    assert {item["state"] for item in partly.attachments.values()} == {"finished", "receiving"}
    for number, data in sound.items():
        archive.segment(number).write_bytes(data)
    recovered = run_batch(archive.out, archive.journal, EVERYTHING)
    assert recovered is not None
    assert recovered.damaged == ()
    assert recovered.finished == sum(item["state"] == "receiving" for item in partly.attachments.values())
    assert {entry.state for entry in quarantined(archive.out)} == {"replayed"}
    archive.assert_as_if_whole()
    whole = in_folder(archive.out, archive.journal)
    finished = {key: item["sha256"] for key, item in partly.attachments.items() if item["state"] == "finished"}
    assert finished.items() <= {key: item["sha256"] for key, item in whole.attachments.items()}.items()


def test_a_part_that_rots_before_it_is_finished_is_recovered(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """The references have been read from an undamaged segment; the attachment becomes quarantined."""
    sound = archive.segment(5).read_bytes()
    finish = finishing.finish

    def rotten(*given: Any) -> Iterator[Result]:
        at = sound.index(longest_body(archive, 5))
        flip(archive.segment(5), at + 1000)
        return finish(*given)

    with monkeypatch.context() as patched:
        patched.setattr(steps, "finish", rotten)
        committed = run_batch(archive.out, archive.journal)
    assert committed is not None
    assert (committed.damaged, committed.refused) == ((5,), 1)
    assert [entry.code for entry in quarantined(archive.out)] == [DAMAGED_PART]
    archive.segment(5).write_bytes(sound)
    assert run_batch(archive.out, archive.journal, Again(5)) is not None
    archive.assert_as_if_whole()


def longest_body(archive: Archive, number: int) -> bytes:
    with closing(ArrowJournal(archive.journal)) as journal:
        found = [each for at, some in journal.replay(None) if at[0].segment == number for each in some]
    return bytes(max((each.body for each in found), key=len))


class Killed(BaseException):
    """The end of the process at some moment: nothing that follows is done."""


def die_after(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
    """Let the process end after the first call of a method."""
    called = getattr(owner, name)

    def dying(*given: Any, **named: Any) -> None:
        called(*given, **named)
        raise Killed(name)

    monkeypatch.setattr(owner, name, dying)


def misread(*given: Any) -> Iterator[Claim]:
    for claim in claims(*given):
        definition = claim.definition
        yield claim._replace(definition=replace(definition, qualifier_2=f"{definition.qualifier_2}X"))


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (LocalPasses, "again"),
        (DeltaTables, "replace"),
        (Reprocessor, "_replace_tables"),
        (Reprocessor, "_place"),
        (SqlCatalog, "checkpoint"),
        (SqlCatalog, "complete_messages"),
        (ObjectStore, "delete_all"),
    ],
)
def test_a_corrected_decoder_replaces_what_differs_exactly_once_whenever_it_is_killed(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, owner: type, name: str
) -> None:
    """Text files had other line ends, and data sets another name. The run after the killed one is an ordinary one, with
    one segment more."""
    last = archive.segment(archive.numbers[-1])
    last.rename(tmp_path / "last")
    with monkeypatch.context() as patched:
        patched.setattr(files, "in_charset", lambda text, *_: text.encode() * 2)
        patched.setattr(headers, "claims", misread)
        assert run_batch(archive.out, archive.journal) is not None
    with monkeypatch.context() as patched:
        die_after(patched, owner, name)
        with pytest.raises(Killed):
            run_batch(archive.out, archive.journal, EVERYTHING)
    (tmp_path / "last").rename(last)
    assert run_batch(archive.out, archive.journal) is not None
    archive.assert_as_if_whole()
