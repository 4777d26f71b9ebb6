"""An archive for tests of damage and interruption, and what a pipeline must make of it."""

from collections.abc import Sequence
from contextlib import closing
from functools import cache
from hashlib import sha256
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest

from adapters.arrow_journal import ArrowJournal
from adapters.object_store import ObjectStore
from app.model.message import PhysicalMessage
from app.testing.host_results import HostResults, assert_same, in_folder, settings, tables
from tests.support import mixed_journal
from tests.support.loads import messages, mixed, table
from tests.support.local_steps import run_batch
from tests.support.sas_client import Attached, Program, binary_file, data_set, disordered

SEGMENTS = 12


class Results(NamedTuple):
    """What a pipeline has left in its folder."""

    found: HostResults
    tables: dict[str, tuple[int, str]]
    objects: set[str]


class Archive:
    """A journal of attachments of every kind, whose messages are spread over the segments, and the results for it.

    `sent` are the attachments with their sources, in this number of physical `messages`. Without a seeded `random` the
    archive is always the same, and is made only once.
    """

    def __init__(self, folder: Path, random: Random | None = None, each: int = 6) -> None:
        self.journal, self.out, self.whole = folder / "journal", folder / "out", folder / "whole"
        written = _default() if random is None else _written(random, each)
        self.sent, self.messages = written.sent, written.messages
        self.journal.mkdir()
        for name, data in written.files.items():
            (self.journal / name).write_bytes(data)

    @property
    def numbers(self) -> list[int]:
        return sorted(int(path.name[:10]) for path in self.journal.glob("*.arrows"))

    def segment(self, number: int) -> Path:
        return self.journal / f"{number:010}.arrows"

    def assert_as_if_whole(self) -> None:
        """Assert that catalog and tables are those of one batch over the archive as it is now."""
        whole = self._whole()
        mine = in_folder(self.out, self.journal)
        healed = [entry for entry in mine.quarantine if entry.state == "replayed"]
        kept = [entry for entry in mine.quarantine if entry not in healed]
        assert_same(mine._replace(quarantine=kept), whole.found, settled=True)
        mine_now = tables(self.out)
        assert {name: found for name, found in mine_now.items() if found[0] or name in whole.tables} == whole.tables
        assert sum(found[0] for name, found in whole.tables.items() if name.startswith("WORK.ROWS")) == 4 * 40 * 6
        assert objects(self.out) == whole.objects

    def _whole(self) -> Results:
        """Return the results of one batch. They depend on the segments alone, so the same ones are processed once."""
        segments = b"".join(sha256(self.segment(number).read_bytes()).digest() for number in self.numbers)
        if segments not in _WHOLE:
            with TemporaryDirectory() as folder:
                out = Path(folder)
                assert run_batch(out, self.journal) is not None
                _WHOLE[segments] = Results(in_folder(out, self.journal), tables(out), objects(out))
        return _WHOLE[segments]


_WHOLE: dict[bytes, Results] = {}
"""The results of one batch over an archive, by the checksums of its segments."""


class Written(NamedTuple):
    """The attachments of an archive with their sources, the number of their messages, and the files of the journal."""

    sent: list[tuple[str, Attached]]
    messages: int
    files: dict[str, bytes]


@cache
def _default() -> Written:
    return _written(Random(5), 6)


def _written(random: Random, each: int) -> Written:
    """Write `each` attachments of every kind and source, with their messages in random order."""
    sent: list[tuple[str, Attached]] = []
    shuffled: list[PhysicalMessage] = []
    for source, program in mixed_journal.programs(random, numbered=False).items():
        made = attachments(program, each)
        sent += ((source, attached) for attached in made)
        shuffled += (message._replace(source=source) for message in disordered(messages(program, made), random))
    random.shuffle(shuffled)
    timed = [one._replace(received_at=mixed_journal.BEGAN_AT + 1000 * at) for at, one in enumerate(shuffled)]
    with TemporaryDirectory() as folder:
        _write(Path(folder), timed)
        files = {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}
    return Written(sent, len(timed), files)


def _write(folder: Path, sent: Sequence[PhysicalMessage]) -> None:
    size = len(sent) // SEGMENTS + 1
    with closing(ArrowJournal(folder)) as journal:
        for start in range(0, len(sent), size):
            some = sent[start : start + size]
            for first in range(0, len(some), 9):
                journal.append(some[first : first + 9])
            journal.seal()


def attachments(program: Program, count: int = 6) -> list[Attached]:
    """Return small attachments of every kind (`count`), tables of some messages, and a larger file."""
    sets = [data_set(program, "WORK", f"ROWS{at % 2}", table(program, 40 * at)) for at in range(1, 4)]
    large = binary_file(program, "large.bin", program.random.randbytes(150_000))
    return [*mixed(program, count), *sets, large]


def objects(folder: Path) -> set[str]:
    return set(ObjectStore(settings(folder).content_url).names())


class Killed(BaseException):
    """The end of the process at some moment: nothing that follows is done."""


def die_after(monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> None:
    """Let the process end after the first call of a method, or of a function of a module."""
    called = getattr(owner, name)

    def dying(*given: Any, **named: Any) -> None:
        called(*given, **named)
        raise Killed(name)

    monkeypatch.setattr(owner, name, dying)
