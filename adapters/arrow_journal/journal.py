"""The journal: every physical message as received, in Arrow IPC stream files that any Arrow reader opens.

- A segment is one stream file, a record batch in it is what one append wrote (at most 512 rows each). Its number only
  ever grows: a file with the highest number stays in the folder, so that positions keep their order over restarts.
- The segment being written is `NNNNNNNNNN.open.arrows`. When it is large or old enough it is sealed: end of stream,
  sync, renamed to `NNNNNNNNNN.arrows`, sync of the folder. A sealed file never changes; its modification time is the
  time it was sealed.
- An append is durable when it returns. One that fails has taken nothing: the file is cut back to its last durable byte,
  and where that fails too the segment is given up for writing and a new one is begun.
- Opening verifies every segment that is not sealed. What is torn was never durable, hence never acknowledged: it is cut
  off, and the rest is sealed.
- One writer: the folder is locked while a journal is open, and appends are one at a time. Readers run beside it and
  see only what is durable.
- Little stays in memory: 8 bytes a batch, the maps and layouts of the segments read last, and the bodies that were
  written last (`adapters.arrow_journal.recent`).
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock
from time import time_ns

from adapters.arrow_journal.columns import BodyLayout, encode
from adapters.arrow_journal.reading import Reader
from adapters.arrow_journal.recent import Recent
from adapters.arrow_journal.recovery import recover
from adapters.arrow_journal.segments import FolderLock, SegmentState, map_segment, segment_path
from adapters.arrow_journal.writing import SegmentWriter, seal_file
from adapters.disk import NO_SPACE, make_folders, sync_folder
from app.model.errors import JournalFull, OurError
from app.model.message import MAX_BATCHES_A_SEGMENT, MAX_ROWS_A_BATCH, PhysicalMessage, Position
from app.model.records import Extent
from app.ports import Clock, Segment

SEGMENT_BYTES = 256 << 20
SEGMENT_AGE = 3600.0


class SystemClock:
    def now(self) -> int:
        return time_ns() // 1000


class ArrowJournal:
    """A `Journal` in a folder of its own.

    A segment is sealed by the first append that finds it at `segment_bytes` or at `segment_age` (seconds). Raises
    OurError when another process has the folder, or when a segment in it cannot be read.
    """

    def __init__(
        self,
        folder: Path,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        segment_age: float = SEGMENT_AGE,
        clock: Clock | None = None,
    ) -> None:
        self._folder = folder = folder.absolute()
        make_folders(folder)
        self._segment_bytes, self._segment_age = segment_bytes, segment_age
        self._clock = clock or SystemClock()
        self._writing = Lock()
        self._writer: SegmentWriter | None = None
        self._lock = FolderLock(folder)
        try:
            self._states, self._next = recover(folder, self._clock.now())
        except BaseException:
            self._lock.release()
            raise
        self._recent = Recent()
        self._reader = Reader(self._states, partial(map_segment, folder), self._recent)

    def append(self, messages: Sequence[PhysicalMessage]) -> list[Position]:
        if not messages:
            return []
        batches = [encode(messages[at : at + MAX_ROWS_A_BATCH]) for at in range(0, len(messages), MAX_ROWS_A_BATCH)]
        with self._writing:
            try:
                writer = self._writer_for(len(batches))
                first = writer.append(batches)
            except OSError as error:
                raise self._failure(error) from error
            number = writer.state.number
            self._states[number] = writer.state
            for at, batch in enumerate(batches, first):
                layout = BodyLayout(writer.batches[at] + len(batch.head), batch.offsets)
                self._recent.add((number, at), layout, batch.bodies)
        return [Position(number, first + at // MAX_ROWS_A_BATCH, at % MAX_ROWS_A_BATCH) for at in range(len(messages))]

    def seal(self) -> None:
        with self._writing:
            try:
                for state in self._left_open():
                    seal_file(self._folder, state, self._clock.now())
                self._seal()
            except OSError as error:
                raise self._failure(error) from error

    def retire(self, segment: int) -> None:
        """Raises KeyError when there is no such segment and ValueError when it is the one being written."""
        with self._writing:
            if self._writer is not None and self._writer.state.number == segment:
                raise ValueError(f"journal segment {segment} is being written")
            state = self._states[segment]
            try:
                self._keep_a_higher_number_than(segment)
                segment_path(self._folder, segment, sealed=state.sealed_at is not None).unlink()
                sync_folder(self._folder)
            except OSError as error:
                raise _explained(error) from error
            del self._states[segment]
            self._reader.forget(segment)

    def close(self) -> None:
        """Seals what is being written, as far as the disk lets it, and unlocks the folder."""
        with self._writing:
            if self._lock.held:
                self._give_up_writer()
                self._reader.close()
                self._lock.release()

    def replay(self, after: Position | None) -> Iterator[tuple[list[Position], list[PhysicalMessage]]]:
        """Segments that are retired meanwhile are left out."""
        start = Position(0, 0, 0) if after is None else after._replace(row=after.row + 1)
        durable = {
            number: None if state.batches is None else len(state.batches)
            for number, state in sorted(self._states.copy().items())
            if number >= start.segment
        }
        return self._replay(start, durable)

    def _replay(
        self, start: Position, durable: dict[int, int | None]
    ) -> Iterator[tuple[list[Position], list[PhysicalMessage]]]:
        for number, known in durable.items():
            try:
                segment = self._reader.segment(number)
                count = segment.batch_count()
            except KeyError:
                continue
            for batch in range(start.batch if number == start.segment else 0, count if known is None else known):
                messages = segment.messages(batch)
                first = start.row if (number, batch) == start[:2] else 0
                if first < len(messages):
                    yield [Position(number, batch, row) for row in range(first, len(messages))], messages[first:]

    def read(self, position: Position) -> PhysicalMessage:
        return self._reader.read(position)

    def bodies(self, positions: Iterable[Position]) -> Iterator[memoryview]:
        return self._reader.bodies(positions)

    def extents(self, positions: Iterable[Position]) -> Iterator[Extent]:
        return self._reader.extents(positions)

    def views(self, extents: Iterable[Extent]) -> Iterator[memoryview]:
        return self._reader.views(extents)

    def verify(self, segment: int) -> list[Position]:
        """The positions of a segment that fail their checksums. Raises KeyError when the segment is gone, and
        OurError when its batches cannot even be found."""
        opened = self._reader.segment(segment)
        return [
            Position(segment, batch, row) for batch in range(opened.batch_count()) for row in opened.bad_rows(batch)
        ]

    def segments(self) -> list[Segment]:
        return self._reader.segments()

    def free_bytes(self) -> int:
        status = os.statvfs(self._folder)
        return status.f_bavail * status.f_frsize

    def _writer_for(self, batches: int) -> SegmentWriter:
        if not self._lock.held:
            raise OurError("the journal is closed")
        now = self._clock.now()
        if self._writer is not None and self._is_full(self._writer, now, batches):
            self._seal()
        if self._writer is None:
            self._writer = SegmentWriter(self._folder, self._next, now)
            self._next += 1
        return self._writer

    def _is_full(self, writer: SegmentWriter, now: int, batches: int) -> bool:
        return (
            writer.state.size >= self._segment_bytes
            or now - writer.state.created_at >= self._segment_age * 1_000_000
            or len(writer.batches) + batches > MAX_BATCHES_A_SEGMENT
        )

    def _seal(self) -> None:
        writer = self._writer
        if writer is not None and writer.batches:
            try:
                writer.seal(self._clock.now())
            finally:
                if writer.state.sealed_at is not None:
                    writer.close()
                    self._writer = None

    def _left_open(self) -> list[SegmentState]:
        """Segments that are not written any more and that could not be sealed: the disk was full, or failed."""
        written = self._writer and self._writer.state
        return [state for state in self._states.values() if state.sealed_at is None and state is not written]

    def _failure(self, error: OSError) -> OurError:
        if self._writer is not None and (self._writer.broken or error.errno not in NO_SPACE):
            self._give_up_writer()
        return _explained(error)

    def _give_up_writer(self) -> None:
        writer = self._writer
        if writer is not None:
            with suppress(OSError):
                self._seal()
            writer.close()
            self._writer = None

    def _keep_a_higher_number_than(self, segment: int) -> None:
        if self._writer is None and segment == self._next - 1:
            segment_path(self._folder, self._next, sealed=False).touch(0o640)
            sync_folder(self._folder)


def _explained(error: OSError) -> OurError:
    if error.errno in NO_SPACE:
        return JournalFull(f"no space left for the journal: {error}")
    return OurError(f"the journal cannot be written: {error}")
