"""What is left when an application, a connection or the queue manager ends in the middle."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest

from app.testing.waiting import until
from tests.conformance.calls import LONG_WAIT, Session, Waiting
from tests.conformance.target import CONNECT, Target

IN_A_UNIT_OF_WORK = """
source = mq.Queue(connection, queues[0], mq.CMQC.MQOO_INPUT_SHARED)
source.get(100, mq.MD(), mq.GMO(Options=mq.CMQC.MQGMO_SYNCPOINT))
destination = mq.Queue(connection, queues[1], mq.CMQC.MQOO_OUTPUT)
destination.put(b"never committed", mq.MD(), mq.PMO(Options=mq.CMQC.MQPMO_SYNCPOINT))
print("there", flush=True)
sys.stdin.read()
"""

WAITING = """
source = mq.Queue(connection, queues[0], mq.CMQC.MQOO_INPUT_SHARED)
print("there", flush=True)
source.get(100, mq.MD(), mq.GMO(Options=mq.CMQC.MQGMO_WAIT, WaitInterval=60_000))
"""


@contextmanager
def application(target: Target, program: str, *queues: str) -> Iterator[None]:
    """An application in a process of its own that has printed what it is to print; killed in the end."""
    command = [sys.executable, "-c", CONNECT + program, *target.arguments(), *queues]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=target.environment, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
        yield
        process.kill()


@pytest.mark.process
def test_a_killed_application_is_backed_out(
    target: Target, session: Session, queue: str, new_queue: Callable[..., str], c: ModuleType
) -> None:
    """IBM MQ: MQDISC - Disconnect queue manager, "Usage notes": ended without MQDISC, it is backed out and counted."""
    other = new_queue()
    session.put(session.destination(queue), b"body")
    with application(target, IN_A_UNIT_OF_WORK, queue, other):
        pass
    got = session.get(session.source(queue), wait=LONG_WAIT)
    assert (got.body, got.md.BackoutCount) == (b"body", 1)
    assert session.bodies(session.source(other)) == []


@pytest.mark.process
def test_a_killed_application_takes_nothing_more(target: Target, session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MQDISC - Disconnect queue manager, "Usage notes": its MQGET no longer waits."""
    with application(target, WAITING, queue):
        target.waits(session, queue)
    target.waits(session, queue, 0)
    session.put(session.destination(queue), b"for the next")
    assert session.bodies(session.source(queue)) == [b"for the next"]


def reconnected(to: Target, connect: Callable[..., Session]) -> Session:
    """A session on the queue manager after it was killed and started."""
    assert to.double is not None
    to.double.kill()
    to.double.start()
    return connect(to=to)


@pytest.fixture
def mortal(own: Callable[..., Target]) -> Target:
    """A queue manager that may be killed, with a queue QUEUE."""
    to = own()
    assert to.double is not None
    to.double.define("QUEUE")
    return to


def test_persistent_messages_outlive_the_queue_manager(
    mortal: Target, connect: Callable[..., Session], c: ModuleType
) -> None:
    """IBM MQ: Persistence (MQLONG): persistent messages survive a restart of the queue manager, others do not."""
    session = connect(to=mortal)
    destination = session.destination("QUEUE")
    sent = session.put(destination, b"persistent", Persistence=c.MQPER_PERSISTENT, CorrelId=b"c" * 24, Format=b"MQSTR")
    session.put(destination, b"not", Persistence=c.MQPER_NOT_PERSISTENT)
    session.put(destination, b"not committed", c.MQPMO_SYNCPOINT, Persistence=c.MQPER_PERSISTENT)
    after = reconnected(mortal, connect)
    source = after.source("QUEUE")
    got = after.get(source)
    assert (got.body, got.md.MsgId, got.md.CorrelId) == (b"persistent", sent.MsgId, b"c" * 24)
    assert (got.md.Format, got.md.PutDate, got.md.PutTime) == (b"MQSTR   ", sent.PutDate, sent.PutTime)
    assert after.bodies(source) == []


def test_committed_gets_outlive_the_queue_manager(
    mortal: Target, connect: Callable[..., Session], c: ModuleType
) -> None:
    """IBM MQ: MQCMIT - Commit changes: "made permanent"."""
    session = connect(to=mortal)
    destination = session.destination("QUEUE")
    for body in (b"committed", b"not committed"):
        session.put(destination, body, Persistence=c.MQPER_PERSISTENT)
    source = session.source("QUEUE")
    session.get(source, c.MQGMO_SYNCPOINT)
    session.connection.commit()
    session.get(source, c.MQGMO_SYNCPOINT)
    after = reconnected(mortal, connect)
    assert after.bodies(after.source("QUEUE")) == [b"not committed"]


def test_the_backout_count_outlives_the_queue_manager(
    mortal: Target, connect: Callable[..., Session], c: ModuleType
) -> None:
    """IBM MQ: Messages that are backed out: "the backout count always survives restarts of the queue manager"."""
    session = connect(to=mortal)
    session.put(session.destination("QUEUE"), b"body", Persistence=c.MQPER_PERSISTENT)
    source = session.source("QUEUE")
    for _ in range(2):
        session.get(source, c.MQGMO_SYNCPOINT)
        session.connection.backout()
    after = reconnected(mortal, connect)
    assert after.get(after.source("QUEUE")).md.BackoutCount == 2


def test_a_killed_queue_manager_breaks_connections(
    mortal: Target, connect: Callable[..., Session], c: ModuleType
) -> None:
    """IBM MQ: 2009 (07D9) MQRC_CONNECTION_BROKEN; the handle stays unusable."""
    session = connect(to=mortal)
    source = session.source("QUEUE")
    assert mortal.double is not None
    mortal.double.kill()
    with session.fails(c.MQRC_CONNECTION_BROKEN):
        session.get(source)
    assert not session.connection.is_connected
    mortal.double.start()
    with session.fails(c.MQRC_CONNECTION_BROKEN):
        session.get(source)


def test_an_orderly_end_cancels_waits(mortal: Target, connect: Callable[..., Session], c: ModuleType) -> None:
    """IBM MQ: 2162 (0872) MQRC_Q_MGR_STOPPING, "the wait has been canceled"."""
    waiting = Waiting(connect(to=mortal), "QUEUE")
    mortal.waits(connect(to=mortal), "QUEUE")
    assert mortal.double is not None
    mortal.double.stop()
    assert waiting.result() == c.MQRC_Q_MGR_STOPPING


def test_a_broken_connection_is_backed_out(mortal: Target, connect: Callable[..., Session], c: ModuleType) -> None:
    """IBM MQ: Local units of work on Multiplatforms: "also ends when the connection … is broken"."""
    session = connect(to=mortal)
    session.put(session.destination("QUEUE"), b"body")
    source = session.source("QUEUE")
    session.get(source, c.MQGMO_SYNCPOINT)
    assert mortal.double is not None
    mortal.double.break_connections()
    with session.fails(c.MQRC_CONNECTION_BROKEN):
        session.connection.commit()
    after = connect(to=mortal)
    got = after.get(after.source("QUEUE"), wait=LONG_WAIT)
    assert (got.body, got.md.BackoutCount) == (b"body", 1)


@pytest.mark.parametrize(("lose", "left"), [("before", [b"body"]), ("after", [])])
def test_a_commit_in_doubt(
    mortal: Target, connect: Callable[..., Session], lose: Any, left: list[bytes], c: ModuleType
) -> None:
    """IBM MQ: 2009 (07D9) MQRC_CONNECTION_BROKEN: a client cannot know whether the commit was done."""
    session = connect(to=mortal)
    session.put(session.destination("QUEUE"), b"body")
    session.get(session.source("QUEUE"), c.MQGMO_SYNCPOINT)
    assert mortal.double is not None
    mortal.double.fault("MQCMIT", lose=lose)
    with session.fails(c.MQRC_CONNECTION_BROKEN):
        session.connection.commit()
    after = connect(to=mortal)
    source = after.source("QUEUE")
    if left:
        until(lambda: mortal.double is not None and mortal.double.depth("QUEUE") == len(left))
        assert after.get(source, wait=LONG_WAIT).body == left[0]
    assert after.bodies(source) == []
