"""Complete attachments, and the parts of an attachment that the journal has or that have not come."""

from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from app.assembly.arrangement import arrangement_of
from app.assembly.part_places import Parts
from app.model.errors import DamagedError
from app.model.message import ROW_BITS, PhysicalMessage, Position
from app.model.records import AttachmentRecord, PartRun, changed
from app.model.trace_context import trace_fields
from app.observe import logger
from app.ports import JournalReader, JournalReferences

log = logger(__name__)

Places = npt.NDArray[np.int64]

HELD_RUNS = 32
"""The most runs of parts that are kept in memory with an attachment that waits to be finished."""


class CompleteAttachment(NamedTuple):
    """A complete attachment with the runs of its parts; `runs` is None if only the catalog has them."""

    record: AttachmentRecord
    runs: Sequence[PartRun] | None = None

    @classmethod
    def of(cls, record: AttachmentRecord, fresh: list[PartRun]) -> "CompleteAttachment | None":
        """Return an attachment with the runs that its last checkpoint added; None if they are not all, or more than
        `HELD_RUNS`."""
        is_all = len(fresh) <= HELD_RUNS and sum(run.length for run in fresh) == record.parts_received
        return cls(record, fresh) if is_all else None

    def places(self) -> Iterable[int]:
        """Return the packed positions of the parts, in the order of the content."""
        record, runs = self.record, self.runs or ()
        if len(runs) == 1 and record.group is None:  # as most do: in order, and none between them
            first, length, position = runs[0]
            if first == 1 and length == record.parts_expected:
                return range(position, position + length)
        return (packed for _, packed in arrangement_of(record).in_order(record, Parts(runs)))

    def first_place(self) -> int | None:
        """Return the packed position of the first part; None if there are no parts."""
        return next(iter(self.places()), None)


def neighbours(
    complete: Iterable[CompleteAttachment], most_bytes: int, most_parts: int, largest: int
) -> Iterator[list[CompleteAttachment]]:
    """Yield attachments in pieces whose parts are read together. Those with more than `largest` bytes do not count:
    they are read alone."""
    piece: list[CompleteAttachment] = []
    size = parts = 0
    for each in complete:
        piece.append(each)
        if each.record.bytes_received <= largest:
            size += each.record.bytes_received
            parts += each.record.parts_received
        if size >= most_bytes or parts >= most_parts or len(piece) >= most_parts:
            yield piece
            piece, size, parts = [], 0, 0
    if piece:
        yield piece


class HeldSegments(Container[int]):
    """The segments of a journal. Each is looked up when it is asked for: a list of those in an archive takes long."""

    def __init__(self, journal: JournalReader) -> None:
        self._journal = journal

    def __contains__(self, segment: object) -> bool:
        return isinstance(segment, int) and self._journal.has(segment)


def messages_at(journal: JournalReader, places: Collection[int]) -> dict[int, PhysicalMessage]:
    """Return the messages at packed positions, without those that are no longer in the journal."""
    found: dict[int, PhysicalMessage] = {}
    for (segment, batch), together in groupby(map(Position.unpack, sorted(places)), lambda place: place[:2]):
        wanted = list(together)
        try:
            read = journal.messages(segment, batch, [place.row for place in wanted])
        except (KeyError, DamagedError):
            log.warning("messages_not_found", segment=segment, batch=batch, messages=len(wanted), where="journal")
            continue
        found.update(zip([place.pack() for place in wanted], read, strict=True))
    return found


def places_of(runs: Iterable[PartRun]) -> Places:
    """Return the packed position of each part of these runs."""
    lengths, positions = np.array([(length, position) for _, length, position in runs], np.int64).reshape(-1, 2).T
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    places: Places = np.repeat(positions, lengths) + within
    return places


def by_batch(places: Places) -> Iterator[tuple[int, int, list[int], list[int]]]:
    """Yield the record batches of packed positions: segment, batch, rows, which ascend, and their indices here."""
    order = np.argsort(places)
    ascending = places[order]
    starts = np.flatnonzero(np.diff(ascending >> ROW_BITS, prepend=-1))
    for start, end in pairwise([*starts.tolist(), len(places)]):
        segment, batch, _ = Position.unpack(int(ascending[start]))
        yield segment, batch, (ascending[start:end] & (1 << ROW_BITS) - 1).tolist(), order[start:end].tolist()


def are_there(runs: Iterable[PartRun], segments: Container[int]) -> bool:
    """Tell whether these parts are all in these segments."""
    return all(Position.unpack(run.position).segment in segments for run in runs)


def begun(record: AttachmentRecord) -> AttachmentRecord | None:
    """Return an attachment as it is known before any of its parts; None for an IBM MQ group, as its parts describe
    it."""
    if record.group is not None:
        return None
    known = {name: getattr(record, name) for name in _DEFINED}
    return AttachmentRecord(**known)


_DEFINED = (
    "id",
    "source",
    "correl_id",
    "message_id",
    "ordinal",
    "kind",
    "qualifier_1",
    "qualifier_2",
    "description",
    "minor_version",
    "major_version",
    "dialects",
    "parts_expected",
    "first_position",
    "last_position",
    "first_received_at",
    "last_received_at",
    "trace_parent",
)


def held_parts(
    record: AttachmentRecord, runs: Sequence[PartRun], segments: Container[int]
) -> tuple[AttachmentRecord, Parts, bool]:
    """Return an attachment with its parts (`runs`), as far as they are in these segments, and whether all of them
    are."""
    parts = Parts(runs)
    if are_there(parts.runs, segments):
        return record, parts, True
    return without_gone(record, parts, segments), parts, False


def without_gone(record: AttachmentRecord, parts: Parts, segments: Container[int]) -> AttachmentRecord:
    """Remove the parts that are in none of these segments.

    A group loses all of its parts, since its progress can no longer be determined.
    """
    is_group = record.group is not None
    parts.keep(lambda position: not is_group and Position.unpack(position).segment in segments)
    log.warning(
        "attachment_parts_not_found", attachment=record.id, left=parts.count, **trace_fields(record.trace_parent)
    )
    if is_group:
        return changed(record, group=None, parts_received=0, bytes_received=0)
    return changed(record, parts_received=parts.count)


def missing_ranges(
    record: AttachmentRecord, catalog: JournalReferences, journal: JournalReader, limit: int
) -> list[tuple[int, int]]:
    """Return closed ranges of the sequence numbers that have not come yet, at most `limit` ranges.

    For an IBM MQ group they are the MsgSeqNumbers of incomplete logical messages, and for a file in byte ranges its
    bytes, counted from 1.
    """

    def sizes(positions: Sequence[int]) -> list[int]:
        """Return the sizes of the bodies at packed positions; zeros when the journal no longer has one of them."""
        try:
            return [extent.length for extent in journal.extents(map(Position.unpack, positions))]
        except (KeyError, DamagedError):
            return [0] * len(positions)

    return arrangement_of(record).missing(record, Parts(catalog.part_runs(record.id)), sizes, limit)
