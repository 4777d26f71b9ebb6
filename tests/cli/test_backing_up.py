"""`backup` and `restore`: all that was acknowledged comes back, once, in another place."""

import json
import shutil
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pytest

from app.model.attachment import AttachmentState
from app.model.records import NewEvent
from app.service.access import audit
from app.service.access.audit import append, opened_files
from app.service.repair.content_check import Measure, measure
from app.testing.outgoing_files import FILES, delivery
from tests.cli.conftest import Run
from tests.support.built import Built
from tests.support.kept import SOURCE, Kept, assemble, flip
from tests.support.loads import messages
from tests.support.sas_client import binary_file
from tests.support.tables import field


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path / "data")


class Backups:
    """The commands over a gateway's folder and a place of backups."""

    def __init__(self, run: Run, kept: Kept, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._run, self._kept, self.place, self._capsys = run, kept, place, capsys

    def back_up(self, *more: object, code: int = 0) -> dict[str, object]:
        self._capsys.readouterr()
        result = self._run("backup", "--config", self._kept.configuration, "--to", self.place, "--json", *more)
        assert result.code == code, result
        said: dict[str, object] = json.loads(result.out) if result.out else {"error": result.err}
        return said

    def restore(self, folder: Path, *more: object, code: int = 0) -> Kept:
        result = self._run("restore", "--from", self.place, "--data", folder, *more)
        assert result.code == code, result
        restored = Kept(folder)
        restored.sent = dict(self._kept.sent)
        restored.clock = self._kept.clock
        return restored

    def ids(self) -> list[str]:
        return sorted(path.name.removesuffix(".jsonl.gz") for path in (self.place / "backups").iterdir())

    def error(self, *arguments: object) -> str:
        result = self._run(*arguments)
        assert result.code == 1
        return result.err


@pytest.fixture
def backups(run: Run, kept: Kept, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Backups:
    return Backups(run, kept, tmp_path / "backups", capsys)


def assert_sound(run: Run, kept: Kept) -> None:
    result = run("fsck", "--config", kept.configuration)
    assert result.code == 0, result


@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("retired", [True, False])
def test_what_was_backed_up_is_served_from_another_place(
    kept: Kept, backups: Backups, tmp_path: Path, run: Run, settled: bool, retired: bool
) -> None:
    kept.receive(9, settled=settled, retired=retired)
    kept.receive(3)
    said = backups.back_up()
    assert said["problems"] == []
    shutil.rmtree(kept.folder)
    restored = backups.restore(tmp_path / "elsewhere")
    restored.assert_served()
    assert_sound(run, restored)


def test_what_is_journalled_and_not_assembled_is_in_the_backup(
    kept: Kept, backups: Backups, tmp_path: Path, run: Run
) -> None:
    """Even where a gateway is writing the segment, which has not been sealed."""
    kept.receive(3)
    attached = binary_file(kept.program, "open.bin", kept.program.random.randbytes(100_000))
    with kept.context() as context:
        context.journal.append(
            [m._replace(source=SOURCE, received_at=kept.clock.now()) for m in messages(kept.program, [attached])]
        )
        backups.back_up()
    restored = backups.restore(tmp_path / "elsewhere")
    with restored.context() as context:
        assemble(context)
    restored.remember(attached)
    restored.assert_served()
    assert_sound(run, restored)


def test_only_what_is_new_is_copied_again(kept: Kept, backups: Backups, tmp_path: Path) -> None:
    kept.receive(9, settled=True)
    first = backups.back_up()
    assert first["copied_files"] == len([path for path in (backups.place / "data").rglob("*") if path.is_file()])
    again = backups.back_up()
    assert again["copied_files"] in (0, 1)  # the catalog
    kept.receive(3, settled=True)
    third = backups.back_up()
    assert isinstance(third["copied_files"], int)
    assert third["copied_files"] <= 3 + 1 + 1
    for at, backup in enumerate(backups.ids()):
        restored = backups.restore(tmp_path / f"elsewhere-{at}", "--backup", backup)
        if at < 2:
            for each in list(restored.sent)[9:]:
                del restored.sent[each]
        restored.assert_served()


def test_older_backups_go_and_the_others_stay_whole(kept: Kept, backups: Backups, tmp_path: Path) -> None:
    kept.receive(3, settled=True, retired=True)
    for _ in range(3):
        kept.receive(3, settled=True, retired=True)
        said = backups.back_up("--keep", 2)
    assert said["pruned"] == 1
    assert len(backups.ids()) == 2
    restored = backups.restore(tmp_path / "elsewhere")
    restored.assert_served()


def test_a_restored_journal_goes_on_and_the_old_gateway_is_refused(
    kept: Kept, backups: Backups, tmp_path: Path
) -> None:
    kept.receive(6)
    backups.back_up()
    with kept.context() as context:
        before = context.journal.identity()
    restored = backups.restore(tmp_path / "elsewhere")
    restored.receive(3)
    restored.assert_served()
    with restored.context() as context:
        after = context.journal.identity()
    assert after.id == before.id
    assert after.epoch > before.epoch + 1000
    said = backups.back_up(code=2)
    assert "was restored elsewhere" in str(said["error"])


def test_an_older_backup_goes_on_with_other_positions_and_other_events(
    kept: Kept, backups: Backups, tmp_path: Path
) -> None:
    """The old gateway went on: nothing that counts its segments or its events takes new ones for them."""
    kept.receive(6, settled=True)
    backups.back_up()
    kept.receive(3)
    with kept.context() as context:
        old = {segment.number for segment in context.journal.segments()}
        seen = context.catalog.event_logs().identify(context.catalog.last_event())
    backed_up = list(kept.sent)[:6]
    places = []
    for name in ("elsewhere", "another"):
        restored = backups.restore(tmp_path / name)
        restored.sent = {each: restored.sent[each] for each in backed_up}
        restored.receive(3)
        restored.assert_served()
        with restored.context() as context:
            assert max(old) < max(segment.number for segment in context.journal.segments())
            new = {segment.number for segment in context.journal.segments()} - old
            assert context.catalog.event_logs().number(seen) is None
            places.append((context.journal.identity().epoch, max(new)))
    (epoch, segment), (other_epoch, other_segment) = places
    assert other_epoch > epoch + 1000
    assert other_segment > segment + 1000


def test_a_place_has_the_backups_of_one_journal(
    kept: Kept, backups: Backups, tmp_path: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """Segments of two journals have the same names, and may have the same sizes."""
    kept.receive(3)
    backups.back_up()
    other = Kept(tmp_path / "other")
    other.receive(3)
    said = Backups(run, other, backups.place, capsys).back_up(code=2)
    with kept.context() as one, other.context() as two:
        ids = [context.journal.identity().id for context in (one, two)]
    assert f"are of journal {ids[0]}, and this is journal {ids[1]}" in str(said["error"])
    assert len(backups.ids()) == 1
    backups.restore(tmp_path / "elsewhere").assert_served()


def test_deliveries_tables_and_deletions_are_in_the_backup(
    kept: Kept, backups: Backups, tmp_path: Path, run: Run
) -> None:
    ids = kept.receive(6, settled=True)
    with kept.context() as context:
        made = delivery(context, FILES)
        context.catalog.add_delivery(made, [NewEvent("delivery.queued", made.id, 1, {})])
        context.catalog.set_state([ids[0]], AttachmentState.DELETED)
        context.store.delete(f"attachments/{ids[0]}")
    log = kept.folder / "audit"
    append(log, [b'{"action":"read-audit"}\n'])
    (log / "audit.jsonl").rename(log / "audit-00000001.jsonl")
    append(log, [b'{"action":"cancel"}\n'])
    built = Built(kept.folder)
    built.append(pa.table([pa.array([1.0, 2.0])], pa.schema([field("X", pa.float64())])), library="WORK", member="A B=")
    backups.back_up()
    restored = backups.restore(tmp_path / "elsewhere")
    restored.assert_served(but=[ids[0]])
    with restored.context() as context:
        assert context.catalog.delivery(made.id) == made
        for attachment in made.attachments:
            assert b"".join(context.store.read(attachment.object_name)) is not None
    assert_sound(run, restored)
    files = sorted((restored.folder / "audit").iterdir())
    assert [each.name for each in files] == ["audit-00000001.jsonl", "audit.jsonl"]
    assert [each.read_bytes() for each in files] == [b'{"action":"read-audit"}\n', b'{"action":"cancel"}\n']
    assert {each.stat().st_mode & 0o777 for each in files} == {0o600}
    assert [each.num_rows for each in Built(restored.folder).tables.rows("WORK.A B=")] == [2]


def test_an_audit_log_that_goes_on_meanwhile_is_there_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append(tmp_path, [b"1\n"])

    def listed(folder: Path, known: Callable[[Path], list[audit._File]] = audit._rotated) -> list[audit._File]:
        (folder / "audit.jsonl").rename(folder / "audit-00000001.jsonl")
        append(folder, [b"2\n"])
        return known(folder)

    monkeypatch.setattr(audit, "_rotated", listed)
    with opened_files(tmp_path) as files:
        assert {name: file.read() for name, file in files.items()} == {"audit.jsonl": b"1\n"}


def test_tables_that_are_maintained_meanwhile_are_in_the_backup(
    kept: Kept, backups: Backups, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of a table is still written when the backup lists it, and another one is replaced while it is copied."""
    kept.receive(1, settled=True)
    Built(kept.folder).append(pa.table([pa.array([1.0])], pa.schema([field("X", pa.float64())])))
    (log,) = kept.folder.glob("tables/*.*/_delta_log")
    last = log / "_last_checkpoint"
    last.write_bytes(b"former")
    (log / "_last_checkpoint#1").write_bytes(b"lat")
    copied: list[str] = []

    def measured(pieces: Iterator[memoryview]) -> Measure:
        found = measure(pieces)
        if found.sha256 == sha256(last.read_bytes()).hexdigest():
            copied.append(last.read_text())
            last.write_bytes(b"later")
        return found

    monkeypatch.setattr("app.service.repair.backup.measure", measured)
    backups.back_up()
    assert copied == ["former", "later"]
    restored = backups.restore(tmp_path / "elsewhere").folder / log.relative_to(kept.folder)
    assert {each.name: each.read_bytes() for each in restored.glob("_last*")} == {"_last_checkpoint": b"later"}


def test_damage_is_told_of_and_the_rest_is_backed_up(kept: Kept, backups: Backups, tmp_path: Path) -> None:
    ids = kept.receive(9, settled=True)
    flip(kept.object(ids[3]))
    kept.object(ids[4]).unlink()
    said = backups.back_up(code=1)
    assert len(said["problems"]) == 2  # type: ignore[arg-type]


def test_a_damaged_backup_is_not_restored(kept: Kept, backups: Backups, tmp_path: Path) -> None:
    """Nothing of it stays, wherever the damage is, so another one can be restored into the same place."""
    kept.receive(6, settled=True)
    Built(kept.folder).append(pa.table([pa.array([1.0])], pa.schema([field("X", pa.float64())])))
    append(kept.folder / "audit", [b"1\n"])
    backups.back_up()
    for path in sorted(path for path in (backups.place / "data").rglob("*") if path.stat().st_size and path.is_file()):
        whole = path.read_bytes()
        flip(path)
        backups.restore(tmp_path / "elsewhere", code=1)
        path.write_bytes(whole)
        assert [path for path in (tmp_path / "elsewhere").rglob("*") if path.is_file()] == []
    backups.restore(tmp_path / "elsewhere").assert_served()


def test_nothing_is_restored_over_what_is_there(kept: Kept, backups: Backups, tmp_path: Path) -> None:
    kept.receive(3)
    backups.back_up()
    error = backups.error("restore", "--from", backups.place, "--data", kept.folder)
    assert "empty place" in error
    kept.assert_served()
    nothing, empty = tmp_path / "nothing", tmp_path / "empty"
    empty.mkdir()
    assert "no such folder" in backups.error("restore", "--from", nothing, "--data", tmp_path / "elsewhere")
    assert "no such folder" in backups.error("restore", "--from", nothing, "--list")
    assert not nothing.exists()
    assert "no backup" in backups.error("restore", "--from", empty, "--data", tmp_path / "elsewhere")
    assert "no backup" in backups.error("restore", "--from", empty, "--list")


def test_a_bucket_takes_backups_as_a_folder_does(kept: Kept, run: Run, tmp_path: Path) -> None:
    kept.receive(9, settled=True)
    place = f"memory://backups-{tmp_path.name}"
    for _ in range(3):
        kept.receive(3)
        assert run("backup", "--config", kept.configuration, "--to", place, "--keep", 1).code == 0
    listed = run("restore", "--from", place, "--list")
    assert len(listed.out.splitlines()) == 2
    (told,) = run("restore", "--from", place, "--list", "--json").out.splitlines()
    assert json.loads(told)["id"] in listed.out
    assert run("restore", "--from", place, "--data", tmp_path / "elsewhere").code == 0
    restored = Kept(tmp_path / "elsewhere")
    restored.sent = kept.sent
    restored.assert_served()


def test_no_place_is_a_sentence(kept: Kept, run: Run) -> None:
    kept.receive(3)
    result = run("backup", "--config", kept.configuration, "--to", "ftp://somewhere")
    assert result.code == 2
    assert "ftp://somewhere" in result.err
