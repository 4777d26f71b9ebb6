"""The demo, as `make run` starts it."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.cli import demo_command
from app.cli.terminal import Failure
from tests.cli.conftest import Run
from tests.support import environment
from tests.support.forked_command import program

pytestmark = pytest.mark.process

PROGRAM = Path(sys.executable).parent / "attachment-gateway"
CLOSED = "127.0.0.1:9"
"""Where nobody listens: what goes there fails."""


def demo(*options: str | Path, by: Path = PROGRAM, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the demo to its end, in an environment with nothing else."""
    return subprocess.run(
        [by, "demo", "--once", *options],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={"COLUMNS": "150", "PATH": "/usr/bin:/bin"} | variables,
    )


def assert_went_well(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("equal, ") == 3
    assert "different" not in done.stdout
    assert "/docs" in done.stdout
    assert done.stderr == ""


def test_what_goes_through_the_broker_comes_out_of_rest(tmp_path: Path) -> None:
    assert_went_well(demo("--data", tmp_path, by=program()))
    assert {path.name for path in tmp_path.iterdir()} >= {"journal", "catalog.sqlite", "content"}


def test_nothing_of_the_environment_is_used(tmp_path: Path) -> None:
    """Neither a configuration, whose source would lose its messages to the demo, nor a proxy."""
    done = demo(
        ATTACHMENT_GATEWAY_DATA=str(tmp_path / "real"),
        ATTACHMENT_GATEWAY_CONFIG=str(tmp_path / "missing.toml"),
        ATTACHMENT_GATEWAY_URL=f"http://{CLOSED}",
        ATTACHMENT_GATEWAY_TOKEN="of-the-real-gateway",
        ATTACHMENT_GATEWAY_HTTP__TOKENS='["' + "0" * 64 + '"]',
        ATTACHMENT_GATEWAY_SOURCES__REAL__TRANSPORT="mqtt",
        ATTACHMENT_GATEWAY_SOURCES__REAL__URL=f"mqtt://{CLOSED}",
        ATTACHMENT_GATEWAY_SOURCES__REAL__TOPIC="attachments/real",
        ATTACHMENT_GATEWAY_SOURCES__DEMO__TOPIC="attachments/real",
        ATTACHMENT_GATEWAY_ASSEMBLER="spark",
        HTTP_PROXY=f"http://{CLOSED}",
        http_proxy=f"http://{CLOSED}",
        ALL_PROXY=f"socks5://{CLOSED}",
        all_proxy=f"socks5://{CLOSED}",
        TMPDIR=str(tmp_path),
    )
    assert_went_well(done)
    assert list(tmp_path.iterdir()) == [], "nothing is left, and nothing is in the configured folder"


def test_a_port_that_is_taken_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setattr(demo_command, "_PORTS", (taken.getsockname()[1], 0))
        with closing(demo_command._listener()) as listener:
            assert listener.getsockname()[1] != taken.getsockname()[1]
            with socket.create_connection(listener.getsockname()):
                pass


@pytest.fixture
def signals_restored() -> Iterator[None]:
    """The demo handles signals, and in a test it is this process that it handles them for."""
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


@pytest.mark.usefixtures("signals_restored")
def test_a_full_disk_is_said_before_anything_starts(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_command, "disk_usage", lambda _: SimpleNamespace(free=100 << 20))
    done = run("demo", "--once", "--data", tmp_path / "data")
    assert (done.code, done.out) == (1, "")
    assert re.search(r"has 100\.0 MiB free; the demo needs 320\.0 MiB\n.*TMPDIR or --data", done.err)
    assert not (tmp_path / "data").exists()


def test_files_that_cannot_be_written_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = demo("--data", tmp_path / "file", by=program())
    assert done.returncode == 1
    assert re.match(r"error: the data folder cannot be opened: .*File exists.*\n", done.stderr), done.stderr
    assert "Traceback" not in done.stderr


def test_no_port_at_all_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setattr(demo_command, "_PORTS", (taken.getsockname()[1],))
        with pytest.raises(Failure, match=r"the demo found no free port: cannot listen on 127\.0\.0\.1 port \d+: Addr"):
            demo_command._listener()


def test_tests_see_no_settings_and_no_proxies() -> None:
    """What tests/__init__.py does, in a process whose environment has both."""
    given = {
        "ATTACHMENT_GATEWAY_DATA": "/var/lib/real",
        "ATTACHMENT_GATEWAY_URL": f"http://{CLOSED}",
        "HTTPS_PROXY": f"http://{CLOSED}",
        "all_proxy": f"socks5://{CLOSED}",
    }
    inherited = {name: value for name, value in os.environ.items() if name != environment.KEPT}
    program = (
        "import os, tests, app.settings, tests.support.environment as environment\n"
        "print(app.settings.load().data, [name for name in os.environ if name in eval(os.environ['NAMES'])])\n"
        "print(sorted(set(environment.with_proxies()) & set(eval(os.environ['NAMES']))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        env=inherited | given | {"NAMES": repr(list(given))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == ["var []", "['HTTPS_PROXY', 'all_proxy']"], done.stderr
