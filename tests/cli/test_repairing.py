"""`fsck` and `rebuild`: each kind of difference made by hand, found, repaired, and served right afterwards."""

import json
import os
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from adapters.arrow_journal import ArrowJournal
from app.model.access import ApiKey, Scope
from app.model.attachment import AttachmentState, DeliveryState
from app.model.records import CONTENT_LOST, NewEvent
from app.service.belonging import claim
from app.service.content.settling import Settler
from app.service.context import at_once
from app.service.deletion import Deletion
from app.service.repair.recording import Recorder
from app.service.retention.removal import Retaining, RetentionClock
from app.service.retention.sweeper import Sweeper
from tests.cli.conftest import Result, Run
from tests.support.built import Built
from tests.support.kept import SOURCE, Kept, assemble, flip
from tests.support.loads import messages
from tests.support.outgoing import FILES, delivery
from tests.support.sas_client import binary_file
from tests.support.tables import field

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


@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("retired", [True, False])
def test_what_is_sound_is_found_sound_and_repairing_it_changes_nothing(
    kept: Kept, fsck: Fsck, settled: bool, retired: bool
) -> None:
    kept.receive(9, settled=settled, retired=retired)
    assert not fsck.check()
    assert fsck.repair().code == 0
    kept.assert_served()


def test_an_empty_place_is_sound(kept: Kept, fsck: Fsck) -> None:
    with kept.context():
        pass
    assert not fsck.check()


# --- content ------------------------------------------------------------------------------------------------------


def swap(one: Path, other: Path) -> None:
    held = one.with_name("held")
    one.rename(held)
    other.rename(one)
    held.rename(other)


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda kept, ids: kept.object(ids[5]).unlink(), {"object-missing": 1}),
        (lambda kept, ids: flip(kept.object(ids[5])), {"object-damaged": 1}),
        (lambda kept, ids: os.truncate(kept.object(ids[5]), 1), {"object-damaged": 1}),
        (lambda kept, ids: kept.object(ids[5]).write_bytes(b""), {"object-damaged": 1}),
        (lambda kept, ids: swap(kept.object(ids[5]), kept.object(ids[6])), {"object-damaged": 2}),
        (lambda kept, ids: [kept.object(each).unlink() for each in ids], {"object-missing": 12}),
        (lambda kept, ids: shutil.rmtree(kept.folder / "content"), {"object-missing": 12}),
    ],
    ids=["missing", "flipped", "truncated", "empty", "swapped", "all missing", "folder missing"],
)
def test_content_is_put_together_again_from_the_journal(
    kept: Kept, fsck: Fsck, damage: Damage, expected: dict[str, int]
) -> None:
    ids = kept.receive(12, settled=True)
    damage(kept, ids)
    assert fsck.check() == expected
    assert fsck.repair().code == 0
    kept.assert_served()
    assert not fsck.check()


def test_content_that_nothing_can_bring_back_is_quarantined_and_said(kept: Kept, fsck: Fsck) -> None:
    ids = kept.receive(9, settled=True, retired=True)
    kept.receive(3)  # the segment that assembly has reached stays
    flip(kept.object(ids[3]))
    result = fsck.repair()
    assert result.code == 1
    assert '"repaired": false' in result.out
    record = kept.record(ids[3])
    assert (record.state, record.reason_code) == (AttachmentState.QUARANTINED, CONTENT_LOST)
    assert (kept.folder / "content" / "aside" / "attachments" / ids[3]).exists()
    assert not fsck.check()
    kept.assert_served(but=[ids[3]])


def test_content_that_was_marked_damaged_is_put_together_again(kept: Kept, fsck: Fsck) -> None:
    ids = kept.receive(9, settled=True)
    flip(kept.object(ids[3]))
    with kept.context() as context:
        assert context.catalog.mark_damaged(ids[3], "its SHA-256 is another")
    assert fsck.repair().code == 0
    assert kept.record(ids[3]).reason_code is None
    kept.assert_served()


def test_an_object_of_no_attachment_is_set_aside(kept: Kept, fsck: Fsck) -> None:
    kept.receive(3, settled=True)
    kept.object("f" * 32).write_bytes(b"whose is it")
    assert fsck.check() == {"object-orphaned": 1}
    assert fsck.repair().code == 0
    assert (kept.folder / "content" / "aside" / "attachments" / ("f" * 32)).read_bytes() == b"whose is it"
    assert not fsck.check()


# --- rows ---------------------------------------------------------------------------------------------------------


def test_a_row_comes_back_from_its_record(kept: Kept, fsck: Fsck) -> None:
    ids = kept.receive(9, settled=True, retired=True)
    before = kept.record(ids[3])
    in_catalog(kept, "DELETE FROM attachments WHERE id = ?", ids[3])
    assert fsck.check() == {"row-missing": 1}
    assert fsck.repair().code == 0
    assert kept.record(ids[3]) == before
    assert not fsck.check()


@pytest.mark.parametrize("settled", [True, False])
def test_rows_come_back_from_the_journal(kept: Kept, fsck: Fsck, settled: bool) -> None:
    ids = kept.receive(9, settled=settled)
    for each in ids[2:5]:
        in_catalog(kept, "DELETE FROM attachments WHERE id = ?", each)
    found = fsck.check()
    assert found["row-missing"] + found["object-orphaned"] >= 3
    assert fsck.repair().code == 0
    kept.assert_served()
    assert not fsck.check()


# --- the catalog ----------------------------------------------------------------------------------------------------


def lose(kept: Kept) -> None:
    for path in kept.folder.glob("catalog.sqlite*"):
        path.unlink()


def overwrite(kept: Kept) -> None:
    lose(kept)
    (kept.folder / "catalog.sqlite").write_bytes(Random(1).randbytes(200_000))


def spoil_pages(kept: Kept) -> None:
    path = kept.folder / "catalog.sqlite"
    data = bytearray(path.read_bytes())
    for at in range(4096, len(data), 8192):
        data[at : at + 64] = Random(at).randbytes(64)
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [lose, overwrite, spoil_pages])
@pytest.mark.parametrize("retired", [True, False])
def test_a_catalog_is_rebuilt_from_nothing(
    kept: Kept, fsck: Fsck, damage: Callable[[Kept], None], retired: bool
) -> None:
    old = kept.receive(9, settled=True, retired=retired)
    ids = kept.receive(9)
    with kept.context() as context:
        context.catalog.set_state(
            [old[1], ids[1]],
            AttachmentState.DELETED,
            events=[NewEvent("attachment.deleted", each, 1, {}) for each in (old[1], ids[1])],
        )
        context.store.delete(f"attachments/{old[1]}")
        Recorder(context.catalog, context.store).record()
    before = {each: kept.record(each) for each in (*old, *ids)}
    damage(kept)
    assert fsck.check().keys() & {"catalog-missing", "catalog-damaged"}
    assert fsck.repair().code == 0
    kept.assert_served(but=[old[1], ids[1]])
    for each, was in before.items():
        now = kept.record(each)
        assert (now.state, now.sha256, now.size, now.qualifier_2) == (was.state, was.sha256, was.size, was.qualifier_2)
    assert not fsck.check()


def test_what_a_client_deleted_does_not_come_back_with_a_rebuilt_catalog(kept: Kept, fsck: Fsck) -> None:
    ids = kept.receive(6)
    with kept.context() as context:
        deletion = Deletion(context, at_once)
        goes, *stay = context.catalog.messages(None, None, 10).items
        assert all(deletion.attachment(each) for each in goes.attachments)
        assert deletion.message(goes.id)
        Recorder(context.catalog, context.store).record()
    lose(kept)
    assert fsck.rebuild().code == 0
    with kept.context() as context:
        found = context.catalog.messages(None, None, 10).items
        assert {each.id for each in found} == {each.id for each in stay}
    kept.assert_served(but=goes.attachments)
    assert {kept.record(each).state for each in ids} == {AttachmentState.FINISHED, AttachmentState.DELETED}
    assert not fsck.check()


def test_rebuild_says_what_it_made_and_keeps_the_keys_of_clients(kept: Kept, fsck: Fsck) -> None:
    kept.receive(9, settled=True, retired=True)
    kept.receive(6)
    keys = [ApiKey(f"k{n}", "billing", b"digest", frozenset({Scope.READ}), n, revoked_at=n or None) for n in (1, 0)]
    with kept.context() as context:
        for key in keys:
            context.catalog.add_key(key)
    result = fsck.rebuild()
    assert result.code == 0, result
    assert "0 lost" in result.out
    assert list(kept.folder.glob("catalog.sqlite.aside-1"))
    with kept.context() as context:
        assert context.catalog.api_keys() == keys[::-1]
    kept.assert_served()
    assert not fsck.check()


def test_what_a_rebuilt_catalog_cannot_bring_back_is_listed_as_lost(kept: Kept, fsck: Fsck) -> None:
    ids = kept.receive(9, settled=True, retired=True)
    kept.receive(3)
    kept.object(ids[2]).unlink()
    lose(kept)
    result = fsck.rebuild()
    assert result.code == 1
    assert "1 lost" in result.out
    assert kept.record(ids[2]).reason_code == CONTENT_LOST
    kept.assert_served(but=[ids[2]])


def test_a_catalog_of_another_journal_is_rebuilt(tmp_path: Path, fsck: Fsck, kept: Kept) -> None:
    other = Kept(tmp_path / "other")
    other.program.random.seed(99)
    theirs = other.receive(6)
    kept.receive(9, settled=True)
    shutil.rmtree(kept.folder / "journal")
    shutil.copytree(other.folder / "journal", kept.folder / "journal")
    assert fsck.repair().code == 0
    kept.sent = {each: other.sent[each] for each in theirs} | kept.sent
    kept.assert_served()
    assert not fsck.check()


def test_numbers_of_lost_segments_are_not_used_again(kept: Kept, fsck: Fsck) -> None:
    ids = kept.receive(12)
    lost = kept.segments()[-2:]
    numbers = [int(path.name[:10]) for path in lost]
    for path in lost:
        path.unlink()
    (kept.folder / "journal" / "identity").unlink()
    result = fsck.repair()
    assert "journal-behind" in result.out
    gone = [each for each in ids if kept.record(each).state is AttachmentState.QUARANTINED]
    assert gone
    kept.assert_served(but=gone)
    assert not fsck.check()
    with kept.context() as context:
        attached = binary_file(kept.program, "later.bin", b"later" * 100)
        kept.journal(context, [attached])
        assert max(segment.number for segment in context.journal.segments()) > max(numbers)
        assemble(context)
    kept.remember(attached)
    kept.assert_served(but=gone)


def test_unfinished_attachments_whose_parts_are_gone_expire_and_finish_when_sent_again(kept: Kept, fsck: Fsck) -> None:
    attached = binary_file(kept.program, "late.bin", kept.program.random.randbytes(100_000))
    sent = [m._replace(source=SOURCE, received_at=1) for m in messages(kept.program, [attached])]
    with kept.context() as context:
        context.journal.append(sent[:4])
        context.journal.seal()
        context.journal.append(sent[4:5])
        context.journal.seal()
        assemble(context)
    kept.segments()[0].unlink()
    assert fsck.check() == {"parts-missing": 1}
    assert fsck.repair().code == 0
    each = kept.remember(attached)
    assert kept.record(each).state is AttachmentState.EXPIRED


# --- segments -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [
        flip,
        lambda path: os.truncate(path, path.stat().st_size // 2),
        lambda path: os.truncate(path, path.stat().st_size - 3),
        lambda path: flip(path, 40),
        lambda path: path.write_bytes(bytes(4096) + path.read_bytes()[4096:]),
    ],
    ids=["body", "half", "end", "header", "no header"],
)
def test_a_damaged_segment_whose_content_is_settled_is_set_aside(
    kept: Kept, fsck: Fsck, damage: Callable[[Path], None]
) -> None:
    kept.receive(9, settled=True)
    damage(kept.segments()[0])
    assert fsck.check() == {"segment-damaged": 1}
    assert fsck.repair().code == 0
    assert list((kept.folder / "journal").glob("*.damaged"))
    kept.assert_served()
    assert not fsck.check()


def test_damage_in_content_that_only_the_journal_has_costs_what_lies_there(kept: Kept, fsck: Fsck) -> None:
    with kept.context() as context:
        attached = [binary_file(kept.program, f"{n}", kept.program.random.randbytes(60_000)) for n in range(3)]
        kept.journal(context, attached)
        assemble(context)
    ids = [kept.remember(each) for each in attached]
    path = kept.segments()[0]
    at = path.read_bytes().index(attached[1].content[100:200])
    flip(path, at)
    assert fsck.check() == {"segment-damaged": 1, "content-damaged": 1}
    assert fsck.repair().code == 1
    kept.assert_served(but=[ids[1]])
    assert kept.record(ids[1]).reason_code == CONTENT_LOST


# --- records, deliveries, tables ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        (flip, "records-damaged"),
        (lambda path: path.unlink(), "records-missing"),
    ],
)
def test_records_are_made_anew(kept: Kept, fsck: Fsck, damage: Callable[[Path], None], kind: str) -> None:
    kept.receive(9, settled=True, retired=True)
    kept.receive(3, settled=True, retired=True)
    for path in sorted((kept.folder / "content" / "catalog").iterdir()):
        damage(path)
    assert fsck.check()[kind]
    assert fsck.repair().code == 0
    assert not fsck.check()
    lose(kept)
    assert fsck.repair().code == 0
    kept.assert_served()


def test_uploads_of_no_delivery_go_and_deliveries_without_content_fail(kept: Kept, fsck: Fsck) -> None:
    with kept.context() as context:
        made = delivery(context, FILES[-3:])
        context.catalog.add_delivery(made, [])
        with context.store.create("outgoing/nobody/0") as target:
            target.write(b"x")
    flip(kept.folder / "content" / "outgoing" / "d" / "3")
    assert fsck.check() == {"upload-damaged": 1}
    result = fsck.repair()
    assert fsck.found(result) == {"upload-damaged": 1, "upload-orphaned": 1}
    assert result.code == 0
    with kept.context() as context:
        failed = context.catalog.delivery(made.id)
        assert failed is not None
        assert failed.state is DeliveryState.FAILED
        assert "SHA-256" in (failed.reason or "")
    assert not (kept.folder / "content" / "outgoing" / "nobody" / "0").exists()
    assert not fsck.check()


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), flip, lambda path: os.truncate(path, 100)])
def test_a_table_that_cannot_be_read_is_told_of(kept: Kept, fsck: Fsck, damage: Callable[[Path], None]) -> None:
    with kept.context():
        pass
    built = Built(kept.folder)
    built.append(
        pa.table([pa.array([1.0, 2.0] * 5000)], pa.schema([field("X", pa.float64())])), library="WORK", member="A"
    )
    assert not fsck.check()
    (file,) = (kept.folder / "tables").rglob("*.parquet")
    damage(file)
    assert fsck.check() == {"table-damaged": 1}


# --- the command --------------------------------------------------------------------------------------------------


def test_a_running_gateway_is_not_repaired(kept: Kept, fsck: Fsck) -> None:
    kept.receive(3)
    journal = ArrowJournal(kept.folder / "journal")
    assert not fsck.check()
    result = fsck.repair()
    journal.close()
    assert result.code == 2
    assert "in use" in result.err


def test_what_cannot_be_checked_is_said(kept: Kept, fsck: Fsck) -> None:
    kept.folder.rmdir()
    result = fsck.command()
    assert result.code == 2
    assert str(kept.folder) in result.err


def test_a_plan_is_shown_and_nothing_done_without_a_yes(kept: Kept, run: Run) -> None:
    ids = kept.receive(6, settled=True)
    kept.object(ids[0]).unlink()
    result = run("fsck", "--config", kept.configuration, "--repair")
    assert result.code == 1
    assert "restore-content" in result.out
    assert "--yes" in result.err
    assert not kept.object(ids[0]).exists()
    assert replace(kept.record(ids[0])).state is AttachmentState.FINISHED


def test_segments_are_retired_only_when_all_is_recorded(kept: Kept) -> None:
    kept.receive(9, settled=True)

    def fail() -> None:
        raise OSError("no room")

    with kept.context() as context:
        before = len(context.journal.segments())
        assert before > 1
        with pytest.raises(OSError, match="no room"):
            Sweeper(context, before_retiring=fail).retire_segments()
        assert len(context.journal.segments()) == before


def test_an_unfinished_attachment_goes_on_when_its_header_and_the_catalog_are_gone(kept: Kept, fsck: Fsck) -> None:
    """Its segments but those with its parts may be retired: the header is in the records by then."""
    attached = binary_file(kept.program, "late.bin", kept.program.random.randbytes(100_000))
    header, application, *rest = [
        m._replace(source=SOURCE, received_at=kept.clock.now()) for m in messages(kept.program, [attached])
    ]
    with kept.context() as context:
        for some in ([header, application], rest[:2]):
            context.journal.append(some)
            context.journal.seal()
        assemble(context)
        Recorder(context.catalog, context.store).record_before_retiring()
        context.journal.retire(min(segment.number for segment in context.journal.segments()))
    lose(kept)
    assert fsck.rebuild().code == 0
    each = kept.remember(attached)
    assert kept.record(each).state is AttachmentState.RECEIVING
    with kept.context() as context:
        context.journal.append(rest[2:])
        assemble(context)
    kept.assert_served()
    with kept.context() as context:
        (message,) = context.catalog.messages(None, None, 10).items
        assert message.application_body == bytes(application.body)
        assert message.complete_at is not None
    assert not fsck.check()


# --- a lost journal, and what is sent again -------------------------------------------------------------------------


def send_again(kept: Kept, attachments: Sequence[str]) -> None:
    """The messages of these attachments come once more, each attachment in its own message's order."""
    sent = [m for each in attachments for m in kept.messages[each]]
    with kept.context() as context:
        claim(context)
        context.journal.append([m._replace(source=SOURCE, received_at=kept.clock.now()) for m in sent])
        assemble(context)


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


def receive_a_half(kept: Kept) -> str:
    attached = binary_file(kept.program, "half", kept.program.random.randbytes(100_000))
    sent = messages(kept.program, [attached])
    with kept.context() as context:
        context.journal.append([m._replace(source=SOURCE, received_at=kept.clock.now()) for m in sent[:3]])
        assemble(context)
    each = kept.remember(attached)
    kept.messages[each] = sent
    return each


@pytest.mark.parametrize("command", ["fsck", "rebuild"])
def test_what_is_settled_stays_served_when_the_journal_is_replaced_by_an_empty_one(
    kept: Kept, fsck: Fsck, command: str
) -> None:
    *_, unsettled = receive_one_by_one(kept, 4, settled=3)
    half = receive_a_half(kept)
    shutil.rmtree(kept.folder / "journal")
    if command == "fsck":
        result = fsck.repair()
        assert result.code == 1
        assert fsck.found(result)["journal-replaced"] == 1
        assert kept.record(unsettled).reason_code == CONTENT_LOST
    else:
        result = fsck.rebuild()
        assert result.code == 1
        assert "2 lost" in result.out
    assert kept.record(half).state is AttachmentState.EXPIRED
    kept.assert_served(but=[unsettled, half])
    assert not fsck.check()
    send_again(kept, [unsettled, half])
    kept.assert_served()
    assert not fsck.check()


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_copy_that_was_not_recorded_is_served_when_the_journal_is_lost(
    kept: Kept, fsck: Fsck, monkeypatch: pytest.MonkeyPatch, *, is_whole: bool
) -> None:
    """The settler writes an object first and records it then. A process may be killed between the two."""
    (each,) = receive_one_by_one(kept, 1, settled=0)
    with kept.context() as context, monkeypatch.context() as patch:
        patch.setattr(context.catalog, "settle", set)
        Settler(context).settle()
    assert kept.object(each).exists()
    if not is_whole:
        flip(kept.object(each))
    shutil.rmtree(kept.folder / "journal")
    assert fsck.repair().code == (0 if is_whole else 1)
    kept.assert_served(but=[] if is_whole else [each])
    assert not fsck.check()


def test_numbers_of_a_lost_journal_are_not_used_by_the_one_in_its_place(kept: Kept, fsck: Fsck) -> None:
    receive_one_by_one(kept, 3, settled=3)
    shutil.rmtree(kept.folder / "journal")
    fsck.repair()
    receive_one_by_one(kept, 1, settled=0)
    assert [path.name[:10] for path in kept.segments()] == ["0000000004"]
    kept.assert_served()


def test_rebuilding_counts_objects_that_nothing_knows(kept: Kept, fsck: Fsck) -> None:
    receive_one_by_one(kept, 3, settled=3)
    shutil.rmtree(kept.folder / "content" / "catalog")
    shutil.rmtree(kept.folder / "journal")
    lose(kept)
    assert "3 objects belong to no known attachment" in fsck.rebuild().out


def test_a_segment_cut_behind_what_is_assembled_is_repaired_once_and_sent_again(kept: Kept, fsck: Fsck) -> None:
    receive_one_by_one(kept, 3, settled=2)
    half = receive_a_half(kept)
    path = kept.segments()[-1]
    os.truncate(path, path.stat().st_size // 2)
    (kept.folder / "journal" / "identity").unlink()
    path.rename(path.with_name(f"{path.name[:10]}.open.arrows"))
    result = fsck.repair()
    assert fsck.found(result)["journal-behind"] == 1
    assert not fsck.check()
    with kept.context() as context:
        claim(context)
    kept.assert_served(but=[half])
    send_again(kept, [half])
    kept.assert_served()


def test_lost_content_that_is_sent_again_begins_anew(kept: Kept, fsck: Fsck) -> None:
    ids = receive_one_by_one(kept, 3, settled=0)
    kept.segments()[1].unlink()
    assert fsck.check()["content-missing"] == 1
    assert fsck.repair().code == 1
    assert kept.record(ids[1]).reason_code == CONTENT_LOST
    send_again(kept, [ids[1]])
    assert kept.record(ids[1]).reason_code is None
    kept.assert_served()
    assert not fsck.check()


def test_what_retention_dropped_is_dropped_again_when_a_rebuilt_catalog_brings_it_back(kept: Kept, fsck: Fsck) -> None:
    receive_one_by_one(kept, 2, settled=2)
    with kept.context() as context:
        (header, *_) = messages(kept.program, [binary_file(kept.program, "x", b"x")])
        context.journal.append([header._replace(source=SOURCE, msg_type=200_000, received_at=kept.clock.now())])
        assemble(context)
        made = replace(delivery(context, FILES[-1:]), state=DeliveryState.SENT)
        context.catalog.add_delivery(made, [NewEvent("delivery.sent", made.id, kept.clock.now(), {})])
        Recorder(context.catalog, context.store).record()
        (entry,) = context.catalog.quarantined(None, None, None, 10).items
    kept.clock.advance(400 * 86_400)
    for _ in range(2):
        with kept.context() as context:
            Retaining(context, RetentionClock(context.clock)).retain()
            assert context.catalog.quarantine_entry(entry.id) is None
            assert context.catalog.delivery(made.id) is None
        lose(kept)
        fsck.rebuild()
