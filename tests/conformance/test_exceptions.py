"""Messages that a channel cannot deliver: exception reports and dead letters.

The double's channel leads from a transmission queue back to the double, which stands for the other queue manager.
"""

import struct
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from tests.conformance.calls import Got, Session
from tests.support.queue_manager import QueueManager

BODY = bytes(range(150))


@pytest.fixture
def names(double: QueueManager, new_queue: Callable[..., str]) -> dict[str, str]:
    """A remote queue's name, its transmission queue, the queue that it leads to, and one for reports."""
    xmitq, target, replies = new_queue(usage="XMITQ"), new_queue(), new_queue()
    remote = new_queue(rname=target, rqmname="QM2", xmitq=xmitq)
    double.clear("SYSTEM.DEAD.LETTER.QUEUE")
    return {"remote": remote, "xmitq": xmitq, "target": target, "replies": replies}


def send(session: Session, names: dict[str, str], report: int = 0, **md: Any) -> Any:
    return session.put(
        session.destination(names["remote"]), BODY, Report=report, ReplyToQ=names["replies"].encode(), **md
    )


def take(session: Session, queue: str) -> Got:
    return session.get(session.source(queue), match=session.mq.CMQC.MQMO_NONE)


def test_what_can_be_delivered(double: QueueManager, session: Session, names: dict[str, str], c: ModuleType) -> None:
    """IBM MQ: MQXQH - Transmission-queue header: the message that arrives is the one that was put."""
    group = {"GroupId": b"g" * 24, "MsgSeqNumber": 2, "MsgFlags": c.MQMF_MSG_IN_GROUP}
    put = send(session, names, c.MQRO_EXCEPTION, Format=b"MQSTR", CodedCharSetId=819, **group)
    assert double.run_channel(names["xmitq"]) == 1
    got = take(session, names["target"])
    assert (got.body, got.md.MsgId, got.md.Format, got.md.CodedCharSetId) == (BODY, put.MsgId, b"MQSTR   ", 819)
    assert (got.md.GroupId, got.md.MsgSeqNumber) == (b"g" * 24, 2)
    assert session.bodies(session.source(names["replies"])) == []


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"maxdepth": 0}, "MQRC_Q_FULL"),
        ({"put_enabled": False}, "MQRC_PUT_INHIBITED"),
        ({"maxmsgl": 100}, "MQRC_MSG_TOO_BIG_FOR_Q"),
    ],
)
def test_the_report_says_why(
    double: QueueManager,
    session: Session,
    names: dict[str, str],
    attributes: dict[str, Any],
    reason: str,
    c: ModuleType,
) -> None:
    """IBM MQ: Report (MQLONG), MQRO_EXCEPTION, "the message cannot be delivered to the specified destination queue";
    Feedback is the reason, and the message goes to the dead-letter queue."""
    double.alter(names["target"], **attributes)
    put = send(session, names, c.MQRO_EXCEPTION, Format=b"MQSTR", CodedCharSetId=819)
    double.run_channel(names["xmitq"])
    got = take(session, names["replies"])
    assert (got.md.MsgType, got.md.Feedback, got.body) == (c.MQMT_REPORT, getattr(c, reason), b"")
    assert got.md.CorrelId == put.MsgId
    dead = take(session, "SYSTEM.DEAD.LETTER.QUEUE")
    assert dead.md.Format == c.MQFMT_DEAD_LETTER_HEADER
    header = struct.unpack_from("=4s2i48s48s2i8s", dead.body)
    assert (header[2], header[3].decode().strip(), header[4].strip()) == (getattr(c, reason), names["target"], b"QM2")
    assert (header[6], header[7], dead.body[172:]) == (819, b"MQSTR   ", BODY)


@pytest.mark.parametrize(("option", "length"), [("", 0), ("_WITH_DATA", 100), ("_WITH_FULL_DATA", 150)])
def test_the_report_holds_data(
    double: QueueManager, session: Session, names: dict[str, str], option: str, length: int, c: ModuleType
) -> None:
    """IBM MQ: Report (MQLONG), MQRO_EXCEPTION_WITH_DATA: the first 100 bytes; MQRO_EXCEPTION_WITH_FULL_DATA: all."""
    double.alter(names["target"], put_enabled=False)
    send(session, names, getattr(c, f"MQRO_EXCEPTION{option}"))
    double.run_channel(names["xmitq"])
    assert take(session, names["replies"]).body == BODY[:length]


def test_a_message_may_be_discarded(
    double: QueueManager, session: Session, names: dict[str, str], c: ModuleType
) -> None:
    """IBM MQ: Report (MQLONG), MQRO_DISCARD_MSG: no dead letter, and a report all the same."""
    double.alter(names["target"], put_enabled=False)
    send(session, names, c.MQRO_EXCEPTION | c.MQRO_DISCARD_MSG)
    assert double.run_channel(names["xmitq"]) == 1
    assert take(session, names["replies"]).md.Feedback == c.MQRC_PUT_INHIBITED
    assert session.bodies(session.source("SYSTEM.DEAD.LETTER.QUEUE")) == []


def test_no_report_where_none_is_asked_for(double: QueueManager, session: Session, names: dict[str, str]) -> None:
    """IBM MQ: Report (MQLONG): MQRO_NONE."""
    double.alter(names["target"], put_enabled=False)
    send(session, names)
    double.run_channel(names["xmitq"])
    assert session.bodies(session.source(names["replies"])) == []
    assert len(session.bodies(session.source("SYSTEM.DEAD.LETTER.QUEUE"))) == 1


def test_the_channel_stops_without_a_dead_letter_queue(
    double: QueueManager, session: Session, names: dict[str, str], c: ModuleType
) -> None:
    """IBM MQ: Undelivered messages: the message stays on the transmission queue, and the channel stops."""
    double.alter(names["target"], put_enabled=False)
    double.alter("SYSTEM.DEAD.LETTER.QUEUE", put_enabled=False)
    try:
        send(session, names, c.MQRO_EXCEPTION)
        assert double.run_channel(names["xmitq"]) == 0
        assert double.depth(names["xmitq"]) == 1
        assert session.bodies(session.source(names["replies"])) == []
    finally:
        double.alter("SYSTEM.DEAD.LETTER.QUEUE", put_enabled=True)


def test_a_put_that_fails_makes_no_report(session: Session, new_queue: Callable[..., str], c: ModuleType) -> None:
    """IBM MQ: Report (MQLONG), MQRO_EXCEPTION: none where the application is told synchronously, by the reason code."""
    queue, replies = new_queue(maxdepth=0), new_queue()
    with session.fails(c.MQRC_Q_FULL):
        session.put(session.destination(queue), b"", Report=c.MQRO_EXCEPTION, ReplyToQ=replies.encode())
    assert session.bodies(session.source(replies)) == []
