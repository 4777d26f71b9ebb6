"""The sealed journal segments that a job reads, divided into shares for tasks."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from math import ceil
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pydantic import BaseModel, ByteSize, ConfigDict, Field, NonNegativeInt, PositiveInt
from pyspark.sql.datasource import InputPartition

from app import plugins
from app.model.errors import DamagedError, GatewayError
from app.model.message import Position
from app.observe import logger
from app.pipeline.read.journal_archives import is_folder
from app.ports import JournalArchive, Segment

log = logger(__name__)

TOGETHER_BYTES = 256 << 10
"""The size of the record batches that are converted together. A slow source has a batch for each message, which takes
as long as a hundred messages in one batch."""

Rows = Callable[[JournalArchive, Sequence[Position]], pa.RecordBatch | None]
"""A function that reads the record batches at some places and converts them to rows; None for no rows. It raises
KeyError and DamagedError as `JournalArchive.record_batch`."""

Lost = Callable[[int, DamagedError], pa.RecordBatch | None]
"""A function that returns the rows for a batch that is lost, from its packed position and the error; None for none."""


class SourceOptions(BaseModel):
    """Options of every source, as text. Sizes are bytes, or have a unit: `64MiB`.

    `path` is a folder or URL of sealed segments. `archive` names the adapter that reads it. `cache` is the folder and
    `cache_bytes` the size of its cache of segments from an object store. `partition_bytes` is the size that one task
    reads.

    A trigger takes at most `max_bytes_per_trigger` and `max_segments_per_trigger`, but at least one segment. Segments
    up to `starting_after_segment` are skipped. A stream whose results are committed up to `known_segment` never takes
    segments up to that one together with later ones, and does not begin after it: then its checkpoint is of other
    results.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str
    archive: str = "arrow"
    cache: str | None = None
    cache_bytes: ByteSize | None = None
    partition_bytes: ByteSize = Field(ByteSize(64 << 20), ge=4096)
    max_bytes_per_trigger: ByteSize = ByteSize(256 << 20)
    max_segments_per_trigger: PositiveInt | None = None
    starting_after_segment: NonNegativeInt = 0
    known_segment: NonNegativeInt | None = None

    def open(self) -> JournalArchive:
        """Open the archive anew. Raises GatewayError."""
        cache = None if self.cache is None else Path(self.cache)
        opened = plugins.archive(self.archive)
        if self.cache_bytes is None:
            return opened(self.path, cache)
        return opened(self.path, cache, self.cache_bytes)

    @property
    def is_local(self) -> bool:
        """Return whether segments are read in place."""
        return is_folder(self.path)


class SegmentPiece(NamedTuple):
    """The record batches of a segment that begin at bytes [begin, end), counted from its first batch."""

    segment: int
    begin: int
    end: int

    def batches(self, sizes: Sequence[int]) -> list[int]:
        """Return the numbers of these batches, in a segment with batches of these sizes."""
        starts = accumulate(sizes, initial=0)
        return [
            number for number, start in zip(range(len(sizes)), starts, strict=False) if self.begin <= start < self.end
        ]


class Share(InputPartition):
    """The pieces that one task reads, in order."""

    def __init__(self, pieces: Iterable[SegmentPiece]) -> None:
        super().__init__(tuple(pieces))

    @property
    def pieces(self) -> tuple[SegmentPiece, ...]:
        pieces: tuple[SegmentPiece, ...] = self.value
        return pieces


def shares(segments: Iterable[Segment], partition_bytes: int, *, cut: bool, newest_first: bool = False) -> list[Share]:
    """Return even shares of at most `partition_bytes`, in order. Without `cut`, a share has only whole segments.

    With `newest_first`, a task reads its segments from the newest to the oldest. The oldest then stay in the cache for
    the next job, which begins with them.
    """
    sizes = {segment.number: max(segment.size, 1) for segment in segments}
    total = sum(sizes.values())
    most = ceil(total / ceil(total / partition_bytes)) if total else 0
    made: list[Share] = []
    pieces: list[SegmentPiece] = []
    room = most
    for number, size in sizes.items():
        begin = 0
        while begin < size:
            end = min(size, begin + room) if cut else size
            pieces.append(SegmentPiece(number, begin, end))
            room -= end - begin
            begin = end
            if room <= 0:
                made.append(Share(pieces))
                pieces, room = [], most
    if pieces:
        made.append(Share(pieces))
    return [Share(reversed(share.pieces)) for share in made] if newest_first else made


def read_share(archive: JournalArchive, place: str, share: Share, read: Rows, lost: Lost) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the record batches of a share, in place of a damaged one the rows of `lost`.

    Raises GatewayError when a segment is no longer in the archive at this place.
    """
    for piece in share.pieces:
        number = piece.segment
        try:
            sizes = archive.batch_sizes(number)
            for places in _together(number, piece.batches(sizes), sizes):
                yield from _rows(archive, places, read, lost)
        except KeyError:
            raise GatewayError(f"journal segment {number} of {place} is gone") from None


def _together(segment: int, batches: Iterable[int], sizes: Sequence[int]) -> Iterator[list[Position]]:
    """Yield the places of the batches that are converted together."""
    places: list[Position] = []
    size = 0
    for batch in batches:
        size += sizes[batch]
        if places and size > TOGETHER_BYTES:
            yield places
            places, size = [], sizes[batch]
        places.append(Position(segment, batch, 0))
    if places:
        yield places


def _rows(archive: JournalArchive, places: Sequence[Position], read: Rows, lost: Lost) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some batches, one by one if one of them is damaged."""
    try:
        rows = read(archive, places)
    except DamagedError as error:
        if len(places) > 1:
            for place in places:
                yield from _rows(archive, [place], read, lost)
            return
        (place,) = places
        log.error("segment_damaged", segment=place.segment, batch=place.batch, reason=str(error))  # noqa: TRY400
        rows = lost(place.pack(), error)
    if rows is not None:
        yield rows


def admitted(coming: Iterable[Segment], most_bytes: int, most_segments: int | None) -> int | None:
    """Return the number of the last segment that fits into one trigger; None without segments. The first always
    fits."""
    last, taken = None, 0
    for count, segment in enumerate(coming):
        taken += segment.size
        if count and (taken > most_bytes or count == most_segments):
            break
        last = segment.number
    return last
