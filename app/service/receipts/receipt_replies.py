"""Receipts go back to those who sent the attachments: as replies to their messages, for sources with `reply_receipts`.

The receipts of a source go in the order of the log. The place up to which they were sent is in the catalog, and moves
only after the broker has confirmed what is before it. So a process that is killed loses none, and the next one sends
again what was not confirmed: at least once. What a broker or a queue refuses, and what breaks the connection again and
again, is not sent for ever: it is logged, counted, and left. REST has the receipt in any case.

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
from app.model.receipt_records import ATTACHMENT_FINISHED, KeptStatement
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


class _Statement(NamedTuple):
    """A statement in the log, and what it says."""

    kept: KeptStatement
    said: Mapping[str, Any]


class ReceiptReplies:
    """Sends the receipts of those sources that ask for it. One thread calls `step`."""

    def __init__(
        self, context: ServiceContext, settings: ReceiptSettings | None, receivers: Mapping[str, Receiver], stop: Event
    ) -> None:
        self._context, self._stop = context, stop
        found = context.settings.sources.items()
        self._rates = {name: MinuteRate(each.request_missing_rate) for name, each in found if each.reply_receipts}
        self._desk = ReceiptDesk(context.catalog, settings)
        self._paths = ReplyPaths(context.settings, receivers)
        self._attempts: dict[tuple[str, int], int] = {}
        self._ends: dict[tuple[str, int], ReplyEnd | None] = {}
        """How each receipt that was sent has ended, by source and place; None while that is not known. Other threads
        set values of keys that are there."""
        self._read: Sequence[_Statement] = ()
        """What was last read of the log in a step, for all sources that are there."""

    @property
    def has_sources(self) -> bool:
        return bool(self._rates)

    def step(self, catalog: Catalog) -> None:
        """Send what was appended to the log since the last step, with a catalog that only one process can write to in
        this."""
        known = catalog.receipt_log()
        size = 0 if known is None else known.size
        for source in self._rates:
            after = catalog.receipts_replied(source)
            if after is None:  # what came before it was switched on is not sent
                catalog.save_receipts_replied(source, size)
                continue
            deadline = monotonic() + PATIENCE
            while after is not None and after < size and self._paths.is_connected(source):
                reached = self._reply(source, after, catalog, deadline)
                after = reached if reached > after and monotonic() < deadline and not self._stop.is_set() else None
        self._read = ()

    def _statements(self, after: int, catalog: Catalog) -> Sequence[_Statement]:
        """Return the statements from a place on, as far as one reading of the log goes."""
        if not self._read or not self._read[0].kept.place <= after <= self._read[-1].kept.place:
            found = catalog.receipt_statements(after, READ_AT_ONCE)
            self._read = [_Statement(each, json.loads(each.statement)) for each in found]
        return [each for each in self._read if each.kept.place >= after]

    def _reply(self, source: str, after: int, catalog: Catalog, deadline: float) -> int:
        """Send the next receipts of a source, wait until they are confirmed, and save and return how far they are."""
        found = self._statements(after, catalog)
        all_own = [each for each in found if _is_of(each.said, source)]
        own = all_own[:AT_ONCE]
        end = all_own[AT_ONCE].kept.place if len(all_own) > AT_ONCE else found[-1].kept.place + 1
        open_now = [each for each in own if self._ends.get((source, each.kept.place), ReplyEnd.LOST) is ReplyEnd.LOST]
        allowed = open_now[: self._rates[source].room(self._context.clock.monotonic())]
        self._send(source, allowed)
        waiting = {each.kept.place for each in own}
        while any((source, place) in self._ends and self._ends[source, place] is None for place in waiting):
            if monotonic() > deadline or self._stop.wait(0.01):
                break
        reached = next(
            (place for place in sorted(waiting) if self._ends.get((source, place)) in (None, ReplyEnd.LOST)),
            end,
        )
        if reached > after:
            catalog.save_receipts_replied(source, reached)
        for place in [place for place in waiting if place < reached]:
            self._attempts.pop((source, place), None)
            del self._ends[source, place]
        return reached

    def _send(self, source: str, receipts: Sequence[_Statement]) -> None:
        bound = self._context.catalog.journal_identity()
        journal = None if bound is None else bound.id
        positions = [_position(each.said, journal) for each in receipts]
        messages = messages_at(self._context.journal, {position for position in positions if position is not None})
        for each, position in zip(receipts, positions, strict=True):
            self._send_one(source, each.kept, None if position is None else messages.get(position))

    def _send_one(self, source: str, kept: KeptStatement, message: PhysicalMessage | None) -> None:
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
        ended = partial(self._ended, key, kept, path.address)
        path.by.reply(Reply(path.address, body, message, TRANSPARENT_STATEMENT_TYPE, ended))

    def _ended(self, key: tuple[str, int], kept: KeptStatement, address: str, end: ReplyEnd) -> None:
        """Take note of how a reply has ended. The receiver's thread calls this."""
        if self._ends.get(key, end) is None:
            self._ends[key] = end
            if end is not ReplyEnd.LOST:
                self._count(key[0], end.value, kept, address)

    def _count(self, source: str, outcome: str, kept: KeptStatement, address: str | None) -> None:
        self._context.metrics.receipt_replies.labels(source, outcome).inc()
        if outcome != ReplyEnd.SENT.value:
            log.warning("receipt_not_sent", attachment=kept.subject, source=source, address=address, outcome=outcome)


def _is_of(said: Mapping[str, Any], source: str) -> bool:
    return said["type"] == ATTACHMENT_FINISHED and said.get("source") == source


def _position(said: Mapping[str, Any], journal: str | None) -> int | None:
    """Return the packed position of the message that is replied to: the header, or the first part. None if the
    statement does not tell it, or if it is of another journal."""
    places = said.get("journal") or {}
    if not places or places["id"] != journal:
        return None
    return Position(*(places["header"] or places["first"])).pack()
