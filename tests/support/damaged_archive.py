"""An archive for tests of damage and interruption, and what a pipeline must make of it."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from adapters.arrow_journal import ArrowJournal
from adapters.object_store import ObjectStore
from app.model.message import PhysicalMessage
from tests.support import mixed_journal
from tests.support.found import assert_same, in_folder, settings, tables
from tests.support.loads import messages, mixed, table
from tests.support.passes import run_batch
from tests.support.sas_client import Attached, Program, binary_file, data_set, disordered

SEGMENTS = 12


class Archive:
    """A journal of attachments of every kind, whose messages are spread over the segments, and the results for it.

    `sent` are the attachments with their sources, in this number of physical `messages`.
    """

    def __init__(self, folder: Path, random: Random | None = None, each: int = 6) -> None:
        self.journal, self.out, self.whole = folder / "journal", folder / "out", folder / "whole"
        random = random or Random(5)
        self.sent: list[tuple[str, Attached]] = []
        sent: list[PhysicalMessage] = []
        for source, program in mixed_journal.programs(random, numbered=False).items():
            made = attachments(program, each)
            self.sent += ((source, attached) for attached in made)
            its_own = disordered(messages(program, made), random)
            sent += (message._replace(source=source) for message in its_own)
        random.shuffle(sent)
        self.messages = len(sent)
        self.add(
            [one._replace(received_at=mixed_journal.BEGAN_AT + 1000 * at) for at, one in enumerate(sent)], SEGMENTS
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


def attachments(program: Program, count: int = 6) -> list[Attached]:
    """Return small attachments of every kind (`count`), tables of some messages, and a larger file."""
    sets = [data_set(program, "WORK", f"ROWS{at % 2}", table(program, 40 * at)) for at in range(1, 4)]
    large = binary_file(program, "large.bin", program.random.randbytes(150_000))
    return [*mixed(program, count), *sets, large]


def objects(folder: Path) -> set[str]:
    return set(ObjectStore(settings(folder).content_url).names())


class Killed(BaseException):
    """The end of the process at some moment: nothing that follows is done."""


def die_after(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
    """Let the process end after the first call of a method."""
    called = getattr(owner, name)

    def dying(*given: Any, **named: Any) -> None:
        called(*given, **named)
        raise Killed(name)

    monkeypatch.setattr(owner, name, dying)
