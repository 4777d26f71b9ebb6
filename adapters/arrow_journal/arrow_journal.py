"""The journal: every physical message as received, in Arrow IPC stream files that any Arrow reader opens.

- A segment is one stream file. Each append writes record batches of at most 512 rows to it. Segment numbers only grow:
  the file with the highest number stays in the folder, so that positions keep their order over restarts.
- The segment being written is `NNNNNNNNNN.open.arrows`. When it is large or old enough it is sealed: end of stream,
  sync, rename to `NNNNNNNNNN.arrows`, sync of the folder. A sealed file never changes; its modification time is the
  time it was sealed.
- An append is durable when it returns. A failed append has written nothing: the file is truncated to its last durable
  byte. If that fails too, the segment is no longer written and a new one is begun.
- Opening verifies every unsealed segment. A torn tail was never durable, hence never acknowledged: it is removed, and
  the rest is sealed. What was durable and is damaged keeps its place, as in a sealed segment.
- There is one writer: the folder is locked while a journal is open, and appends run one at a time. Readers run at the
  same time and see only durable batches.
- Little stays in memory: 8 bytes a batch, the batch maps and layouts of the segments read last, and the bodies that
  were written last (`adapters.arrow_journal.position_reader.Recent`).
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock
from time import monotonic, time_ns

from adapters.arrow_journal.batch_columns import BodyLayout, Bytes, Encoded, positions_of, prepare_all
from adapters.arrow_journal.journal_identity import IdentityFile, Known, load, save
from adapters.arrow_journal.journal_recovery import Durable, last_epoch, recover, take_over
from adapters.arrow_journal.position_reader import PositionReader, Recent
from adapters.arrow_journal.segment_files import FolderLock, damaged_path, open_segment, segment_path
from adapters.arrow_journal.segment_writer import CurrentSegment, Stagings, seal_file
from adapters.disk import NO_SPACE, make_folders, sync_folder
from app.model.errors import GatewayError, JournalFull
from app.model.message import (
    MAX_ROWS_A_BATCH,
    MAX_SEGMENTS,
    PhysicalMessage,
    Position,
)
from app.model.records import JournalIdentity, Publication
from app.ports import Clock

SEGMENT_BYTES = 256 << 20
SEGMENT_AGE = 3600.0


class _SystemClock:
    def now(self) -> int:
        return time_ns() // 1000

    def monotonic(self) -> float:
        return monotonic()


class ArrowJournal(PositionReader):
    """A `Journal` in a folder of its own.

    The lock `_writing` guards what changes the journal: `_current`, `_segments`, `_identity` and `_end`. Readers take
    no lock for `_segments`: they see a segment once its first batch is durable.

    A segment is sealed by the first append after it has reached `segment_bytes` or `segment_age` (seconds). Raises
    GatewayError when another process uses the folder, or when a segment in it cannot be read.

    `durable` returns the last position that is known to have been durable. What is missing up to there is damage,
    not the rest of an interrupted write. It is called while the folder is locked.

    With an `epoch`, the folder may be open in other processes of earlier epochs. From then on they can neither append
    nor retire: they get JournalTaken. Raises JournalTaken if a process of this or a later epoch has opened the folder.
    """

    def __init__(
        self,
        folder: Path,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        segment_age: float = SEGMENT_AGE,
        clock: Clock | None = None,
        epoch: int | None = None,
        durable: Durable = lambda _journal: None,
    ) -> None:
        self._folder = folder = folder.absolute()
        make_folders(folder)
        self._clock = clock or _SystemClock()
        self._writing = Lock()
        self._folder_lock = FolderLock(folder, shared=epoch is not None)
        try:
            if epoch is None:
                recovered, own = recover(folder, self._clock.now(), durable), None
            else:
                recovered, own = take_over(folder, self._clock.now(), epoch, durable)
            self._segments, known, self._set_aside = recovered
            self._identity = IdentityFile(folder, known, own)
        except OSError as error:
            self._folder_lock.release()
            raise _explained(error) from error
        except BaseException:
            self._folder_lock.release()
            raise
        self._current = CurrentSegment(folder, self._identity, self._clock, segment_bytes, segment_age)
        self._end: Position | None = None
        self._stagings = Stagings()
        super().__init__(self._segments, partial(open_segment, folder), Recent(), self._clock.now)

    @staticmethod
    def begin(folder: Path, journal: JournalIdentity, following: int) -> None:
        """Make a folder the folder of a journal, or of a later epoch of it. Its next segment has at least the number
        `following`.

        No process may have the folder open.
        """
        make_folders(folder.absolute())
        known = load(folder)
        if known is not None and known.id != journal.id:
            raise GatewayError(f"{folder} belongs to the journal {known.id}, not to {journal.id}")
        floor = following if known is None else max(following, known.following)
        saved = 0 if known is None else known.saved
        save(folder, Known(journal.id, journal.epoch, floor, saved=saved))

    @staticmethod
    def last_epoch(folder: Path) -> int:
        """Return the epoch of the process that opened the journal in a folder last; 0 if there is no journal."""
        return last_epoch(folder.absolute())

    def prepare(self, messages: Sequence[PhysicalMessage]) -> Sequence[Encoded]:
        return prepare_all(messages, self._stagings.area if len(messages) <= MAX_ROWS_A_BATCH else None)

    @property
    def most_appends(self) -> int:
        return 1

    def begin_append(
        self, messages: Sequence[PhysicalMessage], prepared: Sequence[Encoded] | None = None
    ) -> Callable[[], list[Position]]:
        positions = self.append(messages, prepared)
        return lambda: positions

    def append(self, messages: Sequence[PhysicalMessage], prepared: Sequence[Encoded] | None = None) -> list[Position]:
        if not messages:
            return []
        batches = self.prepare(messages) if prepared is None else prepared
        with self._writing:
            if not self._folder_lock.held:
                raise GatewayError("the journal is closed")
            try:
                writer = self._current.writer_for(len(batches))
                places = writer.append(batches)
            except OSError as error:
                raise self._failure(error) from error
            self._identity.require_last()  # after the write: whoever has opened the folder since may not have seen it
            number, first = writer.state.number, len(writer.batches) - len(batches)
            self._segments[number] = writer.state
            for at, (start, batch) in enumerate(zip(places, batches, strict=True), first):
                layout = BodyLayout(start + len(batch.head), batch.offsets, batch.crcs)
                self._recent.add((number, at), layout, batch.bodies)
            positions = positions_of(messages, number, first)
            self._end = positions[-1]
        self._stagings.free(batches)
        return positions

    def identity(self) -> JournalIdentity:
        return self._identity.known.identity

    def end(self) -> Position | None:
        with self._writing:
            if self._end is None:
                self._end = self._find_end()
            return self._end

    def reserve(self, segment: int) -> None:
        """Reserve segment numbers up to this one. Raises ValueError for a number that does not fit into positions."""
        if not 0 <= segment < MAX_SEGMENTS:
            raise ValueError(f"{segment} is not a segment number: the highest is {MAX_SEGMENTS - 1}")
        with self._writing:
            try:
                self._current.seal()
                self._current.drop_empty()
                if segment >= self._identity.known.following:
                    self._identity.save(following=segment + 1)
            except OSError as error:
                raise self._failure(error) from error

    def published(
        self, segments: Sequence[int], number: int, shared: JournalIdentity
    ) -> tuple[Publication, Iterator[Bytes]]:
        return self._published(self.identity(), segments, number, shared)

    def seal(self, age: float = 0.0) -> None:
        with self._writing:
            try:
                if self._current.is_old(age):
                    self._current.seal()
            except OSError as error:
                raise self._failure(error) from error
            # Others are not written any more, but could not be sealed, because the disk was full or failed.
            failed: OSError | None = None
            for state in self._segments.values():
                if state.sealed_at is None and state is not self._current.state:
                    try:
                        seal_file(self._folder, state, self._clock.now(), shared=self._identity.is_shared)
                    except OSError as error:
                        failed = failed or error
            if failed is not None:
                raise self._identity.taken() or _explained(failed) from failed

    def retire(self, *segments: int) -> None:
        """Delete segments, unless they are gone already. Raises ValueError for the one that is being written."""
        failed: GatewayError | None = None
        for segment in segments:
            try:
                self._take_out(segment, lambda path: path.unlink())
            except GatewayError as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def set_aside(self, segment: int) -> None:
        """Rename a segment as damaged. Raises the same errors as `retire`."""
        self._take_out(segment, lambda path: path.rename(damaged_path(self._folder, segment)))

    def _take_out(self, segment: int, remove: Callable[[Path], object]) -> None:
        with self._writing:
            if (current := self._current.state) is not None and current.number == segment:
                raise ValueError(f"journal segment {segment} is being written")
            if (state := self._segments.get(segment)) is None:
                return  # somebody else asked for it meanwhile
            self._identity.require_last()
            try:
                self._end = self._end or self._find_end()
                if self._end is not None and self._end.segment == segment:
                    self._identity.save(end=self._end.pack())
                with suppress(FileNotFoundError):  # an earlier attempt failed after this step
                    remove(segment_path(self._folder, segment, sealed=state.sealed_at is not None))
                sync_folder(self._folder)
            except OSError as error:
                raise _explained(error) from error
            del self._segments[segment]
            self._forget(segment)

    def close(self) -> None:
        """Seal the segment being written, if the disk allows it, and unlock the folder."""
        with self._writing:
            if self._folder_lock.held:
                self._current.give_up()
                self._close_segments()
                self._folder_lock.release()
                self._identity.close()

    def free_bytes(self) -> int:
        status = os.statvfs(self._folder)
        return status.f_bavail * status.f_frsize

    def _failure(self, error: OSError) -> GatewayError:
        self._current.failed(error)
        return self._identity.taken() or _explained(error)

    def _find_end(self) -> Position | None:
        """Return the last position of the journal. For a segment that is set aside, assume the highest that it may have
        had."""
        end = None if self._identity.known.end is None else Position.unpack(self._identity.known.end)
        for number in sorted({*self._segments, *self._set_aside}, reverse=True):
            found = self._segment(number).last_position() if number in self._segments else Position.end_of(number)
            if found is not None:
                return found if end is None else max(end, found)
        return end


def _explained(error: OSError) -> GatewayError:
    if error.errno in NO_SPACE:
        return JournalFull(f"no space left for the journal: {error}")
    return GatewayError(f"the journal cannot be written: {error}")
