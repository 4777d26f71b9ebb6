"""Receivers of a group of subscribers that go for good: by themselves, or by another one after they were killed."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any

import pytest

from app.testing.waiting import until
from tests.support.division import TOPIC, Division
from tests.support.forked_gateway import Forks
from tests.support.gateway import mqtt_source
from tests.support.loads import assert_received, messages, mixed
from tests.support.mosquitto import Mosquitto
from tests.support.object_server import Bucket
from tests.support.publish import Version, publish
from tests.support.sas_client import Program, disordered
from tests.support.subscribe import has_session

pytestmark = pytest.mark.broker

GROUP = f"$share/gateways/{TOPIC}"
QUEUEING = "max_inflight_messages 5\n"
"""The broker sends no more than these before they are acknowledged, so that most messages wait for a receiver there."""
LEAVER, OTHERS = "receive-b", ("receive-a",)


class Group:
    """Two receivers of a group, and what was sent to it."""

    def __init__(self, division: Division, broker: Mosquitto, version: Version) -> None:
        self.division, self.broker, self._version = division, broker, version
        self._program = Program(Random(71), body_limit=2000)
        self.sent: list[Any] = []
        self.serving = division["serve-a"]

    def send(self, number: int = 6) -> None:
        attachments = mixed(self._program, number)
        sent = disordered(messages(self._program, attachments), self._program.random)
        publish(sent, self.broker.port, TOPIC, self._version, matched=self._version == "5")
        self.sent += attachments

    def assert_finished(self) -> None:
        """Assert that all that was sent is finished once, byte for byte."""
        self.division.await_settled(len(self.sent))
        assert len(self.division.finished()) == len(self.sent)
        assert_received(self.serving, self.sent, source="sas")
        assert self.division.events("message.quarantined") == []

    def receivers(self) -> dict[str, dict[str, Any]]:
        """Return the receivers by the session of their source."""
        items = self.serving.client.get("/v1/receivers").json()["items"]
        return {each["sessions"]["sas"]: each for each in items if each["sessions"]}

    def ask_to_leave(self) -> None:
        journal = self.receivers()[LEAVER]["id"]
        self.serving.client.post(f"/v1/receivers/{journal}/leave").raise_for_status()

    def start_again(self) -> None:
        self.division[LEAVER].start()
        self.division[LEAVER].await_source("sas")

    def await_left(self) -> None:
        until(lambda: LEAVER not in self.receivers(), 60)
        assert not has_session(self.broker.port, LEAVER)

    def kill_with_messages(self) -> None:
        """Kill one that has messages which it has not acknowledged, so that it is away."""
        leaver, journal = self.division[LEAVER], self.receivers()[LEAVER]["id"]
        assert leaver.process is not None
        os.kill(leaver.process.pid, signal.SIGSTOP)
        self.send()
        leaver.kill()
        self.division.pass_over(journal, 3600)
        assert self.receivers()[LEAVER]["state"] == "away"


@pytest.fixture
def group(request: pytest.FixtureRequest, tmp_path: Path, postgresql: Path, bucket: Bucket) -> Iterator[Group]:
    folder = tmp_path / "broker"
    folder.mkdir()
    version, ack = request.param
    forks = Forks(dict(os.environ))  # with the address of the object server
    with ExitStack() as ending:
        ending.callback(forks.close)
        broker = ending.enter_context(Mosquitto(folder, settings=QUEUEING))

        def source(name: str) -> str:
            return mqtt_source("sas", broker.port, GROUP, version, client_id=name)

        division = Division(tmp_path, postgresql, bucket, broker, forks, shared=source, ack=ack)
        ending.callback(division.stop)
        for name in (*OTHERS, LEAVER, "serve-a", "keep-a"):
            division.begin(name)
        for name in (*OTHERS, LEAVER):
            division[name].await_source("sas")
        yield Group(division, broker, version)


@pytest.mark.parametrize("group", [("5", "disk")], ids="-".join, indirect=True)
def test_one_leaves_while_messages_come_and_comes_back(group: Group) -> None:
    division, leaver, enough = group.division, group.division[LEAVER], Event()

    def send() -> None:
        group.send(3)
        while not enough.wait(0.2):
            group.send(3)

    sending = Thread(target=send)
    sending.start()
    try:
        until(lambda: leaver.samples().total("messages_received_total") > 0)
        group.ask_to_leave()
        until(lambda: state(group) == "leaving")
        group.await_left()
    finally:
        enough.set()
        sending.join()
    until(lambda: state(group) == "left")
    group.assert_finished()

    # Started again, it receives again. It comes back once more while another one is about to end its session.
    leaver.kill()
    group.start_again()
    assert group.receivers()[LEAVER]["state"] == "receiving"
    group.kill_with_messages()
    group.ask_to_leave()
    until(lambda: said(division, "session_end_begun"))
    group.broker.pause()
    leaver.start()
    group.broker.resume()
    leaver.await_source("sas")
    group.send()
    group.assert_finished()
    assert group.receivers()[LEAVER]["state"] == "receiving"
    assert not said(division, "receiver_left")


@pytest.mark.parametrize("group", [("3.1.1", "archive")], ids="-".join, indirect=True)
def test_another_one_takes_what_was_left_for_one_that_was_killed(group: Group) -> None:
    group.kill_with_messages()
    group.ask_to_leave()
    group.await_left()
    group.assert_finished()
    assert said(group.division, "receiver_left") == 1
    group.start_again()
    assert group.receivers()[LEAVER]["state"] == "receiving"


def said(division: Division, event: str) -> int:
    """Return how often the others have logged an event."""
    return sum(division[name].log.count(event) for name in OTHERS)


def state(group: Group) -> str:
    """Return what the leaving one says that it does."""
    checks = group.division[LEAVER].client.get("/health/ready").json()["checks"]
    return str(checks["receiving"]["state"])
