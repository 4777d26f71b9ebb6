"""The character set of transport files, and what fills their last record."""

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.model.errors import InvalidInputError
from app.tables.read import file_formats
from app.tables.read.defining import Definition, define
from app.tables.read.read_request import DataSetOverrides, DataSetTarget, FileTable, ReadOptions
from app.tables.xpt.xpt_layouts import RECORD, Version
from tests.tables.xpt.tables import VERSIONS, character, file_of, numeric, table, table_of

VECTORS = Path("tests/vectors/sas_files")
PLACES = {"label": (b"LABEL.OF", 40), "data_set": (b"LABEL.SET", 40), "value": (b"VALUE.OF", 10)}
versions = pytest.mark.parametrize("version", VERSIONS)


def file_with(version: Version = 5, **said: bytes) -> bytes:
    """A file in which these bytes stand in places of texts, padded to the size of what stood there."""
    fields = [character("C", 12, label="LABEL.OF.C".ljust(40, "."))]
    data = file_of(table(fields, [["VALUE.OF.C"]], member="ONE", label="LABEL.SET".ljust(40, ".")), version)
    for place, raw in said.items():
        start, size = PLACES[place]
        at = data.index(start)
        data = data[:at] + raw.ljust(size, b" ") + data[at + size :]
    return data


def read(data: bytes, encoding: str | None = None) -> tuple[FileTable, Definition]:
    reading = file_formats.read(io.BytesIO(data), "xpt", ReadOptions(encoding=encoding))
    return reading, define(reading, DataSetOverrides(), DataSetTarget())


def label(reading: FileTable) -> str:
    return str((reading.schema.field(0).metadata or {}).get(b"sas.label", b""), "utf-8")


def whys(found: Definition) -> str:
    return "\n".join(fault.why for fault in found.warnings)


@versions
@pytest.mark.parametrize("place", ["label", "data_set", "value"])
def test_each_text_is_evidence_against_utf_8(place: str, version: Version) -> None:
    reading, found = read(file_with(version, **{place: "Höhe".encode("latin-1")}))
    values = [cell for batch in reading.batches() for cell in batch.column(0).to_pylist()]
    assert "Höhe" in {label(reading), found.label, values[0].strip()}
    assert whys(found) == "it is not UTF-8 and was read as cp1252; state its encoding"


@versions
def test_bytes_that_windows_latin_1_lacks_make_it_latin_1(version: Version) -> None:
    reading, found = read(file_with(version, label=b"H\xf6he \x81"))
    assert label(reading) == "Höhe \x81"
    assert "was read as latin-1" in whys(found)


@versions
@pytest.mark.parametrize(
    ("good", "bad"), [("label", "data_set"), ("data_set", "label"), ("value", "label"), ("label", "value")]
)
def test_where_evidence_contradicts_itself_bytes_are_kept_and_told(good: str, bad: str, version: Version) -> None:
    reading, found = read(file_with(version, **{good: "Größe".encode(), bad: b"H\xf6he"}))
    if bad == "value":
        (batch,) = found.batches()
        assert batch.column(1).to_pylist() == [b"H\xf6he".ljust(12, b" ")]
        assert "are sent unchanged" in whys(found)
    else:
        assert r"H\xf6he" in {label(reading), found.label}
        assert "is not in character set utf-8: each byte that is not in it is written as \\xHH" in whys(found)
    assert "\N{REPLACEMENT CHARACTER}" not in label(reading) + found.label
    assert not found.errors


@versions
@pytest.mark.parametrize("begin", [b"Gr\xc3\xb6\xc3\x9fe ", b"plain "])
def test_a_label_cut_off_within_a_character_is_utf_8(begin: bytes, version: Version) -> None:
    cut = begin.ljust(39, b"a") + b"\xc3"
    reading, found = read(file_with(version, label=cut, value="Größe".encode()))
    assert label(reading) == cut[:-1].decode() + r"\xc3"
    assert "is not in character set utf-8" in whys(found)
    _, stated = read(file_with(version, label=cut), encoding="cp1252")
    assert stated.variables[0].label.endswith("aÃ")
    assert not stated.warnings


def test_the_stated_character_set_is_used_without_a_guess() -> None:
    reading, found = read(file_with(label="中文".encode("cp950")), encoding="cp950")
    assert label(reading) == "中文"
    assert not found.warnings


def test_the_file_with_labels_in_latin_1() -> None:
    reading, found = read((VECTORS / "latin1_label_ascii_values.xpt").read_bytes())
    assert (label(reading), found.label) == ("Höhe über Null", "Größe")
    assert "was read as cp1252" in whys(found)


# --- padding ------------------------------------------------------------------------------------------------------


def test_the_file_whose_last_record_is_filled_with_nuls() -> None:
    reading, found = read((VECTORS / "null_filled_last_record.xpt").read_bytes())
    assert [cell for batch in reading.batches() for cell in batch.column(0).to_pylist()] == ["a" * 100, "b" * 100]
    assert not found.warnings


def padded_with_nuls(data: bytes, size: int) -> bytes:
    """The file with NULs for the blanks at its end, up to this number of bytes of observations."""
    return data[: len(data) - size] + b"\0" * size


def padding(rows: int, length: int) -> int:
    return -rows * length % RECORD


@given(st.integers(1, 30), st.integers(1, 170), st.sampled_from(VERSIONS), st.booleans())
def test_rows_of_texts_are_the_same_whatever_pads_them(
    rows: int, length: int, version: Version, is_counted: bool
) -> None:
    written = table([character("C", length)], [[f"{row}"[:length] for row in range(rows)]], member="ONE")
    options = {} if is_counted else {"rows": None}
    data = file_of(written, version, **options)
    second = file_of(table([character("D", 3)], [["abc"]], member="TWO"), version)[3 * RECORD :]
    expected = written["C"].to_pylist()
    filled = padded_with_nuls(data, padding(rows, length))
    assert table_of(filled)["C"].to_pylist() == expected
    assert table_of(filled + second, member="ONE")["C"].to_pylist() == expected
    assert table_of(filled + padded_with_nuls(second, padding(1, 3)), member="TWO")["D"].to_pylist() == ["abc"]


@pytest.mark.parametrize(
    ("values", "pad", "expected", "told"),
    [
        ([[1.0, 0.0], [1.0, 0.0]], b" ", 2, ""),
        ([[1.0] * 9 + [0.0]], b" ", 10, "8 NULs at its end are read as rows of zeros, not as padding"),
        ([[1.0, 2.0]], b"\0", 10, "64 NULs at its end are read as rows of zeros, not as padding"),
        ([[1.0], [1.0], [1.0]], b"\0", 1, "48 NULs at its end are read as padding, not as rows of zeros"),
    ],
)
def test_zeros_that_may_be_padding_are_told(values: list[list[float]], pad: bytes, expected: int, told: str) -> None:
    columns = [numeric(f"N{at}") for at in range(len(values))]
    written = table(columns, values)
    data = file_of(written, 5)
    size = padding(written.num_rows, 8 * len(values))
    reading, found = read(data[: len(data) - size] + pad * size)
    assert sum(batch.num_rows for batch in reading.batches()) == expected
    assert told in whys(found)
    assert bool(told) == bool(found.warnings)


def test_a_row_that_is_cut_off_is_still_refused() -> None:
    data = file_of(table([character("C", 100)], [["a" * 100, "b" * 100]]), 5)
    with pytest.raises(InvalidInputError, match="the last observation has"):
        read(data[:-RECORD])
