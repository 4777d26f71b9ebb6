"""Log lines of what happened to attachments, messages and deliveries.

They are read from the catalog's events, which assembly, finishing, sending and the Spark job write. So each appears in
the log exactly when it appears at `/v1/events`.
"""

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from app.model.records import EventRecord
from app.model.trace_context import trace_fields
from app.observe import logger

ONE_BY_ONE: Final = 20
"""The most events of one type, in one reading, that have a line each. More are counted in one line."""
IDS_LOGGED: Final = 5

LEVELS: Final[Mapping[str, int]] = {
    "attachment.finished": logging.INFO,
    "attachment.warned": logging.WARNING,
    "attachment.quarantined": logging.WARNING,
    "message.quarantined": logging.WARNING,
    "delivery.sent": logging.INFO,
    "delivery.failed": logging.WARNING,
    "delivery.cancelled": logging.INFO,
}
"""The types of events that are logged here. What expires and what is deleted is logged where that is decided."""

log = logger(__name__)


def log_events(events: Sequence[EventRecord]) -> None:
    """Write the log lines of some events."""
    by_type = defaultdict(list)
    for each in events:
        by_type[each.type].append(each)
    for kind, alike in by_type.items():
        if (level := LEVELS.get(kind)) is None:
            continue
        name = kind.replace(".", "_")
        if len(alike) > ONE_BY_ONE:
            log.log(level, name, count=len(alike), ids=[each.subject for each in alike[:IDS_LOGGED]])
            continue
        for each in alike:
            log.log(level, name, id=each.subject, **each.data, **trace_fields(each.trace_parent))
