"""Sealed journal segments as data sources of Spark, for batch jobs and for streams.

`attachment_journal` returns the physical messages with their columns, packed position and size, and their bodies only
with the option `bodies`. `attachment_references` returns the meaning of the messages for assembly
(`app.pipeline.references.message_references`). A new source is a `SegmentSource` that defines how a record batch
becomes rows.

- A share of the work is some pieces of segments, divided by bytes without reading the files. A piece has the record
  batches that begin in its range. Segments of an object store are never divided, since a reader fetches whole ones.
- A stream's offset `{"journal": id, "segment": n, "format": f}` means that the segments of this journal up to number n
  have been read. Another journal refuses it, as does a version that does not know the format f. Missing numbers are
  retired segments, but not before segments that receivers have published: there they fail the job, as does a segment
  that is deleted between planning and reading.
- Spark has no column pruning for such sources. Name the columns to read few of them: `.schema("position long, ...")`.
- Filters on `source` are pushed down.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakSet

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    In,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from app.model.data_formats import CHECKPOINT
from app.model.errors import DamagedError, GatewayError
from app.model.message import Position
from app.pipeline.commit.commit_intent import journal_name
from app.pipeline.job.workers import at_task_start
from app.pipeline.read.segment_shares import Rows, Share, SourceOptions, admitted, read_share, shares
from app.pipeline.references.lazy_bodies import record_batches
from app.ports import JOURNAL_SCHEMA, JournalArchive, Segment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from app.pipeline.job.job import Job  # each of the processes that plan a stream would load all settings

BATCH_BYTES = 16 << 20
"""The size above which a record batch for Spark is halved: both sides hold whole batches in memory."""

Offset = dict[str, Any]

_FILTER_PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"
_FOR_SPARK = {pa.uint32(): pa.int64(), pa.large_binary(): pa.binary()}


class JournalOptions(SourceOptions):
    """Options with `bodies`: whether there is a column of bodies."""

    bodies: bool = False


# --- reading ----------------------------------------------------------------------------------------------------------


class SegmentSource(DataSource):
    """A data source over segments. `columns` and `rows` define its rows."""

    options_model: ClassVar[type[SourceOptions]] = SourceOptions

    @abstractmethod
    def columns(self) -> pa.Schema:
        """Return the schema of the batches that `rows` makes."""

    @abstractmethod
    def rows(self) -> Rows:
        """Return the function that reads record batches. It is called once for each task, in the worker."""

    @property
    def checked(self) -> SourceOptions:
        """Return the options. Raises ValidationError."""
        return self.options_model.model_validate(dict(self.options))

    def schema(self) -> StructType:
        fields = [field.with_type(_FOR_SPARK.get(field.type, field.type)) for field in self.columns()]
        return from_arrow_schema(pa.schema(fields))

    def reader(self, schema: StructType) -> "BatchReader":
        return BatchReader(self, schema)

    def streamReader(self, schema: StructType) -> "StreamReader":
        return StreamReader(self, schema)

    def read(self, share: InputPartition, schema: StructType) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a share with the columns of `schema`, in Spark's types. Raises GatewayError."""
        at_task_start()
        wanted = to_arrow_schema(schema, timezone="UTC")
        options = self.checked
        pieces = share if isinstance(share, Share) else Share(())
        for rows in read_share(options.open(), options.path, pieces, self.rows(), self.lost):
            # The cast copies only the offsets of bodies, never the bodies.
            yield from (piece.cast(wanted) for piece in _pieces(rows.select(wanted.names)))

    def lost(self, first_position: int, error: DamagedError) -> pa.RecordBatch | None:  # noqa: ARG002
        """Return the rows that stand for a batch that is lost; None for no rows."""
        return None


class BatchReader(DataSourceReader):
    """Reads all present segments."""

    def __init__(self, source: SegmentSource, schema: StructType) -> None:
        self._source, self._schema = source, schema
        self._only: frozenset[str] | None = None

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        for each in filters:
            match each:
                case EqualTo(("source",), str(name)):
                    self._restrict([name])
                case In(("source",), names):
                    self._restrict(names)
                case _:
                    yield each

    def _restrict(self, names: Iterable[str]) -> None:
        self._only = frozenset(names) if self._only is None else self._only & frozenset(names)

    def partitions(self) -> list[Share]:
        options = self._source.checked
        segments = [each for each in options.open().segments() if each.number > options.starting_after_segment]
        return shares(segments, options.partition_bytes, cut=options.is_local)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batches = self._source.read(partition, self._schema)
        if self._only is None:
            return batches
        names = pa.array(sorted(self._only), pa.string())
        return (batch.filter(pc.is_in(batch.column("source"), names)) for batch in batches)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads segments as they are sealed."""

    def __init__(self, source: SegmentSource, schema: StructType) -> None:
        self._source, self._schema = source, schema
        self._options = source.checked
        self._archive = self._options.open()
        self._target: int | None = None
        self._is_checked = False

    def initialOffset(self) -> Offset:
        return self._offset(self._options.starting_after_segment)

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxBytes(self._options.max_bytes_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = max((segment.number for segment in self._archive.segments()), default=0)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        self._require_own(start)
        coming = self._behind(start, self._target)
        known = [segment for segment in coming if segment.number <= (self._options.known_segment or 0)]
        coming = known or coming
        if isinstance(limit, ReadAllAvailable):
            last = coming[-1].number if coming else None
        else:
            last = admitted(coming, self._options.max_bytes_per_trigger, self._options.max_segments_per_trigger)
        return start if last is None else self._offset(last)

    def reportLatestOffset(self) -> Offset | None:
        segments = self._archive.segments()
        return self._offset(segments[-1].number) if segments else None

    def partitions(self, start: Offset, end: Offset) -> list[Share]:
        self._require_own(start)
        options = self._options
        return shares(self._behind(start, end["segment"]), options.partition_bytes, cut=options.is_local)

    def _offset(self, segment: int) -> Offset:
        name = journal_name(self._archive, self._options.path)
        return {"journal": name, "segment": segment, "format": CHECKPOINT.number}

    def _require_own(self, start: Offset) -> None:
        """Raise GatewayError if the checkpoint that the stream begins with is not of this journal and these results."""
        if self._is_checked:
            return
        CHECKPOINT.require_known(start.get("format"), "the checkpoint")
        segment, known = start["segment"], self._options.known_segment
        if segment > self._options.starting_after_segment:
            name = journal_name(self._archive, self._options.path)
            if start.get("journal", name) != name:
                raise GatewayError(
                    f"the checkpoint is of journal {start['journal']}, and {self._options.path} is journal {name}: "
                    "give the stream a checkpoint of its own (pipeline.checkpoint)"
                )
            if known is not None and segment > known:
                raise GatewayError(
                    f"the checkpoint has read the journal up to segment {segment}, and the catalog has results up to "
                    f"segment {known}: the catalog is an older copy, or the checkpoint is of other results. Give the "
                    "stream a new checkpoint (pipeline.checkpoint): it then reads the journal again"
                )
        self._is_checked = True

    def _behind(self, start: Offset, last: int | None) -> list[Segment]:
        return [each for each in self._archive.behind(start["segment"]) if last is None or each.number <= last]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._source.read(partition, self._schema)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch in pieces that are small enough for Spark."""
    if batch.nbytes <= BATCH_BYTES or len(batch) < 2:
        yield batch
    else:
        middle = len(batch) // 2
        yield from _pieces(batch.slice(0, middle))
        yield from _pieces(batch.slice(middle))


# --- the sources ------------------------------------------------------------------------------------------------------


class JournalSource(SegmentSource):
    """Physical messages as they were received."""

    options_model = JournalOptions

    @classmethod
    def name(cls) -> str:
        return "attachment_journal"

    def columns(self) -> pa.Schema:
        options = self.checked
        assert isinstance(options, JournalOptions)
        added = [pa.field(name, pa.int64(), nullable=False) for name in ("position", "size")]
        fields = [field for field in JOURNAL_SCHEMA if field.name != "body"]
        return pa.schema([*fields, *added, *([JOURNAL_SCHEMA.field("body")] if options.bodies else [])])

    def rows(self) -> Rows:
        columns = self.columns()

        def read(archive: JournalArchive, places: Sequence[Position]) -> pa.RecordBatch:
            batch, positions = record_batches(archive, places)
            made: Mapping[str, Any] = {"position": pa.array(positions), "size": pc.binary_length(batch.column("body"))}
            arrays = [made[name] if name in made else batch.column(name) for name in columns.names]
            return pa.RecordBatch.from_arrays(arrays, schema=columns)

        return read


class ReferenceSource(SegmentSource):
    """References: the meaning of physical messages for assembly, and their positions. All bodies are compared with
    their checksums."""

    @classmethod
    def name(cls) -> str:
        return "attachment_references"

    # Each of the processes that plan a stream would load all framings with what these import.

    def columns(self) -> pa.Schema:
        from app.pipeline.references.message_references import SCHEMA  # noqa: PLC0415

        return SCHEMA

    def rows(self) -> Rows:
        from app.pipeline.references.message_references import references_between  # noqa: PLC0415

        return references_between

    def lost(self, first_position: int, error: DamagedError) -> pa.RecordBatch:
        from app.pipeline.references.message_references import lost_batch  # noqa: PLC0415

        return lost_batch(first_position, error)


def cache_options(job: "Job") -> dict[str, str]:
    """Return the options of a source that say where a job keeps segments of an object store."""
    cache = {} if job.cache is None else {"cache": job.cache}
    return {"cache_bytes": str(job.cache_bytes), **cache}


_registered: WeakSet["SparkSession"] = WeakSet()


def register(spark: "SparkSession") -> None:
    """Register both sources in a session, and enable the push-down of filters."""
    if spark in _registered:
        return
    spark.conf.set(_FILTER_PUSH_DOWN, "true")
    for source in (JournalSource, ReferenceSource):
        spark.dataSource.register(source)
    _registered.add(spark)
