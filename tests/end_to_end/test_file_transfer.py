"""Files over MQTT through a real Mosquitto and a gateway of its own, in and out."""

import json
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from queue import Queue
from random import Random
from typing import Any

import pytest
from paho.mqtt.client import MQTTMessage
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.support.dropping_proxy import DroppingProxy
from tests.support.file_transfer_program import sent_file
from tests.support.file_transfer_server import FileTransferServer
from tests.support.forked_gateway import ForkedGateway
from tests.support.gateway import GatewayProcess, mqtt_destination, mqtt_source
from tests.support.group_loads import upload
from tests.support.loads import check_each
from tests.support.mosquitto import Mosquitto
from tests.support.publish import Version, connected

pytestmark = pytest.mark.broker

ROOT = Path(__file__).parents[2]
PREFIXES = ("$file", "$file-async")
SIZES = (0, 1, 999, 32_000, 300_000)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path) as running:
        yield running


def source(port: int, version: Version = "5") -> str:
    topics = '", "'.join(f"{prefix}/#" for prefix in PREFIXES)
    table = mqtt_source("devices", port, topics, version, framing="file_transfer")
    return table.replace(f'"{topics}"', f'["{topics}"]')


def publish(publishes: Iterable[tuple[str, bytes]], port: int, version: Version) -> None:
    client = connected(port, version)
    sent = [client.publish(topic, payload, 1) for topic, payload in publishes]
    for each in sent:
        each.wait_for_publish(60)
    client.disconnect()
    client.loop_stop()


class Client:
    """A client of file transfer that waits for the answer to each of its commands."""

    def __init__(self, port: int, version: Version, answers: str) -> None:
        self._client = connected(port, version)
        self._answers: Queue[MQTTMessage] = Queue()
        self._is_5 = version == "5"
        self._client.on_message = lambda _client, _data, message: self._answers.put(message)
        self._client.subscribe(answers, 1)

    def ask(self, topic: str, payload: bytes = b"", response: str | None = None) -> tuple[int, str]:
        """Return the reason code and the description of the answer to a command."""
        properties = Properties(PacketTypes.PUBLISH) if self._is_5 else None  # type: ignore[no-untyped-call]
        if properties is not None and response is not None:
            properties.ResponseTopic, properties.CorrelationData = response, topic.encode()
        self._client.publish(topic, payload, 1, properties=properties)
        got = self._answers.get(timeout=60)
        if response is not None:
            assert getattr(got.properties, "CorrelationData", b"") == topic.encode()
        answer = json.loads(got.payload)
        assert (answer.pop("vsn"), answer.pop("topic"), answer.pop("packet_id")) == ("0.1", topic, 0)
        self.answered_on = got.topic
        return answer["reason_code"], answer["reason_description"]

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


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
    with ForkedGateway(tmp_path, source(broker.port, version)) as process:
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
    settings = source(broker.port) + mqtt_destination(
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


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_commands_are_answered_when_what_became_of_them_is_durable(
    broker: Mosquitto, tmp_path: Path, version: Version
) -> None:
    content, init = b"helloworld", json.dumps({"name": "a.bin"}).encode()
    checksum = sha256(content).hexdigest()
    with ForkedGateway(tmp_path, source(broker.port, version)) as process:
        process.await_source("devices")
        client = Client(broker.port, version, "$file-response/#")
        assert client.ask("$file-async/a/fin/10") == (0x80, "the init of the file has not come")
        assert client.ask("$file-async/a/init", init) == (0, "success")
        assert client.ask("$file-async/a/0", content[:4]) == (0, "success")
        assert client.ask("$file-async/a/fin/10") == (0x80, "bytes have not come: 4-9")
        code, why = client.ask(f"$file-async/a/4/{checksum}", content[4:])
        assert (code, why.partition(":")[0]) == (0x80, "bad-segment")
        publish([("$file/a/4", content[4:])], broker.port, version)  # which the broker alone answers
        assert client.ask("$file-async/a/fin/10") == (0, "success")
        check_finished(process, checksum)
        assert client.ask(f"$file-async/a/fin/10/{checksum}") == (0, "success")
        assert client.ask(f"$file-async/a/fin/10/{'0' * 64}")[0] == 0x83
        assert client.ask("$file-async/a/init", b'{ "name":  "a.bin" }') == (0, "success")
        assert client.ask("$file-async/a/abort")[0] == 0x83
        code, why = client.ask("$file-async/a/init", b"{}")
        assert (code, why.partition(":")[0]) == (0x83, "bad-init")
        assert client.ask("$file-async/b/init", init) == (0, "success")
        assert client.ask("$file-async/b/abort") == (0, "success")
        assert client.ask("$file-async/b/0", content) == (0x83, "the file is deleted: aborted")
        assert client.ask("$file-async/b")[0] == 0x83
        assert client.answered_on == "$file-response/b"
        if version == "5":
            client.ask("$file-async/a/0", content[:4], "$file-response/me")
            assert client.answered_on == "$file-response/me"
            client.ask("$file-async/a/0", content[:4], "plant/valve")
            assert client.answered_on == "$file-response/a"
            assert client.ask("$file/c/init", b"{oops", "$file-response/me")[0] == 0x83
            assert client.ask("$file/a/fin/10", b"", "$file-response/me") == (0, "success")
        process.until(lambda: answered(process) == [3, 6 if version == "5" else 5])
        process.kill()
        process.start()
        assert client.ask("$file-async/a/fin/10") == (0, "success")
        client.close()


def test_reason_codes_of_a_server_say_how_a_delivery_continues(tmp_path: Path) -> None:
    """A server that has lost the segments gets them all again; one that asks to cancel gets nothing more."""
    content = Random(4).randbytes(2500)
    options = 'framing = "file_transfer"\nbody_limit = 1024\nretry_first = "10ms"\nretry_longest = "50ms"\n'
    with (
        FileTransferServer() as server,
        ForkedGateway(tmp_path, mqtt_destination("devices", server.port, "$file", options)) as process,
    ):

        def ended(name: str, **plan: list[int]) -> tuple[str, list[tuple[str, int]]]:
            """Return the state in which the delivery of a file ends, and the commands that were refused."""
            server.asked.clear()
            server.plan.update({kind: deque(codes) for kind, codes in plan.items()})
            sent = process.client.put(f"/v1/files/devices/{name}", content=content)
            found: dict[str, Any] = {}

            def is_ended() -> bool:
                found.update(process.client.get(sent.headers["location"]).raise_for_status().json())
                return found["state"] in ("sent", "failed")

            process.until(is_ended)
            return found["state"], [(kind, code) for kind, _, code in server.asked if code]

        state, refused = ended("again", init=[0x97], segment=[0, 0x80, 0x97])
        assert (state, refused[:3]) == ("sent", [("init", 0x97), ("segment", 0x80), ("segment", 0x97)])
        assert len([1 for kind, offset, _ in server.asked if (kind, offset) == ("segment", 0)]) <= 3
        assert ended("anew", fin=[0x80, 0x80]) == ("sent", [("fin", 0x80), ("fin", 0x80)])
        assert [offset for kind, offset, _ in server.asked if kind == "segment"] == [0, 1024, 2048] * 3
        for kind in ("init", "segment", "fin"):
            state, refused = ended(f"cancelled-{kind}", **{kind: [0x83]})
            assert (state, refused[0]) == ("failed", (kind, 0x83))
        assert server.files == {"again": content, "anew": content}


def test_the_example_sends_again_what_is_lost(broker: Mosquitto, tmp_path: Path) -> None:
    content = Random(7).randbytes(1 << 20)
    (tmp_path / "large.bin").write_bytes(content)
    program = [sys.executable, str(ROOT / "docs/examples/file_transfer/sender.py"), "127.0.0.1", str(broker.port)]
    with DroppingProxy(broker.port, 0.3) as proxy, ForkedGateway(tmp_path, source(proxy.port)) as process:
        process.await_source("devices")
        sent = subprocess.run(
            [*program, str(tmp_path / "large.bin")], capture_output=True, text=True, check=True, timeout=120
        )
        first, *others = sent.stderr.splitlines()
        assert first.startswith("128 bytes have not come: ")
        assert others[-1] == "0 success"
        assert proxy.dropped > 0
        check_finished(process, sha256(content).hexdigest())


def answered(process: GatewayProcess) -> list[float]:
    """How many answers said "again", and how many "no"."""
    samples = process.samples()
    return [samples.total("sender_answers_total", source="devices", reason_code=code) for code in ("128", "131")]


def check_finished(process: GatewayProcess, checksum: str) -> None:
    """Assert that a file that was answered for is there at once."""
    (item,) = process.listing("/v1/attachments")
    assert (item["state"], item["sha256"]) == ("finished", checksum)
