"""Browsing: the cursor, getting what is under it, and locks."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from tests.conformance.calls import Session


@pytest.fixture
def filled(session: Session, queue: str) -> str:
    """The name of a queue that holds three messages."""
    destination = session.destination(queue)
    for body in (b"1", b"2", b"3"):
        session.put(destination, body)
    return queue


@pytest.fixture
def browser(session: Session, filled: str, c: ModuleType) -> Any:
    """The queue opened to browse and to get."""
    return session.source(filled, c.MQOO_BROWSE)


def test_first_and_next(session: Session, browser: Any, c: ModuleType) -> None:
    """IBM MQ: The browse cursor; 2033 (07F1) MQRC_NO_MSG_AVAILABLE at the end."""
    assert session.get(browser, c.MQGMO_BROWSE_FIRST).body == b"1"
    assert session.get(browser, c.MQGMO_BROWSE_NEXT).body == b"2"
    assert session.get(browser, c.MQGMO_BROWSE_NEXT).body == b"3"
    with session.fails(c.MQRC_NO_MSG_AVAILABLE):
        session.get(browser, c.MQGMO_BROWSE_NEXT)
    assert session.get(browser, c.MQGMO_BROWSE_FIRST).body == b"1"
    assert session.bodies(browser) == [b"1", b"2", b"3"]


def test_a_browse_without_a_buffer_describes_the_message(session: Session, filled: str, c: ModuleType) -> None:
    """IBM MQ: 2079 (081F) MQRC_TRUNCATED_MSG_ACCEPTED, a warning: MQGET returns the descriptor and the length."""
    browser = session.open(filled, c.MQOO_BROWSE)
    described, options = session.mq.MD(), session.mq.GMO(Options=c.MQGMO_BROWSE_FIRST | c.MQGMO_ACCEPT_TRUNCATED_MSG)
    with session.warns(c.MQRC_TRUNCATED_MSG_ACCEPTED) as warned:
        browser.get(0, described, options)
    assert warned.value.original_length == 1
    whole = session.get(browser, c.MQGMO_BROWSE_FIRST)
    fields = ("MsgId", "PutDate", "PutTime")
    assert [getattr(described, each) for each in fields] == [getattr(whole.md, each) for each in fields]


def test_next_begins_at_the_first(session: Session, browser: Any, c: ModuleType) -> None:
    """IBM MQ: The browse cursor: "positioned logically just before the first message"."""
    assert session.get(browser, c.MQGMO_BROWSE_NEXT).body == b"1"


def test_again_what_is_under_the_cursor(session: Session, browser: Any, c: ModuleType) -> None:
    """IBM MQ: The browse cursor, MQGMO_BROWSE_MSG_UNDER_CURSOR."""
    session.get(browser, c.MQGMO_BROWSE_FIRST)
    assert session.get(browser, c.MQGMO_BROWSE_MSG_UNDER_CURSOR).body == b"1"


def test_getting_what_is_under_the_cursor(session: Session, browser: Any, c: ModuleType) -> None:
    """IBM MQ: MQGMO options, MQGMO_MSG_UNDER_CURSOR: whatever MatchOptions and the MQMD say."""
    session.get(browser, c.MQGMO_BROWSE_FIRST)
    session.get(browser, c.MQGMO_BROWSE_NEXT)
    assert session.get(browser, c.MQGMO_MSG_UNDER_CURSOR, MsgId=b"x" * 24).body == b"2"
    assert session.bodies(browser) == [b"1", b"3"]


def test_nothing_under_the_cursor_yet(session: Session, browser: Any, c: ModuleType) -> None:
    """IBM MQ: 2034 (07F2) MQRC_NO_MSG_UNDER_CURSOR."""
    with session.fails(c.MQRC_NO_MSG_UNDER_CURSOR):
        session.get(browser, c.MQGMO_MSG_UNDER_CURSOR)


def test_what_was_under_the_cursor_is_gone(
    session: Session, connect: Callable[..., Session], filled: str, browser: Any, c: ModuleType
) -> None:
    """IBM MQ: 2034 (07F2) MQRC_NO_MSG_UNDER_CURSOR, "removed from the queue (probably by some other application)"."""
    session.get(browser, c.MQGMO_BROWSE_FIRST)
    other = connect()
    other.get(other.source(filled))
    with session.fails(c.MQRC_NO_MSG_UNDER_CURSOR):
        session.get(browser, c.MQGMO_MSG_UNDER_CURSOR)
    assert session.get(browser, c.MQGMO_BROWSE_NEXT).body == b"2"


def test_browsing_by_identifier(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: The browse cursor: the first and next message "that satisfies the conditions specified"."""
    destination = session.destination(queue)
    for body, correlation in ((b"1", b"a"), (b"2", b"b"), (b"3", b"a")):
        session.put(destination, body, CorrelId=correlation * 24)
    browser = session.open(queue, c.MQOO_BROWSE)
    assert session.get(browser, c.MQGMO_BROWSE_FIRST, CorrelId=b"a" * 24).body == b"1"
    assert session.get(browser, c.MQGMO_BROWSE_NEXT, CorrelId=b"a" * 24).body == b"3"


def test_two_ways_of_browsing_at_once(session: Session, browser: Any, c: ModuleType) -> None:
    """IBM MQ: 2046 (07FE) MQRC_OPTIONS_ERROR; a browse is in no unit of work."""
    for both in (c.MQGMO_BROWSE_NEXT, c.MQGMO_SYNCPOINT):
        with session.fails(c.MQRC_OPTIONS_ERROR):
            session.get(browser, c.MQGMO_BROWSE_FIRST | both)


def test_a_message_cut_off_does_not_move_the_cursor(session: Session, browser: Any, c: ModuleType) -> None:
    """IBM MQ: MQGMO options, MQGMO_ACCEPT_TRUNCATED_MSG: without it the cursor stays."""
    session.get(browser, c.MQGMO_BROWSE_NEXT, length=0, warning=c.MQRC_TRUNCATED_MSG_FAILED)
    assert session.get(browser, c.MQGMO_BROWSE_NEXT).body == b"1"
    accept = c.MQGMO_BROWSE_NEXT | c.MQGMO_ACCEPT_TRUNCATED_MSG
    session.get(browser, accept, length=0, warning=c.MQRC_TRUNCATED_MSG_ACCEPTED)
    assert session.get(browser, c.MQGMO_BROWSE_NEXT).body == b"3"


def test_a_lock_hides_a_message_from_others(
    session: Session, connect: Callable[..., Session], filled: str, browser: Any, c: ModuleType
) -> None:
    """IBM MQ: MQGMO options, MQGMO_LOCK: other handles do not see the message."""
    session.get(browser, c.MQGMO_BROWSE_FIRST | c.MQGMO_LOCK)
    other = connect()
    assert other.get(other.source(filled)).body == b"2"
    assert session.get(browser, c.MQGMO_MSG_UNDER_CURSOR).body == b"1"


def test_a_lock_is_undone(
    session: Session, connect: Callable[..., Session], filled: str, browser: Any, c: ModuleType
) -> None:
    """IBM MQ: MQGMO options, MQGMO_UNLOCK."""
    session.get(browser, c.MQGMO_BROWSE_FIRST | c.MQGMO_LOCK)
    session.get(browser, c.MQGMO_UNLOCK)
    other = connect()
    assert other.get(other.source(filled)).body == b"1"


def test_a_lock_ends_with_the_next_browse(
    session: Session, connect: Callable[..., Session], filled: str, browser: Any, c: ModuleType
) -> None:
    """IBM MQ: MQGMO options, MQGMO_LOCK: released by the next browse of the handle."""
    session.get(browser, c.MQGMO_BROWSE_FIRST | c.MQGMO_LOCK)
    session.get(browser, c.MQGMO_BROWSE_NEXT)
    other = connect()
    assert other.get(other.source(filled)).body == b"1"


def test_a_lock_ends_with_its_handle(
    session: Session, connect: Callable[..., Session], filled: str, browser: Any, c: ModuleType
) -> None:
    """IBM MQ: MQGMO options, MQGMO_LOCK: released when the queue is closed."""
    session.get(browser, c.MQGMO_BROWSE_FIRST | c.MQGMO_LOCK)
    browser.close()
    other = connect()
    assert other.get(other.source(filled)).body == b"1"


def test_nothing_to_unlock(session: Session, browser: Any, c: ModuleType) -> None:
    """IBM MQ: 2209 (08A1) MQRC_NO_MSG_LOCKED."""
    with session.warns(c.MQRC_NO_MSG_LOCKED):
        session.get(browser, c.MQGMO_UNLOCK)
