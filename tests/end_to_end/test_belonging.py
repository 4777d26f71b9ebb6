"""A gateway starts only with a catalog and a journal that belong together, and as the only one of them."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.forked_gateway import ForkedGateway
from tests.support.gateway import GatewayProcess, mqtt_source
from tests.support.mosquitto import Mosquitto
from tests.support.publish import publish
from tests.support.sas_client import Program, binary_file, message

pytestmark = pytest.mark.broker

SETTINGS = '[journal]\nsegment_bytes = "64 KiB"\n[content]\nsettle_after = "1h"\n[limits]\nfree_bytes = 0\n'


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    folder = tmp_path / "broker"
    folder.mkdir()
    with Mosquitto(folder) as running:
        yield running


class PatientGateway(ForkedGateway):
    """Has the time that a busy machine takes."""

    def start(self, timeout: float = 120) -> None:
        super().start(timeout)


def gateway(folder: Path, broker: Mosquitto, more: str = "") -> GatewayProcess:
    folder.mkdir(exist_ok=True)
    return PatientGateway(folder, SETTINGS + mqtt_source("orders", broker.port, "orders") + more)


def receive(running: GatewayProcess, broker: Mosquitto, number: int) -> dict[str, Any]:
    """Has an attachment received and finished; what REST says of it."""
    program = Program(Random(number))
    attached = binary_file(program, f"{number}.bin", program.random.randbytes(100_000))
    running.await_source("orders")
    publish(message(program, [attached]), broker.port, "orders", "5")
    running.until(lambda: running.listing("/v1/attachments", name=f"{number}.bin", state="finished"))
    (found,) = running.listing("/v1/attachments", name=f"{number}.bin")
    assert found["sha256"] == attached.sha256
    return found


def refusal(gateway: GatewayProcess) -> str:
    """The one sentence with which a gateway refuses to start."""
    before = len(gateway.log) if (gateway.folder / "gateway.log").exists() else 0
    gateway.spawn()
    assert gateway.process is not None
    assert gateway.process.wait(120) == 1
    gateway.process = None
    said = [line for line in gateway.log[before:].splitlines() if line.startswith("error: ")]
    assert len(said) == 1, gateway.log
    assert "Traceback" not in gateway.log[before:]
    return " ".join(gateway.log[before:].partition("error: ")[2].split())


def newest_sealed(folder: Path) -> Path:
    return max((folder / "var/journal").glob("*.arrows"))


def lose_the_journal(folder: Path) -> None:
    shutil.rmtree(folder / "var/journal")


def replace_the_journal(folder: Path) -> None:
    lose_the_journal(folder)
    shutil.copytree(folder.parent / "other/var/journal", folder / "var/journal")


def lose_the_newest_segment(folder: Path) -> None:
    newest_sealed(folder).unlink()


def put_back_an_older_copy(folder: Path) -> None:
    lose_the_journal(folder)
    shutil.copytree(folder / "older", folder / "var/journal")


CHANGES = [
    (lose_the_journal, ("belongs to journal", "attachment-gateway fsck --repair")),
    (replace_the_journal, ("belongs to journal", "attachment-gateway fsck --repair")),
    (lose_the_newest_segment, ("and of those after it are missing", "attachment-gateway fsck --repair")),
    (put_back_an_older_copy, ("and of those after it are missing", "attachment-gateway fsck --repair")),
]


def test_what_does_not_belong_together_does_not_start(tmp_path: Path, broker: Mosquitto) -> None:
    folder = tmp_path / "mine"
    with gateway(tmp_path / "other", broker) as other:
        receive(other, broker, 1)
    with gateway(folder, broker) as mine:
        receive(mine, broker, 2)
        mine.kill()
        shutil.copytree(folder / "var/journal", folder / "older")
        mine.start()
        receive(mine, broker, 3)
    shutil.copytree(folder / "var", folder / "kept")
    for change, says in CHANGES:
        change(folder)
        sentence = refusal(mine)
        assert all(part in sentence for part in says), sentence
        assert refusal(mine) == sentence, "it says the same as long as nothing is done"
        shutil.rmtree(folder / "var")
        shutil.copytree(folder / "kept", folder / "var")
    with gateway(folder, broker) as mine:
        assert len(mine.listing("/v1/attachments", state="finished")) == 2
        receive(mine, broker, 4)


def test_a_new_catalog_replays_an_old_journal(tmp_path: Path, broker: Mosquitto) -> None:
    with gateway(tmp_path / "mine", broker) as mine:
        found = [receive(mine, broker, number) for number in (1, 2)]
    for path in (tmp_path / "mine/var").glob("catalog.sqlite*"):
        path.unlink()
    with gateway(tmp_path / "mine", broker) as mine:
        mine.until(lambda: len(mine.listing("/v1/attachments", state="finished")) == 2)
        for each in found:
            again = mine.client.get(f"/v1/attachments/{each['id']}").json()
            assert again["sha256"] == each["sha256"]
            assert mine.client.get(f"/v1/attachments/{each['id']}/content").status_code == 200


def test_a_second_gateway_on_one_catalog_does_not_start(tmp_path: Path, broker: Mosquitto) -> None:
    shared = f'[catalog]\nurl = "sqlite:///{tmp_path}/shared.sqlite"\n'
    with gateway(tmp_path / "first", broker, shared) as first:
        receive(first, broker, 1)
        sentence = refusal(gateway(tmp_path / "second", broker, shared.replace("orders", "others")))
        assert "another gateway (process " in sentence
        assert f"running with the catalog {tmp_path}/shared.sqlite" in sentence
        receive(first, broker, 2)
        first.kill()
        first.start()
        receive(first, broker, 3)
