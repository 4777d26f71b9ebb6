"""Parts of small attachments are read from the journal together, and one by one where one of them cannot be read."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

import pytest

from adapters.arrow_journal import ArrowJournal
from adapters.arrow_journal.archive import ArrowArchive
from app.model.errors import DamagedError
from app.model.message import PhysicalMessage, Position
from app.pipeline.finish.finish_outcomes import PartsAhead
from app.testing.host_results import in_folder
from tests.support import mixed_journal
from tests.support.loads import messages
from tests.support.local_steps import run_batch
from tests.support.sas_client import Program, binary_file, text_file


@pytest.fixture
def archive(tmp_path: Path) -> ArrowArchive:
    journal = ArrowJournal(tmp_path / "journal")
    journal.append([PhysicalMessage("s", "sas_queue", body=bytes([number]) * 10) for number in range(6)])
    journal.close()
    return ArrowArchive(tmp_path / "journal")


def at(*rows: int) -> list[Position]:
    return [Position(1, 0, row) for row in rows]


def test_held_bodies_are_not_read_again(archive: ArrowArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = PartsAhead(archive)
    ahead.hold(at(4, 1, 2))
    with monkeypatch.context() as patched:
        patched.setattr(archive, "bodies", None)
        assert [view[0] for view in ahead.bodies(at(2, 4, 1, 1))] == [2, 4, 1, 1]
    assert [view[0] for view in ahead.bodies(at(3, 2))] == [3, 2]


def test_if_a_body_cannot_be_read_the_others_still_can(archive: ArrowArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    read = archive.bodies

    def damaged(positions: Iterable[Position]) -> Iterator[memoryview]:
        for position in positions:
            if position.row == 3:
                raise DamagedError("the body fails its checksum")
            yield from read([position])

    monkeypatch.setattr(archive, "bodies", damaged)
    ahead = PartsAhead(archive)
    ahead.hold(at(2, 3, 4))
    assert [view[0] for view in ahead.bodies(at(4, 2))] == [4, 2]
    with pytest.raises(DamagedError):
        list(ahead.bodies(at(3)))
    ahead.hold([Position(9, 0, 0), *at(1)])
    assert [view[0] for view in ahead.bodies(at(1))] == [1]


def test_small_attachments_are_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(1)
    program = Program(random)
    made = [text_file(program, f"text {number}", b"a line\n" * random.randrange(3_000)) for number in range(50)]
    made.append(text_file(program, "large", b"one more line\n" * 50_000))
    made += [binary_file(program, f"file {number}", random.randbytes(random.randrange(20_000))) for number in range(50)]
    sent = [each._replace(source="s") for each in messages(program, made)]
    random.shuffle(sent)
    mixed_journal.write(tmp_path / "journal", sent)
    asked: list[int] = []
    read = ArrowArchive.bodies

    def counted(archive: ArrowArchive, positions: Iterable[Position]) -> Iterator[memoryview]:
        wanted = list(positions)
        asked.append(len(wanted))
        return read(archive, wanted)

    monkeypatch.setattr(ArrowArchive, "bodies", counted)
    assert run_batch(tmp_path / "out", tmp_path / "journal") is not None
    assert asked[0] == sum(len(each.bodies) for each in made[:50])
    assert len(asked) <= 5, "one for all small texts, the others for the large one, none for binary files"
    found = {
        item["correl_id"]: item["sha256"]
        for item in in_folder(tmp_path / "out", tmp_path / "journal").attachments.values()
    }
    assert found == {each.definition.correl_id: each.sha256 for each in made}
