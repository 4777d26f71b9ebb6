"""The whole service over the broker in memory: sending, receiving, time, and what an operator does."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from threading import Event
from time import sleep
from typing import Any
from uuid import uuid4

import pytest
from structlog.testing import capture_logs

from adapters.arrow_journal import ArrowJournal
from adapters.memory import MemoryDestinationSettings, MemoryReceiver, MemorySender, QueueSettings, queue
from adapters.sql_catalog import SqlCatalog
from app.codecs.sas import correlid
from app.model.attachment import AttachmentKind, AttachmentState, DeliveryState
from app.model.errors import CatalogTaken, GatewayError
from app.model.identity import attachment_id
from app.model.message import PhysicalMessage
from app.model.records import AttachmentRecord, Checkpoint, DeliveryRecord, OutgoingAttachment
from app.ports import AttachmentFilter, DeliveryProgress, Intake, SendFailed
from app.service.content.settling import Settler
from app.service.context import ReceiverContext
from app.service.finishing.stored_parts import missing_ranges
from app.service.gateway import Gateway
from app.service.quarantine.quarantine_records import quarantined_message
from app.service.receiving.journal_upkeep import JournalUpkeep, seal_old_segment
from app.service.repair.reassembling import reassembled
from app.service.retention.deletion import NotEnded
from app.service.retention.removal import Sweeper
from app.service.sending.framer import Framer
from app.testing.gateway_stages import ManualClock, service_context
from app.testing.outgoing_files import FILES, SOURCE, delivery, framing_options
from app.testing.waiting import until
from tests.support.roles import own
from tests.support.service_context import receive_for

DEADLINE = 20.0
DESTINATION = "partners"


class UnreliableSender(MemorySender):
    """Sends as the memory sender does, after failures that are laid down beforehand: for each call in turn, how many
    messages go out before it fails, or None for a call that works."""

    def __init__(self, settings: MemoryDestinationSettings, plan: Sequence[int | None], *, permanent: bool) -> None:
        super().__init__(settings)
        self._plan, self._permanent = iter(plan), permanent

    def send(self, messages: Sequence[PhysicalMessage], progress: DeliveryProgress | None = None) -> None:
        del progress
        fails_after = next(self._plan, None)
        super().send(messages[:fails_after])
        if fails_after is not None:
            raise SendFailed("the broker went away", permanent=self._permanent)


class Service:
    """A running gateway that sends to the queue it receives from."""

    def __init__(self, gateway: Gateway, context: ReceiverContext, clock: ManualClock, name: str) -> None:
        self.gateway, self.context, self.clock, self.queue = gateway, context, clock, queue(name)
        self.endpoint = {"transport": "memory", "queue": name}
        self.sweeper, self.settler, self.upkeep = Sweeper(context), Settler(context), JournalUpkeep(context)

    def send(self, content: bytes, name: str = "a.bin") -> DeliveryRecord:
        delivery_id = uuid4().hex
        object_name = f"outgoing/{delivery_id}/0"
        with self.gateway.store.create(object_name) as target:
            target.write(content)
        attachment = OutgoingAttachment(
            uuid4().bytes,
            AttachmentKind.BINARY_FILE,
            "FILENAME",
            name,
            "",
            0,
            0,
            object_name,
            len(content),
            sha256(content).hexdigest(),
        )
        now = self.clock.now()
        header, message = correlid.join(uuid4().bytes, 0), correlid.join(uuid4().bytes, 0)
        delivery = DeliveryRecord(delivery_id, DESTINATION, header, message, (attachment,), now, now)
        self.gateway.deliveries.enqueue(delivery)
        return delivery

    def delivery(self, sent: DeliveryRecord) -> DeliveryRecord:
        found = self.gateway.catalog.delivery(sent.id)
        assert found is not None
        return found

    def attachment(self, sent: DeliveryRecord) -> AttachmentRecord | None:
        return self.gateway.catalog.attachment(attachment_id(SOURCE, sent.attachments[0].correl_id))

    def until_state(self, sent: DeliveryRecord, state: AttachmentState) -> AttachmentRecord:
        found = until(lambda: (record := self.attachment(sent)) and record.state is state and record, DEADLINE)
        assert isinstance(found, AttachmentRecord)
        return found

    def content(self, record: AttachmentRecord) -> bytes:
        content = self.gateway.contents.open(record)
        return b"".join(content.read(0, content.size))

    def events(self) -> list[str]:
        return [event.type for event in self.gateway.catalog.events_after(0, 1000)]


Start = Callable[..., Service]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts services one after the other in the same folder; each start stops the one before."""
    running: list[Any] = []
    name = uuid4().hex

    def begin(plan: Sequence[int | None] = (), *, permanent: bool = False, **settings: Any) -> Service:
        finish()
        context = service(tmp_path, name, plan, permanent, settings)
        running.append(context)
        return context.__enter__()

    def finish() -> None:
        while running:
            running.pop().__exit__(None, None, None)

    yield begin
    finish()


@contextmanager
def service(
    folder: Path, name: str, plan: Sequence[int | None], permanent: bool, settings: dict[str, Any]
) -> Iterator[Service]:
    clock = ManualClock()
    endpoint = {"transport": "memory", "queue": name}
    quick = {"retry_first": "50ms", "retry_longest": "100ms"}
    settings = {"limits": {"free_bytes": 0}, "destinations": {DESTINATION: endpoint | quick}, **settings}
    with service_context(folder, clock, sources={SOURCE: endpoint}, **settings) as context:
        receiver = MemoryReceiver(SOURCE, "sas_queue", QueueSettings(queue=name))
        sender = UnreliableSender(MemoryDestinationSettings(queue=name), plan, permanent=permanent)
        gateway = Gateway(context, {SOURCE: receiver}, {DESTINATION: sender})
        gateway.start()
        try:
            yield Service(gateway, context, clock, name)
        finally:
            gateway.stop()


def test_a_gateway_that_was_replaced_takes_nothing_more_and_is_not_live(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.service.receiving.catalog_claim.LOCK_SECONDS", 1.0)
    service = start()
    service.until_state(service.send(b"before"), AttachmentState.FINISHED)
    other = SqlCatalog(f"sqlite:///{tmp_path / 'catalog.sqlite'}")
    (tmp_path / "catalog.sqlite.lock").unlink()
    other.lock()
    mine = other.journal_identity()
    assert mine is not None
    other.bind(mine._replace(epoch=mine.epoch + 1))
    until(lambda: not service.gateway.health().live, DEADLINE)
    assert service.gateway.health().checks["stages"]["failed"] == ["lock"]
    until(lambda: not service.gateway.receivers[SOURCE].status()["connected"], DEADLINE)
    with pytest.raises(CatalogTaken):
        service.gateway.catalog.checkpoint(Checkpoint())
    other.close()


def test_a_lock_file_that_was_tidied_away_is_made_anew(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.service.receiving.catalog_claim.LOCK_SECONDS", 0.05)
    service = start()
    (tmp_path / "catalog.sqlite.lock").unlink()
    until((tmp_path / "catalog.sqlite.lock").exists, DEADLINE)
    other = SqlCatalog(f"sqlite:///{tmp_path / 'catalog.sqlite'}")
    with pytest.raises(CatalogTaken):
        other.lock()
    other.close()
    assert service.gateway.health().live


def test_a_delivery_put_off_by_a_clock_that_was_ahead_goes_when_it_is_right(start: Start) -> None:
    service = start([0])
    service.clock.advance(365 * 86_400)
    sent = service.send(b"put off")
    until(lambda: service.delivery(sent).next_attempt_at, DEADLINE)
    service.clock.advance(-365 * 86_400)
    until(lambda: service.delivery(sent).state is DeliveryState.SENT, DEADLINE)
    assert service.until_state(sent, AttachmentState.FINISHED).size == 7


def test_what_is_sent_comes_back_and_is_told(start: Start) -> None:
    service = start()
    content = bytes(range(256)) * 1000
    sent = service.send(content)
    record = service.until_state(sent, AttachmentState.FINISHED)
    assert service.content(record) == content
    delivered = until(lambda: (d := service.delivery(sent)).state is DeliveryState.SENT and d, DEADLINE)
    assert isinstance(delivered, DeliveryRecord)
    assert delivered.messages_sent == delivered.messages_total == 13
    until(lambda: "message.complete" in service.events(), DEADLINE)
    assert service.events().count("attachment.finished") == 1
    assert service.gateway.health().ready


def test_a_delivery_goes_on_where_the_broker_went_away(start: Start) -> None:
    service = start([64, 3, 0])
    content = bytes(32_000 * 200)
    sent = service.send(content)

    def sent_after_retries() -> bool:
        service.clock.advance(1)
        return service.delivery(sent).state is DeliveryState.SENT

    until(sent_after_retries, DEADLINE)
    assert service.delivery(sent).attempts == 4
    record = service.until_state(sent, AttachmentState.FINISHED)
    assert record.duplicates
    assert service.content(record) == content
    assert service.gateway.catalog.counts()["attachments"]["finished"] == 1


def test_a_delivery_keeps_the_cut_it_was_begun_with(start: Start) -> None:
    endpoint = start().endpoint
    service = start([64], destinations={DESTINATION: endpoint | {"retry_first": "1d"}})
    content = bytes(range(256)) * 25_000
    sent = service.send(content)
    until(lambda: service.delivery(sent).reason, DEADLINE)
    assert service.delivery(sent).messages_sent == 0
    changed = {"body_limit": 20_000, "dialect": "little-8-absent-packed", "ccsid": 819}
    service = start(destinations={DESTINATION: endpoint | changed})
    service.clock.advance(2 * 86_400)
    record = service.until_state(sent, AttachmentState.FINISHED)
    assert service.content(record) == content
    assert record.duplicates


def test_a_delivery_that_cannot_be_sent_fails_with_the_reason(start: Start) -> None:
    service = start([0], permanent=True)
    sent = service.send(b"x")
    failed = until(lambda: (d := service.delivery(sent)).state is DeliveryState.FAILED and d, DEADLINE)
    assert isinstance(failed, DeliveryRecord)
    assert failed.reason == "the broker went away"
    assert "delivery.failed" in service.events()


def test_a_delivery_whose_name_cannot_be_written_fails_and_the_next_one_goes(start: Start) -> None:
    destination = {"transport": "memory", "queue": "elsewhere", "ccsid": 819}
    service = start(destinations={DESTINATION: destination})
    bad, good = service.send(b"x", "日本.bin"), service.send(b"x")
    until(lambda: service.delivery(good).state is DeliveryState.SENT, DEADLINE)
    # Both were made at the same time of this clock, so that either may be first.
    until(lambda: service.delivery(bad).state not in (DeliveryState.QUEUED, DeliveryState.SENDING), DEADLINE)
    assert service.delivery(bad).state is DeliveryState.FAILED


def test_an_idle_delivery_survives_a_restart(start: Start) -> None:
    service = start([0], destinations={DESTINATION: {"transport": "memory", "queue": "x", "retry_first": "1d"}})
    sent = service.send(b"later")
    until(lambda: service.delivery(sent).attempts == 1, DEADLINE)
    service = start()
    service.clock.advance(86_400)
    until(lambda: service.delivery(sent).state is DeliveryState.SENT, DEADLINE)
    assert service.until_state(sent, AttachmentState.FINISHED).size == 5


def test_finished_content_settles_and_its_segment_goes(start: Start) -> None:
    service = start(content={"settle_after": "10s"}, retention={"journal": "60s"})
    content = bytes(range(256)) * 10_000
    sent = service.send(content)
    record = service.until_state(sent, AttachmentState.FINISHED)
    sample = service.gateway.metrics.registry.get_sample_value
    assert sample("attachment_gateway_deliveries_total", {"state": "queued"}) == 1, "it was accepted"
    assert record.storage == "journal"
    service.clock.advance(11)
    service.settler.settle()
    settled = service.attachment(sent)
    assert settled is not None
    assert settled.storage == "store"
    assert service.content(settled) == content
    for _ in range(2):  # a segment is sealed by an append behind its limit
        service.until_state(service.send(bytes(2 << 20)), AttachmentState.FINISHED)
    service.clock.advance(61)
    service.sweeper.sweep()
    service.upkeep.retire_segments()
    assert all(segment.number > 1 for segment in service.gateway.journal.segments())
    assert service.content(settled) == content


def test_an_attachment_without_news_expires_and_a_late_part_revives_it(start: Start) -> None:
    service = start()
    whole = one_attachment(service)
    service.queue.put(whole[:-1])
    until(lambda: service.gateway.catalog.counts()["attachments"]["receiving"] == 1, DEADLINE)
    (record,) = service.gateway.catalog.attachments(AttachmentFilter(), None, 10).items
    assert missing_ranges(record, service.gateway.catalog, service.gateway.journal, 10) == []
    receive_for(own(service.gateway).stream.times, service.clock, 8)
    until(lambda: service.gateway.catalog.counts()["attachments"]["expired"] == 1, DEADLINE)
    service.queue.put(whole[-1:])
    until(lambda: service.gateway.catalog.counts()["attachments"]["finished"] == 1, DEADLINE)


def one_attachment(service: Service) -> list[PhysicalMessage]:
    """The physical messages of one small attachment: header, application message, description, records, count."""
    sent = delivery(service.context, FILES[8:9])
    return list(Framer(framing_options(), service.context.store).frame(sent))


def test_a_deleted_attachment_stays_deleted(start: Start) -> None:
    service = start()
    whole = one_attachment(service)
    service.queue.put(whole)
    until(lambda: service.gateway.catalog.counts()["attachments"]["finished"] == 1, DEADLINE)
    (record,) = service.gateway.catalog.attachments(AttachmentFilter(), None, 10).items
    assert service.gateway.deletion.attachment(record.id)
    assert not service.gateway.deletion.attachment("0" * 32)
    service.queue.put(whole)
    until(lambda: len(service.queue) == 0, DEADLINE)
    sample = service.gateway.metrics.registry.get_sample_value
    until(lambda: (sample("attachment_gateway_duplicates_total", {"source": SOURCE}) or 0) >= 4, DEADLINE)
    assert service.gateway.catalog.counts()["attachments"]["deleted"] == 1
    deleted = {"state": "deleted", "kind": record.kind.word if record.kind else ""}
    assert sample("attachment_gateway_attachments_total", deleted) == 1
    with pytest.raises(KeyError):
        service.gateway.contents.open(replace(record, storage=None))


def test_a_deleted_message_does_not_come_back_from_memory(start: Start) -> None:
    service = start()
    header, application, *parts = one_attachment(service)
    service.queue.put([header, *parts])
    until(lambda: service.gateway.catalog.counts()["attachments"]["finished"] == 1, DEADLINE)
    (record,) = service.gateway.catalog.attachments(AttachmentFilter(), None, 10).items
    assert record.message_id is not None
    with pytest.raises(NotEnded, match="1 of its attachments"):
        service.gateway.deletion.message(record.message_id)
    assert service.gateway.deletion.attachment(record.id)
    assert service.gateway.deletion.message(record.message_id)
    assert not service.gateway.deletion.message(record.message_id)
    service.queue.put([application])
    until(lambda: service.gateway.catalog.counts()["unannounced"]["receiving"] == 1, DEADLINE)
    assert service.gateway.catalog.message(record.message_id) is None
    assert "message.deleted" in service.events()


class Buffering:
    """A receiver that has taken messages, and hands them over when it ends. Its broker keeps none of them."""

    def status(self) -> dict[str, Any]:
        return {"connected": True, "since": None, "error": None}

    def resume(self, newest: Iterator[PhysicalMessage]) -> bool:
        del newest
        return False

    def session(self, name: str | None = None) -> None:
        """Return None: no broker keeps anything."""
        del name

    def run(self, intake: Intake, stop: Event) -> None:
        stop.wait()
        for number in range(50):
            sleep(0.01)
            intake.submit(
                [PhysicalMessage(SOURCE, "sas_queue", 100_001, number.to_bytes(24, "big"), b"x")], lambda: None
            )


def test_what_waits_for_a_source_is_a_metric_and_unknown_is_no_number(tmp_path: Path) -> None:
    told: dict[str, Any] = {"queue_depth": None, "queue_filled": None, "oldest_message_seconds": None}

    class Queued(Buffering):
        def status(self) -> dict[str, Any]:
            return super().status() | told

    with service_context(tmp_path) as context:
        Gateway(context, {SOURCE: Queued(), "other": Buffering()}, {})

        def values() -> dict[str, str]:
            lines = context.metrics.text().decode().splitlines()
            names = ("source_queue_depth", "source_queue_filled_ratio", "source_oldest_message_seconds")
            return {
                name: line.split()[1]
                for line in lines
                for name in names
                if line.startswith(f"attachment_gateway_{name}{{")
            }

        assert list(values().values()) == ["NaN", "NaN", "NaN"]
        told |= {"queue_depth": 5, "queue_filled": 0.25, "oldest_message_seconds": 12.5}
        assert list(values().values()) == ["5.0", "0.25", "12.5"]


@pytest.mark.parametrize("has_room", [True, False])
def test_what_was_taken_from_a_broker_is_written_before_the_end(tmp_path: Path, has_room: bool) -> None:
    limits = {"free_bytes": 0 if has_room else 1 << 60}
    endpoint = {"transport": "memory", "queue": uuid4().hex}
    with service_context(tmp_path, sources={SOURCE: endpoint}, limits=limits) as context, capture_logs() as logs:
        gateway = Gateway(context, {SOURCE: Buffering()}, {})
        gateway.start()
        if not has_room:
            own(gateway).stream.intake.submit([PhysicalMessage(SOURCE, "sas_queue", 100_001)], lambda: None)
            until(lambda: own(gateway).stream.backlog.holding is not None)
        gateway.stop()
    lost = [entry["messages"] for entry in logs if entry["event"] == "messages_not_taken"]
    assert lost == ([] if has_room else [51])
    with closing(
        ArrowJournal(tmp_path / "journal", segment_bytes=1 << 20, segment_age=3600.0, clock=ManualClock())
    ) as journal:
        assert sum(len(batch) for _, batch in journal.replay(None)) == (50 if has_room else 0)


def test_garbage_is_kept_with_its_reason_and_can_be_replayed(start: Start) -> None:
    service = start()
    garbage = [
        PhysicalMessage(SOURCE, "sas_queue", 7, body=b"?"),
        PhysicalMessage(SOURCE, "sas_queue", 100_000, body=b"no header at all"),
        PhysicalMessage(SOURCE, "sas_queue", 100_000, body=b""),
    ]
    whole = one_attachment(service)
    service.queue.put([*garbage, *whole])
    until(lambda: service.gateway.catalog.counts()["attachments"]["finished"] == 1, DEADLINE)
    kept = service.gateway.catalog.quarantined(None, "kept", None, 10).items
    assert sorted(record.code for record in kept) == ["bad-header", "bad-header", "unknown-message-type"]
    assert all(record.why for record in kept)
    (odd,) = [record for record in kept if record.code == "unknown-message-type"]
    assert quarantined_message(odd, service.context).body == b"?"
    assert service.gateway.replayer.replay(odd.id)
    until(lambda: service.events().count("message.quarantined") == 4, DEADLINE)
    again = service.gateway.catalog.quarantine_entry(odd.id)
    assert again is not None
    assert again.state == "replayed"
    kept = service.gateway.catalog.quarantined(None, "kept", None, 10).items
    assert quarantined_message(max(kept, key=lambda record: record.position), service.context).body == b"?"
    assert not service.gateway.replayer.replay("0" * 16)


def test_spoilt_content_quarantines_the_attachment_and_loses_nothing(start: Start) -> None:
    service = start()
    header, application, description, records, count = one_attachment(service)
    service.queue.put([header, application, description, records._replace(body=b"\0\0\x7f\xff"), count])
    until(lambda: service.gateway.catalog.counts()["attachments"]["quarantined"] == 1, DEADLINE)
    (record,) = service.gateway.catalog.attachments(AttachmentFilter(), None, 10).items
    assert record.reason_code == "bad-content"
    assert "byte" in (record.reason or "")
    (kept,) = service.gateway.catalog.quarantined(None, "kept", None, 10).items
    assert (kept.row, kept.at, kept.size) == ("Record.data", 4, 4), "of the records, not of the description before them"
    assert service.gateway.replayer.replay(kept.id)
    until(lambda: service.events().count("attachment.quarantined") == 2, DEADLINE)


def test_what_was_uploaded_for_no_delivery_is_forgotten(start: Start) -> None:
    service = start()
    sent = service.send(b"taken")
    until(lambda: service.delivery(sent).state is DeliveryState.SENT, DEADLINE)
    with service.context.store.create("outgoing/0123/0") as target:
        target.write(b"a client or this process went away")
    service = start()
    assert list(service.context.store.names("outgoing/")) == [sent.attachments[0].object_name]


def test_what_a_killed_repair_has_left_is_removed(start: Start) -> None:
    service = start()
    folder = service.context.settings.data
    before = {*folder.iterdir()}
    with reassembled([], service.context):
        (left,) = (path for path in {*folder.iterdir()} - before if path.is_dir())
        assert (left / "catalog.sqlite").exists()
        start()
        assert not left.exists()


def test_a_quiet_segment_is_sealed_in_time(start: Start) -> None:
    service = start(journal={"segment_age": "60s"})
    service.until_state(service.send(b"x"), AttachmentState.FINISHED)
    service.clock.advance(61)
    seal_old_segment(service.context)
    assert all(segment.sealed_at is not None for segment in service.gateway.journal.segments())


def test_what_settles_while_it_is_deleted_leaves_no_object(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    service = start(content={"settle_after": "0s"})
    record = service.until_state(service.send(bytes(100_000)), AttachmentState.FINISHED)
    set_state = service.gateway.catalog.set_state

    def settled_just_before(*arguments: Any, **more: Any) -> None:
        service.clock.advance(1)
        service.settler.settle()
        set_state(*arguments, **more)

    monkeypatch.setattr(service.gateway.catalog, "set_state", settled_just_before)
    assert service.gateway.deletion.attachment(record.id)
    assert list(service.context.store.names("attachments/")) == []


@pytest.mark.parametrize("last", ["application", "count"])
def test_a_message_is_complete_although_the_catalog_failed_just_before(
    start: Start, monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    monkeypatch.setattr("app.service.finishing.finisher.RETRY_SECONDS", 0.05)
    service = start()
    header, application, *parts, count = one_attachment(service)
    first, second = ([*parts, count], application) if last == "application" else ([application, *parts], count)
    service.queue.put([header, *first])
    until(lambda: service.gateway.catalog.messages(SOURCE, None, 1).items, DEADLINE)
    if last == "application":
        until(lambda: service.gateway.catalog.counts()["attachments"]["finished"] == 1, DEADLINE)
    complete, failures = service.gateway.catalog.complete_messages, [GatewayError("no space left")]

    def fails_once(*arguments: Any) -> set[str]:
        if failures:
            raise failures.pop()
        return complete(*arguments)

    monkeypatch.setattr(service.gateway.catalog, "complete_messages", fails_once)
    service.queue.put([second])
    until(lambda: "message.complete" in service.events(), DEADLINE)
    assert not failures
