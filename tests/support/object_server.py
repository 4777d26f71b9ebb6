"""An S3 server in a process of its own, which counts requests, and can delay its answers, lose those to PUT, refuse
requests, and refuse connections.

python -m tests.support.object_server PORT
"""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread
from time import sleep
from typing import Any
from urllib.request import Request, urlopen

import orjson

COUNTS, AT_ONCE, DELAY, REFUSE, LEAVE = "/-/counts", "/-/at-once", "/-/delay/", "/-/refuse/", "/-/leave/"
LOSE = "/-/lose/"
"""The addresses that return the counted requests, and the most that waited at the same time, and that set the seconds
before each answer, the status of all answers (0: as it is), and the seconds for which no connection is accepted; the
last one sets how many PUT have their effect and get no answer."""
START_SECONDS = 30
REFUSAL = b"<Error><Code>InternalError</Code><Message>We encountered an internal error.</Message></Error>"


class Counting:
    """An application that counts requests by method and path, answers late, and passes them on, refuses them or ends
    their connections, before or after they have their effect.

    The lock guards the counts and `_losses`.
    """

    def __init__(self, served: Callable[..., Iterable[bytes]]) -> None:
        self._served = served
        self._refusal = 0
        self.absent = Event()
        self.absence = 0.0
        self._counts: Counter[str] = Counter()
        self._delay = 0.0
        self._losses = 0
        self._running = self._at_once = 0
        self._lock = Lock()

    def __call__(self, environment: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        path = environment["PATH_INFO"]
        if path == COUNTS:
            start("200 OK", [])
            return [orjson.dumps(self._counts)]
        if path == AT_ONCE:
            start("200 OK", [])
            return [orjson.dumps(self._at_once)]
        if path.startswith(DELAY):
            self._at_once = 0
            self._delay = float(path.removeprefix(DELAY))
            start("200 OK", [])
            return []
        if path.startswith(REFUSE):
            self._refusal = int(path.removeprefix(REFUSE))
            start("200 OK", [])
            return []
        if path.startswith(LOSE):
            with self._lock:
                self._losses = int(path.removeprefix(LOSE))
            start("200 OK", [])
            return []
        if path.startswith(LEAVE):
            self.absence = float(path.removeprefix(LEAVE))
            self.absent.set()
            start("200 OK", [("Connection", "close")])
            return []
        if self.absent.is_set():
            raise ConnectionAbortedError
        if self._refusal:
            start(f"{self._refusal} Refused", [("Content-Type", "application/xml"), ("Connection", "close")])
            return [REFUSAL]
        with self._lock:
            self._counts[f"{environment['REQUEST_METHOD']} {path}"] += 1
            self._running += 1
            self._at_once = max(self._at_once, self._running)
        sleep(self._delay)
        with self._lock:
            self._running -= 1
            is_lost = environment["REQUEST_METHOD"] == "PUT" and self._losses > 0
            self._losses -= is_lost
        answer = self._served(environment, start)
        if is_lost:
            b"".join(answer)
            raise ConnectionAbortedError
        return answer


def environment(port: int) -> dict[str, str]:
    """Return the environment variables by which obstore finds the server."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
    }


class Bucket:
    """A bucket of a server."""

    def __init__(self, port: int, name: str) -> None:
        self._port, self._server, self._path = port, f"http://127.0.0.1:{port}", f"/{name}"
        self.url = f"s3://{name}"
        self.name = name
        self._create()

    def _create(self) -> None:
        self.ask(self._path, "PUT")

    def ask(self, path: str, method: str = "GET") -> bytes:
        with urlopen(Request(self._server + path, method=method)) as answer:
            body: bytes = answer.read()
        return body

    def delay(self, seconds: float) -> None:
        self.ask(f"{DELAY}{seconds}")

    def refuse(self, status: int) -> None:
        """Have the server answer all requests with a status, or as it is again: 0."""
        self.ask(f"{REFUSE}{status}")

    def lose(self, count: int) -> None:
        """Have the next PUT, so many, have their effect and get no answer."""
        self.ask(f"{LOSE}{count}")

    def leave(self, seconds: float) -> None:
        """Have the server accept no connections for so long."""
        self.ask(f"{LEAVE}{seconds}")
        sleep(seconds)
        _wait(self._port)

    def at_once(self) -> int:
        """Return the largest number of requests that waited for their answers since the delay was set."""
        at_once: int = orjson.loads(self.ask(AT_ONCE))
        return at_once

    def counts(self, method: str, folder: str) -> Counter[str]:
        """Return the number of requests for each object below a folder."""
        begin = f"{method} {self._path}/{folder}/"
        counted = orjson.loads(self.ask(COUNTS))
        return Counter({key.removeprefix(begin): count for key, count in counted.items() if key.startswith(begin)})


@contextmanager
def serving(port: int) -> Iterator[None]:
    """Serve at a port, until the block ends."""
    command = [sys.executable, "-m", "tests.support.object_server", str(port)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as server:
        try:
            _wait(port)
            yield
        finally:
            server.kill()


def _wait(port: int) -> None:
    for _ in range(START_SECONDS * 10):
        with suppress(OSError), urlopen(f"http://127.0.0.1:{port}{COUNTS}"):
            return
        sleep(0.1)
    raise TimeoutError(f"no object server at port {port}")


def main(port: int) -> None:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app  # noqa: PLC0415
    from werkzeug.serving import WSGIRequestHandler, make_server  # noqa: PLC0415

    class Quiet(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_request(self, *_: object) -> None:
            """Log nothing."""

    os.environ["MOTO_PORT"] = str(port)
    application = Counting(DomainDispatcherApplication(create_backend_app))
    while True:
        server = make_server("127.0.0.1", port, application, threaded=True, request_handler=Quiet)
        serving = Thread(target=server.serve_forever, daemon=True)
        serving.start()
        application.absent.wait()
        server.shutdown()
        server.server_close()
        sleep(application.absence)
        application.absent.clear()


if __name__ == "__main__":
    main(int(sys.argv[1]))
