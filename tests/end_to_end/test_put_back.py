"""PostgreSQL is put back from an older copy of its files, while processes run and while they are stopped.

What the journal has is assembled again, although no new message comes. A client of events is told where the numbers
that it has seen were given to others.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import httpx
import orjson
import pytest

from app.testing.waiting import until
from tests.support.division import TOPIC, Division
from tests.support.forked_gateway import ForkedGateway, Forks
from tests.support.gateway import GatewayProcess, mqtt_source
from tests.support.loads import assert_received, messages, mixed
from tests.support.mosquitto import Mosquitto
from tests.support.object_server import Bucket
from tests.support.postgresql import Cluster, new_database
from tests.support.publish import publish
from tests.support.sas_client import Attached, Program

pytestmark = pytest.mark.broker

COUNT = 8


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    (tmp_path / "broker").mkdir()
    with Mosquitto(tmp_path / "broker") as running:
        yield running


def events(process: GatewayProcess, after: str = "0") -> list[dict[str, str]]:
    """Return the events after one, at least one, until there are none for a second. Raises HTTPStatusError."""
    found: list[str] = []
    url, waits = process.client.base_url.join("/v1/events"), httpx.Timeout(30, read=1)
    with httpx.stream("GET", url, headers={"Last-Event-ID": after}, timeout=waits) as stream:
        stream.raise_for_status()
        with suppress(httpx.ReadTimeout):
            found.extend(stream.iter_lines())
    return [orjson.loads(line.removeprefix("data: ")) for line in found if line.startswith("data: ")]


class Load:
    """What is sent: a part of it before the copy, with attachments of which the rest comes later."""

    def __init__(self, broker: Mosquitto) -> None:
        program = Program(Random(41))
        self.attachments: list[Attached] = mixed(program, COUNT)
        self._sent, self._port = messages(program, self.attachments), broker.port

    def send(self, first: int, end: int) -> None:
        """Send the messages from one share of eight to another."""
        size = len(self._sent)
        publish(self._sent[size * first // 8 : size * end // 8], self._port, TOPIC, "5")


def assert_put_back(
    process: GatewayProcess, load: Load, cluster: Cluster, copied: Path, between: Callable[[], object]
) -> None:
    """Put the database back; assert that all is received again, and that the client of events is told."""
    seen = events(process)
    finished = [each["subject"] for each in seen if each["type"] == "attachment.finished"]
    assert len(finished) == len({*finished}) == COUNT
    cluster.put_back(copied)
    between()
    until(lambda: not process.is_up() or len(process.listing("/v1/attachments", state="finished")) == COUNT, 60)
    assert_received(process, load.attachments)
    again = events(process)
    subjects = [each["subject"] for each in again if each["type"] == "attachment.finished"]
    assert sorted(subjects) == sorted(finished), "each is told once, and nothing of what was lost"
    alike = [each for each in again if each in seen]
    assert alike == seen[: len(alike)], "an identifier is of one event"
    assert len(alike) < len(seen)
    for each in seen:
        if each in alike:
            assert events(process, each["id"]) == again[again.index(each) + 1 :]
            continue
        with pytest.raises(httpx.HTTPStatusError, match="410"):
            events(process, each["id"])


def test_receivers_and_keeper_go_on_behind_an_older_copy(
    tmp_path: Path, cluster: Cluster, bucket: Bucket, broker: Mosquitto
) -> None:
    forks = Forks(dict(os.environ))  # with the address of the object server

    def source(name: str) -> str:
        return mqtt_source("sas", broker.port, f"$share/gateways/{TOPIC}", client_id=name)

    division = Division(tmp_path, cluster.folder, bucket, broker, forks, shared=source)
    try:
        for name in ("receive-a", "receive-b", "serve-a", "keep-a"):
            division.begin(name)
        serving, load = division["serve-a"], Load(broker)
        load.send(0, 3)
        until(lambda: serving.listing("/v1/attachments"))
        cluster.copy(tmp_path / "copy")
        load.send(3, 8)
        assert_received(serving, load.attachments)
        assert_put_back(serving, load, cluster, tmp_path / "copy", lambda: None)

        def restart() -> None:
            for each in division.processes.values():
                each.kill()
            for each in division.processes.values():
                each.start()

        assert_put_back(serving, load, cluster, tmp_path / "copy", restart)
    finally:
        division.stop()
        forks.close()


def test_one_process_goes_on_behind_an_older_copy(tmp_path: Path, cluster: Cluster, broker: Mosquitto) -> None:
    (tmp_path / "gateway").mkdir()
    url = f'[catalog]\nurl = "{new_database(cluster.folder)}"\n'
    gateway = ForkedGateway(tmp_path / "gateway", url + mqtt_source("sas", broker.port, TOPIC))
    with gateway:
        gateway.await_source("sas")
        load = Load(broker)
        load.send(0, 3)
        gateway.until(lambda: gateway.listing("/v1/attachments"))
        cluster.copy(tmp_path / "copy")
        load.send(3, 8)
        assert_received(gateway, load.attachments)
        assert_put_back(gateway, load, cluster, tmp_path / "copy", lambda: None)
