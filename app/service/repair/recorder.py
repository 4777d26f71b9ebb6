"""The recorder: it writes rows of the catalog to the records, round by round, before journal segments are retired.

A round writes down the rows that changed since the last one, according to the event log. It is on disk before a segment
is retired (`JournalUpkeep` asks for it). So journal and records together always have the whole catalog. Only changes
since the last round that are not in the journal (a deletion, a delivery) can be missing.

Each object has the identifier of the last event of its round. If that event is not of this catalog, the whole catalog
is recorded. This is so in the first round of all, with a catalog that was rebuilt, with an older copy of it, and after
events were pruned before they were recorded.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from threading import Lock
from typing import Any

from app.model.records import EventRecord
from app.observe import Recurring, logger
from app.ports import Catalog, ContentStore
from app.service.repair import record_files
from app.service.repair.catalog_pages import AT_ONCE, OPEN, attachments_in, batched, ended_attachments, pages
from app.service.repair.record_files import Dropped, RecordFile
from app.service.repair.record_json import Row

log = logger(__name__)

EVENTS_A_ROUND = 50_000
NUMBERS = 10**9
"""How many objects a recorder may write: one a second for thirty years."""


class Recorder:
    """Writes records. Only one recorder may work on a content store at a time.

    One that was paused may write its last object late, when another one is at work. So each has numbers of its own
    (`NUMBERS`), above all that were there when it began: what it writes late is older than what the other one writes.

    `_recording` is held for a whole round. It guards `_reached`, `_next` and `_open`.
    """

    def __init__(self, catalog: Catalog, store: ContentStore) -> None:
        self._catalog, self._store = catalog, store
        self._next: int | None = None
        self._recording = Lock()
        self._reached: int | None = None
        self._open: dict[str, tuple[object, ...]] = {}
        self._fault = Recurring(log, "catalog_record")

    def attempt(self) -> None:
        """Record as `record` does, for a worker that must continue: a failure is logged and reported by `check`."""
        try:
            self.record()
        except Exception as error:  # noqa: BLE001 - `Recurring` logs it
            self._fault.failed(error)
        else:
            self._fault.worked()

    def check(self) -> dict[str, Any]:
        """Return the state of recording for the health report."""
        return {"ok": self._fault.error is None, "error": self._fault.error}

    def record(self) -> None:
        """Write down all changes in the catalog's event log up to now."""
        with self._recording:
            last = self._catalog.last_event()
            if self._reached is None:
                self._reached = self._start(last)
            if last < self._reached:
                self._reached = self._all(last)
            while self._reached < last:
                self._reached = self._round(self._reached, last)

    def record_before_retiring(self) -> None:
        """Record everything that the journal will lose. Call it before segments are retired.

        This includes unfinished attachments: their header may be in a segment that has none of their parts.
        """
        self.record()
        with self._recording:
            known: dict[str, tuple[object, ...]] = {}
            self._write(self._reached or 0, self._changed_open_rows(known))
            self._open = known

    def _changed_open_rows(self, known: dict[str, tuple[object, ...]]) -> Iterator[Row]:
        """Yield the open attachments, and their messages, of which more is known than was recorded."""
        seen: set[str] = set()
        for state in OPEN:
            for some in batched(attachments_in(self._catalog, state)):
                facts = {each.id: (each.kind, each.parts_expected, each.message_id) for each in some}
                known |= facts
                new = [each for each in some if self._open.get(each.id) != facts[each.id]]
                yield from new
                messages = {each.message_id for each in new if each.message_id is not None} - seen
                seen |= messages
                yield from self._catalog.messages_by_id([*messages])

    def record_all(self) -> None:
        """Write down the whole catalog, including what was recorded before."""
        with self._recording:
            self._reached = self._all(self._catalog.last_event())

    def _start(self, last: int) -> int:
        """Return the number of the event up to which everything is recorded."""
        event = record_files.last_recorded_event(self._store)
        if event is None:
            return self._all(last) if last or self._catalog.progress() is not None else 0
        with suppress(ValueError):
            number = self._catalog.event_logs().number(event)
            if number is not None and number <= last:
                return number
        return self._all(last)

    def _round(self, reached: int, last: int) -> int:
        """Record what the next events report, or everything if some of them were pruned."""
        # A power cut must not lose changes whose record survives: they would be logged again under other numbers.
        self._catalog.flush()
        events: list[EventRecord] = []
        while len(events) < EVENTS_A_ROUND and reached < last:
            some = self._catalog.events_after(reached, AT_ONCE)
            if not some or some[-1].number != reached + len(some):
                return self._all(last)
            events += some
            reached = some[-1].number
        self._write(reached, self._reported_rows(events))
        record_files.merge(self._store)
        return reached

    def _all(self, last: int) -> int:
        self._catalog.flush()
        catalog = self._catalog
        messages = pages(lambda cursor: catalog.messages(None, cursor, AT_ONCE))
        quarantine = pages(lambda cursor: catalog.quarantined(None, None, cursor, AT_ONCE))
        deliveries = pages(lambda cursor: catalog.deliveries(None, None, cursor, AT_ONCE))
        self._write(last, chain(ended_attachments(catalog), messages, quarantine, deliveries))
        log.info("catalog_recorded", up_to_event=last)
        return last

    def _write(self, event: int, rows: Iterator[Row | Dropped]) -> None:
        first = next(rows, None)
        if first is None:
            return
        if self._next is None:
            found = record_files.files(self._store)
            self._next = (found[-1].number // NUMBERS + 1) * NUMBERS if found else 1
            self._catalog.flush()  # raises LeaseLost if another recorder may have looked before
        number, self._next = self._next, self._next + 1
        identified = self._catalog.event_logs().identify(event)
        record_files.write(self._store, RecordFile(number, 0), identified, chain((first,), rows))

    def _reported_rows(self, events: Sequence[EventRecord]) -> Iterator[Row | Dropped]:
        subjects: dict[str, dict[str, None]] = {}
        for event in events:
            subjects.setdefault(event.type, {})[event.subject] = None
        attachments = _subjects(subjects, "attachment.")
        dropped = _subjects(subjects, "message.deleted")
        messages = dict.fromkeys([*_subjects(subjects, "message.complete"), *dropped])
        for some in batched(attachments):
            found = self._catalog.attachments_by_id(some)
            yield from (record for record in found if record.state not in OPEN)
            yield from (Dropped("attachment", each) for each in set(some) - {record.id for record in found})
            messages |= dict.fromkeys(record.message_id for record in found if record.message_id is not None)
        for some in batched([*messages]):
            found_messages = self._catalog.messages_by_id(some)
            yield from found_messages
            gone = set(dropped).intersection(some) - {record.id for record in found_messages}
            yield from (Dropped("message", each) for each in gone)
        for each in _subjects(subjects, "message.quarantined"):
            yield self._catalog.quarantine_entry(each) or Dropped("quarantine", each)
        for each in _subjects(subjects, "delivery."):
            yield self._catalog.delivery(each) or Dropped("delivery", each)


def _subjects(by_type: dict[str, dict[str, None]], prefix: str) -> list[str]:
    alike = (subjects for kind, subjects in by_type.items() if kind.startswith(prefix))
    return [*dict.fromkeys(chain.from_iterable(alike))]
