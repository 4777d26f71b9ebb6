"""REST with one worker, against other servers that do the same in the same run.

nginx      a worker that serves the object of the content store by `sendfile`
starlette  bare uvicorn: `FileResponse` for small files; and it discards what it is sent
gateway    the REST application on real adapters, in its own HTTP server: 64 MiB from the content store (`download`),
           by ranges of 16 MiB (`range`) and, before they are copied there, from the journal (`journal`); a hundred
           files of 4 to 32 KiB on as many connections at once (`small_downloads`); a multipart upload that is parsed,
           hashed and on disk when it is answered (`upload`); and a page of 50 attachments (`list`), which has no peer

Each server is a process of its own, and the client reads as fast as it can. Rounds take turns; the best of each counts.
`ms` is the processor time of the server for one request, over all rounds. What was uploaded is removed after each
round, so that every round writes to memory that the machine has had before. nginx is installed with
`.ci/debian-packages nginx-light`. Run it as `python -m bench.rest`.
"""

import argparse
import gc
import json
import os
import select
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from app.testing.waiting import until
from tests.support.mosquitto import free_port

SIZE = 64 << 20
RANGE = 16 << 20
SMALL = 100
"""The number of small files, and of connections that ask for them at once."""
SMALLEST, LARGEST = 4 << 10, 32 << 10
IDLE_SECONDS = 60
"""How long a connection may wait for its next request: a busy machine may keep the client from sending it."""
TIMES = 20
"""How often each small file and the list are asked for in a round."""
BOUNDARY = "the-boundary-of-this-benchmark"
PEERS = {
    "download": "nginx",
    "range": "nginx",
    "journal": "nginx",
    "small_downloads": "starlette",
    "upload": "starlette",
    "list": None,
}
NGINX = shutil.which("nginx", path=os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin")))
_TICKS = os.sysconf("SC_CLK_TCK")


def content() -> bytes:
    """Return the same random bytes in every process."""
    return Random(1).randbytes(SIZE)


def small_contents() -> list[bytes]:
    random = Random(2)
    return [random.randbytes(random.randrange(SMALLEST, LARGEST + 1)) for _ in range(SMALL)]


# --- servers ------------------------------------------------------------------------------------------------------


def starlette_server(folder: Path) -> tuple[uvicorn.Config, dict[str, Any]]:
    for number, data in enumerate(small_contents()):
        (folder / f"small-{number}").write_bytes(data)

    async def small(request: Request) -> Response:
        return FileResponse(folder / f"small-{request.path_params['number']}")

    async def discard(request: Request) -> Response:
        async for _ in request.stream():
            pass
        return Response()

    routes = [Route("/small/{number}", small), Route("/upload", discard, methods=["POST"])]
    config = uvicorn.Config(
        Starlette(routes=routes), log_config=None, access_log=False, timeout_keep_alive=IDLE_SECONDS
    )
    return config, {"upload": "/upload", "small_downloads": [f"/small/{number}" for number in range(SMALL)]}


def gateway_server(folder: Path) -> tuple[uvicorn.Config, dict[str, Any]]:
    from app.service.threads import collect_seldom, keep_memory, switch_soon  # noqa: PLC0415 - not for other servers
    from app.web.app import create_app  # noqa: PLC0415
    from app.web.server.uvicorn_configuration import configuration  # noqa: PLC0415
    from tests.web.stock import Stock  # noqa: PLC0415

    keep_memory()  # this and what follows as the command does
    stock = Stock(folder)
    small = [stock.stored(data).id for data in small_contents()]
    record = stock.stored(content())
    stored, journalled = record.id, stock.journalled(content(), 32 << 10).id
    paths = {
        "download": f"/v1/attachments/{stored}/content",
        "range": f"/v1/attachments/{stored}/content",
        "journal": f"/v1/attachments/{journalled}/content",
        "upload": "/v1/messages",
        "small_downloads": [f"/v1/attachments/{each}/content" for each in small],
        "list": "/v1/attachments?limit=50",
        "object": record.object_name,
    }
    gc.collect()
    collect_seldom()
    switch_soon()
    return configuration(create_app(stock.gateway), stock.settings.http, timeout_keep_alive=IDLE_SECONDS), paths


def serve(which: str, folder: Path) -> None:
    """Run a server in this process: print its port and its paths in one line, then serve until it is stopped."""
    config, paths = starlette_server(folder) if which == "starlette" else gateway_server(folder)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(json.dumps({"port": listener.getsockname()[1], "paths": paths}), flush=True)
        uvicorn.Server(config).run(sockets=[listener])


class Server(NamedTuple):
    """A server, as seen by the client. `process` is the one that serves."""

    process: int
    port: int
    paths: dict[str, Any]

    def seconds(self) -> float:
        """Return the processor seconds it has taken."""
        fields = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS


@contextmanager
def running(which: str, folder: Path) -> Iterator[Server]:
    command = [sys.executable, "-m", "bench.rest", "--serve", which, "--folder", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Server(process.pid, **json.loads(process.stdout.readline()))
        finally:
            process.terminate()


@contextmanager
def running_nginx(folder: Path, path: str) -> Iterator[Server]:
    """Run nginx with one process, for a file of the content store."""
    if NGINX is None:
        sys.exit("nginx is missing: install it with .ci/debian-packages nginx-light")
    port = free_port()
    temporary = "".join(
        f"{what}_temp_path {folder}/nginx-{what};" for what in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    configuration = folder / "nginx.conf"
    configuration.write_text(
        f"daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/nginx.log; events {{}}\n"
        f"http {{ access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000; {temporary}\n"
        f"server {{ listen 127.0.0.1:{port}; root {folder}/content; }} }}\n"
    )
    with subprocess.Popen([NGINX, "-e", f"{folder}/nginx.log", "-c", str(configuration)]) as process:
        try:
            until(lambda: _answers(port))
            yield Server(process.pid, port, dict.fromkeys(("download", "range", "journal"), f"/{path}"))
        finally:
            process.terminate()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


# --- the client ---------------------------------------------------------------------------------------------------


class Connection:
    """A keep-alive connection that reads bodies into one buffer."""

    def __init__(self, port: int, size: int = SIZE) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = memoryview(bytearray(size + (1 << 16)))

    def __enter__(self) -> "Connection":
        return self

    def fileno(self) -> int:
        return self._socket.fileno()

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, head: str, body: bytes = b"") -> tuple[int, memoryview]:
        """Send a request; return its status and the body of its response, which is valid until the next request."""
        self.send(head, body)
        return self.receive()

    def send(self, head: str, body: bytes = b"") -> None:
        self._socket.sendall(f"{head}\r\nHost: localhost\r\n\r\n".encode())
        if body:
            self._socket.sendall(body)

    def receive(self) -> tuple[int, memoryview]:
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
        assert status == HTTPStatus.OK, bytes(body[:1000])
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


class Peer:
    """A server, and what was measured with it."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.best: dict[str, float] = {}
        self.seconds: dict[str, float] = {}
        self.asked: dict[str, int] = {}

    def run(self, what: str, data: bytes) -> None:
        """Do this once, on new connections; note what it took: content in MB/s, or requests a second."""
        path, port = self.server.paths[what], self.server.port
        asked, amount = 1, SIZE / 1e6
        with ExitStack() as stack:
            count, size = (len(path), LARGEST) if what == "small_downloads" else (1, SIZE)
            wires = [stack.enter_context(Connection(port, size)) for _ in range(count)]
            before, started = self.server.seconds(), perf_counter()
            if what == "range":
                get_ranges(path)(wires[0])
                asked = SIZE // RANGE
            elif what == "upload":
                post(path, data)(wires[0])
            elif what == "small_downloads":
                get_small(wires, path)
                asked = amount = TIMES * len(path)
            elif what == "list":
                for _ in range(TIMES):
                    assert wires[0].ask(f"GET {path} HTTP/1.1")[0] == HTTPStatus.OK
                asked = amount = TIMES
            else:
                get(path)(wires[0])
            self.best[what] = max(self.best.get(what, 0.0), amount / (perf_counter() - started))
            self.seconds[what] = self.seconds.get(what, 0.0) + self.server.seconds() - before
            self.asked[what] = self.asked.get(what, 0) + asked


def get_small(wires: Sequence[Connection], paths: Sequence[str]) -> None:
    """Ask for all small files at once, each on a connection of its own, and again when it has come: `TIMES` times."""
    left = dict.fromkeys((wire.fileno() for wire in wires), TIMES)
    asking = {wire.fileno(): (wire, f"GET {path} HTTP/1.1") for wire, path in zip(wires, paths, strict=True)}
    with select.epoll() as poll:
        for wire, head in asking.values():
            poll.register(wire.fileno(), select.EPOLLIN)
            wire.send(head)
        while left:
            for descriptor, _ in poll.poll():
                wire, head = asking[descriptor]
                status, body = wire.receive()
                assert status == HTTPStatus.OK
                assert len(body) >= SMALLEST
                left[descriptor] -= 1
                if left[descriptor]:
                    wire.send(head)
                else:
                    del left[descriptor]


def check(gateway: Peer, data: bytes) -> None:
    """Assert, before the measurement, that the gateway serves and accepts the right bytes."""
    digest, paths = sha256(data).hexdigest(), gateway.server.paths
    with Connection(gateway.server.port) as connection:
        for name in ("download", "journal"):
            assert sha256(get(paths[name])(connection)).hexdigest() == digest
        for path, small in zip(paths["small_downloads"], small_contents(), strict=True):
            assert connection.ask(f"GET {path} HTTP/1.1")[1] == small
        assert json.loads(bytes(post(paths["upload"], data)(connection)))["attachments"][0]["sha256"] == digest


def measure(rounds: int, folder: Path, parts: Sequence[str]) -> dict[str, Peer]:
    data = content()
    with ExitStack() as stack:
        servers = {which: stack.enter_context(running(which, folder)) for which in ("gateway", "starlette")}
        if "nginx" in map(PEERS.get, parts):
            servers["nginx"] = stack.enter_context(running_nginx(folder, servers["gateway"].paths["object"]))
        peers = {which: Peer(server) for which, server in servers.items()}
        check(peers["gateway"], data)
        for _ in range(rounds):
            for what in parts:
                for which in (PEERS[what], "gateway"):
                    if which is not None:
                        peers[which].run(what, data)
                for uploaded in folder.glob("content/outgoing/*/*"):
                    uploaded.unlink()
    return peers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--parts", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--folder", type=Path, help="where the gateway keeps its data (default: a temporary folder)")
    parser.add_argument("--serve", choices=["starlette", "gateway"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve, arguments.folder)
        return
    with TemporaryDirectory(dir=arguments.folder) as folder:
        peers = measure(arguments.rounds, Path(folder), arguments.parts)
    gateway, ratios = peers["gateway"], {}
    print(f"{'':>16} {'peer':>10} {'its best':>9} {'ms':>7}  {'gateway':>9} {'ms':>7}")
    for what in arguments.parts:
        which, unit = PEERS[what], "a second" if what in ("small_downloads", "list") else "MB/s"
        peer = None if which is None else peers[which]
        theirs = "" if peer is None else _figures(peer, what)
        print(f"{what:>16} {which or '':>10} {theirs:>17}  {_figures(gateway, what)} {unit}")
        if peer is not None:
            ratios[f"{what}_over_{which}"] = gateway.best[what] / peer.best[what]
    print("ratios: " + " ".join(f"{name}={ratio:.2f}" for name, ratio in ratios.items()))


def _figures(peer: Peer, what: str) -> str:
    return f"{peer.best[what]:9.0f} {1000 * peer.seconds[what] / peer.asked[what]:7.2f}"


if __name__ == "__main__":
    main()
