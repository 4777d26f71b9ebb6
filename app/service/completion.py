"""Messages become complete, and the event log says so."""

from collections.abc import Sequence

from app.model.records import NewEvent
from app.service.surroundings import Surroundings


def complete_messages(around: Surroundings, attachment_ids: Sequence[str], already: Sequence[str] = ()) -> None:
    """Completes the messages of these attachments as far as nothing of them is missing; `already` are the identifiers
    of others that have become complete."""
    now = around.clock.now()
    complete = around.catalog.complete_messages(attachment_ids, now) if attachment_ids else []
    if told := [*complete, *already]:
        around.catalog.add_events([NewEvent("message.complete", message, now, {}) for message in told])
