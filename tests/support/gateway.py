"""The gateway as a separate process, configured by a file and observed from outside."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType
from typing import Any

import httpx

from app.testing.waiting import PATIENCE
from tests.support.mosquitto import free_port

PROGRAM = Path(sys.executable).parent / "attachment-gateway"
_SAMPLE = re.compile(r"^attachment_gateway_(\w+)(?:\{([^}]*)\})? (\S+)$", re.MULTILINE)


class GatewayProcess:
    """`attachment-gateway serve` with its own folder.

    `first` is the beginning of its TOML file and `settings` the rest; `http` adds to its table [http]. `environment` is
    its whole environment (None: this process's). `program` is the command of another installation.
    """

    storage: Callable[[Path], Mapping[str, str]] = staticmethod(lambda _folder: {})
    """A function that returns the variables which name the storage of a gateway in a folder."""

    def __init__(
        self,
        folder: Path,
        settings: str,
        environment: Mapping[str, str] | None = None,
        *,
        first: str = "",
        http: str = "",
        program: Sequence[str | Path] = (PROGRAM,),
    ) -> None:
        self.port = free_port()
        self.folder = folder
        self._environment, self._program = environment, program
        self._storage = self.storage(folder)
        self._configuration = folder / "gateway.toml"
        self._configuration.write_text(
            f'data = "{folder / "var"}"\n{first}[http]\nport = {self.port}\n{http}[log]\nformat = "json"\n{settings}'
        )
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=30)
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "GatewayProcess":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, timeout: float = 30) -> None:
        """Return when the gateway answers; its sources may not be connected yet."""
        self.spawn()
        self.until(self.is_up, timeout)

    def spawn(self) -> None:
        with (self.folder / "gateway.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*self._program, "serve", "--config", self._configuration],
                env={**(os.environ if self._environment is None else self._environment), **self._storage},
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def stop(self) -> None:
        """Stop the process in order."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(60)
            self.process = None
        self.client.close()

    def kill(self) -> None:
        """Kill the process at once, like a power cut (except that the page cache survives)."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(60)
        self.process = None

    def until(self, condition: Callable[[], Any], timeout: float = 60, pause: float = 0.02) -> None:
        """Wait for a condition that the gateway brings about; a failure shows the gateway's output.

        Each question costs the gateway time: pauses double, up to eight times the first.
        """
        end, longest = monotonic() + timeout * PATIENCE, 8 * pause
        while not condition() and not self._gone():
            if monotonic() > end:
                raise AssertionError(f"not within {timeout * PATIENCE} seconds; the gateway says:\n{self.log[-4000:]}")
            sleep(pause)
            pause = min(2 * pause, longest)

    def is_up(self) -> bool:
        try:
            return self.client.get("/health/live").status_code == 200
        except httpx.TransportError:
            return False

    def _gone(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise AssertionError(f"the gateway ended with {self.process.returncode}:\n{self.log[-4000:]}")
        return False

    def await_source(self, name: str) -> None:
        """Return when a source is connected and subscribed."""
        self.until(lambda: self.samples().total("source_connected", source=name))

    @property
    def log(self) -> str:
        return (self.folder / "gateway.log").read_text()

    def samples(self) -> "Samples":
        """Return the current metrics."""
        return Samples(self.client.get("/metrics").raise_for_status().text)

    def listing(self, path: str, **filters: str) -> list[dict[str, Any]]:
        """Return all items of a listing, page by page."""
        items: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            query = {"limit": "200", **filters, **({"cursor": cursor} if cursor else {})}
            page = self.client.get(path, params=query).raise_for_status().json()
            items += page["items"]
            cursor = page.get("next")
            if not cursor:
                return items


class Samples:
    """One reading of the gateway's metrics."""

    def __init__(self, text: str) -> None:
        self._found = _SAMPLE.findall(text)

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples that have these labels."""
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        return sum(
            float(value) for found, given, value in self._found if found == name and all(w in given for w in wanted)
        )


def mqtt_source(
    name: str,
    port: int,
    topic: str,
    version: str = "5",
    options: str = "",
    framing: str = "sas_queue",
    client_id: str | None = None,
) -> str:
    """Return a source's table for the configuration file. The client identifier is the name by default."""
    return (
        f'[sources.{name}]\ntransport = "mqtt"\nframing = "{framing}"\nurl = "mqtt://127.0.0.1:{port}"\n'
        f'topic = "{topic}"\nclient_id = "{client_id or name}"\nversion = "{version}"\n{options}'
    )


def mqtt_destination(name: str, port: int, topic: str, options: str = "") -> str:
    """Return a destination's table for the configuration file."""
    return f'[destinations.{name}]\ntransport = "mqtt"\nurl = "mqtt://127.0.0.1:{port}"\ntopic = "{topic}"\n{options}'
