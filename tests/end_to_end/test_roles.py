"""A gateway divided among processes: one receives, two serve, and of two that keep, one is at work at a time."""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any

import httpx
import orjson
import pytest

from app.testing.waiting import until
from tests.support.division import TOPIC, Division
from tests.support.forked_gateway import ForkedGateway, Forks
from tests.support.gateway import mqtt_destination
from tests.support.loads import assert_received
from tests.support.mosquitto import Mosquitto
from tests.support.moving_reader import MovingReader
from tests.support.object_server import Bucket
from tests.support.sas_client import Program
from tests.support.subscribe import subscribe
from tests.support.webhook_receiver import SECRET, Answered, WebhookReceiver

pytestmark = pytest.mark.broker

HOOK = """[webhooks.hook]
url = "http://127.0.0.1:{port}/"
secrets = ["{secret}"]
networks = ["127.0.0.0/8"]
timeout = "1m"
"""


@pytest.fixture
def hooks() -> Iterator[WebhookReceiver]:
    with WebhookReceiver() as receiver:
        yield receiver


@pytest.fixture
def division(tmp_path: Path, postgresql: Path, bucket: Bucket, hooks: WebhookReceiver) -> Iterator[Division]:
    folder = tmp_path / "broker"
    folder.mkdir()
    forks = Forks(dict(os.environ))  # with the address of the object server
    with Mosquitto(folder) as broker, ExitStack() as ending:
        ending.callback(forks.close)
        subscribe(broker.port, "sas", TOPIC, "5")
        subscribe(broker.port, "partner", "partner", "5")
        more = HOOK.format(port=hooks.port, secret=SECRET) + mqtt_destination("partner", broker.port, "partner")
        made = Division(tmp_path, postgresql, bucket, broker, forks, more)
        ending.callback(made.stop)
        for name in ("receive", "serve-a", "serve-b", "keep-a", "keep-b"):
            made.begin(name)
        yield made


def contents(gateway: ForkedGateway, count: int) -> list[httpx.Response]:
    """Ask for the content of each finished attachment as soon as it is listed, until so many have come. Return all
    answers."""
    answers: list[httpx.Response] = []
    whole: set[str] = set()

    def ask() -> bool:
        for item in gateway.listing("/v1/attachments", state="finished"):
            if item["id"] not in whole:
                answers.append(gateway.client.get(f"/v1/attachments/{item['id']}/content"))
                whole.update([item["id"]] if answers[-1].status_code == 200 else [])
        return len(whole) == count

    gateway.until(ask)
    return answers


def deliver(processes: Sequence[ForkedGateway], random: Random, count: int) -> None:
    """Send files, one after the other. Each request goes to any process, also those that wait for the next state."""
    for number in range(count):
        form, files = {"destination": "partner"}, {"file": (f"{number}.bin", random.randbytes(40_000))}
        answer = random.choice(processes).client.post("/v1/messages", data=form, files=files).raise_for_status()
        states = [answer.json()["state"]]
        while states[-1] in ("queued", "sending"):
            path = f"/v1/deliveries/{answer.json()['id']}"
            states.append(random.choice(processes).client.get(path, params={"wait": "60"}, timeout=90).json()["state"])
        assert states[-1] == "sent"
        assert len({*states}) == len(states), "a change that a waiting request missed lets it end in the former state"


def test_roles_in_processes_of_their_own(division: Division, hooks: WebhookReceiver) -> None:
    program = Program(Random(33))
    receive, a, b = division["receive"], division["serve-a"], division["serve-b"]

    # What each process is, by health, metrics and REST.
    keeper = until(division.keeper) or ""
    assert [each.client.get("/health/ready").status_code for each in division.processes.values()] == [200] * 5
    ready = {part: [each.client.get(f"/health/ready/{part}").status_code for each in (receive, a)] for part in READY}
    assert ready == {"read": [503, 200], "receive": [200, 503]}
    refused = receive.client.get("/v1/attachments")
    assert (refused.status_code, refused.json()["type"]) == (503, "/problems/not-served")
    assert "Retry-After" not in refused.headers
    assert a.samples().total("process", roles="serve") == 1

    # Clients of events go on at another process after each event, while several processes write events.
    readers = [MovingReader((a, b), Random(seed)) for seed in range(3)]
    senders = [Thread(target=deliver, args=((a, b), Random(seed), 12)) for seed in range(2)]
    for thread in (*readers, *senders):
        thread.start()
    attachments = division.send(program, 12)
    statuses = [content.status_code for content in contents(b, 12)]
    assert {200} <= {*statuses} <= {200, 503}  # what is not archived yet comes within seconds, and is not damaged
    division.await_settled(12)
    assert_received(a, attachments)
    assert_received(b, attachments)
    receive.kill()  # the next one begins a log of events
    receive.start()

    # The keeper is killed: the other one goes on behind it.
    until(lambda: {each.event["subject"] for each in hooks.taken} >= division.finished())
    division[keeper].kill()
    other = until(lambda: division.keeper(besides=keeper), 60, pause=0.1) or ""
    attachments += division.send(program, 6)
    division.await_settled(18)
    assert_received(b, attachments)
    finished = division.finished()
    assert len(finished) == 18
    assert division.events("attachment.damaged") == []
    until(lambda: {each.event["subject"] for each in hooks.taken} >= finished)
    assert hooks.forged == []
    lines = [orjson.loads(line) for name in (keeper, other) for line in division[name].log.splitlines()]
    logged = [line["id"] for line in lines if line["event"] == "attachment_finished" and "id" in line]
    assert set(logged) == finished
    assert {line["roles"] for line in lines} == {"keep"}
    assert len({line["instance"] for line in lines}) == 2

    # No client of events has lost one, or got one twice.
    for thread in senders:
        thread.join(60)
    assert len(division.events("delivery.sent")) == 24
    a.client.delete(f"/v1/attachments/{finished.pop()}").raise_for_status()
    for reader in readers:
        reader.join(60)
        assert [int(each.partition("-")[0]) for each in reader.seen] == list(range(len(reader.seen)))
    assert len({tuple(reader.seen) for reader in readers}) == 1
    assert len({each.partition("-")[2] for each in readers[0].seen[1:]}) == 2
    assert division.events("attachment.deleted") != []


READY = ("read", "receive")


def test_of_two_that_believe_to_be_the_keeper_one_writes(division: Division, hooks: WebhookReceiver) -> None:
    """The keeper is stopped while it waits for the answer to a webhook, and goes on when another one is the keeper."""
    program = Program(Random(34))
    asked, answered = Event(), Event()

    def answer(_event: dict[str, Any]) -> Answered:
        if not asked.is_set():
            asked.set()
            answered.wait(60)
        return Answered()

    hooks.answer = answer
    first = until(division.keeper) or ""
    paused = division[first].process
    assert paused is not None
    division.send(program, 3)
    assert asked.wait(60)
    os.kill(paused.pid, signal.SIGSTOP)
    second = until(lambda: division.keeper(besides=first), 60, pause=0.1) or ""
    answered.set()
    os.kill(paused.pid, signal.SIGCONT)
    division[first].until(lambda: "lease_ended" in division[first].log)
    assert "the lease keeper of epoch 1 is over" in division[first].log  # what it tried to write
    division.await_settled(3)
    until(lambda: {each.event["subject"] for each in hooks.taken} >= division.finished())
    assert division.keeper() == second
    assert division[second].client.get("/health/live").json()["ok"]
