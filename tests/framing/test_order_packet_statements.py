"""Order packets of other programs: result sets, mass inserts, long values, and what is refused."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from app.codecs.mqtt import mqtt_envelope
from app.codecs.sapdb.constants import DataType, FunctionCode, IoType, MessType, PartAttribute, PartKind, ValMode
from app.codecs.sapdb.data_rows import encode_vardata
from app.codecs.sapdb.packet import Part, decode_packet, new_part
from app.codecs.sapdb.packet_records import ParameterInfo, PartHeader
from app.codecs.sapdb.parameter_values import encode_content
from app.framing.order_packet import ORDER_PACKET
from app.model.attachment import AttachmentState
from app.model.errors import InvalidInputError
from app.model.event import GroupPart, Pieces
from app.model.message import PhysicalMessage
from app.testing.framing_contract import in_the_pipeline, receive, records
from app.testing.gateway_stages import service_context
from app.testing.outgoing_files import SOURCE
from tests.codecs.sapdb.vectors import ALL, PACKETS
from tests.framing.order_packets import (
    COLUMNS,
    DESCRIBED,
    EXPECTED,
    MANNER,
    ROWS,
    STATEMENT,
    command,
    data,
    packet,
    part,
    putval,
    reply,
    stored,
)
from tests.support.cases import for_each


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


IN_DOUBT: list[tuple[int, int, list[str], list[str]]] = [
    # mess_code, mess_swap, names of columns, warnings
    (0, 2, ["N", "TEXT"], []),
    (22, 2, ["N", "TEXT"], []),
    (0, 2, [], []),
    (0, 3, ["N", "TEXT"], ["mess_swap 3 of its packets is no byte order in use: by their lengths, numbers are little"]),
    (77, 2, ["N", "TEXT"], ["mess_code 77 of its packets is no character set in use: texts were read as ISO 8859-1"]),
    (128, 0, ["N", "TEXT"], ["mess_swap 0 of", "mess_code 128 of"]),
    (0, 2, ["N"], ["1 names of columns for 2 columns: these are called by their numbers"]),
]


def test_what_contradicts_itself_without_a_loss_is_a_warning(tmp_path: Path) -> None:
    sent: list[PhysicalMessage] = []
    for number, (code, swap, names, _) in enumerate(IN_DOUBT, 1):
        described = [part(PartKind.SHORTINFO, COLUMNS), part(PartKind.TABLENAME, f'"O"."T{number}"')]
        described += [part(PartKind.COLUMNNAMES, names)] if names else []
        statement = number.to_bytes(24)
        messages = [
            packet(reply(*described), group_id=statement),
            packet(reply(data(ROWS, PartAttribute.FIRST | PartAttribute.LAST)), group_id=statement),
        ]
        sent += [each._replace(body=bytes([code, swap]) + bytes(each.body[2:])) for each in messages]
    with service_context(tmp_path) as context:
        receive(context, [sent])
        found = {record.qualifier_2: record for record in records(context)}
        for number, (*_, names, warnings) in enumerate(IN_DOUBT, 1):
            record = found[f"T{number}"]
            assert len(record.warnings) == len(warnings), record.warnings
            for warning, begins in zip(record.warnings, warnings, strict=True):
                assert warning.startswith(begins)
            rows = stored(context, f"T{number}")
            assert rows.column_names == (names if len(names) == 2 else ["COLUMN_1", "COLUMN_2"])
            assert [[*row.values()] for row in rows.to_pylist()] == ROWS


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


@pytest.mark.parametrize(
    "packed",
    [
        b"\x26\x00\x08group-id\x00\x30" + b"53" * 24,
        b"\x09\x00\x18" + b"S" * 24,
        b"\x09\x00\x01C" + b"\x26\x00\x08group-id\x00\x30" + b"53" * 24,
    ],
    ids=["group", "correlation", "both"],
)
@pytest.mark.parametrize("described", [b"", b"\x26\x00\x08msg-type\x00\x018"])
def test_properties_of_a_publish_tell_the_statement(tmp_path: Path, packed: bytes, described: bytes) -> None:
    sent = [packet(reply(*DESCRIBED)), packet(reply(data(ROWS, PartAttribute.FIRST | PartAttribute.LAST)))]
    read = [
        mqtt_envelope.read(memoryview(bytes(each.body)), packed + described, SOURCE, ORDER_PACKET.traits, 1, str)
        for each in sent
    ]
    with service_context(tmp_path) as context:
        receive(context, [read])
        (record,) = records(context)
        assert record.correl_id == b"S" * 24
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
        (packet(reply(data(ROWS, PartAttribute.LAST))), "no-statement", "there is no GroupId, parsid or CorrelId"),
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
        (PhysicalMessage(SOURCE, "order_packet", body=b"x" * 80, received_at=1), "bad-packet", "not a byte order"),
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


@for_each("name", ALL)
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


@pytest.mark.parametrize(
    ("broken", "at", "why"),
    [("00c1a00000", 2, "A0 are not two decimal digits"), ("00c7123456", 0, "the number does not fit fixed(5,0)")],
    ids=["no digits", "too large"],
)
def test_a_value_that_is_none_is_told_with_its_row_and_byte(tmp_path: Path, broken: str, at: int, why: str) -> None:
    """Rows of several packets are read together; the byte is that of its own packet."""
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
        begin = bytes(sent[1].body).index(buffer)
        assert record.reason == f"part 3: row[7].value[0] at byte {begin + size + at}: {why}"
        (entry,) = context.catalog.quarantined(None, None, None, 10).items
        assert (entry.at, entry.size) == (begin + size + at, len(sent[1].body))
        assert record.reason_code == "column-type"


def column(data_type: int, length: int, value: str, frac: int = 0, **changes: int) -> PhysicalMessage:
    """A packet of one row of one column, whose value has the undef byte 00."""
    cell = b"\0" + bytes.fromhex(value)
    info = ParameterInfo(2, IoType.OUTPUT, data_type, frac, length, **{"in_out_len": len(cell), "bufpos": 1} | changes)
    first = part(
        PartKind.SHORTINFO, [COLUMNS[0], dataclasses.replace(info, bufpos=info.bufpos + COLUMNS[0].in_out_len)]
    )
    rows = new_part(PartHeader(PartKind.DATA, 5, 1), b"\0\xc1\x10\0\0" + cell)
    return packet(reply(part(PartKind.PARSID, [STATEMENT]), first, rows))


@pytest.mark.parametrize(
    ("message", "code", "row", "at"),
    [
        (column(DataType.SMALLINT, 5, "c5327680"), "column-type", "row[0].value[1]", 5),
        (column(DataType.SMALLINT, 5, "c1150000"), "column-type", "row[0].value[1]", 5),
        (column(DataType.INTEGER, 10, "ca214748364800"), "column-type", "row[0].value[1]", 5),
        (column(DataType.FIXED, 5, "c4100000", frac=2), "column-type", "row[0].value[1]", 5),
        (column(DataType.BOOLEAN, 1, "02"), "column-type", "row[0].value[1]", 5),
        (column(DataType.DATE, 10, b"2024-02-30".hex()), "column-type", "row[0].value[1]", 5),
        (column(DataType.BOOLEAN, 1, "01", in_out_len=3), "bad-rows", "data", 0),
        (column(DataType.BOOLEAN, 1, "01", bufpos=-1), "bad-column", "parameter[1].bufpos", 12 + 8),
        (column(DataType.CHAR_BYTE, 9, "01"), "bad-column", "parameter[1].in_out_len", 12 + 6),
    ],
)
def test_what_columns_and_rows_cannot_be_has_its_code_and_its_byte_of_the_packet(
    tmp_path: Path, message: PhysicalMessage, code: str, row: str, at: int
) -> None:
    (segment,) = decode_packet(message.body).segments
    begin = bytes(message.body).index(segment.parts[1 if code == "bad-column" else 2].buffer)
    with service_context(tmp_path) as context:
        receive(context, [[message]])
        (record,) = records(context)
        (entry,) = context.catalog.quarantined(None, None, None, 10).items
    assert (record.reason_code, entry.code, entry.row) == (code, code, row)
    assert entry.at in {begin + at, begin + at + 1}  # the value, or its undef byte


@pytest.mark.parametrize("data_type", [14, 16, 17, 25, 39, 40, 255])
def test_values_of_an_unknown_type_are_bytes_with_a_warning(tmp_path: Path, data_type: int) -> None:
    with service_context(tmp_path) as context:
        receive(context, [[column(data_type, 8, "0102")]])
        (record,) = records(context)
        assert stored(context, record.qualifier_2)["COLUMN_2"].to_pylist() == [b"\1\2"]
    assert record.warnings == (f"column COLUMN_2 has the unknown type {data_type}: its values are kept as bytes",)


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


def rows_in(*parts: Part, **fields: Any) -> tuple[int, int | None, bool]:
    """Read a reply: the number of its first row, how many rows it has, and whether they are the last ones."""
    found = ORDER_PACKET.read(packet(reply(part(PartKind.PARSID, [STATEMENT]), *parts, **fields)), 0)
    assert isinstance(found, GroupPart)
    return found.offset, found.units, found.ends_message


def test_the_reply_of_a_select_into_is_whole() -> None:
    """The specification's example 2.2: one row, and a data part that does not say that it is the last one."""
    count = part(PartKind.RESULTCOUNT, 1)
    assert rows_in(count, data(ROWS[:1]), function_code=FunctionCode.SELECT_INTO) == (0, 1, True)
    assert rows_in(count, data(ROWS[:1]), function_code=FunctionCode.SELECT) == (0, 1, False)


@pytest.mark.parametrize("count", [-1, 0, None])
def test_rows_of_a_number_that_the_kernel_does_not_know_yet_are_the_first_ones_if_they_are_the_last(
    count: int | None,
) -> None:
    told = part(PartKind.RESULTCOUNT, count)
    assert rows_in(told, data(ROWS[:2], PartAttribute.LAST)) == (0, 2, True)
    with pytest.raises(InvalidInputError, match="says which 2 rows"):
        rows_in(told, data(ROWS[:2]))


def test_a_second_part_of_a_kind_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="a segment has at most one") as refused:
        rows_in(data(ROWS[:1], PartAttribute.FIRST), data(ROWS[1:2], PartAttribute.LAST))
    assert (refused.value.code, refused.value.row) == ("bad-packet", "segment[0].part[2].part_kind")


def test_an_unknown_kind_of_segment_is_refused() -> None:
    header, parts = reply(part(PartKind.PARSID, [STATEMENT]), data(ROWS, PartAttribute.FIRST | PartAttribute.LAST))
    body = bytearray(packet((header, parts)).body)
    for kind in (0, 5, 255):
        body[32 + 12] = kind
        with pytest.raises(InvalidInputError, match=f"unknown kind {kind}") as refused:
            ORDER_PACKET.read(PhysicalMessage(SOURCE, "order_packet", body=bytes(body)), 0)
        assert (refused.value.code, refused.value.row, refused.value.at) == ("bad-packet", "segment[0].segm_kind", 44)


def test_a_reply_of_nothing_but_its_return_code_and_count_ends_a_result_set(tmp_path: Path) -> None:
    of = part(PartKind.PARSID, [STATEMENT])
    sent = [
        packet(reply(of, *DESCRIBED, part(PartKind.RESULTCOUNT, 10), data(ROWS, PartAttribute.FIRST))),
        packet(
            reply(
                of,
                part(PartKind.ERRORTEXT, "Row not found"),
                part(PartKind.RESULTCOUNT, 10),
                returncode=100,
                sqlstate=b"02000",
                function_code=FunctionCode.FETCH_NEXT,
            )
        ),
    ]
    for number, order in enumerate((sent, sent[::-1])):
        (tmp_path / str(number)).mkdir()
        with service_context(tmp_path / str(number)) as context:
            receive(context, [order])
            (record,) = records(context)
            assert stored(context, record.qualifier_2).to_pylist() == EXPECTED


@pytest.mark.parametrize("function_code", [FunctionCode.UPDATE, FunctionCode.DELETE, FunctionCode.GETVAL])
def test_other_replies_without_a_row_end_nothing(function_code: int) -> None:
    of, count = part(PartKind.PARSID, [STATEMENT]), part(PartKind.RESULTCOUNT, 0)
    assert ORDER_PACKET.read(packet(reply(of, count, returncode=100, function_code=function_code)), 0) == Pieces()
    assert ORDER_PACKET.read(packet(reply(count, returncode=100, function_code=FunctionCode.SELECT)), 0) == Pieces()


@pytest.mark.parametrize("told", [0, 1, 3])
def test_a_number_of_rows_other_than_that_of_the_part_is_quarantined(tmp_path: Path, told: int) -> None:
    rows = data(ROWS[:2], PartAttribute.FIRST | PartAttribute.LAST)
    other = rows._replace(header=dataclasses.replace(rows.header, arg_count=told))
    with service_context(tmp_path) as context:
        receive(context, [[packet(reply(part(PartKind.PARSID, [STATEMENT]), *DESCRIBED, other))]])
        (record,) = records(context)
        assert record.state == AttachmentState.QUARANTINED
        assert f"{told} rows of 12 bytes in 24" in (record.reason or "")
