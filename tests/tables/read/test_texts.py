"""Which columns of texts are numbers, dates and times, and that none of them loses anything by it."""

import csv
import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from io import StringIO
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tables.read.typed_texts import MISSING_WORDS
from tests.tables.read.reading import opened, table_of

NUMBERS = st.one_of(
    st.integers(-(1 << 60), 1 << 60).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(allow_nan=False, allow_infinity=False, places=3).map(str),
    st.sampled_from(
        ["007", "+1", ".5", "5.", "-0", "1e5", "1E-7", "1e400", "1e-400", "1e-310", "0x1F", "1_000", "1,5"]
    ),
    st.from_regex(r"-?[0-9]{1,20}(\.[0-9]{0,20})?", fullmatch=True),
)
MOMENTS = st.one_of(
    st.dates().map(str),
    st.datetimes().map(str),
    st.datetimes().map(lambda moment: moment.isoformat(timespec="milliseconds")),
    st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-5, minutes=-30))])).map(datetime.isoformat),
    st.times().map(str),
    st.sampled_from(
        ["2024-02-30", "0000-01-01", "24:00:00", "2024-01-01T25:00:00", "-12:00:00.5", "100:59:59", "12:60:00"]
    ),
)
TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\n"), max_size=8),
    st.sampled_from(["true", "False", "NA", ".A", "._", "inf", "nan", " 1 ", '"', "a,b", "2024-01-01", "1"]),
)
MISSING = st.sampled_from(MISSING_WORDS)
COLUMNS = st.one_of(
    *(st.lists(kind | MISSING, min_size=1, max_size=6) for kind in (NUMBERS, MOMENTS, TEXTS)),
    st.lists(NUMBERS | MOMENTS | TEXTS, min_size=1, max_size=6),
)


def as_csv(cells: list[str]) -> bytes:
    """A column of cells beside one that keeps empty rows from being none."""
    out = StringIO()
    csv.writer(out, lineterminator="\n").writerows([["x", "n"], *([cell, "row"] for cell in cells)])
    return out.getvalue().encode()


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def span(text: str) -> timedelta:
    hours, minutes, seconds = text.removeprefix("-").split(":")
    length = timedelta(hours=int(hours), minutes=int(minutes), microseconds=int(Decimal(seconds) * 1_000_000))
    return -length if text.startswith("-") else length


MEANINGS: Mapping[pa.DataType, Callable[[str], Any]] = {
    pa.bool_(): lambda text: text.lower() == "true",
    pa.date32(): date.fromisoformat,
    pa.timestamp("us"): datetime.fromisoformat,
    pa.timestamp("us", "UTC"): instant,
    pa.time64("us"): lambda text: datetime.fromisoformat(f"1970-01-01T{text}").time(),
    pa.duration("us"): span,
}


@given(COLUMNS)
def test_inference_never_loses_a_value(cells: list[str]) -> None:
    reading = opened(as_csv(cells), "x.csv")
    column = table_of(reading)["x"]
    if column.type == pa.string():
        assert column.to_pylist() == cells
        return
    told = {remark.row for remark in reading.remarks if remark.column == "x"}
    for row, (text, value) in enumerate(zip(map(str.strip, cells), column.to_pylist(), strict=True), 1):
        if text in MISSING_WORDS:
            assert value is None
        elif column.type == pa.float64():
            assert math.copysign(1, value) == (-1 if text.startswith("-") else 1)
            assert Decimal(repr(value)) == Decimal(text.replace(",", "")) or any(
                known is not None and known <= row for known in told
            )
        else:
            assert value == MEANINGS[column.type](text)


@pytest.mark.parametrize(
    ("cells", "data_type"),
    [
        (["1", "2.5", ".5", "", "-1e5"], pa.float64()),
        (["1", ".", "NA", "null", "NaN"], pa.float64()),
        (["01234", "98765"], pa.string()),
        (["1", "+4912345"], pa.string()),
        (["9007199254740992", "-9007199254740992"], pa.float64()),
        (["9007199254740993", "1"], pa.string()),
        (["1", "one"], pa.string()),
        (["", "NA"], pa.string()),
        (["2024-01-31", "."], pa.date32()),
        (["2024-01-31", "2024-01-31 10:30"], pa.timestamp("us")),
        (["2024-01-31T10:30:00Z", "2024-01-31T10:30:00+02:00"], pa.timestamp("us", "UTC")),
        (["2024-01-31T10:30:00Z", "2024-01-31T10:30:00"], pa.string()),
        (["10:30:00", "23:59:59.999999"], pa.time64("us")),
        (["10:30:00", "-30:00:00"], pa.duration("us")),
        (["31.01.2024", "01/31/2024"], pa.string()),
        (["TRUE", "false"], pa.bool_()),
        (["1,234.5", "7"], pa.float64()),
        (["1,234", "-1,234,567"], pa.float64()),
        (["1,234", "12,500"], pa.string()),
        (["1,234.5", "12,34"], pa.string()),
        (["0,123.5", "1"], pa.string()),
        (["10:30:00Z", "10:30:00+02:00"], pa.time64("us")),
        (["10:30:00Z", "10:30:00"], pa.string()),
    ],
)
def test_what_a_column_is(cells: list[str], data_type: pa.DataType) -> None:
    assert opened(as_csv(cells), "x.csv").schema.field("x").type == data_type


@pytest.mark.parametrize("cell", ["007", "+4", "9007199254740993", "-1" + "0" * 400])
@pytest.mark.parametrize("row", [1, 2, 3, 400_000])
def test_digits_that_stay_text_are_told_with_the_row_of_the_first(cell: str, row: int) -> None:
    cells = ["", *map(str, range(row - 2)), cell, "8", "009"] if row > 1 else [cell, "8"]
    data = "\n".join(["y,x", *(f"1,{each}" for each in cells), ""]).encode()
    (remark,) = opened(data, "x.csv").remarks
    assert (remark.column, remark.wrong, remark.row) == ("x", False, row)
    assert "leading zeros" in remark.why
    wrong = [each for each in opened(data, "x.csv", types={"x": "numeric"}).remarks if each.wrong]
    assert [(each.row, each.why) for each in wrong] == [(row, f"a number would change {cell!r}")]


def test_the_whole_file_decides() -> None:
    cells = [str(number) for number in range(1_500_000)] + ["last"]
    data = "\n".join(["x", *cells]).encode()
    column = table_of(opened(data, "x.csv"))["x"]
    assert (column.type, column[0].as_py(), column[-1].as_py()) == (pa.string(), "0", "last")


def test_special_missing_values_in_cells() -> None:
    table = table_of(opened(as_csv(["1", ".a", "._", ".", ""]), "x.csv", tags=True))
    assert table["x"].to_pylist() == [1.0, None, None, None, None]
    assert table["x__missing"].to_pylist() == [None, ".A", "._", None, None]
    assert table_of(opened(as_csv(["1", ".A"]), "x.csv"))["x"].to_pylist() == ["1", ".A"]
    assert table_of(opened(as_csv(["a", ".A"]), "x.csv", tags=True))["x"].to_pylist() == ["a", ".A"]
    assert table_of(opened(as_csv([".B", "."]), "x.csv", tags=True))["x__missing"].to_pylist() == [".B", None]


def test_with_a_decimal_comma_a_point_makes_no_number() -> None:
    data = b"x;y;z\n1,5;1.234;12:30:00.5\n-2;12.500;01:00:00\n1,5e3;7;02:00:00\n"
    table = table_of(opened(data, "x.csv", decimal=","))
    assert table["x"].to_pylist() == [1.5, -2.0, 1500.0]
    assert table["y"].to_pylist() == ["1.234", "12.500", "7"]
    assert table["z"].type == pa.time64("us")


def test_separators_of_thousands_are_removed_and_told() -> None:
    reading = opened(as_csv(["7", "1,234.5", "-12,345,678"]), "x.csv")
    assert table_of(reading)["x"].to_pylist() == [7.0, 1234.5, -12345678.0]
    assert [(remark.column, remark.row, remark.wrong) for remark in reading.remarks] == [("x", 2, False)]
    comma = opened(b"x;n\n1.234,5;1\n", "x.csv", decimal=",")
    assert table_of(comma)["x"].to_pylist() == [1234.5]


def test_a_comma_that_may_be_either_is_told() -> None:
    cells = as_csv(["7", "1,234"])
    (remark,) = opened(cells, "x.csv").remarks
    assert (remark.column, remark.row) == ("x", 2)
    assert "may separate thousands or decimals" in remark.why
    assert table_of(opened(cells, "x.csv", types={"x": "numeric"}))["x"].to_pylist() == [7.0, 1234.0]


def test_missing_values_that_are_words_are_told() -> None:
    reading = opened(as_csv(["1", "", " NA", "NA", "."]), "x.csv")
    assert table_of(reading)["x"].to_pylist() == [1.0, None, None, None, None]
    assert [(remark.column, remark.row, remark.why) for remark in reading.remarks] == [
        ("x", 3, "'NA' is read as a missing value")
    ]
    assert opened(as_csv(["NA", "Ada"]), "x.csv").remarks == ()


def test_times_with_zones_are_in_utc_and_told() -> None:
    reading = opened(as_csv(["", "10:30:00Z", "01:00:00.5+02:00", "23:23-05:00"]), "x.csv")
    assert list(map(str, table_of(reading)["x"].to_pylist())) == ["None", "10:30:00", "23:00:00.500000", "04:23:00"]
    assert [(remark.column, remark.row) for remark in reading.remarks] == [("x", 2)]


def test_a_file_of_many_columns_is_read_in_few_blocks() -> None:
    cells = ",".join(f"{number}.25" for number in range(1_000))
    data = "\n".join([",".join(f"V{number}" for number in range(1_000)), *[cells] * 1_000, ""]).encode()
    reading = opened(data, "x.csv")
    batches = list(reading.batches())
    assert len(batches) == 1
    assert batches[0].num_rows == 1_000
    assert batches[0].column(999)[999].as_py() == 999.25
