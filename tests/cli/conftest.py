"""A gateway with a broker to itself, and the command line to it."""

import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from app.cli import main
from tests.support.forked_gateway import ForkedGateway
from tests.support.gateway import GatewayProcess
from tests.support.mosquitto import Mosquitto


class Result(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line in this process."""
    monkeypatch.setenv("COLUMNS", "250")

    def run_(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["attachment-gateway", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # what `main` leaves is for the end of a process
        out, err = capsys.readouterr()
        return Result(int(ended.value.code or 0), out, err)

    return run_


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    """The broker behind the gateway."""
    with Mosquitto(tmp_path_factory.mktemp("broker")) as mosquitto:
        yield mosquitto


@pytest.fixture(scope="session")
def gateway(broker: Mosquitto, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway whose destinations `loop` and, in EBCDIC, `host` come back as its source `loop`."""
    endpoint = f'transport = "mqtt"\nurl = "mqtt://127.0.0.1:{broker.port}"\ntopic = "loop"\n'
    settings = f"[sources.loop]\n{endpoint}[destinations.loop]\n{endpoint}[destinations.host]\n{endpoint}ccsid = 37\n"
    with ForkedGateway(tmp_path_factory.mktemp("gateway"), settings) as process:
        process.await_source("loop")
        yield process


@pytest.fixture
def url(gateway: GatewayProcess, monkeypatch: pytest.MonkeyPatch) -> str:
    """The gateway's address, which commands find in the environment."""
    url = f"http://127.0.0.1:{gateway.port}"
    monkeypatch.setenv("ATTACHMENT_GATEWAY_URL", url)
    return url


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, an empty one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
