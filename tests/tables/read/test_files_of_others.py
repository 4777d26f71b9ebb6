"""Files that others wrote, compared with what others read in them.

`pytest tests/tables/read/test_files_of_others.py --real-files FOLDER` takes the files of a folder instead of those that
the peers write, and prints a table.
"""

import sys
from pathlib import Path

import pytest

from app.model.errors import InvalidInputError
from tests.support import haven, peers
from tests.support.peers import Cells

pytestmark = pytest.mark.process


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
    found = {name: peers.differences(told(path, name, ours), cells) for name, cells in theirs.items()}
    assert found == {name: [] for name in theirs}


def told(path: Path, peer: str, ours: Cells) -> Cells:
    """Return our cells as a peer can tell them: special missing values in XPT files only haven does."""
    return peers.without_tags(ours) if path.suffix.casefold() == ".xpt" and peer != "haven" else ours


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


def test_every_file_of_a_folder_is_compared_with_every_peer(
    pytestconfig: pytest.Config, capsys: pytest.CaptureFixture[str], made: list[Path], tmp_path: Path
) -> None:
    given = pytestconfig.getoption("--real-files")
    folder = made[0].parent if given is None else Path(given)
    files = sorted(path for path in folder.rglob("*") if path.suffix.casefold() in {".xpt", ".sas7bdat"})
    assert files, f"{folder} has no .xpt and no .sas7bdat files"
    readers = dict(peers.PEERS)
    if not haven.missing_reason():
        readers["haven"] = lambda path: haven.read_cells([path], tmp_path)[path]
    lines = [f"{'file':40} {'variables':>9} {'rows':>9}  {'  '.join(f'{name:24}' for name in readers)}"]
    failed = []
    for path in files:
        line, is_wrong = compared(path, readers)
        lines.append(line)
        failed += [path.name] if is_wrong else []
    if given is not None:
        with capsys.disabled():
            sys.stdout.write("\n".join(["", *lines, ""]))
    assert not failed, "\n".join(lines)


def compared(path: Path, readers: dict[str, peers.Read]) -> tuple[str, bool]:
    """Return a file's line of the table, and whether most readers that can read it see something else than we do."""
    try:
        ours = peers.our_cells(path)
    except InvalidInputError as error:
        return f"{path.name:40} not read: {error}", True
    said, agreed = [], 0
    for name, read in readers.items():
        try:
            found = peers.differences(told(path, name, ours), read(path))
        except Exception as error:  # noqa: BLE001 - the peer cannot read it, and the table says so
            said.append(f"cannot read it: {error}"[:60])
            continue
        agreed += -1 if found else 1
        said.append("; ".join(found)[:200] or "equal")
    rows = len(next(iter(ours.values()), []))
    return f"{path.name:40} {len(ours):9,} {rows:9,}  {'  '.join(f'{word:24}' for word in said)}", agreed < 0
