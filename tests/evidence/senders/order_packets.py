"""SAP DB clients and kernels: packets of the order interface (packet, segment and part headers, data, LONG values)."""

import struct
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import count
from typing import NamedTuple

from tests.evidence.senders.sent import Column, Physical, Sending, Sent, Table

COMMAND, RETURN = 1, 2
PARSE, EXECUTE, PUTVAL = 3, 13, 15
SELECT, FETCH_NEXT, INSERT = 4, 208, 3
COLUMN_NAMES, DATA, PARSID, RESULT_COUNT, TABLE_NAME, SHORT_INFO, LONG_DATA = 2, 5, 10, 12, 19, 14, 18
LAST, FIRST = 1, 4
FIXED, CHAR = 0, 2
INPUT, OUTPUT = 0, 1
NO_ROW = 100
ALL_DATA, LAST_DATA, DATA_PART = 1, 2, 0
MASS = 70
STATEMENT = bytes.fromhex("000000190000030123004600")
HEADER_SIZE, SEGMENT_SIZE, PART_SIZE = 32, 40, 16
ROW_SIZE = 5 + 7

COLUMNS = (Column("NUMBER"), Column("WORD"))
ROWS = (
    ((Decimal(4711), "one"), (Decimal(-4711), "two")),
    ((Decimal(1), "three"), (Decimal(0), "four")),
    ((Decimal(-99), "five"), (Decimal(12345), "six"), (Decimal(7), "seven")),
)
PIECES = (b"the first piece of a LONG value, ", b"the second one, ", b"and the last.")


class Part(NamedTuple):
    """A part of a segment; in data, every so many bytes of the buffer are a row."""

    kind: int
    buffer: bytes
    arguments: int = 1
    attributes: int = 0


def number(value: int, digits: int) -> bytes:
    """Return FIXED: a characteristic and packed digits; negative ones are in ten's complement."""
    length = (digits + 1) // 2 + 1
    if not value:
        return b"\x80".ljust(length, b"\0")
    written = str(abs(value))
    exponent = len(written)
    if value < 0:
        complement = str(10 ** len(written) - abs(value)).rjust(len(written), "0")
        written, first = complement, 0x40 - exponent
    else:
        first = 0xC0 + exponent
    written = written.ljust((length - 1) * 2, "0")
    return bytes([first]) + bytes.fromhex(written)


def row(values: tuple[Decimal, str]) -> bytes:
    return b"\0" + number(int(values[0]), 5) + b"\x20" + values[1].encode().ljust(6)


def packet(order: str, header: bytes, parts: Sequence[Part]) -> tuple[bytes, tuple[int, ...]]:
    """Return a packet of one segment, and where its rows end. `header` is of the segment, from its kind on."""
    body, ends = b"", []
    for part in parts:
        at = HEADER_SIZE + SEGMENT_SIZE + len(body) + PART_SIZE
        room = 28_192 - SEGMENT_SIZE - len(body) - PART_SIZE
        body += struct.pack(f"{order}BBhiii", part.kind, part.attributes, part.arguments, 0, len(part.buffer), room)
        body += part.buffer + b"\xff" * (-len(part.buffer) % 8)
        if part.kind == DATA:
            ends += [at + end for end in range(ROW_SIZE, len(part.buffer) + 1, ROW_SIZE)]
    length = SEGMENT_SIZE + len(body)
    swap = 1 if order == ">" else 2
    packet_header = struct.pack(f"{order}BBh5s3siihh8x", 0, swap, 0, b"70205", b"XCI", 28_192, length, 0, 1)
    segment = struct.pack(f"{order}iihh", length, 0, len(parts), 1) + header
    return packet_header + segment + body, tuple(ends)


def command(message_type: int, mass: bool = False) -> bytes:
    return struct.pack("10B18x", COMMAND, message_type, 1, 1, 0, 0, 0, 1, mass, 0)


def reply(order: str, function: int, code: int = 0) -> bytes:
    return struct.pack(f"{order}B5shi2s2shBx8x", RETURN, b"00000", code, 0, b"\0\0", b"\0\0", function, 0)


def description(order: str, direction: int) -> list[Part]:
    described = (FIXED, 5, 5, 1), (CHAR, 6, 7, 6)
    short = b"".join(
        struct.pack(f"{order}BBBBhhi", 2, direction, kind, 0, length, size, at) for kind, length, size, at in described
    )
    names = b"".join(bytes([len(column.name)]) + column.name.encode() for column in COLUMNS)
    return [Part(SHORT_INFO, short, 2), Part(COLUMN_NAMES, names, 2)]


def result_count(value: int | None) -> Part:
    return Part(RESULT_COUNT, b"\xff" + bytes(6) if value is None else b"\0" + number(value, 10))


def data(rows: Sequence[tuple[Decimal, str]], attributes: int) -> Part:
    return Part(DATA, b"".join(map(row, rows)), len(rows), attributes)


def parsid() -> Part:
    return Part(PARSID, STATEMENT)


Made = tuple[str, tuple[bytes, tuple[int, ...]]]


def mass_insert(order: str, rows: Sequence[Sequence[tuple[Decimal, str]]] = ROWS) -> Iterator[Made]:
    """Yield the reply to a parse, and the commands that insert the rows."""
    table = Part(TABLE_NAME, b'"SALES"."STATIONS"')
    yield "description", packet(order, reply(order, INSERT), [parsid(), *description(order, INPUT), table])
    before = 0
    for at, some in enumerate(rows):
        attributes = (FIRST if not at else 0) | (LAST if at == len(rows) - 1 else 0)
        parts = [parsid(), result_count(before if at else None), data(some, attributes)]
        yield "rows", packet(order, command(EXECUTE, mass=True), parts)
        before += len(some)


def result_set(order: str, rows: Sequence[Sequence[tuple[Decimal, str]]] = ROWS, *, ends_apart: bool) -> Iterator[Made]:
    """Yield the reply to a select, and those to its fetches; the last one may have no row."""
    table = Part(TABLE_NAME, b'"SALES"."STATIONS"')
    yield "description", packet(order, reply(order, SELECT), [parsid(), *description(order, OUTPUT), table])
    total = 0
    for at, some in enumerate(rows):
        total += len(some)
        attributes = LAST if at == len(rows) - 1 and not ends_apart else 0
        yield "rows", packet(order, reply(order, FETCH_NEXT), [parsid(), result_count(total), data(some, attributes)])
    if ends_apart or not rows:
        yield "end", packet(order, reply(order, FETCH_NEXT, NO_ROW), [parsid(), result_count(total)])


def long_value(order: str, pieces: Sequence[bytes] = PIECES) -> Iterator[Made]:
    at = 1
    for number_, piece in enumerate(pieces):
        mode = LAST_DATA if number_ == len(pieces) - 1 else DATA_PART
        descriptor = (
            b"the LONG" + b"of table" + struct.pack(f"{order}iiBBBBhhii", 0, at, 0, 0, 0, mode, 0, 0, 42, len(piece))
        )
        yield "piece", packet(order, command(PUTVAL), [Part(LONG_DATA, b"\0" + descriptor + piece)])
        at += len(piece)


def sendings(order: str) -> Iterator[Sending]:
    """Yield inserts, result sets and LONG values in a byte order, with a GroupId and without one."""
    table = Table(COLUMNS, tuple(each for rows in ROWS for each in rows))
    for group in (b"", b"this execution".ljust(24, b"\0")):
        manner = f"{'big' if order == '>' else 'little'}-endian{', GroupId' if group else ''}"
        stations = Sent("STATIONS", table)
        yield _sending("mass insert", manner, group, mass_insert(order), stations)
        yield _sending("result set", manner, group, result_set(order, ends_apart=False), stations)
        yield _sending("result set, end apart", manner, group, result_set(order, ends_apart=True), stations)
        none = Sent("STATIONS", Table(COLUMNS, ()))
        yield _sending("result set, no rows", manner, group, result_set(order, (), ends_apart=True), none)
        whole = Sent((b"the LONG" + b"of table").hex(), b"".join(PIECES))
        yield _sending("LONG value", manner, group, long_value(order), whole)


def _sending(kind: str, manner: str, group: bytes, made: Iterator[Made], sent: Sent) -> Sending:
    numbers = count()
    messages = tuple(
        Physical(role, body, group_id=group, message_id=b"packet %d" % next(numbers), records=ends)
        for role, (body, ends) in made
    )
    return Sending("order_packet", kind, "", manner, messages, (sent,))
