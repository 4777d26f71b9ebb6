"""Every format, read back by libraries that are not ours."""

import csv
import json
from datetime import date, datetime, time
from io import BytesIO, StringIO
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dataset import side_columns
from app.tables.write import FORMATS
from tests.support import dataset_json
from tests.support.tables import field, visits, wide
from tests.tables.out.making import made

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ROWS = st.lists(st.tuples(TEXTS, TEXTS, st.none() | st.floats(allow_nan=False, allow_infinity=False)), max_size=30)


def arbitrary(rows: list[tuple[str, str, float | None]]) -> pa.Table:
    schema = pa.schema([field('A,"b"', pa.string()), field("Ü", pa.string()), field("N", pa.float64())])
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    return pa.table([pa.array(c, kind.type) for c, kind in zip(columns, schema, strict=True)], schema=schema)


# --- Parquet and Arrow --------------------------------------------------------------------------------------------


def test_parquet_and_arrow_keep_everything() -> None:
    table = visits()
    stream = pa.ipc.open_stream(made(table, "arrow")).read_all()
    for came in (pq.read_table(BytesIO(made(table, "parquet", offset=0, names="keep"))), stream):
        assert came.equals(table, check_metadata=True)


def test_without_special_missing_values_only_their_column_goes() -> None:
    came = pa.ipc.open_stream(made(visits(), "arrow", missing="null")).read_all()
    assert came.schema.names == [name for name in visits().schema.names if name != "Age__missing"]


# --- CSV ----------------------------------------------------------------------------------------------------------


def test_csv_as_it_is_written() -> None:
    assert made(visits(), "csv").decode() == (
        "Name,Age,Seen,Stamp,Clock,Stay,City\r\n"
        '"Åsa, ""the"" 1st",14,1959-12-31,2026-11-21T08:30:00,00:00:00,30:00:01.5,Malmö\r\n'
        '"",,,1960-01-01T00:00:00.5,23:59:59.999999,-00:00:45,Ki\ufffdl\r\n'
        '" lead",,2026-11-21,,,,""\r\n'
        '"tab\there\nline\r\nend",-0.125,9999-12-31,,08:30:00,00:00:00,x\r\n'
        "😀 雪 \\ \x1f,1e+70,1582-10-15,0001-01-01T00:00:00,,2400:00:00,y\r\n"
    )


def test_libraries_read_the_csv() -> None:
    table, data = visits(), made(visits(), "csv")
    reading = pa.csv.ConvertOptions(
        column_types={"Age": pa.float64(), "Stamp": pa.timestamp("us"), "Clock": pa.time64("us"), "Name": pa.string()},
        strings_can_be_null=False,
    )
    parsing = pa.csv.ParseOptions(newlines_in_values=True)
    came = pa.csv.read_csv(BytesIO(data), parse_options=parsing, convert_options=reading)
    for name in ("Name", "Age", "Seen", "Clock", "City"):
        assert came[name].to_pylist() == table[name].to_pylist(), name
    frame = pl.read_csv(data, try_parse_dates=True)
    assert frame["Name"].to_list() == table["Name"].to_pylist()
    assert frame["Seen"].to_list() == table["Seen"].to_pylist()
    assert frame["City"].null_count() == 0, "blank is not null"
    pandas = pd.read_csv(BytesIO(data), keep_default_na=False, na_values={"Age": [""]}, float_precision="round_trip")
    assert pandas["Name"].to_list() == table["Name"].to_pylist()
    assert pandas["Age"].dropna().to_list() == [14.0, -0.125, 1e70]


@given(ROWS)
def test_any_text_survives_csv(rows: list[tuple[str, str, float | None]]) -> None:
    lines = list(csv.reader(StringIO(made(arbitrary(rows), "csv").decode(), newline=""), strict=True))
    assert lines[0] == ['A,"b"', "Ü", "N"]
    assert [(a, b, float(n) if n else None) for a, b, n in lines[1:]] == rows


@pytest.mark.parametrize("blank", ["empty", "null"])
def test_a_row_of_one_blank_cell_is_still_a_row(blank: str) -> None:
    for kind, values in ((pa.string(), ["", "a", ""]), (pa.float64(), [None, 1.0, None])):
        table = pa.table([pa.array(values, kind)], schema=pa.schema([field("X", kind)]))
        assert (
            made(table, "csv", blank=blank).decode()
            == 'X\r\n""\r\n' + ("a" if kind == pa.string() else "1") + '\r\n""\r\n'
        )


# --- JSON ---------------------------------------------------------------------------------------------------------


def shown(value: Any) -> Any:
    """A value as JSON rows have it."""
    if isinstance(value, datetime | date | time):
        text = value.isoformat()
        return text.rstrip("0").rstrip(".") if "." in text else text
    return value


def test_json_is_an_array_of_objects_and_ndjson_one_a_line() -> None:
    table = side_free(visits()).drop_columns(["Stay"])
    wanted = [{name: shown(value) for name, value in row.items()} for row in table.to_pylist()]
    columns = ("Name", "Age", "Seen", "Stamp", "Clock", "City")
    assert json.loads(made(visits(), "json", columns=columns)) == wanted
    lines = made(visits(), "ndjson", columns=columns).decode()
    assert [json.loads(line) for line in lines.removesuffix("\n").split("\n")] == wanted
    assert pl.read_ndjson(lines.encode())["City"].to_list() == table["City"].to_pylist()
    assert pa.json.read_json(BytesIO(lines.encode()))["Age"].to_pylist() == table["Age"].to_pylist()
    assert pd.read_json(BytesIO(made(visits(), "json", columns=columns)))["City"].to_list() == table["City"].to_pylist()


def side_free(table: pa.Table) -> pa.Table:
    return table.select(side_columns.without_sides(table.schema).names)


@given(ROWS)
def test_any_text_survives_json(rows: list[tuple[str, str, float | None]]) -> None:
    table = arbitrary(rows)
    assert json.loads(made(table, "json")) == table.to_pylist()
    assert [json.loads(line) for line in made(table, "ndjson").decode().split("\n")[:-1]] == table.to_pylist()


def test_json_has_no_infinity() -> None:
    values = [float("inf"), 1.5, float("-inf"), float("nan"), None]
    table = pa.table([pa.array(values)], schema=pa.schema([field("X", pa.float64())]))
    assert json.loads(made(table, "json")) == [{"X": None}, {"X": 1.5}, {"X": None}, {"X": None}, {"X": None}]


# --- Dataset-JSON -------------------------------------------------------------------------------------------------


def test_the_forms_of_dataset_json_are_valid_and_say_the_same() -> None:
    whole = json.loads(made(visits(), "dataset-json"))
    dataset_json.check(whole)
    assert dataset_json.read_ndjson(made(visits(), "dataset-ndjson")) == whole
    assert dataset_json.read_dsjc(made(visits(), "dsjc")) == whole
    assert (whole["name"], whole["label"], whole["itemGroupOID"]) == ("VISITS", "Who came", "IG.VISITS")
    name, age, seen, stamp, clock, stay, _ = whole["columns"]
    assert name == {
        "itemOID": "IT.VISITS.Name",
        "name": "Name",
        "label": "First name",
        "dataType": "string",
        "length": 24,
        "displayFormat": "$24.",
        "keySequence": 1,
    }
    assert (age["dataType"], age["displayFormat"]) == ("double", "BEST5.1")
    assert [one["dataType"] for one in (seen, stamp, clock, stay)] == ["date", "datetime", "time", "double"]
    assert whole["rows"][1] == ["", None, None, "1960-01-01T00:00:00.5", "23:59:59.999999", -45, "Ki\ufffdl"]


def test_special_missing_values_are_a_column_of_dataset_json() -> None:
    whole = json.loads(made(visits(), "dataset-json", missing="column", columns=("age",)))
    dataset_json.check(whole)
    assert [column["name"] for column in whole["columns"]] == ["Age", "Age__missing"]
    assert whole["rows"][1] == [None, ".A"]


# --- every format -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
def test_the_same_table_makes_the_same_bytes(name: str) -> None:
    for table in (visits(), visits().slice(0, 0), wide(), wide().select([])):
        assert made(table, name, rows_a_group=25) == made(table, name, rows_a_group=25)


def test_three_hundred_columns_read_back() -> None:
    table = wide()
    for came in (
        pa.csv.read_csv(BytesIO(made(table, "csv", 25))).cast(table.schema),
        pa.Table.from_pylist(json.loads(made(table, "json", 25)), schema=table.schema),
        pa.ipc.open_stream(made(table, "arrow", 25)).read_all(),
    ):
        assert came.equals(table)
    dataset_json.check(json.loads(made(table, "dataset-json", 25)))


def test_no_rows() -> None:
    nothing = visits().slice(0, 0)
    assert json.loads(made(nothing, "json")) == []
    assert made(nothing, "ndjson") == b""
    assert made(nothing, "csv") == b"Name,Age,Seen,Stamp,Clock,Stay,City\r\n"
    dataset_json.check(json.loads(made(nothing, "dataset-json")))
    assert pa.ipc.open_stream(made(nothing, "arrow")).read_all().equals(nothing)
