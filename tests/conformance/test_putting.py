"""MQPUT and MQPUT1: what the queue manager fills in, and what it refuses."""

from collections.abc import Callable
from datetime import datetime
from types import ModuleType
from typing import Any

import pytest

from tests.conformance.calls import Session
from tests.support.queue_manager import QueueManager


def put_and_get(session: Session, queue: str, *arguments: Any, **fields: Any) -> Any:
    """The descriptor with which a message comes off the queue that was put with these fields."""
    session.put(session.destination(queue), *arguments, **fields)
    return session.get(session.source(queue)).md


def test_a_message_id_is_made(session: Session, queue: str) -> None:
    """IBM MQ: MsgId (MQBYTE24): "AMQ" and the queue manager's name in what is made for MQMI_NONE."""
    destination = session.destination(queue)
    first, second = (session.put(destination).MsgId for _ in range(2))
    assert first != second
    assert first.startswith(b"AMQ ")
    assert session.get(session.source(queue)).md.MsgId == first


def test_a_message_id_given_is_kept(session: Session, queue: str) -> None:
    """IBM MQ: MsgId (MQBYTE24): made only for MQMI_NONE, or with MQPMO_NEW_MSG_ID."""
    assert put_and_get(session, queue, MsgId=b"given".ljust(24)).MsgId == b"given".ljust(24)


def test_a_new_message_id_can_be_asked_for(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MQPMO options, MQPMO_NEW_MSG_ID."""
    given = b"given".ljust(24)
    sent = session.put(session.destination(queue), b"", c.MQPMO_NEW_MSG_ID, MsgId=given)
    assert sent.MsgId != given
    assert session.get(session.source(queue)).md.MsgId == sent.MsgId


def test_a_correlation_id_is_left_as_it_is(session: Session, queue: str) -> None:
    """IBM MQ: CorrelId (MQBYTE24), "the application can specify any value"; MQCI_NONE stays."""
    assert put_and_get(session, queue).CorrelId == bytes(24)
    assert put_and_get(session, queue, CorrelId=b"\x01" * 24).CorrelId == b"\x01" * 24


def test_a_new_correlation_id_can_be_asked_for(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: CorrelId (MQBYTE24), MQPMO_NEW_CORREL_ID: "also returned to the sending application"."""
    sent = session.put(session.destination(queue), b"", c.MQPMO_NEW_CORREL_ID)
    assert sent.CorrelId != bytes(24)
    assert session.get(session.source(queue)).md.CorrelId == sent.CorrelId


def test_the_time_of_putting(session: Session, queue: str) -> None:
    """IBM MQ: PutDate (MQCHAR8), YYYYMMDD; PutTime (MQCHAR8), HHMMSSTH: tenths and hundredths of a second follow."""
    md = put_and_get(session, queue)
    assert md.PutTime.isdigit()
    assert datetime.strptime((md.PutDate + md.PutTime[:6]).decode(), "%Y%m%d%H%M%S")


@pytest.mark.parametrize("attributes", [{}, {"defpsist": True, "defprty": 4}], ids=["as it is", "changed"])
def test_priority_and_persistence_as_the_queue_says(
    session: Session, new_queue: Callable[..., str], attributes: dict[str, Any], c: ModuleType
) -> None:
    """IBM MQ: Priority (MQLONG), MQPRI_PRIORITY_AS_Q_DEF; Persistence (MQLONG), MQPER_PERSISTENCE_AS_Q_DEF."""
    queue = session.destination(name := new_queue(**attributes), c.MQOO_INQUIRE)
    defaults = (queue.inquire(c.MQIA_DEF_PRIORITY), queue.inquire(c.MQIA_DEF_PERSISTENCE))
    sent = session.put(queue)
    md = session.get(session.source(name)).md
    assert (sent.Priority, sent.Persistence) == (md.Priority, md.Persistence) == defaults


def test_the_queue_managers_character_set_stands_for_zero(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: CodedCharSetId (MQLONG), MQCCSI_Q_MGR: MQGET never returns it."""
    ccsid = session.connection.inquire(c.MQIA_CODED_CHAR_SET_ID)
    assert put_and_get(session, queue, CodedCharSetId=c.MQCCSI_Q_MGR).CodedCharSetId == ccsid


def test_encoding_character_set_and_format_are_kept(session: Session, queue: str) -> None:
    """IBM MQ: Encoding (MQLONG); CodedCharSetId (MQLONG); Format (MQCHAR8): they describe the data."""
    md = put_and_get(session, queue, b"\xc1", Encoding=785, CodedCharSetId=500, Format=b"MQSTR")
    assert (md.Encoding, md.CodedCharSetId, md.Format) == (785, 500, b"MQSTR   ")


def test_character_fields_come_padded_with_blanks(session: Session, queue: str) -> None:
    """IBM MQ: MQMD - Message descriptor: what ends with a null is filled up with blanks."""
    md = put_and_get(session, queue, Format=b"MQSTR", ReplyToQ=b"REPLIES")
    assert md.Format == b"MQSTR   "
    assert md.ReplyToQ == b"REPLIES".ljust(48)


def test_the_reply_queue_manager_is_filled_in(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: ReplyToQMgr (MQCHAR48): the local queue manager, for a local ReplyToQ."""
    name = session.connection.inquire(c.MQCA_Q_MGR_NAME).strip()
    assert put_and_get(session, queue, ReplyToQ=queue.encode()).ReplyToQMgr.strip() == name


def test_the_backout_count_given_is_ignored(session: Session, queue: str) -> None:
    """IBM MQ: BackoutCount (MQLONG): ignored on MQPUT and MQPUT1; initially zero."""
    assert put_and_get(session, queue, BackoutCount=5).BackoutCount == 0


def test_an_empty_message(session: Session, queue: str) -> None:
    """IBM MQ: MQPUT - Put message, BufferLength: zero for a message without data."""
    session.put(session.destination(queue), b"")
    assert session.get(session.source(queue)).body == b""


def test_put1_opens_puts_and_closes(session: Session, queue: str) -> None:
    """IBM MQ: MQPUT1 - Put one message."""
    md = session.mq.MD()
    session.connection.put1(queue, b"body", md)
    got = session.get(session.source(queue))
    assert (got.body, got.md.MsgId) == (b"body", md.MsgId)


@pytest.mark.parametrize("kind", [1, 2, 4, 8, 65536, 100_000, 100_001, 999_999_999])
def test_message_types(session: Session, queue: str, kind: int) -> None:
    """IBM MQ: MsgType (MQLONG): request, reply, report, datagram, MQMT_APPL_FIRST to MQMT_APPL_LAST."""
    assert put_and_get(session, queue, MsgType=kind, ReplyToQ=queue.encode()).MsgType == kind


@pytest.mark.parametrize("kind", [0, 65535, 1_000_000_000])
def test_message_types_that_are_none(session: Session, queue: str, kind: int, c: ModuleType) -> None:
    """IBM MQ: 2029 (07ED) MQRC_MSG_TYPE_ERROR."""
    with session.fails(c.MQRC_MSG_TYPE_ERROR):
        session.put(session.destination(queue), MsgType=kind)


def test_a_request_without_a_reply_queue(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2027 (07EB) MQRC_MISSING_REPLY_TO_Q."""
    with session.fails(c.MQRC_MISSING_REPLY_TO_Q):
        session.put(session.destination(queue), MsgType=c.MQMT_REQUEST)


REFUSED_FIELDS = {
    "MQRC_EXPIRY_ERROR": {"Expiry": 0},
    "MQRC_PERSISTENCE_ERROR": {"Persistence": 3},
    "MQRC_PRIORITY_ERROR": {"Priority": -2},
    "MQRC_MD_ERROR": {"version": 3},
    "MQRC_MSG_FLAGS_ERROR": {"MsgFlags": 0x800},
    "MQRC_MSG_SEQ_NUMBER_ERROR": {"MsgFlags": 8, "MsgSeqNumber": 0},
    "MQRC_OFFSET_ERROR": {"MsgFlags": 2, "Offset": -1},
}


@pytest.mark.parametrize("reason", REFUSED_FIELDS)
def test_fields_that_are_refused(session: Session, queue: str, reason: str, c: ModuleType) -> None:
    """IBM MQ: 2013 EXPIRY_ERROR, 2026 MD_ERROR, 2047 PERSISTENCE_ERROR, 2050 PRIORITY_ERROR, 2249 to 2251."""
    fields: dict[str, Any] = REFUSED_FIELDS[reason]
    with session.fails(getattr(c, reason)):
        session.put(session.destination(queue), b"body", **fields)
    assert session.bodies(session.source(queue)) == []


def test_a_priority_above_the_highest(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2049 (0801) MQRC_PRIORITY_EXCEEDS_MAXIMUM: put at the maximum, with the priority that was given."""
    with session.warns(c.MQRC_PRIORITY_EXCEEDS_MAXIMUM):
        session.put(session.destination(queue), Priority=10)
    assert session.get(session.source(queue)).md.Priority == 10


def test_put_options_that_exclude_each_other(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2046 (07FE) MQRC_OPTIONS_ERROR."""
    with session.fails(c.MQRC_OPTIONS_ERROR):
        session.put(session.destination(queue), b"", c.MQPMO_SYNCPOINT | c.MQPMO_NO_SYNCPOINT)


def test_a_message_too_long_for_the_queue(session: Session, new_queue: Callable[..., str], c: ModuleType) -> None:
    """IBM MQ: 2030 (07EE) MQRC_MSG_TOO_BIG_FOR_Q."""
    queue = session.destination(new_queue(maxmsgl=100))
    session.put(queue, bytes(100))
    with session.fails(c.MQRC_MSG_TOO_BIG_FOR_Q):
        session.put(queue, bytes(101))


def test_a_message_too_long_for_the_queue_manager(
    session: Session, new_queue: Callable[..., str], c: ModuleType
) -> None:
    """IBM MQ: 2031 (07EF) MQRC_MSG_TOO_BIG_FOR_Q_MGR."""
    queue = session.destination(new_queue(maxmsgl=100 << 20))
    with session.fails(c.MQRC_MSG_TOO_BIG_FOR_Q_MGR):
        session.put(queue, bytes(session.connection.inquire(c.MQIA_MAX_MSG_LENGTH) + 1))


def test_a_full_queue(session: Session, new_queue: Callable[..., str], c: ModuleType) -> None:
    """IBM MQ: 2053 (0805) MQRC_Q_FULL."""
    name = new_queue(maxdepth=2)
    queue = session.destination(name)
    session.put(queue)
    session.put(queue)
    with session.fails(c.MQRC_Q_FULL):
        session.put(queue)
    session.get(session.source(name))
    session.put(queue)


def test_putting_inhibited(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2051 (0803) MQRC_PUT_INHIBITED; MQSET of MQIA_INHIBIT_PUT."""
    opened = session.destination(queue, c.MQOO_SET)
    opened.set(c.MQIA_INHIBIT_PUT, c.MQQA_PUT_INHIBITED)
    with session.fails(c.MQRC_PUT_INHIBITED):
        session.put(opened)
    opened.set(c.MQIA_INHIBIT_PUT, c.MQQA_PUT_ALLOWED)
    session.put(opened)


def test_a_failed_put_leaves_nothing(session: Session, double: QueueManager, queue: str, c: ModuleType) -> None:
    """The reason that a call fails with is the queue manager's: here one it was told to give."""
    double.fault("MQPUT", reason=c.MQRC_STORAGE_NOT_AVAILABLE)
    opened = session.destination(queue)
    with session.fails(c.MQRC_STORAGE_NOT_AVAILABLE):
        session.put(opened)
    session.put(opened, b"the next")
    assert session.bodies(session.source(queue)) == [b"the next"]
