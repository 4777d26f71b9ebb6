"""Several processes receive from one group of subscribers: the parts of each attachment are spread over all of them."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random
from time import sleep

import pytest

from adapters.arrow_journal import ArrowJournal
from app.testing.waiting import until
from tests.support.division import TOPIC, Division
from tests.support.forked_gateway import Forks
from tests.support.loads import assert_received, messages, mixed
from tests.support.mosquitto import Mosquitto
from tests.support.object_server import Bucket
from tests.support.publish import publish
from tests.support.sas_client import Program, disordered
from tests.support.subscribe import subscribe

pytestmark = pytest.mark.broker

RECEIVERS = ("receive-a", "receive-b", "receive-c")


def subscribed(broker: Mosquitto, *receivers: str) -> None:
    """Have the broker keep messages for receivers before they connect."""
    for name in receivers:
        subscribe(broker.port, name, f"$share/gateways/{TOPIC}", "5")


@pytest.fixture
def division(tmp_path: Path, postgresql: Path, bucket: Bucket) -> Iterator[Division]:
    folder = tmp_path / "broker"
    folder.mkdir()
    forks = Forks(dict(os.environ))  # with the address of the object server
    with Mosquitto(folder) as broker, ExitStack() as ending:
        ending.callback(forks.close)
        made = Division(tmp_path, postgresql, bucket, broker, forks, shared=True)
        ending.callback(made.stop)
        yield made


def test_receivers_share_one_journal(division: Division) -> None:
    subscribed(division.broker, *RECEIVERS)
    for name in (*RECEIVERS, "serve-a", "keep-a", "keep-b"):
        division.begin(name)
    random, program = Random(34), Program(Random(34))
    until(division.keeper)
    attachments = division.send(program, 12)
    division.await_settled(12)
    assert_received(division["serve-a"], attachments)
    shares = [division[name].samples().total("messages_received_total", source="sas") for name in RECEIVERS]
    assert min(shares) > 0, "each of them has received something"

    # Each process is killed while messages come, and started again.
    for name in [*division.processes]:
        attachments += division.send(program, 6)
        sleep(random.random())
        division[name].kill()
        sleep(random.random())
        division[name].start()
    division.await_settled(len(attachments))
    assert_received(division["serve-a"], attachments)
    assert len(division.finished()) == len(attachments)
    assert division.events("message.quarantined") == division.events("attachment.damaged") == []


def test_receivers_take_the_place_of_a_gateway_that_received_alone(division: Division) -> None:
    program = Program(Random(17))
    attachments = mixed(program, 12)
    sent = disordered(messages(program, attachments), program.random)
    half, last = len(sent) // 2, len(sent) - 10

    def send(first: int, end: int) -> None:
        publish(sent[first:end], division.broker.port, TOPIC, "5")

    division.begin("alone")
    division["alone"].await_source("sas")
    send(0, half)
    alone = division["alone"]
    alone.until(lambda: alone.samples().total("messages_received_total", source="sas") >= half)
    with pytest.raises(AssertionError, match="another gateway is running with the catalog"):
        division.begin("receive-a")

    # The broker keeps what follows for the receivers, and has it received by the old gateway, too, until that stops.
    subscribed(division.broker, "receive-a", "receive-b")
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
