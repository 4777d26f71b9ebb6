"""MQGET: truncation, conversion, waiting, expiry."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from app.testing.waiting import until
from tests.conformance.calls import Got, Session, Waiting
from tests.conformance.headers import GROUP, extension, properties
from tests.conformance.target import Target
from tests.support.queue_manager import QueueManager


def test_an_empty_queue(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2033 (07F1) MQRC_NO_MSG_AVAILABLE."""
    with session.fails(c.MQRC_NO_MSG_AVAILABLE):
        session.get(session.source(queue))


def test_a_message_that_does_not_fit_stays(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2080 (0820) MQRC_TRUNCATED_MSG_FAILED; MQGET - Get message: the MQMD is filled in all the same."""
    sent = session.put(session.destination(queue), b"0123456789", Format=b"MQSTR", CorrelId=b"c" * 24)
    source = session.source(queue)
    got = session.get(source, length=4, warning=c.MQRC_TRUNCATED_MSG_FAILED)
    assert (got.body, got.length) == (b"0123", 10)
    assert (got.md.MsgId, got.md.CorrelId, got.md.Format) == (sent.MsgId, b"c" * 24, b"MQSTR   ")
    assert session.get(source).body == b"0123456789"


def test_a_message_that_does_not_fit_is_taken_when_that_is_accepted(
    session: Session, queue: str, c: ModuleType
) -> None:
    """IBM MQ: 2079 (081F) MQRC_TRUNCATED_MSG_ACCEPTED."""
    session.put(session.destination(queue), b"0123456789")
    source = session.source(queue)
    accept = c.MQGMO_ACCEPT_TRUNCATED_MSG
    got = session.get(source, accept, length=4, warning=c.MQRC_TRUNCATED_MSG_ACCEPTED)
    assert (got.body, got.length) == (b"0123", 10)
    assert session.bodies(source) == []


def test_a_buffer_of_the_exact_length(session: Session, queue: str) -> None:
    """IBM MQ: MQGET - Get message, BufferLength."""
    session.put(session.destination(queue), b"0123456789")
    assert session.get(session.source(queue), length=10).body == b"0123456789"


def test_the_length_counts_the_descriptor_extension(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MQGET - Get message, DataLength: of "the application data in the message", MQMDE included."""
    session.put(session.destination(queue), b"0123456789", GroupId=GROUP, MsgFlags=c.MQMF_MSG_IN_GROUP)
    source = session.source(queue)
    got = session.get(source, version=1, length=10, warning=c.MQRC_TRUNCATED_MSG_FAILED)
    assert got.length == 82
    assert session.get(source, version=1, length=82).body[72:] == b"0123456789"


def convert(session: Session, queue: str, warning: int = 0, **wanted: Any) -> Got:
    c = session.mq.CMQC
    return session.get(session.source(queue), c.MQGMO_CONVERT, warning=warning, **wanted)


def test_text_is_converted(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MQGMO options, MQGMO_CONVERT; CodedCharSetId and Encoding come back as they were asked for."""
    session.put(session.destination(queue), "Größe".encode("cp500"), Format=b"MQSTR", CodedCharSetId=500, Encoding=785)
    got = convert(session, queue, CodedCharSetId=1208)
    assert (got.body, got.md.CodedCharSetId, got.md.Encoding) == ("Größe".encode(), 1208, c.MQENC_NATIVE)


def test_data_without_a_format_is_not_converted(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2110 (083E) MQRC_FORMAT_ERROR, "the format name in the message is MQFMT_NONE"; the message is taken."""
    session.put(session.destination(queue), b"\xc1", CodedCharSetId=500, Encoding=785)
    got = convert(session, queue, c.MQRC_FORMAT_ERROR, CodedCharSetId=1208)
    assert (got.body, got.md.CodedCharSetId, got.md.Encoding) == (b"\xc1", 500, 785)
    assert session.bodies(session.source(queue)) == []


def test_a_format_without_an_exit_is_not_converted(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2110 (083E) MQRC_FORMAT_ERROR, "a user-written exit … cannot be found"."""
    session.put(session.destination(queue), b"\xc1", Format=b"SASDATA", CodedCharSetId=500)
    assert convert(session, queue, c.MQRC_FORMAT_ERROR, CodedCharSetId=1208).body == b"\xc1"


def test_a_character_set_that_is_not_known(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2111 (083F) MQRC_SOURCE_CCSID_ERROR; 2115 (0843) MQRC_TARGET_CCSID_ERROR."""
    destination = session.destination(queue)
    session.put(destination, b"a", Format=b"MQSTR", CodedCharSetId=54321)
    assert convert(session, queue, c.MQRC_SOURCE_CCSID_ERROR, CodedCharSetId=1208).md.CodedCharSetId == 54321
    session.put(destination, b"a", Format=b"MQSTR", CodedCharSetId=819)
    assert convert(session, queue, c.MQRC_TARGET_CCSID_ERROR, CodedCharSetId=54321).md.CodedCharSetId == 819


@pytest.mark.guess
def test_text_that_is_not_in_its_character_set(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2119 (0847) MQRC_NOT_CONVERTED, "an error occurred during conversion"; that this is one is believed."""
    session.put(session.destination(queue), b"\xff\xfe", Format=b"MQSTR", CodedCharSetId=1208)
    got = convert(session, queue, c.MQRC_NOT_CONVERTED, CodedCharSetId=819)
    assert (got.body, got.md.CodedCharSetId) == (b"\xff\xfe", 1208)


def test_what_is_as_wanted_is_left_alone(session: Session, queue: str) -> None:
    """IBM MQ: MQGMO options, MQGMO_CONVERT: only where CodedCharSetId or Encoding differ."""
    session.put(session.destination(queue), b"\xff", CodedCharSetId=1208)
    assert convert(session, queue, CodedCharSetId=1208).body == b"\xff"


def test_properties_in_an_mqrfh2(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MQGMO options, MQGMO_PROPERTIES_FORCE_MQRFH2: properties come in an MQRFH2 in front of the data."""
    # The MQMDE is for ibmmq, which fails on any MQRFH2 that it is given to put (see test_libraries.py).
    announced = extension(c, Format=c.MQFMT_RF_HEADER_2, MsgFlags=0, CodedCharSetId=1208, Encoding=c.MQENC_NATIVE)
    body = announced + properties(c, b"<usr><colour>blue</colour></usr>") + b"data"
    session.put(session.destination(queue), body, Format=c.MQFMT_MD_EXTENSION)
    got = session.get(session.source(queue), c.MQGMO_PROPERTIES_FORCE_MQRFH2)
    assert got.md.Format == c.MQFMT_RF_HEADER_2
    assert got.body.startswith(b"RFH ")
    assert b"<colour>blue</colour>" in got.body
    assert got.body.endswith(b"data")


def test_a_wait_without_a_message(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: WaitInterval (MQLONG): MQRC_NO_MSG_AVAILABLE when it has elapsed."""
    with session.fails(c.MQRC_NO_MSG_AVAILABLE):
        session.get(session.source(queue), wait=50)


def test_a_wait_interval_that_is_none(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2090 (082A) MQRC_WAIT_INTERVAL_ERROR."""
    with session.fails(c.MQRC_WAIT_INTERVAL_ERROR):
        session.get(session.source(queue), wait=-2)


def test_a_put_ends_a_wait(target: Target, session: Session, connect: Callable[..., Session], queue: str) -> None:
    """IBM MQ: MQGMO options, MQGMO_WAIT: "until a suitable message arrives"."""
    waiting = Waiting(connect(), queue)
    target.waits(session, queue)
    session.put(session.destination(queue), b"body")
    assert waiting.result() == b"body"


def test_a_wait_is_for_a_suitable_message(
    target: Target, session: Session, connect: Callable[..., Session], queue: str
) -> None:
    """IBM MQ: MQGMO options, MQGMO_WAIT, with a CorrelId to match."""
    waiting = Waiting(connect(), queue, CorrelId=b"b" * 24)
    target.waits(session, queue)
    destination = session.destination(queue)
    session.put(destination, b"a", CorrelId=b"a" * 24)
    session.put(destination, b"b", CorrelId=b"b" * 24)
    assert waiting.result() == b"b"
    assert session.bodies(session.source(queue)) == [b"a"]


def test_who_waits_for_this_message_comes_before_who_waits_for_any(
    target: Target, double: QueueManager, session: Session, connect: Callable[..., Session], queue: str
) -> None:
    """IBM MQ: MQGMO options, MQGMO_WAIT, the order of activation: specific get-wait requests before general ones."""
    general = Waiting(connect(), queue)
    target.waits(session, queue)
    specific = Waiting(connect(), queue, CorrelId=b"c" * 24)
    target.waits(session, queue, count=2)
    destination = session.destination(queue)
    session.put(destination, b"for the one", CorrelId=b"c" * 24)
    assert specific.result() == b"for the one"
    session.put(destination, b"for anyone")
    assert general.result() == b"for anyone"


def test_a_put_in_a_unit_of_work_ends_a_wait_when_it_is_committed(
    target: Target, session: Session, connect: Callable[..., Session], queue: str, c: ModuleType
) -> None:
    """IBM MQ: MQCMIT - Commit changes: messages put in the unit of work "are made available to other applications"."""
    waiting = Waiting(connect(), queue)
    target.waits(session, queue)
    destination = session.destination(queue)
    session.put(destination, b"backed out", c.MQPMO_SYNCPOINT)
    session.connection.backout()
    session.put(destination, b"committed", c.MQPMO_SYNCPOINT)
    session.connection.commit()
    assert waiting.result() == b"committed"


def test_backing_out_ends_a_wait(
    target: Target, session: Session, connect: Callable[..., Session], queue: str, c: ModuleType
) -> None:
    """IBM MQ: MQBACK - Back out changes: what is reinstated can be got again."""
    session.put(session.destination(queue), b"body")
    session.get(session.source(queue), c.MQGMO_SYNCPOINT)
    waiting = Waiting(connect(), queue)
    target.waits(session, queue)
    session.connection.backout()
    assert waiting.result() == b"body"


def test_getting_inhibited(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2016 (07E0) MQRC_GET_INHIBITED; MQSET of MQIA_INHIBIT_GET."""
    session.put(session.destination(queue), b"body")
    source = session.source(queue, c.MQOO_SET)
    source.set(c.MQIA_INHIBIT_GET, c.MQQA_GET_INHIBITED)
    with session.fails(c.MQRC_GET_INHIBITED):
        session.get(source)
    source.set(c.MQIA_INHIBIT_GET, c.MQQA_GET_ALLOWED)
    assert session.get(source).body == b"body"


def test_inhibiting_ends_a_wait(
    target: Target, session: Session, connect: Callable[..., Session], queue: str, c: ModuleType
) -> None:
    """IBM MQ: MQGMO options, MQGMO_WAIT: "become inhibited while waiting, the wait is canceled"."""
    waiting = Waiting(connect(), queue)
    target.waits(session, queue)
    setter = session.open(queue, c.MQOO_SET)
    setter.set(c.MQIA_INHIBIT_GET, c.MQQA_GET_INHIBITED)
    assert waiting.result() == c.MQRC_GET_INHIBITED
    setter.set(c.MQIA_INHIBIT_GET, c.MQQA_GET_ALLOWED)


def test_quiescing_ends_a_wait_that_asked_for_it(
    own: Callable[..., Target], connect: Callable[..., Session], c: ModuleType
) -> None:
    """IBM MQ: 2161 (0871) MQRC_Q_MGR_QUIESCING; MQGMO_FAIL_IF_QUIESCING."""
    to = own()
    assert to.double is not None
    to.double.define("QUEUE")
    session = connect(to=to)
    waiting = Waiting(connect(to=to), "QUEUE", c.MQGMO_FAIL_IF_QUIESCING)
    to.waits(session, "QUEUE")
    to.double.quiesce()
    assert waiting.result() == c.MQRC_Q_MGR_QUIESCING


def test_quiescing_fails_the_calls_that_ask_for_it(
    own: Callable[..., Target], connect: Callable[..., Session], c: ModuleType
) -> None:
    """IBM MQ: 2161 (0871) MQRC_Q_MGR_QUIESCING: calls without the option "can still complete successfully"."""
    to = own()
    assert to.double is not None
    to.double.define("QUEUE")
    session = connect(to=to)
    source, destination = session.source("QUEUE"), session.destination("QUEUE")
    to.double.quiesce()
    with session.fails(c.MQRC_Q_MGR_QUIESCING):
        session.get(source, c.MQGMO_FAIL_IF_QUIESCING)
    with session.fails(c.MQRC_Q_MGR_QUIESCING):
        session.put(destination, b"", c.MQPMO_FAIL_IF_QUIESCING)
    with session.fails(c.MQRC_Q_MGR_QUIESCING):
        session.source("QUEUE", c.MQOO_FAIL_IF_QUIESCING)
    session.put(destination, b"body")
    assert session.get(source).body == b"body"


def test_messages_expire(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: Expiry (MQLONG), in tenths of a second; an expired message is not returned."""
    destination = session.destination(queue)
    session.put(destination, b"short-lived", Expiry=1)
    session.put(destination, b"lasting")
    browser = session.open(queue, c.MQOO_BROWSE)
    until(lambda: session.get(browser, c.MQGMO_BROWSE_FIRST).body == b"lasting", pause=0.05)
    assert session.bodies(session.source(queue)) == [b"lasting"]


def test_what_remains_of_a_life(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: Expiry (MQLONG): less the time that the message has spent on the queue."""
    destination = session.destination(queue)
    session.put(destination, b"limited", Expiry=600)
    session.put(destination, b"unlimited")
    source = session.source(queue, c.MQOO_BROWSE)
    until(lambda: session.get(source, c.MQGMO_BROWSE_FIRST).md.Expiry < 600)
    assert session.get(source).md.Expiry > 0
    assert session.get(source).md.Expiry == c.MQEI_UNLIMITED
