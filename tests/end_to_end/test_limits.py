"""Limits of a gateway that runs as a process, one by one; `test_attack.py` has all of them at once."""

import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support import processes
from tests.support.attackers import csv_rows
from tests.support.forked_gateway import ForkedGateway
from tests.support.gateway import GatewayProcess, mqtt_destination, mqtt_source
from tests.support.mosquitto import Mosquitto

pytestmark = pytest.mark.broker

TOPIC = "limits"
MIB = 1 << 20
MOST_MEMORY = 1 << 30
HTTP = "connections = 100\nheader_timeout = 2\nstall_timeout = 5\n"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path) as broker:
        yield broker


@pytest.fixture
def process(tmp_path: Path, broker: Mosquitto) -> Iterator[GatewayProcess]:
    settings = mqtt_source("sas", broker.port, TOPIC) + mqtt_destination("away", broker.port, "elsewhere")
    with ForkedGateway(tmp_path, settings, http=HTTP) as process:
        process.await_source("sas")
        yield process


def dry_run(process: GatewayProcess, name: str, data: bytes) -> httpx.Response:
    form = {"destination": "away", "kind": "data-set"}
    address = f"http://127.0.0.1:{process.port}/v1/messages?dry_run=true"
    with httpx.Client(timeout=300) as client:
        return client.post(address, data=form, files={"file": (name, data)})


def memory(process: GatewayProcess) -> int:
    """Bytes of the gateway and of all processes it has started."""
    assert process.process is not None
    return sum(map(processes.memory, processes.family(process.process.pid)))


def test_a_conversion_ends_with_its_client(process: GatewayProcess) -> None:
    assert dry_run(process, "rows.csv", csv_rows(1000)).status_code == 200
    body = (
        b'--b\r\nContent-Disposition: form-data; name="destination"\r\n\r\naway\r\n'
        b'--b\r\nContent-Disposition: form-data; name="kind"\r\n\r\ndata-set\r\n'
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="x.csv"\r\n\r\n'
        + csv_rows(60 * MIB)
        + b"\r\n--b--\r\n"
    )
    head = f"POST /v1/messages?dry_run=1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    with socket.create_connection(("127.0.0.1", process.port)) as client:
        client.sendall(head.encode() + b"Content-Type: multipart/form-data; boundary=b\r\n\r\n" + body)
        process.until(lambda: busy(process))
    process.until(lambda: not busy(process), 5)


def busy(process: GatewayProcess) -> bool:
    """Whether a process that the gateway has started computes."""
    assert process.process is not None
    return processes.is_computing(process.process.pid, 0.02)


def test_a_trace_of_millions_of_frames_is_refused(process: GatewayProcess) -> None:
    response = process.client.post("/v1/trace", content=b"\xc0\x00" * (2 * MIB), timeout=300)
    assert (response.status_code, response.json()["type"]) == (413, "/problems/too-large")
    assert memory(process) < MOST_MEMORY


def test_a_head_that_comes_too_slowly_is_refused(process: GatewayProcess) -> None:
    with socket.create_connection(("127.0.0.1", process.port), 10) as client:
        client.sendall(b"GET /health/live HTTP/1.1\r\nHo")
        assert client.recv(100).startswith(b"HTTP/1.1 408 ")
