"""Gateways that start fast, as forks of a process that has already imported all modules.

python -m tests.support.forked_gateway

The process answers each line of its standard input, a list in JSON, with a line: to ["start", CONFIGURATION, LOG,
VARIABLES] with the number of a new process that runs `attachment-gateway serve` with these variables added to its
environment, and to ["status", NUMBER] with its exit status, or null while it runs. It ends when its standard input
ends.
"""

import atexit
import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from threading import Lock
from time import monotonic, sleep
from typing import Any

from tests.support.gateway import GatewayProcess
from tests.support.mqi import Library

_ROOT = Path(__file__).parents[2]
_POLLED_EVERY = 0.005


class Forks:
    """The process to be forked, with an environment of its own (None: this process's)."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        command = [sys.executable, "-m", "tests.support.forked_gateway"]
        self._process = subprocess.Popen(
            command, cwd=_ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._lock = Lock()

    def start(self, configuration: Path, log: Path, variables: Mapping[str, str]) -> "Fork":
        return Fork(self, self.ask("start", str(configuration), str(log), dict(variables)))

    def ask(self, *question: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        with self._process:  # which closes its standard input
            pass


class Fork:
    """The part of `subprocess.Popen`'s interface that tests use."""

    def __init__(self, forks: Forks, pid: int) -> None:
        self._forks, self.pid = forks, pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._forks.ask("status", self.pid)
        return self.returncode

    def wait(self, timeout: float) -> int:
        end = monotonic() + timeout
        while (status := self.poll()) is None:
            if monotonic() > end:
                raise subprocess.TimeoutExpired("serve", timeout)
            sleep(_POLLED_EVERY)
        return status

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


class ForkedGateway(GatewayProcess):
    """A `GatewayProcess` that starts in a tenth of the time.

    It is a fork of `forks`, or without them of a process with pymqi that all tests share.
    """

    def __init__(
        self, folder: Path, settings: str, forks: Forks | None = None, *, first: str = "", http: str = ""
    ) -> None:
        super().__init__(folder, settings, first=first, http=http)
        self._forks = forks

    def spawn(self) -> None:
        forks = self._forks or shared()
        self.process = forks.start(self._configuration, self.folder / "gateway.log", self._storage)  # type: ignore[assignment]


@cache
def shared(library: Library = "pymqi") -> Forks:
    """Return the process that gateways with this library are forks of, which all tests of this process share."""
    forks = Forks(os.environ | {"FORKED_WITH": library})
    atexit.register(forks.close)
    return forks


def _serve(configuration: str, log: str) -> None:
    """Become the program `attachment-gateway serve`."""
    from app.cli import main  # noqa: PLC0415 - imported before, by `_answer`

    for stream, path, mode in ((0, os.devnull, os.O_RDONLY), (1, log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)):
        opened = os.open(path, mode)
        os.dup2(opened, stream)
        os.close(opened)
    os.dup2(1, 2)
    sys.argv = ["attachment-gateway", "serve", "--config", configuration]
    main()


def _answer() -> None:
    import tests.support.forked_gateway_imports  # noqa: F401, PLC0415 - only in the process to be forked

    gc.collect()
    gc.freeze()  # forks share what is there, and do not search it for garbage

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests; the program sets its own handler
    answer: int | None
    for line in sys.stdin:
        match json.loads(line):
            case "start", configuration, log, variables:
                answer = os.fork()
                if not answer:
                    os.environ.update(variables)
                    _serve(configuration, log)
                    return
            case "status", pid:
                ended, status = os.waitpid(pid, os.WNOHANG)
                answer = os.waitstatus_to_exitcode(status) if ended else None
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _answer()
