"""Receipts go back to those who sent the attachments: as replies to their messages, for sources with `reply_receipts`.

The receipts of a source go in the order of the log. The place up to which they were sent is in the catalog, and moves
only after the broker has confirmed what is before it. So a process that is killed loses none, and the next one sends
again what was not confirmed: at least once. What a broker or a queue refuses, and what breaks the connection again and
again, is not sent for ever: it is logged, counted, and left. REST has the receipt in any case.

What is refused for now, by a full queue as a rule, leaves the order: the catalog keeps its place in the log apart, in
the transaction that moves the place of the source past it. So it stops no other receipt. It is sent again with pauses
that double, about an hour long, and then left.

The address is that of the header, or of the first message where there is no header. A message that is no longer in the
journal names none.
"""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from threading import Event
from time import monotonic
from typing import Any, Final, NamedTuple

from app.codecs.receipts.statements import TRANSPARENT_STATEMENT_TYPE
from app.model.message import PhysicalMessage, Position
from app.model.receipt_records import ATTACHMENT_FINISHED, KeptStatement, ReceiptRetry
from app.observe import logger
from app.ports import Catalog, Receiver, Reply, ReplyEnd
from app.service.assembling.reply_paths import ReplyPaths
from app.service.context import ServiceContext
from app.service.finishing.stored_parts import messages_at
from app.service.receipts.receipt_desk import FoundStatement, ReceiptDesk
from app.service.sending.resending import MinuteRate
from app.settings import ReceiptSettings

log = logger(__name__)

AT_ONCE: Final = 100
"""The most receipts of a source that wait for a confirmation."""
READ_AT_ONCE: Final = 1000
"""The most statements that are read at once; those of other sources are passed over."""
PATIENCE: Final = 5.0
"""Seconds for which confirmations are waited for before the place is saved."""
MOST_ATTEMPTS: Final = 5
"""How often a receipt is sent by one process if the connection breaks each time."""
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 600.0
"""Seconds before a receipt is sent again that was refused for now. They double."""
MOST_REFUSALS: Final = 14
"""How often a receipt may be refused for now: with these pauses for about an hour."""


class _Statement(NamedTuple):
    """A statement in the log, what it says, and how often its receipt was refused for now."""

    kept: KeptStatement
    said: Mapping[str, Any]
    refusals: int = 0

    @property
    def is_last_time(self) -> bool:
        """Whether the receipt is left if it is refused for now once more."""
        return self.refusals + 1 >= MOST_REFUSALS


class ReceiptReplies:
    """Sends the receipts of those sources that ask for it. One thread calls `step`."""

    def __init__(
        self, context: ServiceContext, settings: ReceiptSettings | None, receivers: Mapping[str, Receiver], stop: Event
    ) -> None:
        self._context, self._stop = context, stop
        found = context.settings.sources.items()
        most = {name: each.request_missing_rate for name, each in found if each.reply_receipts}
        self._rates = {name: MinuteRate(rate) for name, rate in most.items()}
        self._retry_rates = {name: MinuteRate(max(1, rate // 2)) for name, rate in most.items()}
        self._desk = ReceiptDesk(context.catalog, settings)
        self._paths = ReplyPaths(context.settings, receivers)
        self._attempts: dict[tuple[str, int], int] = {}
        self._ends: dict[tuple[str, int], ReplyEnd | None] = {}
        """How each receipt that was sent has ended, by source and place; None while that is not known. Other threads
        set values of keys that are there."""
        self._log: str | None = None
        """The newest log of events in the last step: the places are of the catalog that had it."""
        self._read: Sequence[_Statement] = ()
        """What was last read of the log in a step, for all sources that are there."""

    @property
    def has_sources(self) -> bool:
        return bool(self._rates)

    def step(self, catalog: Catalog) -> None:
        """Send what was appended to the log since the last step, with a catalog that only one process can write to in
        this."""
        if (newest := catalog.newest_log()) != self._log:
            # In an older copy, the places are given to other statements.
            self._log, self._attempts, self._ends = newest, {}, {}
        known = catalog.receipt_log()
        size = 0 if known is None else known.size
        for source in self._rates:
            after = catalog.receipts_replied(source)
            if after is None:  # what came before it was switched on is not sent
                catalog.save_receipts_replied(source, size)
                continue
            if self._paths.is_connected(source):
                self._retry(source, after, catalog)
            deadline = monotonic() + PATIENCE
            while after is not None and after < size and self._paths.is_connected(source):
                reached = self._reply(source, after, catalog, deadline)
                after = reached if reached > after and monotonic() < deadline and not self._stop.is_set() else None
        self._read = ()

    def _reply(self, source: str, after: int, catalog: Catalog, deadline: float) -> int:
        """Send the next receipts of a source, wait until they are confirmed, and save and return how far they are."""
        if not self._read or not self._read[0].kept.place <= after <= self._read[-1].kept.place:
            read = catalog.receipt_statements(after, READ_AT_ONCE)
            self._read = [_Statement(each, json.loads(each.statement)) for each in read]
        finished = [each for each in self._read if each.said["type"] == ATTACHMENT_FINISHED]
        all_own = [each for each in finished if each.kept.place >= after and each.said.get("source") == source]
        own = all_own[:AT_ONCE]
        end = all_own[AT_ONCE].kept.place if len(all_own) > AT_ONCE else self._read[-1].kept.place + 1
        self._send(source, own, self._rates[source].room(self._context.clock.monotonic()), deadline)
        reached = next((each.kept.place for each in own if not self._has_ended(source, each)), end)
        if reached > after:
            self._save(source, reached, [each for each in own if each.kept.place < reached], catalog)
        return reached

    def _retry(self, source: str, after: int, catalog: Catalog) -> None:
        """Send those again that were refused for now, if it is time: they take at most half of the rate."""
        now = self._context.clock.monotonic()
        most = min(AT_ONCE, self._rates[source].room(now), self._retry_rates[source].room(now))
        wall = self._context.clock.now()
        due = catalog.receipts_to_retry(source, wall, most, wall + int(LONGEST_PAUSE * 1_000_000))
        if not due:
            return
        receipts = [_Statement(kept, json.loads(kept.statement), refusals) for kept, refusals in due]
        self._send(source, receipts, most, monotonic() + PATIENCE)
        if ended := [each for each in receipts if self._has_ended(source, each)]:
            self._save(source, after, ended, catalog)

    def _end(self, source: str, receipt: _Statement) -> ReplyEnd | None:
        """Return how a receipt has ended, None while it is on its way. One that was not sent is like a lost one."""
        return self._ends.get((source, receipt.kept.place), ReplyEnd.LOST)

    def _has_ended(self, source: str, receipt: _Statement) -> bool:
        return self._end(source, receipt) not in (None, ReplyEnd.LOST)

    def _save(self, source: str, reached: int, ended: Sequence[_Statement], catalog: Catalog) -> None:
        """Save how far the receipts of a source are, and when those that were refused for now are sent again."""
        retries: dict[int, ReceiptRetry | None] = {}
        for each in ended:
            if self._ends[source, each.kept.place] is ReplyEnd.BUSY and not each.is_last_time:
                pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2**each.refusals)
                next_at = self._context.clock.now() + int(pause * 1_000_000)
                retries[each.kept.place] = ReceiptRetry(each.refusals + 1, next_at)
            elif each.refusals:
                retries[each.kept.place] = None
        catalog.save_receipts_replied(source, reached, retries)
        for each in ended:
            self._attempts.pop((source, each.kept.place), None)
            del self._ends[source, each.kept.place]

    def _send(self, source: str, receipts: Sequence[_Statement], most: int, deadline: float) -> None:
        """Send those receipts that are not on their way, and wait for the end of all."""
        lost = [each for each in receipts if self._end(source, each) is ReplyEnd.LOST][:most]
        bound = self._context.catalog.journal_identity()
        journal = None if bound is None else bound.id
        positions = [_position(each.said, journal) for each in lost]
        messages = messages_at(self._context.journal, {position for position in positions if position is not None})
        for each, position in zip(lost, positions, strict=True):
            self._send_one(source, each, None if position is None else messages.get(position))
        while any(self._end(source, each) is None for each in receipts):
            if monotonic() > deadline or self._stop.wait(0.01):
                break

    def _send_one(self, source: str, receipt: _Statement, message: PhysicalMessage | None) -> None:
        kept = receipt.kept
        key = source, kept.place
        path = None if message is None else self._paths.to_sender(source, message)
        attempt = self._attempts[key] = self._attempts.get(key, 0) + 1
        if path is None or message is None or attempt > MOST_ATTEMPTS:
            why = "lost" if attempt > MOST_ATTEMPTS else "no-message" if message is None else "no-address"
            if why == "no-address" and not self._paths.is_connected(source):
                self._ends[key] = ReplyEnd.LOST  # the receiver has lost its connection meanwhile
                self._attempts[key] = attempt - 1
                return
            self._ends[key] = ReplyEnd.REFUSED
            self._count(source, why, kept, None)
            return
        body = self._desk.transparent(kept.subject, FoundStatement(kept.place, kept.statement))
        self._ends[key] = None
        self._rates[source].add(self._context.clock.monotonic())
        if receipt.refusals:
            self._retry_rates[source].add(self._context.clock.monotonic())
        ended = partial(self._ended, key, receipt, path.address)
        path.by.reply(Reply(path.address, body, message, TRANSPARENT_STATEMENT_TYPE, ended))

    def _ended(self, key: tuple[str, int], receipt: _Statement, address: str, end: ReplyEnd) -> None:
        """Take note of how a reply has ended. The receiver's thread calls this."""
        if self._ends.get(key, end) is not None:
            return
        self._ends[key] = end
        if end is ReplyEnd.BUSY and not receipt.is_last_time:
            if not receipt.refusals:
                log.info("receipt_postponed", attachment=receipt.kept.subject, source=key[0], address=address)
        elif end is not ReplyEnd.LOST:
            self._count(key[0], end.value, receipt.kept, address)

    def _count(self, source: str, outcome: str, kept: KeptStatement, address: str | None) -> None:
        self._context.metrics.receipt_replies.labels(source, outcome).inc()
        if outcome != ReplyEnd.SENT.value:
            log.warning("receipt_not_sent", attachment=kept.subject, source=source, address=address, outcome=outcome)


def _position(said: Mapping[str, Any], journal: str | None) -> int | None:
    """Return the packed position of the message that is replied to: the header, or the first part. None if the
    statement does not tell it, or if it is of another journal."""
    places = said.get("journal") or {}
    if not places or places["id"] != journal:
        return None
    return Position(*(places["header"] or places["first"])).pack()
