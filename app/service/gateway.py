"""The whole service behind REST and the command line: its parts, started and stopped in order.

Each process has all parts, and runs those of its roles (`settings.roles`):

| role | threads |
|---|---|
| `receive` | `receive NAME`, `journal NUMBER`, `assemble` and `finish` (with Spark: `listen`) |
| `receive` | `receiving time`, `seal`, `retire`, `archive`, `heal`, `replay`, `lock` |
| `receive` | `answer`, `ask`, `receipt replies` |
| `receive`, as one of several | `receive NAME`, `journal NUMBER`, `publish`; and `end sessions` |
| `receive`, as one of several | `receiving time`, `seal`, `retire`, `replay`, `ask`, `receipt replies`, `leave` |
| `serve` | `send NAME`, `claims NAME`; and REST, which `app.main` runs |
| `keep` | `keeper`, `keeper watch` |
| `keep`, with the lease | `record`, `settle`, `sweep`, `uploads`, `abandoned uploads`, `tables`, `destinations` |
| `keep`, with the lease | `scrub`, `receipts`, `receipts back`, `webhooks HOST` |
| `keep`, with the lease, where several receive | `assemble`, `finish`, `heal`, `receivers` |
| `serve`, `keep` | `archives`, where another process receives |
| any | `history`, `catalog`, `events`; and `news` where other processes write events, too |
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Event
from typing import Any

from app.observe import logger
from app.ports import ContentStore, HeldLease, Receiver, Sender
from app.service.content.content_damage import Damages
from app.service.content.content_service import Contents
from app.service.context import ArchiveContext, ReceiverContext, ServiceContext, WriterContext
from app.service.events.event_reader import EventReader, EventWatch
from app.service.monitoring.catalog_watch import ASK_SECONDS, CatalogCounts, CatalogWatch
from app.service.monitoring.health_report import Health
from app.service.monitoring.history import History
from app.service.monitoring.peers import Peers, checked
from app.service.receipts.receipt_desk import ReceiptDesk
from app.service.repair.reassembling import sweep_temporary_places
from app.service.retention.deletion import Deletion
from app.service.roles.keeping import Keeper, KeepingTerm, KeptParts
from app.service.roles.receiving import OwnReceiving, Receiving, ReceivingElsewhere
from app.service.roles.receiving_together import ReceivingTogether
from app.service.sending.delivery_creation import Deliveries, drop_abandoned_uploads
from app.service.sending.upload_space import UploadSpace
from app.service.tables.table_reader import TableAdapters
from app.service.threads import Worker, periodic
from app.service.uploads import Uploads
from app.service.webhooks.webhook import WebhookDesk
from app.settings import Role

log = logger(__name__)

EVENTS_SECONDS = 0.5
NEWS_SECONDS = 0.2
STOP_SECONDS = 20.0


class Gateway:
    """Receives, assembles (or leaves that to Spark), sends and keeps, as far as these are its roles. REST calls its
    parts.

    Sealed journal segments are copied to `archive` before they are retired. A process that receives together with
    others has a journal of its `own`.
    """

    def __init__(
        self,
        context: ReceiverContext | ArchiveContext,
        receivers: Mapping[str, Receiver],
        senders: Mapping[str, Sender],
        archive: ContentStore | None = None,
        own: WriterContext | None = None,
    ) -> None:
        self.context = context
        self.settings, self.clock = context.settings, context.clock
        self.metrics, self.notifier, self.traces = context.metrics, context.notifier, context.traces
        self.journal, self.catalog, self.store = context.journal, context.catalog, context.store
        self.draining = False
        self.on_taken: Callable[[str], object] = lambda _why: None
        """A function that is called when another gateway has taken over. Nothing may be written any more."""
        self._is_recovered = False
        self._stop = stop = Event()
        settings = context.settings

        self._damages = Damages(context)
        self.contents = Contents(context, self._damages)
        self.events = EventReader(context.catalog)
        self._followed = self.events.follow(self._damages.take)
        self._catalog_watch = CatalogWatch(context.catalog, context.clock)
        self.uploads = Uploads(context)
        self._keeper = Keeper(context, self._begin_term, at_once=not settings.is_catalog_shared)

        self.receiving: Receiving
        if isinstance(context, ReceiverContext):
            self.receiving = OwnReceiving(
                context,
                receivers,
                archive,
                self._damages,
                self.contents.compared,
                stop,
                self._keeper.record_before_retiring,
                self._is_taken,
            )
        elif own is not None:
            self.receiving = ReceivingTogether(context, own, receivers, stop, self._is_taken)
        else:
            self.receiving = ReceivingElsewhere(context, stop, self._is_taken)
        self.receivers = self.receiving.receivers
        self.replayer = self.receiving.replayer
        self.deletion = Deletion(context, self.receiving.between)

        self.room = UploadSpace(self.receiving.free_bytes, settings.limits.free_bytes)
        self.deliveries = Deliveries(context, senders, self.room.check)
        self.webhooks = WebhookDesk(context)
        self.receipts = ReceiptDesk(context.catalog, settings.receipts)
        self.tables = TableAdapters(settings)
        self.counting = CatalogCounts(context.catalog, context.clock)
        self._peers = Peers(context, self.receivers, self.deliveries.outboxes)
        self.history = History(context.metrics, context.clock, self._peers.connected)
        self.events.follow(self.history.take)

        every = periodic(stop)
        self._sending = [Worker(f"send {name}", outbox.run) for name, outbox in self.deliveries.outboxes.items()]
        self._watching = [
            every(1.0, "history", self.history.sample),
            every(ASK_SECONDS, "catalog", self._catalog_watch.ask),
            every(EVENTS_SECONDS, "events", self.events.read),
        ]
        if settings.is_catalog_shared or settings.is_divided or settings.assembler == "spark":
            watch = EventWatch(context.catalog, context.notifier)
            self._watching.append(every(NEWS_SECONDS, "news", watch.look))
        self._observe()

    def start(self) -> None:
        """Do the work that an earlier process left, then start receiving.

        Raises GatewayError when the catalog and the journal do not belong together, or when another gateway uses the
        catalog.
        """
        log.info("gateway_start_begun", assembler=self.settings.assembler)
        roles = self.settings.roles
        self.receiving.recover()
        sweep_temporary_places(self.settings)
        for name in self.deliveries.outboxes:
            if (repeats := self.deliveries.repeats(name)) is not None:
                log.info("repeats_expected", destination=name, repeats=repeats)
        if not self.settings.is_catalog_shared and Role.SERVE in roles:
            drop_abandoned_uploads(self.context)
        self._catalog_watch.ask()
        self.events.look()
        self.events.on_begun = self.receiving.begin_again
        for worker in (*self._watching, *self._sending):
            worker.start()
        if Role.KEEP in roles:
            self._keeper.start()
        self.receiving.start()
        self._is_recovered = True

    def drain(self) -> None:
        """Announce the end: the gateway is no longer ready, and event streams end."""
        self.draining = True
        self.notifier.notify()

    def stop(self) -> None:
        """Stop receiving, finish everything that is in the journal, and close everything."""
        self.drain()
        self._stop.set()
        self._keeper.stop()
        for outbox in self.deliveries.outboxes.values():
            outbox.stop()
        self.receiving.stop()
        for worker in (*self._watching, *self._sending):
            worker.join(STOP_SECONDS)
        with suppress(Exception):  # everything is closed, whatever the catalog says
            self.events.read()
        self._keeper.release()
        self.receiving.close()
        self.catalog.close()
        self.traces.close()

    def health(self) -> Health:
        """Return the checks of all parts, and what follows from them."""
        roles, catalog = self.settings.roles, self._catalog_watch.check()
        term = self._keeper.term
        checks: dict[str, dict[str, Any]] = {
            "process": {"ok": True, "instance": self.context.instance, "roles": sorted(roles)},
            "recovery": {"ok": self._is_recovered},
            "catalog": {**checked(self.catalog.log_in(), "catalog", ok=catalog["ok"]), "error": catalog["error"]},
            "content": self._damages.check(),
            **self.receiving.checks(),
            **self._peers.check_sources(),
            **self._peers.check_destinations(),
        }
        if Role.KEEP in roles:
            checks |= {"keeper": self._keeper.check(), **({} if term is None else term.checks())}
        workers = (*self.receiving.workers, *self._watching, *self._sending, *self._keeper.workers)
        failed = [worker.name for worker in (*workers, *(() if term is None else term.workers)) if worker.failed]
        return Health.of(checks, failed, roles, is_up=self._is_recovered and not self.draining)

    def _is_taken(self, why: str) -> None:
        self.on_taken(why)

    def _begin_term(self, context: ServiceContext, lease: HeldLease) -> KeepingTerm:
        parts = KeptParts(
            times=self.receiving.times,
            between=self.receiving.between,
            damages=self._damages,
            read=self.contents.compared,
            events=self.events,
            dead_letters=self._catalog_watch.dead_letters,
            tables=self.tables.delta,
        )
        noted = self._followed.after if lease.note is None else lease.note
        return KeepingTerm(context, parts, noted)

    def _observe(self) -> None:
        metrics = self.metrics
        metrics.process.labels(self.context.instance, ",".join(sorted(self.settings.roles))).set(1)
        metrics.oldest_unfinished_seconds.set_function(self._catalog_watch.oldest_unfinished)
        metrics.uploads.set_function(lambda: self._catalog_watch.uploads.uploads)
        metrics.uploads_bytes.set_function(lambda: self._catalog_watch.uploads.bytes)
        self._peers.observe()
