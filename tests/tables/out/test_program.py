"""The CSV with a SAS program. No SAS runs here: the program's text is compared with SAS's documentation."""

import csv
import re
import zipfile
from io import BytesIO, StringIO

import pyarrow as pa
import pytest

from app.tables.xpt.xpt_limits import UnfitTableError
from tests.support.tables import field, visits
from tests.tables.out.making import made


def unpacked(data: bytes) -> tuple[bytes, str]:
    with zipfile.ZipFile(BytesIO(data)) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["data.csv", "data.sas"]
        return archive.read("data.csv"), archive.read("data.sas").decode()


def statement(program: str, word: str) -> list[str]:
    """The lines of a statement of the DATA step."""
    found = re.search(rf"^   {word}\n(.*?)^   ;", program, re.DOTALL | re.MULTILINE)
    return [line.strip() for line in found[1].splitlines()] if found else []


def test_the_program_describes_every_variable() -> None:
    data, program = unpacked(made(visits(), "sas"))
    assert "data WORK.VISITS(label='Who came');" in program
    assert "missing _ A B C" in program
    assert "dsd dlm=',' termstr=crlf firstobs=2 truncover encoding='utf-8'" in program
    assert statement(program, "length") == [
        *["Name $24", "Age 8", "Seen 8", "Stamp 8", "Clock 8", "Stay 8"],
        "City $24",
    ]
    assert statement(program, "label") == ["Name = 'First name'", "Age = 'Age, in years'"]
    assert statement(program, "format")[1:4] == ["Age BEST5.1", "Seen DATE9.", "Stamp DATETIME22.3"]
    assert statement(program, "informat") == ["Age F."]
    assert statement(program, "input")[:2] == ["Name : $char24.", "Age : best32."]
    rows = list(csv.reader(StringIO(data.decode(), newline="")))
    assert rows[1] == ['Åsa, "the" 1st', "14", "-1", "2110869000", "0", "108001.5", "Malmö"]
    assert rows[2][1] == ".A"
    assert data.count(b"\r\n") == len(rows), "a CR LF inside of a value would end SAS's record"


def test_lengths_are_what_utf_8_needs() -> None:
    schema = pa.schema([field("C", pa.string(), length="3"), field("N", pa.float64(), length="2")])
    table = pa.table([["äöü", "a", ""], [1.0, 2.0, 3.0]], schema=schema)
    _, program = unpacked(made(table, "sas"))
    assert statement(program, "length") == ["C $6", "N 3"]


def test_no_name_and_no_label_becomes_a_statement() -> None:
    hostile = "x'; x 'rm'; *"
    schema = pa.schema(
        [
            field(hostile, pa.string(), label=hostile + "\n&m %m", format=f"X; {hostile}", informat="$8.;"),
            field("if", pa.float64()),
        ],
        {"sas.member": hostile, "sas.label": hostile},
    )
    _, program = unpacked(made(pa.table([["a"], [1.0]], schema=schema), "sas"))
    quoted = "'x''; x ''rm''; *"
    assert f"data WORK.{quoted}'n(label={quoted}');" in program
    assert statement(program, "label") == [f"{quoted}'n = {quoted} &m %m'"]
    assert statement(program, "format") == statement(program, "informat") == []
    outside = re.sub(r"'(?:[^']|'')*'", "", program)
    assert "x " not in outside
    assert "%m" not in outside


def test_no_line_end_inside_of_a_text_ends_the_record() -> None:
    table = pa.table([["a\r\r\nb", "c\r\nd", "e\nf"]], schema=pa.schema([field("C", pa.string())]))
    data, _ = unpacked(made(table, "sas"))
    assert data == b'C\r\n"a\nb"\r\n"c\nd"\r\n"e\nf"\r\n'


def test_names_that_sas_reserves_are_refused_or_changed() -> None:
    """A DATA step drops _N_ without a word, and DATA _NULL_ writes no data set."""
    schema = pa.schema([field("_N_", pa.float64()), field("x", pa.float64())], {"sas.member": "_NULL_"})
    table = pa.table([[1.0], [2.0]], schema=schema)
    with pytest.raises(UnfitTableError, match="does not fit a SAS program") as refused:
        made(table, "sas")
    assert [(misfit.column, misfit.value, misfit.becomes) for misfit in refused.value.misfits] == [
        ("", "_NULL_", "_NULL_2"),
        ("_N_", "_N_", "_N_2"),
    ]
    _, program = unpacked(made(table, "sas", rename=True))
    assert "data WORK._NULL_2;" in program
    assert statement(program, "length") == ["_N_2 8", "x 8"]
