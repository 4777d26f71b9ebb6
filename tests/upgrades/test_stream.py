"""The stream's checkpoint and tables of released versions: the stream goes on, and a newer checkpoint is refused."""

import json
import signal
from contextlib import closing
from pathlib import Path

import pytest

from adapters.arrow_journal import ArrowJournal
from app.model.data_formats import CHECKPOINT
from app.testing.host_results import in_folder, tables
from tests.cli.conftest import Run
from tests.upgrades.data import VERSIONS, from_json, unpacked
from tests.upgrades.test_newer import assert_says


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_stream_goes_on_from_its_checkpoint(
    version: str, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands run in the SparkSession of all tests."""
    described = unpacked(version, tmp_path)
    folder = tmp_path / "spark" / "var"
    configuration = tmp_path / "spark" / "gateway.toml"
    configuration.write_text(f'data = "{folder}"\nassembler = "spark"\n')
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # the handlers of this process stay
    before = {name: tuple(found) for name, found in described["spark"]["tables"].items()}
    assert tables(folder) == before
    known = in_folder(folder, folder / "journal").attachments
    assert {key: item["state"] for key, item in known.items()} == described["spark"]["states"]

    unfinished = described["unfinished"]
    with closing(ArrowJournal(folder / "journal")) as journal:
        journal.append([from_json(each)._replace(source="orders", received_at=1) for each in unfinished["missing"]])
        journal.seal()
    stream = ("pipeline", "stream", "--once", "--config", configuration)
    done = run(*stream)
    assert done.code == 0, done
    now = in_folder(folder, folder / "journal").attachments
    assert now.keys() == known.keys()
    assert {item["state"] for item in now.values()} == {"finished"}
    (finished,) = (item for key, item in now.items() if known[key]["state"] == "receiving")
    assert finished["sha256"] == unfinished["sha256"]
    after = tables(folder)
    assert after.pop("files")[0] == before["files"][0] + 1
    assert {name: after[name] for name in after if name != "quality"} == {
        name: before[name] for name in before if name not in {"files", "quality"}
    }

    offsets = max((folder / "pipeline" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    number = json.loads(offsets.read_text().splitlines()[-1])["format"]
    assert number == CHECKPOINT.number
    offsets.write_text(offsets.read_text().replace(f'"format": {number}', f'"format": {number + 1}'))
    (offsets.parent / f".{offsets.name}.crc").unlink()
    refused = run(*stream)
    assert refused.code == 1
    assert_says(CHECKPOINT, refused.err)
