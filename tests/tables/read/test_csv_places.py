"""Errors of CSV count alike: the first row of data is row 1, and a NUL is refused with its row and column."""

import codecs

import pytest

from app.model.errors import InvalidInputError
from app.tables.read import csv_reader, text_charsets
from tests.tables.read.reading import defined, opened, sent, table_of

LAYOUTS = {
    "plain": (b"a,b\n1,2\n1,2\n", True),
    "CR LF": (b"a,b\r\n1,2\r\n1,2\r\n", True),
    "CR": (b"a,b\r1,2\r1,2\r", True),
    "blank lines": (b"\n\na,b\n\n1,2\n\n\n1,2\n\n", True),
    "a line end in quotes": (b'a,b\n"1\n1",2\n1,2\n', True),
    "no row of names": (b"1,2\n1,2\n", False),
    "blank lines, no row of names": (b"\n1,2\n\n1,2\n", False),
    "a byte order mark": (codecs.BOM_UTF8 + b"a,b\n1,2\n1,2\n", True),
}
"""Files of two rows, to which a wrong one is added; and whether they have a row of names."""

WRONG = {
    b"3\n": "it has 1 cell, but the (row of names|first row) has 2",
    b"3,4,5\n": "it has 3 cells, but the (row of names|first row) has 2",
    b'3,"4\n': "the quote that opens at byte [0-9]+ is never closed",
    b"3,4\0\n": "column (b|VAR2) has a NUL",
}


def refused(data: bytes, name: str = "x.csv", **options: str) -> str:
    with pytest.raises(InvalidInputError) as error:
        table_of(opened(data, name, **options))
    return str(error.value)


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_error_counts_rows_of_data_from_1(layout: str, wrong: bytes) -> None:
    begin, header = LAYOUTS[layout]
    with pytest.raises(InvalidInputError, match=f"^row 3: {WRONG[wrong]}"):
        table_of(opened(begin + wrong, "x.csv", delimiter=",", header=header))


@pytest.mark.parametrize("wrong", [b"3,4\n", b'"3\n', b"3\0\n"])
@pytest.mark.parametrize("begin", [b"a\n1\n\n", b"\n\na\n1\n\n", b"a\r\n1\r\n\r\n", b'a\n"1"\n\n'])
def test_a_blank_line_is_a_row_of_one_column(begin: bytes, wrong: bytes) -> None:
    assert refused(begin + wrong, delimiter=",").startswith("row 3: ")


@pytest.mark.parametrize("wrong", WRONG)
def test_rows_of_later_blocks_are_counted_from_the_first(wrong: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_reader, "BLOCK_BYTES", 1 << 10)
    monkeypatch.setattr(csv_reader, "ROWS_A_BLOCK", 1)
    assert refused(b"a,b\n" + b"1,2\n" * 5000 + wrong, delimiter=",").startswith("row 5001: ")


def test_a_row_that_is_too_long_names_the_rows_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_reader, "BLOCK_BYTES", 1 << 10)
    monkeypatch.setattr(csv_reader, "ROWS_A_BLOCK", 1)
    said = refused(b"a,b\n" + b"1,2\n" * 256 + b"3," + b"x" * 3000 + b"\n")
    assert said == "a row after row 256 is longer than 1,024 bytes"


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"a,b\nx,y\nx\0y,z\n", "row 2: column a has a NUL"),
        (b"a,b\n1,2\n3,\0\n", "row 2: column b has a NUL"),
        (b"a,b\n1,2\n3,4\0005\n", "row 2: column b has a NUL"),
        (b'a,b\n"x\0",y\nz,\0\n', "row 1: column a has a NUL"),
        (b"a,b\nz,\0\n\0,y\n", "row 1: column b has a NUL"),
        (b"a,b\0c\n1,2\n", "the row of names: column 2 has a NUL"),
        (b"a,b\n1,2\n" + bytes(20), r"row 2: it has 1 cell, but the row of names has 2; it has a NUL"),
        ("a,b\n1,2\n".encode("utf-16-le"), "the row of names: column 1 has a NUL .* state its encoding"),
    ],
)
@pytest.mark.parametrize("late", [False, True])
def test_a_nul_is_refused_with_its_place(data: bytes, place: str, late: bool) -> None:
    if late:
        # Behind what is looked at to recognise a format.
        names, _, rest = data.partition(b"\n")
        data = names + b"\n" + b"p,q\n" * 300_000 + rest
        place = place.replace("row 1:", "row 300001:").replace("row 2:", "row 300002:")
    with pytest.raises(InvalidInputError, match=place):
        table_of(opened(data, "x.csv", delimiter=","))


def test_utf_16_without_a_mark_is_read_when_it_is_stated() -> None:
    data = "a,b\n1,é\n".encode("utf-16-le")
    assert table_of(opened(data, "x.csv", encoding="utf-16-le")).to_pydict() == {"a": [1.0], "b": ["é"]}


def test_a_nul_in_json_is_a_character_that_is_kept() -> None:
    table = sent(defined(opened(b'{"a":"x\\u0000y"}\n{"a":"z\\u0000"}\n{"a":"\\u0000"}\n', "x.ndjson")))
    assert table["a"].to_pylist() == ["x\0y", "z\0", "\0"]


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
@pytest.mark.parametrize(
    ("encoding", "good", "bad"),
    [("utf-8", "é,1\n", b"\xe9,2\n"), ("cp1252", "é,1\n", b"\x81,2\n"), ("utf-16-le", "é,1\n", b"\x00\xdc,\0")],
)
def test_the_byte_that_is_not_in_the_character_set_is_counted_from_the_beginning(
    encoding: str, good: str, bad: bytes, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_charsets, "_PIECE", piece)
    begin = (good * 5).encode(encoding)
    said = refused(begin + bad, encoding=encoding)
    assert said == f"byte {len(begin)} is not in character set {encoding}; state the encoding of the file"


def test_a_file_with_a_mark_is_checked_too() -> None:
    data = codecs.BOM_UTF8 + b"a,b\n1,2\n" * 300_000 + b"\xff,1\n"
    assert refused(data) == f"byte {len(data) - 4:,} is not in character set utf-8; state the encoding of the file"
