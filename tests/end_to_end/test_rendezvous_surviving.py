"""The gateway and its Rendezvous daemon are killed again and again, while attachments come and go."""

from contextlib import ExitStack, suppress
from hashlib import sha256
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any

from adapters.rendezvous.client import DaemonClient, DaemonError
from adapters.rendezvous.settings import DaemonSettings
from app.codecs.rendezvous.daemon import publish, publish_head
from app.testing.waiting import until
from tests.support.forked_gateway import ForkedGateway
from tests.support.gateway import GatewayProcess
from tests.support.length import IS_LONG
from tests.support.rendezvous_daemon import RendezvousDaemon
from tests.support.rendezvous_program import messages
from tests.support.sas_client import Program, binary_file

KILLS = 100 if IS_LONG else 4
IN, OUT = "KILLS.IN", "KILLS.OUT"


class Daemon:
    """A daemon that is killed and begins again on its port."""

    def __init__(self) -> None:
        self.running = RendezvousDaemon()
        self.port = self.running.port

    def kill(self) -> None:
        self.running.stop()
        until(self._begun)

    def stop(self) -> None:
        self.running.stop()

    def _begun(self) -> bool:
        try:
            self.running = RendezvousDaemon(self.port)
        except OSError:
            return False
        return True


class Sending:
    """A program that sends one file after the other, each on a subject of its own, whatever happens to the daemon."""

    def __init__(self, port: int) -> None:
        self._settings = DaemonSettings.model_validate({"daemon": f"tcp:127.0.0.1:{port}", "connect_timeout": 5})
        self.sent: dict[str, bytes] = {}
        self._stop = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Sending":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        program = Program(Random(1))
        while not self._stop.is_set():
            name = f"{len(self.sent)}.bin"
            self.sent[name] = content = program.random.randbytes(program.random.choice([10, 50_000, 400_000]))
            with suppress(DaemonError):
                self._send(f"{IN}.{len(self.sent)}", messages([binary_file(program, name, content)]))
            self._stop.wait(0.02)

    def _send(self, subject: str, bodies: list[bytes]) -> None:
        client = DaemonClient(self._settings, 1 << 20)
        try:
            for body in bodies:
                client.publish(publish(publish_head(subject), body, is_message=True), 5)
            client.confirm(5)
        finally:
            client.close()


def test_what_is_journalled_is_finished_once_whatever_is_killed(tmp_path: Path) -> None:
    random = Random(2)
    with ExitStack() as ending:
        daemon = Daemon()
        ending.callback(daemon.stop)
        process = ForkedGateway(tmp_path, settings(daemon.port))
        ending.callback(process.stop)
        process.start()
        process.await_source("program")
        uploads: dict[str, bytes] = {}
        deliveries: list[str] = []
        with Sending(daemon.port) as sending:
            for number in range(KILLS):
                for _ in range(3):
                    name, content = f"up{len(uploads)}.bin", random.randbytes(200_000)
                    uploads[name] = content
                    deliveries.append(upload(process, name, content))
                had = process.samples().total("messages_received_total")
                process.until(lambda: process.samples().total("messages_received_total") > had + 5)  # noqa: B023
                if number % 2:
                    daemon.kill()
                else:
                    process.kill()
                    process.start()
        process.until(lambda: all(state(process, each) == "sent" for each in deliveries), 120)
        process.until(lambda: all(is_told(process, each) for each in process.listing("/v1/attachments")))
        check(process, sending.sent | uploads)


def settings(port: int) -> str:
    common = f'transport = "rendezvous"\nframing = "sas_rendezvous"\ndaemon = "tcp:127.0.0.1:{port}"\n'
    return (
        f'[sources.program]\n{common}subject = "{IN}.>"\n'
        f'[sources.echo]\n{common}subject = "{OUT}"\n'
        f'[destinations.back]\n{common}subject = "{OUT}"\nretry_first = "0.1s"\nretry_longest = "1s"\n'
    )


def upload(process: GatewayProcess, name: str, content: bytes) -> str:
    files = {"file": (name, content, "application/octet-stream")}
    answer = process.client.post("/v1/messages", data={"destination": "back"}, files=files).raise_for_status()
    return answer.headers["Location"]


def state(process: GatewayProcess, delivery: str) -> str:
    found: str = process.client.get(delivery).json()["state"]
    return found


def check(process: GatewayProcess, sent: dict[str, bytes]) -> None:
    """What is finished is as it was sent, and once; what is not finished misses something, which is told."""
    finished: list[str] = []
    for item in process.listing("/v1/attachments"):
        if item["state"] == "finished":
            assert item["sha256"] == sha256(sent[item["name"]]).hexdigest(), item["name"]
            finished.append(item["name"])
        else:
            assert item["state"] == "receiving", item
    assert len(set(finished)) == len(finished)
    assert len(finished) >= KILLS
    codes = {item["code"] for item in process.listing("/v1/quarantine")}
    assert codes <= {"no-header"}, codes


def is_told(process: GatewayProcess, item: dict[str, Any]) -> bool:
    """Tell whether an attachment is finished, or misses something, which is told.

    Parts of a delivery that has been sent may still be on their way back."""
    if item["state"] == "finished":
        return True
    progress = process.client.get(f"/v1/attachments/{item['id']}").json()["progress"]
    return item["state"] == "receiving" and (progress["parts_expected"] is None or bool(progress["missing_parts"]))
