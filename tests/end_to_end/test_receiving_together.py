"""Several processes receive from one group of subscribers: the parts of each attachment are spread over all of them."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from time import sleep

import pytest

from app.testing.waiting import until
from tests.support.division import TOPIC, Division
from tests.support.forked_gateway import Forks
from tests.support.loads import assert_received
from tests.support.mosquitto import Mosquitto
from tests.support.object_server import Bucket
from tests.support.sas_client import Program
from tests.support.subscribe import subscribe

pytestmark = pytest.mark.broker

RECEIVERS = ("receive-a", "receive-b", "receive-c")


@pytest.fixture
def division(tmp_path: Path, postgresql: Path, bucket: Bucket) -> Iterator[Division]:
    folder = tmp_path / "broker"
    folder.mkdir()
    forks = Forks(dict(os.environ))  # with the address of the object server
    with Mosquitto(folder) as broker, ExitStack() as ending:
        ending.callback(forks.close)
        for name in RECEIVERS:
            subscribe(broker.port, name, f"$share/gateways/{TOPIC}", "5")
        made = Division(tmp_path, postgresql, bucket, broker, forks, shared=True)
        ending.callback(made.stop)
        for name in (*RECEIVERS, "serve-a", "keep-a", "keep-b"):
            made.begin(name)
        yield made


def test_receivers_share_one_journal(division: Division) -> None:
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
