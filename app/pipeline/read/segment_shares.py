"""The sealed journal segments that a job reads, divided into shares for tasks."""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import ceil
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ByteSize, ConfigDict, Field, NonNegativeInt, PositiveInt
from pyspark.sql.datasource import InputPartition

from app import plugins
from app.pipeline.job.job import is_folder
from app.ports import JournalArchive, Segment


class SourceOptions(BaseModel):
    """Options of every source, as text. Sizes are bytes, or have a unit: `64MiB`.

    `path` is a folder or URL of sealed segments. `archive` names the adapter that reads it. `cache` is the folder and
    `cache_bytes` the size of its cache of segments from an object store. `partition_bytes` is the size that one task
    reads.

    A trigger takes at most `max_bytes_per_trigger` and `max_segments_per_trigger`, but at least one segment. Segments
    up to `starting_after_segment` are skipped. A batch ends with `last_segment`, if it is given. A stream
    whose results are committed up to `known_segment` never takes segments up to that one together with later ones, and
    does not begin after it: then its checkpoint is of other results.

    With `newest_first`, a task of a batch reads its segments from the newest to the oldest. The oldest then stay in the
    cache for the next job, which begins with them.
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
    last_segment: NonNegativeInt | None = None
    known_segment: NonNegativeInt | None = None
    newest_first: bool = False

    def open(self) -> JournalArchive:
        """Open the archive anew. Raises GatewayError, and PluginError if there is no such adapter."""
        cache = None if self.cache is None else Path(self.cache)
        size = {} if self.cache_bytes is None else {"cache_bytes": self.cache_bytes}
        return plugins.archive(self.archive)(self.path, cache, **size)

    def has(self, segment: Segment) -> bool:
        """Tell whether a batch reads the segment."""
        is_late = self.last_segment is not None and segment.number > self.last_segment
        return segment.number > self.starting_after_segment and not is_late

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


def shares(segments: Iterable[Segment], partition_bytes: int, *, cut: bool) -> list[Share]:
    """Return even shares of at most `partition_bytes`, in order. Without `cut`, a share has only whole segments."""
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
    return [*made, Share(pieces)] if pieces else made


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
