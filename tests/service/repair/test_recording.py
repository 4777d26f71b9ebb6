"""What is recorded of the catalog, so that it can be rebuilt when its journal segments are gone."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.model.attachment import AttachmentKind, AttachmentState, DeliveryState
from app.model.errors import GatewayError
from app.model.identity import attachment_id, message_id
from app.model.records import (
    AttachmentRecord,
    Checkpoint,
    ContainedFile,
    Finished,
    FramingOptions,
    GroupProgress,
    MessageRecord,
    NewEvent,
    QuarantineRecord,
)
from app.service.context import ServiceContext
from app.service.repair import record_files
from app.service.repair.record_files import Dropped, RecordFile
from app.service.repair.record_json import Row, from_json, kind_of, line, to_json
from app.service.repair.recorder import NUMBERS, Recorder
from app.testing.gateway_stages import service_context
from app.testing.outgoing_files import FILES, delivery

SOURCE = "orders"
ATTACHMENT = AttachmentRecord(
    id=attachment_id(SOURCE, b"a" * 16),
    source=SOURCE,
    correl_id=b"a" * 16,
    message_id=message_id(SOURCE, b"h" * 24),
    kind=AttachmentKind.BINARY_FILE,
    qualifier_1="FILENAME",
    qualifier_2="caf\udce9\0.bin",
    dialects=(1 << 31) - 1,
    parts_expected=2,
    parts_received=2,
    pending_counts=(1, 2),
    group=GroupProgress(3, 2, 1),
    first_position=1 << 32,
    last_position=5 << 32,
    first_received_at=1,
    last_received_at=2,
)
MESSAGE = MessageRecord(
    ATTACHMENT.message_id or "", SOURCE, b"h" * 24, b"m" * 24, 8, bytes(24), (ATTACHMENT.id,), 1, 1, b"\0\xff", "MQSTR"
)
QUARANTINED = QuarantineRecord("0" * 16, SOURCE, 7, "bad-count", "row", 3, "why", 8, b"c" * 24, 6, 9)


@pytest.fixture
def context(tmp_path: Path) -> Iterator[ServiceContext]:
    with service_context(tmp_path) as found:
        yield found


def finish(context: ServiceContext, record: AttachmentRecord = ATTACHMENT) -> AttachmentRecord:
    complete = replace(record, state=AttachmentState.COMPLETE)
    context.catalog.checkpoint(Checkpoint(progress=record.last_position, attachments=[complete], messages=[MESSAGE]))
    found = Finished(
        record.id,
        5,
        "5" * 64,
        "application/octet-stream",
        "store",
        3,
        object_name=f"attachments/{record.id}",
        files=(ContainedFile(0, 3, 80, 3), ContainedFile(3, 2, 80, 0)),
    )
    assert context.catalog.finish([found], [NewEvent("attachment.finished", record.id, 3, {})])
    finished = context.catalog.attachment(record.id)
    assert finished is not None
    return finished


def recorded(context: ServiceContext) -> dict[str, Row | Dropped]:
    return {row.id: row for row in record_files.rows(context.store)}


def many(count: int) -> list[AttachmentRecord]:
    keys = [number.to_bytes(16, "big") for number in range(count)]
    return [replace(ATTACHMENT, id=attachment_id(SOURCE, key), correl_id=key) for key in keys]


def test_every_kind_of_row_is_the_same_behind_json(context: ServiceContext) -> None:
    sent = delivery(context, FILES[:3])
    for row in (
        ATTACHMENT,
        MESSAGE,
        QUARANTINED,
        sent,
        replace(sent, cut=FramingOptions(1, "d", 2, 3), state=DeliveryState.FAILED, reason="no"),
        replace(ATTACHMENT, group=None, kind=None, state=AttachmentState.DELETED),
    ):
        assert from_json(kind_of(row), json.loads(line(to_json(row)))) == row


def test_what_a_later_version_adds_is_left_out_and_what_an_earlier_one_lacks_is_as_by_default() -> None:
    said = json.loads(line(to_json(ATTACHMENT))) | {"unknown": 1}
    assert "description" not in said
    assert from_json("attachment", said) == ATTACHMENT


@pytest.mark.parametrize("by_round", [True, False])
def test_what_has_ended_is_recorded_with_its_message(context: ServiceContext, by_round: bool) -> None:
    recorder = Recorder(context.catalog, context.store)
    if by_round:
        recorder.record()
    finished = finish(context)
    sent = delivery(context, FILES[:3])
    context.catalog.add_delivery(sent, [NewEvent("delivery.queued", sent.id, 1, {})])
    context.catalog.checkpoint(
        Checkpoint(quarantine=[QUARANTINED], events=[NewEvent("message.quarantined", QUARANTINED.id, 9, {})])
    )
    recorder.record()
    found = recorded(context)
    assert found[finished.id] == finished
    assert found[MESSAGE.id] == MESSAGE
    assert found[sent.id] == sent
    assert found[QUARANTINED.id] == context.catalog.quarantine_entry(QUARANTINED.id)
    assert len(found) == 4


def test_a_round_with_nothing_new_writes_nothing(context: ServiceContext) -> None:
    recorder = Recorder(context.catalog, context.store)
    recorder.record()
    assert record_files.files(context.store) == []
    finish(context)
    recorder.record()
    recorder.record()
    Recorder(context.catalog, context.store).record()
    assert len(record_files.files(context.store)) == 1


def test_the_newest_record_of_a_row_holds(context: ServiceContext) -> None:
    recorder = Recorder(context.catalog, context.store)
    recorder.record()
    finish(context)
    recorder.record()
    event = NewEvent("attachment.deleted", ATTACHMENT.id, 4, {})
    context.catalog.set_state([ATTACHMENT.id], AttachmentState.DELETED, events=[event])
    recorder.record()
    found = recorded(context)[ATTACHMENT.id]
    assert isinstance(found, AttachmentRecord)
    assert found.state is AttachmentState.DELETED


def test_a_row_that_the_catalog_has_dropped_is_recorded_as_dropped(context: ServiceContext) -> None:
    recorder = Recorder(context.catalog, context.store)
    recorder.record()
    finish(context)
    recorder.record()
    event = NewEvent("attachment.dropped", ATTACHMENT.id, 4, {})
    context.catalog.checkpoint(Checkpoint(removed_attachments=[ATTACHMENT.id], events=[event]))
    recorder.record()
    assert recorded(context)[ATTACHMENT.id] == Dropped("attachment", ATTACHMENT.id)


def test_another_process_goes_on_where_the_last_one_was(context: ServiceContext) -> None:
    first, second = many(2)
    finish(context, first)
    Recorder(context.catalog, context.store).record()
    finish(context, second)
    Recorder(context.catalog, context.store).record()
    newest = record_files.files(context.store)[-1]
    lines = [*record_files.rows(context.store)]
    assert newest.number == NUMBERS
    assert {row.id for row in lines} == {first.id, second.id, MESSAGE.id}
    records_of_second = {row.id for row in record_files.rows(context.store) if row.id == second.id}
    assert records_of_second == {second.id}


@pytest.mark.parametrize("loss", ["pruned", "newer", "another log"])
def test_where_the_events_do_not_fit_all_is_recorded(context: ServiceContext, loss: str) -> None:
    first, second = many(2)
    finish(context, first)
    if loss == "pruned":
        record_files.write(context.store, RecordFile(1, 0), "0", [])
        context.catalog.checkpoint(Checkpoint(events=[NewEvent("x", "x", 10, {})]))
        context.catalog.prune_events(5)
    else:
        reached = {"newer": "1000000", "another log": "1"}[loss]
        record_files.write(context.store, RecordFile(1, 0), f"{reached}-0badc0de", [])
    finish(context, second)
    Recorder(context.catalog, context.store).record()
    assert {first.id, second.id, MESSAGE.id} <= recorded(context).keys()


@pytest.mark.parametrize("left", ["the newest", "none"])
def test_events_that_are_pruned_before_they_are_recorded_cost_no_row(context: ServiceContext, left: str) -> None:
    first, *later = many(11)
    recorder = Recorder(context.catalog, context.store)
    finish(context, first)
    recorder.record()
    for each in later:
        finish(context, each)
    context.catalog.checkpoint(Checkpoint(events=[NewEvent("x", "x", 10, {})]))
    context.catalog.prune_events({"the newest": 10, "none": 11}[left])
    recorder.record()
    assert {each.id for each in (first, *later)} <= recorded(context).keys()
    recorder.record()
    assert len(record_files.files(context.store)) == 2


def test_objects_are_merged_and_say_the_same(context: ServiceContext) -> None:
    recorder = Recorder(context.catalog, context.store)
    made = many(3 * record_files.MERGED + 5)
    for each in made:
        finish(context, each)
        recorder.record()
    event = NewEvent("attachment.deleted", made[0].id, 4, {})
    context.catalog.set_state([made[0].id], AttachmentState.DELETED, events=[event])
    recorder.record()
    found = record_files.files(context.store)
    assert len(found) == 3 + 6
    rows = recorded(context)
    assert {each.id for each in made} <= rows.keys()
    deleted = rows[made[0].id]
    assert isinstance(deleted, AttachmentRecord)
    assert deleted.state is AttachmentState.DELETED
    assert len([*record_files.rows(context.store)]) == len(made) + 1


def test_a_damaged_object_is_told_of_and_costs_what_lies_in_it(context: ServiceContext, tmp_path: Path) -> None:
    recorder = Recorder(context.catalog, context.store)
    first, second = many(2)
    for each in (first, second):
        finish(context, each)
        recorder.record()
    path = Path(context.store.local_path(record_files.files(context.store)[1].name) or "")
    data = bytearray(path.read_bytes())
    sound, damaged = [*record_files.rows(context.store)], 0
    for at in range(12, len(data)):
        flipped = bytearray(data)
        flipped[at] ^= 0x10
        path.write_bytes(flipped)
        told: list[GatewayError] = []
        found = [*record_files.rows(context.store, told.append)]
        if not told:  # a bit that fills up a byte
            assert found == sound
            continue
        damaged += 1
        assert {row.id for row in found} == {first.id, MESSAGE.id}
        with pytest.raises(GatewayError):
            [*record_files.rows(context.store)]
    assert damaged > (len(data) - 12) * 0.98
    path.write_bytes(data[:-4])
    with pytest.raises(GatewayError, match="too early"):
        [*record_files.rows(context.store)]


def test_what_a_recorder_writes_late_is_older_than_what_the_next_one_writes(context: ServiceContext) -> None:
    first, second, third = many(3)
    paused, other = Recorder(context.catalog, context.store), Recorder(context.catalog, context.store)
    finish(context, first)
    paused.record()
    finish(context, second)
    other.record()
    finish(context, third)
    paused.record()
    assert [each.number for each in record_files.files(context.store)] == [1, 2, NUMBERS]
