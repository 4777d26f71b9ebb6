"""The framing `order_packet`: what every framing keeps, and tables and files that this program sends."""

import struct
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pytest

from adapters.arrow_journal import ArrowJournal
from adapters.sql_catalog import SqlCatalog
from app.codecs.sapdb.constants import PartKind
from app.codecs.sapdb.packet import decode_packet
from app.framing.order_packet import ORDER_PACKET
from app.framing.protocol import Framing
from app.main import SystemClock
from app.model.attachment import AttachmentKind, AttachmentState
from app.model.errors import InvalidInputError
from app.model.event import GroupPart, Pieces
from app.model.message import PhysicalMessage
from app.pipeline.job.job import Job, open_run
from app.pipeline.run import batch
from app.pipeline.run.spark_steps import SparkSteps
from app.service.context import ReceiverContext
from app.service.finishing.stored_parts import missing_ranges
from app.service.sending.framer import Framer
from app.service.sending.outbox import framing_options
from app.service.sending.sending_errors import CannotSend
from app.service.sending.upload_conversion import ConversionRequest
from app.tables.read.read_request import DataSetOverrides, VariableOverrides
from app.testing.framing_contract import FramingContract, receive, records
from app.testing.gateway_stages import service_context
from app.testing.host_results import assert_same, by_the_gateway, in_folder, settings
from tests.framing.order_packets import DATA_SET, assert_equal, bare, joined, options, parquet, stored, table, written
from tests.service.sending.test_upload_conversion import destination, prepared, queued
from tests.support.sas_client import disordered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TestContract(FramingContract):
    framing: ClassVar[Framing] = ORDER_PACKET

    def missing_without(self, parts: Sequence[PhysicalMessage], lost: int) -> list[tuple[int, int]]:
        return [(1, 1)]


@pytest.mark.parametrize("body_limit", [2000, 16_384, 32_000, 131_072, 1 << 20])
@pytest.mark.parametrize("encoding", [273, 546])
def test_a_table_comes_back_in_any_order_and_with_duplicates(tmp_path: Path, body_limit: int, encoding: int) -> None:
    sent_table = table(700)
    with service_context(tmp_path) as context:
        sent = bare(written(context, [(DATA_SET, "WORK.T", parquet(sent_table))], options(body_limit, encoding)))
        assert max(len(message.body) for message in sent) <= min(body_limit, 131_072)
        receive(context, [disordered(sent, Random(3), 0.2)])
        assert not context.catalog.quarantined(None, None, None, 10).items
        (record,) = records(context)
        assert (record.qualifier_1, record.qualifier_2, record.kind) == ("WORK", "T", DATA_SET)
        assert (record.observations, record.variables) == (700, sent_table.num_columns)
        assert_equal(stored(context, "T"), sent_table)


@pytest.mark.parametrize("rows", [0, 1])
def test_small_tables_come_back(tmp_path: Path, rows: int) -> None:
    with service_context(tmp_path) as context:
        receive(context, [bare(written(context, [(DATA_SET, "WORK.T", parquet(table(rows)))]))])
        assert_equal(stored(context, "T"), table(rows))


@pytest.mark.parametrize("encoding", [273, 546])
def test_names_beyond_latin_make_packets_of_a_unicode_code(tmp_path: Path, encoding: int) -> None:
    with service_context(tmp_path) as context:
        sent = bare(
            written(context, [(DATA_SET, "WORK.T", parquet(table(50, unicode_name=True)))], options(4000, encoding))
        )
        assert decode_packet(sent[0].body).header.mess_code == (20 if encoding == 273 else 19)
        receive(context, [disordered(sent, Random(1))])
        assert_equal(stored(context, "T"), table(50, unicode_name=True))


def test_what_came_as_order_packets_goes_out_as_the_same_packets(tmp_path: Path) -> None:
    with service_context(tmp_path / "one") as context:
        sent = written(context, [(DATA_SET, "WORK.T", parquet(table(40)))])
        receive(context, [bare(sent)])
        again = stored(context, "T")
    with service_context(tmp_path / "two") as context:
        assert written(context, [(DATA_SET, "WORK.T", parquet(again))]) == sent


def uploaded(context: ReceiverContext, content: bytes, ccsid: int = 1208) -> list[PhysicalMessage]:
    """The packets of a file that is uploaded for a destination of order packets."""
    to = destination("big-4-excluded-packed", 273, ccsid, framing="order_packet", body_limit=32_000)
    converted = prepared(context, content, "t", to, ConversionRequest(overrides=DataSetOverrides(file_stem="t")))
    assert not converted.definition.errors
    framer = Framer(framing_options(to, to.body_limit), context.store)
    sent = framer.frame(replace(queued(context, converted), application_body=None))
    return [each._replace(body=bytes(each.body), received_at=1 + at) for at, each in enumerate(sent)]


def buffers_of(sent: Sequence[PhysicalMessage], kind: PartKind) -> list[bytes]:
    """The buffers of all parts of a kind."""
    parts = (part for each in sent for segment in decode_packet(each.body).segments for part in segment.parts)
    return [bytes(part.buffer) for part in parts if part.header.part_kind == kind]


def test_parquet_of_what_came_as_order_packets_is_sent_as_the_same_rows(tmp_path: Path) -> None:
    expected = table(40)
    with service_context(tmp_path / "one") as context:
        sent = written(context, [(DATA_SET, "WORK.T", parquet(expected))])
        receive(context, [bare(sent)])
        came = stored(context, "T")
    with service_context(tmp_path / "two") as context:
        again = uploaded(context, parquet(came))
    for kind in (PartKind.SHORTINFO, PartKind.COLUMNNAMES, PartKind.DATA):
        assert buffers_of(again, kind) == buffers_of(sent, kind)

    # Shortinfo has 12 bytes a column, and its last two numbers are the size of a value and its place in the row.
    (described,), rows = buffers_of(again, PartKind.SHORTINFO), b"".join(buffers_of(again, PartKind.DATA))
    places = list(struct.iter_unpack(">6xhi", described))
    size = sum(length for length, _ in places)
    for (_, place), name in zip(places, expected.schema.names, strict=True):
        undefs = rows[place - 1 :: size]
        assert [undef == 0xFF for undef in undefs] == [value is None for value in expected[name].to_pylist()]


def arrow(made: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, made.schema) as writer:
        writer.write_table(made)
    content: bytes = sink.getvalue().to_pybytes()
    return content


TYPED = pa.table(
    {
        "whole": pa.array([2**63 - 1, None, -(2**53) - 1]),
        "small": pa.array([7, None, -128], pa.int8()),
        "large": pa.array([2**64 - 1, None, 0], pa.uint64()),
        "exact": pa.array([Decimal("0.3"), None, Decimal("-12345678901234567890123456789012345.678")]),
        "flag": pa.array([True, None, False]),
        "bytes": pa.array([b"\xff\1", None, b""]),
        "fixed": pa.array([b"\0\1\0", None, b"abc"], pa.binary(3)),
        "wide": pa.array([b"\0\1", None, b""], pa.large_binary()),
        "text": pa.array(["a", None, ""]),
        "shared": pa.array(["a", None, "b"]).dictionary_encode(),
        "number": pa.array([0.1, None, 3.0]),
        "day": pa.array([date(2024, 2, 29), None, date(1, 1, 1)]),
    }
)


@pytest.mark.parametrize("write", [parquet, arrow], ids=["parquet", "arrow"])
def test_types_that_sas_lacks_are_sent_as_they_are(tmp_path: Path, write: Callable[[pa.Table], bytes]) -> None:
    with service_context(tmp_path) as context:
        receive(context, [bare(uploaded(context, write(TYPED)))])
        found = stored(context, "T")
        assert_equal(found, TYPED)
        kinds = [field.metadata[b"sapdb.type"].decode() for field in found.schema]
    assert kinds == [
        *("fixed", "smallint", "fixed", "fixed", "boolean", "varchar_byte", "char_byte", "varchar_byte"),
        *("varchar_ascii", "varchar_ascii", "float", "date"),
    ]


def test_bytes_that_a_given_length_has_no_room_for_are_refused(tmp_path: Path) -> None:
    how = DataSetOverrides(file_stem="t", variables={"bytes": VariableOverrides("bytes", length=1)})
    to = destination("big-4-excluded-packed", 273, framing="order_packet")
    with service_context(tmp_path) as context:
        found = prepared(context, parquet(TYPED), "t", to, ConversionRequest(overrides=how))
    assert [(fault.variable, fault.code, fault.row) for fault in found.definition.errors] == [("bytes", "value", 1)]


def test_a_host_that_begins_again_comes_to_the_same(tmp_path: Path) -> None:
    with service_context(tmp_path) as context:
        sent = disordered(bare(written(context, [(DATA_SET, "WORK.T", parquet(table(700)))], options(2000))), Random(4))
        receive(context, [sent[start : start + 5] for start in range(0, len(sent), 5)])
        assert_equal(stored(context, "T"), table(700))


@pytest.mark.parametrize("lost", [0, 1, 7, -1])
def test_what_is_missing_is_told(tmp_path: Path, lost: int) -> None:
    with service_context(tmp_path) as context:
        sent = bare(written(context, [(DATA_SET, "WORK.T", parquet(table(700)))], options(2000)))
        gone = sent[lost]
        receive(context, [[each for each in sent if each is not gone]])
        (record,) = records(context)
        assert record.state is AttachmentState.RECEIVING
        number = 1 if lost == 0 else 2
        assert missing_ranges(record, context.catalog, context.journal, 10) == [(number, number)]
        receive(context, [[gone]])
        assert_equal(stored(context, "T"), table(700))


def test_several_tables_and_files_at_once_on_spark(tmp_path: Path, spark: "SparkSession") -> None:
    journal, alone, batched = tmp_path / "journal", tmp_path / "alone", tmp_path / "batched"
    contents = [
        (DATA_SET, "WORK.T", parquet(table(300))),
        (DATA_SET, "OTHER.U", parquet(table(20, unicode_name=True))),
        (AttachmentKind.BINARY_FILE, "x.bin", Random(1).randbytes(50_000)),
    ]
    with service_context(tmp_path / "of") as context:
        sent = joined(bare(written(context, contents, options(4000))))
    with closing(ArrowJournal(journal, segment_bytes=1 << 18)) as opened_journal:
        opened_journal.append(disordered(sent, Random(3)))
        opened_journal.seal()
    with closing(SqlCatalog(settings(batched).catalog_url)) as catalog:
        job = Job.of(settings(batched), str(journal), in_place=False)
        committed = batch.run(SparkSteps(spark), open_run(job, catalog, SystemClock()))
    assert committed is not None
    assert committed.finished == len(contents)
    assert_same(in_folder(batched, journal), by_the_gateway(alone, journal), settled=True)


def test_several_segments_of_a_packet_are_several_pieces(tmp_path: Path) -> None:
    contents = [
        (DATA_SET, "WORK.T", parquet(table(300))),
        (AttachmentKind.BINARY_FILE, "x.bin", bytes(range(256)) * 90),
    ]
    with service_context(tmp_path) as context:
        sent = joined(bare(written(context, contents, options(4000))))
        assert any(isinstance(ORDER_PACKET.read(each, 0), Pieces) for each in sent)
        receive(context, [disordered(sent, Random(5), 0.3)])
        assert not context.catalog.quarantined(None, None, None, 10).items
        assert_equal(stored(context, "T"), table(300))
        assert {record.state for record in records(context)} == {AttachmentState.FINISHED}


def test_cells_of_a_long_column_stand_for_files(tmp_path: Path) -> None:
    field = pa.field("doc", pa.string(), metadata={"sapdb.type": "long_byte", "sapdb.length": "0", "sapdb.frac": "0"})
    made = pa.table(
        [pa.array([1, 2, 3], pa.int32()), pa.array(["a.bin", None, "b.bin"])], pa.schema([("id", pa.int32()), field])
    )
    files = [(AttachmentKind.BINARY_FILE, name, name.encode() * 9000) for name in ("a.bin", "b.bin")]
    with service_context(tmp_path) as context:
        receive(context, [disordered(bare(written(context, [(DATA_SET, "WORK.T", parquet(made)), *files])), Random(1))])
        found = {record.qualifier_2: record for record in records(context)}
        cells = stored(context, "T")["doc"].to_pylist()
        names = [f"long:{found[name].correl_id[:16].hex()}" for name in ("a.bin", "b.bin")]
        assert cells == [names[0], None, names[1]]
        with pytest.raises(CannotSend, match=r"'a.bin' names no file of the same message"):
            written(context, [(DATA_SET, "WORK.T", parquet(made))])


def test_mutated_packets_are_read_or_refused(tmp_path: Path) -> None:
    random = Random(11)
    with service_context(tmp_path) as context:
        contents = [(DATA_SET, "WORK.T", parquet(table(30))), (AttachmentKind.BINARY_FILE, "x", bytes(3000))]
        sent = bare(written(context, contents, options(2000)))
        for number in range(4000):
            body = bytearray(random.choice(sent).body)
            for _ in range(random.randrange(1, 5)):
                body[random.randrange(min(len(body), 400))] = random.randrange(256)
            message = sent[0]._replace(body=bytes(body[: random.choice([len(body), random.randrange(len(body))])]))
            try:
                found = ORDER_PACKET.read(message, 0)
            except InvalidInputError:
                continue
            assert isinstance(found, GroupPart | Pieces), number


def test_mutated_tables_are_finished_or_quarantined(tmp_path: Path) -> None:
    random = Random(12)
    with service_context(tmp_path / "of") as context:
        sent = bare(written(context, [(DATA_SET, "WORK.T", parquet(table(30)))], options(2000)))
    for number in range(25):
        body = bytearray(sent[number % 3].body)
        for _ in range(6):
            body[random.randrange(100, len(body))] = random.randrange(256)
        broken = [*sent]
        broken[number % 3] = sent[number % 3]._replace(body=bytes(body))
        with service_context(tmp_path / str(number)) as context:
            receive(context, [broken])
            states = {record.state for record in records(context)}
            assert states <= {AttachmentState.FINISHED, AttachmentState.QUARANTINED, AttachmentState.RECEIVING}
