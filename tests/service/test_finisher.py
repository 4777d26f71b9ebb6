"""What waits to be finished is bounded, and what an earlier process left is fetched piece by piece."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any

import pytest
from structlog.testing import capture_logs

from app.model.attachment import AttachmentKind, AttachmentState
from app.model.errors import DamagedError, GatewayError
from app.model.message import PhysicalMessage
from app.model.records import AttachmentRecord, Checkpoint, Damage, Finished, GroupProgress, NewEvent, PartRun
from app.ports import AttachmentFilter
from app.service.assembling.assembler import Assembler
from app.service.assembling.assembly_queue import AssemblyQueue
from app.service.context import ReceiverContext
from app.service.finishing.finisher import Finisher
from app.service.finishing.stored_parts import CompleteAttachment
from app.testing.gateway_stages import service_context
from app.testing.waiting import until
from tests.support.sas_client import Program, binary_file, message, text_file

DEADLINE = 30.0


@pytest.fixture
def context(tmp_path: Path) -> Iterator[ReceiverContext]:
    with service_context(tmp_path) as made:
        yield made


def complete(context: ReceiverContext, count: int, start: int = 0) -> list[str]:
    """Complete attachments, each a group of one message."""
    numbers = range(start, start + count)
    bodies = [PhysicalMessage("here", "mq_group", body=str(number).encode()) for number in numbers]
    positions = [position.pack() for position in context.journal.append(bodies)]
    records = [
        AttachmentRecord(
            f"a{number:05}",
            "here",
            number.to_bytes(24, "big"),
            AttachmentState.COMPLETE,
            kind=AttachmentKind.BINARY_FILE,
            parts_expected=1,
            group=GroupProgress(1, 1, len(str(number))),
            first_position=position,
            last_position=position,
            first_received_at=number,
        )
        for number, position in zip(numbers, positions, strict=True)
    ]
    runs = {record.id: [PartRun(1, 1, record.first_position)] for record in records}
    context.catalog.checkpoint(Checkpoint(attachments=records, part_runs=runs))
    return [record.id for record in records]


def counts(context: ReceiverContext) -> dict[str, int]:
    return context.catalog.counts()["attachments"]


def sample(context: ReceiverContext, name: str) -> float:
    return context.metrics.registry.get_sample_value(f"attachment_gateway_{name}") or 0.0


def test_assembly_waits_while_the_queue_is_full(context: ReceiverContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.service.finishing.finishing_queue.QUEUED", 10)
    monkeypatch.setattr("app.service.finishing.finishing_queue.AT_ONCE", 1)
    ids = complete(context, 40)
    finisher, may_finish = Finisher(context), Event()
    finish = context.catalog.finish
    monkeypatch.setattr(context.catalog, "finish", lambda *given: (may_finish.wait(DEADLINE), finish(*given))[1])
    finishing = Thread(target=finisher.run)
    finishing.start()
    until(lambda: finisher.queue.is_open)
    assembling = Thread(target=lambda: finisher.queue.put(dict.fromkeys(ids)))
    assembling.start()
    until(lambda: sample(context, "finishing_waiting") == 10)
    assembling.join(0.3)
    assert assembling.is_alive(), "it waits"
    assert sample(context, "finishing_waiting") == 10
    assert sample(context, "finishing_oldest_seconds") >= 0.3
    monkeypatch.setattr("app.service.finishing.finisher.LATE_SECONDS", 0.1)
    assert not finisher.check()["ok"]
    may_finish.set()
    assembling.join(DEADLINE)
    assert not assembling.is_alive()
    until(lambda: counts(context)["finished"] == 40, DEADLINE)
    assert finisher.check()["waiting"] == 0
    finisher.queue.stop()
    finishing.join(DEADLINE)


def test_the_end_does_not_wait_for_room(context: ReceiverContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.service.finishing.finishing_queue.QUEUED", 5)
    monkeypatch.setattr("app.service.finishing.finishing_queue.AT_ONCE", 1)
    ids = complete(context, 20)
    finisher, may_finish = Finisher(context), Event()
    finish = context.catalog.finish
    monkeypatch.setattr(context.catalog, "finish", lambda *given: (may_finish.wait(DEADLINE), finish(*given))[1])
    finishing, assembling = Thread(target=finisher.run), Thread(target=lambda: finisher.queue.put(dict.fromkeys(ids)))
    finishing.start()
    until(lambda: finisher.queue.is_open)
    assembling.start()
    until(lambda: sample(context, "finishing_waiting") == 5)
    finisher.queue.stop()
    assembling.join(5)
    assert not assembling.is_alive()
    may_finish.set()
    finishing.join(5)
    assert not finishing.is_alive()


def test_what_was_left_is_fetched_in_pieces_and_takes_turns(
    context: ReceiverContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.service.finishing.finishing_queue.QUEUED", 50)
    monkeypatch.setattr("app.service.finishing.finishing_queue.FETCHED", 20)
    left = complete(context, 150)
    asked: list[int] = []
    complete_attachments = context.catalog.complete_attachments

    def watched(limit: int | None = None, after: AttachmentRecord | None = None) -> list[AttachmentRecord]:
        page = complete_attachments(limit, after)
        asked.append(len(page))
        return page

    monkeypatch.setattr(context.catalog, "complete_attachments", watched)
    finisher = Finisher(context)
    finisher.recover()
    finisher.queue.put(dict.fromkeys(left))  # as recovery does, before the finisher's thread runs
    assert sample(context, "finishing_waiting") == 50
    finishing = Thread(target=finisher.run)
    finishing.start()
    finisher.queue.put(dict.fromkeys(complete(context, 30, 1000)))
    until(lambda: counts(context).get("finished") == 180, DEADLINE)
    assert max(asked) <= 20
    finisher.queue.stop()
    finishing.join(DEADLINE)


@pytest.mark.parametrize("remembered", [100_000, 10])
def test_failures_are_told_once_and_at_their_end(
    context: ReceiverContext, monkeypatch: pytest.MonkeyPatch, remembered: int
) -> None:
    """When the cause is gone, those that have failed are finished together."""
    monkeypatch.setattr("app.service.finishing.finisher.RETRY_SECONDS", 0.02)
    monkeypatch.setattr("app.service.content.retries.MOST", remembered)
    ids = complete(context, 30)
    failing = [True]
    finish, steps = context.catalog.finish, []

    def fails(*given: Any) -> set[str]:
        if failing:
            raise GatewayError("no space left")
        steps.append(len(given[0]))
        return finish(*given)

    monkeypatch.setattr(context.catalog, "finish", fails)
    finisher = Finisher(context)
    finishing = Thread(target=finisher.run)
    with capture_logs() as logs:
        finishing.start()
        finisher.queue.put(dict.fromkeys(ids))
        until(lambda: finisher.check()["failing"] == min(30, remembered), DEADLINE)
        assert not finisher.check()["ok"]
        failing.clear()
        until(lambda: counts(context).get("finished") == 30, DEADLINE)
        until(lambda: finisher.check()["ok"], DEADLINE)
        finisher.queue.stop()
        finishing.join(DEADLINE)
    assert [entry["event"] for entry in logs if entry["event"].startswith("finishing")] == [
        "finishing_failed",
        "finishing_recovered",
    ]
    assert max(steps) > 1


def test_one_that_always_fails_keeps_no_other_from_being_finished(
    context: ReceiverContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.service.finishing.finisher.RETRY_SECONDS", 0.001)
    ids = complete(context, 30)
    finish = context.catalog.finish

    def fails(found: Sequence[Finished], events: Sequence[NewEvent]) -> set[str]:
        if any(each.id == ids[7] for each in found):
            raise GatewayError("this row cannot be written")
        return finish(found, events)

    monkeypatch.setattr(context.catalog, "finish", fails)
    finisher = Finisher(context)
    finishing = Thread(target=finisher.run)
    finishing.start()
    finisher.queue.put(dict.fromkeys(ids))
    until(lambda: counts(context).get("finished") == 29, DEADLINE)
    finisher.queue.stop()
    finishing.join(DEADLINE)
    assert finisher.check()["failing"] == 1


def test_every_attachment_whose_parts_are_gone_begins_anew(
    context: ReceiverContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many of them wait for assembly."""
    ids, queue = complete(context, 1200), AssemblyQueue()
    monkeypatch.setattr(context.journal, "has", lambda _segment: False)
    Finisher(context, queue.between).finish(dict.fromkeys(ids))
    for change in queue.changes:
        change()
    assert counts(context)["receiving"] == 1200


@pytest.mark.parametrize(("part", "function"), [("store", "batch"), ("journal", "messages")])
def test_a_fault_before_the_first_of_them_is_told_and_tried_again(
    context: ReceiverContext, monkeypatch: pytest.MonkeyPatch, part: str, function: str
) -> None:
    """A step that fails before it takes an attachment is neither repeated without a pause nor forgotten."""
    monkeypatch.setattr("app.service.finishing.finisher.RETRY_SECONDS", 0.05)
    waiting, failing = text_files(context, 5), [True]
    calls: list[tuple[Any, ...]] = []
    works = getattr(getattr(context, part), function)

    def fails(*given: Any) -> Any:
        calls.append(given)
        if failing:
            raise GatewayError("the disk does not answer")
        return works(*given)

    monkeypatch.setattr(getattr(context, part), function, fails)
    finisher = Finisher(context)
    finishing = Thread(target=finisher.run)
    finishing.start()
    finisher.queue.put(waiting)
    until(lambda: finisher.check()["failing"] == 5, DEADLINE)
    assert "the disk does not answer" in finisher.check()["error"]
    assert len(calls) <= 20, "each is tried again only after a pause"
    failing.clear()
    until(lambda: counts(context).get("finished") == 5, DEADLINE)
    finisher.queue.stop()
    finishing.join(DEADLINE)


def text_files(context: ReceiverContext, count: int) -> dict[str, CompleteAttachment | None]:
    """Assemble text files, which are not finished before their parts are read again."""
    program = Program(Random(7))
    sent = [message(program, [text_file(program, f"{n}.txt", b"line %d\n" % n)]) for n in range(count)]
    context.journal.append([each._replace(source="here", received_at=1) for stream in sent for each in stream])
    waiting: dict[str, CompleteAttachment | None] = {}
    Assembler(context, waiting.update).recover()
    assert counts(context)["complete"] == len(waiting) == count
    return waiting


def test_objects_that_are_written_together_are_flushed_once(
    context: ReceiverContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[Path] = []
    monkeypatch.setattr("adapters.object_store.local_objects.sync_file_system", flushed.append)
    monkeypatch.setattr("adapters.object_store.local_objects._flush", lambda path: flushed.append(Path(path)))
    waiting = text_files(context, 40)
    monkeypatch.setattr(context.catalog, "attachments_by_id", lambda ids: [None] * len(ids))  # they are known
    monkeypatch.setattr(context.catalog, "part_runs", None)
    Finisher(context).finish(waiting)
    assert counts(context)["finished"] == 40
    assert len(flushed) == 1


def test_an_attachment_that_is_queued_twice_keeps_its_content(context: ReceiverContext) -> None:
    waiting = text_files(context, 3)
    finisher = Finisher(context)
    finisher.finish(dict.fromkeys(waiting))
    finisher.finish(waiting)  # as assembly knew them before
    for each in waiting:
        record = context.catalog.attachment(each)
        assert record is not None
        assert record.state is AttachmentState.FINISHED
        assert record.object_name is not None
        assert context.store.size(record.object_name) == record.size


def test_a_message_without_attachments_is_completed_by_its_checkpoint(
    context: ReceiverContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is killed after the checkpoint leaves no event out, and the next one repeats none."""
    sent = message(Program(Random(7)), [])
    context.journal.append([each._replace(source="here", received_at=1) for each in [*sent, *sent]])
    with monkeypatch.context() as killed:
        killed.setattr(context.catalog, "complete_messages", None)
        Assembler(context, lambda _: None).recover()
    Assembler(context, lambda _: None).recover()
    (found,) = context.catalog.messages(None, None, 10).items
    assert (found.attachments, found.complete_at) == ((), 1)
    assert [(event.type, event.subject) for event in context.catalog.events_after(0, 9)] == [
        ("message.complete", found.id)
    ]


def test_a_file_whose_parts_came_in_order_is_finished_by_its_checkpoint(
    context: ReceiverContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(Random(7), body_limit=2000)
    files = [binary_file(program, f"{n}.bin", program.random.randbytes(5000)) for n in range(5)]
    sent = [each for one in files for each in message(program, [one])]
    context.journal.append([each._replace(source="here", received_at=1) for each in sent])
    for name in ("finish", "complete_messages", "attachments_by_id"):
        monkeypatch.setattr(context.catalog, name, None)
    waiting: dict[str, CompleteAttachment | None] = {}
    Assembler(context, waiting.update).recover()
    assert not waiting
    found = context.catalog.attachments(AttachmentFilter(state=AttachmentState.FINISHED), None, 10).items
    assert {each.sha256 for each in found} == {each.sha256 for each in files}
    told = [event.type for event in context.catalog.events_after(0, 100)]
    assert sorted(told) == ["attachment.finished"] * 5 + ["message.complete"] * 5
    assert all(each.complete_at is not None for each in context.catalog.messages(None, None, 10).items)
    finished = context.metrics.registry.get_sample_value(
        "attachment_gateway_attachments_total", {"state": "finished", "kind": "binary-file"}
    )
    assert finished == 5


def test_a_part_that_cannot_be_read_back_quarantines_its_attachment(
    context: ReceiverContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    (attachment,) = complete(context, 1)
    bodies = context.journal.bodies
    damage = Damage(1, 0, 0, "its checksum differs")

    def damaged(_positions: object) -> Any:
        raise DamagedError.of(damage)

    monkeypatch.setattr(context.journal, "bodies", damaged)
    finisher = Finisher(context)
    with capture_logs() as logs:
        finisher.finish({attachment: None})
    record = context.catalog.attachment(attachment)
    assert record is not None
    assert (record.state, record.reason_code) == (AttachmentState.QUARANTINED, "damaged-part")
    assert "journal segment 1, batch 0, row 0: its checksum differs" in (record.reason or "")
    (entry,) = context.catalog.quarantined(None, "kept", None, 10).items
    assert (entry.code, entry.correl_id, entry.position) == ("damaged-part", record.correl_id, 1 << 32)
    (told,) = [event for event in context.catalog.events_after(0, 10) if event.type == "attachment.quarantined"]
    assert told.data["code"] == "damaged-part"
    assert [entry["event"] for entry in logs] == ["part_damaged"]
    monkeypatch.setattr(context.journal, "bodies", bodies)


def test_a_key_error_of_a_library_is_not_taken_for_parts_that_are_gone(
    context: ReceiverContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = text_files(context, 1)

    def fails(*_: Any) -> None:
        raise KeyError("a codec")

    with monkeypatch.context() as patched:
        patched.setattr("app.service.finishing.finished_contents.content_of", fails)
        with pytest.raises(KeyError, match="a codec"):
            Finisher(context).finish(waiting)
    assert counts(context)["complete"] == 1
    Finisher(context).finish(waiting)
    assert counts(context)["finished"] == 1
