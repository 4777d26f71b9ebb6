"""Archives with damage and gaps: nothing wrong is finished, and what is put right is recovered by reprocessing.

The whole of a batch runs in this process, without Spark.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from adapters.arrow_journal import ArrowJournal
from adapters.object_store import ObjectStore
from adapters.sql_catalog import SqlCatalog
from app.model.attachment import AttachmentState
from app.model.errors import GatewayError
from app.model.message import PhysicalMessage, Position
from app.model.records import DAMAGED_MESSAGE, QuarantineRecord
from app.pipeline import intent
from app.pipeline.runs import Again
from tests.support import mixed_journal
from tests.support.found import assert_same, in_folder, settings, tables
from tests.support.kept import flip
from tests.support.loads import messages, mixed
from tests.support.passes import run_batch
from tests.support.sas_client import disordered

EVERYTHING = Again(1)
SEGMENTS = 12
BEGAN_AT, TEN_MINUTES = mixed_journal.BEGAN_AT, 600_000_000


class Archive:
    """A journal of attachments of every kind, whose messages are spread over the segments, and the results for it."""

    def __init__(self, folder: Path) -> None:
        self.journal, self.out, self.whole = folder / "journal", folder / "out", folder / "whole"
        random = Random(5)
        sent: list[PhysicalMessage] = []
        for source, program in mixed_journal.programs(random).items():
            its_own = disordered(messages(program, mixed(program, 8)), random)
            sent += (each._replace(source=source) for each in its_own)
        random.shuffle(sent)
        self.add([each._replace(received_at=BEGAN_AT + TEN_MINUTES * at) for at, each in enumerate(sent)], SEGMENTS)

    def add(self, sent: Sequence[PhysicalMessage], segments: int) -> None:
        size = -(-len(sent) // segments)
        with closing(ArrowJournal(self.journal)) as journal:
            for start in range(0, len(sent), size):
                some = sent[start : start + size]
                for first in range(0, len(some), 9):
                    journal.append(some[first : first + 9])
                journal.seal()

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
        assert tables(self.out) == tables(self.whole)
        assert objects(self.out) == objects(self.whole)
        assert all(entry.code == DAMAGED_MESSAGE for entry in healed)


def objects(folder: Path) -> set[str]:
    return set(ObjectStore(settings(folder).content_url).names())


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path)


def test_missing_segments_are_named_and_recovered_when_they_are_put_back(archive: Archive, tmp_path: Path) -> None:
    for number in (3, 7, 8):
        archive.segment(number).rename(tmp_path / str(number))
    committed = run_batch(archive.out, archive.journal)
    assert committed is not None
    assert committed.missing == ((3, 3), (7, 8))
    archive.assert_as_if_whole()
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
