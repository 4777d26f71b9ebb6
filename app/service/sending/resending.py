"""Messages of deliveries that are sent again because a receiver asks for what has not come.

Requests come at an address that the destination's messages name. The outbox takes them between deliveries. The messages
of a sent delivery are made again, with the same identifiers, and those that are asked for are sent: so the receiver
joins them with what it has. What one delivery has several requests for at once, such as its header for each of its
attachments, is sent once.

A request that comes too early is left out: what is queued or being sent will come. What can no longer be sent is
answered as gone, so that the receiver asks no more. A request that could not be answered because the broker was away is
forgotten: the receiver asks again.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Final

from app.codecs.ibm_mq.structure_writing import identifier
from app.codecs.missing_parts.request_documents import (
    GONE_FORMAT,
    GONE_MSG_TYPE,
    MissingParts,
    PartsGone,
    read_document,
    write_document,
)
from app.framing.missing_numbers import ask_for
from app.framing.protocol import message_identifier
from app.model.attachment import DeliveryState
from app.model.errors import DamagedError
from app.model.message import PhysicalMessage
from app.model.records import DeliveryRecord, FramingOptions
from app.observe import Recurring, logger
from app.ports import AskableSender, Sender, SendFailed
from app.service.context import ServiceContext
from app.service.sending.framer import BATCH_MESSAGES, batches
from app.service.sending.sending_errors import CannotSend
from app.wire import WireError

log = logger(__name__)

LOOK_SECONDS: Final = 0.5
"""The pause between two looks for requests, while nothing else is sent."""
LONGEST_PAUSE: Final = 30.0
"""The longest pause while the broker cannot be reached."""
AT_ONCE: Final = 100
"""The most requests that are answered between two deliveries."""
_KEY_SIZE: Final = 16
_UTF_8: Final = 1208
_MINUTE: Final = 60.0


class MinuteRate:
    """Counts what was done within the last minute of a monotonic clock (seconds), of which `most` is allowed."""

    def __init__(self, most: int) -> None:
        self._most, self._done = most, deque[float]()

    def room(self, now: float) -> int:
        """Return how much more is allowed now."""
        while self._done and self._done[0] <= now - _MINUTE:
            self._done.popleft()
        return max(0, self._most - len(self._done))

    def add(self, now: float, count: int = 1) -> None:
        """Take note of what is done now."""
        self._done.extend([now] * count)


@dataclass(slots=True)
class _Asked:
    """A delivery, and the requests for its attachments."""

    delivery: DeliveryRecord
    requests: list[MissingParts]


class Resender:
    """Answers the requests for a destination's deliveries, in the thread that uses its sender."""

    def __init__(
        self,
        name: str,
        sender: Sender,
        cut: Callable[[FramingOptions, DeliveryRecord], Iterator[PhysicalMessage]],
        context: ServiceContext,
    ) -> None:
        self._name, self._cut, self._context = name, cut, context
        self._sender = sender if isinstance(sender, AskableSender) and sender.answers_missing else None
        self._rate = MinuteRate(context.settings.destinations[name].answer_missing_rate)
        self._next_look = 0.0
        self._pause = LOOK_SECONDS
        self._fault = Recurring(log, "missing_parts", destination=name)

    @property
    def is_asked(self) -> bool:
        """Whether receivers can ask."""
        return self._sender is not None

    def step(self) -> None:
        """Answer the requests that have come, as far as the rate allows."""
        now = monotonic()
        if self._sender is None or now < self._next_look:
            return
        self._next_look = now + LOOK_SECONDS
        try:
            bodies = self._sender.requests(min(AT_ONCE, self._rate.room(now)))
            self._rate.add(now, len(bodies))
            asked: dict[str, _Asked] = {}
            for body in bodies:
                self._sort(body, asked)
            for each in asked.values():
                self._answer(each)
        except SendFailed as error:
            self._fault.failed(str(error))
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
            self._next_look = monotonic() + self._pause
        else:
            self._fault.worked()
            self._pause = LOOK_SECONDS

    def _sort(self, body: bytes, asked: dict[str, _Asked]) -> None:
        """Add a request to those for its delivery, or answer that there is none. Raises SendFailed."""
        try:
            request = read_document(body)
        except WireError as error:
            log.warning("missing_parts_request_refused", destination=self._name, reason=str(error))
            self._count("unreadable")
            return
        if not isinstance(request, MissingParts):
            self._count("unreadable")
            return
        key = request.attachment.ljust(_KEY_SIZE, b"\0")[:_KEY_SIZE]
        delivery = self._context.catalog.delivery_of(key, self._name)
        if delivery is not None and delivery.state in (DeliveryState.QUEUED, DeliveryState.SENDING):
            self._count("early")
        elif delivery is None:
            self._answer_gone([request], "no delivery to this destination has it any more")
        elif delivery.state is not DeliveryState.SENT or delivery.cut is None:
            self._answer_gone([request], f"its delivery is {delivery.state}")
        elif not all(attachment.object_name for attachment in delivery.attachments):
            self._answer_gone([request], "its content was removed")
        else:
            asked.setdefault(delivery.id, _Asked(delivery, [])).requests.append(request)

    def _answer(self, asked: _Asked) -> None:
        """Send what is asked for of a delivery. Raises SendFailed."""
        delivery, sender = asked.delivery, self._sender
        assert sender is not None
        assert delivery.cut is not None
        wanted = partial(ask_for, asked.requests)
        messages = size = 0
        try:
            most = min(BATCH_MESSAGES, sender.max_batch())
            for batch in batches(filter(wanted, self._cut(delivery.cut, delivery)), most):
                sender.send(batch)
                messages, size = messages + len(batch), size + sum(len(each.body) for each in batch)
        except (CannotSend, DamagedError) as error:
            self._answer_gone(asked.requests, str(error))
            return
        metrics = self._context.metrics
        metrics.count_sent(self._name, messages, size)
        metrics.missing_sent.labels(self._name).inc(messages)
        metrics.missing_sent_bytes.labels(self._name).inc(size)
        self._count("sent", len(asked.requests))
        log.info("missing_parts_sent", delivery=delivery.id, destination=self._name, messages=messages, bytes=size)

    def _answer_gone(self, requests: list[MissingParts], reason: str) -> None:
        """Answer that nothing of these attachments is sent again. Raises SendFailed."""
        assert self._sender is not None
        for request in requests:
            key = request.attachment
            self._sender.send(
                [
                    PhysicalMessage(
                        self._name,
                        request.framing,
                        msg_type=GONE_MSG_TYPE,
                        correl_id=identifier(key),
                        body=write_document(PartsGone(request.framing, key, reason)),
                        message_id=message_identifier(f"gone/{key.hex()}", request.request),
                        ccsid=_UTF_8,
                        format=GONE_FORMAT,
                    )
                ]
            )
            self._count("gone")
            log.info("missing_parts_not_found", destination=self._name, attachment=key.hex(), reason=reason)

    def _count(self, answer: str, number: int = 1) -> None:
        self._context.metrics.missing_answers.labels(self._name, answer).inc(number)
