"""`attachment-gateway pipeline stream` as a separate process, beside a gateway with `assembler = "spark"`."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType


class StreamJob:
    """A job with the configuration of the gateway in `folder`, and this environment (None: this process's).

    If it is `supervised`, it is started again when it ends with an error.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None, *, supervised: bool = False) -> None:
        self._folder, self._environment, self._supervised = folder, environment, supervised
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "StreamJob":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.kill()

    def start(self) -> None:
        program = Path(sys.executable).parent / "attachment-gateway"
        command = [str(program), "pipeline", "stream", "--config", str(self._folder / "gateway.toml")]
        command += ["--master", "local[2]", "--memory", "1g", "--partitions", "2"]
        if self._supervised:
            command = ["sh", "-c", 'until "$@"; do sleep 1; done', "sh", *command]
        with (self._folder / "stream.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True, env=self._environment
            )

    def kill(self) -> None:
        """Kill it, its Java and its workers at once."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(60)
        self._process = None

    def stop(self) -> int:
        """Stop it in order; return its exit status."""
        assert self._process is not None
        self._process.terminate()
        status = self._process.wait(60)
        self._process = None
        return status

    @property
    def log(self) -> str:
        return (self._folder / "stream.log").read_text()
