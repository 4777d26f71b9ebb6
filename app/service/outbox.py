"""Deliveries on their way: content store -> framed messages -> broker.

Each destination has a thread of its own, which sends its deliveries one after the other, oldest first. A delivery is
cut while it is sent, never as a whole. The catalog hears how many messages the broker has confirmed; after a crash or a
failure the same messages are made again and those confirmed are passed over, so a receiver may see a message twice but
never two attachments.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from random import uniform
from threading import Event
from time import monotonic

from app.framing import mq_group
from app.model.attachment import DeliveryState
from app.model.message import PhysicalMessage, footprint
from app.model.records import Cut, DeliveryRecord, NewEvent, OutgoingAttachment
from app.observe import Recurring, logger
from app.ports import Sender, SendFailed
from app.service.bell import Bell
from app.service.surroundings import Surroundings
from app.settings import Destination, microseconds

log = logger(__name__)

BATCH_MESSAGES = 64
BATCH_BYTES = 2 << 20
PROGRESS_SECONDS = 0.5
IDLE_SECONDS = 5.0
DUE_AT_ONCE = 16
PROPERTY_BYTES = 16
"""What a property takes beside its name, which XML has twice, and its text."""
ESCAPED = str.maketrans(dict.fromkeys("&<>'\"\t\n\r", "&#00;"))
"""What XML writes otherwise, at its length there."""


class CannotSend(Exception):
    """A delivery that no other attempt can send: what is wrong with its content or its names."""


Cutting = Callable[[Cut, DeliveryRecord], Iterator[PhysicalMessage]]
"""How to cut, and a delivery -> all its physical messages. Raises CannotSend."""


def cut_of(destination: Destination, body_limit: int) -> Cut:
    """How deliveries to a destination are cut into bodies of at most so many bytes."""
    return Cut(
        body_limit,
        destination.dialect,
        destination.ccsid,
        destination.encoding,
        destination.record_length,
        destination.framing,
        destination.group,
    )


class Outbox:
    """Sends the deliveries of one destination."""

    def __init__(self, name: str, sender: Sender, cut: Cutting, around: Surroundings) -> None:
        self.name, self.sender = name, sender
        self._cut, self._around = cut, around
        self._settings = around.settings.destinations[name]
        self._wake = Bell()
        self._stop = Event()
        self._fault = Recurring(log, "deliveries", destination=name)
        self._delayed = Recurring(log, "sending", logging.WARNING, destination=name)

    def wake(self) -> None:
        """There may be something to send."""
        self._wake.ring()

    def stop(self) -> None:
        self._stop.set()
        self._wake.ring()

    def run(self) -> None:
        """Sends what is due until `stop`."""
        try:
            while not self._stop.is_set():
                heard = self._wake.rings
                if not self._send_due():
                    self._wake.wait(heard, self._pause())
        finally:
            self.sender.close()

    def _send_due(self) -> bool:
        """Attempts what is due; False when there was nothing, or when the catalog fails and a pause is in order."""
        try:
            now = self._around.clock.now()
            latest = now + microseconds(self._settings.retry_longest)
            due = self._around.catalog.due_deliveries(self.name, now, DUE_AT_ONCE, latest)
            for delivery in due:
                self._attempt(delivery)
                if self._stop.is_set():
                    break
        except Exception as error:  # noqa: BLE001 - it is logged by whoever counts it
            self._fault.failed(error)
            return False
        self._fault.worked()
        return bool(due)

    def _pause(self) -> float:
        """Until the first retry may be due."""
        return min(IDLE_SECONDS, max(0.05, self._settings.retry_first.total_seconds() / 4))

    def _attempt(self, delivery: DeliveryRecord) -> None:
        delivery = self._enter(replace(delivery, attempts=delivery.attempts + 1), DeliveryState.SENDING, None)
        try:
            finished = self._send(delivery)
        except CannotSend as error:
            self._enter(delivery, DeliveryState.FAILED, str(error))
        except SendFailed as error:
            self._failed(delivery.id, error)
        else:
            self._delayed.worked()
            if finished is not None:
                self._enter(finished, DeliveryState.SENT, None)

    def _send(self, delivery: DeliveryRecord) -> DeliveryRecord | None:
        """Sends what is not confirmed yet; None when it was stopped in the middle."""
        delivery, how = self._settle_cut(delivery)
        remaining = islice(self._cut(how, delivery), delivery.messages_sent, None)
        saved_at = monotonic()
        for batch in _batches(remaining):
            self.sender.send(batch)
            delivery = replace(delivery, messages_sent=delivery.messages_sent + len(batch))
            self._around.metrics.count_sent(self.name, len(batch), sum(len(message.body) for message in batch))
            if self._stop.is_set() or monotonic() - saved_at >= PROGRESS_SECONDS:
                delivery = replace(delivery, updated_at=self._around.clock.now())
                self._around.catalog.update_delivery(delivery)
                saved_at = monotonic()
                if self._stop.is_set():
                    return None
        return replace(delivery, messages_total=delivery.messages_sent)

    def _settle_cut(self, delivery: DeliveryRecord) -> tuple[DeliveryRecord, Cut]:
        """The delivery with the cut that holds for all its attempts, written down before the first message goes."""
        settings, room = self._settings, self.sender.max_body()
        if settings.framing == "mq_group":
            room -= max(map(_told, delivery.attachments), default=0)
        if delivery.cut is None:
            limit = min(settings.body_limit, room)
            if limit < 1:
                raise CannotSend("the broker's messages have no room for the names of its attachments")
            cut = cut_of(settings, limit)
            delivery = replace(delivery, cut=cut)
            self._around.catalog.update_delivery(delivery)
            return delivery, cut
        if room < delivery.cut.body_limit:
            begun = delivery.cut.body_limit
            raise CannotSend(f"it was begun with bodies of up to {begun} bytes, and now the broker takes {room}")
        return delivery, delivery.cut

    def _failed(self, delivery_id: str, error: SendFailed) -> None:
        delivery = self._around.catalog.delivery(delivery_id)
        if delivery is None:
            return
        allowed = self._settings.attempts
        if error.permanent or (allowed and delivery.attempts >= allowed):
            self._enter(delivery, DeliveryState.FAILED, str(error))
            return
        first, longest = self._settings.retry_first, self._settings.retry_longest
        pause = min(microseconds(longest), microseconds(first) << min(delivery.attempts - 1, 30))
        again = self._around.clock.now() + int(pause * uniform(0.5, 1.0))  # noqa: S311 - jitter keeps no secret
        self._delayed.failed(str(error), delivery=delivery.id)
        self._enter(replace(delivery, next_attempt_at=again), DeliveryState.QUEUED, str(error))

    def _enter(self, delivery: DeliveryRecord, state: DeliveryState, reason: str | None) -> DeliveryRecord:
        now = self._around.clock.now()
        delivery = replace(delivery, state=state, reason=reason, updated_at=now)
        data: dict[str, object] = {"destination": self.name, "attempts": delivery.attempts, "reason": reason}
        self._around.catalog.update_delivery(delivery, [NewEvent(f"delivery.{state}", delivery.id, now, data)])
        self._around.metrics.deliveries.labels(state).inc()
        self._around.bell.ring()
        return delivery


def _told(attachment: OutgoingAttachment) -> int:
    """The bytes that its properties take of the first message of a group, at most."""
    told = mq_group.properties(attachment)
    return sum(PROPERTY_BYTES + 2 * len(name) + len(text.translate(ESCAPED).encode()) for name, text in told.items())


def _batches(messages: Iterator[PhysicalMessage]) -> Iterator[list[PhysicalMessage]]:
    batch: list[PhysicalMessage] = []
    size = 0
    for message in messages:
        batch.append(message)
        size += footprint(message)
        if len(batch) >= BATCH_MESSAGES or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
