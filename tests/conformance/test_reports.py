"""Report messages, and the report options that a put is refused for."""

import time
from contextlib import suppress
from types import ModuleType
from typing import Any

import pytest

from app.testing.waiting import until
from tests.conformance.calls import Session


def asking(session: Session, queue: str, report: int, body: bytes = b"data", options: int = 0, **md: Any) -> Any:
    """Puts a message that asks for reports to the queue that it is put to."""
    return session.put(session.destination(queue), body, options, Report=report, ReplyToQ=queue.encode(), **md)


@pytest.mark.parametrize(("option", "length"), [("", 0), ("_WITH_DATA", 100), ("_WITH_FULL_DATA", 150)])
def test_confirmation_of_arrival(session: Session, queue: str, option: str, length: int, c: ModuleType) -> None:
    """IBM MQ: Report (MQLONG), MQRO_COA and those with data; MsgId is new, and CorrelId is the message's MsgId."""
    put = asking(session, queue, getattr(c, f"MQRO_COA{option}"), b"d" * 150)
    source = session.source(queue)
    assert session.get(source, match=c.MQMO_NONE).body == b"d" * 150
    got = session.get(source, match=c.MQMO_NONE)
    assert (got.body, got.md.MsgType, got.md.Feedback) == (b"d" * length, c.MQMT_REPORT, c.MQFB_COA)
    assert got.md.CorrelId == put.MsgId
    assert got.md.MsgId != put.MsgId


def test_identifiers_are_passed_on_where_that_is_asked_for(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: Report (MQLONG), MQRO_PASS_MSG_ID and MQRO_PASS_CORREL_ID."""
    options = c.MQRO_COA | c.MQRO_PASS_MSG_ID | c.MQRO_PASS_CORREL_ID
    put = asking(session, queue, options, CorrelId=b"correlation".ljust(24))
    source = session.source(queue)
    session.get(source, match=c.MQMO_NONE)
    got = session.get(source, match=c.MQMO_NONE)
    assert (got.md.MsgId, got.md.CorrelId) == (put.MsgId, b"correlation".ljust(24))


def test_confirmation_of_delivery(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: Report (MQLONG), MQRO_COD: when the message is got, and not when it is browsed."""
    asking(session, queue, c.MQRO_COD)
    source = session.source(queue, c.MQOO_BROWSE)
    session.get(source, c.MQGMO_BROWSE_FIRST, match=c.MQMO_NONE)
    assert session.get(source, match=c.MQMO_NONE).md.Feedback == 0
    assert session.get(source, match=c.MQMO_NONE).md.Feedback == c.MQFB_COD
    assert session.bodies(source) == []


def test_reports_belong_to_the_unit_of_work(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MaxUncommittedMsgs: COA reports of messages that are put with MQPMO_SYNCPOINT are of the unit of work."""
    asking(session, queue, c.MQRO_COA, options=c.MQPMO_SYNCPOINT)
    assert session.bodies(session.source(queue)) == []
    session.connection.commit()
    assert len(session.bodies(session.source(queue))) == 2


def test_expiration(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: Report (MQLONG), MQRO_EXPIRATION."""
    asking(session, queue, c.MQRO_EXPIRATION, Expiry=1)
    time.sleep(0.3)
    found: list[Any] = []

    def reported() -> bool:
        """The message is found to have expired when it is looked for, and the report may come after."""
        with suppress(session.mq.MQMIError):
            found.append(session.get(session.source(queue), match=c.MQMO_NONE).md)
        return bool(found)

    until(reported)
    assert (found[0].MsgType, found[0].Feedback) == (c.MQMT_REPORT, c.MQFB_EXPIRATION)


def test_a_report_needs_somewhere_to_go(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2027 (07EB) MQRC_MISSING_REPLY_TO_Q: a report message was asked for and ReplyToQ is blank."""
    with session.fails(c.MQRC_MISSING_REPLY_TO_Q):
        session.put(session.destination(queue), Report=c.MQRO_COA)


@pytest.mark.parametrize("bit", [0x10000000, 0x00100000, 0x00040000, 0x00010000])
def test_unknown_options_are_refused(session: Session, queue: str, bit: int, c: ModuleType) -> None:
    """IBM MQ: Structure of the report field: MQRO_REJECT_UNSUP_MASK, and on the way to no other queue manager
    MQRO_ACCEPT_UNSUP_IF_XMIT_MASK."""
    with session.fails(c.MQRC_REPORT_OPTIONS_ERROR):
        asking(session, queue, bit)


def test_unknown_options_that_are_accepted(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: Structure of the report field: MQRO_ACCEPT_UNSUP_MASK; 2104 (0838) MQRC_UNKNOWN_REPORT_OPTION."""
    with session.warns(c.MQRC_UNKNOWN_REPORT_OPTION):
        asking(session, queue, 0x8)
    assert len(session.bodies(session.source(queue))) == 1
