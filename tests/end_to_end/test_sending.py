"""Deliveries through a real broker and a killed gateway."""

from functools import partial
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest

from tests.support.forked_gateway import ForkedGateway
from tests.support.gateway import GatewayProcess, mqtt_destination, mqtt_source
from tests.support.mosquitto import Mosquitto

pytestmark = pytest.mark.broker

TOPIC = "there/and/back"


@pytest.mark.parametrize(
    ("storage", "size", "kills"),
    [("folder", 12 << 20, (10, 150)), ("servers", 4 << 20, (50,))],
    indirect=["storage"],
)
@pytest.mark.usefixtures("storage")
def test_a_delivery_goes_on_after_a_kill_and_arrives_once(tmp_path: Path, size: int, kills: tuple[int, ...]) -> None:
    content = Random(4).randbytes(size)
    with Mosquitto(tmp_path) as broker:
        back = mqtt_destination("back", broker.port, TOPIC)
        with ForkedGateway(tmp_path, back + mqtt_source("sas", broker.port, TOPIC)) as process:
            process.await_source("sas")
            delivery = upload(process, content)
            for least in kills:
                process.until(partial(is_on_its_way, process, delivery, least), pause=0)
                process.kill()
                process.start()
            process.until(lambda: process.client.get(delivery).json()["state"] == "sent")
            process.until(lambda: process.listing("/v1/attachments", state="finished"))
            (item,) = process.listing("/v1/attachments")
            assert item["sha256"] == sha256(content).hexdigest()
            assert process.client.get(f"/v1/attachments/{item['id']}/content").content == content
            assert process.listing("/v1/quarantine") == []
            process.until(lambda: all(each["complete_at"] for each in process.listing("/v1/messages")))
            assert len(process.listing("/v1/messages")) == 1


def upload(process: GatewayProcess, content: bytes) -> str:
    files = {"file": ("whole.bin", content, "application/octet-stream")}
    answer = process.client.post("/v1/messages", data={"destination": "back"}, files=files).raise_for_status()
    assert answer.status_code == 202
    return answer.headers["Location"]


def is_on_its_way(process: GatewayProcess, delivery: str, least: int) -> bool:
    """Whether so many messages have come since the gateway's start, or all of the delivery's are sent."""
    received = process.samples().total("messages_received_total")
    return received >= least or process.client.get(delivery).json()["state"] == "sent"
