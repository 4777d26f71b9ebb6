"""Files over MQTT through a real Mosquitto and a gateway of its own, in and out."""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.file_transfer_program import sent_file
from tests.support.forked_gateway import ForkedGateway
from tests.support.gateway import GatewayProcess, mqtt_destination, mqtt_source
from tests.support.group_loads import upload
from tests.support.loads import check_each
from tests.support.mosquitto import Mosquitto
from tests.support.publish import Version, connected

pytestmark = pytest.mark.broker

PREFIXES = ("$file", "$file-async")
SIZES = (0, 1, 999, 32_000, 300_000)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path) as running:
        yield running


def source(broker: Mosquitto, version: Version = "5") -> str:
    topics = '", "'.join(f"{prefix}/#" for prefix in PREFIXES)
    table = mqtt_source("devices", broker.port, topics, version, framing="file_transfer")
    return table.replace(f'"{topics}"', f'["{topics}"]')


def publish(publishes: Iterable[tuple[str, bytes]], port: int, version: Version) -> None:
    client = connected(port, version)
    sent = [client.publish(topic, payload, 1) for topic, payload in publishes]
    for each in sent:
        each.wait_for_publish(60)
    client.disconnect()
    client.loop_stop()


def check(process: GatewayProcess, contents: dict[str, bytes]) -> None:
    """Assert that the gateway has each of these files once and unchanged, and nothing else."""
    process.until(lambda: len(process.listing("/v1/attachments", state="finished")) >= len(contents))
    received = {item["name"]: item for item in process.listing("/v1/attachments")}
    assert len(process.listing("/v1/attachments")) == len(contents)
    assert process.listing("/v1/quarantine") == []

    def check_one(item: dict[str, Any]) -> None:
        content = contents[item["name"]]
        assert (item["kind"], item["size"], item["sha256"]) == (
            "binary-file",
            len(content),
            sha256(content).hexdigest(),
        )
        assert process.client.get(f"/v1/attachments/{item['id']}/content").content == content

    check_each(check_one, received.values())


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_segments_in_any_order_come_out_once_and_whole_through_kills(
    broker: Mosquitto, tmp_path: Path, version: Version
) -> None:
    random = Random(1)
    files = [
        sent_file(random, f"{number}.bin", random.randbytes(SIZES[number % len(SIZES)]), prefixes=PREFIXES)
        for number in range(60)
    ]
    stream = [publish for each in files for publish in each.publishes]
    stream += random.sample(stream, len(stream) // 5)
    random.shuffle(stream)
    with ForkedGateway(tmp_path, source(broker, version)) as process:
        process.await_source("devices")
        third = len(stream) // 3
        for start in (0, third):
            publish(stream[start : start + third], broker.port, version)
            process.until(lambda: process.samples().total("messages_received_total"), pause=0)
            process.kill()
            process.start()
        publish(stream[2 * third :], broker.port, version)
        check(process, {each.name: each.content for each in files})


def test_files_go_out_as_segments_and_come_back_through_a_kill(broker: Mosquitto, tmp_path: Path) -> None:
    settings = source(broker) + mqtt_destination(
        "devices", broker.port, "$file", 'framing = "file_transfer"\nmax_packet_size = "4 KiB"\n'
    )
    random = Random(2)
    contents = {"é.bin": random.randbytes(2 << 20), "empty.bin": b"", "a.txt": b"text"}
    with ForkedGateway(tmp_path, settings) as process:
        process.await_source("devices")
        upload(process, "devices", [(name, content, "application/octet-stream") for name, content in contents.items()])
        process.until(lambda: process.samples().total("messages_received_total") > 20, pause=0)
        process.kill()
        process.start()
        process.until(lambda: {each["state"] for each in process.listing("/v1/deliveries")} == {"sent"})
        check(process, contents)
