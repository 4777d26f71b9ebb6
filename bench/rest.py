"""REST with one worker, against uvicorn doing the same from memory in the same run.

memory   a bare ASGI application: streams 64 MiB in 1 MiB pieces out of memory, and discards what it is sent
gateway  the REST application on real adapters: content from the store (`download`) and, before it is copied there, from
         the journal (`journal`); 64 MiB by ranges of 16 MiB (`range`); a multipart upload that is parsed, hashed and on
         disk when it is answered (`upload`)

Both are processes of their own, and the client reads as fast as it can. Rounds take turns; the best of each counts, in
MB/s of content. What was uploaded is removed after each round, so that every round writes to memory that the machine
has had before. Run it as `python -m bench.rest`.
"""

import argparse
import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import uvicorn

SIZE = 64 << 20
PIECE = 1 << 20
RANGE = 16 << 20
BOUNDARY = "the-boundary-of-this-benchmark"


def content() -> bytes:
    """Return the same random bytes in every process."""
    return Random(1).randbytes(SIZE)


# --- servers ------------------------------------------------------------------------------------------------------


async def _serve_memory(scope: Any, receive: Any, send: Any, data: memoryview) -> None:
    if scope["method"] == "POST":
        while (await receive()).get("more_body"):
            pass
        data = data[:0]
    selected = next((value for name, value in scope["headers"] if name == b"range"), None)
    first, last = (int(n) for n in selected[6:].split(b"-")) if selected else (0, len(data) - 1)
    length = str(last + 1 - first).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]})
    for at in range(first, last + 1, PIECE):
        await send({"type": "http.response.body", "body": data[at : min(at + PIECE, last + 1)], "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def memory_application() -> tuple[Any, dict[str, str]]:
    data = memoryview(content())

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await _serve_memory(scope, receive, send, data)

    return application, dict.fromkeys(("download", "journal", "range", "upload"), "/")


def gateway_application(folder: Path) -> tuple[Any, dict[str, str]]:
    from app.web.app import create_app  # noqa: PLC0415 - the other server must not carry it
    from tests.web.stock import Stock  # noqa: PLC0415

    stock = Stock(folder)
    stored = f"/v1/attachments/{stock.stored(content()).id}/content"
    journalled = f"/v1/attachments/{stock.journalled(content(), 32 << 10).id}/content"
    paths = {"download": stored, "journal": journalled, "range": stored, "upload": "/v1/messages"}
    return create_app(stock.gateway), paths


def serve(which: str, folder: Path) -> None:
    """Run a server in this process: print its port and its paths in one line, then serve until it is stopped."""
    application, paths = memory_application() if which == "memory" else gateway_application(folder)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(json.dumps({"port": listener.getsockname()[1], "paths": paths}), flush=True)
        config = uvicorn.Config(application, lifespan="auto", log_config=None, access_log=False)
        uvicorn.Server(config).run(sockets=[listener])


class Server:
    """A server's process, as seen by the client."""

    def __init__(self, port: int, paths: dict[str, str]) -> None:
        self.port, self.paths = port, paths


@contextmanager
def running(which: str, folder: Path) -> Iterator[Server]:
    command = [sys.executable, "-m", "bench.rest", "--serve", which, "--folder", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Server(**json.loads(process.stdout.readline()))
        finally:
            process.terminate()


# --- the client ---------------------------------------------------------------------------------------------------


class Connection:
    """A keep-alive connection that reads bodies into one buffer."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = memoryview(bytearray(SIZE + (1 << 16)))

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, head: str, body: bytes = b"") -> tuple[int, memoryview]:
        """Send a request; return its status and the body of its response, which is valid until the next request."""
        self._socket.sendall(f"{head}\r\nHost: bench\r\n\r\n".encode())
        if body:
            self._socket.sendall(body)
        read = end = 0
        while not end:
            read += self._received(read)
            end = bytes(self._buffer[: min(read, 1 << 14)]).find(b"\r\n\r\n") + 4 if read else 0
            end = 0 if end == 3 else end
        fields = bytes(self._buffer[:end]).decode("latin-1").lower()
        whole = end + int(fields.partition("content-length: ")[2].split("\r")[0])
        while read < whole:
            read += self._received(read)
        return int(fields.split(" ")[1]), self._buffer[end:whole]

    def _received(self, at: int) -> int:
        count = self._socket.recv_into(self._buffer[at:])
        if not count:
            raise ConnectionError("the server closed the connection")
        return count


def get(path: str) -> Callable[[Connection], memoryview]:
    def whole(connection: Connection) -> memoryview:
        status, body = connection.ask(f"GET {path} HTTP/1.1")
        assert status == HTTPStatus.OK
        assert len(body) == SIZE
        return body

    return whole


def get_ranges(path: str) -> Callable[[Connection], memoryview]:
    def ranges(connection: Connection) -> memoryview:
        body = memoryview(b"")
        for first in range(0, SIZE, RANGE):
            status, body = connection.ask(f"GET {path} HTTP/1.1\r\nRange: bytes={first}-{first + RANGE - 1}")
            assert status in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT)
            assert len(body) == RANGE
        return body

    return ranges


def post(path: str, data: bytes) -> Callable[[Connection], memoryview]:
    form = (
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="destination"\r\n\r\npartner\r\n'
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="random.bin"\r\n\r\n'
    ).encode()
    body = form + data + f"\r\n--{BOUNDARY}--\r\n".encode()
    head = (
        f"POST {path} HTTP/1.1\r\nContent-Type: multipart/form-data; boundary={BOUNDARY}\r\nContent-Length: {len(body)}"
    )

    def upload(connection: Connection) -> memoryview:
        status, answer = connection.ask(head, body)
        assert status in (HTTPStatus.OK, HTTPStatus.ACCEPTED), bytes(answer)
        return answer

    return upload


def requests(server: Server, data: bytes) -> dict[str, Callable[[Connection], memoryview]]:
    paths = server.paths
    return {
        "download": get(paths["download"]),
        "journal": get(paths["journal"]),
        "range": get_ranges(paths["range"]),
        "upload": post(paths["upload"], data),
    }


def check(connection: Connection, what: dict[str, Callable[[Connection], memoryview]], data: bytes) -> None:
    """Assert, before the measurement, that the gateway serves and accepts the right bytes."""
    digest = sha256(data).hexdigest()
    for name in ("download", "journal"):
        assert sha256(what[name](connection)).hexdigest() == digest
    assert json.loads(bytes(what["upload"](connection)))["attachments"][0]["sha256"] == digest


def measure(rounds: int, folder: Path) -> dict[str, dict[str, float]]:
    """Return the best MB/s by server and request."""
    data = content()
    best: dict[str, dict[str, float]] = {"memory": {}, "gateway": {}}
    with ExitStack() as stack:
        servers = {which: stack.enter_context(running(which, folder)) for which in best}
        wires = {which: stack.enter_context(Connection(server.port)) for which, server in servers.items()}
        todo = {which: requests(server, data) for which, server in servers.items()}
        check(wires["gateway"], todo["gateway"], data)
        for _ in range(rounds):
            for request in todo["memory"]:
                for which, connection in wires.items():
                    started = perf_counter()
                    todo[which][request](connection)
                    speed = SIZE / (perf_counter() - started) / 1e6
                    best[which][request] = max(best[which].get(request, 0.0), speed)
                for uploaded in folder.glob("content/outgoing/*/*"):
                    uploaded.unlink()
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--folder", type=Path, help="where the gateway keeps its data (default: a temporary folder)")
    parser.add_argument("--serve", choices=["memory", "gateway"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve, arguments.folder)
        return
    with TemporaryDirectory(dir=arguments.folder) as folder:
        best = measure(arguments.rounds, Path(folder))
    print(f"{'MB/s':>10} {'memory':>8} {'gateway':>8}")
    for request, memory in best["memory"].items():
        print(f"{request:>10} {memory:8.0f} {best['gateway'][request]:8.0f}")
    ratios = {request: best["gateway"][request] / memory for request, memory in best["memory"].items()}
    print("ratios: " + " ".join(f"{request}_over_memory={ratio:.2f}" for request, ratio in ratios.items()))


if __name__ == "__main__":
    main()
