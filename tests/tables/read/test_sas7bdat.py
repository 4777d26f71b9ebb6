"""SAS's own files: sas7bdat and sas7bcat."""

import io
import random
from collections.abc import Sequence
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path

import polars_readstat
import pyarrow as pa
import pytest

from app.dataset.value_labels import value_text
from app.model.errors import InvalidInputError
from app.tables.read import file_formats, label_catalogs, sas7bdat
from app.tables.read.read_request import ReadOptions
from tests.support.readstat import Formats, Value, Written, write_sas7bcat, write_sas7bdat

VARIABLES = (
    Written("NUM", label="A number", format="BEST12."),
    Written("DAY", label="A day", format="DATE9."),
    Written("STAMP", format="DATETIME20."),
    Written("CLOCK", format="TIME8."),
    Written("CITY", 12, "A text é", "$CHAR12."),
    Written("SEX", 1, format="$SEX."),
)
ROWS: Sequence[Sequence[Value]] = (
    (1.5, 0.0, 0.0, 0.0, "Åsa", "M"),
    (".A", None, None, 86_399.0, "", "F"),
    ("._", 21_000.0, 1.25, ".Z", " lead", "M"),
    (None, -1.0, 2e9, None, "x", ""),
)


@pytest.fixture
def pupils(tmp_path: Path) -> Path:
    return write_sas7bdat(tmp_path / "pupils.sas7bdat", VARIABLES, ROWS, table="PUPILS", label="Pupils")


def read(data: bytes, encoding: str | None = None) -> pa.Table:
    reading = file_formats.read(io.BytesIO(data), "sas7bdat", ReadOptions(encoding=encoding))
    return pa.Table.from_batches(reading.batches(), reading.schema)


def test_it_is_known_by_its_content(pupils: Path) -> None:
    with pupils.open("rb") as file:
        assert file_formats.format_of(file, "pupils.csv", "text/csv") == "sas7bdat"


def test_values_have_the_types_of_their_formats_and_special_missing_values_are_kept(pupils: Path) -> None:
    assert read(pupils.read_bytes()).to_pydict() == {
        "NUM": [1.5, None, None, None],
        "NUM__missing": [None, ".A", "._", None],
        "DAY": [date(1960, 1, 1), None, date(2017, 6, 30), date(1959, 12, 31)],
        "STAMP": [datetime(1960, 1, 1), None, datetime(1960, 1, 1, 0, 0, 1, 250_000), datetime(2023, 5, 18, 3, 33, 20)],
        "CLOCK": [datetime(1, 1, 1).time(), datetime(1, 1, 1, 23, 59, 59).time(), None, None],
        "CLOCK__missing": [None, None, ".Z", None],
        "CITY": ["Åsa", "", " lead", "x"],
        "SEX": ["M", "F", "M", ""],
    }


def test_labels_formats_lengths_and_names_are_kept(pupils: Path) -> None:
    schema = read(pupils.read_bytes()).schema
    said = {
        field.name: tuple(
            (field.metadata or {}).get(f"sas.{key}".encode(), b"").decode() for key in ("label", "format", "length")
        )
        for field in schema
        if not field.name.endswith("__missing")
    }
    assert said == {
        "NUM": ("A number", "BEST12.", "8"),
        "DAY": ("A day", "DATE9.", "8"),
        "STAMP": ("", "DATETIME20.", "8"),
        "CLOCK": ("", "TIME8.", "8"),
        "CITY": ("A text é", "$CHAR12.", "12"),
        "SEX": ("", "$SEX.", "1"),
    }
    assert {key: schema.metadata[f"sas.{key}".encode()] for key in ("member", "label", "encoding")} == {
        "member": b"PUPILS",
        "label": b"Pupils",
        "encoding": b"utf-8",
    }


@pytest.mark.parametrize(
    ("chunk", "most_bytes", "batches_of"),
    [(7, 1 << 20, [14] * 7 + [3]), (20, 1 << 20, [20] * 5 + [1]), (20, 5 * 45, [5] * 20 + [1])],
)
def test_rows_are_read_some_at_a_time(
    chunk: int, most_bytes: int, batches_of: list[int], pupils: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The date that is no whole day comes in the last chunk, and decides on the type of all rows."""
    rows: list[Sequence[Value]] = [(float(n), float(n), float(n), float(n), f"text {n}", "M") for n in range(100)]
    rows.append((".B", 1.5, None, None, "", ""))
    write_sas7bdat(pupils, VARIABLES, rows)
    monkeypatch.setattr(sas7bdat, "CELLS_A_CHUNK", chunk * len(VARIABLES))
    monkeypatch.setattr(sas7bdat, "CELLS_A_BATCH", 14 * len(VARIABLES))
    monkeypatch.setattr(sas7bdat, "MOST_BYTES", most_bytes)
    reading = file_formats.read(io.BytesIO(pupils.read_bytes()), "sas7bdat", ReadOptions())
    batches = list(reading.batches())
    assert [batch.num_rows for batch in batches] == batches_of
    table = pa.Table.from_batches(batches, reading.schema)
    assert table["NUM"].to_pylist() == [*map(float, range(100)), None]
    assert table["DAY"].to_pylist() == [*map(float, range(100)), 1.5]
    assert table["NUM__missing"].to_pylist() == [None] * 100 + [".B"]
    assert reading.schema.field("DAY").metadata[b"sas.inexact"] == b"observation 101: 1.5 is not an exact date"
    assert pa.Table.from_batches(reading.batches(), reading.schema) == table, "rows can be read again"


def test_a_file_of_no_rows(pupils: Path) -> None:
    write_sas7bdat(pupils, VARIABLES, [])
    assert read(pupils.read_bytes()).num_rows == 0


@pytest.mark.parametrize("kept", [33, 200, 4096, 5000])
def test_a_file_that_is_cut_off_is_refused(pupils: Path, kept: int) -> None:
    with pytest.raises(InvalidInputError, match="sas7bdat"):
        read(pupils.read_bytes()[:kept])


def test_a_negative_number_of_observations_is_refused(pupils: Path) -> None:
    data, count = pupils.read_bytes(), len(ROWS).to_bytes(8, "little")
    said = []
    for at in range(4096, len(data) - 8, 4):
        if data[at : at + 8] == count:
            with suppress(InvalidInputError):
                read(data[:at] + b"\xff" * 8 + data[at + 8 :])
                continue
            said.append(at)
    assert said, "one of these numbers is the number of observations"


def test_damaged_files_are_tables_or_errors_of_ours(pupils: Path) -> None:
    data = pupils.read_bytes()
    dice = random.Random(1)
    refused = 0
    for _ in range(200):
        damaged = bytearray(data)
        for _ in range(dice.randint(1, 4)):
            # Most of a small file is room: the header and the descriptions at the end of the page matter.
            damaged[
                dice.choice([dice.randrange(32, 400), dice.randrange(4096, 4400), dice.randrange(6500, len(data))])
            ] = dice.randrange(256)
        try:
            read(bytes(damaged))
        except InvalidInputError:
            refused += 1
    assert refused


def test_texts_of_another_character_set_are_read_when_it_is_given(pupils: Path) -> None:
    data = bytearray(pupils.read_bytes())
    data[70] = 62  # the header's character set: Windows Latin 1, but the texts are UTF-8
    assert read(bytes(data))["CITY"][0].as_py() == "Ã…sa"
    assert read(bytes(data), encoding="utf-8")["CITY"][0].as_py() == "Åsa"
    with pytest.raises(InvalidInputError, match="unknown character set 'no-such'"):
        read(bytes(data), encoding="no-such")


FORMATS: Formats = {"AGEF": {1.0: "one", 2.5: "two and a half"}, "$SEX": {"M": "Male", "F": "Female"}}


def test_a_catalog_has_value_labels_by_format(tmp_path: Path) -> None:
    path = write_sas7bcat(tmp_path / "formats.sas7bcat", FORMATS)
    with path.open("rb") as file:
        assert label_catalogs.read_sas7bcat(file)[0] == {
            "AGEF": {"1": "one", "2.5": "two and a half"},
            "$SEX": {"M": "Male", "F": "Female"},
        }


def test_a_catalog_is_what_polars_readstat_reads(tmp_path: Path) -> None:
    path = write_sas7bcat(tmp_path / "formats.sas7bcat", FORMATS)
    theirs = polars_readstat.read_sas7bcat(str(path))
    with path.open("rb") as file:
        assert label_catalogs.read_sas7bcat(file)[0] == {
            name: {value_text(value): label for value, label in labels.items()} for name, labels in theirs.items()
        }


def test_a_catalog_keeps_the_labels_of_special_missing_values(tmp_path: Path) -> None:
    """ReadStat reads them but does not write them, so the number -3 in the file becomes `.B`."""
    data = write_sas7bcat(tmp_path / "f.sas7bcat", {"AGEF": {3.0: "refused"}}).read_bytes()
    number = bytes.fromhex("c008000000000000")
    assert data.count(number) == 1
    tagged = data.replace(number, bytes.fromhex("000003ffffffffff"))
    assert label_catalogs.read_sas7bcat(io.BytesIO(tagged))[0] == {"AGEF": {".B": "refused"}}


def test_damaged_catalogs_are_refused_with_errors_of_ours(tmp_path: Path) -> None:
    data = write_sas7bcat(tmp_path / "formats.sas7bcat", FORMATS).read_bytes()
    dice = random.Random(2)
    for kept in (32, 100, 4096, len(data) // 2):
        with pytest.raises(InvalidInputError):
            label_catalogs.read(io.BytesIO(data[:kept]), "formats.sas7bcat", "")
    for _ in range(150):
        damaged = bytearray(data)
        damaged[dice.randrange(32, len(data))] = dice.randrange(256)
        try:
            label_catalogs.read(io.BytesIO(damaged), "formats.sas7bcat", "")
        except InvalidInputError:
            continue


def test_a_catalog_may_be_a_data_set_of_proc_format() -> None:
    data = (
        b"FMTNAME,START,END,LABEL,TYPE,HLO\r\nAGEF,           1,           1,one,N,\r\nAGEF,B,B,refused,N,\r\n"
        b"AGEF,5,9,many,N,\r\nAGEF,**OTHER**,**OTHER**,?,N,O\r\nSEX,M,M,Male,C,\r\n"
    )
    assert label_catalogs.read(io.BytesIO(data), "cntlout.csv", "text/csv")[0] == {
        "AGEF": {"1": "one", ".B": "refused"},
        "$SEX": {"M": "Male"},
    }


def test_another_file_is_no_catalog() -> None:
    with pytest.raises(InvalidInputError, match="neither a sas7bcat nor a data set with FMTNAME, START and LABEL"):
        label_catalogs.read(io.BytesIO(b"A,B\r\n1,2\r\n"), "x.csv", "text/csv")
