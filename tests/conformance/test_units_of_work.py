"""Units of work: MQCMIT, MQBACK and what is seen of them."""

from collections.abc import Callable
from types import ModuleType

import pytest

from tests.conformance.calls import Session
from tests.conformance.target import Target


@pytest.fixture
def witness(connect: Callable[..., Session]) -> Session:
    """Another application."""
    return connect()


def test_a_put_is_seen_when_it_is_committed(session: Session, witness: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MQPMO options, MQPMO_SYNCPOINT."""
    session.put(session.destination(queue), b"body", c.MQPMO_SYNCPOINT)
    source = witness.source(queue)
    assert witness.bodies(source) == []
    session.connection.commit()
    assert witness.bodies(source) == [b"body"]


def test_a_put_is_not_seen_by_its_own_unit_either(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: Syncpoint considerations in IBM MQ applications; MQPMO_SYNCPOINT."""
    session.put(session.destination(queue), b"body", c.MQPMO_SYNCPOINT)
    assert session.bodies(session.source(queue), c.MQGMO_SYNCPOINT) == []
    session.connection.backout()


def test_a_put_that_is_backed_out_is_gone(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MQBACK - Back out changes: "messages put as part of a unit of work are deleted"."""
    session.put(session.destination(queue), b"body", c.MQPMO_SYNCPOINT)
    session.connection.backout()
    assert session.bodies(session.source(queue)) == []


def test_a_get_takes_effect_when_it_is_committed(session: Session, witness: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MQCMIT - Commit changes: "messages retrieved as part of a unit of work are deleted"."""
    session.put(session.destination(queue), b"body")
    session.get(session.source(queue), c.MQGMO_SYNCPOINT)
    assert witness.bodies(witness.source(queue)) == []
    session.connection.commit()
    session.connection.backout()
    assert witness.bodies(witness.source(queue)) == []


def test_a_get_that_is_backed_out_is_back_in_its_place(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MQBACK - Back out changes: "reinstated on the queue"; MQBACK does not change the order."""
    destination = session.destination(queue)
    for body in (b"1", b"2", b"3"):
        session.put(destination, body)
    source = session.source(queue)
    assert [session.get(source, c.MQGMO_SYNCPOINT).body for _ in range(2)] == [b"1", b"2"]
    session.connection.backout()
    assert session.bodies(source) == [b"1", b"2", b"3"]


def test_backing_out_is_counted(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: BackoutCount (MQLONG): how often it was returned as part of a unit of work and then backed out."""
    session.put(session.destination(queue), b"body")
    source = session.source(queue)
    counts = []
    for _ in range(3):
        counts.append(session.get(source, c.MQGMO_SYNCPOINT).md.BackoutCount)
        session.connection.backout()
    assert counts == [0, 1, 2]


def test_browsing_is_not_counted(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: BackoutCount (MQLONG): "excludes MQGET calls that specify any of the MQGMO_BROWSE_* options"."""
    session.put(session.destination(queue), b"body")
    source = session.source(queue, c.MQOO_BROWSE)
    session.get(source, c.MQGMO_BROWSE_FIRST)
    session.connection.backout()
    assert session.get(source).md.BackoutCount == 0


def test_put_and_get_in_one_unit(
    session: Session, witness: Session, queue: str, new_queue: Callable[..., str], c: ModuleType
) -> None:
    """IBM MQ: Local units of work on Multiplatforms."""
    other = new_queue()
    session.put(session.destination(queue), b"message")
    source, destination = session.source(queue), session.destination(other)
    for end in (session.connection.backout, session.connection.commit):
        session.put(destination, session.get(source, c.MQGMO_SYNCPOINT).body, c.MQPMO_SYNCPOINT)
        end()
    assert witness.bodies(witness.source(queue)) == []
    assert witness.bodies(witness.source(other)) == [b"message"]


def test_closing_a_queue_ends_no_unit_of_work(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MQCLOSE - Close object: only MQCMIT, MQBACK and MQDISC end it."""
    session.put(session.destination(queue), b"body")
    source = session.source(queue)
    session.get(source, c.MQGMO_SYNCPOINT)
    source.close()
    session.connection.backout()
    assert session.get(session.source(queue)).md.BackoutCount == 1


def test_moving_a_message(session: Session, queue: str, new_queue: Callable[..., str], c: ModuleType) -> None:
    """IBM MQ: Passing message context: what a program does with a message that it cannot process."""
    other = new_queue()
    sent = session.put(session.destination(queue), b"body", CorrelId=b"c" * 24, Format=b"MQSTR")
    source = session.source(queue, c.MQOO_SAVE_ALL_CONTEXT)
    session.get(source, c.MQGMO_SYNCPOINT)
    session.connection.backout()
    got = session.get(source, c.MQGMO_SYNCPOINT)
    destination = session.destination(other, c.MQOO_PASS_ALL_CONTEXT)
    pmo = session.mq.PMO(Options=c.MQPMO_SYNCPOINT | c.MQPMO_PASS_ALL_CONTEXT, Context=source.get_handle())
    destination.put(got.body, got.md, pmo)
    session.connection.commit()
    assert session.bodies(source) == []
    moved = session.get(session.source(other))
    assert (moved.body, moved.md.MsgId, moved.md.CorrelId) == (b"body", sent.MsgId, b"c" * 24)
    assert (moved.md.PutDate, moved.md.PutTime, moved.md.BackoutCount) == (sent.PutDate, sent.PutTime, 0)


def test_without_syncpoint_nothing_is_undone(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MQGMO_NO_SYNCPOINT, MQPMO_NO_SYNCPOINT."""
    session.put(session.destination(queue), b"1", c.MQPMO_NO_SYNCPOINT)
    session.put(session.destination(queue), b"2", c.MQPMO_NO_SYNCPOINT)
    source = session.source(queue)
    session.get(source, c.MQGMO_NO_SYNCPOINT)
    session.connection.backout()
    assert session.bodies(source) == [b"2"]


@pytest.mark.guess
def test_neither_option_is_no_syncpoint(session: Session, queue: str) -> None:
    """Believed to be so on Multiplatforms; on z/OS it is the other way round."""
    session.put(session.destination(queue), b"body")
    session.connection.backout()
    source = session.source(queue)
    assert session.get(source).body == b"body"
    session.connection.backout()
    assert session.bodies(source) == []


def test_syncpoint_if_persistent(session: Session, permanent_queue: str, c: ModuleType) -> None:
    """IBM MQ: MQGMO options, MQGMO_SYNCPOINT_IF_PERSISTENT."""
    destination = session.destination(permanent_queue)
    session.put(destination, b"persistent", Persistence=c.MQPER_PERSISTENT)
    session.put(destination, b"not", Persistence=c.MQPER_NOT_PERSISTENT)
    source = session.source(permanent_queue)
    assert session.bodies(source, c.MQGMO_SYNCPOINT_IF_PERSISTENT) == [b"persistent", b"not"]
    session.connection.backout()
    assert session.bodies(source) == [b"persistent"]


def test_get_options_that_exclude_each_other(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2046 (07FE) MQRC_OPTIONS_ERROR."""
    with session.fails(c.MQRC_OPTIONS_ERROR):
        session.get(session.source(queue), c.MQGMO_SYNCPOINT | c.MQGMO_NO_SYNCPOINT)


def test_a_unit_of_work_has_a_limit(own: Callable[..., Target], connect: Callable[..., Session], c: ModuleType) -> None:
    """IBM MQ: 2024 (07E8) MQRC_SYNCPOINT_LIMIT_REACHED: MaxUncommittedMsgs, puts and gets together."""
    to = own(max_uncommitted=3)
    assert to.double is not None
    to.double.define("QUEUE")
    session = connect(to=to)
    source, destination = session.source("QUEUE"), session.destination("QUEUE")
    session.put(destination, b"there already")
    session.get(source, c.MQGMO_SYNCPOINT)
    for _ in range(2):
        session.put(destination, b"", c.MQPMO_SYNCPOINT)
    with session.fails(c.MQRC_SYNCPOINT_LIMIT_REACHED):
        session.put(destination, b"", c.MQPMO_SYNCPOINT)
    session.put(destination, b"outside", c.MQPMO_NO_SYNCPOINT)
    session.connection.commit()
    assert len(session.bodies(source)) == 3


def test_nothing_to_commit(session: Session) -> None:
    """IBM MQ: MQCMIT - Commit changes; MQBACK - Back out changes: both complete where there is no unit of work."""
    session.connection.commit()
    session.connection.backout()
