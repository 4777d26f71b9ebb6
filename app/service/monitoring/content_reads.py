"""When the content of an attachment was read, and by whom: from the audit log."""

from collections import Counter
from datetime import datetime
from itertools import islice
from typing import Final

from app.model.records import AttachmentRecord
from app.model.times import to_microseconds, to_time
from app.service.access.audit import AuditLog, Entry
from app.service.monitoring.timeline import Moment

LOOKED_AT: Final = 32 << 20
"""The newest bytes of the audit log that are searched: some 100,000 entries in some 0.05 s."""
MOST_READS: Final = 10_000
"""The most reads of an attachment that are counted."""
MOST_READERS: Final = 20
"""The most readers that are told by name, those who read most."""
_ACTION: Final = "read-content"


def reads(record: AttachmentRecord, log: AuditLog, *, names_readers: bool) -> list[Moment]:
    """Return a moment for each reader of an attachment's content, at its first read, with how often it has read.

    Without names, all readers are one. Requests for ranges count one by one, those that were refused or failed not at
    all. What lies further back than `LOOKED_AT` bytes is not known.
    """
    found = log.about(record.id, to_time(record.first_received_at), LOOKED_AT)
    done = (each for each in found if _is_read(each, record.id))
    readers = [(_reader(each) if names_readers else "", str(each["time"])) for each in islice(done, MOST_READS)]
    times = Counter(name for name, _ in readers)
    last = dict(reversed(readers))
    first = dict(readers)
    return [_moment(name, count, first[name], last[name]) for name, count in times.most_common(MOST_READERS)]


def _is_read(entry: Entry, attachment_id: str) -> bool:
    about = entry.get("attachment"), entry.get("action"), entry.get("result")
    return about == (attachment_id, _ACTION, "done")


def _reader(entry: Entry) -> str:
    who = entry.get("who") or {}
    return f"{who.get('name', 'somebody')} ({who.get('kind', 'not known')})"


def _moment(name: str, count: int, first: str, last: str) -> Moment:
    begin, end = (to_microseconds(datetime.fromisoformat(time)) for time in (first, last))
    return Moment(begin, "read", f"by {name}" if name else None, count, end if count > 1 else None)
