"""The state of the catalog after a run, for people and for programs."""

from collections import Counter
from itertools import islice
from typing import NamedTuple

from app.model.attachment import AttachmentState
from app.model.records import AttachmentRecord
from app.ports import AttachmentFilter, Catalog, JournalReader
from app.service.finishing.stored_parts import missing_ranges
from app.service.repair.catalog_pages import AT_ONCE, pages

MOST_LISTED = 1000
MOST_RANGES = 10


class Incomplete(NamedTuple):
    """An attachment that lacks parts: its `missing` ranges of sequence numbers, as far as they are known.

    The ranges may be empty for one without a count (no expected parts).
    """

    record: AttachmentRecord
    missing: list[tuple[int, int]]


class RunReport(NamedTuple):
    """The report of a run.

    `states` counts the attachments, `unannounced` what waits for its header, and `reasons` the entries of quarantine by
    code. `incomplete` has at most `MOST_LISTED` attachments, the newest first.
    """

    states: dict[str, int]
    unannounced: int
    incomplete: list[Incomplete]
    reasons: dict[str, int]


def report(catalog: Catalog, journal: JournalReader) -> RunReport:
    receiving = AttachmentFilter(state=AttachmentState.RECEIVING, announced=True)
    counts = catalog.counts()
    records = islice(pages(lambda cursor: catalog.attachments(receiving, cursor, AT_ONCE)), MOST_LISTED)
    reasons = Counter(entry.code for entry in pages(lambda cursor: catalog.quarantined(None, None, cursor, AT_ONCE)))
    return RunReport(
        states={state: count for state, count in counts["attachments"].items() if count},
        unannounced=counts["unannounced"][AttachmentState.RECEIVING],
        incomplete=[Incomplete(record, missing_ranges(record, catalog, journal, MOST_RANGES)) for record in records],
        reasons=dict(reasons.most_common()),
    )
