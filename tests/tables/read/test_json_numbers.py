"""Numbers of JSON, in all forms of it: what a double does not hold is told with its row, what none holds is refused."""

import json
import zlib
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.model.errors import InvalidInputError
from app.tables.read import json_document, json_lines
from app.tables.read.read_request import FileTable
from tests.tables.read.reading import opened, table_of

METADATA = {
    "datasetJSONCreationDateTime": "2026-11-21T08:30:00",
    "datasetJSONVersion": "1.1.0",
    "itemGroupOID": "IG.X",
    "name": "X",
    "label": "X",
    "columns": [{"itemOID": name, "name": name, "label": name, "dataType": "double"} for name in "ab"],
}


def objects(rows: list[tuple[str, str]]) -> list[str]:
    return [f'{{"a": {a}, "b": {b}}}' for a, b in rows]


def lists(rows: list[tuple[str, str]]) -> list[str]:
    return [f"[{a}, {b}]" for a, b in rows]


def dataset_ndjson(rows: list[tuple[str, str]]) -> bytes:
    return "\n".join([json.dumps(METADATA), *lists(rows), ""]).encode()


FORMS: dict[str, Callable[[list[tuple[str, str]]], bytes]] = {
    "x.ndjson": lambda rows: "\n".join([*objects(rows), ""]).encode(),
    "x.json": lambda rows: f"[{', '.join(objects(rows))}]".encode(),
    "dataset.json": lambda rows: f'{json.dumps(METADATA)[:-1]}, "rows": [{",".join(lists(rows))}]}}'.encode(),
    "dataset.ndjson": dataset_ndjson,
    "x.dsjc": lambda rows: zlib.compress(dataset_ndjson(rows)),
}
FORM = pytest.mark.parametrize("form", FORMS)


def read(form: str, rows: list[tuple[str, str]]) -> FileTable:
    return opened(FORMS[form](rows), form)


def is_kept(number: str) -> bool:
    """Tell whether the shortest digits of the nearest double are this number."""
    return number == "null" or Fraction(repr(float(number))) == Fraction(number)


DIGITS = st.text("0123456789", min_size=1, max_size=24)
NUMBERS = st.one_of(
    st.just("null"),
    st.floats(allow_nan=False, allow_infinity=False).map(json.dumps),
    st.builds(lambda whole, part: f"{int(whole[:15])}.{part}", DIGITS, DIGITS),
    st.builds(lambda whole, power: f"-{int(whole)}e{power}", DIGITS, st.integers(-360, 250)),
    st.sampled_from(
        ["9007199254740993.0", "9007199254740992.0", "1e-400", "0e-400", "-1E-0999", "0.10000000000000000"]
    ),
)


@FORM
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(rows=st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=12), piece=st.integers(30, 200))
def test_the_first_number_that_a_double_changes_is_told(
    monkeypatch: pytest.MonkeyPatch, form: str, rows: list[tuple[str, str]], piece: int
) -> None:
    monkeypatch.setattr(json_document, "BLOCK_BYTES", piece)
    monkeypatch.setattr(json_lines, "BLOCK_BYTES", piece)
    monkeypatch.setattr(json_lines, "ROWS_A_BLOCK", 1)
    reading = read(form, rows)
    changed = {
        name: next((number for number, row in enumerate(rows, 1) if not is_kept(row[at])), None)
        for at, name in enumerate("ab")
    }
    told = {remark.column: remark.row for remark in reading.remarks if "more digits" in remark.why}
    assert told == {name: row for name, row in changed.items() if row is not None}
    values = [tuple(row) for row in zip(*table_of(reading).to_pydict().values(), strict=True)]
    assert values == [tuple(None if each == "null" else float(each) for each in row) for row in rows]


@FORM
def test_digits_in_texts_are_no_numbers(form: str) -> None:
    names = {"a": "1, 1.2.3.4.5.6.7.8.9.0.1, 9007199254740993.0, [1e-400]", "b": '\\"a\\": 9007199254740993.0 '}
    rows = [(f'"{names["a"]}"', f'"{names["b"]}"')]
    data = FORMS[form](rows)
    if form == "x.dsjc":
        data = zlib.decompress(data)
    reading = opened(data.replace(b'"dataType": "double"', b'"dataType": "string"'), form.replace("dsjc", "ndjson"))
    assert table_of(reading).num_rows == 1
    assert reading.remarks == ()


@FORM
@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("1e400", "the number 1e400 is beyond the range of doubles"),
        ("-" + "1" * 400, "the number -1{39} is beyond the range of doubles"),
        ("NaN", "not JSON"),
        ('"\\ud800"', "not JSON: no .*low surrogate"),
        ('"\t"', "not JSON: unexpected control character"),
    ],
)
def test_a_row_that_is_no_json_is_told_with_its_number(form: str, wrong: str, why: str) -> None:
    rows = [(str(number), "null") for number in range(2000)]
    rows[1233] = ("1", wrong)
    with pytest.raises(InvalidInputError, match=f"row 1234: {why}"):
        table_of(read(form, rows))
