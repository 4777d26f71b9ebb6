"""IBM MQ groups and segments through a real Mosquitto and a gateway of its own, in and out."""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest

from app.model.attachment import AttachmentKind
from tests.support.forked_gateway import ForkedGateway
from tests.support.gateway import GatewayProcess, mqtt_destination, mqtt_source
from tests.support.group_loads import assert_groups, files, upload
from tests.support.loads import messages, mixed
from tests.support.mosquitto import Mosquitto
from tests.support.publish import Version, publish
from tests.support.sas_client import Attached, Program, disordered

pytestmark = pytest.mark.broker

GROUPS, SAS = "mq/groups", "sas/attachments"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path) as running:
        yield running


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_groups_come_out_once_and_whole_beside_another_framing(
    broker: Mosquitto, tmp_path: Path, version: Version
) -> None:
    random = Random(1)
    program = Program(random)
    sent = files(random)
    attached = [each for each in mixed(program, 18) if each.definition.kind is not AttachmentKind.DATA_SET]
    stream = disordered([message for each in sent for message in each.messages], random, 0.2)
    sources = mqtt_source("groups", broker.port, GROUPS, version, framing="mq_group")
    with ForkedGateway(tmp_path, sources + mqtt_source("sas", broker.port, SAS, version)) as process:
        process.await_source("groups")
        process.await_source("sas")
        half = len(stream) // 2
        publish(stream[:half], broker.port, GROUPS, version)
        publish(disordered(messages(program, attached), random), broker.port, SAS, version)
        if version == "5":
            process.until(lambda: process.samples().total("messages_received_total", source="groups"))
            process.kill()
        publish(stream[half:], broker.port, GROUPS, version)
        if version == "5":
            process.start()
        process.until(lambda: len(process.listing("/v1/attachments", state="finished")) == len(sent) + len(attached))
        assert process.listing("/v1/quarantine") == []
        assert_groups(process, sent, with_names=version == "5")
        assert_files(process, attached)


def assert_files(process: GatewayProcess, attached: Sequence[Attached]) -> None:
    received = {item["correl_id"]: item["sha256"] for item in process.listing("/v1/attachments", source="sas")}
    assert received == {each.definition.correl_id.hex(): each.sha256 for each in attached}


def test_files_go_out_as_groups_and_come_back_through_a_kill(broker: Mosquitto, tmp_path: Path) -> None:
    """To one destination with packets that have little more room than a long file name takes."""
    grouped = 'framing = "mq_group"\n'
    settings = (
        mqtt_destination("messages", broker.port, GROUPS, grouped)
        + mqtt_destination("segments", broker.port, GROUPS, grouped + 'group = "segments"\nmax_packet_size = "4 KiB"\n')
        + mqtt_source("groups", broker.port, GROUPS, framing="mq_group")
    )
    large = Random(2).randbytes(4 << 20)
    name = f"{'é' * 700}.bin"
    small = [("a.txt", "line\r\nßé".encode(), "text/plain"), ("empty.bin", b"", "application/octet-stream")]
    with ForkedGateway(tmp_path, settings) as process:
        process.await_source("groups")
        for destination in ("messages", "segments"):
            upload(process, destination, [*small, (name, large, "application/octet-stream")])
        process.until(lambda: process.samples().total("messages_received_total") > 20, pause=0)
        process.kill()
        process.start()
        process.until(lambda: {each["state"] for each in process.listing("/v1/deliveries")} == {"sent"})
        process.until(lambda: len(process.listing("/v1/attachments", state="finished")) == 6)
        assert process.listing("/v1/quarantine") == []
        received = process.listing("/v1/attachments")
        assert sorted(item["name"] for item in received) == sorted([name, name, *(each for each, _, _ in small * 2)])
        expected = {name: large, **{each: content for each, content, _ in small}}
        for item in received:
            content = expected[item["name"]]
            assert item["sha256"] == sha256(content).hexdigest()
            assert process.client.get(f"/v1/attachments/{item['id']}/content").content == content
            text = item["name"] == "a.txt"
            assert item["content_type"] == ("text/plain; charset=utf-8" if text else "application/octet-stream")
