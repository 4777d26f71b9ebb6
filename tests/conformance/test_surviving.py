"""What is left when an application, a connection or the queue manager ends in the middle."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from tests.conformance.calls import Session
from tests.conformance.target import Target
from tests.support.waiting import until

CHILD = """
import importlib, sys, time
library, name, channel, connection_name, user, password, source, destination = sys.argv[1:]
mq = importlib.import_module(library)
c = mq.CMQC
connection = mq.QueueManager(None)
connection.connect_tcp_client(name, mq.CD(), channel, connection_name, user or None, password or None)
got = mq.Queue(connection, source, c.MQOO_INPUT_SHARED)
got.get(100, mq.MD(), mq.GMO(Options=c.MQGMO_SYNCPOINT))
put = mq.Queue(connection, destination, c.MQOO_OUTPUT)
put.put(b"never committed", mq.MD(), mq.PMO(Options=c.MQPMO_SYNCPOINT))
print("in a unit of work", flush=True)
time.sleep(60)
"""
"""An application that gets and puts in a unit of work, says so, and does not end."""


def test_a_killed_application_is_backed_out(
    target: Target, session: Session, queue: str, new_queue: Callable[..., str], c: ModuleType
) -> None:
    """IBM MQ: MQDISC - Disconnect queue manager, "Usage notes": ended without MQDISC, it is backed out and counted."""
    other = new_queue()
    session.put(session.destination(queue), b"body")
    arguments = [target.library, target.name, target.channel, target.connection_name]
    arguments += [target.user or "", target.password or "", queue, other]
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, *arguments], env=target.environment, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"in a unit of work\n"
        os.kill(child.pid, signal.SIGKILL)
    got = session.get(session.source(queue), wait=20_000)
    assert (got.body, got.md.BackoutCount) == (b"body", 1)
    assert session.bodies(session.source(other)) == []


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
    got = after.get(after.source("QUEUE"), wait=20_000)
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
        assert after.get(source, wait=20_000).body == left[0]
    assert after.bodies(source) == []
