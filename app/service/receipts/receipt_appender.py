"""The log of receipts grows: one process follows the event log, appends a statement for each attachment that was
finished and each delivery that was sent, and signs a tree head for each batch.

Receiving and sending do nothing for it. A batch is one transaction with the number of the event that the log has
reached: a process that is killed loses no statement, and makes none twice. The keeper does this, and the transaction
fails for one that is the keeper no more. The event `receipt.made` doubles the rows, and takes a quarter more time: it
is logged only if a webhook or a setting wants it.
"""

from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from app.codecs.receipts import cose, merkle
from app.codecs.receipts.statements import signed_head
from app.model.event_logs import EventFilter
from app.model.receipt_records import KeptHead, NewReceipt, ReceiptLog
from app.service.context import ServiceContext
from app.service.events.event_entries import receipt_event
from app.service.receipts.custody_statements import statement
from app.service.receipts.receipt_keys import SigningKey
from app.settings import ReceiptSettings

AT_ONCE: Final = 2000
PAUSES: Final = 19
"""The pause after a batch, in times of what it took: the log takes at most a twentieth of the time, and is late rather
than the intake slow."""
SHORTEST_PAUSE, LONGEST_PAUSE = 1.0, 10.0
"""Seconds."""
EVENTS_BETWEEN: Final = 500
"""The events without a statement after which it is saved that the log has reached them."""


class ReceiptAppender:
    """Appends to the log of receipts: one thread calls `step`."""

    def __init__(self, context: ServiceContext, settings: ReceiptSettings) -> None:
        self._context, self._settings = context, settings
        self._catalog, self._metrics = context.catalog, context.metrics
        self._key = SigningKey(settings)
        hooks = [EventFilter.of(each.types) for each in context.settings.webhooks.values()]
        self._makes_events = settings.events or any(each.has_type("receipt.made") for each in hooks)
        self._log: ReceiptLog | None = None
        self._signed_by: bytes | None = None
        self._error: str | None = None
        self._due = 0.0

    def step(self) -> None:
        """Append a batch, if the pause after the last one is over. Call it several times a second."""
        began = self._context.clock.monotonic()
        if began < self._due:
            return
        try:
            has_more = self.append()
        except Exception as error:
            self._log, self._error = None, str(error)  # what is known of the log is read again
            self._metrics.receipts_failing.set(1)
            raise
        self._error = None
        self._metrics.receipts_failing.set(0)
        ended = self._context.clock.monotonic()
        shortest = 0.0 if has_more else SHORTEST_PAUSE
        self._due = ended + min(max(shortest, PAUSES * (ended - began)), LONGEST_PAUSE)

    def check(self) -> dict[str, Any]:
        """Return the check for the health report."""
        log = self._log
        return {"ok": self._error is None, "size": None if log is None else log.size, "error": self._error}

    def append(self) -> bool:
        """Append a batch of what the event log has and the log of receipts lacks; return whether there may be more."""
        known = self._log or self._begun()
        causes, reached = self._catalog.receipt_causes(known.event, AT_ONCE)
        key = self._key.current()
        is_new_key = cose.key_id(key.public_key()) != self._signed_by
        if not causes and not (is_new_key and known.size) and reached - known.event < EVENTS_BETWEEN:
            return False
        bound = self._catalog.journal_identity() if causes else None
        journal = None if bound is None else bound.id
        new = [NewReceipt(cause.subject, statement(cause, journal)) for cause in causes]
        leaves = [merkle.leaf_hash(each.statement) for each in new]
        unfilled = {each: self._catalog.receipt_tile(*each) for each in merkle.tiles_to_change(known.size)}
        tiles = merkle.appended(known.size, leaves, unfilled)
        size, head = known.size + len(new), None
        if size and (new or is_new_key):
            head = self._head(key, known.name, size, unfilled | tiles)
        now = self._context.clock.now()
        made = [
            receipt_event(cause, leaf, known.size + at, size, now)
            for at, (cause, leaf) in enumerate(zip(causes, leaves, strict=True))
            if self._makes_events
        ]
        behind = self._catalog.last_event() - reached  # without those that are made here
        tables = max((each.tables.number for each in causes if each.tables is not None), default=0)
        self._log = self._catalog.append_receipts(known, new, tiles, reached, head, made, tables)
        self._signed_by = cose.key_id(key.public_key()) if head is not None else self._signed_by
        self._metrics.receipts.inc(len(new))
        self._metrics.receipt_log_size.set(size)
        self._metrics.receipts_behind_events.set(behind)
        return len(causes) == AT_ONCE

    def _head(self, key: Ed25519PrivateKey, name: str, size: int, tiles: Mapping[merkle.Tile, bytes]) -> KeptHead:
        """Return the signed head of a tree; `tiles` has the last one of each level, as all others are full."""

        def tile(level: int, number: int) -> bytes:
            return tiles.get((level, number)) or self._catalog.receipt_tile(level, number)

        root = merkle.root(size, merkle.nodes_of(tile))
        now = self._context.clock.now() // 1_000_000
        signed = signed_head(key, self._settings.issuer, name, size, root, now)
        return KeptHead(size, signed.protected, root, signed.signature)

    def _begun(self) -> ReceiptLog:
        """Return the log, which is begun if there is none, and learn which key has signed its newest head."""
        found = self._catalog.receipt_log() or self._catalog.begin_receipt_log(f"urn:uuid:{uuid4()}")
        head = self._catalog.receipt_head()
        self._signed_by = None if head is None else cose.decoded(head.protected).get(cose.KEY_ID)
        self._metrics.receipt_log_size.set(found.size)
        return found
