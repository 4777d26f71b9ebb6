"""What has not come of an attachment."""

from collections.abc import Sequence

from app.assembly.arrangement import arrangement_of
from app.assembly.parts import Parts
from app.model.errors import DamagedError
from app.model.message import Position
from app.model.records import AttachmentRecord
from app.ports import JournalReader, JournalReferences


def missing_ranges(
    record: AttachmentRecord, catalog: JournalReferences, journal: JournalReader, limit: int
) -> list[tuple[int, int]]:
    """Return closed ranges of sequence numbers that have not come yet, at most `limit` of them; of an IBM MQ group, of
    the MsgSeqNumbers of logical messages that are not whole."""
    parts = Parts(catalog.part_runs(record.id))
    return arrangement_of(record).missing(record, parts, lambda positions: _sizes(positions, journal), limit)


def _sizes(positions: Sequence[int], journal: JournalReader) -> list[int]:
    """The sizes of the bodies at these packed positions; zeros when the journal has lost or let go of one."""
    try:
        return [extent.length for extent in journal.extents(map(Position.unpack, positions))]
    except (KeyError, DamagedError):
        return [0] * len(positions)
