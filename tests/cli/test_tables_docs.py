"""The examples of docs/tables.md are what the commands say."""

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.support.built import shop

PAGE = (Path(__file__).parents[2] / "docs" / "tables.md").read_text()
BLOCKS = re.findall(r"^```console\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
VARYING = re.compile(r"/\S+|\d+-\d+-\d+[ T]\d+:\d+:\d+\.?\d*(\+00:00)?|\d+\.\d KiB|\b5,\d{3}\b")


def words(text: str) -> list[list[str]]:
    """Line by line, without what differs from time to time and from place to place."""
    return [VARYING.sub("*", line).split() for line in text.splitlines()]


def examples() -> list[tuple[str, str]]:
    """Each command line with what it says."""
    return [
        (line, said)
        for block in BLOCKS
        for line, said in re.findall(r"^\$ attachment-gateway (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shop(tmp_path_factory.mktemp("shop")).folder


@pytest.mark.parametrize(("line", "said"), examples(), ids=lambda text: text.partition("\n")[0][:40])
def test_an_example_is_what_is_said(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, line: str, said: str
) -> None:
    monkeypatch.setenv("ATTACHMENT_GATEWAY_TABLES__URL", str(folder))
    result = run(*shlex.split(line))
    assert words(result.out + result.err) == words(said)


def test_explaining_a_query_tells_the_files_that_were_read(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTACHMENT_GATEWAY_TABLES__URL", str(folder))
    query = "FROM work.customers WHERE received_at < '2020-01-01'"
    explained = run("tables", "sql", f"EXPLAIN ANALYZE {query}").err
    assert re.fullmatch(r"0 of [12] files read", explained.strip())  # the example of `compact` joins the two
    assert "files read" not in run("tables", "sql", query).err
