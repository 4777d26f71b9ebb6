"""What clients may ask of a gateway that runs as a process: neither many conversions, nor files and requests that ask
for all there is, keep it from receiving and answering."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from random import Random
from threading import Event
from time import monotonic, sleep

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support import processes
from tests.support.gateway import GatewayProcess, mqtt_destination, mqtt_source
from tests.support.loads import messages, mixed
from tests.support.mosquitto import Mosquitto
from tests.support.publish import publish
from tests.support.sas_client import Program
from tests.support.waiting import until

TOPIC = "limits"
MIB = 1 << 20
MOST_MEMORY = 1 << 30
SLOWEST_HEALTH = 1.0
HTTP = "connections = 100\nheader_timeout = 2\nstall_timeout = 5\n"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path) as broker:
        yield broker


@pytest.fixture
def process(tmp_path: Path, broker: Mosquitto) -> Iterator[GatewayProcess]:
    settings = mqtt_source("sas", broker.port, TOPIC) + mqtt_destination("away", broker.port, "elsewhere")
    with GatewayProcess(tmp_path, settings, http=HTTP) as process:
        process.await_source("sas")
        yield process


def bomb(size: int = 640 * MIB) -> bytes:
    """A Parquet file of some kilobytes with one page of so many bytes."""
    column = pa.array([bytes(MIB)] * (size // MIB))
    target = BytesIO()
    pq.write_table(
        pa.table({"X": column}),
        target,
        compression="zstd",
        use_dictionary=False,
        data_page_size=2 * size,
        write_statistics=False,
    )
    return target.getvalue()


def rows(size: int = 2 * MIB) -> bytes:
    """CSV of so many bytes, of short cells, which take long to look at."""
    head, line = b"A,B,C,D,E,F,G,H,I,J,K,L,M,N,O\n", b"1,2,3,4,5,6,7,8,9,a,b,c,d,e,f\n"
    return head + line * (size // len(line))


def dry_run(process: GatewayProcess, name: str, data: bytes) -> httpx.Response:
    form = {"destination": "away", "kind": "data-set"}
    address = f"http://127.0.0.1:{process.port}/v1/messages?dry_run=true"
    with httpx.Client(timeout=300) as client:
        return client.post(address, data=form, files={"file": (name, data)})


def memory(process: GatewayProcess) -> int:
    """Bytes of the gateway and of all processes it has started."""
    assert process.process is not None
    return sum(map(processes.memory, processes.family(process.process.pid)))


ASKING = """
import http.client, sys, time
while True:
    began = time.monotonic()
    asking = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=30)
    asking.request("GET", "/health/live")
    assert asking.getresponse().status == 200
    asking.close()
    print(time.monotonic() - began, flush=True)
    time.sleep(0.02)
"""


class Watch:
    """Asks for health again and again, in a process that has nothing else to do, and adds memory up."""

    def __init__(self, process: GatewayProcess, folder: Path) -> None:
        self._process, self._stop, self._seconds = process, Event(), folder / "seconds"
        self.peak = 0

    def run(self) -> None:
        with self._seconds.open("w") as file:
            asking = subprocess.Popen([sys.executable, "-c", ASKING, str(self._process.port)], stdout=file)
        while not self._stop.wait(0.1):
            self.peak = max(self.peak, memory(self._process))
        assert asking.poll() is None
        asking.kill()
        asking.wait()

    def stop(self) -> None:
        self._stop.set()

    @property
    def seconds(self) -> list[float]:
        return sorted(float(line) for line in self._seconds.read_text().splitlines())

    @property
    def p99(self) -> float:
        return self.seconds[int(len(self.seconds) * 0.99)]


def test_health_memory_and_intake_while_conversions_run_and_a_bomb_is_thrown(
    process: GatewayProcess, broker: Mosquitto, tmp_path: Path
) -> None:
    program = Program(Random(1))
    sent = mixed(program, 20)
    watch, table, explosive = Watch(process, tmp_path), rows(), bomb()
    assert len(explosive) < 128 << 10
    with ThreadPoolExecutor(64) as pool, ExitStack() as stack:
        stack.callback(watch.stop)
        watching = pool.submit(watch.run)
        running = [pool.submit(dry_run, process, "rows.csv", table) for _ in range(2)]
        thrown = [pool.submit(dry_run, process, "bomb.parquet", explosive)]
        sleep(0.5)
        running += [pool.submit(dry_run, process, "rows.csv", table) for _ in range(48)]
        thrown += [pool.submit(dry_run, process, "bomb.parquet", explosive)]
        publish(messages(program, sent), broker.port, TOPIC, "5")
        wanted = {attached.definition.correl_id.hex() for attached in sent}
        until(lambda: {item["correl_id"] for item in process.listing("/v1/attachments", state="finished")} == wanted)
        assert not all(each.done() for each in running), "intake was to go on while conversions run"
        statuses = [each.result().status_code for each in running]
        exploded = [each.result() for each in thrown]
        watch.stop()
        watching.result()
    assert set(statuses) <= {200, 503}
    assert statuses.count(200) >= 3
    words = [response.json()["type"] for response in exploded]
    assert words[0] == "/problems/conversion-limit"
    assert set(words) <= {"/problems/conversion-limit", "/problems/busy"}
    print(f"health p99 {watch.p99:.3f} s of {len(watch.seconds)}, memory {watch.peak / MIB:.0f} MiB, {statuses}")  # noqa: T201
    assert watch.p99 < SLOWEST_HEALTH
    assert watch.peak < MOST_MEMORY


def test_a_conversion_ends_with_its_client(process: GatewayProcess) -> None:
    assert dry_run(process, "rows.csv", rows(1000)).status_code == 200
    body = (
        b'--b\r\nContent-Disposition: form-data; name="destination"\r\n\r\naway\r\n'
        b'--b\r\nContent-Disposition: form-data; name="kind"\r\n\r\ndata-set\r\n'
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="x.csv"\r\n\r\n'
        + rows(60 * MIB)
        + b"\r\n--b--\r\n"
    )
    head = f"POST /v1/messages?dry_run=1 HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
    with socket.create_connection(("127.0.0.1", process.port)) as client:
        client.sendall(head.encode() + b"Content-Type: multipart/form-data; boundary=b\r\n\r\n" + body)
        process.until(lambda: busy(process))
    process.until(lambda: not busy(process), 5)


def busy(process: GatewayProcess) -> bool:
    """Whether a process that the gateway has started computes."""
    assert process.process is not None
    children = processes.family(process.process.pid)[1:]
    before = [processes.processor_seconds(each) for each in children]
    sleep(0.3)
    return any(processes.processor_seconds(each) - then >= 0.02 for each, then in zip(children, before, strict=True))


def test_a_trace_of_millions_of_frames_is_refused(process: GatewayProcess) -> None:
    started = monotonic()
    response = process.client.post("/v1/trace", content=b"\xc0\x00" * (2 * MIB))
    assert (response.status_code, response.json()["type"]) == (413, "/problems/too-large")
    assert monotonic() - started < 20
    assert memory(process) < MOST_MEMORY


def test_headers_without_end_are_refused(process: GatewayProcess) -> None:
    before = memory(process)
    sent = 0
    with socket.create_connection(("127.0.0.1", process.port), 10) as client:
        client.sendall(b"GET /v1/attachments HTTP/1.1\r\nHost: x\r\n")
        try:
            while sent < 100 * MIB:
                client.sendall(b"X-More: " + b"x" * 8000 + b"\r\n")
                sent += 8000
        except OSError:
            pass
    assert sent < 20 * MIB
    assert memory(process) - before < 50 * MIB


def test_silent_connections_make_room_and_time_out(process: GatewayProcess) -> None:
    silent = [socket.create_connection(("127.0.0.1", process.port)) for _ in range(1100)]
    try:
        started = monotonic()
        with httpx.Client(timeout=10) as client:
            for path in ("/health/live", "/v1/attachments"):
                assert client.get(f"http://127.0.0.1:{process.port}{path}").status_code == 200
        assert monotonic() - started < 5
        assert process.process is not None
        pid = process.process.pid
        process.until(lambda: processes.sockets(pid) < 30, 20)
    finally:
        for each in silent:
            each.close()


def test_a_head_that_comes_too_slowly_is_refused(process: GatewayProcess) -> None:
    with socket.create_connection(("127.0.0.1", process.port), 10) as client:
        client.sendall(b"GET /health/live HTTP/1.1\r\nHo")
        assert client.recv(100).startswith(b"HTTP/1.1 408 ")
