"""The role `keep`: what must be done once, whatever the number of processes, by the one that holds the lease."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Event
from typing import Any, Final, NamedTuple

from app.model.errors import GatewayError
from app.model.records import EventRecord
from app.model.times import to_time
from app.observe import Recurring, logger
from app.ports import HeldLease, TableStore
from app.ports.catalog.shared_journal import ReceivingJournal
from app.service.assembling.following import Following
from app.service.content.content_damage import Damages
from app.service.content.settling import Settler
from app.service.context import ArchiveContext, Between, ServiceContext
from app.service.events.event_log import log_events
from app.service.events.event_reader import EventReader
from app.service.receipts.receipt_appender import ReceiptAppender
from app.service.receipts.receipt_sender import ReceiptSender
from app.service.repair.healing import Healer, Reading
from app.service.repair.recorder import Recorder
from app.service.repair.scrubber import Scrubber
from app.service.retention.receiving_time import CountedTime
from app.service.retention.removal import Sweeper
from app.service.roles.election import Election
from app.service.sending.delivery_creation import AbandonedUploads
from app.service.sending.unknown_destinations import UnknownDestinations
from app.service.tables.table_upkeep import TableUpkeep
from app.service.threads import Worker, periodic
from app.service.uploads import Uploads
from app.service.webhooks.webhook_threads import Webhooks

KEEPER: Final = "keeper"
LEASE_SECONDS: Final = 6.0
"""How long a keeper may be silent before another process takes its place."""
SWEEP_SECONDS = 1.0
SETTLE_SECONDS = 1.0
ABANDONED_SECONDS = 3600.0
RECEIPT_SECONDS = 1.0
LOOK_SECONDS: Final = 5.0
"""The pause between two looks for receivers that are away."""
DESTINATIONS_SECONDS = 10.0
"""The pause between two looks for deliveries to destinations that the settings do not name."""
UPKEEP_SECONDS = 60.0
"""The pause between two looks whether upkeep of tables is due."""

log = logger(__name__)


class ReceiversAway:
    """Looks for receivers of a shared journal that have not been seen for a minute. `away` is what it found last.

    What a receiver has acknowledged and not published is on its disk alone. So attachments stay unfinished until it
    comes back, and none expires meanwhile: expiry waits for the receiving time of all receivers. One that does not come
    back is to be forgotten.
    """

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
        self._fault = Recurring(log, "receivers_check")
        self.away: list[ReceivingJournal] = []

    def look(self) -> None:
        """Look which receivers are away, and log those that were not before."""
        try:
            found = [each for each in self._context.catalog.receiving_journals() if each.is_away]
        except Exception as error:  # noqa: BLE001 - `Recurring` logs it
            self._fault.failed(error)
            return
        self._fault.worked()
        before = {each.id for each in self.away}
        for each in found:
            if each.id not in before:
                log.warning(
                    "receiver_missed", receiver=each.receiver, journal=each.id, seen_at=str(to_time(each.seen_at))
                )
        self.away = found
        self._context.metrics.receivers_away.set(len(found))

    def check(self) -> dict[str, Any]:
        """Return who is away, for the health report."""
        away = [
            {"receiver": each.receiver, "journal": each.id, "seen_at": to_time(each.seen_at).isoformat()}
            for each in self.away
        ]
        return {"ok": not away and self._fault.error is None, "away": away, "error": self._fault.error}

    def end(self) -> None:
        """Show nobody in the metric any more: another process is the keeper."""
        self._context.metrics.receivers_away.set(0)


class KeptParts(NamedTuple):
    """The parts of a process that a keeper works with: the receiving time of sources, how changes of attachments are
    made, damage that was found, how content is read and compared, the reader of the event log, what counts dead
    letters, and what opens the tables."""

    times: CountedTime
    between: Between
    damages: Damages
    read: Reading
    events: EventReader
    dead_letters: Callable[[str], float]
    tables: Callable[[], TableStore]


class KeepingTerm:
    """The work of a keeper for as long as it holds the lease: `context.catalog` refuses writes after that.

    Its lines of events continue after the number `noted`.
    """

    def __init__(self, context: ServiceContext, parts: KeptParts, noted: int) -> None:
        self._context, self._parts = context, parts
        self.stop = stop = Event()
        self.recorder = Recorder(context.catalog, context.store)
        self._scrubber = Scrubber(context, parts.damages, parts.read, stop)
        self._settler = Settler(context, parts.damages, stop)
        self.webhooks = Webhooks(context, stop, parts.dead_letters)
        self._upkeep = TableUpkeep(context, parts.tables, stop)
        self._destinations = UnknownDestinations(context)
        every = periodic(stop)
        self._assembly: Following | None = None
        between, assembling = parts.between, []
        is_followed = context.settings.journal.shared and context.settings.assembler == "embedded"
        if is_followed and isinstance(context, ArchiveContext):
            healer = Healer(context, parts.damages, parts.read, stop)
            self._assembly = Following(context, healer.put, stop)
            between = self._assembly.between
            assembling = [*self._assembly.workers, every(1.0, "heal", healer.step)]
        self._away: ReceiversAway | None = None
        if context.settings.journal.shared:
            self._away = ReceiversAway(context)
            assembling.append(every(LOOK_SECONDS, "receivers", self._away.look))
        sweeper = Sweeper(context, parts.times, between)
        self.workers = [
            every(1.0, "record", self.recorder.attempt),
            every(SETTLE_SECONDS, "settle", self._settler.settle),
            every(SWEEP_SECONDS, "sweep", sweeper.sweep),
            every(SWEEP_SECONDS, "uploads", Uploads(context).expire),
            every(ABANDONED_SECONDS, "abandoned uploads", AbandonedUploads(context).step),
            every(UPKEEP_SECONDS, "tables", self._upkeep.step),
            every(DESTINATIONS_SECONDS, "destinations", self._destinations.step),
            *self.webhooks.workers.values(),
            *assembling,
        ]
        self._receipts: ReceiptAppender | None = None
        if context.settings.receipts is not None:
            self._receipts = ReceiptAppender(context, context.settings.receipts)
            self.workers.append(every(RECEIPT_SECONDS / 4, "receipts", self._receipts.step))
            if context.settings.receipts.send_back:
                back = ReceiptSender(context, context.settings.receipts, stop)
                self.workers.append(every(RECEIPT_SECONDS, "receipts back", back.step))
        if context.settings.scrub.enabled:
            self.workers.append(Worker("scrub", self._scrubber.run))
        self._logged = parts.events.follow(self._take, noted)

    @property
    def noted(self) -> int:
        """The number of the event that was logged last: the next keeper continues behind it."""
        return self._logged.after

    def start(self) -> None:
        """Start all threads."""
        for worker in self.workers:
            worker.start()

    def give_up(self, why: str) -> None:
        """Have all threads stop: the lease is lost."""
        del why
        self.stop.set()

    def end(self, longest: float | None = None) -> None:
        """Stop all threads, and wait for each, at most some seconds if `longest` is given."""
        self.stop.set()
        if self._assembly is not None:
            self._assembly.end()
        self._context.notifier.notify()
        for worker in self.workers:
            worker.join(longest)
        if self._away is not None:
            self._away.end()
        self._parts.events.leave(self._logged)

    def checks(self) -> dict[str, dict[str, Any]]:
        """Return the checks for the health report."""
        return {
            "records": self.recorder.check(),
            "scrub": self._scrubber.check(),
            "settling": self._settler.check(),
            "tables": self._upkeep.check(),
            "deliveries": self._destinations.check(),
            **({} if self._assembly is None else {"assembly": self._assembly.check()}),
            **({} if self._receipts is None else {"receipts": self._receipts.check()}),
            **({} if self._away is None else {"receivers": self._away.check()}),
            **self.webhooks.checks(),
        }

    def _take(self, events: Sequence[EventRecord]) -> None:
        log_events(events)
        self._context.traces.take(events, self._context.catalog)


Begin = Callable[[ServiceContext, HeldLease], KeepingTerm]
"""A function that makes the work of a term, with the catalog of the term, and its lease."""


class Keeper(Election[KeepingTerm]):
    """Stands for election, and does the keeper's work while it holds the lease. `at_once` takes it from whoever had it:
    no other process uses the catalog."""

    def __init__(self, context: ServiceContext, begin: Begin, *, at_once: bool) -> None:
        def begun(lease: HeldLease) -> KeepingTerm:
            return begin(replace(context, catalog=context.catalog.under(lease)), lease)

        super().__init__(context.catalog, KEEPER, context.instance, LEASE_SECONDS, begun, at_once=at_once)
        self._context = context
        context.metrics.keeper.set_function(lambda: float(self.term is not None))

    def stop(self) -> None:
        """End the work, so that the lease can be released."""
        super().stop()
        if (term := self.term) is not None:
            term.stop.set()

    def record_before_retiring(self) -> None:
        """Record what the journal will lose, if this process is the keeper. Raises GatewayError if it is not, and the
        journal has no archive, from which it could be read."""
        if (term := self.term) is not None:
            term.recorder.record_before_retiring()
        elif self._context.settings.journal.archive_url is None:
            raise GatewayError("this process is not the keeper, which records the catalog: segments stay meanwhile")
