"""Copies of segments: of those that a receiver publishes, and of the one that another process is writing.

Segments of a receiver's own journal become one segment of the journal that receivers share. Only what depends on the
place changes: the header, and the position and checksum of each batch. Bodies are copied as they are. What is damaged
in the own journal becomes a message without a body that says so: its bytes are nowhere else.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from adapters.arrow_journal import arrow_ipc
from adapters.arrow_journal.batch_columns import Bytes, Head, encode, place_head
from adapters.arrow_journal.segment_files import SegmentState, segment_files
from adapters.arrow_journal.segment_header import BadHeader, header_bytes, header_of, seed_of
from adapters.arrow_journal.segment_reader import SegmentFile
from adapters.arrow_journal.segment_scan import Scanner, damaged_rows
from adapters.disk import ReadFile
from app.model.errors import DamagedError
from app.model.message import UNREADABLE, PhysicalMessage, Position
from app.model.records import DAMAGED_MESSAGE, JournalIdentity, Publication
from app.ports import OpenSegment

# --- published segments -----------------------------------------------------------------------------------------------


def published(
    segments: Sequence[SegmentFile], number: int, shared: JournalIdentity, origin: Publication
) -> Iterator[Bytes]:
    """Yield the file of segment `number` of a shared journal, with all messages of these sealed segments in order.

    Raises KeyError when one of them is gone.
    """
    seed = seed_of(shared.id, number)
    yield header_bytes(segments[0].state.created_at, shared, origin)
    batch = 0
    for segment in segments:
        for pieces in _batches(segment, number, batch, seed):
            yield from pieces
            batch += 1
    yield arrow_ipc.END_OF_STREAM


def end_of(segments: Sequence[SegmentFile], number: int) -> Position:
    """Return the position of the last message in the file that `published` makes of these segments."""
    batches = [_count(segment) for segment in segments]
    last = segments[-1]
    try:
        rows = last.head(batches[-1] - 1).rows
    except DamagedError:
        rows = 1
    return Position(number, sum(batches) - 1, rows - 1)


def _count(segment: SegmentFile) -> int:
    """Return the number of batches; those that are lost together, and the whole of a segment without any, are one."""
    try:
        return segment.batch_count() + segment.state.open_ended
    except DamagedError:
        return 1


def _batches(segment: SegmentFile, number: int, first: int, seed: int) -> Iterator[Sequence[Bytes]]:
    for at in range(_count(segment)):
        place = Position(number, first + at, 0)
        try:
            data = segment.undamaged_bytes(at)
            if data is None:
                yield encode(segment.messages(at), place, seed).buffers()
            else:
                head = segment.head(at)
                moved = bytearray(head.data)
                place_head(moved, head.rows, place, seed)
                yield moved, data[len(moved) :]
        except DamagedError as error:
            lost = PhysicalMessage("", UNREADABLE, received_at=segment.state.created_at)
            yield encode([lost.unreadable(DAMAGED_MESSAGE, str(error))], place, seed).buffers()


# --- the segment that is being written --------------------------------------------------------------------------------


def durable_part(folder: Path) -> OpenSegment | None:
    """Return the unsealed segment of a journal's folder as if it had been sealed after its last whole batch.

    An append writes from front to back, so everything before a whole batch is durable. Return None if there is no such
    batch, or no unsealed segment any more.
    """
    for number, sealed, path in sorted(segment_files(folder), reverse=True):
        if sealed:
            continue
        try:
            file = ReadFile(path)
            size = file.size()
            header = header_of(file, size, path)
        except (FileNotFoundError, BadHeader):
            continue
        state = SegmentState(number, size, header.created_at, seed=seed_of(header.journal.id, number))
        if (last := _last(file, state)) is not None:
            pieces = chain(file.pieces_as_is(0, last.end), [arrow_ipc.END_OF_STREAM])
            return OpenSegment(number, Position(number, last.number, last.rows - 1), map(memoryview, pieces))
    return None


def _last(file: ReadFile, state: SegmentState) -> Head | None:
    """Return the last batch with undamaged bodies; None if there is none."""
    assert state.seed is not None
    heads = [each for each in Scanner(file, state.size, state.number, state.seed) if isinstance(each, Head)]
    segment = SegmentFile(state, lambda _: file)
    for head in reversed(heads):
        if head.rows and head.end <= state.size and len(damaged_rows(segment, head)) < head.rows:
            return head
    return None
