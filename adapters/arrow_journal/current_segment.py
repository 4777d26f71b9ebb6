"""The segment that is written at present: begun, sealed when it is full, and given up when its disk fails."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from adapters.arrow_journal.journal_identity import IdentityFile
from adapters.arrow_journal.segment_files import SegmentState, segment_path
from adapters.arrow_journal.segment_writer import SegmentWriter
from adapters.disk import NO_SPACE
from app.model.errors import GatewayError
from app.model.message import MAX_BATCHES_A_SEGMENT, MAX_SEGMENTS


class CurrentSegment:
    """The segment to which a journal appends, if there is one. One thread at a time may call it.

    It is full at `segment_bytes` or at `segment_age` (seconds). `now` returns the time (µs).
    """

    def __init__(
        self, folder: Path, identity: IdentityFile, now: Callable[[], int], segment_bytes: int, segment_age: float
    ) -> None:
        self._folder, self._identity, self._now = folder, identity, now
        self._segment_bytes, self._age = segment_bytes, segment_age * 1_000_000
        self._writer: SegmentWriter | None = None

    @property
    def state(self) -> SegmentState | None:
        return None if self._writer is None else self._writer.state

    def writer_for(self, batches: int) -> SegmentWriter:
        """Return the writer for that number of batches, of a new segment if this one is full. Raises OSError."""
        now = self._now()
        writer = self._writer
        if writer is not None and (
            writer.state.size >= self._segment_bytes
            or now - writer.state.created_at >= self._age
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
                self._writer = SegmentWriter(
                    self._folder, known.following, now, known.identity, begun, shared=identity.is_shared
                )
            except FileExistsError:  # an earlier process has used the number meanwhile: it is left out
                identity.require_last()
                begun()
        return self._writer

    def seal(self) -> None:
        """Seal the segment if it has batches. Raises OSError."""
        writer = self._writer
        if writer is not None and writer.batches:
            try:
                writer.seal(self._now())
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
