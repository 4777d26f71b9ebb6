"""`send` with data sets, against a real gateway on a real broker."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from app.testing.waiting import until
from tests.cli.conftest import Run

SALES = "DT,C,X\n2024-01-31,Ann,1.5\n2024-02-29,Bob,.A\n"
WANTED = ("--format", "DT=DATE9.", "--length", "C=40", "--label", "X=Amount, in EUR = net", "--missing", "tag")


@pytest.fixture
def sales(in_folder: Path) -> Path:
    path = in_folder / "sales.csv"
    path.write_text(SALES)
    return path


def test_a_csv_goes_out_as_a_data_set(run: Run, url: str, sales: Path) -> None:
    sent = run("send", "--as", "LIB.SOLD", *WANTED, sales, "--to", "loop", "--wait")
    assert sent.code == 0, sent.err

    def look() -> Any:
        listed = run("ls", "--name", "SOLD", "--state", "finished", "--json").out.splitlines()
        return json.loads(listed[0]) if listed else None

    came = until(look)
    assert run("get", came["id"], "-o", "came.parquet").code == 0
    table = pq.read_table("came.parquet")
    assert table["X__missing"].to_pylist() == [None, ".A"]
    assert [str(day) for day in table["DT"].to_pylist()] == ["2024-01-31", "2024-02-29"]
    assert table.schema.field("C").metadata[b"sas.length"] == b"40"
    assert table.schema.field("X").metadata[b"sas.label"] == b"Amount, in EUR = net"


def test_a_dry_run_is_a_table(run: Run, url: str, sales: Path) -> None:
    shown = run("send", "--as", "WORK.SALES", *WANTED, sales, "--to", "loop", "--dry-run")
    assert shown.code == 0, shown.err
    lines = shown.out.splitlines()
    assert lines[0] == "WORK.SALES of csv: 2 observations, 4 messages"
    assert lines[1].split() == ["#", "Variable", "Type", "Length", "Format", "Informat", "Label", "Column", "From"]
    assert lines[2].split() == ["1", "DT", "numeric", "8", "DATE9.", "given:", "format"]
    assert lines[3].split() == ["2", "C", "character", "40", "given:", "length"]
    assert "Amount, in EUR = net" in lines[4]
    assert lines[5] == "6 messages to loop; nothing was sent"
    told = json.loads(run("send", "--as", "data-set", sales, "--to", "loop", "--dry-run", "--json").out)
    assert told["attachments"][0]["data_set"]["member"] == "SALES"


def test_warnings_and_renamed_columns_are_shown(run: Run, url: str, in_folder: Path) -> None:
    Path("odd.csv").write_bytes("order no;Größe\n007;1\n".encode("cp1252"))
    shown = run("send", "--as", "data-set", "--names", "rename", "odd.csv", "--to", "loop", "--dry-run")
    assert shown.code == 0, shown.err
    assert "warning: it is not UTF-8" in shown.err
    assert "warning: order_no in row 1: digits with leading zeros" in shown.err
    assert "order no" in shown.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--as", "WORK.SALES", "--format", "DT"), "--format 'DT' names no column"),
        (("--as", "WORK.SALES", "--length", "C=long"), "'long' is not a number of bytes"),
        (("--as", "table"), "--as 'table' is neither a kind nor a name"),
        (("--as", "text-file", "--format", "DT=DATE9."), "a text-file has no variables"),
        (("--as", "WORK.SALES", "other.csv"), "names one data set, but there are 2 files"),
        (("--as", "WORK.SALES", "--file-format", "xls"), "choose one of: parquet, arrow"),
        (
            ("--as", "WORK.SALES", "--rename", "X=SALES TOTAL"),
            "SALES TOTAL: a name must have only letters",
        ),
        (("--as", "WORK.SALES", "--length", "C=2"), "C in row 1: the value needs more than 2 bytes"),
    ],
)
def test_mistakes_are_told_in_a_sentence(
    run: Run, url: str, sales: Path, arguments: tuple[str, ...], said: str
) -> None:
    result = run("send", *arguments, sales, "--to", "loop")
    assert result.code == 1
    assert said in result.err
    assert "Traceback" not in result.err


def test_every_error_of_a_data_set_has_a_line(run: Run, url: str, sales: Path) -> None:
    result = run("send", "--format", "DT=$5.", "--length", "C=1", sales, "--to", "loop")
    lines = result.err.splitlines()
    assert lines[0] == "error: The file cannot be sent as a data set:"
    assert [line.strip().split()[0].rstrip(":") for line in lines[1:]] == ["DT", "C"]


def test_thousands_of_columns_fit_into_the_memory_of_a_conversion(run: Run, url: str, in_folder: Path) -> None:
    names = [f"V{number}" for number in range(2000)]
    rows = [names, *([f"{row}.25"] * len(names) for row in range(200))]
    Path("wide.csv").write_text("".join(f"{','.join(cells)}\n" for cells in rows))
    shown = run("send", "wide.csv", "--as", "WORK.WIDE", "--to", "loop", "--dry-run")
    assert shown.code == 0, shown.err
    assert "200 observations" in shown.out
