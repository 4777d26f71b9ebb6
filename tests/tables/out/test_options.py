"""Which rows and columns come, what they are called, and how missing values, dates and blanks look."""

import csv
import json
from io import BytesIO, StringIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tables.write import FORMATS, OptionError, OutputOptions
from tests.support.tables import field, visits
from tests.tables.out.making import made

NUMBERS = pa.table(
    [pa.array([float(n) for n in range(23)])], schema=pa.schema([field("N", pa.float64())], {"sas.member": "NUMBERS"})
)


def csv_rows(data: bytes) -> list[list[str]]:
    return list(csv.reader(StringIO(data.decode(), newline="")))


# --- columns and names --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "came"),
    [
        (("age,NAME",), ["Age", "Name"]),
        (("city", "Seen"), ["City", "Seen"]),
        ((" clock , stay ",), ["Clock", "Stay"]),
        (("Name,name,NAME",), ["Name"]),
    ],
)
def test_columns_by_name_in_any_case_and_order(columns: tuple[str, ...], came: list[str]) -> None:
    assert csv_rows(made(visits(), "csv", columns=columns))[0] == came


def test_a_name_with_a_comma_stands_alone() -> None:
    schema = pa.schema([field("a,b", pa.float64()), field("a", pa.float64()), field("b", pa.float64())])
    table = pa.table([[1.0], [2.0], [3.0]], schema=schema)
    assert made(table, "csv", columns=("A,B",)) == b'"a,b"\r\n1\r\n'
    assert made(table, "csv", columns=("a", "b")) == b"a,b\r\n2,3\r\n"


@pytest.mark.parametrize("wanted", ["Nam", "", "Name,,Age", "Age__missing"])
def test_only_variables_can_be_asked_for(wanted: str) -> None:
    with pytest.raises(OptionError, match="columns: unknown variable"):
        made(visits(), "csv", columns=(wanted,), missing="column")


def test_names_that_look_like_paths_are_told_apart() -> None:
    schema = pa.schema([field("a.b", pa.float64()), field("a", pa.float64())])
    table = pa.table([[1.0], [2.0]], schema=schema)
    assert made(table, "csv", columns=("a",)) == b"a\r\n2\r\n"
    assert made(table, "csv", columns=("a.b",)) == b"a.b\r\n1\r\n"


def test_small_letters_keep_what_belongs_together() -> None:
    came = pq.read_table(BytesIO(made(visits(), "parquet", names="lower")))
    assert came.schema.names == [name.lower() for name in visits().schema.names]
    assert came.schema.field("age").metadata[b"sas.name"] == b"Age"
    assert came.schema.field("age__missing").metadata[b"sas.missing_of"] == b"age"
    assert came.schema.field("city__bytes").metadata[b"sas.bytes_of"] == b"city"
    assert csv_rows(made(visits(), "csv", names="lower", missing="tag"))[2][1] == ".A"


# --- rows ---------------------------------------------------------------------------------------------------------


@given(st.integers(0, 30), st.none() | st.integers(0, 30), st.integers(1, 25))
def test_offset_and_limit_are_a_slice(offset: int, limit: int | None, rows_a_group: int) -> None:
    end = None if limit is None else offset + limit
    wanted = NUMBERS["N"].to_pylist()[offset:end]
    came = json.loads(made(NUMBERS, "json", rows_a_group, offset=offset, limit=limit))
    assert [row["N"] for row in came] == wanted
    whole = json.loads(made(NUMBERS, "dataset-json", rows_a_group, offset=offset, limit=limit))
    assert whole["records"] == len(whole["rows"]) == len(wanted)


# --- missing values, dates, blanks --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "missing", "cells"),
    [
        ("csv", "null", ["", ""]),
        ("csv", "tag", [".A", ""]),
        ("json", "null", [{"Age": None}, {"Age": None}]),
        ("json", "tag", [{"Age": ".A"}, {"Age": None}]),
        ("json", "column", [{"Age": None, "Age__missing": ".A"}, {"Age": None, "Age__missing": None}]),
        ("ndjson", "tag", [{"Age": ".A"}, {"Age": None}]),
    ],
)
def test_special_missing_values(name: str, missing: str, cells: list[Any]) -> None:
    data = made(visits(), name, columns=("Age",), offset=1, limit=2, missing=missing)
    match name:
        case "csv":
            assert [row[0] for row in csv_rows(data)[1:]] == cells
        case "json":
            assert json.loads(data) == cells
        case _:
            assert [json.loads(line) for line in data.splitlines()] == cells


def test_dates_as_the_numbers_that_sas_keeps() -> None:
    columns = ("Seen", "Stamp", "Clock", "Stay")
    rows = csv_rows(made(visits(), "csv", dates="sas", columns=columns))
    assert rows[1:3] == [["-1", "2110869000", "0", "108001.5"], ["", "0.5", "86399.999999", "-45"]]
    came = pq.read_table(BytesIO(made(visits(), "parquet", dates="sas")))
    assert came.schema.field("Seen").type == pa.float64()
    assert came.schema.field("Seen").metadata[b"sas.format"] == b"DATE9."
    whole = json.loads(made(visits(), "dataset-json", dates="sas", columns=columns))
    assert {column["dataType"] for column in whole["columns"]} == {"double"}


def test_blank_as_null() -> None:
    assert csv_rows(made(visits(), "csv", blank="null"))[2][0] == ""
    assert b'\r\n"",' not in made(visits(), "csv", blank="null")
    assert json.loads(made(visits(), "json", blank="null", columns=("Name",)))[1] == {"Name": None}


# --- what does not go together ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "why"),
    [
        ("parquet", {"missing": "tag"}, "missing: format parquet takes column or null"),
        ("dsjc", {"missing": "tag"}, "missing: format dsjc takes null or column"),
        ("sas", {"missing": "column"}, "missing: format sas takes tag or null"),
        ("parquet", {"blank": "null"}, "blank: does not apply to format parquet"),
        ("csv", {"rename": True}, "rename: does not apply to format csv"),
        ("sas", {"dates": "iso"}, "dates: does not apply to format sas"),
    ],
)
def test_an_option_that_a_format_lacks_is_refused(name: str, options: dict[str, Any], why: str) -> None:
    with pytest.raises(OptionError, match=why):
        FORMATS[name].settled(OutputOptions(**options))


@pytest.mark.parametrize("known", FORMATS.values(), ids=lambda known: known.name)
def test_saying_the_defaults_changes_nothing(known: Any) -> None:
    said = {"dates": "iso", "names": "keep", "blank": "empty", "rename": False}
    options = OutputOptions(
        offset=0,
        missing=known.missing[0],
        **{name: said[name] for name in said if name in known.options},  # type: ignore[arg-type]
    )
    assert known.settled(options) == known.settled(OutputOptions())
