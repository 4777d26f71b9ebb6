"""Verification of a whole segment against its checksums."""

from collections.abc import Iterator
from typing import Protocol

from adapters.arrow_journal.batch_columns import BodyLayout, Head
from adapters.arrow_journal.body_pieces import RUN, BodyPiece, PieceSource, check_in_parts, fetch
from adapters.arrow_journal.segment_files import SegmentState
from adapters.arrow_journal.segment_header import BadHeader, header_of
from adapters.arrow_journal.segment_scan import Gap, Scanner
from app.model.records import Damage

LOST = "the batch is lost: its head fails its checksum"
NOT_ENDED = "the file has no end of stream, as a sealed segment has"


class VerifiableSegment(PieceSource, Protocol):
    """A segment whose file is open."""

    state: SegmentState

    @property
    def seed(self) -> int: ...

    def piece(self, batch: int, row: int, layout: BodyLayout) -> BodyPiece:
        """Return the whole body of a row as a piece."""


def damages(segment: VerifiableSegment) -> Iterator[Damage]:
    """Yield the damage of a segment in the order of the file. Raises KeyError when the segment is gone."""
    number, state, file = segment.number, segment.state, segment.file()
    size, is_sealed = state.size, state.sealed_at is not None
    try:
        header_of(file, size, f"segment {number}")
    except BadHeader as error:
        yield Damage(number, None, None, f"the header is damaged: {error}")
    scanner = Scanner(file, size, state.own_number, segment.seed)
    for found in scanner:
        if isinstance(found, Gap):
            yield from _in_gap(number, found)
            continue
        if not found.rows:
            yield Damage(number, found.number, None, LOST)
        yield from damaged_rows(segment, found)
    if is_sealed and not scanner.ended:
        yield Damage(number, None, None, NOT_ENDED)


def damaged_rows(segment: VerifiableSegment, head: Head) -> list[Damage]:
    """Return the damage of the rows of a batch whose bodies do not match their checksums."""
    pieces = [segment.piece(head.number, row, head.layout) for row in range(head.rows)]
    large = [piece for piece in pieces if piece.stop - piece.start > RUN]
    small = (piece for piece in pieces if piece.stop - piece.start <= RUN)
    found = [*filter(None, map(check_in_parts, large)), *(each for each in fetch(small) if isinstance(each, Damage))]
    return sorted(found, key=lambda damage: damage.row or 0)


def _in_gap(number: int, gap: Gap) -> Iterator[Damage]:
    if gap.following is None:
        why = f"{LOST}; no whole batch is left in bytes {gap.start} to {gap.end}, the last of the segment"
        yield Damage(number, gap.first, None, why)
    elif gap.following == gap.first:
        yield Damage(number, None, None, f"bytes {gap.start} to {gap.end} belong to no batch")
    else:
        yield from (Damage(number, batch, None, LOST) for batch in range(gap.first, gap.following))
