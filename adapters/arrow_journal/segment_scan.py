"""A scan of a segment from head to head, which continues after damaged bytes.

Every head is checked before its lengths are used. After a damaged head, the scan continues at the next undamaged one.
Batches begin at whole blocks and contain their numbers, so batches after damage keep their places.
"""

from array import array
from collections.abc import Iterator
from typing import NamedTuple

from adapters.arrow_journal import arrow_ipc
from adapters.arrow_journal.batch_columns import Head, read_head
from adapters.arrow_journal.read_window import ReadWindow
from adapters.arrow_journal.segment_files import SegmentState, lost
from adapters.disk import ReadFile, UnreadableError


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
        while self._at < self._size and not self._ends():
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

    def _ends(self) -> bool:
        end = self._size - len(arrow_ipc.END_OF_STREAM)
        if self._at != end:
            return False
        self.reached_end = True
        self.ended = self._get(end, self._size) == arrow_ipc.END_OF_STREAM
        return True

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
        end = self._size - len(arrow_ipc.END_OF_STREAM)
        self.ended = self._get(end, self._size) == arrow_ipc.END_OF_STREAM
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
