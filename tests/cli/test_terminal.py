"""Commands in terminals of 80 and 60 columns, against a real gateway."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from rich.cells import cell_len

from app.testing.waiting import until
from tests.cli.conftest import Run
from tests.support.forked_command import program
from tests.support.forked_gateway import ForkedGateway
from tests.support.mosquitto import Mosquitto
from tests.support.terminal import InTerminal

pytestmark = pytest.mark.process

PROGRAM = Path(sys.executable).parent / "attachment-gateway"
LONG = "a name that is much longer than any terminal of sixty or eighty columns can show in one line.bin"


def finished(run: Run, name: str) -> Any:
    lines = run("ls", "--name", name, "--state", "finished", "--json").out.splitlines()
    return json.loads(lines[0]) if lines else None


@pytest.fixture
def attachment(run: Run, url: str, in_folder: Path) -> Any:
    """A finished attachment with a long name."""
    Path(LONG).write_bytes(random.Random(1).randbytes(100_000))
    assert run("send", LONG, "--to", "loop").code == 0
    return until(lambda: finished(run, LONG[:60]))


@pytest.mark.parametrize("columns", [80, 60])
def test_ls_shows_a_row_a_line(attachment: Any, columns: int) -> None:
    with InTerminal([PROGRAM, "ls", "--name", LONG[:60]], columns, os.environ) as terminal:
        lines = [line for line in terminal.end() if line]
        assert terminal.process.returncode == 0
    heading, *rows = lines
    assert heading.split()[:2] == ["ID", "State"]
    assert len(rows) == len({row.split()[0] for row in rows})
    assert max(map(cell_len, lines)) <= columns
    (short,) = (row.split()[0] for row in rows if attachment["id"].startswith(row.split()[0]))
    assert len(short) < 32
    done = subprocess.run([program(), "get", short, "-o", "-"], capture_output=True, check=True)
    assert done.stdout == Path(LONG).read_bytes()


def test_a_pipe_gets_everything(attachment: Any) -> None:
    environment = os.environ | {"COLUMNS": "60"}
    done = subprocess.run([program(), "ls"], capture_output=True, env=environment, check=True, text=True)
    (row,) = (line for line in done.stdout.splitlines() if line.startswith(attachment["id"]))
    assert LONG in row


@pytest.mark.parametrize("columns", [80, 60])
def test_watch_stays_within_the_width(run: Run, attachment: Any, broker: Mosquitto, columns: int) -> None:
    with InTerminal([PROGRAM, "watch"], columns, os.environ) as terminal:

        def is_seen() -> bool:
            assert run("send", LONG, "--to", "loop", "--wait").code == 0
            return any("attachment finished" in line for line in terminal.lines)

        until(is_seen)
        terminal.process.send_signal(signal.SIGINT)
        lines = terminal.end()
        assert terminal.process.returncode == 0
    assert max(map(cell_len, lines)) <= columns
    (seen, *_) = (line for line in lines if "attachment finished" in line)
    assert seen.split()[0].count(":") == 2
    assert "a name" in seen


def test_watch_waits_until_the_gateway_is_back(broker: Mosquitto, tmp_path: Path) -> None:
    endpoint = f'transport = "mqtt"\nurl = "mqtt://127.0.0.1:{broker.port}"\ntopic = "back"\n'
    (tmp_path / "first.txt").write_text("first")
    (tmp_path / "second.txt").write_text("second")
    settings = f"[sources.back]\n{endpoint}[destinations.back]\n{endpoint}"
    with ForkedGateway(tmp_path, settings) as gateway:
        gateway.await_source("back")
        environment = os.environ | {"ATTACHMENT_GATEWAY_URL": f"http://127.0.0.1:{gateway.port}"}

        def send(name: str) -> None:
            command = [str(program()), "send", str(tmp_path / name), "--to", "back", "--wait"]
            subprocess.run(command, env=environment, check=True, capture_output=True)

        def arrived(name: str) -> bool:
            return any("attachment finished" in line and name in line for line in terminal.lines)

        def first_arrived() -> bool:
            send("first.txt")
            return arrived("first.txt")

        with (
            InTerminal([PROGRAM, "watch"], 100, environment) as terminal,
            (tmp_path / "events").open("w") as out,
            subprocess.Popen(
                [PROGRAM, "watch", "--json"], stdout=out, env=environment, stderr=subprocess.PIPE
            ) as quiet,
        ):
            try:
                until(lambda: any("receiving from back" in line for line in terminal.lines))
                until(first_arrived)
                gateway.kill()
                until(lambda: any("the gateway does not answer, trying again" in line for line in terminal.lines))
                sleep(1.5)  # in which it tries again
                assert not any("the gateway answers again" in line for line in terminal.lines)
                gateway.start()
                until(lambda: any("the gateway answers again" in line for line in terminal.lines))
                gateway.await_source("back")
                send("second.txt")
                until(lambda: arrived("second.txt"))
                quiet.send_signal(signal.SIGINT)
                _, said = quiet.communicate(timeout=60)
                assert quiet.returncode == 0
                assert b"the gateway does not answer" in said
                assert b"the gateway answers again" in said
            finally:
                quiet.kill()
        told = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
        names = [event["data"]["name"] for event in told if event["type"] == "attachment.finished"]
        assert names[-1] == "second.txt"
        assert len({event["id"] for event in told}) == len(told)
