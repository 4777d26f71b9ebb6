"""SIGTERM under load: what was accepted is not cut, streams end, and the process ends in the time that is stated."""

import signal
import socket
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from random import Random
from threading import Thread
from time import sleep

import httpx
import pytest

from app.main import GRACE_SECONDS
from app.service.gateway import STOP_SECONDS
from tests.support.attackers import csv_rows
from tests.support.gateway import GatewayProcess, mqtt_destination, mqtt_source
from tests.support.loads import messages, mixed
from tests.support.mosquitto import Mosquitto
from tests.support.publish import publish
from tests.support.sas_client import Program, binary_file

pytestmark = pytest.mark.broker

MIB = 1 << 20
TOPIC = "stopping"
PATIENCE = 3
"""Factor of the stated time, for a busy machine."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path) as broker:
        yield broker


class Exchange:
    """A request on a socket, and what comes back."""

    def __init__(self, port: int, request: bytes, *, receiving: int = 1 << 20) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receiving)
        self._socket.settimeout(GRACE_SECONDS * PATIENCE)
        self._socket.connect(("127.0.0.1", port))
        self._socket.sendall(request)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def start(self) -> bytes:
        """Return the first bytes that come."""
        return self._socket.recv(4096)

    def rest(self) -> bytes:
        """Return what comes until the connection is closed."""
        with self._socket:
            return b"".join(iter(lambda: self._socket.recv(1 << 16), b""))


def head(line: str, *fields: str) -> bytes:
    return "\r\n".join([f"{line} HTTP/1.1", "Host: localhost", *fields, "", ""]).encode()


def test_what_was_accepted_is_not_cut(tmp_path: Path, broker: Mosquitto) -> None:
    settings = mqtt_source("sas", broker.port, TOPIC) + mqtt_destination("away", broker.port, "elsewhere")
    program, content = Program(Random(1)), Random(2).randbytes(16 * MIB)
    with GatewayProcess(tmp_path, settings) as process:
        process.await_source("sas")
        large = binary_file(program, "large.bin", content)
        publish(messages(program, [large]), broker.port, TOPIC, "5")
        process.until(lambda: process.listing("/v1/attachments", state="finished"))
        (first,) = process.listing("/v1/attachments")

        download = Exchange(process.port, head(f"GET /v1/attachments/{first['id']}/content"), receiving=64 << 10)
        begun = download.start()
        events = Exchange(process.port, head("GET /v1/events"))
        stream = events.start()
        upload = Exchange(
            process.port, head("PUT /v1/files/away/a.bin", f"Content-Length: {MIB}", "Expect: 100-continue")
        )
        assert upload.start().startswith(b"HTTP/1.1 100 ")
        form = {"destination": "away", "kind": "data-set"}
        converted: list[httpx.Response] = []

        def convert() -> None:
            files = {"file": ("a.csv", csv_rows(MIB // 8))}
            url = f"http://127.0.0.1:{process.port}/v1/messages?dry_run=1"
            converted.append(httpx.post(url, data=form, files=files, timeout=60))

        converting = Thread(target=convert)
        converting.start()
        active = 'http_server_active_requests{http_request_method="POST"} 1.0'
        process.until(lambda: active in process.client.get("/metrics").text, 20)
        sent = mixed(program, 30)
        publishing = Thread(target=publish, args=(messages(program, sent), broker.port, TOPIC, "5"))
        publishing.start()

        assert process.process is not None
        process.process.send_signal(signal.SIGTERM)
        process.until(lambda: '"Shutting down"' in process.log, 20)
        upload.send(bytes(MIB))
        answered = upload.rest()
        sleep(0.5)
        read = begun + download.rest()
        stream += events.rest()
        converting.join(60)
        publishing.join(60)
        assert process.process.wait((GRACE_SECONDS + STOP_SECONDS) * PATIENCE) == 0
        assert answered.startswith(b"HTTP/1.1 202 ")
        assert sha256(read.partition(b"\r\n\r\n")[2]).digest() == sha256(content).digest()
        assert stream.endswith(b"\r\n0\r\n\r\n"), "the stream was cut"
        assert [response.status_code for response in converted] == [200]
        assert "timeout graceful shutdown exceeded" not in process.log

        process.start()
        process.await_source("sas")
        wanted = {each.definition.correl_id.hex(): each for each in (large, *sent)}
        process.until(lambda: len(process.listing("/v1/attachments", state="finished")) >= len(wanted), 20)
        received = {each["correl_id"]: each["sha256"] for each in process.listing("/v1/attachments")}
        assert received.keys() == wanted.keys()
        assert all(received[key] == each.sha256 for key, each in wanted.items() if isinstance(each.content, bytes))
        assert len(process.listing("/v1/deliveries")) == 1
