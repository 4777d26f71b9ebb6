"""MQCONN, MQCONNX and MQDISC."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tests.conformance.calls import LONG_WAIT, Session
from tests.conformance.target import CONNECT, Target
from tests.support.mosquitto import free_port
from tests.support.queue_manager import QueueManager


def test_a_queue_manager_that_does_not_exist(target: Target, session: Session, c: ModuleType) -> None:
    """IBM MQ: 2058 (080A) MQRC_Q_MGR_NAME_ERROR."""
    with session.fails(c.MQRC_Q_MGR_NAME_ERROR):
        target.connect(name="NO.SUCH.MANAGER")


def test_a_host_that_nobody_listens_on(target: Target, session: Session, c: ModuleType) -> None:
    """IBM MQ: 2538 (09EA) MQRC_HOST_NOT_AVAILABLE."""
    with session.fails(c.MQRC_HOST_NOT_AVAILABLE):
        target.connect(connection_name=f"localhost({free_port()})")


def test_a_channel_that_does_not_exist(target: Target, session: Session, c: ModuleType) -> None:
    """IBM MQ: 2540 (09EC) MQRC_UNKNOWN_CHANNEL_NAME."""
    with session.fails(c.MQRC_UNKNOWN_CHANNEL_NAME):
        target.connect(channel="NO.SUCH.CHANNEL")


def test_the_next_connection_name_of_a_list_is_tried(target: Target) -> None:
    """IBM MQ: ConnectionName (MQCHAR264) of MQCD: a list of names, separated by commas."""
    connection = target.connect(connection_name=f"localhost({free_port()}),{target.connection_name}")
    assert connection.inquire(target.mq.CMQC.MQCA_Q_MGR_NAME).decode().strip() == target.name
    connection.disconnect()


def test_the_environment_names_the_application(target: Target, queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """IBM MQ: Using the application name in supported programming languages: MQAPPLNAME, of C clients since 9.1.2."""
    monkeypatch.setenv("MQAPPLNAME", "a name for the tests")
    session = Session(target.mq, target.connect())
    session.put(session.destination(queue), b"body")
    assert session.get(session.source(queue)).md.PutApplName.rstrip() == b"a name for the tests"
    session.connection.disconnect()


def test_a_password_that_is_wrong(target: Target, session: Session, own: Callable[..., Target], c: ModuleType) -> None:
    """IBM MQ: 2035 (07F3) MQRC_NOT_AUTHORIZED."""
    to = own(users={"app": "secret"})
    with session.fails(c.MQRC_NOT_AUTHORIZED):
        to.connect(user="app", password="wrong")
    to.connect(user="app", password="secret").disconnect()


@pytest.mark.guess
def test_a_listener_without_its_queue_manager(own: Callable[..., Target], session: Session, c: ModuleType) -> None:
    """IBM MQ: 2059 (080B) MQRC_Q_MGR_NOT_AVAILABLE; that a connection closed at once is reported so is believed."""
    to = own()
    assert to.double is not None
    to.double.fault("MQCONN", lose="before")
    with session.fails(c.MQRC_Q_MGR_NOT_AVAILABLE):
        to.connect()


def test_disconnecting_commits(session: Session, connect: Callable[..., Session], queue: str, c: ModuleType) -> None:
    """IBM MQ: MQDISC - Disconnect queue manager, "Usage notes": MQCMIT on behalf of the application."""
    leaving = connect()
    leaving.put(leaving.destination(queue), b"left behind", c.MQPMO_SYNCPOINT)
    leaving.connection.disconnect()
    assert session.bodies(session.source(queue)) == [b"left behind"]


def in_another_thread(call: Callable[[], object]) -> list[object]:
    """What the call raised or gave there."""
    outcome: list[object] = []

    def run() -> None:
        try:
            outcome.append(call())
        except Exception as error:  # noqa: BLE001 - handed to the caller, whatever it is
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return outcome


def test_a_handle_of_mqconn_belongs_to_its_thread(
    target: Target, session: Session, queue: str, c: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """IBM MQ: Shared (thread independent) connections with MQCONNX; 2018 (07E2) MQRC_HCONN_ERROR."""
    if target.user:
        pytest.skip("MQCONN gives no password")
    monkeypatch.setitem(os.environ, "MQSERVER", f"{target.channel}/TCP/{target.connection_name}")
    bound = Session(target.mq, target.mq.QueueManager(target.name))
    source = bound.source(queue)
    (error,) = in_another_thread(lambda: bound.get(source))
    assert isinstance(error, target.mq.MQMIError)
    assert (error.comp, error.reason) == (c.MQCC_FAILED, c.MQRC_HCONN_ERROR)
    bound.put(bound.destination(queue), b"its own thread may")
    bound.connection.disconnect()


def test_a_handle_of_mqconn_ends_with_its_thread(
    target: Target, session: Session, queue: str, c: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """IBM MQ: MQCONNX - Connect queue manager (extended), Hconn: ends with "the unit of processing"; MQDISC was not
    called, so the unit of work is backed out."""
    if target.user:
        pytest.skip("MQCONN gives no password")
    monkeypatch.setitem(os.environ, "MQSERVER", f"{target.channel}/TCP/{target.connection_name}")
    session.put(session.destination(queue), b"body")
    kept = []

    def run() -> None:
        bound = Session(target.mq, target.mq.QueueManager(target.name))
        kept.append((bound, source := bound.source(queue)))
        bound.get(source, c.MQGMO_SYNCPOINT)

    in_another_thread(run)
    got = session.get(session.source(queue), wait=LONG_WAIT)
    assert (got.body, got.md.BackoutCount) == (b"body", 1)


def test_a_shared_handle_serves_every_thread(session: Session, queue: str) -> None:
    """IBM MQ: Shared (thread independent) connections with MQCONNX."""
    session.put(session.destination(queue), b"body")
    source = session.source(queue)
    (got,) = in_another_thread(lambda: session.get(source).body)
    assert got == b"body"


def busy(target: Target, session: Session, holder: Session, queue: str) -> threading.Thread:
    """A thread that holds the holder's handle in a waiting MQGET until a message comes."""
    source = holder.source(queue)
    thread = threading.Thread(target=lambda: holder.get(source, wait=LONG_WAIT))
    thread.start()
    target.waits(session, queue)
    return thread


def test_a_shared_handle_in_use_refuses_when_it_may_not_block(
    target: Target,
    double: QueueManager,
    session: Session,
    connect: Callable[..., Session],
    queue: str,
    c: ModuleType,
) -> None:
    """IBM MQ: 2219 (08AB) MQRC_CALL_IN_PROGRESS, MQCNO_HANDLE_SHARE_NO_BLOCK."""
    holder = connect(c.MQCNO_HANDLE_SHARE_NO_BLOCK)
    thread = busy(target, session, holder, queue)
    with session.fails(c.MQRC_CALL_IN_PROGRESS):
        holder.connection.commit()
    session.put(session.destination(queue))
    thread.join()


def test_a_shared_handle_in_use_makes_others_wait(
    target: Target,
    double: QueueManager,
    session: Session,
    connect: Callable[..., Session],
    queue: str,
    c: ModuleType,
) -> None:
    """IBM MQ: Shared (thread independent) connections with MQCONNX, MQCNO_HANDLE_SHARE_BLOCK."""
    holder = connect(c.MQCNO_HANDLE_SHARE_BLOCK)
    thread = busy(target, session, holder, queue)
    order: list[str] = []

    def commit() -> None:
        holder.connection.commit()
        order.append("committed")

    second = threading.Thread(target=commit)
    second.start()
    order.append("put")
    session.put(session.destination(queue))
    thread.join()
    second.join()
    assert order == ["put", "committed"]


def test_is_connected(target: Target, connect: Callable[..., Session]) -> None:
    """Both libraries ask the queue manager: pymqi with a PCF ping, ibmmq with MQINQ."""
    if target.library == "pymqi" and target.double is None:
        pytest.skip("needs the authority to ask the command server")
    session = connect()
    assert session.connection.is_connected
    session.connection.disconnect()
    assert not session.connection.is_connected


@pytest.mark.process
@pytest.mark.parametrize(("ccsid", "expected"), [("850", 850), ("", 1208)])
def test_no_character_set_is_the_clients(
    target: Target, session: Session, queue: str, ccsid: str, expected: int, double: QueueManager
) -> None:
    """IBM MQ: CodedCharSetId (MQLONG): for client applications MQCCSI_Q_MGR is filled in from the client's locale;
    Choosing client or server CCSID: MQCCSID overrides it."""
    program = CONNECT + "queue = mq.Queue(connection, queues[0], mq.CMQC.MQOO_OUTPUT)\nqueue.put(b'', mq.MD())\n"
    service_context = target.environment | {"MQCCSID": ccsid, "LC_ALL": "C.UTF-8"}
    subprocess.run([sys.executable, "-c", program, *target.arguments(), queue], env=service_context, check=True)
    assert session.get(session.source(queue)).md.CodedCharSetId == expected


def test_a_key_repository_that_is_not_there(own: Callable[..., Target], tmp_path: Path) -> None:
    """IBM MQ: 2381 (094D) MQRC_KEY_REPOSITORY_ERROR."""
    target = own(cipher="ANY_TLS12_OR_HIGHER")
    mq = target.mq
    (tmp_path / "keys.kdb").touch()
    for repository, reason in ((tmp_path / "missing", 2381), (tmp_path / "keys", None)):
        cd = mq.CD(
            ChannelName=target.channel.encode(),
            ConnectionName=target.connection_name.encode(),
            SSLCipherSpec=b"ANY_TLS12_OR_HIGHER",
        )
        sco = mq.SCO()
        sco.KeyRepository = str(repository).encode()
        connection = mq.QueueManager(None)
        if reason is None:
            connection.connect_with_options(target.name, cd=cd, sco=sco)
            connection.disconnect()
        else:
            with pytest.raises(mq.MQMIError) as refused:
                connection.connect_with_options(target.name, cd=cd, sco=sco)
            assert refused.value.reason == reason


def test_authorities(own: Callable[..., Target]) -> None:
    """IBM MQ: 2035 (07F3) MQRC_NOT_AUTHORIZED: Type 1 on connecting, Type 2 on opening a queue."""
    granted = {"app": {"": ["connect"], "DEV.QUEUE.1": ["get", "put"]}, "nobody": {}}
    target = own(users={"app": "a", "nobody": "n"}, authorities=granted)
    c = target.mq.CMQC
    with pytest.raises(target.mq.MQMIError) as refused:
        target.connect(user="nobody", password="n")
    assert refused.value.reason == c.MQRC_NOT_AUTHORIZED
    connection = target.connect(user="app", password="a")
    for options in (c.MQOO_OUTPUT, c.MQOO_INPUT_SHARED):
        target.mq.Queue(connection, "DEV.QUEUE.1", options).close()
    for name, options in (
        ("DEV.QUEUE.1", c.MQOO_BROWSE),
        ("DEV.QUEUE.1", c.MQOO_INQUIRE),
        ("DEV.QUEUE.1", c.MQOO_OUTPUT | c.MQOO_PASS_ALL_CONTEXT),
        ("DEV.QUEUE.2", c.MQOO_OUTPUT),
    ):
        with pytest.raises(target.mq.MQMIError) as refused:
            target.mq.Queue(connection, name, options)
        assert refused.value.reason == c.MQRC_NOT_AUTHORIZED
    with pytest.raises(target.mq.MQMIError) as refused:
        connection.put1(target.mq.OD(ObjectName=b"DEV.QUEUE.2"), b"", target.mq.MD(), target.mq.PMO())
    assert refused.value.reason == c.MQRC_NOT_AUTHORIZED
    connection.disconnect()


@pytest.mark.parametrize(("operator", "expected"), [("GREATER", {"DEEP"}), ("NOT_GREATER", {"SHALLOW"})])
def test_filters_of_inquiries(own: Callable[..., Target], operator: str, expected: set[str]) -> None:
    """IBM MQ: MQCFIF - PCF integer filter parameter structure; Inquire Queue, IntegerFilterCommand."""
    target = own()
    assert target.double is not None
    target.double.define("TEST.DEEP", maxdepth=100)
    target.double.define("TEST.SHALLOW", maxdepth=10)
    mq, connection = target.mq, target.connect()
    how = getattr(mq.CMQCFC, f"MQCFOP_{operator}")
    chosen = mq.Filter(mq.CMQC.MQIA_MAX_Q_DEPTH)
    chosen = {"GREATER": chosen.greater, "NOT_GREATER": chosen.not_greater}[operator](10)
    assert chosen.operator == how
    found = mq.PCFExecute(connection).MQCMD_INQUIRE_Q({mq.CMQC.MQCA_Q_NAME: b"TEST.*"}, [chosen])
    names = {each[mq.CMQC.MQCA_Q_NAME].decode().strip().removeprefix("TEST.") for each in found}
    assert names == expected
    connection.disconnect()
