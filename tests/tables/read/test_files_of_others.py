"""Files that others wrote, compared with what others read in them.

`pytest tests/tables/read/test_files_of_others.py --real-files FOLDER` takes the files of a folder instead of those that
the peers write, and prints a table.
"""

import sys
from pathlib import Path

import pytest

from tests.support import haven, peers
from tests.support.peers import Cells


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return peers.write_files(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def made_by_haven(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    haven.require()
    folder = tmp_path_factory.mktemp("haven")
    haven.write_files(folder)
    return sorted(folder.iterdir())


def check(path: Path, theirs: dict[str, Cells]) -> None:
    ours = peers.our_cells(path)
    assert {name: peers.differences(ours, cells) for name, cells in theirs.items()} == {name: [] for name in theirs}


def test_we_read_what_peers_in_python_read(made: list[Path]) -> None:
    read = [path for path in made if peers.is_of_sas(path)]
    assert len(read) == 5
    for path in read:
        check(path, peers.peers_of(path))


def test_dataset_json_by_the_rules_of_cdisc(made: list[Path]) -> None:
    read = [path for path in made if not peers.is_of_sas(path)]
    assert len(read) == 3
    for path in read:
        check(path, {"CDISC": peers.DATASET_JSON})


def test_we_read_what_haven_reads_and_writes(made: list[Path], made_by_haven: list[Path], tmp_path: Path) -> None:
    assert [path.name for path in made_by_haven] == ["haven.sas7bdat", "haven5.xpt", "haven8.xpt", "iris.sas7bdat"]
    read = [path for path in (*made, *made_by_haven) if peers.is_of_sas(path)]
    for path, cells in haven.read_cells(read, tmp_path).items():
        check(path, {"haven": cells} | peers.peers_of(path))


def test_real_files(pytestconfig: pytest.Config, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Compare every reader with ours, for all files of a folder."""
    given = pytestconfig.getoption("--real-files")
    if given is None:
        pytest.skip("--real-files FOLDER names no folder of real files")
    files = sorted(path for path in Path(given).rglob("*") if path.suffix.casefold() in {".xpt", ".sas7bdat"})
    assert files, f"{given} has no .xpt and no .sas7bdat files"
    readers = dict(peers.PEERS)
    if not haven.missing_reason():
        readers["haven"] = lambda path: haven.read_cells([path], tmp_path)[path]
    failed = []
    with capsys.disabled():
        sys.stdout.write(f"\n{'file':40} {'variables':>9} {'rows':>9}  {'  '.join(f'{name:40}' for name in readers)}\n")
        for path in files:
            line, is_wrong = compared(path, readers)
            sys.stdout.write(f"{line}\n")
            failed += [path.name] if is_wrong else []
    assert not failed


def compared(path: Path, readers: "dict[str, peers.Read]") -> tuple[str, bool]:
    """Return a file's line of the table, and whether a reader sees something else than we do."""
    try:
        ours = peers.our_cells(path)
    except Exception as error:  # noqa: BLE001 - the table shows every error
        return f"{path.name:40} not read: {error}", True
    said, is_wrong = [], False
    for read in readers.values():
        try:
            found = peers.differences(ours, read(path))
        except Exception as error:  # noqa: BLE001 - the peer cannot read it
            said.append(f"cannot read it: {error}"[:40])
            continue
        is_wrong = is_wrong or bool(found)
        said.append("; ".join(found)[:200] or "equal")
    rows = len(next(iter(ours.values()), []))
    return f"{path.name:40} {len(ours):9,} {rows:9,}  {'  '.join(f'{word:40}' for word in said)}", is_wrong
