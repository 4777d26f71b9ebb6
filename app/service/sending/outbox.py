"""The outboxes: they send deliveries from the content store to the broker, as framed messages.

Each destination has its own thread, which sends its deliveries one after the other, oldest first. A delivery is cut
while it is sent, and never held as a whole. The number of messages that the broker has confirmed is written to the
catalog before more are sent. After a crash or a failure the same messages are made again, and the confirmed ones are
skipped. So after a crash at most one batch is sent twice, and none if the sender keeps its own record with the broker.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from random import uniform
from threading import Event
from time import monotonic
from typing import Any

from app.framing.registry import framing
from app.model.attachment import AttachmentKind, DeliveryState
from app.model.errors import CatalogError, DamagedError, GatewayError, with_type
from app.model.message import PhysicalMessage, footprint
from app.model.records import DeliveryRecord, FramingOptions
from app.model.trace_context import TRACE_PARENT, trace_fields
from app.observe import Recurring, logger
from app.ports import DeliveryProgress, Sender, SendFailed
from app.service.context import ServiceContext
from app.service.events.event_entries import delivery_event
from app.service.sending.sending_errors import CannotSend
from app.service.threads import Notifier
from app.settings import Destination, microseconds

log = logger(__name__)

BATCH_MESSAGES = 64
BATCH_BYTES = 2 << 20
IDLE_SECONDS = 5.0
CANCELLED = "a client cancelled it"
TIDY_SECONDS, TIDY_RETRY_SECONDS = 3600.0, 30.0
"""The pauses between two searches for records of deliveries that are over, and after one that has failed."""
DUE_AT_ONCE = 16
PROPERTY_BYTES = 16
"""The bytes that a property takes in addition to its text and its name, which XML has twice."""
ESCAPED = str.maketrans(dict.fromkeys("&<>'\"\t\n\r", "&#00;"))
"""The characters that XML escapes, with escapes of the same length."""


OPEN = (DeliveryState.QUEUED, DeliveryState.SENDING)
"""The states of deliveries that have not ended."""

RETRIED = (DeliveryState.FAILED, DeliveryState.CANCELLED)
"""The states of deliveries that a client may have sent again."""

Frame = Callable[[FramingOptions, DeliveryRecord], Iterator[PhysicalMessage]]
"""A function from framing options and a delivery to all its physical messages. Raises CannotSend."""


def framing_options(destination: Destination, body_limit: int) -> FramingOptions:
    """Return the options with which a destination's deliveries are cut, with bodies of at most `body_limit` bytes."""
    return FramingOptions(
        body_limit,
        destination.dialect,
        destination.ccsid,
        destination.encoding,
        destination.record_length,
        destination.framing,
        destination.group,
    )


def can_be_retried(delivery: DeliveryRecord) -> bool:
    """Tell whether a delivery that has ended can be sent again: it was not sent, and its content is still there."""
    return delivery.state in RETRIED and all(attachment.object_name for attachment in delivery.attachments)


class Outbox:
    """Sends the deliveries of one destination."""

    def __init__(self, name: str, sender: Sender, cut: Frame, context: ServiceContext) -> None:
        self.name, self.sender = name, sender
        self._cut, self._context = cut, context
        self._settings = context.settings.destinations[name]
        self._wake = Notifier()
        self._stop = Event()
        self._fault = Recurring(log, "deliveries", destination=name)
        self._delayed = Recurring(log, "sending", logging.WARNING, destination=name)
        self._confirmed: dict[str, int] = {}
        """The confirmed messages of each open delivery, also if the catalog has failed to record them."""
        self._furthest: dict[str, int] = {}
        """The most messages of each open delivery that one attempt has reached; a sender may have to begin again."""
        self._last_progress: dict[str, int] = {}
        """The last attempt of each open delivery in which the broker confirmed messages."""
        self._broken: dict[str, str] = {}
        """Why the last attempt of an open delivery failed, if not because of the broker."""
        self._cancelled: set[str] = set()
        """The deliveries that are to be cancelled before their next batch."""
        self._tidy_at = 0.0
        """When to remove the sender's records of ended deliveries."""

    def wake(self) -> None:
        """Wake the outbox, as there may be something to send."""
        self._wake.notify()

    def cancel(self, delivery_id: str) -> None:
        """Cancel a delivery that is being sent, before its next batch. It is sent if there is none."""
        self._cancelled.add(delivery_id)
        self._wake.notify()

    def ended(self, delivery_id: str) -> None:
        """Forget a delivery that a client cancelled before it was sent."""
        self._forget(delivery_id)

    def begin_again(self, delivery_id: str) -> None:
        """Forget that a client wanted to cancel a delivery that has ended."""
        self._cancelled.discard(delivery_id)

    def status(self) -> dict[str, Any]:
        """Return the sender's status. Its `error` is also why deliveries that the broker would take are not sent."""
        status = self.sender.status()
        own = self._fault.error or next(iter(list(self._broken.values())), None)
        return {**status, "error": status.get("error") or own}

    def stop(self) -> None:
        self._stop.set()
        self._wake.notify()

    def run(self) -> None:
        """Send the deliveries that are due, until `stop`."""
        try:
            while not self._stop.is_set():
                seen = self._wake.notifications
                if not self._send_due():
                    self._wake.wait(seen, min(IDLE_SECONDS, max(0.05, self._settings.retry_first.total_seconds() / 4)))
        finally:
            self.sender.close()

    def _send_due(self) -> bool:
        """Attempt the deliveries that are due. Return False when there was none, or when the catalog fails, so that a
        pause follows."""
        try:
            if monotonic() >= self._tidy_at:
                # The sender removes its records of deliveries that are over.
                self._tidy_at = monotonic() + TIDY_RETRY_SECONDS
                with suppress(SendFailed):  # the sender has logged it
                    self.sender.tidy(self._may_continue)
                    self._tidy_at = monotonic() + TIDY_SECONDS
            now = self._context.clock.now()
            latest = now + microseconds(self._settings.retry_longest)
            due = self._context.catalog.due_deliveries(self.name, now, DUE_AT_ONCE, latest)
            for delivery in due:
                self._attempt(delivery)
                if self._stop.is_set():
                    break
        except Exception as error:  # noqa: BLE001 - `Recurring` logs it
            self._fault.failed(error)
            return False
        self._fault.worked()
        return bool(due)

    def _attempt(self, delivery: DeliveryRecord) -> None:
        confirmed = self._confirmed.get(delivery.id, delivery.messages_sent)
        self._last_progress.setdefault(delivery.id, delivery.attempts if confirmed else 0)
        if delivery.cancel_requested:  # before a restart
            self._cancelled.add(delivery.id)
        delivery = replace(delivery, attempts=delivery.attempts + 1, messages_sent=confirmed)
        try:
            run = _Run(self._enter(delivery, DeliveryState.SENDING, None, OPEN))
        except KeyError:  # a client has cancelled it since it was read
            self._forget(delivery.id)
            return
        try:
            is_finished = self._send(run)
        except _Cancelled:
            self._end(run.delivery, DeliveryState.CANCELLED, CANCELLED)
        except (CannotSend, DamagedError) as error:
            self._end(run.delivery, DeliveryState.FAILED, str(error))
        except SendFailed as error:
            self._broken.pop(delivery.id, None)
            self._failed(run.delivery, error)
        except CatalogError:
            raise
        except Exception as error:  # noqa: BLE001 - it must not stop the deliveries after this one
            self._broken[delivery.id] = _reason(error)
            self._failed(run.delivery, error)
        else:
            self._delayed.worked()
            self._broken.pop(delivery.id, None)
            if is_finished:
                total = run.delivery.messages_sent
                self._end(replace(run.delivery, messages_total=total), DeliveryState.SENT, None)

    def _send(self, run: "_Run") -> bool:
        """Send the messages that are not confirmed yet. Return False when it was stopped before the last one."""
        known = run.delivery.messages_sent if run.delivery.cut is not None else None
        run.delivery = replace(run.delivery, messages_sent=self.sender.resume(run.delivery.id, known))
        run.delivery, how = self._settle_cut(run.delivery)
        if not run.delivery.messages_sent:
            self._require_whole(run, how)
        remaining = islice(self._cut(how, run.delivery), run.delivery.messages_sent, None)
        in_doubt = known is not None
        for batch in _batches(remaining, min(BATCH_MESSAGES, self.sender.max_batch())):
            if self._stop.is_set():
                return False
            self._require_wanted(run)
            now = run.delivery
            try:
                subscribers = self.sender.send(
                    batch, DeliveryProgress(now.id, now.messages_sent, now.attempts, in_doubt)
                )
            except SendFailed as error:
                self._advance(run, batch[: error.confirmed])
                raise
            if "none" in (run.delivery.subscribers, subscribers):
                subscribers = "none"
            run.delivery = replace(run.delivery, subscribers=run.delivery.subscribers or subscribers)
            self._advance(run, batch)
            in_doubt = False
        return True

    def _require_whole(self, run: "_Run", how: FramingOptions) -> None:
        """Make all messages of a delivery without sending them, so that none is begun that has no end.

        What a framing cannot carry shows in lines of text and in values only. Binary files are not read for this.
        Raises CannotSend.
        """
        if all(each.kind is AttachmentKind.BINARY_FILE for each in run.delivery.attachments):
            return
        for number, _ in enumerate(self._cut(how, run.delivery)):
            if number % BATCH_MESSAGES == 0:
                self._require_wanted(run)
            if self._stop.is_set():
                return

    def _require_wanted(self, run: "_Run") -> None:
        if run.delivery.id in self._cancelled:
            raise _Cancelled

    def _advance(self, run: "_Run", confirmed: list[PhysicalMessage]) -> None:
        """Record that the broker has confirmed these messages, before others are sent."""
        if not confirmed:
            return
        sent = run.delivery.messages_sent + len(confirmed)
        run.delivery = replace(run.delivery, messages_sent=sent, updated_at=self._context.clock.now())
        self._confirmed[run.delivery.id] = sent
        if sent > self._furthest.get(run.delivery.id, 0):
            self._furthest[run.delivery.id] = sent
            self._last_progress[run.delivery.id] = run.delivery.attempts
        self._context.metrics.count_sent(self.name, len(confirmed), sum(len(message.body) for message in confirmed))
        self._context.catalog.update_delivery(run.delivery)

    def _settle_cut(self, delivery: DeliveryRecord) -> tuple[DeliveryRecord, FramingOptions]:
        """Return the delivery with the cut for all its attempts, recorded before the first message is sent."""
        settings = self._settings
        how = framing(settings.framing)
        added = max((_properties_size(how.properties(attachment)) for attachment in delivery.attachments), default=0)
        if delivery.trace_parent is not None:
            added += _properties_size({TRACE_PARENT: delivery.trace_parent})
        room = self.sender.max_body(added + (delivery.cut.body_limit if delivery.cut else settings.body_limit)) - added
        if delivery.cut is None:
            limit = min(settings.body_limit, room)
            if limit < 1:
                raise CannotSend("the names of its attachments are too long for the broker's messages")
            cut = framing_options(settings, limit)
            delivery = replace(delivery, cut=cut)
            self._context.catalog.update_delivery(delivery)
            return delivery, cut
        if room < delivery.cut.body_limit:
            begun = delivery.cut.body_limit
            raise CannotSend(f"it was begun with bodies of up to {begun} bytes, but the broker now takes only {room}")
        return delivery, delivery.cut

    def _failed(self, delivery: DeliveryRecord, error: Exception) -> None:
        """Fail a delivery for good, or have it tried again: soon after an attempt with progress, otherwise later each
        time."""
        if delivery.id in self._cancelled:
            self._end(delivery, DeliveryState.CANCELLED, CANCELLED)
            return
        if isinstance(error, SendFailed) and not error.counts:
            self._last_progress[delivery.id] += 1
        allowed = self._settings.attempts
        fruitless = delivery.attempts - self._last_progress[delivery.id]
        is_permanent = isinstance(error, SendFailed) and error.permanent
        if is_permanent or (allowed and fruitless >= allowed):
            self._end(delivery, DeliveryState.FAILED, _reason(error))
            return
        first, longest = self._settings.retry_first, self._settings.retry_longest
        pause = min(microseconds(longest), microseconds(first) << min(max(fruitless - 1, 0), 30))
        if isinstance(error, SendFailed) and error.within is not None:
            pause = min(pause, int(error.within * 1_000_000))
        again = self._context.clock.now() + int(pause * uniform(0.5, 1.0))  # noqa: S311 - jitter keeps no secret
        why = str(error) if isinstance(error, SendFailed) else error
        self._delayed.failed(why, delivery=delivery.id, **trace_fields(delivery.trace_parent))
        self._enter(replace(delivery, next_attempt_at=again), DeliveryState.QUEUED, _reason(error))

    def _end(self, delivery: DeliveryRecord, state: DeliveryState, reason: str | None) -> None:
        """End a delivery. The sender keeps its record of one that was not sent: a client may have it tried again."""
        self._enter(delivery, state, reason)
        self._forget(delivery.id)
        if state is DeliveryState.SENT:
            try:
                self.sender.forget(delivery.id)
            except SendFailed:
                self._tidy_at = monotonic() + TIDY_RETRY_SECONDS

    def _forget(self, delivery_id: str) -> None:
        self._confirmed.pop(delivery_id, None)
        self._furthest.pop(delivery_id, None)
        self._last_progress.pop(delivery_id, None)
        self._broken.pop(delivery_id, None)
        self._cancelled.discard(delivery_id)

    def _may_continue(self, delivery_id: str) -> bool:
        delivery = self._context.catalog.delivery(delivery_id)
        return delivery is not None and (delivery.state in OPEN or can_be_retried(delivery))

    def _enter(
        self,
        delivery: DeliveryRecord,
        state: DeliveryState,
        reason: str | None,
        expected: Collection[DeliveryState] | None = None,
    ) -> DeliveryRecord:
        delivery = replace(delivery, state=state, reason=reason, updated_at=self._context.clock.now())
        event = delivery_event(delivery, attempts=delivery.attempts, reason=reason)
        self._context.catalog.update_delivery(delivery, [event], expected)
        self._context.metrics.deliveries.labels(state).inc()
        self._context.notifier.notify()
        return delivery


class _Cancelled(Exception):
    """An error that ends an attempt because a client has cancelled the delivery."""


@dataclass(slots=True)
class _Run:
    """One attempt: the delivery with its progress."""

    delivery: DeliveryRecord


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, GatewayError | SendFailed) else with_type(error)


def _properties_size(properties: Mapping[str, str]) -> int:
    """Return the most bytes that properties take in a message."""
    return sum(
        PROPERTY_BYTES + 2 * len(name) + len(text.translate(ESCAPED).encode()) for name, text in properties.items()
    )


def _batches(messages: Iterator[PhysicalMessage], most: int) -> Iterator[list[PhysicalMessage]]:
    batch: list[PhysicalMessage] = []
    size = 0
    for message in messages:
        batch.append(message)
        size += footprint(message)
        if len(batch) >= most or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
