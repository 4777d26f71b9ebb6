"""Tables of order packets in every format: decimals, bytes and truth values, which data sets of SAS lack."""

import csv
import io
import json
from decimal import Decimal

import pyarrow as pa
import pytest

from app.model.errors import InvalidInputError
from app.tables.write import FORMATS
from tests.tables.out.making import made

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


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_has_decimals_truth_values_and_texts_of_unknown_length(name: str) -> None:
    assert made(TABLE, name)


@pytest.mark.parametrize("name", ["xpt", "xpt-v5"])
def test_transport_files_have_no_bytes(name: str) -> None:
    with pytest.raises(InvalidInputError, match="type binary has no counterpart in SAS"):
        made(DATA, name)
