"""The segment being written."""

import os
from array import array
from collections.abc import Sequence
from itertools import accumulate, chain
from pathlib import Path

from adapters.arrow_journal.columns import Bytes, Encoded, segment_schema
from adapters.arrow_journal.ipc import END_OF_STREAM
from adapters.arrow_journal.segments import SegmentState, segment_path
from adapters.disk import sync_folder

CACHED_BYTES = 64 << 20
"""How much of what was written last is left in the system's page cache. An attachment is usually finished while its
parts are that fresh; older pages would push out what readers use, and fresh memory for them costs more than the
writing itself on a virtual machine."""
_DROP_BYTES = 4 << 20
_BUFFERS_A_CALL = os.sysconf("SC_IOV_MAX")


class SegmentWriter:
    """Appends to one segment's file, which begins with nothing but the schema. `state` is what readers may see.

    A method that raises OSError has changed nothing, unless `broken` says that undoing failed as well: then nothing
    more may be appended.
    """

    def __init__(self, folder: Path, number: int, created_at: int) -> None:
        self.state = SegmentState(number, 0, created_at, None, array("Q"))
        self.broken = False
        self._dropped = 0
        self._folder = folder
        path = segment_path(folder, number, sealed=False)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
        try:
            self._write([segment_schema(created_at).serialize().to_pybytes()])
            sync_folder(folder)
        except OSError:
            self.close()
            raise

    def append(self, batches: Sequence[Encoded]) -> int:
        """Writes batches, which are on disk on return; returns the number of the first."""
        places = accumulate((batch.size for batch in batches), initial=self.state.size)
        self._write(list(chain.from_iterable(batch.buffers for batch in batches)))
        first = len(self.batches)
        self.batches.extend(place for place, _ in zip(places, batches, strict=False))
        return first

    @property
    def batches(self) -> "array[int]":
        assert self.state.batches is not None
        return self.state.batches

    def seal(self, sealed_at: int) -> None:
        """Ends the stream and gives the file its lasting name. Nothing more may be appended once `state.sealed_at` is
        set, even when this raises OSError."""
        seal_file(self._folder, self.state, self._descriptor, sealed_at)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _write(self, buffers: list[Bytes]) -> None:
        try:
            end = _write_all(self._descriptor, buffers, self.state.size)
            os.fdatasync(self._descriptor)
        except OSError:
            self._cut_back()
            raise
        self.state.size = end
        self._drop_behind(end - CACHED_BYTES)

    def _drop_behind(self, end: int) -> None:
        if end - self._dropped >= _DROP_BYTES:
            os.posix_fadvise(self._descriptor, self._dropped, end - self._dropped, os.POSIX_FADV_DONTNEED)
            self._dropped = end

    def _cut_back(self) -> None:
        try:
            os.ftruncate(self._descriptor, self.state.size)
            os.fdatasync(self._descriptor)
        except OSError:
            self.broken = True


def seal_file(folder: Path, state: SegmentState, descriptor: int, sealed_at: int) -> None:
    """Makes of an unsealed segment a sealed one: its durable bytes, an end of stream, and nothing behind."""
    os.ftruncate(descriptor, state.size)
    _write_all(descriptor, [END_OF_STREAM], state.size)
    os.utime(descriptor, ns=(sealed_at * 1000, sealed_at * 1000))
    os.fsync(descriptor)
    segment_path(folder, state.number, sealed=False).rename(segment_path(folder, state.number, sealed=True))
    state.sealed_at = sealed_at
    state.size += len(END_OF_STREAM)
    sync_folder(folder)


def _write_all(descriptor: int, buffers: list[Bytes], offset: int) -> int:
    """Writes buffers one behind the other at an offset of a file; returns where they end."""
    first = 0
    while first < len(buffers):
        written = os.pwritev(descriptor, buffers[first : first + _BUFFERS_A_CALL], offset)
        offset += written
        while first < len(buffers) and written >= len(buffers[first]):
            written -= len(buffers[first])
            first += 1
        if written:
            buffers[first] = memoryview(buffers[first])[written:]
    return offset
