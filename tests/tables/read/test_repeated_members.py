"""JSON objects with a member twice are refused; before, the first value was lost without a word."""

from io import BytesIO

import pytest

from app.model.errors import InvalidInputError
from app.tables.read import file_formats
from app.tables.read.read_request import ReadOptions
from tests.tables.read.reading import opened, table_of


@pytest.mark.parametrize(
    ("data", "row"),
    [
        (b'{"A":1}\n{"A":1,"A":2}\n', 2),
        (b'{"A" :1,"A":2}\n', 1),
        (b'{"B":":","A":"12:30"}\n{"A":"a\\":","A":"1:2"}\n', 2),
        (b'[{"A":1},{"A":1}, {"A":1,"\\u0041":2}]', 3),
    ],
)
def test_a_member_twice_is_refused_with_its_row(data: bytes, row: int) -> None:
    with pytest.raises(InvalidInputError, match=f"row {row}.*the member 'A' twice"):
        opened(data)


@pytest.mark.parametrize("data", [b'{"A":":\\":","B" : "1:2"}\n', b'[{"A":":\\":","B" : "1:2"}]'])
def test_colons_in_texts_and_blanks_before_colons_are_read(data: bytes) -> None:
    assert table_of(opened(data)).to_pylist() == [{"A": ':":', "B": "1:2"}]


METADATA = b'"datasetJSONVersion":"1.1.0","name":"X","columns":[{"name":"A","dataType":"integer"%s}]'


@pytest.mark.parametrize("end", [b',"rows":[[1]]}', b"}\n[1]\n"])
def test_metadata_with_a_member_twice_are_refused(end: bytes) -> None:
    assert table_of(opened(b"{" + METADATA % b"" + end)).num_rows == 1
    with pytest.raises(InvalidInputError, match="its metadata have the member 'dataType' twice"):
        opened(b"{" + METADATA % b',"dataType":"string"' + end)


@pytest.mark.parametrize("end", [b',"rows":[[1]]}', b"}\n[1]\n"])
def test_a_label_that_is_the_name_is_none(end: bytes) -> None:
    """Dataset-JSON requires labels, so a variable without one is written with its name."""
    named, labelled = (opened(b"{" + METADATA % b',"label":"%s"' % label + end) for label in (b"A", b"Age"))
    assert b"sas.label" not in (named.schema.field("A").metadata or {})
    assert labelled.schema.field("A").metadata[b"sas.label"] == b"Age"


def test_a_csv_of_a_header_without_its_line_end_gives_a_warning() -> None:
    (remark,) = opened(b"A,B", "x.csv").remarks
    assert (remark.why[:28], remark.row) == ("the last line has no line en", None)
    file = BytesIO(b"A,B\r\n")
    assert file_formats.read(file, "csv", ReadOptions()).remarks == ()
