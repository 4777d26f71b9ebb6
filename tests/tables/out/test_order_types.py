"""Tables of order packets in every format: decimals, bytes and truth values, which data sets of SAS lack."""

import csv
import io
import json
import zipfile
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.model.errors import InvalidInputError
from app.tables.write import FORMATS
from tests.support import dataset_json
from tests.tables.out.making import made
from tests.tables.read.reading import opened, table_of

TABLE = pa.table(
    {
        "PRICE": pa.array([Decimal("1.25"), None, Decimal("-99999.99")], pa.decimal128(7, 2)),
        "NAME": pa.array(["é", None, "a longer name"]),
        "FLAG": pa.array([True, None, False]),
    }
)
DATA = TABLE.append_column("DATA", pa.array([b"\0\xff", None, b""], pa.binary()))


def test_json_has_exact_numbers_and_bytes_as_digits() -> None:
    lines = [json.loads(line, parse_float=Decimal) for line in made(DATA, "ndjson").splitlines()]
    expected = [{**row, "DATA": None if row["DATA"] is None else row["DATA"].hex()} for row in DATA.to_pylist()]
    assert lines == expected


def test_csv_has_bytes_as_digits_from_the_middle_too() -> None:
    rows = list(csv.reader(io.StringIO(made(DATA, "csv", offset=1).decode())))
    assert rows == [["PRICE", "NAME", "FLAG", "DATA"], ["", "", "", ""], ["-99999.99", "a longer name", "false", ""]]


def test_dataset_json_states_the_types_and_the_lengths_of_what_it_holds() -> None:
    whole = json.loads(made(DATA, "dataset-json"))
    dataset_json.check(whole)
    assert [(each["dataType"], each.get("length")) for each in whole["columns"]] == [
        ("decimal", None),
        ("string", len("a longer name")),
        ("boolean", None),
        ("string", len("00ff")),
    ]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_has_decimals_truth_values_and_texts_of_unknown_length(name: str) -> None:
    assert made(TABLE, name)


@pytest.mark.parametrize("name", ["xpt", "xpt-v5"])
def test_transport_files_have_no_bytes(name: str) -> None:
    with pytest.raises(InvalidInputError, match="type binary has no counterpart in SAS"):
        made(DATA, name)


# --- random rows of all types ---------------------------------------------------------------------------------------


def numbers(length: int, frac: int) -> st.SearchStrategy[Decimal]:
    def scaled(digits: int) -> Decimal:
        with localcontext(prec=length):
            return Decimal(digits).scaleb(-frac)

    return st.integers(-(10**length) + 1, 10**length - 1).map(scaled)


TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "smallint": (pa.decimal128(5, 0), st.integers(-32768, 32767).map(Decimal)),
    "fixed_18": (pa.decimal128(18, 0), numbers(18, 0)),
    "fixed_38": (pa.decimal128(38, 0), numbers(38, 0)),
    "price": (pa.decimal128(10, 2), numbers(10, 2)),
    "small": (pa.decimal128(38, 38), numbers(4, 38) | numbers(38, 38)),
    "flag": (pa.bool_(), st.booleans()),
    "data": (pa.binary(), st.binary(max_size=5)),
    "text": (pa.string(), st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=10)),
    "long": (pa.string(), st.just("long:" + "0f" * 16)),
    "day": (pa.date32(), st.dates()),
    "clock": (pa.time64("us"), st.times().map(lambda at: at.replace(microsecond=0))),
    "stamp": (pa.timestamp("us"), st.datetimes()),
}
DECIMALS = {"fixed_38", "price", "small"}
ROWS = st.lists(st.tuples(*(st.none() | values for _, values in TYPES.values())), min_size=1, max_size=4)


def of_rows(rows: list[tuple[Any, ...]]) -> pa.Table:
    lengths = {"data": ("varchar_byte", "5"), "text": ("varchar_ascii", "10"), "long": ("long_ascii", "0")}
    fields = []
    for name, (data_type, _) in TYPES.items():
        kind, length = lengths.get(name, ("", "0"))
        fields.append(pa.field(name, data_type, metadata={"sapdb.type": kind, "sapdb.length": length}))
    return pa.Table.from_pylist([dict(zip(TYPES, row, strict=True)) for row in rows], pa.schema(fields))


def value_of(text: Any, name: str) -> Any:
    """The value that a cell of JSON says, by the types of this file."""
    readers: dict[str, Callable[[Any], Any]] = {
        "data": bytes.fromhex,
        "day": date.fromisoformat,
        "clock": time.fromisoformat,
        "stamp": datetime.fromisoformat,
        **dict.fromkeys(DECIMALS, Decimal),
    }
    return readers[name](text) if text is not None and name in readers else text


READ: dict[str, Any] = {
    "dataset-json": json.loads,
    "dataset-ndjson": dataset_json.read_ndjson,
    "dsjc": dataset_json.read_dsjc,
}


@pytest.mark.parametrize("name", READ)
@settings(max_examples=25)
@given(rows=ROWS)
def test_dataset_json_is_valid_and_taken_back(name: str, rows: list[tuple[Any, ...]]) -> None:
    table = of_rows(rows)
    content = made(table, name)
    found = READ[name](content)
    dataset_json.check(found)
    described = {each["name"]: each for each in found["columns"]}
    assert {each for each, column in described.items() if column["dataType"] == "decimal"} == DECIMALS
    assert {each for each, column in described.items() if "length" in column} == {"data", "text", "long"}
    for name_of, column in described.items():
        cells = [row[list(described).index(name_of)] for row in found["rows"]]
        assert [value_of(cell, name_of) for cell in cells] == table[name_of].to_pylist()
        assert all(len(cell or "") <= column["length"] for cell in cells if "length" in column)

    again = table_of(opened(content))
    assert b"sas.label" not in (again.schema.metadata or {})
    for name_of in TYPES:
        expected = table[name_of].to_pylist()
        if name_of in DECIMALS:
            expected = [None if value is None else float(value) for value in expected]
        elif name_of == "data":
            expected = [None if value is None else value.hex() for value in expected]
        assert again[name_of].to_pylist() == expected


@settings(max_examples=25)
@given(rows=ROWS)
def test_decimals_have_no_exponents_in_text(rows: list[tuple[Any, ...]]) -> None:
    table = of_rows(rows)
    cells = list(csv.DictReader(io.StringIO(made(table, "csv").decode())))
    for name in DECIMALS:
        assert [Decimal(row[name]) if row[name] else None for row in cells] == table[name].to_pylist()
        assert not any("E" in row[name] for row in cells)


@settings(max_examples=10)
@given(rows=ROWS)
def test_what_sas_reads_as_numbers_are_numbers(rows: list[tuple[Any, ...]]) -> None:
    table = of_rows(rows)
    with zipfile.ZipFile(io.BytesIO(made(table, "sas"))) as archive:
        cells = list(csv.DictReader(io.StringIO(archive.read("data.csv").decode())))
        program = archive.read("data.sas").decode()
    informats = dict(line.split(" : ") for line in map(str.strip, program.splitlines()) if " : " in line)
    assert {name for name, informat in informats.items() if informat != "best32."} == {"data", "text", "long"}
    for name in set(informats) - {"data", "text", "long"}:
        assert all(float(row[name]) is not None for row in cells if row[name])
        assert all(len(row[name]) <= 32 for row in cells), "best32. would read a part of the number"
    for name in {"smallint", "fixed_18", *DECIMALS}:
        expected = [None if value is None else float(value) for value in table[name].to_pylist()]
        assert [float(row[name]) if row[name] else None for row in cells] == expected
    assert [int(row["flag"]) if row["flag"] else None for row in cells] == table["flag"].to_pylist()
    for name, informat in informats.items():
        if informat != "best32.":
            room = int(informat.removeprefix("$char").removesuffix("."))
            assert all(len(row[name].encode()) <= room for row in cells)
    assert [row["data"] for row in cells] == [(value or b"").hex() for value in table["data"].to_pylist()]
