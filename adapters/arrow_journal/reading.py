"""Reading segments back: maps, the places of batches, and batches decoded."""

import mmap
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

import pyarrow as pa

from adapters.arrow_journal import ipc
from adapters.arrow_journal.columns import SCHEMA, BodyLayout, bad_rows, body_layout, decode
from adapters.arrow_journal.segments import SegmentState, map_segment
from app.model.errors import OurError
from app.model.message import PhysicalMessage
from app.model.records import Extent

OPEN_SEGMENTS = 16
RESIDENT_BYTES = 8 << 20
"""After so many bytes were handed out, the pages of all maps are given back: what is read of a large attachment must
not stay with the process. A view that is still used finds its pages again in the system's cache."""
LAYOUTS_A_SEGMENT = 64


class OpenSegment:
    """A segment's file, mapped as far as it was durable when this was made; it grows into a new map."""

    def __init__(self, folder: Path, state: SegmentState) -> None:
        self._folder = folder
        self.state = state
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

    def messages(self, batch: int) -> list[PhysicalMessage]:
        with self._lock:
            record_batch = self._record_batch(batch)
            view, address = self.view, self._buffer.address
        return decode(record_batch, body_layout(record_batch, address).slices(view))

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
        if end > len(self.view):
            if end > self.state.size:
                raise KeyError(end)
            self.view = map_segment(self._folder, self.state.number, self.state.size)
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


class Reader:
    """Opens segments when they are asked for and keeps the last few open."""

    def __init__(self, folder: Path, states: Mapping[int, SegmentState]) -> None:
        self._folder = folder
        self._states = states
        self._open: OrderedDict[int, OpenSegment] = OrderedDict()
        self._lock = Lock()
        self._handed_out = 0

    def segment(self, number: int) -> OpenSegment:
        """Raises KeyError when the segment is gone."""
        with self._lock:
            segment = self._open.get(number)
            if segment is None:
                segment = self._open[number] = OpenSegment(self._folder, self._states[number])
                if len(self._open) > OPEN_SEGMENTS:
                    self._open.popitem(last=False)
            else:
                self._open.move_to_end(number)
            return segment

    def view(self, extent: Extent) -> memoryview:
        """The bytes of an extent. Raises KeyError when the segment is gone."""
        number, offset, length = extent
        self._count_resident(length)
        return self.segment(number).mapped(offset + length)[offset : offset + length]

    def read_ahead(self, extents: Sequence[Extent]) -> None:
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

    def forget(self, number: int) -> None:
        with self._lock:
            self._open.pop(number, None)

    def close(self) -> None:
        with self._lock:
            self._open.clear()
