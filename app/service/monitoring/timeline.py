"""The timeline of an attachment: what the catalog, the event log and the journal know of when something happened."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from itertools import groupby, islice
from typing import Final, NamedTuple

from app.model.errors import NotArchived, kind_of_reason
from app.model.records import AttachmentRecord, EventRecord, QuarantineRecord
from app.model.times import to_microseconds, to_time
from app.service.access.audit import AuditLog
from app.service.context import ServiceContext
from app.service.monitoring.physical_messages import MessagesGone, PhysicalMessages
from app.service.monitoring.received_runs import refused_messages

EDGE_BATCHES: Final = 32
"""The number of journal batches that are read from the first message on, and up to the last one."""
_EVENT: Final = "attachment."
_RECEIPT: Final = "receipt."
_IN_THE_RECORD: Final = frozenset(("attachment.finished",))
_ORDER: Final = (
    *("first-message", "header", "first-part", "count", "last-part", "last-message", "message-quarantined"),
    *("complete", "finished", "message-complete", "settled", "read"),
)


SEARCHED_BYTES: Final = 32 << 20
"""The newest bytes of the audit log that are searched: some 100,000 entries in some 0.05 s."""
MOST_READS: Final = 10_000
"""The most reads of an attachment that are counted."""
MOST_READERS: Final = 20
"""The most readers that are listed by name: those who read most."""
_ACTION: Final = "read-content"


class Moment(NamedTuple):
    """Something that happened at a time (µs): a word for programs, and a sentence for people, if there is more to
    say. What happened several `times`, but for numbers, happened last at `last_time`."""

    time: int
    type: str
    detail: str | None = None
    times: int = 1
    last_time: int | None = None


def timeline(record: AttachmentRecord, context: ServiceContext) -> list[Moment]:
    """Return what is known to have happened to an attachment, in order.

    Times of single messages come from the journal, as long as this process can read them there, and only where its
    first and last batches show them. Raises CatalogError.
    """
    moments = [*_messages(record, context), *_record(record), *_refused(record, context), *_events(record, context)]
    return in_order(moments)


def in_order(moments: Iterable[Moment]) -> list[Moment]:
    """Return moments by their time; for equal times, in the order in which they usually happen."""
    return sorted(moments, key=lambda moment: (moment.time, _ORDER.index(moment.type) if moment.type in _ORDER else 99))


def _messages(record: AttachmentRecord, context: ServiceContext) -> Iterator[Moment]:
    message = None if record.message_id is None else context.catalog.message(record.message_id)
    if message is not None:
        yield Moment(message.received_at, "header", f"message {message.id}")
        if message.complete_at is not None:
            yield Moment(message.complete_at, "message-complete", f"message {message.id}")
    parts = []
    with suppress(MessagesGone, NotArchived):
        found = PhysicalMessages(record, context).ends(EDGE_BATCHES)
        counts = [each for each in found if each.kind == "count"]
        parts = [each for each in found if each.kind == "part"]
        if counts and record.parts_expected is not None:
            yield Moment(counts[0].message.received_at, "count", f"{record.parts_expected} parts")
    if parts:
        first, last = (pick(parts, key=lambda each: each.position) for pick in (min, max))
        yield Moment(first.message.received_at, "first-part", _part(first.sequence))
        yield Moment(last.message.received_at, "last-part", _part(last.sequence))
    else:
        yield Moment(record.first_received_at, "first-message")
    yield Moment(record.last_received_at, "last-message")


def _part(sequence: int | None) -> str | None:
    return None if sequence is None else f"part {sequence}"


def _record(record: AttachmentRecord) -> Iterator[Moment]:
    if record.completed_at is not None:
        yield Moment(record.completed_at, "complete", f"{record.parts_expected} parts")
    if record.finished_at is not None:
        yield Moment(record.finished_at, "finished", f"{record.size} bytes, {record.content_type}")
    if record.settled_at is not None:
        yield Moment(record.settled_at, "settled")


def _refused(record: AttachmentRecord, context: ServiceContext) -> Iterator[Moment]:
    """Yield the physical messages of an attachment that are in quarantine, one moment for each kind."""
    alike: dict[tuple[str, str], list[QuarantineRecord]] = {}
    for entry in refused_messages(record, context):
        alike.setdefault((entry.code, kind_of_reason(entry.why)), []).append(entry)
    for (code, kind), entries in alike.items():
        why = entries[0].why if len({entry.why for entry in entries}) == 1 else kind
        moment = Moment(entries[0].received_at, "message-quarantined", f"{code}: {why}", len(entries))
        yield moment if len(entries) == 1 else moment._replace(last_time=entries[-1].received_at)


def _events(record: AttachmentRecord, context: ServiceContext) -> Iterator[Moment]:
    shown = [
        event
        for event in context.catalog.events_about(record.id, record.first_received_at)
        if event.type.startswith((_EVENT, _RECEIPT)) and event.type not in _IN_THE_RECORD
    ]
    for (type_, detail), alike in groupby(shown, key=lambda event: (event.type, _detail(event))):
        first, *others = alike
        last = others[-1].time if others else None
        yield Moment(first.time, type_.removeprefix(_EVENT).replace(".", "-"), detail, 1 + len(others), last)


def _detail(event: EventRecord) -> str | None:
    reason, warnings = event.data.get("reason"), event.data.get("warnings")
    if isinstance(warnings, list):
        return "; ".join(map(str, warnings))
    if event.type.startswith(_RECEIPT):
        return f"number {event.data['leaf_index']} of the log of receipts"
    return None if reason is None else str(reason)


def reads(record: AttachmentRecord, log: AuditLog, *, names_readers: bool) -> list[Moment]:
    """Return a moment for each reader of an attachment's content, at its first read, with how often it has read.

    Without names, all readers are one. Requests for ranges count one by one, those that were refused or failed not at
    all. What lies further back than `SEARCHED_BYTES` bytes is not known.
    """
    found = log.about(record.id, to_time(record.first_received_at), SEARCHED_BYTES)
    expected = record.id, _ACTION, "done"
    done = (each for each in found if (each.get("attachment"), each.get("action"), each.get("result")) == expected)
    readers: list[tuple[str, str]] = []
    for each in islice(done, MOST_READS):
        who = each.get("who") or {}
        name = f"{who.get('name', 'somebody')} ({who.get('kind', 'not known')})" if names_readers else ""
        readers.append((name, str(each["time"])))
    times = Counter(name for name, _ in readers)
    last = dict(reversed(readers))
    first = dict(readers)
    moments: list[Moment] = []
    for name, count in times.most_common(MOST_READERS):
        begin, end = (to_microseconds(datetime.fromisoformat(each[name])) for each in (first, last))
        moments.append(Moment(begin, "read", f"by {name}" if name else None, count, end if count > 1 else None))
    return moments
