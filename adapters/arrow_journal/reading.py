"""Reading segments back: maps, the places of batches, and batches decoded."""

import mmap
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice, pairwise
from threading import Lock

import pyarrow as pa

from adapters.arrow_journal import ipc
from adapters.arrow_journal.columns import SCHEMA, BodyLayout, bad_rows, body_layout, decode
from adapters.arrow_journal.recent import Recent
from adapters.arrow_journal.segments import SegmentState
from app.model.errors import OurError
from app.model.message import PhysicalMessage, Position
from app.model.records import Extent
from app.ports import Segment

MapSegment = Callable[[SegmentState], memoryview]
"""Maps the file of a segment, as far as it is durable. Raises KeyError when it is gone."""

OPEN_SEGMENTS = 16
READ_AHEAD = 128
"""Extents that the disk is asked for before those in front of them have been read."""
RESIDENT_BYTES = 8 << 20
"""After so many bytes were handed out, the pages of all maps are given back: what is read of a large attachment must
not stay with the process. A view that is still used finds its pages again in the system's cache."""
LAYOUTS_A_SEGMENT = 64


class OpenSegment:
    """A segment's file, mapped as far as it was durable when this was made; it grows into a new map."""

    def __init__(self, state: SegmentState, map_segment: MapSegment) -> None:
        self.state = state
        self._map_segment = map_segment
        self.view = memoryview(b"")
        self._buffer = pa.py_buffer(b"")
        self._layouts: OrderedDict[int, BodyLayout] = OrderedDict()
        self._lock = Lock()

    def mapped(self, end: int) -> memoryview:
        """A view of the file that reaches at least to byte `end`. Raises KeyError behind the durable end."""
        view = self.view
        if end <= len(view):
            return view
        with self._lock:
            return self._mapped(end)

    def layout(self, batch: int) -> BodyLayout:
        """Where a batch's bodies lie. Raises KeyError when there is no such batch."""
        with self._lock:
            layout = self._layouts.get(batch)
            if layout is None:
                layout = body_layout(self._record_batch(batch), self._buffer.address)
                self._layouts[batch] = layout
                if len(self._layouts) > LAYOUTS_A_SEGMENT:
                    self._layouts.popitem(last=False)
            else:
                self._layouts.move_to_end(batch)
            return layout

    def record_batch(self, batch: int) -> pa.RecordBatch:
        """A batch as it lies in the map. Raises KeyError when there is no such batch."""
        with self._lock:
            return self._record_batch(batch)

    def batch_sizes(self) -> list[int]:
        """The bytes of every batch of a sealed segment."""
        with self._lock:
            starts = self._batches()
            return [end - start for start, end in pairwise([*starts, self.state.size - len(ipc.END_OF_STREAM)])]

    def messages(self, batch: int) -> list[PhysicalMessage]:
        with self._lock:
            record_batch = self._record_batch(batch)
            view, address = self.view, self._buffer.address
        return decode(record_batch, body_layout(record_batch, address).slices(view))

    def message(self, batch: int, row: int) -> PhysicalMessage:
        """One of them. Raises KeyError when there is none."""
        with self._lock:
            record_batch = self._record_batch(batch)
            view, address = self.view, self._buffer.address
        if not 0 <= row < len(record_batch):
            raise KeyError((self.state.number, batch, row))
        start, offsets = body_layout(record_batch, address)
        (message,) = decode(record_batch.slice(row, 1), [view[start + offsets[row] : start + offsets[row + 1]]])
        return message

    def bad_rows(self, batch: int) -> list[int]:
        """The rows of a batch that fail their checksums."""
        with self._lock:
            record_batch = self._record_batch(batch)
            view, address, start = self.view, self._buffer.address, self._batches()[batch]
        return bad_rows(record_batch, start, body_layout(record_batch, address), view)

    def batch_count(self) -> int:
        """How many batches are durable. Raises KeyError when the segment is gone, and maps it, so that it stays."""
        with self._lock:
            self._mapped(self.state.size)
            return len(self._batches())

    def read_ahead(self, first: int, end: int) -> None:
        mapped = self.mapped(end).obj
        if isinstance(mapped, mmap.mmap) and first < end:
            first -= first % mmap.PAGESIZE
            mapped.madvise(mmap.MADV_WILLNEED, first, end - first)

    def release_pages(self) -> None:
        """Lets go of the map's memory, not of the map."""
        mapped = self.view.obj
        if isinstance(mapped, mmap.mmap):
            mapped.madvise(mmap.MADV_DONTNEED)

    def _mapped(self, end: int) -> memoryview:
        if end > len(self.view) or not self.view:
            if end > self.state.size:
                raise KeyError(end)
            self.view = self._map_segment(self.state)
            self._buffer = pa.py_buffer(self.view)
        return self.view

    def _batches(self) -> "array[int]":
        if self.state.batches is None:
            self._mapped(self.state.size)
            with self._explained():
                self.state.batches = array("Q", [found.start for found in ipc.walk(self._buffer)])
        return self.state.batches

    def _record_batch(self, batch: int) -> pa.RecordBatch:
        batches = self._batches()
        if not 0 <= batch < len(batches):
            raise KeyError((self.state.number, batch))
        self._mapped(batches[batch + 1] if batch + 1 < len(batches) else self.state.size)
        with self._explained():
            return pa.ipc.read_record_batch(pa.ipc.read_message(self._buffer.slice(batches[batch])), SCHEMA)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except ipc.READ_ERRORS as error:
            raise OurError(f"journal segment {self.state.number} is damaged: {error}") from error


def _segment(number: int, state: SegmentState) -> Segment:
    sealed_at = state.sealed_at  # Asked before the size, which grows once more just before it is set.
    return Segment(number, state.size, state.created_at, sealed_at)


class Reader:
    """Reads what is asked for by position or extent, as a `JournalReader` promises.

    It opens segments when they are asked for and keeps the last few open; `recent` is what need not be read.
    """

    def __init__(self, states: Mapping[int, SegmentState], map_segment: MapSegment, recent: Recent) -> None:
        self._states = states
        self._map_segment = map_segment
        self._recent = recent
        self._open: OrderedDict[int, OpenSegment] = OrderedDict()
        self._lock = Lock()
        self._handed_out = 0

    def segments(self) -> list[Segment]:
        return [_segment(number, state) for number, state in sorted(dict(self._states).items())]

    def read(self, position: Position) -> PhysicalMessage:
        return self.segment(position.segment).message(position.batch, position.row)

    def bodies(self, positions: Iterable[Position]) -> Iterator[memoryview]:
        return self._pieces(self._recent_or_extent(position) for position in positions)

    def extents(self, positions: Iterable[Position]) -> Iterator[Extent]:
        at: tuple[int, int] | None = None
        start, offsets = 0, memoryview(b"")
        for position in positions:
            number, batch, row = position
            if (number, batch) != at:
                at = number, batch
                start, offsets = self._recent.layout(at) or self.segment(number).layout(batch)
            if row + 1 >= len(offsets):
                raise KeyError(position)
            begin = offsets[row]
            yield Extent(number, start + begin, offsets[row + 1] - begin)

    def views(self, extents: Iterable[Extent]) -> Iterator[memoryview]:
        return self._pieces(extents)

    def segment(self, number: int) -> OpenSegment:
        """Raises KeyError when the segment is gone."""
        with self._lock:
            segment = self._open.get(number)
            if segment is None:
                segment = self._open[number] = OpenSegment(self._states[number], self._map_segment)
                if len(self._open) > OPEN_SEGMENTS:
                    self._open.popitem(last=False)
            else:
                self._open.move_to_end(number)
            return segment

    def record_batch(self, number: int, batch: int) -> pa.RecordBatch:
        """Raises KeyError when there is no such batch."""
        found = self.segment(number).record_batch(batch)
        self._count_resident(found.nbytes)
        return found

    def forget(self, number: int) -> None:
        """Forgets a segment that is no more."""
        with self._lock:
            self._open.pop(number, None)
        self._recent.forget(number)

    def close(self) -> None:
        with self._lock:
            self._open.clear()

    def _recent_or_extent(self, position: Position) -> memoryview | Extent:
        number, batch, row = position
        body = self._recent.body((number, batch), row)
        return next(self.extents([position])) if body is None else body

    def _pieces(self, pieces: Iterable[memoryview | Extent]) -> Iterator[memoryview]:
        """The pieces, those on disk read ahead."""
        coming = iter(pieces)
        ahead: list[memoryview | Extent] = []
        while some := list(islice(coming, READ_AHEAD)):
            self._read_ahead([piece for piece in some if isinstance(piece, Extent)])
            yield from map(self._view, ahead)
            ahead = some
        yield from map(self._view, ahead)

    def _view(self, piece: memoryview | Extent) -> memoryview:
        if isinstance(piece, memoryview):
            return piece
        number, offset, length = piece
        self._count_resident(length)
        return self.segment(number).mapped(offset + length)[offset : offset + length]

    def _read_ahead(self, extents: Sequence[Extent]) -> None:
        """Has the system read, in the background, all from the first to the last byte of these extents in a segment."""
        ranges: dict[int, tuple[int, int]] = {}
        for number, offset, length in extents:
            first, end = ranges.get(number, (offset, 0))
            ranges[number] = min(first, offset), max(end, offset + length)
        for number, (first, end) in ranges.items():
            self.segment(number).read_ahead(first, end)

    def _count_resident(self, length: int) -> None:
        """So many bytes of a map are handed out."""
        self._handed_out += length
        if self._handed_out >= RESIDENT_BYTES:
            with self._lock:
                self._handed_out = 0
                for segment in self._open.values():
                    segment.release_pages()
