"""Message handles and properties as the tests use them, over pymqi and ibmmq alike."""

from typing import Any

from tests.conformance.calls import Got, Session


def handle(session: Session, options: int = 0) -> Any:
    """MQCRTMH."""
    return session.mq.MessageHandle(session.connection, session.mq.CMHO(Options=options))


def value_of(made: Any, name: str, options: int = 0, **arguments: Any) -> Any:
    """MQINQMP; of a wildcard ibmmq returns the name, too."""
    got = made.properties.get(name.encode(), impo_options=options, **arguments)
    return got[0] if isinstance(got, tuple) else got


def put(
    session: Session, queue: str, made: Any, body: bytes = b"data", new: Any = None, action: int = 0, **md: Any
) -> Any:
    """MQPUT with the properties of a handle, and of a new one if there are two."""
    c = session.mq.CMQC
    descriptor = session.mq.MD(Version=2, **md)
    pmo = session.mq.PMO(Version=c.MQPMO_VERSION_3, Action=action)
    pmo.OriginalMsgHandle = made.msg_handle
    if new is not None:
        pmo.NewMsgHandle = new.msg_handle
    session.destination(queue).put(body, descriptor, pmo)
    return descriptor


def get(session: Session, queue: str, options: int = 0, into: Any = None, version: int = 2, length: int = 4096) -> Got:
    """MQGET with a handle for the properties."""
    c = session.mq.CMQC
    descriptor = session.mq.MD(Version=version)
    gmo = session.mq.GMO(Version=c.MQGMO_VERSION_4, Options=options)
    if into is not None:
        gmo.MsgHandle = into.msg_handle
    body = session.source(queue).get(length, descriptor, gmo)
    return Got(body, descriptor, gmo, len(body))


def names_and_values(session: Session, made: Any, pattern: str) -> list[Any]:
    """Every property that a wildcard matches: with its name from ibmmq, without from pymqi."""
    c = session.mq.CMQC
    found = []
    options = c.MQIMPO_INQ_FIRST
    try:
        while True:
            got = made.properties.get(pattern.encode(), impo_options=options | c.MQIMPO_CONVERT_VALUE)
            found.append(got)
            options = c.MQIMPO_INQ_NEXT
    except session.mq.MQMIError as error:
        if error.reason != c.MQRC_PROPERTY_NOT_AVAILABLE:
            raise
    return found


def is_there(session: Session, made: Any, name: str) -> bool:
    try:
        value_of(made, name)
    except session.mq.MQMIError as error:
        if error.reason != session.mq.CMQC.MQRC_PROPERTY_NOT_AVAILABLE:
            raise
        return False
    return True
