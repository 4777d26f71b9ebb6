"""`profile`, `send --catalog`, `send --define` and `get --labels`, against a real gateway on a real broker."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.cells import cell_len

from app.testing.waiting import until
from tests.cli.conftest import Run
from tests.support.define_xml import define_xml
from tests.support.readstat import Rows, Written, write_sas7bcat, write_sas7bdat
from tests.support.terminal import InTerminal

PROGRAM = Path(sys.executable).parent / "attachment-gateway"


@pytest.fixture
def pupils(in_folder: Path) -> Path:
    """A data set, its catalog and its define.xml."""
    write_sas7bcat(in_folder / "formats.sas7bcat", {"KINDF": {1.0: "good", 2.0: "very good"}})
    (in_folder / "define.xml").write_text(define_xml())
    variables = [Written("NAME", 8), Written("SEX", 1), Written("KIND", format="KINDF.")]
    rows: Rows = [("Ann", "F", 1.0), ("Bob", "M", ".A"), ("Cy", "F", 2.0)]
    return write_sas7bdat(in_folder / "pupils.sas7bdat", variables, rows, table="PUPILS")


def test_a_sas7bdat_is_known_by_its_content_and_goes_out_with_its_labels(run: Run, url: str, pupils: Path) -> None:
    beside = ("--catalog", "formats.sas7bcat", "--define", "define.xml")
    shown = run("send", pupils.rename("pupils.dat"), *beside, "--to", "loop", "--dry-run")
    assert shown.code == 0, shown.err
    assert shown.out.splitlines()[0].startswith("WORK.PUPILS (Pupils of a class) of sas7bdat: 3 observations")
    assert "value labels: $SEX. 2, KINDF. 2" in shown.out
    assert "WORK.FORMATS (Value labels) of catalog: 4 observations" in shown.out
    sent = run("send", "pupils.dat", *beside, "--as", "SCHOOL.LABELLED", "--to", "loop", "--wait")
    assert sent.code == 0, sent.err

    def look() -> Any:
        listed = run("ls", "--state", "finished", "--json").out.splitlines()
        found = {item["name"]: item for item in map(json.loads, listed) if item["qualifier_1"] == "SCHOOL"}
        return found if len(found) == 2 else None

    came = until(look)
    identifier = came["LABELLED"]["id"]
    assert run("get", identifier, "--labels", "-o", "came.csv").code == 0
    assert Path("came.csv").read_text() == "NAME,SEX,KIND\nAnn,Female,good\nBob,Male,.A\nCy,Female,very good\n"
    refused = run("get", came["FORMATS"]["id"], "--labels", "-o", "formats.csv")
    assert refused.code == 1
    assert "no value labels" in refused.err
    of_gateway = json.loads(run("profile", identifier, "--json").out)
    assert [each["missing_values"] for each in of_gateway["variables"]] == [{}, {}, {".A": 1}]
    assert run("profile", "no-such").code == 1


def test_the_profile_of_a_file_needs_no_gateway(run: Run, pupils: Path) -> None:
    shown = run("profile", pupils)
    assert shown.code == 0, shown.err
    lines = shown.out.splitlines()
    assert lines[0] == "WORK.PUPILS: 3 observations"
    assert lines[4].split() == [
        "3",
        "KIND",
        "numeric",
        "2",
        ".A",
        "1",
        "2",
        "1",
        "to",
        "2",
        "1.5",
        "1",
        "(1),",
        "2",
        "(1)",
    ]
    told = json.loads(run("profile", pupils, "--json", "--top", "1").out)
    assert told["variables"][1]["frequent"] == [{"value": "F", "count": 2}]
    assert (told["member"], told["observations"]) == ("PUPILS", 3)


@pytest.mark.process
@pytest.mark.parametrize("columns", [80, 60])
def test_a_profile_has_a_line_for_each_variable(pupils: Path, columns: int) -> None:
    with InTerminal([PROGRAM, "profile", pupils], columns, os.environ) as terminal:
        lines = [line for line in terminal.end() if line]
    assert [line.split()[1] for line in lines[1:]] == ["Variable", "NAME", "SEX", "KIND"]
    assert max(map(cell_len, lines)) <= columns


def test_a_profile_of_another_file_is_refused_with_a_sentence(run: Run, in_folder: Path) -> None:
    Path("picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    assert "unknown file format" in run("profile", "picture.png").err
    pq.write_table(pa.table({"A": [[1, 2]]}), "nested.parquet")
    wrong = run("profile", "nested.parquet")
    assert (wrong.code, "nested.parquet: A: SAS has no equivalent of the type list" in wrong.err) == (1, True)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("missing.sas7bdat", "No such file or directory"),
        ("folder/missing", "No such file or directory"),
        (".", "Is a directory"),
    ],
)
def test_a_file_that_cannot_be_read_is_told(run: Run, in_folder: Path, name: str, why: str) -> None:
    told = run("profile", name)
    assert (told.code, told.err) == (1, f"error: cannot read {name}: {why}\n")


def test_what_describes_data_sets_needs_one(run: Run, url: str, in_folder: Path) -> None:
    Path("note.txt").write_text("text")
    refused = run("send", "note.txt", "--as", "text-file", "--define", "note.txt", "--to", "loop")
    assert refused.code == 1
    assert "--define describes data sets, not a text-file" in refused.err
    Path("define.xml").write_text(define_xml())
    said = run("send", "note.txt", "--define", "define.xml", "--to", "loop", "--dry-run")
    assert said.code == 0, said.err
    assert said.out.startswith("WORK.NOTE of csv"), "a define.xml states that the file is a data set"
