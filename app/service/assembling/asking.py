"""Requests to senders for the parts of attachments that have not come.

An attachment is asked for when it got no message for `request_missing_after` of time in which its source could receive,
and still lacks something. Marks in memory say which journal position had been assembled at which count of that time; so
after a start nobody is asked before that time has passed again.

A request is recorded before it is sent. A process that ends in between loses the request, and does not repeat it at
once: it is asked again after the pause, as after any request that brought nothing. Pauses are at least a minute, and
double. So each attachment counts once in a minute, and the rows of the last minute are the rate, for all processes and
over restarts. After the last request the attachment expires as any other.

The question goes out by the receiver of the source. Where the message does not say where to reply, or no address is
allowed, the event `attachment.missing` alone tells of it: to webhooks, and to whoever reads events.
"""

from collections import deque
from collections.abc import Mapping
from math import inf
from typing import Final, NamedTuple

from app.assembly.part_places import Parts
from app.codecs.missing_parts.request_documents import MEDIA_TYPE, MissingParts, write_document
from app.framing.missing_numbers import missing_parts
from app.model.message import PhysicalMessage
from app.model.records import AttachmentRecord
from app.model.trace_context import trace_fields
from app.observe import logger
from app.ports import Catalog, MissingRequest, Receiver, Reply
from app.service.assembling.reply_paths import ReplyPath, ReplyPaths
from app.service.context import ServiceContext
from app.service.events.event_entries import missing_event
from app.service.finishing.stored_parts import messages_at, missing_ranges
from app.service.retention.receiving_time import CountedTime
from app.settings import Source, microseconds

log = logger(__name__)

AT_ONCE: Final = 100
"""The most requests in one step. Each reads from the journal what has come of an attachment."""
RANGES: Final = 100
MINUTE: Final = 60_000_000
MARKS: Final = 32
"""Marks in the time after which is asked. It is asked late by at most the time between two marks."""


class _Mark(NamedTuple):
    """The packed position that assembly had reached when a source had been able to receive for `counted` µs."""

    counted: int
    position: int


class Asking(NamedTuple):
    """A request that is about to be sent, and the way on which it goes; None if an event tells of it alone."""

    record: AttachmentRecord
    asked: MissingParts
    message: PhysicalMessage | None
    path: ReplyPath | None

    @property
    def address(self) -> str | None:
        return None if self.path is None else self.path.address


class Askers:
    """Asks the senders of those sources that say after which time. `times` counts the time in which they could
    receive. One thread calls `mark` and `ask`."""

    def __init__(self, context: ServiceContext, receivers: Mapping[str, Receiver], times: CountedTime) -> None:
        self._context, self._times = context, times
        settings = context.settings
        self._sources = {
            name: source for name, source in settings.sources.items() if source.request_missing_after is not None
        }
        self._paths = ReplyPaths(settings, receivers)
        self._marks: dict[str, deque[_Mark]] = {name: deque() for name in self._sources}
        self._due = dict.fromkeys(self._sources, -inf)
        """When to look again for attachments of a source: each look reads all that are being received."""

    @property
    def has_sources(self) -> bool:
        return bool(self._sources)

    def mark(self) -> bool:
        """Take note of how far sources are. Return whether one of them may have something to ask for."""
        reached = self._context.catalog.progress()
        known = {*self._times.sources}  # which reads them, where other processes count
        if reached is None:
            return False
        for name, source in self._sources.items():
            if name not in known:
                continue
            counted, after, marks = self._times.counted(name), _after(source), self._marks[name]
            if not marks or counted - marks[-1].counted >= after // MARKS:
                marks.append(_Mark(counted, reached))
            while len(marks) > 1 and marks[1].counted <= counted - after:
                marks.popleft()
        return any(self._silent_until(name) is not None for name in self._sources)

    def ask(self, catalog: Catalog) -> None:
        """Ask for what is due, with a catalog that only one process can write to in this."""
        for received in catalog.count_received_after_requests():
            self._context.metrics.missing_received.labels(received.source).inc(received.parts)
        for name, source in self._sources.items():
            is_due = self._context.clock.monotonic() >= self._due[name]
            position = self._silent_until(name) if is_due else None
            if position is not None and self._paths.is_connected(name):
                self._ask_at(name, source, position, catalog)

    def _ask_at(self, name: str, source: Source, position: int, catalog: Catalog) -> None:
        """Ask for the attachments of a source that got nothing after a packed position, as far as the rate allows."""
        now = self._context.clock.now()
        room = min(source.request_missing_rate - catalog.requests_between(name, now - MINUTE, now), AT_ONCE)
        if room <= 0:
            return
        latest = now + _pause(source, source.request_missing_most)
        silent = catalog.attachments_to_ask(name, position, now, room, latest)
        if len(silent) < room:
            self._due[name] = self._context.clock.monotonic() + _after(source) / MARKS / 1e6
        if not silent:
            return
        messages = messages_at(self._context.journal, {record.first_position for record, _ in silent})
        recorded: list[MissingRequest] = []
        asking: list[Asking] = []
        for record, requests in silent:
            gaps = missing_ranges(record, self._context.catalog, self._context.journal, RANGES)
            parts = Parts(self._context.catalog.part_runs(record.id))
            asked = missing_parts(record, source.framing, parts, gaps, requests + 1)
            message = messages.get(record.first_position)
            each = Asking(record, asked, message, None if message is None else self._paths.to_sender(name, message))
            is_last = asked.request >= source.request_missing_most
            due, document = None if is_last else now + _pause(source, asked.request), write_document(asked)
            recorded.append(
                MissingRequest(record.id, name, asked.request, now, due, each.address, document, record.parts_received)
            )
            if not asked.is_empty:  # or it waits for something else, and is not looked at again at once
                asking.append(each)
        events = [missing_event(each.record, each.asked, each.address, now) for each in asking]
        catalog.record_requests(recorded, events)
        self._context.notifier.notify()
        for each in asking:
            self._send(name, each)

    def _silent_until(self, name: str) -> int | None:
        """Return the packed position of messages that came long enough ago; None if there is none."""
        marks, before = self._marks[name], self._times.counted(name) - _after(self._sources[name])
        return marks[0].position if marks and marks[0].counted <= before else None

    def _send(self, name: str, asking: Asking) -> None:
        record, asked, message, path = asking
        if path is not None and message is not None:
            path.by.reply(Reply(path.address, write_document(asked), message, MEDIA_TYPE))
        self._context.metrics.missing_requests.labels(name, "event" if path is None else "message").inc()
        log.info(
            "missing_parts_requested",
            attachment=record.id,
            source=name,
            address=asking.address,
            request=asked.request,
            **trace_fields(record.trace_parent),
        )


def _after(source: Source) -> int:
    assert source.request_missing_after is not None
    return microseconds(source.request_missing_after)


def _pause(source: Source, request: int) -> int:
    """Return the pause behind a request, in µs. It doubles with each one."""
    return max(_after(source), MINUTE) << min(request - 1, 20)
