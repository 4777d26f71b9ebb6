"""The whole service behind REST and the command line: its workers, started and stopped in order."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import nan
from threading import Event, Lock
from time import monotonic
from typing import Any

from app import plugins
from app.assembly.states import Input, follow
from app.metrics import Metrics
from app.model.attachment import AttachmentState
from app.model.errors import CatalogTaken
from app.model.identity import attachment_id as identify
from app.model.message import PhysicalMessage
from app.model.records import DAMAGED_PART, AttachmentRecord, EventRecord, QuarantineRecord
from app.observe import logger
from app.ports import ContentStore, IcebergTables, Receiver, Segment, Sender, TableStore
from app.service.assembling.assembly_hosts import Assembling, Embedded, Landing, journal_again
from app.service.content.content_damage import Damages
from app.service.content.content_service import Contents
from app.service.content.settling import Settler
from app.service.context import ServiceContext
from app.service.events.event_log import EventLog
from app.service.finishing.partial_content import LeadingBytes, LeadingRows, leading_bytes, leading_rows
from app.service.finishing.stored_parts import missing_ranges
from app.service.monitoring.catalog_watch import ASK_SECONDS, CatalogWatch
from app.service.monitoring.counts import CatalogCounts
from app.service.monitoring.history import History
from app.service.monitoring.physical_messages import PhysicalMessages
from app.service.monitoring.received_runs import ReceivedParts, parts_of
from app.service.monitoring.timeline import Moment, timeline
from app.service.quarantine.quarantine_records import is_lost_batch, messages_of_batch, quarantined_message
from app.service.quarantine.replays import Replayed, attachment_of, outcome, settled
from app.service.receiving.archiver import Archiver
from app.service.receiving.intake import Journaler
from app.service.receiving.ownership import claim, keep_lock
from app.service.receiving.resumed_numbering import resume_numbering
from app.service.repair.healing import Healer
from app.service.repair.recorder import Recorder
from app.service.repair.scrubber import Scrubber
from app.service.retention.deletion import Deletion
from app.service.retention.receiving_time import ReceivingTime
from app.service.retention.sweeper import Sweeper
from app.service.sending.delivery_creation import Deliveries
from app.service.sending.upload_space import UploadSpace
from app.service.threads import Worker, repeat
from app.service.uploads import Uploads
from app.service.webhooks.webhook_threads import Webhooks
from app.settings import microseconds

log = logger(__name__)

SWEEP_SECONDS = 1.0
HEAL_SECONDS = 1.0
STEP_SECONDS = 1.0
ARCHIVE_SECONDS = 1.0
LOG_SECONDS = 0.5
RECORD_SECONDS = 1.0
SAMPLE_SECONDS = 1.0
EVENTS_AT_ONCE = 500
STOP_SECONDS = 20.0
JOURNAL_WORKERS = ("journal", "journal ahead")
"""Both run the intake's writer: one encodes while the other waits for the disk."""
HAND_OVER_SECONDS, POLL_SECONDS = 5.0, 0.1


@dataclass(frozen=True, slots=True)
class Health:
    """The health of the process: whether it should live on, whether clients can read, whether it can receive, whether
    it is ready by `http.ready`, and the checks."""

    live: bool
    read: bool
    receive: bool
    ready: bool
    checks: dict[str, dict[str, Any]]


class Gateway:
    """Receives, assembles (or leaves that to Spark) and sends; answers REST where the catalog alone cannot.

    Sealed journal segments are copied to `archive` before they are retired.
    """

    def __init__(
        self,
        context: ServiceContext,
        receivers: Mapping[str, Receiver],
        senders: Mapping[str, Sender],
        archive: ContentStore | None = None,
    ) -> None:
        self.settings, self.clock = context.settings, context.clock
        self.metrics, self.notifier, self.traces = context.metrics, context.notifier, context.traces
        self.journal, self.catalog, self.store = context.journal, context.catalog, context.store
        self.receivers = receivers
        self.draining = False
        self.on_taken: Callable[[str], object] = lambda _why: None
        """A function that is called when another gateway has taken over. Nothing may be written any more."""
        self._recovered = False
        self._stop = Event()
        self._tables: TableStore | None = None
        self._iceberg: IcebergTables | None = None
        self._opening_tables = Lock()
        self._damages = Damages(context)
        self.contents = Contents(context, self._damages)
        self._healer = Healer(context, self._damages, self.contents.compared, self._stop)
        self._assembling, self._journaler = _assembling(context, self._healer)
        self._archiver = None if archive is None else Archiver(context, archive)
        self.history = History(context.metrics, context.clock, self._connections)
        self.counting = CatalogCounts(context.catalog, context.clock)
        self._catalog_watch = CatalogWatch(context.catalog, context.clock)
        self._event_log = EventLog(context.catalog, self._take_events)
        self._recorder = Recorder(context.catalog, context.store)
        self._context = context
        self._times = ReceivingTime(context, receivers, lambda: self._journaler.holding)
        before = self._recorder.record_before_retiring
        self._sweeper = Sweeper(context, self._may_go, self._times, self._assembling.between, before)
        self._settler = Settler(context, self._damages, self._stop)
        self._scrubber = Scrubber(context, self._damages, self.contents.compared, self._stop)
        self.room = UploadSpace(self.journal.free_bytes, context.settings.limits.free_bytes)
        self.deliveries = Deliveries(context, senders, self.room.check)
        lifetime, limits = microseconds(context.settings.retention.uploads), context.settings.limits
        self.uploads = Uploads(context.store, context.clock, lifetime, limits, context.metrics)
        self.deletion = Deletion(context, self._assembling.between)
        self._receiving = [
            Worker(f"receive {name}", self._receive(name, receiver)) for name, receiver in receivers.items()
        ]
        self._workers = {
            **{name: Worker(name, self._journaler.run) for name in JOURNAL_WORKERS},
            **{worker.name: worker for worker in self._assembling.workers},
            "receiving time": Worker("receiving time", lambda: repeat(STEP_SECONDS, self._stop, self._times.step)),
            # Sealing has its own thread: slow work must not keep messages from readers of sealed segments.
            "seal": Worker("seal", lambda: repeat(SWEEP_SECONDS, self._stop, self._sweeper.seal_old_segment)),
            "record": Worker("record", lambda: repeat(RECORD_SECONDS, self._stop, self._recorder.attempt)),
            "scrub": Worker("scrub", self._scrubber.run if context.settings.scrub.enabled else lambda: None),
            "heal": Worker("heal", lambda: repeat(HEAL_SECONDS, self._stop, self._healer.step)),
            "sweep": Worker("sweep", lambda: repeat(SWEEP_SECONDS, self._stop, self._sweeper.sweep)),
            "uploads": Worker("uploads", lambda: repeat(SWEEP_SECONDS, self._stop, self.uploads.expire)),
            "event log": Worker("event log", lambda: repeat(LOG_SECONDS, self._stop, self._event_log.write)),
            "history": Worker("history", lambda: repeat(SAMPLE_SECONDS, self._stop, self.history.sample)),
            "lock": Worker("lock", self._keep_lock),
            "catalog": Worker("catalog", lambda: repeat(ASK_SECONDS, self._stop, self._catalog_watch.ask)),
            "settle": Worker("settle", lambda: repeat(SWEEP_SECONDS, self._stop, self._settler.settle)),
            **{f"send {name}": Worker(f"send {name}", outbox.run) for name, outbox in self.deliveries.outboxes.items()},
        }
        self.webhooks = Webhooks(context, self._stop, self._catalog_watch.dead_letters)
        self._workers |= self.webhooks.workers
        if self._archiver is not None:
            archive_all = self._archiver.archive
            self._workers["archive"] = Worker("archive", lambda: repeat(ARCHIVE_SECONDS, self._stop, archive_all))
        self._observe()

    # --- life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Do the work that an earlier process left, then start receiving.

        Raises GatewayError when the catalog and the journal do not belong together, or when another gateway uses the
        catalog.
        """
        log.info("gateway_start_begun", assembler=self.settings.assembler)
        claim(self._context)
        for name in self.deliveries.outboxes:
            if (repeats := self.deliveries.repeats(name)) is not None:
                log.info("repeats_expected", destination=name, repeats=repeats)
        self._assembling.recover()
        resume_numbering(self._context, self.receivers, self._journaler.arrivals)
        self._sweeper.drop_abandoned_uploads()
        self.webhooks.open()
        self._catalog_watch.ask()
        for worker in self._workers.values():
            worker.start()
        for receiving in self._receiving:
            receiving.start()
        self._recovered = True

    def drain(self) -> None:
        """Announce the end: the gateway is no longer ready, and event streams end."""
        self.draining = True
        self.notifier.notify()

    def stop(self) -> None:
        """Stop receiving, finish everything that is in the journal, and close everything."""
        self.drain()
        self._stop.set()
        for outbox in self.deliveries.outboxes.values():
            outbox.stop()
        self._end_receiving()
        for name in JOURNAL_WORKERS:
            self._workers[name].join(STOP_SECONDS)
        if lost := self._journaler.unwritten:
            why = self._journaler.holding or "the gateway stops"
            log.warning(
                "messages_not_taken", messages=lost, reason=why, effect="brokers that keep messages send them again"
            )
        self._assembling.stop()
        for worker in self._workers.values():
            worker.join(STOP_SECONDS)
        self._save_times()
        with suppress(Exception):  # everything is closed, whatever the catalog says
            self._event_log.write()
        self.journal.close()
        self.catalog.close()
        self.traces.close()

    def _end_receiving(self) -> None:
        """Let the receivers hand over what they have already taken, and stop the journal.

        Some brokers keep nothing of it. While the journal cannot be written, receivers wait for it until it stops.
        """
        deadline = monotonic() + HAND_OVER_SECONDS
        for receiving in self._receiving:
            while receiving.alive and self._journaler.holding is None and (left := deadline - monotonic()) > 0:
                receiving.join(min(left, POLL_SECONDS))
        self._journaler.stop()
        for receiving in self._receiving:
            receiving.join(STOP_SECONDS)

    def health(self) -> Health:
        failed = [worker.name for worker in (*self._workers.values(), *self._receiving) if worker.failed]
        checks: dict[str, dict[str, Any]] = {
            "stages": {"ok": not failed, "failed": failed},
            "journal": {"ok": self._journaler.holding is None, "holding": self._journaler.holding},
            "recovery": {"ok": self._recovered},
            "catalog": self._check_catalog(),
            "assembly": self._assembling.check(),
            "records": self._recorder.check(),
            "scrub": self._scrubber.check(),
            "settling": self._settler.check(),
            "content": self._damages.check(),
        }
        if self._archiver is not None:
            checks["archive"] = self._archiver.check()
        for name, receiver in self.receivers.items():
            status = receiver.status()
            ok = bool(status["connected"]) and not status.get("warning")
            checks[f"source {name}"] = _checked(status, f"sources.{name}", ok=ok)
        checks |= self.webhooks.checks()
        for name, outbox in self.deliveries.outboxes.items():
            status, repeats = outbox.status(), outbox.sender.repeats()
            ok = status.get("error") is None
            checks[f"destination {name}"] = {**_checked(status, f"destinations.{name}", ok=ok), "repeats": repeats}
        is_up = self._recovered and not self.draining and not failed
        able = {"read": is_up and checks["catalog"]["ok"], "receive": is_up and checks["journal"]["ok"]}
        ready = all(able[each] for each in self.settings.http.ready)
        return Health(live=not failed, ready=ready, **able, checks=checks)

    def _check_catalog(self) -> dict[str, Any]:
        """Return the check of the catalog: whether it answers, and whether it refuses the gateway's credentials."""
        answers = self._catalog_watch.check()
        return {**_checked(self.catalog.log_in(), "catalog", ok=answers["ok"]), "error": answers["error"]}

    # --- functions for REST ---------------------------------------------------------------------------------------

    def parts(self, record: AttachmentRecord, first: int, last: int | None) -> ReceivedParts:
        """Return the parts of an attachment; see `app.service.monitoring.received_runs.parts_of`."""
        return parts_of(record, self._context, first, last)

    def timeline(self, record: AttachmentRecord) -> list[Moment]:
        """Return what happened to an attachment; see `app.service.monitoring.timeline.timeline`."""
        return timeline(record, self._context)

    def physical_messages(self, record: AttachmentRecord) -> PhysicalMessages:
        """Return the physical messages of an attachment. Raises Gone if the journal has none of them."""
        message = None if record.message_id is None else self.catalog.message(record.message_id)
        return PhysicalMessages(record, message.header_position if message else None, self.journal)

    def leading_bytes(self, record: AttachmentRecord, first: int, most: int) -> LeadingBytes:
        """Return bytes of a file that is not complete; see `app.service.finishing.partial_content.leading_bytes`."""
        return leading_bytes(record, self._context, first, most)

    def leading_rows(self, record: AttachmentRecord, most: int) -> LeadingRows:
        """Return rows of a data set that is not complete; see `app.service.finishing.partial_content.leading_rows`."""
        return leading_rows(record, self._context, most)

    def missing_ranges(self, record: AttachmentRecord, limit: int) -> list[tuple[int, int]]:
        """Return the ranges of missing parts; see `app.service.finishing.stored_parts.missing_ranges`."""
        return missing_ranges(record, self.catalog, self.journal, limit)

    def quarantined_body(self, record: QuarantineRecord) -> bytes:
        """Return a quarantined physical message's body. Raises KeyError when its segment is gone."""
        return bytes(self.quarantined(record).body)

    def quarantined(self, record: QuarantineRecord) -> PhysicalMessage:
        """Return a quarantined physical message. Raises KeyError when its segment is gone."""
        return quarantined_message(record, self.catalog, self.store, self.journal)

    def replay_quarantine(self, quarantine_id: str) -> Replayed | None:
        """Process a quarantined message, or the attachment whose content it spoilt, again. Return a function that waits
        for the outcome, or None when there is no such entry.

        Raises KeyError when its segment is gone, and JournalFull when it cannot be processed at present.
        """
        record = self.catalog.quarantine_entry(quarantine_id)
        if record is None:
            return None
        if record.code == DAMAGED_PART:
            return self._finish_damaged(record)
        if is_lost_batch(record):
            return self._replay_batch(record)
        since = self.catalog.last_event()
        message = quarantined_message(record, self.catalog, self.store, self.journal)
        spoilt = attachment_of(message, self.catalog)
        mark = partial(self.catalog.set_quarantine_state, quarantine_id, "replayed")
        if spoilt is not None and follow(spoilt.state, Input.REPLAY) is AttachmentState.COMPLETE:
            mark()
            self.catalog.set_state([spoilt.id], AttachmentState.COMPLETE)
            self._assembling.finish_again(spoilt.id)
            return partial(settled, self._context, [spoilt.id])
        journal_again(self._journaler, [message], mark)
        return partial(outcome, self._context, [message], since)

    def _replay_batch(self, entry: QuarantineRecord) -> Replayed:
        """Have all messages of a batch assembled that could not be read back, as its disk may work again."""
        since = self.catalog.last_event()
        messages = messages_of_batch(entry, self.journal)
        mark = partial(self.catalog.set_quarantine_state, entry.id, "replayed")
        journal_again(self._journaler, messages, mark)
        return partial(outcome, self._context, messages, since)

    def _finish_damaged(self, entry: QuarantineRecord) -> Replayed:
        """Have an attachment read again of which a part could not be read back, as its disk may work again."""
        attachment = self.catalog.attachment(identify(entry.source, entry.correl_id))
        self.catalog.set_quarantine_state(entry.id, "replayed")
        if attachment is not None and follow(attachment.state, Input.REPLAY) is AttachmentState.COMPLETE:
            self.catalog.set_state([attachment.id], AttachmentState.COMPLETE)
            self._assembling.finish_again(attachment.id)
        return partial(settled, self._context, [] if attachment is None else [attachment.id])

    def tables(self) -> TableStore:
        """Return the store of data set tables. Raises PluginError when the library that reads them is missing."""
        with self._opening_tables:
            if self._tables is None:
                self._tables = plugins.table_store()(self.settings.tables_url)
            return self._tables

    def iceberg_tables(self) -> IcebergTables:
        """Return the tables as Iceberg tables. Raises PluginError when the library that makes them is missing."""
        with self._opening_tables:
            if self._iceberg is None:
                self._iceberg = plugins.iceberg()(self.settings.tables_url, self.settings.data)
            return self._iceberg

    def wait_events(self, after: int, timeout: float) -> list[EventRecord]:
        """Return the events after a number; wait up to `timeout` seconds for the first."""
        seen = self.notifier.notifications
        events = self.catalog.events_after(after, EVENTS_AT_ONCE)
        if events or self.draining:
            return events
        self.notifier.wait(seen, timeout)
        return self.catalog.events_after(after, EVENTS_AT_ONCE)

    # --- building -------------------------------------------------------------------------------------------------

    def _keep_lock(self) -> None:
        """Stop the gateway when another one has taken over. Brokers give it the messages that are not acknowledged."""
        try:
            keep_lock(self._context, self._stop)
        except CatalogTaken as error:
            self._journaler.stop()
            self._stop.set()
            self.on_taken(str(error))
            raise

    def _may_go(self, segment: Segment) -> bool:
        archived = self._archiver is None or self._archiver.has(segment)
        return archived and self._assembling.may_go(segment.number)

    def _connections(self) -> dict[str, bool]:
        """Return which sources and destinations are connected."""
        sources = {f"source {name}": receiver.status() for name, receiver in self.receivers.items()}
        outboxes = self.deliveries.outboxes
        destinations = {f"destination {name}": outbox.sender.status() for name, outbox in outboxes.items()}
        return {name: bool(status["connected"]) for name, status in (sources | destinations).items()}

    def _receive(self, name: str, receiver: Receiver) -> Callable[[], None]:
        return lambda: receiver.run(self._times.intake(name, self._journaler), self._stop)

    def _save_times(self) -> None:
        try:
            self._times.step()
            self._times.save()
        except Exception:
            log.exception("receiving_time_not_saved")

    def _take_events(self, events: Sequence[EventRecord]) -> None:
        self.history.take(events)
        self._damages.take(events)
        self.traces.take(events, self.catalog)

    def _observe(self) -> None:
        metrics = self.metrics
        metrics.journal_bytes.set_function(lambda: sum(segment.size for segment in self.journal.segments()))
        metrics.journal_segments.set_function(lambda: len(self.journal.segments()))
        metrics.free_bytes.set_function(self.journal.free_bytes)
        metrics.oldest_unfinished_seconds.set_function(self._catalog_watch.oldest_unfinished)
        _observe_log_in(metrics, "catalog", self.catalog.log_in)
        for name, receiver in self.receivers.items():
            source = self.settings.sources.get(name)
            if source is not None:
                metrics.name_source(name, source.transport, source.address)
            metrics.source_connected.labels(name).set_function(_connected(receiver))
            _observe_status(metrics, name, receiver)
            _observe_log_in(metrics, f"sources.{name}", receiver.status)
        for name, outbox in self.deliveries.outboxes.items():
            destination = self.settings.destinations.get(name)
            if destination is not None:
                metrics.name_destination(name, destination.transport, destination.address)
            metrics.destination_connected.labels(name).set_function(_connected(outbox.sender))
            _observe_log_in(metrics, f"destinations.{name}", outbox.sender.status)


def _assembling(context: ServiceContext, healer: Healer) -> tuple[Assembling, Journaler]:
    if context.settings.assembler == "spark":
        return Landing(context), Journaler(context)
    embedded = Embedded(context, healer.put)
    return embedded, Journaler(context, embedded.forward)


def _connected(peer: Receiver | Sender) -> Callable[[], float]:
    return lambda: float(bool(peer.status()["connected"]))


def _checked(status: Mapping[str, Any], table: str, *, ok: bool) -> dict[str, Any]:
    """Return a check, with the whole name of the setting that the status tells as its `credential`, if it does."""
    told = {"ok": ok and status.get("refused_since") is None, **status}
    return told | {"credential": f"{table}.{status['credential']}"} if status.get("credential") else told


def _observe_log_in(metrics: Metrics, table: str, status: Callable[[], Mapping[str, Any]]) -> None:
    """Show whether the credentials of a table of the settings are refused, where somebody logs in."""
    if (credential := status().get("credential")) is not None:
        refused = metrics.credential_refused.labels(f"{table}.{credential}")
        refused.set_function(lambda: float(status()["refused_since"] is not None))


def _observe_status(metrics: Metrics, name: str, receiver: Receiver) -> None:
    """Show what a source dropped, what waits for it, and what its transport advises, where its status tells of it."""
    status = receiver.status()
    for key, gauge in (
        ("dropped", metrics.source_dropped),
        ("queue_depth", metrics.source_queue_depth),
        ("queue_filled", metrics.source_queue_filled),
        ("oldest_message_seconds", metrics.source_oldest_message),
    ):
        if key in status:
            gauge.labels(name).set_function(_number_of(receiver, key))
    for level in status.get("advisories", ()):
        metrics.source_advisories.labels(name, level).set_function(_advised(receiver, level))


def _number_of(receiver: Receiver, key: str) -> Callable[[], float]:
    def number() -> float:
        value = receiver.status()[key]
        return nan if value is None else float(value)

    return number


def _advised(receiver: Receiver, level: str) -> Callable[[], float]:
    return lambda: float(receiver.status()["advisories"].get(level, 0))
