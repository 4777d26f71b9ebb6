"""A gateway that received alone is stopped, and several receivers continue its journal. The archive loses segments."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import obstore
import pytest

from adapters.arrow_journal import ArrowJournal
from adapters.storage_places import bucket as storage
from app.testing.waiting import until
from tests.support.division import TOPIC, Division
from tests.support.forked_gateway import ForkedGateway, Forks
from tests.support.gateway import PROGRAM, mqtt_source
from tests.support.loads import assert_received, messages, mixed
from tests.support.mosquitto import Mosquitto
from tests.support.object_server import Bucket
from tests.support.publish import publish
from tests.support.sas_client import Attached, Program, disordered
from tests.support.subscribe import subscribe

pytestmark = pytest.mark.broker


@pytest.fixture
def forks() -> Iterator[Forks]:
    made = Forks(dict(os.environ))  # with the address of the object server
    yield made
    made.close()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    (tmp_path / "broker").mkdir()
    with Mosquitto(tmp_path / "broker") as running:
        yield running


@pytest.fixture
def division(tmp_path: Path, postgresql: Path, bucket: Bucket, forks: Forks, broker: Mosquitto) -> Iterator[Division]:
    """Processes that share a journal; none is started."""

    def source(name: str) -> str:
        return mqtt_source("sas", broker.port, f"$share/gateways/{TOPIC}", client_id=name)

    made = Division(tmp_path, postgresql, bucket, broker, forks, shared=source)
    yield made
    made.stop()


def test_receivers_take_the_place_of_a_gateway_that_received_alone(
    tmp_path: Path, division: Division, forks: Forks, broker: Mosquitto
) -> None:
    program = Program(Random(17))
    attachments = mixed(program, 12)
    sent = disordered(messages(program, attachments), program.random)
    half, last = len(sent) // 2, len(sent) - 10

    def send(first: int, end: int) -> None:
        publish(sent[first:end], broker.port, TOPIC, "5")

    (tmp_path / "alone").mkdir()
    settings = division._settings.replace("shared = true\n", "") + mqtt_source("sas", broker.port, TOPIC)
    alone = division.processes["alone"] = ForkedGateway(tmp_path / "alone", settings, forks)
    alone.start()
    alone.await_source("sas")
    send(0, half)
    alone.until(lambda: alone.samples().total("messages_received_total", source="sas") >= half)
    with pytest.raises(AssertionError, match="another gateway is running with the catalog"):
        division.begin("receive-a")

    # The broker keeps what follows for the receivers, and has it received by the old gateway, too, until that stops.
    for name in ("receive-a", "receive-b"):
        subscribe(broker.port, name, f"$share/gateways/{TOPIC}", "5")
    send(half, half + 10)
    alone.until(lambda: alone.samples().total("messages_received_total", source="sas") >= half + 10)
    assert alone.process is not None
    alone.process.terminate()
    alone.process.wait(60)
    division["receive-a"].start()
    for name in ("receive-b", "serve-a", "keep-a"):
        division.begin(name)
    send(half + 10, last)
    with pytest.raises(AssertionError, match="receivers share the journal"):
        alone.start()

    until(lambda: any("segment_published" in division[name].log for name in ("receive-a", "receive-b")))

    # What the old gateway had acknowledged and not archived, as if it had been killed, comes with its volume.
    with closing(ArrowJournal(alone.folder / "var" / "journal")) as journal:
        journal.append([each._replace(source="sas", framing="sas_queue") for each in sent[last:]])
    division.begin("receive-old", data=alone.folder / "var")
    division.await_settled(len(attachments))
    assert_received(division["serve-a"], attachments)
    assert len(division.finished()) == len(attachments)
    assert division.events("message.quarantined") == division.events("attachment.damaged") == []

    # The journal that is checked and backed up is the archive, and nothing repairs it.
    assert run(division, "fsck") == (0, "no differences were found")
    code, told = run(division, "backup", "--to", str(tmp_path / "copy"))
    assert (code, " 0 copied" in told) == (0, False), told
    for words in (("rebuild", "--yes"), ("fsck", "--repair", "--yes")):
        code, told = run(division, *words)
        assert code != 0
        assert "restore the database from its own backup" in told


@pytest.mark.timeout(1200)  # commands take long to start on a busy machine
def test_a_segment_that_is_lost_is_waited_for_until_it_is_put_back_or_given_up(
    division: Division, broker: Mosquitto, bucket: Bucket
) -> None:
    program, archive = Program(Random(18)), storage(f"{bucket.url}/archive")
    for name in ("receive-a", "serve-a", "keep-a"):
        division.begin(name)
    receiver, serving, keeper = (division[name] for name in ("receive-a", "serve-a", "keep-a"))

    def published() -> tuple[list[Attached], str]:
        """Send attachments. Return them, and the first of the segments that have them."""
        known, attachments = names(archive), mixed(program, 3)
        publish(messages(program, attachments), broker.port, TOPIC, "5", matched=True)
        journal = receiver.folder / "var" / "journal"
        receiver.until(lambda: names(archive) - known and not [*journal.glob("*.arrows")])
        return attachments, min(names(archive) - known)

    attachments, _ = published()
    division.await_settled(len(attachments))
    keeper.kill()
    (more, lost), (late, _) = published(), published()
    data = bytes(obstore.get(archive, lost).bytes())
    obstore.delete(archive, lost)
    keeper.start()
    keeper.until(lambda: f"{lost} is missing" in keeper.client.get("/health/ready").text)
    code, told = run(division, "fsck")
    assert (code, "segment-missing 1:" in told, f"segment {int(lost[:10])}: " in told) == (1, True, True), told
    obstore.put(archive, lost, data)
    attachments += [*more, *late]
    division.await_settled(len(attachments))
    assert_received(serving, attachments)

    keeper.kill()
    (_, lost), (late, _) = published(), published()
    obstore.delete(archive, lost)
    keeper.start()
    keeper.until(lambda: f"{lost} is missing" in keeper.client.get("/health/ready").text)
    assert run(division, "journal", "give-up", lost[:10], "--yes") == (
        0,
        f"an empty segment {int(lost[:10])} is in the archive",
    )
    needed = {each.definition.correl_id.hex() for each in (*attachments, *late)}
    serving.until(
        lambda: needed <= {each["correl_id"] for each in serving.listing("/v1/attachments", state="finished")}
    )


def names(archive: Any) -> set[str]:
    """Return the names of the segments that an archive has."""
    return {each["path"] for each in obstore.list_with_delimiter(archive)["objects"]}


def run(division: Division, *words: str) -> tuple[int, str]:
    """Return the exit status and the output of a command with the settings of a process that serves."""
    command: list[str | Path] = [PROGRAM, *words, "--config", division["serve-a"].folder / "gateway.toml"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, " ".join((done.stdout + done.stderr).split())
