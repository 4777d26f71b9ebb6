"""Message context: who put a message, and who may say otherwise."""

from types import ModuleType
from typing import Any

from tests.conformance.calls import Session

IDENTITY: dict[str, Any] = {
    "UserIdentifier": b"SENDER".ljust(12),
    "AccountingToken": b"\x07" * 32,
    "ApplIdentityData": b"IDENTITY".ljust(32),
}
ORIGIN: dict[str, Any] = {
    "PutApplType": 6,
    "PutApplName": b"SOME.PROGRAM".ljust(28),
    "PutDate": b"20010203",
    "PutTime": b"04050607",
    "ApplOriginData": b"ORIG",
}


def told(md: Any, names: dict[str, Any]) -> dict[str, Any]:
    return {name: getattr(md, name) for name in names}


def test_by_default_the_queue_manager_tells_who_put(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MQPMO options, MQPMO_DEFAULT_CONTEXT: identity and origin from the application that puts."""
    session.put(session.destination(queue), **IDENTITY, **ORIGIN)
    md = session.get(session.source(queue)).md
    assert md.UserIdentifier != IDENTITY["UserIdentifier"]
    assert md.UserIdentifier.strip()
    assert md.ApplIdentityData == b" " * 32
    assert md.PutApplType != c.MQAT_NO_CONTEXT
    assert md.PutApplName.strip()
    assert md.PutApplName != ORIGIN["PutApplName"]
    assert md.PutDate != ORIGIN["PutDate"]
    assert md.ApplOriginData == b" " * 4


def test_no_context(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MQPMO options, MQPMO_NO_CONTEXT: blanks, nulls and MQAT_NO_CONTEXT."""
    session.put(session.destination(queue), b"", c.MQPMO_NO_CONTEXT, **IDENTITY, **ORIGIN)
    md = session.get(session.source(queue)).md
    assert told(md, IDENTITY) == {
        "UserIdentifier": b" " * 12,
        "AccountingToken": bytes(32),
        "ApplIdentityData": b" " * 32,
    }
    assert told(md, ORIGIN) == {
        "PutApplType": c.MQAT_NO_CONTEXT,
        "PutApplName": b" " * 28,
        "PutDate": b" " * 8,
        "PutTime": b" " * 8,
        "ApplOriginData": b" " * 4,
    }


def test_setting_all_context(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MQPMO options, MQPMO_SET_ALL_CONTEXT."""
    destination = session.destination(queue, c.MQOO_SET_ALL_CONTEXT)
    session.put(destination, b"", c.MQPMO_SET_ALL_CONTEXT, **IDENTITY, **ORIGIN)
    md = session.get(session.source(queue)).md
    assert told(md, IDENTITY | ORIGIN) == IDENTITY | ORIGIN


def test_setting_identity_leaves_the_origin_to_the_queue_manager(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MQPMO options, MQPMO_SET_IDENTITY_CONTEXT."""
    destination = session.destination(queue, c.MQOO_SET_IDENTITY_CONTEXT)
    session.put(destination, b"", c.MQPMO_SET_IDENTITY_CONTEXT, **IDENTITY, **ORIGIN)
    md = session.get(session.source(queue)).md
    assert told(md, IDENTITY) == IDENTITY
    assert md.PutDate != ORIGIN["PutDate"]
    assert md.PutApplName != ORIGIN["PutApplName"]


def test_setting_needs_an_open_for_it(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2095 (082F) MQRC_NOT_OPEN_FOR_SET_ALL; 2096 (0830) MQRC_NOT_OPEN_FOR_SET_IDENT."""
    destination = session.destination(queue)
    with session.fails(c.MQRC_NOT_OPEN_FOR_SET_ALL):
        session.put(destination, b"", c.MQPMO_SET_ALL_CONTEXT)
    with session.fails(c.MQRC_NOT_OPEN_FOR_SET_IDENT):
        session.put(destination, b"", c.MQPMO_SET_IDENTITY_CONTEXT)


def original(session: Session, queue: str, c: ModuleType) -> None:
    destination = session.destination(queue, c.MQOO_SET_ALL_CONTEXT)
    session.put(destination, b"original", c.MQPMO_SET_ALL_CONTEXT, **IDENTITY, **ORIGIN)


def test_passing_all_context(session: Session, queue: str, new_queue: Any, c: ModuleType) -> None:
    """IBM MQ: MQPMO options, MQPMO_PASS_ALL_CONTEXT, from a queue opened with MQOO_SAVE_ALL_CONTEXT."""
    original(session, queue, c)
    source = session.source(queue, c.MQOO_SAVE_ALL_CONTEXT)
    session.get(source)
    other = new_queue()
    destination = session.destination(other, c.MQOO_PASS_ALL_CONTEXT)
    session.put(destination, b"passed on", c.MQPMO_PASS_ALL_CONTEXT, context=source)
    md = session.get(session.source(other)).md
    assert told(md, IDENTITY | ORIGIN) == IDENTITY | ORIGIN


def test_passing_identity_context(session: Session, queue: str, new_queue: Any, c: ModuleType) -> None:
    """IBM MQ: MQPMO options, MQPMO_PASS_IDENTITY_CONTEXT: the origin is that of the put."""
    original(session, queue, c)
    source = session.source(queue, c.MQOO_SAVE_ALL_CONTEXT)
    session.get(source)
    other = new_queue()
    destination = session.destination(other, c.MQOO_PASS_IDENTITY_CONTEXT)
    session.put(destination, b"passed on", c.MQPMO_PASS_IDENTITY_CONTEXT, context=source)
    md = session.get(session.source(other)).md
    assert told(md, IDENTITY) == IDENTITY
    assert md.PutDate != ORIGIN["PutDate"]


def test_two_contexts_at_once(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2046 (07FE) MQRC_OPTIONS_ERROR; MQPMO options: one context option at most."""
    with session.fails(c.MQRC_OPTIONS_ERROR):
        session.put(session.destination(queue), b"", c.MQPMO_NO_CONTEXT | c.MQPMO_DEFAULT_CONTEXT)


def test_passing_needs_an_open_for_it(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2093 (082D) MQRC_NOT_OPEN_FOR_PASS_ALL."""
    original(session, queue, c)
    source = session.source(queue, c.MQOO_SAVE_ALL_CONTEXT)
    session.get(source)
    with session.fails(c.MQRC_NOT_OPEN_FOR_PASS_ALL):
        session.put(session.destination(queue), b"", c.MQPMO_PASS_ALL_CONTEXT, context=source)


def test_passing_needs_a_source_that_saves(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2097 (0831) MQRC_CONTEXT_HANDLE_ERROR."""
    original(session, queue, c)
    source = session.source(queue)
    session.get(source)
    destination = session.destination(queue, c.MQOO_PASS_ALL_CONTEXT)
    with session.fails(c.MQRC_CONTEXT_HANDLE_ERROR):
        session.put(destination, b"", c.MQPMO_PASS_ALL_CONTEXT, context=source)


def test_passing_needs_a_message_that_was_got(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2098 (0832) MQRC_CONTEXT_NOT_AVAILABLE: nothing got yet, "or the last … call was a browse"."""
    original(session, queue, c)
    source = session.source(queue, c.MQOO_SAVE_ALL_CONTEXT | c.MQOO_BROWSE)
    destination = session.destination(queue, c.MQOO_PASS_ALL_CONTEXT)
    with session.fails(c.MQRC_CONTEXT_NOT_AVAILABLE):
        session.put(destination, b"", c.MQPMO_PASS_ALL_CONTEXT, context=source)
    session.get(source, c.MQGMO_BROWSE_FIRST)
    with session.fails(c.MQRC_CONTEXT_NOT_AVAILABLE):
        session.put(destination, b"", c.MQPMO_PASS_ALL_CONTEXT, context=source)
