"""Content that cannot be settled stops no other."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from app.model.attachment import AttachmentState
from app.model.errors import StoreFull
from app.model.message import PhysicalMessage
from app.model.records import AttachmentRecord, Checkpoint, Extent, Finished
from app.service.content.settling import Settler
from app.service.context import ReceiverContext
from app.service.gateway import Gateway
from app.testing.gateway_stages import ManualClock, service_context

BODY = b"content " * 100


def finished(context: ReceiverContext, number: int, extents: tuple[Extent, ...], digest: str | None = None) -> str:
    record = AttachmentRecord(f"a{number:04}", "here", number.to_bytes(16, "big"), AttachmentState.COMPLETE)
    context.catalog.checkpoint(Checkpoint(attachments=[record]))
    size, digest = sum(extent.length for extent in extents), digest or sha256(BODY).hexdigest()
    found = Finished(record.id, size, digest, "text/plain", "journal", context.clock.now(), extents=extents)
    assert context.catalog.finish([found], [])
    assert isinstance(context.clock, ManualClock)
    context.clock.advance(0.001)
    return record.id


def in_the_journal(context: ReceiverContext) -> tuple[Extent, ...]:
    return tuple(context.journal.extents(context.journal.append([PhysicalMessage("here", "sas_queue", body=BODY)])))


def storage(context: ReceiverContext, attachment: str) -> str | None:
    found = context.catalog.attachment(attachment)
    assert found is not None
    return found.storage


def test_a_hundred_whose_segment_is_missing_do_not_stop_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("app.service.content.retries.monotonic", lambda: now)
    with service_context(tmp_path, content={"settle_after": 0}) as context, capture_logs() as logs:
        lost = [finished(context, number, (Extent(99, 4096, len(BODY)),)) for number in range(250)]
        good = [finished(context, number, in_the_journal(context)) for number in range(1000, 1150)]
        settler = Settler(context)
        for _ in range(3):
            settler.settle()
        assert {storage(context, each) for each in good} == {"store"}
        assert all(found.settled_at for found in map(context.catalog.attachment, good) if found is not None)
        assert {storage(context, each) for each in lost} == {"journal"}
        assert sorted(context.store.names("attachments/")) == [f"attachments/{each}" for each in good]
        check = settler.check()
        assert (check["ok"], check["failing"]) == (False, 250)
        assert "missing" in check["error"]
        assert context.metrics.registry.get_sample_value("attachment_gateway_settling_failing") == 250
        told = [entry for entry in logs if entry["event"] == "settling_failed"]
        assert 1 <= len(told) <= 5, "one line each reason, not each attachment"

        context.catalog.set_state(lost, AttachmentState.DELETED)
        settler.settle()
        assert settler.check() == {"ok": True, "failing": 0, "error": None}
        (over,) = [entry for entry in logs if entry["event"] == "settling_recovered"]
        assert over["failures"] == 250


def test_what_a_clock_finished_that_was_ahead_is_settled(tmp_path: Path) -> None:
    clock = ManualClock()
    with service_context(tmp_path, clock) as context:
        clock.leap(365 * 86_400)
        ahead = finished(context, 1, in_the_journal(context))
        settler = Settler(context)
        settler.settle()
        assert storage(context, ahead) == "journal"
        clock.leap(-365 * 86_400)
        settler.settle()
        assert storage(context, ahead) == "store"


def test_one_that_fails_is_tried_again_later_and_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("app.service.content.retries.monotonic", lambda: now)
    with service_context(tmp_path, content={"settle_after": 0}) as context:
        finished(context, 1, (Extent(99, 4096, len(BODY)),))
        tried: list[float] = []
        views = context.journal.views

        def watched(extents: Iterable[Extent]) -> Iterator[memoryview]:
            tried.append(now)
            return views(extents)

        monkeypatch.setattr(context.journal, "views", watched)
        settler = Settler(context)
        for _ in range(600):
            settler.settle()
            now += 1
        assert [round(at - 1000) for at in tried] == [0, 5, 15, 35, 75, 155, 315]


def test_bytes_that_are_not_those_received_are_not_settled_but_marked(tmp_path: Path) -> None:
    with service_context(tmp_path, content={"settle_after": 0}) as context, capture_logs() as logs:
        wrong = finished(context, 1, in_the_journal(context), sha256(b"something else").hexdigest())
        good = finished(context, 2, in_the_journal(context))
        settler = Settler(context)
        settler.settle()
        settler.settle()
        record = context.catalog.attachment(wrong)
        assert record is not None
        assert (record.storage, record.reason_code) == ("journal", "damaged-content")
        assert storage(context, good) == "store"
        assert list(context.store.names("attachments/")) == [f"attachments/{good}"]
    assert [entry["event"] for entry in logs].count("content_damaged") == 1


def test_a_full_store_ends_the_round_and_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with service_context(tmp_path, content={"settle_after": 0}) as context, capture_logs() as logs:
        all_of_them = [finished(context, number, in_the_journal(context)) for number in range(20)]
        create, together, room = context.store.create, context.store.batch, [3]

        def limited(name: str) -> object:
            if not room[0]:
                raise StoreFull("no space left")
            room[0] -= 1
            return create(name)

        @contextmanager
        def limited_together() -> Iterator[object]:
            with together():
                yield context.store if room[0] > len(all_of_them) else Nowhere()

        monkeypatch.setattr(context.store, "create", limited)
        monkeypatch.setattr(context.store, "batch", limited_together)
        settler = Settler(context)
        for _ in range(4):
            settler.settle()
        assert [storage(context, each) for each in all_of_them] == ["store"] * 3 + ["journal"] * 17
        assert settler.check() == {"ok": False, "failing": 0, "error": "no space left"}
        room[0] = 100
        settler.settle()
        assert {storage(context, each) for each in all_of_them} == {"store"}
    assert [entry["event"] for entry in logs] == ["settling_failed", "settling_recovered"]


class Nowhere:
    """A store that takes nothing."""

    def create(self, name: str) -> object:
        raise StoreFull(f"no space left for {name}")


def test_one_that_the_store_never_takes_does_not_stop_those_written_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store refuses it at the end of writing them together, and by itself."""
    with service_context(tmp_path, content={"settle_after": 0}) as context, capture_logs() as logs:
        all_of_them = [finished(context, number, in_the_journal(context)) for number in range(9)]
        create, together = context.store.create, context.store.batch

        def picky(name: str) -> object:
            if name.endswith(all_of_them[4]):
                raise OSError(f"{name} is refused")
            return create(name)

        @contextmanager
        def refusing() -> Iterator[object]:
            with together() as store:
                yield store
                raise OSError("one of them is refused")

        monkeypatch.setattr(context.store, "batch", refusing)
        monkeypatch.setattr(context.store, "create", picky)
        settler = Settler(context)
        settler.settle()
        assert [storage(context, each) for each in all_of_them] == ["store"] * 4 + ["journal"] + ["store"] * 4
        assert settler.check()["failing"] == 1
    assert [entry["event"] for entry in logs] == ["settling_failed"]


def test_small_objects_share_the_flushes_of_a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with service_context(tmp_path, content={"settle_after": 0}) as context:
        all_of_them = [finished(context, number, in_the_journal(context)) for number in range(250)]
        flushes: list[int] = []

        def counted(flush: Callable[[int], None], file: int) -> None:
            flushes.append(file)
            flush(file)

        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, partial(counted, getattr(os, name)))
        Settler(context).settle()
        assert {storage(context, each) for each in all_of_them} == {"store"}
        assert len(flushes) < 30


def test_what_was_copied_or_deleted_meanwhile_is_not_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with service_context(tmp_path, content={"settle_after": 0}) as context, capture_logs() as logs:
        copied, deleted = (finished(context, number, in_the_journal(context)) for number in (1, 2))
        before = context.catalog.unsettled_attachments(context.clock.now(), 10)
        Settler(context).settle()
        context.catalog.set_state([deleted], AttachmentState.DELETED)
        late = Settler(context)
        pages = iter([before])
        monkeypatch.setattr(context.catalog, "unsettled_attachments", lambda *_, **__: next(pages))
        late.settle()
        assert storage(context, copied) == "store"
        assert late.check() == {"ok": True, "failing": 0, "error": None}
        record = context.catalog.attachment(copied)
        assert record is not None
        assert record.reason_code is None
        assert not [entry for entry in logs if entry["log_level"] in {"warning", "error"}]


@pytest.mark.parametrize("taken", [0, 1])
@pytest.mark.parametrize("first", [0, 700])
def test_a_download_goes_on_in_the_store_when_its_segments_are_retired(tmp_path: Path, taken: int, first: int) -> None:
    body = bytes(range(256)) * 16_384  # of four pieces
    with service_context(tmp_path, content={"settle_after": 0}) as context, capture_logs() as logs:
        halves = [PhysicalMessage("here", "sas_queue", body=body[at : at + (1 << 21)]) for at in (0, 1 << 21)]
        extents = tuple(context.journal.extents(context.journal.append(halves)))
        record = context.catalog.attachment(finished(context, 1, extents, sha256(body).hexdigest()))
        assert record is not None
        pieces = Gateway(context, {}, {}).contents.open(record).read(first, len(body) - first)
        begun = [bytes(piece) for piece in islice(pieces, taken)]
        Settler(context).settle()
        context.journal.seal()
        context.journal.retire(extents[0].segment)
        assert b"".join([*begun, *pieces]) == body[first:]
        assert not [entry for entry in logs if entry["log_level"] in {"warning", "error"}]


def test_content_is_read_that_was_copied_after_its_record(tmp_path: Path) -> None:
    """A request reads the record first. Meanwhile the journal's extents are gone, and the store has the content."""
    with service_context(tmp_path, content={"settle_after": 0}) as context:
        before = context.catalog.attachment(finished(context, 1, in_the_journal(context)))
        assert before is not None
        Settler(context).settle()
        assert storage(context, before.id) == "store"
        content = Gateway(context, {}, {}).contents.open(before)
        assert b"".join(content.read(0, content.size)) == BODY
        context.store.delete(f"attachments/{before.id}")
        context.catalog.set_state([before.id], AttachmentState.DELETED)
        with pytest.raises(KeyError):
            Gateway(context, {}, {}).contents.open(before)
