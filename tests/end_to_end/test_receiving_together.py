"""Several processes receive from the same queues and from the same groups of subscribers: the parts of each attachment
are spread over all of them."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from time import sleep

import pytest

from app.testing.waiting import until
from tests.support.competing import Competing
from tests.support.division import Division
from tests.support.forked_gateway import Forks
from tests.support.mosquitto import Mosquitto
from tests.support.mqi import environment
from tests.support.object_server import Bucket
from tests.support.queue_manager import QueueManager

pytestmark = pytest.mark.broker

RECEIVERS = ("receive-a", "receive-b", "receive-c")


@pytest.fixture(params=["disk", "archive"])
def shared(
    request: pytest.FixtureRequest, tmp_path: Path, postgresql: Path, bucket: Bucket
) -> Iterator[tuple[Division, Competing]]:
    folder = tmp_path / "broker"
    folder.mkdir()
    forks = Forks(environment("pymqi"))  # with the address of the object server
    with ExitStack() as ending:
        ending.callback(forks.close)
        broker = ending.enter_context(Mosquitto(folder))
        manager = ending.enter_context(QueueManager(tmp_path / "queue-manager"))
        competing = Competing(broker, manager, RECEIVERS, Random(34))
        more, ack = competing.destination, request.param
        made = Division(tmp_path, postgresql, bucket, broker, forks, more, shared=competing.sources, ack=ack)
        ending.callback(made.stop)
        for name in (*RECEIVERS, "serve-a", "keep-a", "keep-b"):
            made.begin(name)
        yield made, competing


def test_receivers_share_one_journal(shared: tuple[Division, Competing]) -> None:
    division, competing = shared
    random = Random(35)
    until(division.keeper)
    competing.send(6)
    competing.order(division["serve-a"])
    division.await_settled(competing.count)
    competing.assert_received(division["serve-a"])
    shares = competing.shares(division)
    assert min(shares.values()) > 0, f"each of them has received something from each source: {shares}"

    # Each process is killed while messages come, and started again.
    for name in [*division.processes]:
        competing.send(2)
        competing.order(division["serve-a"])
        sleep(random.random())
        division[name].kill()
        sleep(random.random())
        division[name].start()
    division.await_settled(competing.count)
    competing.assert_received(division["serve-a"])
    assert len(division.finished()) == competing.count
    assert division.events("message.quarantined") == division.events("attachment.damaged") == []
