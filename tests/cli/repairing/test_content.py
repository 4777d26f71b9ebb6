"""Content and rows that differ from the journal: found, repaired, and served right afterwards."""

import os
import shutil
from pathlib import Path

import pytest

from app.model.attachment import AttachmentState
from app.model.records import CONTENT_LOST
from tests.cli.repairing.conftest import Damage, Fsck, in_catalog
from tests.support.kept import Kept, flip


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


@pytest.mark.parametrize("name", ["attachments/" + "f" * 32, "quarantine/" + "f" * 16])
def test_an_object_of_nothing_is_set_aside(kept: Kept, fsck: Fsck, name: str) -> None:
    kept.receive(3, settled=True)
    with kept.context() as context, context.store.create(name) as target:
        target.write(b"whose is it")
    assert fsck.check() == {"object-orphaned": 1}
    assert fsck.repair().code == 0
    assert (kept.folder / "content" / "aside" / name).read_bytes() == b"whose is it"
    assert not fsck.check()


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
