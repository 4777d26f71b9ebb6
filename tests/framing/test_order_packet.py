"""The framing `order_packet`: what every framing keeps, and what is its own."""

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adapters.arrow_journal import ArrowJournal
from adapters.sql_catalog import SqlCatalog
from app.codecs.sapdb.constants import (
    DataType,
    FunctionCode,
    IoType,
    MessType,
    PartAttribute,
    PartKind,
    SegmentKind,
    ValMode,
)
from app.codecs.sapdb.headers import (
    CommandSegment,
    LongDescriptor,
    PacketHeader,
    ParameterInfo,
    Parsid,
    PartHeader,
    ReturnSegment,
    SegmentHeader,
)
from app.codecs.sapdb.packet import Part, decode_packet, encode_packet, laid_out, new_part
from app.codecs.sapdb.parts import LongValue, encode_part
from app.codecs.sapdb.rows import encode_rows, encode_vardata
from app.codecs.sapdb.texts import code_of
from app.codecs.sapdb.values import Manner, encode_content, in_out_len
from app.framing.order_packet import ORDER_PACKET
from app.framing.protocol import Framing
from app.main import SystemClock
from app.model.attachment import AttachmentKind, AttachmentState
from app.model.errors import InvalidInputError
from app.model.event import GroupPart, Pieces
from app.model.message import PhysicalMessage
from app.model.records import DeliveryRecord, FramingOptions
from app.pipeline import batch
from app.pipeline.job import Job
from app.service.content.access import object_name, opened
from app.service.context import ServiceContext
from app.service.finishing.parts import missing_ranges
from app.service.sending.errors import CannotSend
from app.service.sending.framer import Framer
from app.wire import Context
from tests.codecs.sapdb.vectors import ALL, PACKETS
from tests.contracts.framing import FramingContract, in_the_pipeline, receive, records
from tests.support.found import assert_same, by_the_gateway, in_folder, settings
from tests.support.outgoing import SOURCE, delivery
from tests.support.sas_client import disordered
from tests.support.service_context import service_context

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TestContract(FramingContract):
    framing: ClassVar[Framing] = ORDER_PACKET

    def number_of(self, part: int) -> int:
        return 1


# --- tables -----------------------------------------------------------------------------------------------------------


def table(rows: int, unicode_name: bool = False) -> pa.Table:
    random = Random(1)

    def some(make: Callable[[], Any]) -> list[Any]:
        return [None if random.random() < 0.1 else make() for _ in range(rows)]

    number = "größe€" if unicode_name else "number"
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int32()),
            number: pa.array(some(random.random)),
            "price": pa.array(some(lambda: Decimal(random.randrange(-(10**6), 10**6)).scaleb(-2)), pa.decimal128(9, 2)),
            "name": pa.array(some(lambda: f"name {random.randrange(100)}")),
            "any": pa.array(some(lambda: chr(random.randrange(0x20AC, 0x3000)) + "\U0001f600")),
            "data": pa.array(some(lambda: random.randbytes(4)), pa.binary(4)),
            "day": pa.array(some(lambda: date(2000, 1, 1) + timedelta(random.randrange(9000)))),
            "clock": pa.array(some(lambda: time(random.randrange(24), random.randrange(60))), pa.time64("us")),
            "span": pa.array(some(lambda: timedelta(hours=random.randrange(99))), pa.duration("us")),
            "stamp": pa.array(
                some(lambda: datetime(2020, 1, 1, microsecond=random.randrange(10**6))), pa.timestamp("us")
            ),
            "flag": pa.array(some(lambda: random.random() < 0.5)),
        }
    )


def parquet(made: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(made, sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def options(body_limit: int = 32_000, encoding: int = 273) -> FramingOptions:
    return FramingOptions(body_limit, "big-4-excluded-packed", 1208, encoding, framing="order_packet")


def written(
    context: ServiceContext, contents: list[tuple[AttachmentKind, str, bytes]], how: FramingOptions | None = None
) -> list[PhysicalMessage]:
    made: DeliveryRecord = replace(delivery(context, contents), application_body=None)
    sent = Framer(how or options(), context.store).frame(made)
    return [each._replace(body=bytes(each.body), received_at=1 + at) for at, each in enumerate(sent)]


def bare(sent: Sequence[PhysicalMessage]) -> list[PhysicalMessage]:
    """Messages as a broker without descriptors brings them: their bodies."""
    return [PhysicalMessage(SOURCE, "order_packet", body=each.body, received_at=each.received_at) for each in sent]


def stored(context: ServiceContext, name: str) -> pa.Table:
    (record,) = [each for each in records(context) if each.qualifier_2 == name]
    assert (record.state, record.reason) == (AttachmentState.FINISHED, None)
    with opened(context.store, object_name(record.id)) as file:
        return pq.read_table(file)


def assert_equal(found: pa.Table, sent: pa.Table) -> None:
    assert found.schema.names == sent.schema.names
    for name in sent.schema.names:
        assert found[name].to_pylist() == sent[name].to_pylist(), name


DATA_SET = AttachmentKind.DATA_SET


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
        committed = batch.run(spark, job, catalog, SystemClock())
    assert committed is not None
    assert committed.finished == len(contents)
    assert_same(in_folder(batched, journal), by_the_gateway(alone, journal), settled=True)


def joined(sent: Sequence[PhysicalMessage]) -> list[PhysicalMessage]:
    """Two packets of each three in one, as two segments: several pieces in one message."""
    found = []
    for start in range(0, len(sent), 3):
        one, *others = sent[start : start + 3]
        packets = [decode_packet(each.body) for each in (one, *others[:1])]
        if len({(packet.order, packet.header.mess_code) for packet in packets}) == 1:
            header = dataclasses.replace(packets[0].header, varpart_size=131_040)
            whole = laid_out(header, [(each.segments[0].header, each.segments[0].parts) for each in packets])
            found.append(one._replace(body=encode_packet(whole)))
            found += others[1:]
        else:
            found += [one, *others]
    return found


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


# --- packets of other programs ----------------------------------------------------------------------------------------

MANNER = Manner(code_of(0, "<"), Context("<"))
STATEMENT = Parsid(b"\0\0\0\7", b"\0\0\1", 1, 35, 0, 70, 0)
COLUMNS = (
    ParameterInfo(2, IoType.OUTPUT, DataType.FIXED, 0, 5, in_out_len(DataType.FIXED, 5), 1),
    ParameterInfo(2, IoType.OUTPUT, DataType.CHAR_ASCII, 0, 6, in_out_len(DataType.CHAR_ASCII, 6), 6),
)
ROWS = [[Decimal(number), f"row {number}"] for number in range(10)]


def part(kind: int, value: Any, attributes: int = 0) -> Part:
    number, buffer = encode_part(kind, value, MANNER)
    return new_part(PartHeader(kind, attributes, number), buffer)


def data(rows: list[list[Any]], attributes: int = 0) -> Part:
    return new_part(PartHeader(PartKind.DATA, attributes, len(rows)), encode_rows(rows, COLUMNS, MANNER))


def packet(*segments: tuple[SegmentHeader, list[Part]], **descriptor: Any) -> PhysicalMessage:
    body = encode_packet(laid_out(PacketHeader(varpart_size=32_000), segments))
    return PhysicalMessage(SOURCE, "order_packet", body=body, received_at=1, **descriptor)


def reply(*parts: Part, **fields: Any) -> tuple[SegmentHeader, list[Part]]:
    return ReturnSegment(segm_kind=SegmentKind.RETURN, **fields), list(parts)


def command(mess_type: MessType, *parts: Part, **fields: Any) -> tuple[SegmentHeader, list[Part]]:
    return CommandSegment(segm_kind=SegmentKind.CMD, mess_type=mess_type, **fields), list(parts)


DESCRIBED = [part(PartKind.SHORTINFO, COLUMNS), part(PartKind.COLUMNNAMES, ["N", "TEXT"])]
EXPECTED = [{"N": number, "TEXT": text} for number, text in ROWS]


def test_a_result_set_is_put_together_by_its_row_counts(tmp_path: Path) -> None:
    of = part(PartKind.PARSID, [STATEMENT])
    sent = [
        packet(reply(of, *DESCRIBED, part(PartKind.RESULTCOUNT, 4), data(ROWS[:4], PartAttribute.FIRST))),
        packet(reply(of, part(PartKind.RESULTCOUNT, 7), data(ROWS[4:7]))),
        packet(reply(of, part(PartKind.RESULTCOUNT, 10), data(ROWS[7:], PartAttribute.LAST))),
    ]
    with service_context(tmp_path) as context:
        receive(context, [sent[::-1] + sent])
        (record,) = records(context)
        assert (record.qualifier_1, record.qualifier_2) == ("PARSID", "000000070000010123004600")
        assert stored(context, record.qualifier_2).to_pylist() == EXPECTED


def test_a_reply_without_a_further_row_ends_a_result_set(tmp_path: Path) -> None:
    of = part(PartKind.PARSID, [STATEMENT])
    sent = [
        packet(reply(of, *DESCRIBED, part(PartKind.RESULTCOUNT, 10), data(ROWS, PartAttribute.FIRST))),
        packet(reply(of, part(PartKind.RESULTCOUNT, 10), data([]), returncode=100, sqlstate=b"02000")),
    ]
    with service_context(tmp_path) as context:
        receive(context, [sent])
        (record,) = records(context)
        assert stored(context, record.qualifier_2).to_pylist() == EXPECTED


def test_a_correl_id_tells_the_statement_where_no_parsid_does(tmp_path: Path) -> None:
    correl_id = b"S" * 24
    sent = [
        packet(reply(*DESCRIBED), correl_id=correl_id),
        packet(reply(data(ROWS, PartAttribute.FIRST | PartAttribute.LAST)), correl_id=correl_id),
    ]
    with service_context(tmp_path) as context:
        receive(context, [sent])
        (record,) = records(context)
        assert record.correl_id == correl_id
        assert stored(context, record.qualifier_2).to_pylist() == EXPECTED


def test_a_mass_insert_of_vardata(tmp_path: Path) -> None:
    infos = [dataclasses.replace(each, io_type=IoType.INPUT) for each in COLUMNS]
    of = part(PartKind.PARSID, [STATEMENT])

    def some(rows: list[list[Any]], attributes: int) -> Part:
        fields = [[encode_content(value, info, MANNER) for value, info in zip(row, infos, strict=True)] for row in rows]
        return new_part(PartHeader(PartKind.VARDATA, attributes, len(rows)), encode_vardata(fields))

    table_name = part(PartKind.TABLENAME, '"OWNER"."VAR"')
    sent = [
        packet(reply(of, part(PartKind.SHORTINFO, infos), DESCRIBED[1], table_name, function_code=FunctionCode.INSERT)),
        packet(command(MessType.EXECUTE, of, part(PartKind.RESULTCOUNT, None), some(ROWS[:6], PartAttribute.FIRST))),
        packet(command(MessType.EXECUTE, of, part(PartKind.RESULTCOUNT, 6), some(ROWS[6:], PartAttribute.LAST))),
    ]
    with service_context(tmp_path) as context:
        receive(context, [sent[::-1]])
        assert stored(context, "VAR").to_pylist() == EXPECTED


def putval(data: bytes, valmode: ValMode, intern_pos: int, identifier: bytes = b"L" * 8) -> PhysicalMessage:
    descriptor = LongDescriptor(
        identifier, identifier, valmode=valmode, intern_pos=intern_pos, valpos=42, vallen=len(data)
    )
    return packet(command(MessType.PUTVAL, part(PartKind.LONGDATA, [LongValue(0, descriptor, data)])))


def test_a_long_value_is_put_together_by_its_positions(tmp_path: Path) -> None:
    sent = [
        putval(b"abc", ValMode.DATAPART, 1),
        putval(b"defg", ValMode.DATAPART, 4),
        putval(b"h", ValMode.LASTDATA, 8),
    ]
    with service_context(tmp_path) as context:
        receive(context, [sent[::-1]])
        (record,) = records(context)
        assert (record.state, record.qualifier_1, record.size) == (AttachmentState.FINISHED, "LONG", 8)


@pytest.mark.parametrize(
    ("message", "code", "why"),
    [
        (
            packet(
                reply(
                    part(PartKind.ERRORTEXT, "Invalid end of SQL statement"),
                    returncode=-3014,
                    errorpos=37,
                    sqlstate=b"42000",
                )
            ),
            "error-reply",
            "error -3014 at position 37, SQLSTATE 42000: Invalid end of SQL statement",
        ),
        (packet(reply(data(ROWS, PartAttribute.LAST))), "no-statement", "neither a parsid nor a CorrelId"),
        (
            packet(reply(part(PartKind.PARSID, [STATEMENT]), data(ROWS))),
            "no-place",
            r"neither FIRST nor the row count \(None\) says which 10 rows these are",
        ),
        (
            packet(reply(part(PartKind.PARSID, [STATEMENT]), part(PartKind.RESULTCOUNT, -1), data(ROWS))),
            "no-place",
            "neither FIRST",
        ),
        (putval(b"abc", ValMode.DATAPART, 0), "no-place", "position 0 does not say where the 3 bytes belong"),
        (putval(b"abc", ValMode.ALLDATA, 1, bytes(8)), "no-identifier", "has no identifier"),
        (PhysicalMessage(SOURCE, "order_packet", body=b"x" * 80, received_at=1), "bad-packet", "no byte order"),
    ],
    ids=["error", "no-statement", "no-count", "uncounted", "no-position", "no-identifier", "no-packet"],
)
def test_what_cannot_be_taken_is_quarantined(tmp_path: Path, message: PhysicalMessage, code: str, why: str) -> None:
    with pytest.raises(InvalidInputError, match=why):
        ORDER_PACKET.read(message, 0)
    with service_context(tmp_path) as context:
        receive(context, [[message]])
        (entry,) = context.catalog.quarantined(None, None, None, 10).items
        assert entry.code == code


def test_an_error_reply_beside_rows_is_quarantined_and_the_rows_are_taken(tmp_path: Path) -> None:
    of = part(PartKind.PARSID, [STATEMENT])
    message = packet(
        reply(part(PartKind.ERRORTEXT, "Duplicate key"), returncode=250, sqlstate=b"23000"),
        reply(of, *DESCRIBED, data(ROWS, PartAttribute.FIRST | PartAttribute.LAST)),
    )
    with service_context(tmp_path) as context:
        receive(context, [[message]])
        (record,) = records(context)
        assert stored(context, record.qualifier_2).to_pylist() == EXPECTED
        (entry,) = context.catalog.quarantined(None, None, None, 10).items
        assert (entry.code, entry.row) == ("error-reply", "segment[0].returncode")
        assert "Duplicate key" in entry.why


def test_other_packets_are_of_no_attachment() -> None:
    for message in (
        packet(reply()),
        packet(command(MessType.DBS, part(PartKind.COMMAND, "COMMIT WORK"))),
        packet(
            command(
                MessType.EXECUTE,
                part(PartKind.PARSID, [dataclasses.replace(STATEMENT, application_info=0)]),
                data(ROWS),
            )
        ),
    ):
        assert ORDER_PACKET.read(message, 0) == Pieces()


@pytest.mark.parametrize("name", ALL)
def test_every_packet_of_the_vectors_is_read(name: str) -> None:
    message = PhysicalMessage(SOURCE, "order_packet", body=PACKETS[name])
    codes = {"error-reply", "no-statement", "no-place", "no-identifier", "bad-part"}
    try:
        found = ORDER_PACKET.read(message, 0)
    except InvalidInputError as error:
        code = error.code
    else:
        code = "bad-part" if isinstance(found, GroupPart | Pieces) else ""
    assert code in codes


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


@pytest.mark.parametrize(
    ("broken", "at", "why"),
    [("00c1a00000", 2, "A0 are no two decimal digits"), ("00c7123456", 0, "the number does not fit fixed(5,0)")],
    ids=["no digits", "too large"],
)
def test_a_value_that_is_none_is_told_with_its_row_and_byte(tmp_path: Path, broken: str, at: int, why: str) -> None:
    """Rows of several packets are read together; the byte is that of its own part."""
    of = part(PartKind.PARSID, [STATEMENT])
    last = data(ROWS[6:], PartAttribute.LAST)
    size, value = len(last.buffer) // 4, bytes.fromhex(broken)
    buffer = last.buffer[:size] + value + last.buffer[size + len(value) :]
    sent = [
        packet(reply(of, *DESCRIBED, part(PartKind.RESULTCOUNT, 6), data(ROWS[:6], PartAttribute.FIRST))),
        packet(reply(of, part(PartKind.RESULTCOUNT, 10), last._replace(buffer=buffer))),
    ]
    with service_context(tmp_path) as context:
        receive(context, [sent])
        (record,) = records(context)
        assert record.state is AttachmentState.QUARANTINED
        assert record.reason == f"row[7].value[0] at byte {size + at}: {why}"


def test_what_comes_for_a_statement_that_is_finished_counts_as_duplicate(tmp_path: Path) -> None:
    of = part(PartKind.PARSID, [STATEMENT])
    both = PartAttribute.FIRST | PartAttribute.LAST
    with service_context(tmp_path) as context:
        receive(context, [[packet(reply(of, *DESCRIBED, data(rows, both)))] for rows in (ROWS, ROWS[:1])])
        (record,) = records(context)
        assert (record.state, record.duplicates) == (AttachmentState.FINISHED, 2)
        assert stored(context, record.qualifier_2).to_pylist() == EXPECTED


def test_a_group_id_tells_executions_of_a_statement_apart(tmp_path: Path) -> None:
    of = part(PartKind.PARSID, [STATEMENT])
    both = PartAttribute.FIRST | PartAttribute.LAST
    executions = [
        packet(reply(of, *DESCRIBED, data(rows, both)), group_id=bytes([number]) * 24)
        for number, rows in enumerate((ROWS, ROWS[:1]), 1)
    ]
    with service_context(tmp_path) as context:
        receive(context, [executions])
        assert sorted(record.observations or 0 for record in records(context)) == [1, 10]


def test_a_conflict_of_several_pieces_in_one_checkpoint(tmp_path: Path) -> None:
    of = part(PartKind.PARSID, [STATEMENT])
    sent = [packet(reply(of, *DESCRIBED, data(rows, PartAttribute.FIRST))) for rows in (ROWS[:3], ROWS[3:6])]
    with service_context(tmp_path) as context:
        receive(context, [sent])
        (entry,) = context.catalog.quarantined(None, None, None, 10).items
        assert entry.code == "conflicting-part"
    results = in_the_pipeline(tmp_path / "pipeline", sent)
    assert {entry.code for result in results for entry in result.quarantine} == {"conflicting-part"}
