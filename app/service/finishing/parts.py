"""The parts of an attachment: those that the journal still has, and those that have not come."""

from collections.abc import Collection, Sequence

from app.assembly.arrangement import arrangement_of
from app.assembly.parts import Parts
from app.model.errors import DamagedError
from app.model.message import Position
from app.model.records import AttachmentRecord, changed
from app.observe import logger
from app.ports import JournalReader, JournalReferences

log = logger(__name__)


def segments_of(journal: JournalReader) -> set[int]:
    """The numbers of the segments that there are."""
    return {segment.number for segment in journal.segments()}


def held_parts(
    record: AttachmentRecord, catalog: JournalReferences, segments: Collection[int]
) -> tuple[AttachmentRecord, Parts, bool]:
    """An attachment with those of its parts that lie in these segments, and whether these are all that ever came."""
    parts = Parts(catalog.part_runs(record.id))
    if all(Position.unpack(run.position).segment in segments for run in parts.runs):
        return record, parts, True
    return without_gone(record, parts, segments), parts, False


def without_gone(record: AttachmentRecord, parts: Parts, segments: Collection[int]) -> AttachmentRecord:
    """Removes parts that lie in none of these segments. Of a group nothing is left: how far it has come cannot be told
    any more."""
    is_group = record.group is not None
    parts.keep(lambda position: not is_group and Position.unpack(position).segment in segments)
    log.warning("attachment_parts_missing", attachment=record.id, left=parts.count)
    if is_group:
        return changed(record, group=None, parts_received=0, bytes_received=0)
    return changed(record, parts_received=parts.count)


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
