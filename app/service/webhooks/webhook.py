"""One webhook: which event it gets next, when, and what happens if it does not take it.

Its rules:

- Events go out one after the other, in the order of the event log. The next one waits until this one is taken or given
  up. So the events of each attachment arrive in order.
- The position in the log is in the catalog. After a crash the last events may be sent again, with the same
  `webhook-id`. While the catalog cannot be written, nothing more is sent.
- After a failure, the pauses grow from `retry_first` to `retry_longest`, with jitter. A longer Retry-After is honoured.
- An event is given up when it, and the failure, are older than `give_up`. It becomes a dead letter. If the receiver
  refuses this one event, only this one. If it takes none, all that are so old, together.
- Dead letters that a client has queued are sent before newer events.
- Status 410 disables the webhook until a client enables it.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import takewhile
from random import uniform
from threading import Event
from typing import Final

from app.model.errors import with_type
from app.model.event_logs import EventFilter
from app.model.records import EventRecord
from app.model.webhook_state import DeadLetter, WebhookRecord, WebhookState
from app.observe import Recurring, logger
from app.ports import Catalog, Clock
from app.service.context import ServiceContext
from app.service.webhooks.webhook_request import Post, WebhookAnswer, WebhookOutcome
from app.settings import microseconds

AT_ONCE: Final = 100
"""Events that are read from the catalog together, and after which the position is saved at the latest."""
BURIED_AT_ONCE: Final = 500
RETURNED: Final = "it was queued again and was not taken: "

log = logger(__name__)


class WebhookEndpoint:
    """Sends events to one webhook: one thread calls `step`. Clients change its record in the catalog, from any process
    (`WebhookDesk`)."""

    def __init__(self, name: str, context: ServiceContext, post: Post, stop: Event) -> None:
        self.name = name
        self.settings = context.settings.webhooks[name]
        self._catalog, self._clock, self._metrics = context.catalog, context.clock, context.metrics
        self._post, self._stop = post, stop
        self._which = EventFilter.of(self.settings.types, self.settings.sources, self.settings.destinations)
        self._fault = Recurring(log, "webhook", webhook=name)
        self._notifier, self._heard = context.notifier, context.notifier.notifications
        self._record = begun(self._catalog, self._clock, name)
        """How far it has got. What was sent before a client changed the record does not count."""
        self._is_saved = True
        """Whether the catalog has the record."""
        self._has_queued = True
        self._requeues = self._record.requeues
        self._accepted: list[int] = []
        """The dead letters that the receiver accepted and that the catalog still has."""
        self._metrics.webhook_behind_events.labels(name).set_function(lambda: float(self.behind))
        self._metrics.webhook_failing.labels(name).set_function(lambda: float(self._record.failing_since is not None))

    @property
    def record(self) -> WebhookRecord:
        """How far it has got."""
        return self._record

    @property
    def behind(self) -> int:
        """The number of events in the log after the last one that is done, selected or not."""
        return max(0, self._catalog.last_event() - self._record.position)

    # --- sending ----------------------------------------------------------------------------------------------------

    def due_in(self) -> float | None:
        """Return the seconds until an attempt may be made; None while the webhook is disabled."""
        record = self._record
        if record.state is WebhookState.DISABLED:
            return None
        wait = record.next_attempt_at - self._clock.now()
        longest = 3_600_000_000 + microseconds(self.settings.retry_longest)
        return 0.0 if wait > longest else max(0.0, wait / 1e6)  # a clock that was ahead has put it off

    def step(self) -> bool:
        """Send some of the events that are due. Return whether there may be more that are due now."""
        self._look()
        if self.due_in() != 0.0:
            return False
        if not self._is_saved:
            self._save(self._record)
        if self._has_queued and not self._send_queued():
            return False
        changes = self._record.changes
        events = self._catalog.events_after(self._record.position, AT_ONCE)
        for event in events:
            if self._stop.is_set() or self._is_changed(changes):
                break
            if self._which.selects(event) and not self._send(event, changes):
                return self.due_in() == 0.0
            self._note(replace(self._record, position=event.number))
        if not self._is_saved:
            self._save(self._record)
        return bool(events)

    def _look(self) -> None:
        """Read what clients have changed since the last look."""
        self._heard = self._notifier.notifications
        known = begun(self._catalog, self._clock, self.name)
        if known.changes != self._record.changes:
            self._record, self._is_saved = known, True
        self._has_queued = self._has_queued or known.requeues != self._requeues
        self._requeues = known.requeues

    def _is_changed(self, changes: int) -> bool:
        """Tell whether a client has changed the record, as far as this process has heard."""
        if self._notifier.notifications != self._heard:
            self._look()
        return self._record.changes != changes

    def _note(self, record: WebhookRecord) -> None:
        """Take over a record that is saved later. What it says was done is not repeated if the catalog fails first."""
        self._record, self._is_saved = record, False

    def _send(self, event: EventRecord, changes: int) -> bool:
        """Send an event; return whether it was taken. If not, all before is recorded, and when to try again."""
        answer = self._attempt(event)
        if answer.outcome is WebhookOutcome.DELIVERED:
            self._worked(changes)
            return True
        if not self._is_changed(changes):
            self._failed(answer, event)
        return False

    def _attempt(self, event: EventRecord) -> WebhookAnswer:
        """Send an event. An error that is not foreseen is a failure, too: it must not repeat the events before."""
        try:
            answer = self._post(event, self._clock.now())
        except Exception as error:  # noqa: BLE001 - `Recurring` logs it
            self._fault.failed(error)
            answer = WebhookAnswer(WebhookOutcome.FAILED, with_type(error))
        else:
            if answer.outcome is WebhookOutcome.DELIVERED:
                self._fault.worked()
            else:
                self._fault.failed(answer.reason or "")
        self._metrics.webhook_requests.labels(self.name, answer.outcome.name.lower()).inc()
        return answer

    def _worked(self, changes: int) -> None:
        if self._record.failing_since is not None and self._record.changes == changes:
            self._note(replace(self._record, attempts=0, failing_since=None, next_attempt_at=0, reason=None))

    def _failed(self, answer: WebhookAnswer, event: EventRecord) -> None:
        """Record a failure, and give up what is too old."""
        now = self._clock.now()
        since = self._failing_since(now)
        record = self._put_off(answer, now)
        if answer.outcome is WebhookOutcome.GONE:
            log.warning("webhook_disabled", webhook=self.name, reason=answer.reason)
            self._save(replace(record, state=WebhookState.DISABLED))
            return
        too_old = now - microseconds(self.settings.give_up)
        if since > too_old or not self._is_old(event, too_old):
            self._save(record)
        elif answer.outcome is WebhookOutcome.REFUSED:
            fresh = WebhookRecord(self.name, event.number, changes=self._record.changes)
            self._bury(fresh, [event], answer)
        else:
            is_unchanged = self._save(record)
            while is_unchanged and (events := self._catalog.events_after(record.position, BURIED_AT_ONCE)):
                old = list(takewhile(lambda event: self._is_old(event, too_old), events))
                if not old:
                    break
                record = replace(record, position=old[-1].number)
                is_unchanged = self._bury(record, [event for event in old if self._which.selects(event)], answer)
                if len(old) < len(events):
                    break

    def _put_off(self, answer: WebhookAnswer, now: int) -> WebhookRecord:
        record = self._record
        first, longest = microseconds(self.settings.retry_first), microseconds(self.settings.retry_longest)
        pause = min(longest, first << min(record.attempts, 30)) * uniform(0.5, 1.0)  # noqa: S311 - jitter keeps no secret
        pause = max(pause, answer.retry_after * 1e6)
        return replace(
            record,
            attempts=record.attempts + 1,
            failing_since=self._failing_since(now),
            next_attempt_at=now + int(pause),
            reason=answer.reason,
        )

    def _failing_since(self, now: int) -> int:
        """Return since when attempts fail; since now if a clock told it which was ahead."""
        return min(self._record.failing_since or now, now)

    def _is_old(self, event: EventRecord, too_old: int) -> bool:
        """Tell whether an event is from a time before, or from one that a clock told which was ahead."""
        return event.time <= too_old or event.time > self._clock.now()

    def _bury(self, record: WebhookRecord, events: Sequence[EventRecord], answer: WebhookAnswer) -> bool:
        now = self._clock.now()
        if not self._save(record, [DeadLetter(self.name, event, now, answer.reason or "") for event in events]):
            return False
        self._metrics.webhook_given_up.labels(self.name).inc(len(events))
        log.error("webhook_gave_up", webhook=self.name, count=len(events), reason=answer.reason)
        return True

    def _save(self, record: WebhookRecord, dead: Sequence[DeadLetter] = ()) -> bool:
        """Save the record and dead letters. Return False, and take over the client's record, if one has changed it."""
        record = replace(record, updated_at=self._clock.now())
        self._is_saved = False
        is_unchanged = self._catalog.save_webhook(record, dead)
        self._record, self._is_saved = record, True
        if not is_unchanged:
            self._look()
        return is_unchanged

    # --- dead letters that are sent again ---------------------------------------------------------------------------

    def _send_queued(self) -> bool:
        """Send the dead letters that clients have queued; return whether sending of the log may continue."""
        self._has_queued = is_done = False
        changes, after = self._record.changes, 0
        try:
            self._drop_accepted()
            while letters := self._catalog.dead_letters(self.name, after, AT_ONCE, queued=True):
                for letter in letters:
                    after = letter.event.number
                    if self._stop.is_set() or not self._send_letter(letter, changes):
                        return False
            is_done = True
        finally:
            self._has_queued = self._has_queued or not is_done
        return is_done

    def _drop_accepted(self) -> None:
        if self._accepted:
            self._catalog.drop_dead_letters(self.name, self._accepted)
            self._accepted = []

    def _send_letter(self, letter: DeadLetter, changes: int) -> bool:
        """Send a dead letter; return whether the next one may be sent."""
        answer = self._attempt(letter.event)
        if answer.outcome is WebhookOutcome.DELIVERED:
            self._worked(changes)
            self._accepted.append(letter.event.number)
            self._drop_accepted()
            return True
        now = self._clock.now()
        since, queued_at = self._failing_since(now), letter.queued_at or now
        if queued_at <= now:  # otherwise a clock told it which was ahead
            since = max(since, queued_at)
        is_over = answer.outcome is WebhookOutcome.REFUSED or since <= now - microseconds(self.settings.give_up)
        back = [DeadLetter(self.name, letter.event, now, RETURNED + (answer.reason or ""))] if is_over else []
        if answer.outcome is WebhookOutcome.REFUSED:
            return self._save(self._record, back)
        record = self._put_off(answer, now)
        state = WebhookState.DISABLED if answer.outcome is WebhookOutcome.GONE else record.state
        self._save(replace(record, state=state), back)
        return False


class WebhookDesk:
    """What clients see of the webhooks of the settings, and change in the catalog, in any process: the keeper sends."""

    def __init__(self, context: ServiceContext) -> None:
        self._catalog, self._clock, self._notifier = context.catalog, context.clock, context.notifier
        self.settings = context.settings.webhooks

    def record(self, name: str) -> WebhookRecord:
        """Return how far a webhook has got."""
        return begun(self._catalog, self._clock, name)

    def behind(self, record: WebhookRecord) -> int:
        """Return the number of events in the log after the last one that is done, selected or not."""
        return max(0, self._catalog.last_event() - record.position)

    def enable(self, name: str) -> None:
        """Send events (again), without waiting for the next attempt."""
        self._change(name, state=WebhookState.ACTIVE)

    def rewind(self, name: str, after: int) -> None:
        """Send the events after a number again, or skip those up to it. Those that were removed are left out.

        Raises ValueError for a number that no event has yet.
        """
        if after > (newest := self._catalog.last_event()):
            raise ValueError(f"the newest event has the number {newest}, and {after} is after it")
        self._change(name, position=after)

    def requeue(self, name: str, events: Collection[int] | None) -> int:
        """Send dead letters (None: all) again; return how many."""
        queued = self._catalog.queue_dead_letters(name, events, self._clock.now())
        self._notifier.notify()
        return queued

    def _change(self, name: str, *, state: WebhookState | None = None, position: int | None = None) -> None:
        begun(self._catalog, self._clock, name)
        self._catalog.change_webhook(name, self._clock.now(), state=state, position=position)
        self._notifier.notify()


def begun(catalog: Catalog, clock: Clock, name: str) -> WebhookRecord:
    """Return the record of a webhook. A new one gets the events from now on."""
    record = catalog.webhooks().get(name)
    if record is None:
        record = WebhookRecord(name, catalog.last_event(), updated_at=clock.now())
        catalog.save_webhook(record)
    return record
