"""Two paths of the same messages, a queue and a topic: what one loses, the other one brings."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from app.model.message import PhysicalMessage
from tests.support.forked_gateway import ForkedGateway
from tests.support.gateway import mqtt_source
from tests.support.loads import assert_received, messages, mixed
from tests.support.mosquitto import Mosquitto
from tests.support.mq import mq_source, put
from tests.support.mqi import load
from tests.support.publish import publish
from tests.support.queue_manager import QueueManager
from tests.support.sas_client import Program, binary_file, disordered

pytestmark = pytest.mark.broker

QUEUE, TOPIC = "ORDERS", "orders"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path) as running:
        yield running


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[QueueManager]:
    with QueueManager(tmp_path / "queue-manager") as running:
        running.define(QUEUE, maxdepth=100_000)
        yield running


def test_each_path_loses_a_third_and_everything_is_received_once(
    broker: Mosquitto, manager: QueueManager, tmp_path: Path
) -> None:
    random = Random(36)
    program = Program(random, body_limit=2_000)
    attachments = [*mixed(program, 24), *(binary_file(program, f"{n}", random.randbytes(30_000)) for n in range(6))]
    paths: tuple[list[PhysicalMessage], list[PhysicalMessage]] = ([], [])
    for message in messages(program, attachments):
        kept = random.randrange(3)  # by both, or by one of them
        for number, path in enumerate(paths):
            if kept in (number, 2):
                path.append(message)
    settings = mqtt_source("orders", broker.port, TOPIC) + mq_source("second", manager, QUEUE, 'same_as = "orders"\n')
    with ForkedGateway(tmp_path, settings) as process:
        process.await_source("orders")
        put(load("pymqi"), manager, QUEUE, disordered(paths[0], random))
        publish(disordered(paths[1], random), broker.port, TOPIC, "5")
        assert_received(process, attachments)
        assert {item["source"] for item in process.listing("/v1/attachments")} == {"orders"}
        samples = process.samples()
        assert samples.total("duplicates_total", source="orders") > 0
        assert samples.total("messages_received_total") == samples.total("messages_received_total", source="orders")
        assert process.client.get("/health/ready").json()["checks"].keys() >= {"source orders", "source second"}
