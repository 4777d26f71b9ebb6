"""How commands end: the exit statuses of docs/cli.md, a sentence for each error, and no traceback."""

import os
import re
import signal
import subprocess
import sys
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from app.cli import INTERRUPTED
from app.cli.application import COMMANDS, loaded
from app.cli.pipeline_command import EXPECTATION
from app.cli.repair_commands import UNCHECKED
from app.cli.terminal import BROKEN_PIPE, FAILED, UNREACHABLE
from app.main import SUPERSEDED_STATUS
from app.testing.waiting import until
from tests.cli.conftest import Run
from tests.support.disk import SMALL_DISK, small_disk
from tests.support.forked_command import program
from tests.support.mosquitto import free_port

pytestmark = pytest.mark.process

__all__ = ["small_disk"]

PROGRAM = Path(sys.executable).parent / "attachment-gateway"
FULL = "/dev/full"
IMPORTED = re.compile(r"^import time:\s.*?([\w.]+)$", re.MULTILINE)


def ended(*arguments: object, **how: Any) -> subprocess.CompletedProcess[str]:
    given = {"capture_output": True, "text": True, "timeout": 120} | how
    return subprocess.run([program(), *map(str, arguments)], check=False, **given)


def one_sentence(said: str) -> str:
    """The only line of standard error."""
    (line,) = said.splitlines()
    assert line.startswith("error: ")
    return line.removeprefix("error: ")


@pytest.mark.skipif(not Path(FULL).exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("command", ["--help", "config show", "config check", "trace --as sas-count --hex -"])
def test_a_full_disk_behind_standard_output(command: str) -> None:
    with Path(FULL).open("w") as out:
        done = ended(*command.split(), stdout=out, stderr=subprocess.PIPE, capture_output=False, input="00000003\n")
    assert done.returncode == 1
    assert one_sentence(done.stderr) == "cannot write to standard output: No space left on device"


@pytest.mark.parametrize("command", ["config show", "config check"])
def test_a_pipe_that_nobody_reads(command: str) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    done = ended(*command.split(), stdout=theirs, stderr=subprocess.PIPE, capture_output=False)
    os.close(theirs)
    assert done.returncode == 141
    assert "error" not in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_a_closed_standard_file(closed: str) -> None:
    """Its number is not given to a file of the gateway, into which the command would print."""
    script = f'exec "$0" config show {closed}'
    done = subprocess.run(["sh", "-c", script, PROGRAM], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("{") == (" >&-" not in f" {closed}")


@pytest.mark.parametrize("command", [b"ls --name \xff", b"show \xff", b"rm --yes \xff", b"get \xff"])
def test_an_argument_that_is_not_text(command: bytes) -> None:
    done = ended(*map(os.fsdecode, command.split()))
    assert done.returncode == 2
    sentence, hint = done.stderr.splitlines()
    assert re.fullmatch(r"error: argument \d is b'.*\\xff.*', which is not UTF-8", sentence)
    assert hint == "rename a file or folder that has such a name"


@pytest.mark.parametrize(
    ("command", "module"),
    [
        *(("ls", "app.cli"), ("ls", "typer"), ("ls", "rich.console"), ("ls", "httpx"), ("fsck", "pyarrow.lib")),
        *(("serve", "sqlalchemy"), ("serve", "uvicorn")),
    ],
)
def test_ctrl_c_while_modules_are_loaded(command: str, module: str, tmp_path: Path) -> None:
    """Python says which module it has just loaded; `app.cli` is loaded before any handler is set."""
    environment = os.environ | {"PYTHONPROFILEIMPORTTIME": "1", "ATTACHMENT_GATEWAY_DATA": str(tmp_path / "data")}
    environment["ATTACHMENT_GATEWAY_HTTP__PORT"] = str(free_port())
    # Python handles SIGINT only if it was not ignored before, as it is in the background of some shells.
    heeding = (
        "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.executable, sys.argv[1:])"
    )
    program = [sys.executable, "-c", heeding, sys.executable, "-m", "app", command]
    with subprocess.Popen(program, stderr=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stderr is not None
        said = ""
        for line in process.stderr:
            found = IMPORTED.match(line)
            if found is None:
                said += line
            elif found[1] == module:
                process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert "Traceback" not in said
    assert "ignored" not in said


def test_the_program_that_is_installed_handles_ctrl_c_first() -> None:
    """The handler is set by the import, before the script of an installer does anything else."""
    program = (
        "import os, signal; from attachment_gateway import main; "
        "print(main.__module__, flush=True); os.kill(os.getpid(), signal.SIGINT); print('goes on')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "app.cli\n", "")
    (entry,) = entry_points(group="console_scripts", name="attachment-gateway")
    assert entry.value == "attachment_gateway:main"


@pytest.mark.parametrize("module", ["app", "app.__main__", "app.cli"])
def test_ctrl_c_while_the_entry_itself_is_loaded(module: str) -> None:
    program = (
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(name, *_):\n"
        f"        if name == {module!r}: raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted)\n"
        "import attachment_gateway"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "")


def test_ctrl_c_in_code_that_a_library_makes(tmp_path: Path) -> None:
    """After a KeyboardInterrupt in `exec()` of a text, Python would end by the signal, and not with a status."""
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.metadata, signal\n"
        "importlib.metadata.version = lambda _: exec('signal.raise_signal(signal.SIGINT)', globals())"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    program = [sys.executable, "-m", "app", "--version"]
    done = subprocess.run(program, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_ctrl_c_while_the_gateway_starts(tmp_path: Path) -> None:
    environment = os.environ | {
        "ATTACHMENT_GATEWAY_DATA": str(tmp_path / "data"),
        "ATTACHMENT_GATEWAY_HTTP__PORT": str(free_port()),
    }
    with subprocess.Popen([PROGRAM, "serve"], stderr=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stderr is not None
        said = ""
        for line in process.stderr:
            said += line
            if "gateway_start_begun" in line:
                process.send_signal(signal.SIGINT)
        assert process.wait(60) in (0, 130)
    assert "Traceback" not in said


def test_no_command_waits_for_pandas_and_few_for_arrow() -> None:
    """PyArrow imports pandas, where it is installed, for the first array of Python's values."""
    program = (
        "import sys; from app.cli.application import COMMANDS, loaded; print('pyarrow' in sys.modules)\n"
        "for command in COMMANDS: loaded(command)\n"
        "print('pyarrow' in sys.modules, 'pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\nTrue False\n"


def test_the_list_of_commands_says_what_each_says() -> None:
    for name, (_, line) in COMMANDS.items():
        said, *_ = loaded(name).help.split("\n\n")
        assert " ".join(said.split()) == line


def test_the_version_and_short_help(run: Run) -> None:
    assert run("--version").out == f"attachment-gateway {version('attachment-gateway')}\n"
    assert run("ls", "-h").out == run("ls", "--help").out
    assert "List attachments" in run("ls", "-h").out
    assert "Usage" in run("quarantine", "ls", "-h").out


def test_what_is_asked_wrongly(run: Run) -> None:
    for arguments in (["nosuch"], ["ls", "--state", "nosuch"], ["ls", "--limit", "0"], ["get"], ["ls", "--nosuch"]):
        result = run(*arguments)
        assert (result.code, result.out) == (2, "")
        assert "Usage" in result.err


def test_places_that_are_not_there(run: Run, in_folder: Path) -> None:
    for arguments in (
        ["tables", "ls", "--tables", "nosuch"],
        ["tables", "sql", "SELECT 1", "--tables", "nosuch"],
        ["restore", "--from", "nosuch", "--list"],
        ["restore", "--from", "nosuch", "--data", "data"],
        ["journal", "ls", "nosuch"],
        ["journal", "import", "nosuch", "--to", "journal"],
        ["trace", "nosuch"],
    ):
        result = run(*arguments)
        assert (result.code, result.out) == (1, ""), arguments
        assert "nosuch" in one_sentence(result.err)
    assert (run("rebuild", "--yes").code, run("fsck").code) == (2, 2)
    assert list(in_folder.iterdir()) == []


def test_a_disk_that_is_full(run: Run, small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTACHMENT_GATEWAY_DATA", str(small_disk / "data"))
    monkeypatch.setenv("ATTACHMENT_GATEWAY_HTTP__PORT", str(free_port()))
    with pytest.raises(OSError, match="No space"):
        (small_disk / "everything").write_bytes(bytes(SMALL_DISK + 1))
    done = ended("serve")
    assert done.returncode == 1
    (line,) = (line for line in done.stderr.splitlines() if not line.startswith("{"))
    assert "no space left for the journal" in line.casefold()
    assert "Errno" not in line
    assert "Traceback" not in done.stderr


def test_a_folder_that_cannot_be_written(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    environment = os.environ | {
        "ATTACHMENT_GATEWAY_DATA": str(small_disk / "data"),
        "ATTACHMENT_GATEWAY_HTTP__PORT": str(free_port()),
    }
    said = one_sentence(ended("serve", env=environment).stderr)
    assert said == f"the data folder cannot be opened: Read-only file system: '{small_disk / 'data'}'"
    said = one_sentence(ended("journal", "import", __file__, "--format", "raw", "--to", small_disk / "j").stderr)
    assert "Read-only file system" in said


def test_a_gateway_without_a_broker_runs_and_says_so(tmp_path: Path) -> None:
    """It answers, and connects when the broker is there."""
    endpoint = f'transport = "mqtt"\nurl = "mqtt://127.0.0.1:{free_port()}"\ntopic = "t"\n'
    (tmp_path / "gateway.toml").write_text(
        f'data = "{tmp_path / "data"}"\n[http]\nport = {free_port()}\n'
        f'[log]\nformat = "console"\n[sources.s]\n{endpoint}'
    )
    log = tmp_path / "log"
    with (
        log.open("w") as file,
        subprocess.Popen([PROGRAM, "serve", "--config", tmp_path / "gateway.toml"], stderr=file) as serving,
    ):
        try:
            until(lambda: "connection_failed" in log.read_text() and "startup complete" in log.read_text())
            serving.send_signal(signal.SIGINT)
            assert serving.wait(60) == 0
        finally:
            serving.kill()
    assert "Connection refused" in log.read_text()
    assert "Traceback" not in log.read_text()


def test_the_page_has_every_command_and_every_exit_status() -> None:
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    names = set(COMMANDS)
    rows = re.findall(r"^\| (`.*?) \|", page.partition("\n## ")[0], re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == names
    statuses = {int(found) for found in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    assert statuses == {0, FAILED, UNCHECKED, UNREACHABLE, EXPECTATION, SUPERSEDED_STATUS, INTERRUPTED, BROKEN_PIPE}


def test_pictures_of_the_page_are_there() -> None:
    folder = Path(__file__).parents[2] / "docs"
    shown = set(re.findall(r"\]\((pictures/[\w-]+\.svg)\)", (folder / "cli.md").read_text()))
    assert shown == {str(path.relative_to(folder)) for path in (folder / "pictures").glob("*.svg")}
    for path in shown:
        assert ElementTree.parse(folder / path).getroot().tag == "{http://www.w3.org/2000/svg}svg"
