"""Segments that are damaged or lost, and what is sent again."""

import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from adapters.arrow_journal import ArrowJournal
from app.model.attachment import AttachmentState
from app.model.errors import GatewayError
from app.model.records import CONTENT_LOST
from app.service.content.settling import Settler
from app.service.receiving.catalog_claim import claim
from tests.cli.repairing.conftest import Fsck, receive_one_by_one
from tests.support.kept import SOURCE, Kept, assemble, flip
from tests.support.loads import messages
from tests.support.sas_client import binary_file


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


def send_again(kept: Kept, attachments: Sequence[str]) -> None:
    """The messages of these attachments come once more, each attachment in its own message's order."""
    sent = [m for each in attachments for m in kept.messages[each]]
    with kept.context() as context:
        claim(context)
        context.journal.append([m._replace(source=SOURCE, received_at=kept.clock.now()) for m in sent])
        assemble(context)


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


def cut_newest(kept: Kept) -> Path:
    """Leave a half of the newest segment, as if a killed process had been writing it."""
    path = kept.segments()[-1]
    os.truncate(path, path.stat().st_size // 2)
    (kept.folder / "journal" / "identity").unlink()
    return path.rename(path.with_name(f"{path.name[:10]}.open.arrows"))


def test_an_open_segment_cut_behind_what_is_assembled_costs_what_is_missing(kept: Kept, fsck: Fsck) -> None:
    receive_one_by_one(kept, 3, settled=3)
    half = receive_a_half(kept)
    cut_newest(kept)
    with kept.context() as context:
        claim(context)
    kept.assert_served(but=[half])
    send_again(kept, [half])
    kept.assert_served()
    kept.clock.advance(60)
    with kept.context() as context:
        Settler(context).settle()
    assert fsck.check() == {"segment-damaged": 1}
    assert fsck.repair().code == 0
    assert not fsck.check()
    kept.assert_served()


def test_a_segment_cut_and_sealed_without_the_catalog_is_repaired_once_and_sent_again(kept: Kept, fsck: Fsck) -> None:
    receive_one_by_one(kept, 3, settled=2)
    half = receive_a_half(kept)
    cut_newest(kept)
    ArrowJournal(kept.folder / "journal").close()
    with (
        kept.context() as context,
        pytest.raises(GatewayError, match=r"missing.*`attachment-gateway fsck --repair`"),
    ):
        claim(context)
    assert fsck.check()["journal-behind"] == 1
    result = fsck.repair()
    assert fsck.found(result)["journal-behind"] == 1
    assert not fsck.check()
    with kept.context() as context:
        claim(context)
    kept.assert_served(but=[half])
    send_again(kept, [half])
    kept.assert_served()


@pytest.mark.parametrize("is_open", [True, False])
def test_a_check_finds_that_the_newest_messages_are_gone(kept: Kept, fsck: Fsck, is_open: bool) -> None:
    receive_one_by_one(kept, 3, settled=2)
    newest = kept.segments()[-1]
    if is_open:
        newest = newest.rename(newest.with_name(f"{newest.name[:10]}.open.arrows"))
        assert "journal-behind" not in fsck.check()
    newest.unlink()
    assert fsck.check()["journal-behind"] == 1


def test_a_check_finds_another_journal_in_the_place_of_the_catalogs_own(kept: Kept, fsck: Fsck) -> None:
    receive_one_by_one(kept, 3, settled=2)
    shutil.rmtree(kept.folder / "journal")
    with closing(ArrowJournal(kept.folder / "journal")) as another:
        another.append(next(iter(kept.messages.values())))
        another.seal()
    assert fsck.check()["catalog-foreign"] == 1


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
