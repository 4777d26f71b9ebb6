"""The whole service behind REST and the command line: its parts, started and stopped in order."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import Event

from app.model.errors import CatalogTaken
from app.model.records import EventRecord
from app.observe import logger
from app.ports import ContentStore, Receiver, Segment, Sender
from app.service.content.content_damage import Damages
from app.service.content.content_service import Contents
from app.service.context import ServiceContext
from app.service.events.event_log import EventLog
from app.service.monitoring.catalog_watch import ASK_SECONDS, CatalogCounts, CatalogWatch
from app.service.monitoring.health import Health
from app.service.monitoring.history import History
from app.service.monitoring.peers import Peers, checked
from app.service.quarantine.replays import Replayer
from app.service.receiving.archiver import Archiver
from app.service.receiving.ownership import claim, keep_lock
from app.service.repair.healing import Healer
from app.service.repair.recorder import Recorder
from app.service.repair.scrubber import Scrubber
from app.service.retention.deletion import Deletion
from app.service.retention.sweeper import Sweeper
from app.service.sending.delivery_creation import Deliveries
from app.service.sending.upload_space import UploadSpace
from app.service.stream import Stream
from app.service.tables.table_adapters import TableAdapters
from app.service.threads import Worker, repeat
from app.service.uploads import Uploads
from app.service.webhooks.webhook_threads import Webhooks
from app.settings import microseconds

log = logger(__name__)

SWEEP_SECONDS = 1.0
ARCHIVE_SECONDS = 1.0
LOG_SECONDS = 0.5
STOP_SECONDS = 20.0


class Gateway:
    """Receives, assembles (or leaves that to Spark) and sends. REST calls its parts.

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
        self._is_recovered = False
        self._stop = stop = Event()
        settings = context.settings

        self._damages = Damages(context)
        self.contents = Contents(context, self._damages)
        self._healer = Healer(context, self._damages, self.contents.compared, stop)
        self.stream = Stream(context, receivers, self._damages, self._healer.put, stop)
        self.replayer = Replayer(context, self.stream.intake.journal_again, self.stream.assembly.finish_again)

        self.room = UploadSpace(self.journal.free_bytes, settings.limits.free_bytes)
        self.deliveries = Deliveries(context, senders, self.room.check)
        lifetime = microseconds(settings.retention.uploads)
        self.uploads = Uploads(context.store, context.clock, lifetime, settings.limits, context.metrics)

        self.deletion = Deletion(context, self.stream.assembly.between)
        self._recorder = Recorder(context.catalog, context.store)
        before = self._recorder.record_before_retiring
        self.sweeper = Sweeper(context, self._may_go, self.stream.times, self.stream.assembly.between, before)
        self._archiver = None if archive is None else Archiver(context, archive)
        self._scrubber = Scrubber(context, self._damages, self.contents.compared, stop)

        self.tables = TableAdapters(settings)
        self.counting = CatalogCounts(context.catalog, context.clock)
        self._peers = Peers(context, receivers, self.deliveries.outboxes)
        self.history = History(context.metrics, context.clock, self._peers.connected)
        self._catalog_watch = CatalogWatch(context.catalog, context.clock)
        self.webhooks = Webhooks(context, stop, self._catalog_watch.dead_letters)
        self.event_log = EventLog(context.catalog, self._take_events)
        self._workers = self._make_workers()
        self._observe()

    def _make_workers(self) -> list[Worker]:
        """Return the threads apart from the stream's."""

        def every(seconds: float, name: str, work: Callable[[], None]) -> Worker:
            return Worker(name, lambda: repeat(seconds, self._stop, work))

        workers = [
            every(1.0, "receiving time", self.stream.times.step),
            # Sealing has its own thread: slow work must not keep messages from readers of sealed segments.
            every(SWEEP_SECONDS, "seal", self.sweeper.seal_old_segment),
            every(1.0, "record", self._recorder.attempt),
            every(1.0, "heal", self._healer.step),
            every(SWEEP_SECONDS, "sweep", self.sweeper.sweep),
            every(SWEEP_SECONDS, "uploads", self.uploads.expire),
            every(LOG_SECONDS, "event log", self.event_log.write),
            every(1.0, "history", self.history.sample),
            every(ASK_SECONDS, "catalog", self._catalog_watch.ask),
            Worker("lock", self._keep_lock),
            *(Worker(f"send {name}", outbox.run) for name, outbox in self.deliveries.outboxes.items()),
            *self.webhooks.workers.values(),
        ]
        if self.settings.scrub.enabled:
            workers.append(Worker("scrub", self._scrubber.run))
        if self._archiver is not None:
            workers.append(every(ARCHIVE_SECONDS, "archive", self._archiver.archive))
        return workers

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
        self.stream.recover()
        self.sweeper.drop_abandoned_uploads()
        self.webhooks.open()
        self._catalog_watch.ask()
        for worker in self._workers:
            worker.start()
        self.stream.start()
        self._is_recovered = True

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
        self.stream.stop()
        for worker in self._workers:
            worker.join(STOP_SECONDS)
        try:
            self.stream.times.step()
            self.stream.times.save()
        except Exception:
            log.exception("receiving_time_not_saved")
        with suppress(Exception):  # everything is closed, whatever the catalog says
            self.event_log.write()
        self.journal.close()
        self.catalog.close()
        self.traces.close()

    def health(self) -> Health:
        """Return the checks of all parts, and what follows from them."""
        catalog = self._catalog_watch.check()
        checks = {
            "journal": self.stream.check(),
            "recovery": {"ok": self._is_recovered},
            "catalog": {**checked(self.catalog.log_in(), "catalog", ok=catalog["ok"]), "error": catalog["error"]},
            "assembly": self.stream.assembly.check(),
            "records": self._recorder.check(),
            "scrub": self._scrubber.check(),
            "settling": self.stream.settler.check(),
            "content": self._damages.check(),
            **({} if self._archiver is None else {"archive": self._archiver.check()}),
            **self._peers.check_sources(),
            **self.webhooks.checks(),
            **self._peers.check_destinations(),
        }
        failed = [worker.name for worker in (*self._workers, *self.stream.workers) if worker.failed]
        is_up = self._is_recovered and not self.draining
        return Health.of(checks, failed, is_up=is_up)

    def _keep_lock(self) -> None:
        """Stop the gateway when another one has taken over. Brokers give it the messages that are not acknowledged."""
        try:
            keep_lock(self.context, self._stop)
        except CatalogTaken as error:
            self.stream.backlog.stop()
            self._stop.set()
            self.on_taken(str(error))
            raise

    def _may_go(self, segment: Segment) -> bool:
        archived = self._archiver is None or self._archiver.has(segment)
        return archived and self.stream.assembly.may_go(segment.number)

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
        self._peers.observe()
