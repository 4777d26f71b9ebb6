"""Attachments of `sas_rendezvous` over MQTT, whose messages are numbered as they come: a restart loses none of them."""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Event, Thread

import pytest
from paho.mqtt.client import Client, MQTTMessageInfo

from tests.end_to_end.test_rendezvous import check
from tests.support.forked_gateway import ForkedGateway
from tests.support.gateway import GatewayProcess, mqtt_source
from tests.support.length import IS_LONG
from tests.support.loads import mixed
from tests.support.mosquitto import Mosquitto
from tests.support.publish import Version, connected
from tests.support.rendezvous_program import messages
from tests.support.sas_client import Attached, Program, binary_file

pytestmark = pytest.mark.broker

KILLS = 20 if IS_LONG else 2
TOPICS, IN_FLIGHT = 6, 20
SESSIONS = pytest.mark.parametrize(("version", "qos"), [("5", 1), ("5", 2), ("3.1.1", 1), ("3.1.1", 2)])


def source(broker: Mosquitto, version: str, qos: int) -> str:
    return mqtt_source("sas", broker.port, "rv/#", version, f"qos = {qos}\n", "sas_rendezvous")


@contextmanager
def publishing(broker: Mosquitto, version: Version = "5") -> Iterator[Client]:
    client = connected(broker.port, version)
    try:
        yield client
    finally:
        client.disconnect()
        client.loop_stop()


def send(client: Client, topic: str, bodies: Sequence[bytes], qos: int) -> None:
    for body in bodies:
        client.publish(topic, body, qos).wait_for_publish(30)


def stop(process: GatewayProcess) -> None:
    assert process.process is not None
    process.process.terminate()
    process.process.wait(60)


def received(process: GatewayProcess) -> float:
    return process.samples().total("messages_received_total", source="sas")


@SESSIONS
def test_planned_restarts_lose_nothing_of_what_is_half_sent(tmp_path: Path, version: Version, qos: int) -> None:
    """Some of each attachment is sent before, some during and some after a restart, also one of the broker."""
    sent = mixed(Program(Random(11)), 12)
    groups = [messages(sent[at : at + 2]) for at in range(0, len(sent), 2)]
    with (
        Mosquitto(tmp_path, persistent=True) as broker,
        ForkedGateway(tmp_path, source(broker, version, qos)) as process,
    ):
        process.await_source("sas")
        for step in range(4):
            with publishing(broker, version) as client:
                count = 0
                for number, bodies in enumerate(groups):
                    some = bodies[len(bodies) * step // 4 : len(bodies) * (step + 1) // 4]
                    send(client, f"rv/{number}", some, qos)
                    count += len(some)
            if step in (0, 2):
                process.until(lambda: received(process) >= count)  # noqa: B023
                stop(process)
                if step == 2:
                    broker.stop()
                    broker.start()
            elif step == 1:
                process.start()
                process.await_source("sas")
        process.start()
        check(process, sent)


class Sending:
    """A program that sends files on several topics at the same time, whatever happens to the gateway."""

    def __init__(self, broker: Mosquitto, version: Version, qos: int) -> None:
        self._broker, self._version, self._qos = broker, version, qos
        self.sent: list[Attached] = []
        self._program = Program(Random(qos))
        self._stop = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Sending":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        random = self._program.random
        left: dict[int, list[bytes]] = {topic: [] for topic in range(TOPICS)}
        waiting: deque[MQTTMessageInfo] = deque()
        with publishing(self._broker, self._version) as client:
            while not self._stop.is_set() or any(left.values()):
                topic = random.randrange(TOPICS)
                if not left[topic] and not self._stop.is_set():
                    content = random.randbytes(random.choice([10, 50_000, 200_000]))
                    self.sent.append(binary_file(self._program, f"{len(self.sent)}.bin", content))
                    left[topic] = messages(self.sent[-1:])
                if left[topic]:
                    info = client.publish(f"rv/{topic}", left[topic].pop(0), self._qos)
                    waiting.append(info)
                    self._stop.wait(random.choice([0, 0, 0.02]))
                if len(waiting) > IN_FLIGHT:
                    waiting.popleft().wait_for_publish(30)
            for info in waiting:
                info.wait_for_publish(30)


@SESSIONS
def test_whenever_the_gateway_is_killed_every_attachment_is_finished_once(
    tmp_path: Path, version: Version, qos: int
) -> None:
    random = Random(version + str(qos))
    with Mosquitto(tmp_path) as broker, ForkedGateway(tmp_path, source(broker, version, qos)) as process:
        process.await_source("sas")
        with Sending(broker, version, qos) as sending:
            for _ in range(KILLS):
                process.until(lambda: received(process) > 0)
                Event().wait(random.uniform(0, 0.6))
                process.kill()
                process.start()
        check(process, sending.sent)
        assert len(sending.sent) >= KILLS
