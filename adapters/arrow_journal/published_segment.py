"""Segments of a receiver's own journal, published as one segment of the journal that receivers share.

Only what depends on the place changes: the header, and the position and checksum of each batch. Bodies are copied as
they are. What is damaged in the own journal becomes a message without a body that says so: its bytes are nowhere else.
"""

from collections.abc import Iterator, Sequence

from adapters.arrow_journal import arrow_ipc
from adapters.arrow_journal.batch_columns import Bytes, encode, place_head
from adapters.arrow_journal.segment_header import header_bytes, seed_of
from adapters.arrow_journal.segment_reader import SegmentFile
from app.model.errors import DamagedError
from app.model.message import UNREADABLE, PhysicalMessage, Position
from app.model.records import DAMAGED_MESSAGE, JournalIdentity, Publication


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
            yield _batch(segment, at, place, seed)
        except DamagedError as error:
            yield _lost(segment, place, seed, error)


def _batch(segment: SegmentFile, batch: int, place: Position, seed: int) -> Sequence[Bytes]:
    """Return a batch at another place. Raises DamagedError when it is lost."""
    data = segment.undamaged_bytes(batch)
    if data is None:
        encoded = encode(segment.messages(batch), place, seed)
        return encoded.buffers()
    head = segment.head(batch)
    moved = bytearray(head.data)
    place_head(moved, head.rows, place, seed)
    return moved, data[len(moved) :]


def _lost(segment: SegmentFile, place: Position, seed: int, error: DamagedError) -> Sequence[Bytes]:
    lost = PhysicalMessage("", UNREADABLE, received_at=segment.state.created_at)
    encoded = encode([lost.unreadable(DAMAGED_MESSAGE, str(error))], place, seed)
    return encoded.buffers()
