"""A scan of a segment from head to head, which continues after damaged bytes; by it, a segment is verified.

Every head is checked before its lengths are used. After a damaged head, the scan continues at the next undamaged one.
Batches begin at whole blocks and contain their numbers, so batches after damage keep their places.
"""

from array import array
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from adapters.arrow_journal import arrow_ipc
from adapters.arrow_journal.batch_columns import BodyLayout, Head, read_head
from adapters.arrow_journal.body_pieces import RUN, BodyPiece, PieceSource, check_in_parts, fetch
from adapters.arrow_journal.segment_files import SegmentState, lost
from adapters.arrow_journal.segment_header import BadHeader, header_of
from adapters.disk import ReadFile, ReadWindow, UnreadableError
from app.model.records import Damage

LOST = "the batch is lost: its head fails its checksum"
NOT_ENDED = "the file has no end of stream, as a sealed segment has"


class Gap(NamedTuple):
    """Bytes [start, end) without an undamaged head.

    They take the place of the batches from `first` up to before `following`. `following` is None at the end of the
    file, where the number of lost batches is unknown.
    """

    first: int
    following: int | None
    start: int
    end: int


class Scanner:
    """A scan of the first `size` bytes of a segment.

    `ended` says that these end with an end of stream, as in a sealed segment. `reached_end` says that the last batch,
    damaged or not, ends right before it.
    """

    def __init__(self, file: ReadFile, size: int, segment: int, seed: int, begin: int = arrow_ipc.BLOCK) -> None:
        self._window = ReadWindow(file, size)
        self._size, self._segment, self._seed, self._at = size, segment, seed, begin
        self.reached_end = self.ended = False

    def __iter__(self) -> Iterator[Head | Gap]:
        number = 0
        while self._at < self._size:
            if self._at == self._size - len(arrow_ipc.END_OF_STREAM):
                self.reached_end, self.ended = True, self._has_end()
                return
            head = self._head(self._at, number) or self._behind_damage(number)
            end = self._size if head is None else head.start
            if end > self._at or head is None or head.number > number:
                yield Gap(
                    number, head and head.number, self._at, end - (len(arrow_ipc.END_OF_STREAM) if self.ended else 0)
                )
            if head is None:
                return
            yield head
            self._at, number = head.end, head.number + 1

    def _has_end(self) -> bool:
        return self._get(self._size - len(arrow_ipc.END_OF_STREAM), self._size) == arrow_ipc.END_OF_STREAM

    def _head(self, at: int, number: int) -> Head | None:
        """Return the head at `at` of the batch `number` or of a later one."""
        head = read_head(self._get, at, self._segment, self._seed)
        return head if head is not None and head.number >= number else None

    def _behind_damage(self, number: int) -> Head | None:
        at = self._at + arrow_ipc.BLOCK - self._at % arrow_ipc.BLOCK
        while at < self._size:
            if (head := self._head(at, number)) is not None:
                return head
            at += arrow_ipc.BLOCK
        self.ended = self._has_end()
        return None

    def _get(self, start: int, end: int) -> bytes:
        try:
            return self._window.get(start, end)
        except UnreadableError:
            return b""


def find_batches(file: ReadFile, state: SegmentState, seed: int) -> None:
    """Set `batches` and `open_ended` of a segment."""
    batches = array("q")
    scanner = Scanner(file, state.size, state.own_number, seed)
    open_ended = False
    for found in scanner:
        if isinstance(found, Head):
            batches.append(found.start if found.rows else lost(found.start))
        elif found.following is not None:
            batches.extend([lost(found.start)] * (found.following - found.first))
        else:
            open_ended = True
    state.batches, state.open_ended = batches, open_ended or (state.sealed_at is not None and not scanner.reached_end)


# --- verification against checksums -----------------------------------------------------------------------------------


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
        if isinstance(found, Head):
            if not found.rows:
                yield Damage(number, found.number, None, LOST)
            yield from damaged_rows(segment, found)
        elif found.following is None:
            why = f"{LOST}; no whole batch is left in bytes {found.start} to {found.end}, the last of the segment"
            yield Damage(number, found.first, None, why)
        elif found.following == found.first:
            yield Damage(number, None, None, f"bytes {found.start} to {found.end} belong to no batch")
        else:
            yield from (Damage(number, batch, None, LOST) for batch in range(found.first, found.following))
    if is_sealed and not scanner.ended:
        yield Damage(number, None, None, NOT_ENDED)


def damaged_rows(segment: VerifiableSegment, head: Head) -> list[Damage]:
    """Return the damage of the rows of a batch whose bodies do not match their checksums."""
    pieces = [segment.piece(head.number, row, head.layout) for row in range(head.rows)]
    large = [piece for piece in pieces if piece.stop - piece.start > RUN]
    small = (piece for piece in pieces if piece.stop - piece.start <= RUN)
    found = [*filter(None, map(check_in_parts, large)), *(each for each in fetch(small) if isinstance(each, Damage))]
    return sorted(found, key=lambda damage: damage.row or 0)
