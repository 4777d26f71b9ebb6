"""Documents whose rows are read piece by piece, however the pieces fall."""

import json
from io import BytesIO
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.model.errors import InvalidInputError
from app.tables.read import json_document
from app.tables.read.json_document import Document
from app.tables.read.read_request import MOST_COLUMNS

TRICKY = st.text(st.sampled_from('[]{},:"\\ \n' + "rows" + "é😀"), max_size=8)
CELLS = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-1, 1) | TRICKY
ROWS = st.lists(st.lists(CELLS, max_size=4), max_size=12)
OTHERS = st.dictionaries(
    TRICKY.filter(lambda name: name != "rows"),
    TRICKY | st.lists(TRICKY, max_size=3) | st.just({"rows": [[1]]}),
    max_size=4,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ROWS, OTHERS, OTHERS, st.integers(1, 40), st.sampled_from([None, 1]), st.booleans())
def test_rows_are_what_they_are_wherever_they_stand(
    monkeypatch: pytest.MonkeyPatch,
    rows: list[list[Any]],
    before: dict[str, Any],
    behind: dict[str, Any],
    piece: int,
    indent: int | None,
    ascii_only: bool,
) -> None:
    monkeypatch.setattr(json_document, "BLOCK_BYTES", piece)
    behind = {name: value for name, value in behind.items() if name not in before}
    text = json.dumps({**before, "rows": rows, **behind}, indent=indent, ensure_ascii=ascii_only)
    document = Document(BytesIO(text.encode()))
    assert document.metadata == {**before, "rows": [], **behind}
    for _ in range(2):
        assert [row for block in document.rows() for row in block] == rows


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ROWS.filter(bool), OTHERS, st.integers(1, 40), st.data())
def test_a_document_that_is_cut_off_is_refused(
    monkeypatch: pytest.MonkeyPatch, rows: list[list[Any]], others: dict[str, Any], piece: int, data: st.DataObject
) -> None:
    monkeypatch.setattr(json_document, "BLOCK_BYTES", piece)
    text = json.dumps({**others, "rows": rows}).encode()
    with pytest.raises(InvalidInputError):
        Document(BytesIO(text[: data.draw(st.integers(0, len(text) - 1))]))


@pytest.mark.parametrize(
    "text", ['{"rows": [[1] [2]]}', '{"rows": [1, 2]}', '{"rows": [[1],, [2]]}', '{"rows": [[1]]} x']
)
def test_what_is_no_document_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError):
        Document(BytesIO(text.encode()))


def test_a_document_may_be_metadata_alone() -> None:
    document = Document(BytesIO(b'{"columns": ["rows"]}'))
    assert (document.metadata, list(document.rows())) == ({"columns": ["rows"]}, [])


def rows_of(rows: bytes) -> list[list[Any]]:
    document = Document(BytesIO(b'{"rows": [' + rows + b"]}"))
    return [row for block in document.rows() for row in block]


@pytest.mark.parametrize("value", [b'"a"', b'"]"', b"1"])
def test_a_row_has_no_more_values_than_there_may_be_columns(value: bytes) -> None:
    row = b"[" + b",".join([value] * MOST_COLUMNS) + b"]"
    assert [len(row) for row in rows_of(b"[]," + row)] == [0, MOST_COLUMNS]
    with pytest.raises(InvalidInputError, match="row 2: it has 65,535 values; at most 65,534 are read"):
        rows_of(b"[]," + row[:-1] + b"," + value + b"]")
    with pytest.raises(InvalidInputError, match="row 1: it has 1,500,000 values"):
        rows_of(b"[" + b",".join([value] * 1_500_000) + b"]")


@pytest.mark.parametrize("text", [']"' * 1_500_000, "\\" * 3_000_000, "],[" * 1_500_000])
def test_a_text_may_be_longer_than_a_piece(text: str) -> None:
    assert rows_of(json.dumps([text]).encode()) == [[text]]
