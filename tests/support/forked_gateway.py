"""A gateway that starts fast, as a fork of a process that has already imported all modules."""

import os
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

from app.cli.serving import serve
from tests.support.gateway import GatewayProcess
from tests.support.mqi import load

_PRELOADED = ["tests.support.forked_gateway_imports"]


class ForkedGateway(GatewayProcess):
    """A `GatewayProcess` with pymqi, for tests that kill it very often."""

    def spawn(self) -> None:
        load("pymqi")
        context = get_context("forkserver")
        context.set_forkserver_preload(_PRELOADED)
        child = context.Process(target=_serve, args=(self._configuration, self.folder / "gateway.log"))
        child.start()
        self.process = _Child(child)  # type: ignore[assignment]


class _Child:
    """The part of `subprocess.Popen`'s interface that tests use."""

    def __init__(self, process: BaseProcess) -> None:
        self._process = process
        self.terminate, self.kill = process.terminate, process.kill

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float) -> None:
        self._process.join(timeout)


def _serve(configuration: Path, log: Path) -> None:
    written = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(written, stream)
    load("pymqi")
    serve(configuration)
