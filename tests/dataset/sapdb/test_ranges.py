"""Values at the ends of their type's range, and beyond: the first are read and written, the second refused.

The fields are encoded here: numbers digit by digit, texts and moments as bytes.
"""

from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from app.codecs.sapdb.constants import DataType
from app.codecs.sapdb.packet_records import ParameterInfo
from app.codecs.sapdb.parameter_values import Manner, code_of
from app.dataset.sapdb import column_types, row_columns, varying
from app.model.errors import InvalidInputError
from app.wire import Context, WireError

MANNERS = [Manner(code_of(0, order), Context(order)) for order in (">", "<")]


def number(text: str) -> bytes:
    """A VDN number: a byte of sign and exponent, and two digits a byte; those of negative ones complemented."""
    is_negative, plain = text.startswith("-"), text.lstrip("-")
    whole, _, behind = plain.partition(".")
    digits = (whole + behind).lstrip("0")
    exponent = len(whole.lstrip("0")) or -(len(behind) - len(behind.lstrip("0")))
    digits = digits.rstrip("0")
    if not digits:
        return b"\x80"
    if is_negative:
        kept = [9 - int(each) for each in digits[:-1]] + [10 - int(digits[-1])]
        digits = "".join(map(str, kept))
    packed = bytes(int((digits + "0")[at : at + 2], 16) for at in range(0, len(digits), 2))
    return bytes([0x40 - exponent if is_negative else 0xC0 + exponent]) + packed


class Range(NamedTuple):
    """A type, the fields of values that it has with these, and the fields of values that it does not have."""

    data_type: DataType
    length: int
    frac: int
    size: int
    within: dict[bytes, Any]
    beyond: list[bytes]
    why: str


def numbers(*texts: str) -> dict[bytes, Any]:
    return {number(text): Decimal(text) for text in texts}


SMALL = ("0", "1", "-1", "32767", "-32768", "30000")
WHOLE = (*SMALL, "2147483647", "-2147483648", "99999")
RANGES = {
    "smallint": Range(
        DataType.SMALLINT,
        *(5, 0, 4),
        numbers(*SMALL),
        [number(each) for each in ("32768", "-32769", "99999", "-99999", "40000")],
        "the number is beyond SMALLINT, which is -32,768 to 32,767",
    ),
    "smallint-1.5": Range(
        DataType.SMALLINT, 5, 0, 4, {}, [number("1.5")], "more than 0 digits after the decimal point"
    ),
    "smallint-unsaid": Range(DataType.SMALLINT, 5, 255, 4, numbers(*SMALL), [number("32768")], "beyond SMALLINT"),
    "integer": Range(
        DataType.INTEGER,
        *(10, 0, 6),
        numbers(*WHOLE),
        [number(each) for each in ("2147483648", "-2147483649", "9999999999", "-9999999999")],
        "the number is beyond INTEGER, which is -2,147,483,648 to 2,147,483,647",
    ),
    "fixed": Range(
        DataType.FIXED,
        *(5, 2, 4),
        numbers("999.99", "-999.99", "0.01", "0"),
        [number(each) for each in ("1000", "-1000", "12345")],
        r"the number does not fit fixed\(5,2\)",
    ),
    "fixed-point": Range(DataType.FIXED, 5, 2, 4, {}, [number("1.234")], "more than 2 digits after the decimal point"),
    "fixed-38": Range(
        DataType.FIXED, 38, 0, 20, numbers("9" * 38, "-" + "9" * 38), [number("1" + "0" * 38)], r"fixed\(38,0\)"
    ),
    "boolean": Range(DataType.BOOLEAN, 1, 0, 1, {b"\0": False, b"\1": True}, [b"\2", b"1", b"\xff"], "neither 00 nor"),
    "char": Range(
        DataType.CHAR_ASCII,
        3,
        0,
        9,
        {b"abc": "abc", b"a  ": "a", b"abc  ": "abc"},
        [b"abcd", b"   d"],
        "more than the 3",
    ),
    "byte": Range(DataType.CHAR_BYTE, 3, 0, 3, {b"abc": b"abc"}, [], ""),
    "varchar-byte": Range(
        DataType.VARCHAR_BYTE, 3, 0, 9, {b"abc": b"abc", b"ab": b"ab"}, [b"abcd", b"abc\0d"], "more than the 3 bytes"
    ),
    "byte-longer": Range(DataType.CHAR_BYTE, 3, 0, 9, {}, [b"abcd", b"\0\0\0\1"], "more than the 3 bytes"),
    "date": Range(
        DataType.DATE,
        *(10, 0, 10),
        dict.fromkeys([b"0001-01-01", b"9999-12-31", b"2024-02-29"]),
        [b"0000-01-01", b"2023-02-29", b"2024-13-01", b"2024-00-10", b"2024-01-32", b"2024-01-00"],
        "is not a date",
    ),
    "time": Range(
        DataType.TIME,
        *(8, 0, 8),
        dict.fromkeys([b"00:00:00", b"23:59:59"]),
        [b"23:60:00", b"23:59:60", b"-1:00:00"],
        "is not a time",
    ),
    "timestamp": Range(
        DataType.TIMESTAMP,
        *(26, 0, 26),
        dict.fromkeys([b"9999-12-31 23:59:59.999999", b"0001-01-01 00:00:00.000000"]),
        [b"2024-01-01 24:00:00.000000", b"2024-02-30 00:00:00.000000", b"2024-01-01 00:60:00.000000"],
        "is not a timestamp",
    ),
}


def described(each: Range) -> ParameterInfo:
    return ParameterInfo(2, 0, each.data_type, each.frac, each.length, each.size + 1, 1)


def fixed(each: Range, fields: list[bytes], manner: Manner) -> list[Any]:
    """The values of fields in a data part, each padded to its size."""
    filler = b"\x20" if each.data_type == DataType.CHAR_ASCII else b"\0"
    data = b"".join(filler + field.ljust(each.size, filler) for field in fields)
    info = described(each)
    batch = row_columns.decode(data, [info], len(fields), manner, column_types.schema([], [info], {}))
    return list(batch.column(0).to_pylist())


def varied(each: Range, fields: list[bytes], manner: Manner) -> list[Any]:
    """The values of fields in a vardata part, each as long as it is."""
    data = b"".join(b"\0\1" + bytes([len(field)]) + field for field in fields)
    info = described(each)
    batch = varying.decode(data, [info], manner, column_types.schema([], [info], {}))
    return list(batch.column(0).to_pylist())


@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize("read", [fixed, varied])
def test_the_ends_of_a_range_are_read(name: str, read: Any) -> None:
    each = RANGES[name]
    for manner in MANNERS:
        found = read(each, list(each.within), manner)
        for value, expected in zip(found, each.within.values(), strict=True):
            assert value is not None
            assert expected is None or value == expected


@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize("read", [fixed, varied])
def test_what_is_beyond_is_refused_in_its_row(name: str, read: Any) -> None:
    each = RANGES[name]
    for manner in MANNERS:
        for wrong in each.beyond:
            before = list(each.within)[:2]
            with pytest.raises(WireError, match=each.why) as refused:
                read(each, [*before, wrong, wrong], manner)
            assert refused.value.row == f"row[{len(before)}].value[0]"


@pytest.mark.parametrize(("name", "most"), [("smallint", 32767), ("integer", 2147483647)])
def test_what_is_beyond_is_not_written(name: str, most: int) -> None:
    info = described(RANGES[name])
    kind = column_types.arrow_type(info)
    for wrong in (most + 1, -most - 2):
        for values in (pa.array([1, wrong], pa.int64()), pa.array([Decimal(1), Decimal(wrong)], kind)):
            batch = pa.record_batch([values], names=["a"])
            with pytest.raises(InvalidInputError, match="row 2: the number is beyond"):
                row_columns.encode(batch, [info], MANNERS[0])
            with pytest.raises(InvalidInputError, match="row 2: the number is beyond"):
                varying.encode(batch, [info], MANNERS[0])
    ends = pa.record_batch([pa.array([most, -most - 1, None], pa.int64())], names=["a"])
    written = row_columns.encode(ends, [info], MANNERS[0])
    assert [bytes(row[1:]).rstrip(b"\0") for row in written[:2]] == [number(str(most)), number(str(-most - 1))]


# --- texts of EBCDIC packets ------------------------------------------------------------------------------------------

EBCDIC_TEXTS: dict[str, tuple[DataType, int, str, Any]] = {
    "date": (DataType.DATE, 10, "2024-02-29", date(2024, 2, 29)),
    "usa": (DataType.DATE, 10, "02/29/2024", date(2024, 2, 29)),
    "time": (DataType.TIME, 8, "23:59:01", time(23, 59, 1)),
    "half": (DataType.TIME, 8, "11:59 PM", time(23, 59)),
    "timestamp": (DataType.TIMESTAMP, 26, "2024-02-29 23:59:01.000007", datetime(2024, 2, 29, 23, 59, 1, 7)),
    "char": (DataType.CHAR_ASCII, 10, "Gr@Be 7", "Gr@Be 7"),
    "varchar": (DataType.VARCHAR_ASCII, 10, "x", "x"),
}


def undef_40(text: str, size: int) -> bytes:
    return b"\x40" + text.encode("cp037").ljust(size, b"\x40")


def undef_20(text: str, size: int) -> bytes:
    return b"\x20" + text.encode("ascii").ljust(size)


@pytest.mark.parametrize("name", EBCDIC_TEXTS)
@pytest.mark.parametrize("made", [[undef_40], [undef_20], [undef_40, undef_20]], ids=["40", "20", "both"])
def test_the_undef_byte_says_whether_texts_of_ebcdic_packets_are_in_ebcdic(
    name: str, made: list[Callable[[str, int], bytes]]
) -> None:
    data_type, size, text, expected = EBCDIC_TEXTS[name]
    info = ParameterInfo(2, 1, data_type, 0, size, size + 1, 1)
    rows = [*(make(text, size) for make in made), b"\xff" + bytes(size)]
    schema = column_types.schema([], [info], {})
    found = row_columns.decode(b"".join(rows), [info], len(rows), Manner(code_of(1, ">"), Context(">")), schema)
    assert found.column(0).to_pylist() == [expected] * len(made) + [None]
