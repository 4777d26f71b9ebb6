"""The deletion of attachments, messages and deliveries by clients. `app.service.retention` deletes what is old."""

from collections.abc import Iterable, Sequence

from app.assembly.states import Input, follow
from app.model.attachment import AttachmentState, DeliveryState
from app.model.records import AttachmentRecord
from app.observe import logger
from app.service.context import Between, ServiceContext
from app.service.events.event_entries import deletion_event, delivery_deletion_event, message_deletion_event

log = logger(__name__)

_ENDED = (AttachmentState.EXPIRED, AttachmentState.QUARANTINED, AttachmentState.DELETED)
_OPEN = (DeliveryState.QUEUED, DeliveryState.SENDING)


class NotEnded(Exception):
    """A message or a delivery that cannot be deleted yet.

    `attachments` of a message must be deleted before it; they are in the header's order. `state` is the state of a
    delivery.
    """

    def __init__(
        self, why: str, attachments: Iterable[AttachmentRecord] = (), state: DeliveryState | None = None
    ) -> None:
        super().__init__(why)
        self.attachments, self.state = tuple(attachments), state


def remove_content(deleted: Sequence[AttachmentRecord], context: ServiceContext) -> None:
    """Remove the objects of deleted attachments. If it fails, the catalog knows them for the next attempt."""
    stored = {each.id: each.object_name for each in deleted if each.object_name is not None}
    if stored:
        context.store.delete_all([*stored.values()])
        context.catalog.content_removed([*stored])


class Deletion:
    """Deletes for good. `between` makes a change between two messages that are assembled."""

    def __init__(self, context: ServiceContext, between: Between) -> None:
        self._context, self._catalog, self._store = context, context.catalog, context.store
        self._clock, self._notifier = context.clock, context.notifier
        self._between = between

    def attachment(self, attachment_id: str) -> bool:
        """Delete an attachment and its content. Return False when there is none."""
        record = self._catalog.attachment(attachment_id)
        if record is None or follow(record.state, Input.DELETE) is None:
            return False
        self._delete([record])
        self._notifier.notify()
        return True

    def _delete(self, records: Sequence[AttachmentRecord]) -> None:
        now, ids = self._clock.now(), [each.id for each in records]
        self._catalog.set_state(ids, AttachmentState.DELETED, events=[deletion_event(each, now) for each in records])
        self._context.metrics.count_attachments(AttachmentState.DELETED, records)
        deleted = self._catalog.attachments_by_id(ids)  # they may have been finished or settled meanwhile
        try:
            remove_content(deleted, self._context)
        except Exception as error:  # noqa: BLE001 - they are deleted, and retention removes their objects
            log.warning("content_removal_failed", attachments=ids[:5], count=len(ids), reason=str(error))

    def message(self, message_id: str) -> bool:
        """Delete a message, and its expired and quarantined attachments. Return False when there is none.

        The rows of its attachments remain, so that parts that still arrive are recognised. Raises NotEnded while any
        other attachment is not deleted.
        """
        record = self._catalog.message(message_id)
        if record is None:
            return False
        found = {each.id: each for each in self._catalog.attachments_by_id(record.attachments)}
        attachments = [found[each] for each in record.attachments if each in found]
        if kept := [each for each in attachments if each.state not in _ENDED]:
            raise NotEnded(f"{len(kept):,} of its attachments are not deleted; delete them before", kept)
        self._delete([each for each in attachments if follow(each.state, Input.DELETE) is not None])
        deleted = self._catalog.drop_message(message_id, [message_deletion_event(record, self._clock.now())])
        self._between(lambda: ())  # assembly reads messages again; the catalog refuses a deleted one
        self._notifier.notify()
        return deleted

    def delivery(self, delivery_id: str) -> bool:
        """Delete a delivery that has ended, and its content. Return False when there is none. Raises NotEnded."""
        record = self._catalog.delivery(delivery_id)
        if record is None:
            return False
        if record.state in _OPEN:
            raise NotEnded(f"the delivery is {record.state}; delete it when it has ended", state=record.state)
        if not self._catalog.drop_deliveries([record.id], [delivery_deletion_event(record, self._clock.now())]):
            return False
        # After a crash here, the next start finds objects of no delivery, and deletes them.
        self._store.delete_all([each.object_name for each in record.attachments if each.object_name])
        self._notifier.notify()
        return True
