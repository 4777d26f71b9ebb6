"""The segment being written: begun, sealed when it is full, and given up when its disk fails.

Writes bypass the system's page cache (O_DIRECT, if the file system supports it). The cache would hold bytes that are
still in memory as they came from the broker, and fresh pages for it would cost more than the write. Such writes start
and end at a block boundary and come from block-aligned memory, so buffers are gathered in a staging area first.
"""

import os
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from errno import EINVAL
from functools import partial
from itertools import accumulate
from mmap import mmap
from pathlib import Path

from adapters.arrow_journal.arrow_ipc import END_OF_STREAM
from adapters.arrow_journal.batch_columns import Bytes, Encoded, place
from adapters.arrow_journal.journal_identity import IdentityFile
from adapters.arrow_journal.segment_files import SegmentState, segment_path
from adapters.arrow_journal.segment_header import header_bytes, seed_of
from adapters.disk import NO_SPACE, sync_folder
from app.model.errors import GatewayError
from app.model.message import MAX_BATCHES_A_SEGMENT, MAX_SEGMENTS, Position
from app.model.records import JournalIdentity
from app.ports import Clock

STAGING_BYTES = 5 << 20
"""More than a batch of 4 MiB of bodies takes."""
STAGINGS = 2
"""The staging areas that are kept: while one is written, the next is filled."""


class Stagings:
    """Aligned memory for batches that are prepared while others are written. Any thread may use it."""

    def __init__(self) -> None:
        self._free: deque[memoryview] = deque(maxlen=STAGINGS)

    def area(self, size: int) -> memoryview | None:
        """Return memory for a batch of a size in bytes; None if it is too large."""
        if size > STAGING_BYTES:
            return None
        try:
            return self._free.pop()[:size]
        except IndexError:
            return memoryview(mmap(-1, STAGING_BYTES))[:size]

    def free(self, batches: Iterable[Encoded]) -> None:
        """Take back the memory of batches that nobody writes any more."""
        for batch in batches:
            if batch.staged is not None:
                self._free.append(memoryview(batch.staged.obj))


class SegmentWriter:
    """Appends to one segment's file. `state` is the part that readers may see.

    A method that raises OSError has changed nothing, unless `broken` says that undoing failed as well. Then nothing
    more may be appended.
    """

    def __init__(
        self,
        folder: Path,
        number: int,
        created_at: int,
        journal: JournalIdentity,
        begun: Callable[[], None],
        *,
        shared: bool = False,
    ) -> None:
        """Create the file, with the schema only.

        `begun` is called when the first batches are on disk, before they count. It may raise OSError. If the folder is
        `shared` with other processes, an existing file raises FileExistsError.
        """
        seed = seed_of(journal.id, number)
        self.state = SegmentState(number, 0, created_at, None, array("q"), seed=seed)
        self.broken = False
        self._folder, self._seed, self._begun, self._shared = folder, seed, begun, shared
        self._staging = memoryview(mmap(-1, STAGING_BYTES))
        path = segment_path(folder, number, sealed=False)
        self._descriptor = _open_direct(path, os.O_EXCL if shared else os.O_TRUNC)
        try:
            self._write([[header_bytes(created_at, journal)]], _do_nothing)
            sync_folder(folder)
        except OSError:
            self.close()
            if shared:
                with suppress(OSError):  # the next attempt creates it again
                    path.unlink()
            raise

    def append(self, batches: Sequence[Encoded]) -> list[int]:
        """Write batches durably. Return where they begin in the file."""
        first = len(self.batches)
        for number, batch in enumerate(batches, first):
            place(batch, Position(self.state.number, number, 0), self._seed)
        places = list(accumulate((batch.size for batch in batches[:-1]), initial=self.state.size))
        self._write((batch.staged or batch.buffers() for batch in batches), _do_nothing if first else self._begun)
        self.batches.extend(places)
        return places

    @property
    def batches(self) -> "array[int]":
        assert self.state.batches is not None
        return self.state.batches

    def seal(self, sealed_at: int) -> None:
        """End the stream and rename the file.

        Nothing more may be appended once `state.sealed_at` is set, even when this raises OSError.
        """
        seal_file(self._folder, self.state, sealed_at, shared=self._shared)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _write(self, batches: Iterable[Sequence[Bytes] | memoryview], written: Callable[[], None]) -> None:
        """Write batches, each in aligned memory or as buffers that follow each other."""
        end = self.state.size
        try:
            for batch in batches:
                if isinstance(batch, memoryview):
                    end = write_all(self._descriptor, batch, end)
                else:
                    end = _write_blocks(self._descriptor, self._staging, batch, end)
            os.fdatasync(self._descriptor)
            written()
        except OSError:
            try:
                os.ftruncate(self._descriptor, self.state.size)
                os.fdatasync(self._descriptor)
            except OSError:
                self.broken = True
            raise
        self.state.size = end


class CurrentSegment:
    """The segment to which a journal appends, if there is one. One thread at a time may call it.

    It is full at `segment_bytes` or at `segment_age` (seconds).
    """

    def __init__(
        self, folder: Path, identity: IdentityFile, clock: Clock, segment_bytes: int, segment_age: float
    ) -> None:
        self._folder, self._identity, self._clock = folder, identity, clock
        self._segment_bytes, self._age = segment_bytes, segment_age
        self._writer: SegmentWriter | None = None
        self._begun_at = 0.0
        """When the segment was begun, by the monotonic clock: `created_at` may be of a clock that was wrong."""

    @property
    def state(self) -> SegmentState | None:
        return None if self._writer is None else self._writer.state

    def writer_for(self, batches: int) -> SegmentWriter:
        """Return the writer for that number of batches, of a new segment if this one is full. Raises OSError."""
        writer = self._writer
        if writer is not None and (
            writer.state.size >= self._segment_bytes
            or self.is_old(self._age)
            or len(writer.batches) + batches > MAX_BATCHES_A_SEGMENT
        ):
            self.seal()
        identity = self._identity
        while self._writer is None:
            known = identity.known
            if known.following >= MAX_SEGMENTS:
                raise GatewayError("the journal has no segment number left: begin a new journal")
            begun = partial(identity.save, following=known.following + 1)
            try:
                now, self._begun_at = self._clock.now(), self._clock.monotonic()
                self._writer = SegmentWriter(
                    self._folder, known.following, now, known.identity, begun, shared=identity.is_shared
                )
            except FileExistsError:  # an earlier process has used the number meanwhile: it is left out
                identity.require_last()
                begun()
        return self._writer

    def is_old(self, age: float) -> bool:
        """Tell whether the segment was begun so many seconds ago."""
        return self._clock.monotonic() - self._begun_at >= age

    def seal(self) -> None:
        """Seal the segment if it has batches. Raises OSError."""
        writer = self._writer
        if writer is not None and writer.batches:
            try:
                writer.seal(self._clock.now())
            finally:
                if writer.state.sealed_at is not None:
                    writer.close()
                    self._writer = None

    def drop_empty(self) -> None:
        """Delete the segment if it has no batches. Raises OSError."""
        writer = self._writer
        if writer is not None and not writer.batches:
            writer.close()
            segment_path(self._folder, writer.state.number, sealed=False).unlink()
            self._writer = None

    def failed(self, error: OSError) -> None:
        """Append no more to a segment whose file is broken, or whose disk fails otherwise than by being full."""
        if self._writer is not None and (self._writer.broken or error.errno not in NO_SPACE):
            self.give_up()

    def give_up(self) -> None:
        """Append no more to the segment. Seal it, if the disk allows that."""
        writer = self._writer
        if writer is not None:
            with suppress(OSError):
                self.seal()
            writer.close()
            self._writer = None


def seal_file(
    folder: Path, state: SegmentState, sealed_at: int, *, shared: bool = False, path: Path | None = None
) -> None:
    """Seal an unsealed segment: its durable bytes, followed by an end of stream only.

    `path` is the file, if it does not have its usual name. In a folder that is `shared` with other processes, the first
    of them to seal a segment wins: FileExistsError is raised if it has been sealed.
    """
    usual = segment_path(folder, state.number, sealed=False)
    path = path or usual
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.ftruncate(descriptor, state.size)
        write_all(descriptor, memoryview(END_OF_STREAM), state.size)
        os.utime(descriptor, ns=(sealed_at * 1000, sealed_at * 1000))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    sealed = segment_path(folder, state.number, sealed=True)
    if shared:
        os.link(path, sealed)
        for each in {path, usual}:
            each.unlink(missing_ok=True)
    else:
        path.rename(sealed)
    # The order matters: a reader that sees `sealed_at` must see the whole size.
    state.size += len(END_OF_STREAM)
    state.sealed_at = sealed_at
    sync_folder(folder)


def _do_nothing() -> None:
    pass


def _open_direct(path: Path, existing: int) -> int:
    """Create a file for direct writing in blocks, or for ordinary writing if the file system has no direct writing.

    `existing` is a flag that says what to do with an existing file.
    """
    flags = os.O_WRONLY | os.O_CREAT | existing | os.O_CLOEXEC
    try:
        return os.open(path, flags | os.O_DIRECT, 0o640)
    except OSError as error:
        if error.errno != EINVAL:
            raise
        return os.open(path, flags & ~os.O_EXCL, 0o640)  # the first call may have created it


def _write_blocks(descriptor: int, staging: memoryview, buffers: Iterable[Bytes], offset: int) -> int:
    """Write buffers one after the other at an offset of a file, in whole blocks. Return where they end."""
    used = 0
    for buffer in buffers:
        rest = memoryview(buffer)
        while len(rest) > len(staging) - used:
            room = len(staging) - used
            staging[used:] = rest[:room]
            rest, used = rest[room:], 0
            offset = write_all(descriptor, staging, offset)
        staging[used : used + len(rest)] = rest
        used += len(rest)
    return write_all(descriptor, staging[:used], offset)


def write_all(descriptor: int, data: memoryview, offset: int) -> int:
    """Write at an offset of a file. Return where the data end."""
    while data:
        written = os.pwrite(descriptor, data, offset)
        data, offset = data[written:], offset + written
    return offset
