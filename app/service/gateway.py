"""The whole service behind REST and the command line: its workers, started and stopped in order."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import nan
from threading import Event
from time import monotonic
from typing import Any

from app.metrics import Metrics
from app.model.errors import CatalogTaken
from app.model.records import EventRecord
from app.observe import logger
from app.ports import ContentStore, Receiver, Segment, Sender
from app.service.assembling.assembly_hosts import Assembling, Embedded, Landing, journal_again
from app.service.content.content_damage import Damages
from app.service.content.content_service import Contents
from app.service.content.settling import Settler
from app.service.context import ServiceContext
from app.service.events.event_log import EventLog
from app.service.monitoring.catalog_watch import ASK_SECONDS, CatalogWatch
from app.service.monitoring.counts import Counting
from app.service.monitoring.history import History
from app.service.quarantine.replays import Replayer
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
from app.service.sending.upload_space import Room
from app.service.tables.table_adapters import TableAdapters
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
        self.context = context
        self.settings, self.clock = context.settings, context.clock
        self.metrics, self.notifier, self.traces = context.metrics, context.notifier, context.traces
        self.journal, self.catalog, self.store = context.journal, context.catalog, context.store
        self.receivers = receivers
        self.draining = False
        self.on_taken: Callable[[str], object] = lambda _why: None
        """A function that is called when another gateway has taken over. Nothing may be written any more."""
        self._recovered = False
        self._stop = Event()
        self.tables = TableAdapters(context.settings)
        self._damages = Damages(context)
        self.contents = Contents(context, self._damages)
        self._healer = Healer(context, self._damages, self.contents.compared, self._stop)
        self._assembling, self._journaler = _assembling(context, self._healer)
        again = partial(journal_again, self._journaler)
        self.replayer = Replayer(context, again, self._assembling.finish_again)
        self._archiver = None if archive is None else Archiver(context, archive)
        self.history = History(context.metrics, context.clock, self._connections)
        self.counting = Counting(context.catalog, context.clock)
        self._catalog_watch = CatalogWatch(context.catalog, context.clock)
        self._event_log = EventLog(context.catalog, self._take_events)
        self._recorder = Recorder(context.catalog, context.store)
        self._times = ReceivingTime(context, receivers, lambda: self._journaler.holding)
        before = self._recorder.record_before_retiring
        self._sweeper = Sweeper(context, self._may_go, self._times, self._assembling.between, before)
        self._settler = Settler(context, self._damages, self._stop)
        self._scrubber = Scrubber(context, self._damages, self.contents.compared, self._stop)
        self.room = Room(self.journal.free_bytes, context.settings.limits.free_bytes)
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
        claim(self.context)
        for name in self.deliveries.outboxes:
            if (repeats := self.deliveries.repeats(name)) is not None:
                log.info("repeats_expected", destination=name, repeats=repeats)
        self._assembling.recover()
        resume_numbering(self.context, self.receivers, self._journaler.arrivals)
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

    # --- building -------------------------------------------------------------------------------------------------

    def _keep_lock(self) -> None:
        """Stop the gateway when another one has taken over. Brokers give it the messages that are not acknowledged."""
        try:
            keep_lock(self.context, self._stop)
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
