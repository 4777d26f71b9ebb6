"""A folder of a gateway, and `fsck` and `rebuild` over it."""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from app.service.content.settling import Settler
from app.service.repair.recorder import Recorder
from tests.cli.conftest import Result, Run
from tests.support.kept import SOURCE, Kept, assemble
from tests.support.loads import messages
from tests.support.sas_client import binary_file

Damage = Callable[[Kept, list[str]], None]


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path / "data")


class Fsck:
    """The command over a folder."""

    def __init__(self, run: Run, kept: Kept, capsys: pytest.CaptureFixture[str]) -> None:
        self._run, self._kept, self._capsys = run, kept, capsys

    def check(self) -> Counter[str]:
        result = self.command()
        found = self.found(result)
        assert result.code == (1 if found else 0), result
        return found

    def repair(self) -> Result:
        return self.command("--repair", "--yes")

    def rebuild(self) -> Result:
        return self._run("rebuild", "--config", self._kept.configuration, "--yes")

    @staticmethod
    def found(result: Result) -> Counter[str]:
        said = [json.loads(line) for line in result.out.splitlines()]
        for each in said:
            assert all(each.get(key) for key in ("what", "where", "cost", "repair")) or "repaired" in each
        return Counter(each["kind"] for each in said if "what" in each)

    def command(self, *more: str) -> Result:
        self._capsys.readouterr()  # what the test itself has logged
        return self._run("fsck", "--config", self._kept.configuration, "--json", *more)


@pytest.fixture
def fsck(run: Run, kept: Kept, capsys: pytest.CaptureFixture[str]) -> Fsck:
    return Fsck(run, kept, capsys)


def in_catalog(kept: Kept, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(kept.folder / "catalog.sqlite")) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(statement, values)
        connection.commit()


def lose(kept: Kept) -> None:
    for path in kept.folder.glob("catalog.sqlite*"):
        path.unlink()


def receive_one_by_one(kept: Kept, count: int, *, settled: int) -> list[str]:
    """So many finished attachments, each in a segment of its own, of which the first are settled."""
    ids = []
    for number in range(count):
        attached = binary_file(kept.program, f"{number}", kept.program.random.randbytes(60_000))
        sent = messages(kept.program, [attached])
        with kept.context() as context:
            context.journal.append([m._replace(source=SOURCE, received_at=kept.clock.now()) for m in sent])
            context.journal.seal()
            assemble(context)
            kept.clock.advance(60)
            if number < settled:
                Settler(context).settle()
            Recorder(context.catalog, context.store).record()
        ids.append(kept.remember(attached))
        kept.messages[ids[-1]] = sent
    return ids
