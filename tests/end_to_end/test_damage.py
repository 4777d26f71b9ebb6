"""A gateway starts with a damaged journal, says what is damaged, and heals by what is sent again through the broker."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from app.model.message import PhysicalMessage
from tests.support.forked_gateway import ForkedGateway
from tests.support.gateway import GatewayProcess, mqtt_source
from tests.support.mosquitto import Mosquitto
from tests.support.publish import publish
from tests.support.sas_client import Attached, Program, binary_file, message, text_file

pytestmark = pytest.mark.broker

BLOCK = 4096
MARK = b"the end of a file that only the journal has"
SETTINGS = '[content]\nsettle_after = "1h"\n[scrub]\nenabled = false\n[limits]\nfree_bytes = 0\n'


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    folder = tmp_path / "broker"
    folder.mkdir()
    with Mosquitto(folder) as running:
        yield running


class Sent:
    """Attachments and their messages, sent as often as it is asked for."""

    def __init__(self, broker: Mosquitto) -> None:
        self._broker, program = broker, Program(Random(7))
        self.attached: dict[str, Attached] = {}
        self._messages: dict[str, list[PhysicalMessage]] = {}
        for number in range(3):
            file = binary_file(program, f"{number}.bin", program.random.randbytes(90_000) + MARK)
            text = text_file(program, f"{number}.txt", program.random.randbytes(20_000).hex().encode() + b"\n")
            for name, each in ((f"{number}.bin", file), (f"{number}.txt", text)):
                self.attached[name] = each
                self._messages[name] = message(program, [each])

    def send(self, name: str) -> None:
        publish(self._messages[name], self._broker.port, "orders", "5")


def await_finished(gateway: GatewayProcess, name: str) -> None:
    gateway.until(lambda: gateway.listing("/v1/attachments", name=name, state="finished"))


def await_whole(gateway: GatewayProcess, name: str, attached: Attached) -> None:
    gateway.until(lambda: is_whole(gateway, name, attached))


def is_whole(gateway: GatewayProcess, name: str, attached: Attached) -> bool:
    """Whether an attachment is served as it was sent. Otherwise it is an error, and never other bytes."""
    (found,) = gateway.listing("/v1/attachments", name=name)
    answer = gateway.client.get(f"/v1/attachments/{found['id']}/content")
    if answer.status_code != 200:
        assert "damaged" in answer.text
        return False
    assert answer.content == attached.content
    return True


def open_segment(folder: Path) -> Path:
    (path,) = (folder / "var/journal").glob("*.open.arrows")
    return path


def flipped(place: Callable[[bytearray], int]) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = open_segment(folder)
        data = bytearray(path.read_bytes())
        data[place(data)] ^= 0x55
        path.write_bytes(data)

    return change


def cut(size: Callable[[bytes], int]) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = open_segment(folder)
        data = path.read_bytes()
        path.write_bytes(data[: size(data)])

    return change


CHANGES = {
    "a header": flipped(lambda _: 200),
    "the first head": flipped(lambda _: BLOCK + 9),
    "the first metadata": flipped(lambda _: BLOCK + 300),
    "a body": flipped(lambda data: data.rindex(MARK)),
    "one byte of the last body": cut(lambda data: len(data.rstrip(b"\0")) - 1),
    "a half": cut(lambda data: len(data) // 2),
    "all but the header": cut(lambda _: BLOCK),
    "everything": cut(lambda _: 0),
}


def test_a_damaged_open_segment_costs_what_is_damaged_and_heals(tmp_path: Path, broker: Mosquitto) -> None:
    sent, folder = Sent(broker), tmp_path / "mine"
    folder.mkdir()
    running = ForkedGateway(folder, SETTINGS + mqtt_source("orders", broker.port, "orders"))
    running.start(120)
    running.await_source("orders")
    for name in sent.attached:
        sent.send(name)
        await_finished(running, name)
    running.kill()
    shutil.copytree(folder / "var", tmp_path / "kept")
    for what, change in CHANGES.items():
        shutil.rmtree(folder / "var")
        shutil.copytree(tmp_path / "kept", folder / "var")
        change(folder)
        before = len(running.log)
        running.start(120)
        try:
            whole = {name for name, each in sent.attached.items() if is_whole(running, name, each)}
            texts = {name for name in sent.attached if name.endswith(".txt")}  # these are in the content store
            assert texts <= whole, what
            if what == "a header":
                assert whole == sent.attached.keys()
            log = running.log[before:]
            assert '"segment_damaged"' in log or '"content_damaged"' in log, what
            running.await_source("orders")
            for name in sent.attached.keys() - whole:
                sent.send(name)
                await_whole(running, name, sent.attached[name])
            for name in whole:
                sent.send(name)
            assert all(is_whole(running, name, each) for name, each in sent.attached.items()), what
            health = running.client.get("/health/ready").json()
            assert health["checks"]["content"]["damaged"] == 0, what
        finally:
            running.kill()
    running.client.close()


def test_rotten_objects_heal_by_repetitions_that_nobody_asked_for(tmp_path: Path, broker: Mosquitto) -> None:
    sent, folder = Sent(broker), tmp_path / "mine"
    folder.mkdir()
    settings = SETTINGS.replace("1h", "1s") + mqtt_source("orders", broker.port, "orders")
    with ForkedGateway(folder, settings) as running:
        running.await_source("orders")
        for name in sent.attached:
            sent.send(name)
        running.until(lambda: len(running.listing("/v1/attachments", state="finished")) == len(sent.attached))
        objects = folder / "var/content/attachments"
        running.until(lambda: len(list(objects.iterdir())) == len(sent.attached))
        for path in objects.iterdir():
            data = bytearray(path.read_bytes())
            data[len(data) // 3] ^= 1
            path.write_bytes(data)
        for name in sent.attached:
            sent.send(name)
        running.until(lambda: running.log.count('"content_restored"') == len(sent.attached))
        assert all(is_whole(running, name, each) for name, each in sent.attached.items())
