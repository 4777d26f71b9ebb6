"""The framing and the transport of another package, as docs/framings.md shows it, in an environment of its own."""

import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from hashlib import sha256
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.support.gateway import GatewayProcess

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "docs" / "examples" / "framing"
PAGE = ROOT / "docs" / "framings.md"
SHOWN = {"pyproject.toml", "gateway_example/numbered.py", "test_contracts.py", "conftest.py"}
"""The files of the example that the page repeats."""
LOCAL = ("--master", "local[2]", "--memory", "1g", "--partitions", "2")
FILES = {
    "empty.txt": b"",
    "lines.txt": "eine Zeile mit Umlauten: äöü\n".encode() * 9000,
    "bytes.bin": bytes(range(256)) * 800,
}
SETTINGS = """
[sources.here]
transport = "folder"
framing = "numbered"
folder = "{0}"

[destinations.there]
transport = "folder"
framing = "numbered"
folder = "{0}"
body_limit = 5000
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a fresh environment with the gateway and the example, which pip has built and installed."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    found = folder / "bin" / "python"
    installed = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    # What the gateway needs is installed in the environment of the tests.
    (Path(installed) / "tests.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    source = shutil.copytree(EXAMPLE, folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    pip: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        found,
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--root-user-action=ignore"]
    subprocess.run([*pip, *offline, source], check=True)
    return found


@pytest.fixture(scope="module")
def received(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a gateway that has sent files and received them again."""
    folder = tmp_path_factory.mktemp("gateway")
    settings = SETTINGS.format(folder / "exchanged")
    with GatewayProcess(folder, settings, program=(python, "-m", "app")) as gateway:
        gateway.await_source("here")
        files = [("file", (name, content)) for name, content in FILES.items()]
        answer = gateway.client.post("/v1/messages", data={"destination": "there"}, files=files)
        assert answer.status_code == 202, answer.text
        gateway.until(lambda: len(gateway.listing("/v1/attachments", state="finished")) == len(FILES))
        for item in gateway.listing("/v1/attachments"):
            content = gateway.client.get(f"/v1/attachments/{item['id']}/content").raise_for_status().content
            assert content == FILES[item["file_name"]]
        (delivery,) = gateway.listing("/v1/deliveries")
        gateway.until(lambda: gateway.client.get(f"/v1/deliveries/{delivery['id']}").json()["state"] == "sent")
        assert gateway.listing("/v1/quarantine") == []
        gateway.until(lambda: not list((folder / "exchanged").iterdir()))
    return folder


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_it_keeps_the_contracts(python: Path) -> None:
    """Its own tests are the suites of the distribution, with Spark."""
    folder = python.parents[1] / "source"
    done = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={folder}", folder)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    (passed,) = re.findall(r"(\d+) passed in", done.stdout)
    assert int(passed) > 50
    assert "skipped" not in done.stdout


def test_a_gateway_sends_and_receives_with_it_and_spark_finds_the_same(
    python: Path, received: Path, tmp_path: Path
) -> None:
    journal, result = received / "var" / "journal", tmp_path / "result"
    done = run(python, "-m", "app", "pipeline", "batch", journal, "--out", result, *LOCAL)
    assert done.returncode == 0, done.stderr
    rows = DeltaTable(result / "tables" / "files").to_pyarrow_table().to_pylist()
    assert {row["name"]: row["sha256"] for row in rows} == {name: sha256(FILES[name]).hexdigest() for name in FILES}


def test_without_the_package_its_names_are_unknown(tmp_path: Path) -> None:
    settings = tmp_path / "gateway.toml"
    settings.write_text(SETTINGS.format(tmp_path))
    done = run(Path(sys.executable).parent / "attachment-gateway", "config", "check", "--config", settings)
    assert done.returncode == 1
    assert all(word in done.stderr for word in ("framing 'numbered'", "'sas_queue'", "transport 'folder'", "mqtt"))


def test_the_page_shows_the_files() -> None:
    shown = re.findall(r"\[`(\S+)`\]\(examples/framing/\S+\):\n\n```\w+\n(.*?)```\n", PAGE.read_text(), re.DOTALL)
    assert {name for name, _ in shown} == SHOWN
    assert [name for name, text in shown if text != (EXAMPLE / name).read_text()] == []
