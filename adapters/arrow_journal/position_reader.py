"""Reading of many segments, by position or extent."""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from threading import Lock
from time import time_ns

import numpy as np
import pyarrow as pa

from adapters.arrow_journal.batch_columns import NO_LAYOUT, BodyLayout, Bytes
from adapters.arrow_journal.body_pieces import BodyPiece, PieceSource, fetch, readable
from adapters.arrow_journal.segment_copies import end_of, published
from adapters.arrow_journal.segment_files import SegmentState
from adapters.arrow_journal.segment_reader import OpenFile, SegmentFile, keep
from adapters.arrow_journal.segment_scan import damages
from app.model.errors import DamagedError
from app.model.message import UNREADABLE, PhysicalMessage, Position
from app.model.records import DAMAGED_MESSAGE, Damage, Extent, JournalIdentity, Publication
from app.ports import JOURNAL_SCHEMA, Segment

OPEN_SEGMENTS = 16
READ_AHEAD = 128
"""The number of extents that the disk is asked to read in advance."""
_EMPTY = memoryview(b"")

RECENT_BYTES = 16 << 20
"""The size of the bodies that are kept. An attachment is usually finished while its parts are among them, and then
needs no disk read."""
BODY_BYTES = 2048
"""Memory that a body takes in addition to its bytes."""
LAYOUTS = 1024

Batch = tuple[int, int]
"""The number of a segment and of a batch in it."""


class Recent:
    """The layouts of the last batches, and the bodies of the newest ones. The lock guards all fields."""

    def __init__(self) -> None:
        self._layouts: OrderedDict[Batch, BodyLayout] = OrderedDict()
        self._bodies: OrderedDict[Batch, Sequence[Bytes]] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def add(self, batch: Batch, layout: BodyLayout, bodies: Sequence[Bytes]) -> None:
        with self._lock:
            self._layouts[batch], self._bodies[batch] = layout, bodies
            self._size += _size(bodies)
            while self._size > RECENT_BYTES:
                _, oldest = self._bodies.popitem(last=False)
                self._size -= _size(oldest)
            while len(self._layouts) > LAYOUTS:
                self._layouts.popitem(last=False)

    def layout(self, batch: Batch) -> BodyLayout | None:
        return self._layouts.get(batch)

    def body(self, batch: Batch, row: int) -> memoryview | None:
        bodies = self._bodies.get(batch)
        return None if bodies is None or row >= len(bodies) else memoryview(bodies[row]).toreadonly()

    def forget(self, segment: int) -> None:
        """Drop a deleted segment."""
        with self._lock:
            for batch in [batch for batch in {*self._layouts, *self._bodies} if batch[0] == segment]:
                self._layouts.pop(batch, None)
                self._size -= _size(self._bodies.pop(batch, ()))


def _size(bodies: Sequence[Bytes]) -> int:
    return sum(map(len, bodies)) + BODY_BYTES * len(bodies)


class PositionReader:
    """Reads by position or extent, as `app.ports.JournalReader` specifies.

    It opens segments when they are asked for and keeps the last few open. `recent` holds batches that need not be read
    from disk. The lock `_opening` guards `_opened`.
    """

    def __init__(
        self,
        states: Mapping[int, SegmentState],
        open_file: OpenFile,
        recent: Recent,
        now: Callable[[], int] = lambda: time_ns() // 1000,
    ) -> None:
        self._states = states
        self._open_file = open_file
        self._recent = recent
        self._now = now
        self._opened: OrderedDict[int, SegmentFile] = OrderedDict()
        self._opening = Lock()

    def segments(self) -> list[Segment]:
        found = []
        for number, state in sorted(dict(self._states).items()):
            sealed_at = state.sealed_at  # read before the size, which grows a last time just before it is set
            found.append(Segment(number, state.size, state.created_at, sealed_at))
        return found

    def has(self, segment: int) -> bool:
        return segment in self._states

    def read(self, position: Position) -> PhysicalMessage:
        return self._segment(position.segment).message(position.batch, position.row)

    def messages(self, segment: int, batch: int, rows: Sequence[int]) -> list[PhysicalMessage]:
        held = [self._recent.body((segment, batch), row) for row in rows]
        return self._segment(segment).messages(batch, rows, held)

    def batch_count(self, segment: int) -> int:
        opened = self._segment(segment)
        return opened.batch_count() + opened.state.open_ended

    def descriptors(self, segment: int, batch: int) -> pa.RecordBatch:
        """Return the columns of a batch without its bodies; see `app.ports.Journal.descriptors`."""
        opened = self._segment(segment)
        head = opened.head(batch)
        ends = np.asarray(head.layout.offsets, np.int64)
        columns = opened.columns(head).select([name for name in JOURNAL_SCHEMA.names if name != "body"])
        return columns.append_column("size", pa.array(np.diff(ends), pa.int64()))

    def replay(self, after: Position | None) -> Iterator[tuple[list[Position], list[PhysicalMessage]]]:
        """Yield positions and messages after a position. Segments that are retired meanwhile are skipped."""
        start = Position(0, 0, 0) if after is None else after._replace(row=after.row + 1)
        durable = {
            number: None if state.batches is None else len(state.batches)
            for number, state in sorted(dict(self._states).items())
            if number >= start.segment
        }
        return self._replay(start, durable)

    def _replay(
        self, start: Position, durable: dict[int, int | None]
    ) -> Iterator[tuple[list[Position], list[PhysicalMessage]]]:
        for number, known in durable.items():
            first = start.batch if number == start.segment else 0
            try:
                segment = self._segment(number)
                count = segment.batch_count()
            except KeyError:
                continue
            except DamagedError as error:
                yield self._lost(max(start, Position(number, 0, 0)), error)
                continue
            # Batches that are lost at the end of a segment come as one.
            end = count + segment.state.open_ended if known is None else known
            for batch in range(first, end):
                position = Position(number, batch, 0)
                try:
                    messages = segment.messages(batch)
                except DamagedError as error:
                    if position >= start:
                        yield self._lost(position, error)
                    continue
                row = start.row if start[:2] == position[:2] else 0
                if row < len(messages):
                    yield [position._replace(row=each) for each in range(row, len(messages))], messages[row:]

    def _lost(self, position: Position, error: DamagedError) -> tuple[list[Position], list[PhysicalMessage]]:
        """Return a lost batch as one unreadable message, whose source nobody knows."""
        lost = PhysicalMessage("", UNREADABLE, received_at=self._now())
        return [position], [lost.unreadable(DAMAGED_MESSAGE, str(error))]

    def bodies(self, positions: Iterable[Position]) -> Iterator[memoryview]:
        return self._views(self._bodies(positions))

    def extents(self, positions: Iterable[Position]) -> Iterator[Extent]:
        at: tuple[int, int] | None = None
        start, offsets, _ = NO_LAYOUT
        for position in positions:
            number, batch, row = position
            if (number, batch) != at:
                at = number, batch
                start, offsets, _ = self._layout(number, batch)
            if row + 1 >= len(offsets):
                raise KeyError(position)
            begin = offsets[row]
            yield Extent(number, start + begin, offsets[row + 1] - begin)

    def views(self, extents: Iterable[Extent]) -> Iterator[memoryview]:
        return self._views(self._pieces(extents))

    def segment_bytes(self, segment: int) -> Iterator[memoryview]:
        opened = self._segment(segment)
        return map(memoryview, opened.file().pieces_as_is(0, opened.state.size))

    def verify(self, segment: int) -> list[Damage]:
        opened = self._segment(segment)
        opened.file()
        return list(damages(opened))

    def _published(
        self, own: JournalIdentity, segments: Sequence[int], number: int, shared: JournalIdentity
    ) -> tuple[Publication, Iterator[Bytes]]:
        """Return what `app.ports.WritableJournal.published` does, for the journal `own`."""
        opened = [self._segment(each) for each in segments]
        origin = Publication(own.id, segments[-1], end_of(opened, number).pack())
        return origin, published(opened, number, shared, origin)

    def _segment(self, number: int) -> SegmentFile:
        """Return a segment. Raises KeyError when it is gone."""
        with self._opening:
            segment = self._opened.get(number)
            if segment is None:
                segment = SegmentFile(self._states[number], self._open_file)
            keep(self._opened, number, segment, OPEN_SEGMENTS)
            return segment

    def _forget(self, number: int) -> None:
        """Drop a deleted segment."""
        with self._opening:
            self._opened.pop(number, None)
        self._recent.forget(number)

    def _close_segments(self) -> None:
        with self._opening:
            self._opened.clear()

    def _layout(self, number: int, batch: int) -> BodyLayout:
        return self._recent.layout((number, batch)) or self._segment(number).layout(batch)

    def _bodies(self, positions: Iterable[Position]) -> Iterator[memoryview | BodyPiece]:
        at: tuple[int, int] | None = None
        layout = NO_LAYOUT
        segment: SegmentFile | None = None
        for position in positions:
            number, batch, row = position
            body = self._recent.body((number, batch), row)
            if body is not None:
                yield body
                continue
            if segment is None or (number, batch) != at:
                at = number, batch
                layout, segment = self._layout(number, batch), self._segment(number)
            if row + 1 >= len(layout.offsets):
                raise KeyError(position)
            yield segment.piece(batch, row, layout)

    def _pieces(self, extents: Iterable[Extent]) -> Iterator[memoryview | BodyPiece]:
        """Yield the pieces of bodies for these extents."""
        at = batch = -1
        start, offsets, crcs = NO_LAYOUT
        segment: SegmentFile | None = None
        for extent in extents:
            number, offset, length = extent
            if segment is None or number != at:
                at, segment, (start, offsets, crcs) = number, self._segment(number), NO_LAYOUT
            if not length:
                yield _EMPTY
                continue
            if not start <= offset < start + offsets[-1]:
                batch = segment.batch_at(offset)
                start, offsets, crcs = self._layout(number, batch)
            row = bisect_right(offsets, offset - start) - 1
            if not 0 <= row < len(crcs) or offset + length > start + offsets[row + 1]:
                raise KeyError(extent)
            first, end = start + offsets[row], start + offsets[row + 1]
            yield BodyPiece(segment, batch, row, first, end, crcs[row], offset, offset + length)

    def _views(self, pieces: Iterable[memoryview | BodyPiece]) -> Iterator[memoryview]:
        """Yield the bytes of pieces. Those on disk are read ahead."""
        coming = iter(pieces)
        ahead: list[memoryview | BodyPiece] = []
        while some := list(islice(coming, READ_AHEAD)):
            # The system reads them in the background, each segment from its first byte to its last.
            ranges: dict[int, tuple[PieceSource, int, int]] = {}
            for piece in some:
                if isinstance(piece, BodyPiece):
                    number = piece.segment.number
                    _, first, end = ranges.get(number, (piece.segment, piece.start, 0))
                    ranges[number] = piece.segment, min(first, piece.start), max(end, piece.stop)
            for segment, first, end in ranges.values():
                segment.file().will_need(first, end)
            yield from readable(fetch(ahead))
            ahead = some
        yield from readable(fetch(ahead))
