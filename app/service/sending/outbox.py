"""The outboxes: they send deliveries from the content store to the broker, as framed messages.

Each destination has its own thread, which sends its deliveries one after the other, oldest first. A delivery is cut
while it is sent, and never held as a whole. The number of messages that the broker has confirmed is written to the
catalog before more are sent. After a crash or a failure the same messages are made again, and the confirmed ones are
skipped. So after a crash at most one batch is sent twice, and none if the sender keeps its own record with the broker.

Several processes may send to one destination, unless the catalog is a file. Each claims a delivery before an attempt,
renews the claim meanwhile, and writes under it. A claim ends by the clock of the database. Its holder counts from
before it asked, by its monotonic clock, and stops earlier: a process that was paused for longer sends nothing more of
the delivery.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from math import inf
from random import uniform
from threading import Event, Thread
from time import monotonic
from typing import Any

from app.framing.registry import framing
from app.model.attachment import AttachmentKind, DeliveryState
from app.model.errors import CatalogError, DamagedError, GatewayError, with_type
from app.model.message import PhysicalMessage
from app.model.records import DeliveryRecord, FramingOptions, NewEvent
from app.model.trace_context import TRACE_PARENT, trace_fields
from app.observe import Recurring, logger
from app.ports import DeliveryProgress, KeptSender, Sender, SendFailed, Sending
from app.service.context import ServiceContext
from app.service.events.event_entries import delivery_event
from app.service.sending.framer import BATCH_MESSAGES, batches
from app.service.sending.resending import LOOK_SECONDS, Resender
from app.service.sending.sending_errors import CannotSend
from app.service.threads import Notifier
from app.settings import Destination, microseconds

log = logger(__name__)

IDLE_SECONDS = 5.0
CANCELLED = "a client cancelled it"
TIDY_SECONDS, TIDY_RETRY_SECONDS = 3600.0, 30.0
"""The pauses between two searches for records of deliveries that are over, and after one that has failed."""
CLAIM_SECONDS = 10.0
"""How long a process that sends a delivery may be silent before another one takes its place."""
RENEW_SECONDS = 2.0
HELD_SECONDS = 7.0
"""A process that could not renew its claim for so long stops sending the delivery."""
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
        self._sending = Sending(name, context.instance, not context.settings.is_catalog_shared, self._settings.ordered)
        self._resender = Resender(name, sender, cut, context)
        self._run: _Run | None = None
        """The attempt that is being made."""
        self._wake = Notifier()
        self._stop = Event()
        self._fault = Recurring(log, "deliveries", destination=name)
        self._delayed = Recurring(log, "sending", logging.WARNING, destination=name)
        self._known: dict[str, _Known] = {}
        """What earlier attempts of this process have shown of open deliveries."""
        self._tidy_at = 0.0
        """When to remove the sender's records of ended deliveries."""

    def wake(self) -> None:
        """Wake the outbox, as there may be something to send."""
        self._wake.notify()

    def status(self) -> dict[str, Any]:
        """Return the sender's status. Its `error` is also why deliveries that the broker would take are not sent."""
        status = self.sender.status()
        own = self._fault.error or next((each.broken for each in list(self._known.values()) if each.broken), None)
        return {**status, "error": status.get("error") or own}

    def stop(self) -> None:
        self._stop.set()
        self._wake.notify()

    def run(self) -> None:
        """Send the deliveries that are due, until `stop`."""
        if not self._sending.is_alone:
            Thread(target=self._renew, name=f"claims {self.name}", daemon=True).start()
        try:
            while not self._stop.is_set():
                seen = self._wake.notifications
                has_sent = self._send_due()
                try:
                    self._resender.step()
                except Exception as error:  # noqa: BLE001 - `Recurring` logs it; receivers ask again
                    self._fault.failed(error)
                if not has_sent:
                    pause = LOOK_SECONDS if self._resender.is_asked else IDLE_SECONDS
                    retry = max(0.05, self._settings.retry_first.total_seconds() / 4)
                    call = self.sender.keep_alive() if isinstance(self.sender, KeptSender) else pause
                    self._wake.wait(seen, min(pause, retry, call))
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
            asked = monotonic()
            claimed = self._context.catalog.claim_delivery(self._sending, CLAIM_SECONDS, self._begun, now, latest)
            if claimed is not None:
                self._context.metrics.deliveries.labels(claimed.state).inc()
                self._context.notifier.notify()
                held_until = inf if self._sending.is_alone else asked + HELD_SECONDS
                self._run = run = _Run(claimed, held_until, is_unwanted=claimed.cancel_requested)
                try:
                    self._attempt(run)
                except ClaimLost as error:
                    log.warning("delivery_claim_lost", delivery=claimed.id, destination=self.name, reason=str(error))
                    self._known.pop(claimed.id, None)
                finally:
                    self._run = None
            else:
                self._forget_ended()
        except Exception as error:  # noqa: BLE001 - `Recurring` logs it
            self._fault.failed(error)
            return False
        self._fault.worked()
        return claimed is not None

    def _begun(self, delivery: DeliveryRecord) -> tuple[DeliveryRecord, Sequence[NewEvent]]:
        """Return a claimed delivery as its attempt begins, with the event of that."""
        known = self._known.get(delivery.id)
        if known is None or not delivery.attempts or known.claim + 1 != delivery.claim:
            # It is new here, a client has queued it again, or another process has tried it meanwhile.
            known = self._known[delivery.id] = _Known(delivery.messages_sent)
            known.last_progress = delivery.attempts if delivery.messages_sent else 0
        known.claim = delivery.claim
        begun = replace(
            delivery,
            attempts=delivery.attempts + 1,
            messages_sent=known.confirmed,
            first_claim=delivery.claim if delivery.cut is None else delivery.first_claim,
        )
        return self._entered(begun, DeliveryState.SENDING, None)

    def _attempt(self, run: "_Run") -> None:
        """Make an attempt and record how it ended. Raises ClaimLost and CatalogError."""
        known = self._known[run.delivery.id]
        try:
            is_finished = self._send(run)
        except _Cancelled:
            self._end(run, DeliveryState.CANCELLED, CANCELLED)
        except (CannotSend, DamagedError) as error:
            self._end(run, DeliveryState.FAILED, str(error))
        except SendFailed as error:
            known.broken = None
            self._failed(run, error)
        except (CatalogError, ClaimLost):
            raise
        except Exception as error:  # noqa: BLE001 - it must not stop the deliveries after this one
            known.broken = _reason(error)
            self._failed(run, error)
        else:
            self._delayed.worked()
            known.broken = None
            if is_finished:
                run.delivery = replace(run.delivery, messages_total=run.delivery.messages_sent)
                self._end(run, DeliveryState.SENT, None)
            else:
                with suppress(KeyError):  # this process stops: another one may go on at once
                    self._context.catalog.renew_claim(run.delivery, 0)

    def _renew(self) -> None:
        """Renew the claim of what is being sent, until `stop`: a broker may take long to confirm a batch."""
        while not self._stop.wait(RENEW_SECONDS):
            if (run := self._run) is None:
                continue
            asked = monotonic()
            try:
                if self._context.catalog.renew_claim(run.delivery, CLAIM_SECONDS):
                    run.is_unwanted = True
            except KeyError:  # another process has it, or the attempt has just ended
                run.held_until = 0.0
            except Exception as error:  # noqa: BLE001 - `Recurring` logs it
                self._fault.failed(error)
            else:
                run.held_until = asked + HELD_SECONDS

    def _send(self, run: "_Run") -> bool:
        """Send the messages that are not confirmed yet. Return False when it was stopped before the last one."""
        known = run.delivery.messages_sent if run.delivery.cut is not None else None
        run.delivery = replace(run.delivery, messages_sent=self.sender.resume(run.delivery.sending_name, known))
        how = self._settle_cut(run)
        if not run.delivery.messages_sent:
            self._require_whole(run, how)
        remaining = islice(self._cut(how, run.delivery), run.delivery.messages_sent, None)
        in_doubt = known is not None
        for batch in batches(remaining, min(BATCH_MESSAGES, self.sender.max_batch())):
            if self._stop.is_set():
                return False
            self._require_wanted(run)
            now = run.delivery
            try:
                subscribers = self.sender.send(
                    batch, DeliveryProgress(now.sending_name, now.messages_sent, now.attempts, in_doubt)
                )
            except SendFailed as error:
                self._advance(run, batch[: error.confirmed])
                if error.refused is not None:
                    self._follow_refusal(run, how, error, batch[error.refused.number], error.refused.code)
                raise
            if "none" in (run.delivery.subscribers, subscribers):
                subscribers = "none"
            run.delivery = replace(run.delivery, subscribers=run.delivery.subscribers or subscribers)
            self._advance(run, batch)
            in_doubt = False
        return True

    def _follow_refusal(
        self, run: "_Run", how: FramingOptions, error: SendFailed, message: PhysicalMessage, code: int
    ) -> None:
        """Have the next attempt begin where the framing says, after the receiver refused a message; or no attempt."""
        after = framing(self._settings.framing).after_refusal(message, code)
        error.permanent = error.permanent or after == "never"
        if after == "with its attachment":
            all_messages = enumerate(self._cut(how, run.delivery))
            first = next(number for number, each in all_messages if each.group_id == message.group_id)
            self._known[run.delivery.id].confirmed = first
            run.delivery = replace(run.delivery, messages_sent=first)
            self._record(run)

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
        """Raise ClaimLost if another process may send the delivery by now, and _Cancelled if no client wants it."""
        if monotonic() > run.held_until:
            raise ClaimLost("the claim could not be renewed in time, so another process may send it")
        if run.is_unwanted:
            raise _Cancelled

    def _advance(self, run: "_Run", confirmed: list[PhysicalMessage]) -> None:
        """Record that the broker has confirmed these messages, before others are sent."""
        if not confirmed:
            return
        known, sent = self._known[run.delivery.id], run.delivery.messages_sent + len(confirmed)
        run.delivery = replace(run.delivery, messages_sent=sent, updated_at=self._context.clock.now())
        known.confirmed = sent
        if sent > known.furthest:
            known.furthest, known.last_progress = sent, run.delivery.attempts
        self._context.metrics.count_sent(self.name, len(confirmed), sum(len(message.body) for message in confirmed))
        self._record(run)

    def _record(self, run: "_Run", events: Sequence[NewEvent] = ()) -> None:
        """Record the delivery under its claim. Raises ClaimLost."""
        try:
            if self._context.catalog.update_delivery(run.delivery, events):
                run.is_unwanted = True
        except KeyError:
            raise ClaimLost("another process has claimed it") from None

    def _settle_cut(self, run: "_Run") -> FramingOptions:
        """Return the cut for all attempts of the delivery, recorded before the first message is sent."""
        settings, delivery = self._settings, run.delivery
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
            run.delivery = replace(delivery, cut=cut)
            self._record(run)
            return cut
        if room < delivery.cut.body_limit:
            begun = delivery.cut.body_limit
            raise CannotSend(f"it was begun with bodies of up to {begun} bytes, but the broker now takes only {room}")
        return delivery.cut

    def _failed(self, run: "_Run", error: Exception) -> None:
        """Fail a delivery for good, or have it tried again: soon after an attempt with progress, otherwise later each
        time."""
        delivery, known = run.delivery, self._known[run.delivery.id]
        now = self._context.catalog.delivery(delivery.id)
        if run.is_unwanted or (now is not None and now.cancel_requested):
            self._end(run, DeliveryState.CANCELLED, CANCELLED)
            return
        if isinstance(error, SendFailed) and not error.counts:
            known.last_progress += 1
        allowed = self._settings.attempts
        fruitless = delivery.attempts - known.last_progress
        is_permanent = isinstance(error, SendFailed) and error.permanent
        if is_permanent or (allowed and fruitless >= allowed):
            self._end(run, DeliveryState.FAILED, _reason(error))
            return
        first, longest = self._settings.retry_first, self._settings.retry_longest
        pause = min(microseconds(longest), microseconds(first) << min(max(fruitless - 1, 0), 30))
        if isinstance(error, SendFailed) and error.within is not None:
            pause = min(pause, int(error.within * 1_000_000))
        again = self._context.clock.now() + int(pause * uniform(0.5, 1.0))  # noqa: S311 - jitter keeps no secret
        why = str(error) if isinstance(error, SendFailed) else error
        self._delayed.failed(why, delivery=delivery.id, **trace_fields(delivery.trace_parent))
        run.delivery = replace(delivery, next_attempt_at=again)
        self._enter(run, DeliveryState.QUEUED, _reason(error))

    def _end(self, run: "_Run", state: DeliveryState, reason: str | None) -> None:
        """End a delivery. The sender keeps its record of one that was not sent: a client may have it tried again."""
        self._enter(run, state, reason)
        self._known.pop(run.delivery.id, None)
        if state is DeliveryState.SENT:
            try:
                self.sender.forget(run.delivery.sending_name)
            except SendFailed:
                self._tidy_at = monotonic() + TIDY_RETRY_SECONDS

    def _forget_ended(self) -> None:
        """Forget a delivery that a client has cancelled after an attempt failed, so that health no longer names it."""
        broken = next((each for each, known in self._known.items() if known.broken), None)
        if broken is not None:
            delivery = self._context.catalog.delivery(broken)
            if delivery is None or delivery.state not in OPEN:
                del self._known[broken]

    def _may_continue(self, sending_name: str) -> bool:
        delivery = self._context.catalog.delivery(sending_name.rpartition(".")[0])
        if delivery is None or delivery.sending_name != sending_name:
            return False
        return delivery.state in OPEN or can_be_retried(delivery)

    def _enter(self, run: "_Run", state: DeliveryState, reason: str | None) -> None:
        """Record the end of an attempt. Raises ClaimLost."""
        run.delivery, events = self._entered(run.delivery, state, reason)
        self._record(run, events)
        self._context.metrics.deliveries.labels(state).inc()
        self._context.notifier.notify()

    def _entered(
        self, delivery: DeliveryRecord, state: DeliveryState, reason: str | None
    ) -> tuple[DeliveryRecord, Sequence[NewEvent]]:
        """Return a delivery in a new state, with the event of that."""
        entered = replace(delivery, state=state, reason=reason, updated_at=self._context.clock.now())
        return entered, [delivery_event(entered, attempts=entered.attempts, reason=reason)]


class ClaimLost(GatewayError):
    """Another process sends the delivery, or may do so."""


class _Cancelled(Exception):
    """An error that ends an attempt because a client has cancelled the delivery."""


@dataclass(slots=True)
class _Run:
    """One attempt: the delivery with its progress, until when its claim is certain (by `monotonic`), and whether a
    client has asked to cancel it."""

    delivery: DeliveryRecord
    held_until: float
    is_unwanted: bool


@dataclass(slots=True)
class _Known:
    """What the attempts of this process have shown of an open delivery.

    `confirmed` messages are with the broker, also if the catalog has failed to record them. `claim` is the last one.
    `furthest` is the most messages that one attempt has reached; a sender may have to begin again. `last_progress` is
    the last attempt in which the broker confirmed messages. `broken` is why the last attempt failed, if not because of
    the broker.
    """

    confirmed: int
    claim: int = 0
    furthest: int = 0
    last_progress: int = 0
    broken: str | None = None


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, GatewayError | SendFailed) else with_type(error)


def _properties_size(properties: Mapping[str, str]) -> int:
    """Return the most bytes that properties take in a message."""
    return sum(
        PROPERTY_BYTES + 2 * len(name) + len(text.translate(ESCAPED).encode()) for name, text in properties.items()
    )
