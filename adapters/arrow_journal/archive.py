"""Sealed segments of a journal, in a folder or a bucket, read by any number of processes.

A sealed segment never changes, so this module locks and verifies nothing. Receivers that share a journal `add` whole
segments to it; otherwise only the gateway's archiving writes here. Opening an archive is cheap, because a segment is
looked up when it is asked for. Segments must appear whole and in the order of their numbers. A program that copies one
into a folder must give it another name until it is complete.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import structlog

from adapters.arrow_journal import arrow_ipc
from adapters.arrow_journal.batch_columns import Bytes
from adapters.arrow_journal.position_reader import PositionReader, Recent
from adapters.arrow_journal.segment_copies import durable_part
from adapters.arrow_journal.segment_files import SegmentState
from adapters.arrow_journal.segment_header import (
    MAX_HEADER,
    BadHeader,
    JournalSegmentHeader,
    header_bytes,
    header_of,
    read_header,
    seed_of,
    told_journals,
)
from adapters.arrow_journal.segment_reader import SegmentFile
from adapters.arrow_journal.segment_scan import find_batches
from adapters.arrow_journal.segment_storage import CACHE_BYTES, CombinedSegments, SegmentStorage, segments_at
from adapters.disk import ReadFile
from adapters.storage_places import local_folder
from app.model.errors import DamagedError, GatewayError, NotArchived
from app.model.message import PhysicalMessage, Position
from app.model.records import CombinedSegment, JournalIdentity, Publication
from app.ports import OpenSegment, Order, PlacedBodies, Segment, is_damaged

LATE_AT_MOST = 1000
"""The longest gap of numbers that a late listing may explain. A longer one was left by retention."""
_FENCE = b"attachment-gateway: the receiver that wrote here adds nothing more\n"
"""The content of a fence. It is shorter than the header of any segment."""

_log = structlog.get_logger(__name__)


class ArrowArchive(PositionReader):
    """A `JournalArchive` in a folder (path or `file://`) or in an object store (`s3://`, `gs://`, `az://`).

    Segments of a folder are read in place. Segments of an object store are fetched into the folder `cache` of at most
    `cache_bytes`. By default the cache is a folder of this user among the machine's temporary files, one for each URL.
    A copy with damage is fetched again once.

    Raises GatewayError when the folder is missing and ValueError for an unknown URL. Pickling keeps only the place.

    If it `is_growing`, what asks for a segment after the newest one raises NotArchived.
    """

    def __init__(
        self,
        place: str | Path,
        cache: Path | None = None,
        cache_bytes: int = CACHE_BYTES,
        *,
        is_growing: bool = False,
    ) -> None:
        self._arguments = place, cache, cache_bytes
        self._read_from(segments_at(place, cache, cache_bytes), str(place) if is_growing else None)

    def _read_from(self, storage: SegmentStorage, growing: str | None = None) -> None:
        self._storage, self._found = storage, _States(storage, growing)
        super().__init__(self._found, self._open, Recent())
        self._journal: JournalIdentity | None = None

    @staticmethod
    def combined(order: Order, cache: Path | None = None, cache_bytes: int = CACHE_BYTES) -> "CombinedArchive":
        return CombinedArchive(order, cache, cache_bytes)

    def __reduce__(self) -> tuple[type["ArrowArchive"], tuple[str | Path, Path | None, int]]:
        return ArrowArchive, self._arguments

    def segments(self) -> list[Segment]:
        """Return the present segments by number; `created_at` equals `sealed_at`. A fence is none."""
        listed = {number: state for number, state in self._storage.listing().items() if not is_fence(state)}
        for number in self._found.keys() - listed.keys():
            self._found.pop(number, None)
            self._forget(number)
        for number, state in listed.items():
            known = self._found.setdefault(number, state)
            if (known.size, known.sealed_at, known.version) != (state.size, state.sealed_at, state.version):
                self._found[number] = state
                self._forget(number)
        return super().segments()

    def has(self, segment: int) -> bool:
        try:
            return bool(self._found[segment])
        except KeyError:
            return False

    def sequences(self) -> list[list[int]]:
        return [[segment.number for segment in self.segments()]]

    def begun_at(self, segment: int) -> int | None:
        with suppress(BadHeader):
            return self._header(self._found[segment]).created_at
        return None

    def path(self, segment: int) -> str:
        return self._storage.path(segment)

    def replay(self, after: Position | None) -> Iterator[tuple[list[Position], list[PhysicalMessage]]]:
        later = self.behind(0 if after is None else after.segment)
        if later and after is not None and after < Position.end_of(after.segment) and not self.has(after.segment):
            self._look_for(after.segment, later[0].number)  # its end may not have been read
        return super().replay(after)

    def behind(self, segment: int) -> list[Segment]:
        numbers = [each.number for each in self.segments() if each.number > segment]
        for before, number in pairwise([segment, *numbers] if segment else numbers):
            gap = range(before + 1, number)
            if len(gap) <= LATE_AT_MOST or self.origin(number) is not None:
                for missing in gap:
                    self._look_for(missing, number)
        return [each for each in super().segments() if each.number > segment]

    def _look_for(self, missing: int, later: int) -> None:
        """Look for a segment that was not listed, though a later one was: a listing may be late. Receivers use each
        number, so that a segment before a published one must be there. Raises GatewayError if it is not."""
        try:
            self._found.setdefault(missing, self._storage.find(missing))
        except KeyError:
            if self.origin(later) is not None:
                raise GatewayError(
                    f"{self._storage.path(missing)} is missing, and there is {self._storage.path(later)}: put it back, "
                    "so that its messages are not passed over"
                ) from None

    def open_segment(self) -> OpenSegment | None:
        folder = local_folder(self._arguments[0])
        return None if folder is None else durable_part(folder)

    def identity(self) -> JournalIdentity | None:
        """Return the identity in the oldest and the newest segment; the others are compared when they are opened."""
        listed = self._storage.listing()
        for number in sorted({min(listed, default=0), max(listed, default=0)} & listed.keys()):
            with suppress(BadHeader):
                self._header(listed[number])
        return self._journal

    def add(self, segment: int, pieces: Iterable[Bytes]) -> bool:
        return self._storage.add(segment, pieces)

    def published(
        self, segments: Sequence[int], number: int, shared: JournalIdentity
    ) -> tuple[Publication, Iterator[Bytes]]:
        own = self.identity()
        if own is None:
            raise GatewayError(f"the segments in {self._arguments[0]} do not say which journal they are of")
        return self._published(own, segments, number, shared)

    def give_up(self, segment: int) -> bool:
        later = next((each for each in self.segments() if each.number > segment), None)
        journal = self.identity()
        if later is None or journal is None or self.origin(later.number) is None:
            return False
        nobody = Publication("", 0, Position(segment, 0, 0).pack())
        return self.add(segment, [header_bytes(later.created_at, journal, nobody), arrow_ipc.END_OF_STREAM])

    def fence(self, after: int) -> bool:
        return self._storage.add(after + 1, [_FENCE]) or is_fence(self._storage.find(after + 1))

    def remove(self, *segments: int) -> None:
        self._storage.remove(*segments)
        for segment in segments:
            self._found.pop(segment, None)
            self._forget(segment)

    def origin(self, segment: int) -> Publication | None:
        try:
            return self._header(self._storage.find(segment)).origin
        except BadHeader as error:
            raise GatewayError(f"{self.path(segment)} has no header that can be read: {error}") from error

    def _header(self, state: SegmentState) -> JournalSegmentHeader:
        """Return the header of a segment, without the rest of its file. Raises BadHeader."""
        header = read_header(self._storage.start(state, MAX_HEADER), self.path(state.number))
        self._require_journal(header, state.number)
        return header

    def batch_sizes(self, segment: int) -> list[int]:
        opened = self._segment(segment)
        sizes = opened.batch_sizes()
        return self._fetched_again(segment).batch_sizes() if opened.has_lost_batches() else sizes

    def record_batch(self, segment: int, batch: int) -> pa.RecordBatch:
        with suppress(DamagedError):
            found = self._segment(segment).undamaged_record_batch(batch)
            if found is not None:
                return found
        return self._fetched_again(segment).record_batch(batch)

    def _fetched_again(self, number: int) -> SegmentFile:
        """Return a segment that has damage, with a new copy if there is one: its object may be undamaged."""
        opened = self._segment(number)
        if self._storage.drop_copy(opened.state, opened.file()):
            _log.warning("segment_copy_dropped", segment=self._storage.path(number), reason="it has damage")
            self._found.pop(number, None)
            self._forget(number)
        return self._segment(number)

    def messages(self, segment: int, batch: int, rows: Sequence[int]) -> list[PhysicalMessage]:
        with suppress(DamagedError):
            found = super().messages(segment, batch, rows)
            if not any(map(is_damaged, found)):
                return found
        return self._fetched_again(segment).messages(batch, rows)

    def descriptors(self, segment: int, batch: int) -> pa.RecordBatch:
        with suppress(DamagedError):
            return super().descriptors(segment, batch)
        self._fetched_again(segment)
        return super().descriptors(segment, batch)

    def placed_bodies(self, segment: int, batch: int, rows: Sequence[int]) -> PlacedBodies:
        return self._segment(segment).placed_bodies(batch, rows)

    def _open(self, state: SegmentState) -> ReadFile:
        path = self._storage.path(state.number)
        if not state.size:
            raise GatewayError(f"{path} is not a journal segment: it is empty")
        file = self._storage.open(state)
        if file.size() < state.size:
            raise GatewayError(f"{path} cannot be read: it is shorter than when it was listed")
        state.seed = self._seed(file, state, path)
        if file.read_as_is(state.size - len(arrow_ipc.END_OF_STREAM), state.size) != arrow_ipc.END_OF_STREAM:
            if self._storage.drop_copy(state, file):
                return self._open(state)
            find_batches(file, state, state.seed)
            if state.open_ended or state.size % arrow_ipc.BLOCK != len(arrow_ipc.END_OF_STREAM):
                raise GatewayError(f"{path} is incomplete: it has no end of stream, as a sealed segment has")
            _log.error("segment_damaged", segment=path, lost="nothing", reason="its end of stream is damaged")
        return file

    def _seed(self, file: ReadFile, state: SegmentState, path: str) -> int:
        try:
            header = header_of(file, state.size, path)
        except BadHeader as error:
            journal = None if error.foreign else self._journal_of(state.number)
            ids = told_journals(file) if journal is None else [journal]
            for seed in (seed_of(each, state.own_number) for each in ids):
                find_batches(file, state, seed)
                if state.batches:
                    _log.error("segment_damaged", segment=path, lost="the header", reason=str(error))
                    return seed
            advice = "" if error.foreign else "; if it was one, it is damaged: replace it by a whole copy"
            raise GatewayError(f"{path} is not a journal segment: {error}{advice}") from error
        self._require_journal(header, state.number)
        return seed_of(header.journal.id, state.own_number)

    def _journal_of(self, segment: int) -> str | None:  # noqa: ARG002 - all are of one
        """Return the journal of a segment by what is known of others."""
        identity = self.identity()
        return None if identity is None else identity.id

    def _require_journal(self, header: JournalSegmentHeader, segment: int) -> None:
        """Raise GatewayError when a segment belongs to another journal than those that were opened before."""
        known = self._journal or header.journal
        if header.journal.id != known.id:
            raise GatewayError(
                f"{self.path(segment)} belongs to the journal {header.journal.id}, and others of this archive to the "
                f"journal {known.id}: give each journal an archive of its own"
            )
        self._journal = max(known, header.journal)


class CombinedArchive(ArrowArchive):
    """A `JournalArchive` over the archives of several journals, whose segments have one `order`. It is only read.

    Copies of segments of object stores share one folder.
    """

    def __init__(self, order: Order, cache: Path | None = None, cache_bytes: int = CACHE_BYTES) -> None:
        self._segments = CombinedSegments(order, cache, cache_bytes)
        self._read_from(self._segments)

    def __reduce__(self) -> Any:
        raise TypeError("an archive of several journals is opened anew in each process")

    def identity(self) -> JournalIdentity | None:
        return self._segments.journal

    def sequences(self) -> list[list[int]]:
        found: list[list[CombinedSegment]] = []
        for each in (self._segments.origin(segment.number) for segment in self.segments()):
            # A segment that was put back late has a higher number than those after it.
            fits = (some for some in found if some[-1].journal == each.journal and some[-1].segment < each.segment)
            if (before := next(fits, None)) is None:
                found.append([each])
            else:
                before.append(each)
        return [[each.number for each in some] for some in found]

    def behind(self, segment: int) -> list[Segment]:
        """Return the present segments behind a number. One that is put back gets a number behind all others."""
        return [each for each in self.segments() if each.number > segment]

    def open_segment(self) -> None:
        """Return None: no journal is written here."""

    def _journal_of(self, segment: int) -> str:
        return self._segments.origin(segment).journal

    def _require_journal(self, header: JournalSegmentHeader, segment: int) -> None:
        recorded = self._journal_of(segment)
        if header.journal.id != recorded:
            raise GatewayError(
                f"{self.path(segment)} belongs to the journal {header.journal.id}, and it is recorded as a segment of "
                f"the journal {recorded}: put that one back"
            )


def is_fence(state: SegmentState) -> bool:
    """Tell whether the file is a fence, and no segment."""
    return state.size == len(_FENCE)


class _States(dict[int, SegmentState]):
    """The segments known so far. A missing one is looked up when it is asked for. `growing` is the place of an archive
    that gets more segments."""

    def __init__(self, storage: SegmentStorage, growing: str | None) -> None:
        super().__init__()
        self._storage, self._growing = storage, growing

    def __missing__(self, number: int) -> SegmentState:
        try:
            return self.setdefault(number, self._storage.find(number))
        except KeyError:
            listed = {} if self._growing is None else self._storage.listing()
            if number in listed:  # it was archived meanwhile
                return self.setdefault(number, listed[number])
            if self._growing is not None and number > max(listed, default=-1):
                raise NotArchived(
                    f"segment {number} of the journal is not, or not yet, in the archive {self._growing} "
                    "(journal.archive_url)"
                ) from None
            raise
