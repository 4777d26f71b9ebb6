"""The sources of Spark: what is planned and read is tested without Java, few tests have a session."""

import pickle
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from itertools import accumulate
from math import ceil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, In, InputPartition, IsNotNull
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from adapters.arrow_journal import ArrowJournal
from adapters.arrow_journal.archive import ArrowArchive
from app.model.errors import GatewayError
from app.model.message import PhysicalMessage, Position
from app.model.records import JournalIdentity
from app.pipeline.read.segment_shares import SegmentPiece, SourceOptions, admitted, shares
from app.pipeline.references import message_references
from app.pipeline.run.segment_sources import (
    BATCH_BYTES,
    BatchReader,
    JournalSource,
    ReferenceSource,
    StreamReader,
    register,
)
from app.ports import JOURNAL_SCHEMA, Segment
from tests.contracts.journal import messages_of

HEAD = 4096


class Written:
    """A journal of sealed segments, and what is in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.messages: list[tuple[Position, PhysicalMessage]] = []

    def add(self, *batches: list[PhysicalMessage]) -> None:
        """Another segment of these batches."""
        with closing(ArrowJournal(self.folder)) as journal:
            for batch in batches:
                self.messages += zip(journal.append(batch), batch, strict=True)

    def retire(self, segment: int) -> None:
        with closing(ArrowJournal(self.folder)) as journal:
            journal.retire(segment)
        self.messages = [each for each in self.messages if each[0].segment != segment]

    @property
    def positions(self) -> list[int]:
        return [position.pack() for position, _ in self.messages]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    made = Written(tmp_path / "journal")
    made.add(messages_of([5, 0, 4000]), messages_of([70_000] * 3, "other"), messages_of([1]))
    made.add(messages_of([9, 9], "other"))
    made.add(messages_of(range(600)))
    return made


def reader(written: Written, schema: StructType | None = None, **options: str) -> BatchReader:
    source = JournalSource({"path": str(written.folder), **options})
    return source.reader(schema or source.schema())


def stream_reader(written: Written, **options: str) -> StreamReader:
    source = JournalSource({"path": str(written.folder), **options})
    return source.streamReader(source.schema())


def everything(reader: BatchReader) -> list[dict[str, Any]]:
    """As Spark does it: each share is read by a reader that was sent to a worker."""
    return [
        row
        for share in reader.partitions()
        for batch in pickle.loads(pickle.dumps(reader)).read(pickle.loads(pickle.dumps(share)))
        for row in batch.to_pylist()
    ]


class TestPlan:
    SEGMENTS = st.lists(st.lists(st.integers(1, 50), max_size=20), max_size=8)

    @settings(deadline=None)
    @given(SEGMENTS, st.integers(1, 5000), st.booleans())
    def test_every_record_batch_is_in_one_share_and_in_order(
        self, batch_sizes: list[list[int]], most: int, cut: bool
    ) -> None:
        segments = [Segment(3 * at, HEAD + sum(sizes), 0, 0) for at, sizes in enumerate(batch_sizes, 1)]
        planned = shares(segments, most, cut=cut)
        found = [
            (piece.segment, batch)
            for share in planned
            for piece in share.pieces
            for batch in piece.batches(batch_sizes[piece.segment // 3 - 1])
        ]
        assert found == [(3 * at, batch) for at, sizes in enumerate(batch_sizes, 1) for batch in range(len(sizes))]

    @given(st.lists(st.integers(0, 300), max_size=20), st.integers(1, 100))
    def test_shares_are_even(self, sizes: list[int], most: int) -> None:
        segments = [Segment(number, size, 0, 0) for number, size in enumerate(sizes, 1)]
        filled = [sum(piece.end - piece.begin for piece in share.pieces) for share in shares(segments, most, cut=True)]
        total = sum(max(size, 1) for size in sizes)
        assert sum(filled) == total
        assert len(filled) <= ceil(total / most)
        assert max(filled, default=0) <= most
        assert len(set(filled[:-1])) <= 1

    def test_what_is_not_cut_is_in_whole_segments(self) -> None:
        segments = [Segment(number, size, 0, 0) for number, size in enumerate((10, 10, 50, 1), 1)]
        assert [share.pieces for share in shares(segments, 24, cut=False)] == [
            (SegmentPiece(1, 0, 10), SegmentPiece(2, 0, 10), SegmentPiece(3, 0, 50)),
            (SegmentPiece(4, 0, 1),),
        ]

    @given(SEGMENTS, st.integers(1, 5000))
    def test_the_newest_segments_of_a_share_come_first_when_asked_for(
        self, batch_sizes: list[list[int]], most: int
    ) -> None:
        segments = [Segment(at, HEAD + sum(sizes), 0, 0) for at, sizes in enumerate(batch_sizes, 1)]
        oldest_first, newest_first = (shares(segments, most, cut=False, newest_first=each) for each in (False, True))
        assert [share.pieces for share in newest_first] == [share.pieces[::-1] for share in oldest_first]

    @given(st.lists(st.integers(1, 100)), st.integers(1, 300), st.none() | st.integers(1, 5))
    def test_a_trigger_takes_as_much_as_it_may_and_at_least_one(
        self, sizes: list[int], most_bytes: int, most_segments: int | None
    ) -> None:
        segments = [Segment(10 * number, size, 0, 0) for number, size in enumerate(sizes, 1)]
        last = admitted(segments, most_bytes, most_segments)
        fit = [
            segment.number
            for count, (segment, size) in enumerate(zip(segments, accumulate(sizes), strict=True), 1)
            if count == 1 or (size <= most_bytes and count <= (most_segments or count))
        ]
        assert last == (fit[-1] if fit else None)


class TestReading:
    def test_gives_every_message_with_its_position_and_size(self, written: Written) -> None:
        for partition_bytes in ("4096", "50kB", "1GiB"):
            rows = everything(reader(written, bodies="true", partition_bytes=partition_bytes))
            assert [row["position"] for row in rows] == written.positions
            assert [row["body"] for row in rows] == [message.body for _, message in written.messages]
            assert [row["size"] for row in rows] == [len(message.body) for _, message in written.messages]

    def test_has_the_columns_of_the_journal_and_bodies_only_when_asked_for(self, written: Written) -> None:
        without = [name for name in JOURNAL_SCHEMA.names if name != "body"] + ["position", "size"]
        assert reader(written).partitions()
        assert list(everything(reader(written))[0]) == without
        assert list(everything(reader(written, bodies="true"))[0]) == [*without, "body"]

    def test_reads_only_the_columns_of_a_narrower_schema(self, written: Written) -> None:
        schema = StructType([StructField("body", BinaryType(), nullable=False), StructField("position", LongType())])
        rows = everything(reader(written, schema, bodies="true"))
        assert [row["position"] for row in rows] == written.positions
        assert set(rows[0]) == {"body", "position"}

    def test_takes_filters_on_the_source(self, written: Written) -> None:
        other = [position.pack() for position, message in written.messages if message.source == "other"]
        rest: list[Filter] = [GreaterThan(("position",), 0), IsNotNull(("source",)), EqualTo(("format",), "source")]
        for taken in (
            [EqualTo(("source",), "other")],
            [In(("source",), ("other", "none"))],
            [In(("source",), ("other", "queue")), EqualTo(("source",), "other")],
        ):
            asked = reader(written)
            assert list(asked.pushFilters([*rest, *taken])) == rest
            assert [row["position"] for row in everything(asked)] == other

    def test_halves_what_is_too_large(self, tmp_path: Path) -> None:
        written = Written(tmp_path)
        written.add(messages_of([BATCH_BYTES, 10, BATCH_BYTES // 2, BATCH_BYTES // 2, 10]))
        asked = reader(written, bodies="true")
        batches = [batch for share in asked.partitions() for batch in asked.read(share)]
        assert [len(batch) for batch in batches] == [1, 1, 1, 2]
        bodies = [body for batch in batches for body in batch["body"].to_pylist()]
        assert bodies == [message.body for _, message in written.messages]

    def test_bodies_are_not_copied(self, tmp_path: Path) -> None:
        written = Written(tmp_path)
        written.add(messages_of([1 << 20] * 3))
        asked = reader(written, bodies="true")
        before = pa.total_allocated_bytes()
        [batch] = [batch for share in asked.partitions() for batch in asked.read(share)]
        assert pa.total_allocated_bytes() - before < 1 << 20
        assert batch.nbytes > 3 << 20

    def test_a_segment_that_went_meanwhile_is_named(self, written: Written) -> None:
        asked = reader(written, partition_bytes="1GiB")
        [share] = asked.partitions()
        (written.folder / "0000000002.arrows").unlink()
        with pytest.raises(GatewayError, match=r"journal segment 2 of .*/journal is gone"):
            list(asked.read(share))

    def test_nothing_is_nothing(self, tmp_path: Path) -> None:
        asked = reader(Written(tmp_path))
        assert asked.partitions() == []
        assert list(asked.read(InputPartition(None))) == []

    def test_the_cache_of_an_object_store_is_the_folder_that_was_named(self, tmp_path: Path) -> None:
        asked = {"path": "memory://archive", "cache": str(tmp_path / "cache"), "cache_bytes": "1MiB"}
        options = SourceOptions.model_validate(asked)
        assert options.open().segments() == []
        assert (tmp_path / "cache").is_dir()

    @pytest.mark.parametrize(
        "wrong",
        [{"partition_bytes": "many"}, {"partition_bytes": "0"}, {"body": "true"}, {"max_segments_per_trigger": "0"}],
    )
    def test_an_option_that_is_wrong_is_named(self, written: Written, wrong: dict[str, str]) -> None:
        with pytest.raises(ValidationError, match=next(iter(wrong))):
            reader(written, None, **wrong).partitions()


def offset(asked: Any, segment: int) -> dict[str, Any]:
    """Return the offset of the reader's journal up to this segment."""
    return {**asked.initialOffset(), "segment": segment}


class TestStream:
    def test_a_trigger_takes_what_its_limits_let_it(self, written: Written) -> None:
        def offsets(**options: str) -> list[int]:
            asked = stream_reader(written, **options)
            reached = [asked.initialOffset()]
            while not reached[1:] or reached[-1] != reached[-2]:
                reached.append(asked.latestOffset(reached[-1], asked.getDefaultReadLimit()))
            return [offset["segment"] for offset in reached[:-1]]

        assert offsets() == [0, 3]
        assert offsets(max_segments_per_trigger="2") == [0, 2, 3]
        assert offsets(max_bytes_per_trigger="1") == [0, 1, 2, 3]
        assert offsets(starting_after_segment="1", max_bytes_per_trigger="1") == [1, 2, 3]
        assert offsets(known_segment="2") == [0, 2, 3]
        assert offsets(known_segment="3") == offsets(known_segment="9") == [0, 3]
        asked = stream_reader(written, max_bytes_per_trigger="1", max_segments_per_trigger="1")
        assert asked.latestOffset(offset(asked, 0), ReadAllAvailable()) == offset(asked, 3)

    def test_reads_what_lies_between_two_offsets(self, written: Written) -> None:
        asked = stream_reader(written)
        for start in range(4):
            for end in range(start, 4):
                planned = asked.partitions(offset(asked, start), offset(asked, end))
                assert bool(planned) == (start < end)
                found = [n for share in planned for batch in asked.read(share) for n in batch["position"].to_pylist()]
                wanted = [position.pack() for position, _ in written.messages if start < position.segment <= end]
                assert found == wanted

    def test_available_now_ends_with_what_was_there(self, written: Written) -> None:
        asked, limit = stream_reader(written, max_segments_per_trigger="2"), ReadLimit()
        asked.prepareForTriggerAvailableNow()
        written.add(messages_of([1]))
        assert asked.reportLatestOffset() == offset(asked, 4)
        assert asked.latestOffset(offset(asked, 0), limit) == offset(asked, 2)
        for start in (2, 3, 4):
            reached = offset(asked, max(start, 3))
            assert asked.latestOffset(offset(asked, start), limit) == reached
            assert asked.latestOffset(offset(asked, start), ReadAllAvailable()) == reached

    def test_goes_over_what_was_retired(self, written: Written) -> None:
        written.add(messages_of([1]))
        for segment in (1, 3):
            written.retire(segment)
        asked = stream_reader(written, max_segments_per_trigger="1")
        assert asked.latestOffset(offset(asked, 0), asked.getDefaultReadLimit()) == offset(asked, 2)
        assert asked.latestOffset(offset(asked, 2), asked.getDefaultReadLimit()) == offset(asked, 4)
        [share] = asked.partitions(offset(asked, 0), offset(asked, 4))
        assert [piece.segment for piece in share.pieces] == [2, 4]

    def test_does_not_go_over_what_was_published_and_is_missing(self, written: Written, tmp_path: Path) -> None:
        (tmp_path / "shared").mkdir()
        archive, shared = ArrowArchive(tmp_path / "shared"), JournalIdentity("f" * 32, 1)
        with closing(ArrowJournal(written.folder)) as own:
            for number in (1, 3):
                assert archive.add(number, own.published([number], number, shared)[1])
            source = JournalSource({"path": str(tmp_path / "shared")})
            asked = source.streamReader(source.schema())
            for start in (0, 1):
                with pytest.raises(GatewayError, match=r"0000000002\.arrows is missing"):
                    asked.latestOffset(offset(asked, start), ReadAllAvailable())
            assert archive.add(2, own.published([2], 2, shared)[1])
        assert asked.latestOffset(offset(asked, 0), ReadAllAvailable()) == offset(asked, 3)

    def test_waits_where_there_is_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "journal").mkdir()
        asked = stream_reader(Written(tmp_path / "journal"))
        start = asked.initialOffset()
        assert asked.latestOffset(start, asked.getDefaultReadLimit()) == start
        assert asked.latestOffset(start, ReadAllAvailable()) == start
        assert asked.reportLatestOffset() is None
        assert asked.partitions(start, start) == []


class TestInSpark:
    @pytest.fixture
    def read(self, spark: SparkSession, written: Written) -> Callable[..., DataFrame]:
        register(spark)
        return lambda name, **options: spark.read.format(name).options(**options).load(str(written.folder))

    def test_messages_have_all_their_fields(self, read: Callable[..., DataFrame], written: Written) -> None:
        full = PhysicalMessage(
            *("orders", "mq_group", 1, b"c" * 24, b"body", b"m", b"g", 2, 3, 2**32 - 1, 5, 546, 1208, "MQSTR"),
            put_time=1_500_000,
            received_at=2_500_000,
            properties={"a": "b", "ü": ""},
        )
        written.add([full])
        rows = read("attachment_journal", bodies="true", partition_bytes="100kB").orderBy("position").collect()
        assert [row.position for row in rows] == written.positions
        assert [row.body for row in rows] == [message.body for _, message in written.messages]
        assert [row.body_crc32 for row in rows] == [crc32c(message.body) for _, message in written.messages]
        assert rows[0].put_time is None
        found = rows[-1].asDict()
        times = {name: found.pop(name).astimezone(UTC) for name in ("put_time", "received_at")}
        assert times == {
            "put_time": datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC),
            "received_at": datetime(1970, 1, 1, 0, 0, 2, 500_000, UTC),
        }
        added = {"position": written.positions[-1], "size": 4, "body_crc32": crc32c(b"body")}
        assert found == {name: value for name, value in full._asdict().items() if name not in times} | added

    def test_filters_columns_and_references(
        self, read: Callable[..., DataFrame], spark: SparkSession, written: Written
    ) -> None:
        other = read("attachment_journal").where("source = 'other' and size > 10")
        assert sorted(row.size for row in other.collect()) == [70_000] * 3
        narrow = spark.read.schema("size long not null").format("attachment_journal").load(str(written.folder))
        assert narrow.groupBy().sum("size").collect()[0][0] == sum(len(message.body) for _, message in written.messages)
        asked = ReferenceSource({"path": str(written.folder)})
        direct = asked.reader(asked.schema())
        wanted = [row for share in direct.partitions() for batch in direct.read(share) for row in batch.to_pylist()]
        assert wanted
        found = [row.asDict() for row in read("attachment_references").orderBy("position").collect()]
        assert found == sorted(wanted, key=lambda row: row["position"])
        assert list(found[0]) == message_references.SCHEMA.names

    def test_a_stream_goes_on_where_it_ended(self, spark: SparkSession, written: Written, tmp_path: Path) -> None:
        register(spark)
        seen: list[set[int]] = []

        def take(batch: DataFrame, _: int) -> None:
            seen.append({row.position for row in batch.select("position").collect()})

        def run() -> None:
            stream = spark.readStream.format("attachment_journal").option("max_segments_per_trigger", "2")
            query = (
                stream.load(str(written.folder))
                .writeStream.foreachBatch(take)
                .option("checkpointLocation", str(tmp_path / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()

        def of(*segments: int) -> set[int]:
            return {position.pack() for position, _ in written.messages if position.segment in segments}

        run()
        assert seen == [of(1, 2), of(3)]
        for _ in range(3):
            written.add(messages_of([1, 2]))
        written.retire(4)
        run()
        assert seen[2:] == [of(5, 6)]
        run()
        assert seen[3:] == []
