"""The scrub finds what rots, and puts it right where it can."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event

import pytest

from app.model.attachment import AttachmentState
from app.model.records import DAMAGED_CONTENT, AttachmentRecord, Finished
from app.ports import ContentStore
from app.service.content.compared_blocks import ComparedBlocks
from app.service.content.content_damage import Damages, WatchedContent
from app.service.content.stored_content import open_content
from app.service.context import ServiceContext, at_once
from app.service.repair import restoring
from app.service.repair.scrubber import Scrubber
from app.service.retention.deletion import Deletion
from tests.support.kept import Kept, flip

FAST = {"scrub": {"rate": "1 GiB", "interval": "1d"}}


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path / "data")


@contextmanager
def scrubbing(kept: Kept) -> Iterator[tuple[Scrubber, ServiceContext]]:
    with kept.context(**FAST) as context:
        damages = Damages(context)

        def whole(record: AttachmentRecord) -> Iterator[memoryview]:
            content = open_content(record, context.catalog, context.store, context.journal)
            watched = WatchedContent(content, record, damages, ComparedBlocks())
            return watched.compared()

        yield Scrubber(context, damages, whole, Event()), context


def run(scrubber: Scrubber) -> int:
    steps = 0
    while scrubber.step():
        steps += 1
    return steps


def test_a_pass_reads_all_and_the_next_begins_after_the_interval(kept: Kept) -> None:
    kept.receive(9, settled=True)
    with scrubbing(kept) as (scrubber, context):
        assert run(scrubber) == 3 + 1 + 1  # segments, their end, a page
        text = context.metrics.text().decode()
        assert 'attachment_gateway_scrub_bytes_total{what="journal"}' in text
        assert 'attachment_gateway_scrub_bytes_total{what="content"}' in text
        assert scrubber.check()["ok"]
        assert run(scrubber) == 0
        kept.clock.advance(86_401)
        assert run(scrubber) == 5


def test_a_pass_of_a_clock_that_was_ahead_does_not_put_off_the_next(kept: Kept) -> None:
    kept.receive(9, settled=True)
    with scrubbing(kept) as (scrubber, _):
        kept.clock.leap(365 * 86_400)
        assert run(scrubber) == 5
        kept.clock.leap(-365 * 86_400)
        assert run(scrubber) == 5
        assert run(scrubber) == 0


def test_damaged_content_is_restored_from_the_journal(kept: Kept) -> None:
    ids = kept.receive(9, settled=True)
    flip(kept.object(ids[2]))
    kept.object(ids[3]).unlink()
    kept.object(ids[6]).write_bytes(b"")
    with scrubbing(kept) as (scrubber, context):
        run(scrubber)
        assert "attachment_gateway_content_restored_total 3.0" in context.metrics.text().decode()
    kept.assert_served()
    assert all(kept.record(each).reason_code is None for each in ids)


def test_what_cannot_be_restored_stays_marked_and_is_tried_again(kept: Kept) -> None:
    ids = kept.receive(9, settled=True, retired=True)
    sound = kept.object(ids[2]).read_bytes()
    flip(kept.object(ids[2]))
    with scrubbing(kept) as (scrubber, _):
        run(scrubber)
        assert kept_code(kept, ids[2]) == DAMAGED_CONTENT
        kept.object(ids[2]).write_bytes(sound)
        kept.clock.advance(86_401)
        run(scrubber)
    assert kept.record(ids[2]).reason_code is None
    kept.assert_served()


@pytest.mark.parametrize("state", [AttachmentState.FINISHED, AttachmentState.QUARANTINED])
def test_what_is_deleted_while_it_is_restored_stays_deleted(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, state: AttachmentState
) -> None:
    ids = kept.receive(9, settled=True)
    deleted, living = ids[2], ids[3]
    for each in (deleted, living):
        flip(kept.object(each))
    put_in_place = restoring.put_in_place

    def deleted_meanwhile(found: Finished, scratch: ContentStore, context: ServiceContext) -> None:
        if found.id == deleted:
            Deletion(context, at_once).attachment(deleted)
        put_in_place(found, scratch, context)

    monkeypatch.setattr(restoring, "put_in_place", deleted_meanwhile)
    with kept.context() as context:
        context.catalog.set_state([deleted, living], state)
        assert all(each.done for each in restoring.restore_content([deleted, living], context))
        with pytest.raises(KeyError):
            context.store.size(f"attachments/{deleted}")
    del kept.sent[deleted]
    kept.assert_served()


def kept_code(kept: Kept, attachment: str) -> str | None:
    with closing(sqlite3.connect(kept.folder / "catalog.sqlite")) as connection:
        row = connection.execute("SELECT reason_code FROM attachments WHERE id = ?", (attachment,)).fetchone()
    code: str | None = row[0]
    return code


def test_a_damaged_segment_is_told_of(kept: Kept) -> None:
    kept.receive(9, settled=True)
    flip(kept.segments()[1])
    with scrubbing(kept) as (scrubber, context):
        run(scrubber)
        assert not scrubber.check()["ok"]
        assert "attachment_gateway_scrub_damaged_segments 1.0" in context.metrics.text().decode()


def test_another_process_goes_on_where_the_pass_was(kept: Kept) -> None:
    kept.receive(9, settled=True)
    with scrubbing(kept) as (scrubber, _):
        scrubber.step()
        scrubber.step()
    with scrubbing(kept) as (scrubber, _):
        assert run(scrubber) == 3
    (kept.folder / "scrub.json").write_text("{")
    with scrubbing(kept) as (scrubber, _):
        assert run(scrubber) == 5
