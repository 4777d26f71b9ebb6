"""Data sets by the command line, in every format."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pyreadstat
import pytest

from app.cli.get_command import EXTENSIONS, choose
from app.tables.write import FORMATS
from app.testing.waiting import until
from tests.cli.conftest import Run
from tests.support.gateway import GatewayProcess
from tests.support.tables import pupils


@pytest.fixture(scope="module")
def identifier(gateway: GatewayProcess, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A data set that went out and came back."""
    path = tmp_path_factory.mktemp("sent") / "pupils.parquet"
    pq.write_table(pupils(), path)
    message = {
        "destination": "loop",
        "attachments": [{"part": "p", "kind": "data-set", "name": "PUPILS", "qualifier_1": "WORK"}],
    }
    files: dict[str, Any] = {"message": (None, json.dumps(message), "application/json"), "p": path.read_bytes()}
    gateway.client.post("/v1/messages", files=files).raise_for_status()
    found = until(lambda: gateway.listing("/v1/attachments", name="PUPILS", state="finished"))
    return str(found[0]["id"])


def test_formats_are_those_of_the_gateway() -> None:
    assert {word: known.extension for word, known in FORMATS.items()} == EXTENSIONS


@pytest.mark.parametrize(
    ("output", "word"),
    [
        ("x.parquet", "parquet"),
        ("x.PQ", "parquet"),
        ("x.csv", "csv"),
        ("x.arrow", "arrow-file"),
        ("x.feather", "arrow-file"),
        ("x.arrows", "arrow"),
        ("x.json", "json"),
        ("x.jsonl", "ndjson"),
        ("x.dsjc", "dsjc"),
        ("x.xpt", "xpt"),
        ("x.zip", "sas"),
        ("folder/without-extension", "parquet"),
        ("-", "parquet"),
        (None, "parquet"),
    ],
)
def test_the_extension_tells_the_format(output: str | None, word: str) -> None:
    assert choose(None, output, None).word == word


def test_a_folder_has_no_extension(in_folder: Path) -> None:
    Path("folder.v2").mkdir()
    assert choose(None, "folder.v2", None).word == "parquet"


def test_get_in_formats(run: Run, url: str, identifier: str, in_folder: Path) -> None:
    names = ("x.csv", "x.arrow", "x.feather", "x.arrows", "x.json", "x.ndjson", "x.dsjc", "x.xpt", "x.zip", "x.parquet")
    for name in names:
        result = run("get", identifier, "-o", name)
        assert (result.code, Path(name).stat().st_size > 0) == (0, True), result.err
    assert sorted(path.name for path in in_folder.iterdir()) == sorted(names)
    sent = pupils()
    assert pq.read_table("x.parquet").to_pydict() == sent.to_pydict()
    with pa.ipc.open_stream("x.arrows") as stream:
        assert stream.read_all().to_pydict() == sent.to_pydict()
    with pa.ipc.open_file("x.arrow") as file:
        assert file.read_all().to_pydict() == sent.to_pydict()
    assert feather.read_table("x.feather").to_pydict() == sent.to_pydict()
    assert [row["Name"] for row in json.loads(Path("x.json").read_text())] == sent["Name"].to_pylist()
    assert pa.csv.read_csv("x.csv")["Born"].to_pylist() == sent["Born"].to_pylist()
    frame, about = pyreadstat.read_xport("x.xpt")
    assert frame["Born"].dropna().to_list() == sent["Born"].drop_null().to_pylist()
    assert (about.table_name, about.column_names_to_labels["Age"]) == ("PUPILS", "Age in years")


def test_get_with_options(run: Run, url: str, identifier: str, in_folder: Path) -> None:
    chosen = ("--columns", "age,name", "--offset", "1", "--limit", "1", "--names", "lower", "--missing", "tag")
    assert run("get", identifier, "-o", "-", "--format", "csv", *chosen).out == 'age,name\r\n.A,"Bo, jr."\r\n'
    assert run("get", identifier, "--format", "xpt", "--xpt-version", "5").code == 0
    assert b"LIBRARY HEADER" in Path("PUPILS.xpt").read_bytes()[:80]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["-o", "x.xlsx"],
            "x.xlsx: unknown extension '.xlsx'; known are .arrow, .arrows, .csv, .dsjc, .feather",
        ),
        (["--format", "sas7bdat"], "unknown format of data sets 'sas7bdat'"),
        (["--xpt-version", "5"], "--xpt-version is only for transport files"),
        (["--format", "csv", "--columns", "Nam"], "columns: unknown variable Nam"),
        (["--format", "csv", "--rename"], "rename: does not apply to format csv"),
    ],
)
def test_mistakes_leave_no_file(
    run: Run, url: str, identifier: str, in_folder: Path, arguments: list[str], said: str
) -> None:
    result = run("get", identifier, *arguments)
    assert (result.code, said in result.err) == (1, True), result.err
    assert list(in_folder.iterdir()) == []


def test_contents(run: Run, url: str, identifier: str) -> None:
    text = run("contents", identifier)
    assert text.code == 0
    assert "WORK.PUPILS" in text.out
    assert "Age in years" in text.out
    assert json.loads(run("contents", identifier, "--json").out)["member"] == "PUPILS"
    assert run("contents", "0" * 32).code == 1
