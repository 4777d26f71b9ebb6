"""Receipts go back to the senders: for the sources of `receipts.send_back`, each receipt becomes a delivery.

It follows the log of receipts by its own number in the catalog. The identifier of a delivery is made of the place of
its statement, so that a process which goes on after a crash queues none twice.
"""

import json
from hashlib import blake2b
from threading import Event
from typing import Any, Final

from app.model.attachment import AttachmentKind
from app.model.receipt_records import ATTACHMENT_FINISHED, KeptStatement
from app.service.context import ServiceContext
from app.service.events.event_entries import delivery_event
from app.service.receipts.receipt_desk import FoundStatement, ReceiptDesk
from app.service.sending.delivery_creation import folder_of
from app.service.sending.drafts import DraftedAttachment, DraftedMessage, new_delivery
from app.service.sending.upload_parts import PartWriter
from app.settings import ReceiptSettings

ENDING: Final = ".receipt.cose"
"""How the names of receipts end. One that comes back as an attachment gets none itself."""
AT_ONCE: Final = 100
_PART: Final = "receipt"


class ReceiptSender:
    """Queues receipts for the senders: one thread calls `step`."""

    def __init__(self, context: ServiceContext, settings: ReceiptSettings, stop: Event) -> None:
        self._context, self._settings, self._stop = context, settings, stop
        self._catalog = context.catalog
        self._desk = ReceiptDesk(context.catalog, settings)

    def step(self) -> None:
        """Queue the receipts of the statements that were appended since the last step."""
        if (known := self._catalog.receipt_log()) is None:
            return
        after = self._catalog.receipts_sent_back()
        if after is None:  # what came before it was switched on is not sent
            self._catalog.save_receipts_sent_back(known.size)
            return
        while not self._stop.is_set() and (found := self._catalog.receipt_statements(after, AT_ONCE)):
            for each in found:
                self._send(each)
                after = each.place + 1
            self._catalog.save_receipts_sent_back(after)
            if len(found) < AT_ONCE:
                break

    def _send(self, kept: KeptStatement) -> None:
        said: dict[str, Any] = json.loads(kept.statement)
        destination = self._settings.send_back.get(str(said.get("source")))
        is_receipt = str(said.get("name", "")).endswith(ENDING)
        if said["type"] != ATTACHMENT_FINISHED or destination is None or is_receipt:
            return
        identifier = blake2b(kept.place.to_bytes(8) + kept.statement, digest_size=16, person=b"receipt").hexdigest()
        if self._catalog.delivery(identifier) is not None:
            return
        content = self._desk.transparent(kept.subject, FoundStatement(kept.place, kept.statement))
        writer = PartWriter(self._context.store, f"{folder_of(identifier)}/{_PART}")
        writer.write(memoryview(content))
        part = writer.finish(_PART, None, "")
        attachment = DraftedAttachment(
            _PART, AttachmentKind.BINARY_FILE, kept.subject + ENDING, description=f"Receipt of {kept.subject}"
        )
        answered = (said.get("message") or {}).get("header_correl_id")
        message = DraftedMessage(
            destination, (attachment,), original_correl_id=b"" if answered is None else bytes.fromhex(answered)
        )
        to, now = self._context.settings.destinations[destination], self._context.clock.now()
        delivery = new_delivery(identifier, message, {_PART: part}, to, now=now)
        self._catalog.add_delivery(delivery, [delivery_event(delivery)])
        self._context.metrics.deliveries.labels(delivery.state).inc()
