"""Records, deliveries and tables that are damaged or lost."""

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from app.model.attachment import DeliveryState
from app.testing.outgoing_files import FILES, delivery
from tests.cli.repairing.conftest import Fsck, lose
from tests.support.built import Built
from tests.support.kept import Kept, flip
from tests.support.tables import field


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
