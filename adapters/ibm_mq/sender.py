"""A destination's queue: messages are put under syncpoint, and are sent when the unit of work is committed.

A commit whose outcome is unknown counts as failed. With a state queue, the state message says whether it succeeded (see
`adapters.ibm_mq.state_queue`). Without one, the messages are sent again, with the same identifiers.

If a queue becomes full within a unit of work, the messages that it has taken are committed. A unit with a group's
messages is tried as a whole once more before that, so that a group that fits is never visible in part.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from adapters.connections import ConnectionState
from adapters.ibm_mq.client import Library, MqiError
from adapters.ibm_mq.connect_options import log_in
from adapters.ibm_mq.descriptor import to_put
from adapters.ibm_mq.destination_link import DestinationLink
from adapters.ibm_mq.reason_codes import MQRC_SYNCPOINT_LIMIT_REACHED, NO_ROOM, Remedy
from adapters.ibm_mq.settings import DestinationSettings
from adapters.ibm_mq.state_queue import StateQueue
from app.model.message import PhysicalMessage
from app.ports import DeliveryProgress, SendFailed
from app.wire import WireError

_STATE_READS = 20
_STATE_READ_PAUSE = 0.05

_log = structlog.get_logger(__name__)


class MqSender:
    """`app.ports.Sender` for IBM MQ."""

    def __init__(self, library: Library, name: str, settings: DestinationSettings) -> None:
        self._library, self._name, self._settings = library, name, settings
        self._log = _log.bind(destination=name, broker=settings.broker, queue=settings.queue)
        self._log_in = log_in(settings)
        self._link: DestinationLink | None = None
        self._missing: tuple[str, float] | None = None
        """A delivery whose state message cannot be found, and since when."""
        self._full_at: dict[str, int] = {}
        """The progress of deliveries when there was no room for a whole unit of work."""
        self._state = ConnectionState(self._log)

    def status(self) -> dict[str, Any]:
        settings = self._settings
        return {
            **self._state.status,
            "broker": settings.broker,
            "queue": settings.queue,
            "state_queue": settings.state_queue,
            **self._log_in.status(),
        }

    @property
    def answers_missing(self) -> bool:
        return self._settings.answer_missing is not None

    def requests(self, most: int) -> Sequence[bytes]:
        link = self._open()
        found: list[bytes] = []
        try:
            while len(found) < most and link.requests is not None and (body := link.requests.take()) is not None:
                found.append(body)
        except MqiError as error:
            raise self._failure(link, error) from error
        return found

    def repeats(self) -> str | None:
        if self._settings.state_queue is not None:
            return None
        return (
            "without state_queue, the messages of one unit of work may arrive twice after a crash of the gateway or a "
            "connection that broke during a commit"
        )

    def max_body(self, wanted: int | None = None) -> int:
        link = self._open()
        try:
            return link.max_body(wanted)
        except MqiError as error:
            raise self._failure(link, error) from error

    def max_batch(self) -> int:
        return self._open().max_batch()

    def resume(self, delivery: str, known: int | None) -> int:
        link = self._open()
        if link.states is None:
            return known or 0
        try:
            state = link.states.find(delivery)
            for _ in range(_STATE_READS if known is not None else 0):
                if state is not None:
                    break
                time.sleep(_STATE_READ_PAUSE)
                state = link.states.find(delivery)
            if state is not None:
                self._missing = None
                return state.messages_sent
            if known is not None:
                self._await_state(delivery, known)
            link.states.put(delivery, known or 0, 0)
            link.connection.commit()
        except MqiError as error:
            raise self._failure(link, error) from error
        return known or 0

    def send(self, messages: Sequence[PhysicalMessage], progress: DeliveryProgress | None = None) -> None:
        link = self._open()
        for message in messages:
            if len(message.body) > link.max_body():
                why = f"the body has {len(message.body):,} bytes; the queue manager takes at most {link.max_body():,}"
                raise SendFailed(why, permanent=True)
        confirmed = 0
        while confirmed < len(messages):
            unit = messages[confirmed : confirmed + link.max_batch()]
            before = None if progress is None else progress._replace(messages_sent=progress.messages_sent + confirmed)
            try:
                stopped = self._put_unit(link, unit, before)
            except MqiError as error:
                raise self._failure(link, error, confirmed) from error
            except WireError as error:
                self._back_out(link)
                raise SendFailed(str(error), permanent=True, confirmed=confirmed) from error
            if stopped is not None:
                put, reason = stopped
                raise SendFailed(str(reason), confirmed=confirmed + put) from reason
            confirmed += len(unit)

    def forget(self, delivery: str) -> None:
        self._full_at.pop(delivery, None)
        self._remove(lambda _: [delivery])

    def tidy(self, may_continue: Callable[[str], bool]) -> None:
        self._full_at = {each: sent for each, sent in self._full_at.items() if may_continue(each)}
        removed = self._remove(lambda states: [each for each in states.deliveries() if not may_continue(each)])
        if removed:
            self._log.info("state_messages_removed", deliveries=removed)

    def close(self) -> None:
        if self._link is not None:
            self._link.connection.close()
            self._link = None
        self._state.closed()

    # --- units of work --------------------------------------------------------------------------------------------

    def _put_unit(
        self, link: DestinationLink, unit: Sequence[PhysicalMessage], before: DeliveryProgress | None
    ) -> tuple[int, MqiError] | None:
        """Put the messages and commit. If there is no room for all, return how many were put and the reason."""
        states = link.states if before is not None else None
        if states is not None and before is not None:
            self._take_state(link, states, before)
        put = 0
        stopped = None
        for message in unit:
            try:
                link.queue.put(to_put(message, self._settings, link.ccsid))
            except MqiError as error:
                if error.reason == MQRC_SYNCPOINT_LIMIT_REACHED:
                    link.learn_max_uncommitted(put + (states is not None))
                if error.reason not in NO_ROOM or not put or self._is_to_be_whole(unit, before):
                    raise
                stopped = put, error
                break
            put += 1
        if states is not None and before is not None:
            states.put(before.delivery, before.messages_sent + put, before.attempt)
        link.connection.commit()
        return stopped

    def _take_state(self, link: DestinationLink, states: StateQueue, before: DeliveryProgress) -> None:
        """Get the state message in the unit of work. Raises SendFailed when it does not have the expected count."""
        state = states.take(before.delivery)
        if state is not None and state.messages_sent == before.messages_sent:
            return
        self._back_out(link)
        found = "is missing" if state is None else f"counts {state.messages_sent:,} messages"
        expected = f"{before.messages_sent:,} are confirmed"
        raise SendFailed(
            f"the state message on {self._settings.state_queue} {found} although {expected}: "
            "check whether another gateway sends this delivery"
        )

    def _is_to_be_whole(self, unit: Sequence[PhysicalMessage], before: DeliveryProgress | None) -> bool:
        """Tell whether a unit for which there is no room has to be tried as a whole once more."""
        delivery, sent = ("", 0) if before is None else (before.delivery, before.messages_sent)
        is_first = self._full_at.get(delivery) != sent
        self._full_at[delivery] = sent
        return is_first and any(message.msg_flags for message in unit)

    # --- state messages -------------------------------------------------------------------------------------------

    def _await_state(self, delivery: str, known: int) -> None:
        """Raise SendFailed while another unit of work, not yet ended, may hold the state message."""
        now = time.monotonic()
        if self._missing is None or self._missing[0] != delivery:
            self._missing = delivery, now
        if now - self._missing[1] < self._settings.state_timeout:
            raise SendFailed(
                f"there is no state message on {self._settings.state_queue}: waiting up to "
                f"{self._settings.state_timeout:g} s for the queue manager to back out the work of a broken connection",
                counts=False,
            )
        self._missing = None
        self._log.warning(
            "state_message_not_found", delivery=delivery, confirmed=known, effect="messages may arrive twice"
        )

    def _remove(self, chosen: Callable[[StateQueue], list[str]]) -> int:
        """Remove the state messages of these deliveries and return the number of deliveries."""
        if self._settings.state_queue is None:
            return 0
        link = self._open()
        assert link.states is not None
        try:
            deliveries = chosen(link.states)
            for delivery in deliveries:
                link.states.take(delivery)
                link.connection.commit()
        except MqiError as error:
            raise self._failure(link, error) from error
        return len(deliveries)

    # --- the connection -------------------------------------------------------------------------------------------

    def _open(self) -> DestinationLink:
        """Return the connection, or open a new one. A connection that has broken meanwhile fails at the next call."""
        if self._link is None:
            try:
                self._link = DestinationLink(self._library, self._name, self._settings, self._log_in)
            except MqiError as error:
                self._down(error)
                raise SendFailed(str(error), within=self._log_in.pause) from error
            self._state.opened()
            self._state.recovered()
        return self._link

    def _failure(self, link: DestinationLink, error: MqiError, confirmed: int = 0) -> SendFailed:
        """Back out the messages put since the last commit, and close an unusable connection. Return the error to
        raise."""
        if error.remedy is Remedy.RECONNECT:
            self._down(error)
        else:
            self._back_out(link)
        return SendFailed(str(error), permanent=error.remedy is Remedy.FATAL, confirmed=confirmed)

    def _back_out(self, link: DestinationLink) -> None:
        try:
            link.connection.back_out()
        except MqiError as gone:
            self._down(gone)

    def _down(self, error: MqiError) -> None:
        self.close()
        self._state.failed(str(error))
