"""What pymqi and ibmmq do by themselves, as far as a program over them depends on it."""

import importlib.util
import subprocess
import sys
import threading
from collections.abc import Mapping
from types import ModuleType

import pytest

from app.testing.waiting import until
from tests.conformance.calls import LONG_WAIT, Session
from tests.conformance.headers import GROUP, properties
from tests.conformance.target import CONNECT, Target
from tests.support.mqi import Library

pytestmark = pytest.mark.process


def test_the_default_version_of_the_descriptor(library: Library, mq: ModuleType) -> None:
    """pymqi describes messages with version 1, ibmmq with version 2."""
    assert mq.MD().Version == {"pymqi": 1, "ibmmq": 2}[library]


def test_a_descriptor_extension_is_not_taken_off(session: Session, queue: str, c: ModuleType) -> None:
    """A message in a group that is got with version 1 has the MQMDE in its body."""
    session.put(session.destination(queue), b"data", Format=b"MQSTR", GroupId=GROUP, MsgFlags=c.MQMF_MSG_IN_GROUP)
    md = session.mq.MD(Version=1)
    body = session.source(queue).get(None, md)
    assert (body[:4], body[72:]) == (b"MDE ", b"data")
    assert md.Format == c.MQFMT_MD_EXTENSION
    assert md.GroupId.strip(b"\0") == b""


def test_a_group_put_with_version_1_is_lost(session: Session, queue: str, c: ModuleType) -> None:
    """The fields of version 2 that a version-1 MQMD is given are silently ignored."""
    session.put(session.destination(queue), b"data", version=1, GroupId=GROUP, MsgFlags=c.MQMF_MSG_IN_GROUP)
    md = session.get(session.source(queue)).md
    assert (md.GroupId, md.MsgFlags) == (bytes(24), 0)


def test_text_is_put_as_utf_8(session: Session, queue: str) -> None:
    """Both encode text, and change Format and CodedCharSetId for it."""
    session.destination(queue).put("Größe", session.mq.MD())
    got = session.get(session.source(queue))
    assert (got.body, got.md.Format, got.md.CodedCharSetId) == ("Größe".encode(), b"MQSTR   ", 1208)


def test_a_long_message_without_a_length(session: Session, queue: str) -> None:
    """Without maxLength both try 4096 bytes and ask again with the length they were told."""
    session.put(session.destination(queue), bytes(5000))
    assert session.source(queue).get(None, session.mq.MD()) == bytes(5000)


def test_accepting_truncation_without_a_length_loses_the_data(session: Session, queue: str, c: ModuleType) -> None:
    """Both then ask with a buffer of no bytes."""
    session.put(session.destination(queue), b"data")
    source = session.source(queue)
    with session.warns(c.MQRC_TRUNCATED_MSG_ACCEPTED) as caught:
        source.get(None, session.mq.MD(), session.mq.GMO(Options=c.MQGMO_ACCEPT_TRUNCATED_MSG))
    assert (caught.value.message, caught.value.original_length) == (b"", 4)
    assert session.bodies(source) == []


def test_other_threads_run_while_one_waits(target: Target, session: Session, queue: str) -> None:
    """Both let the interpreter go on during MQGET; else nobody could put the message that ends the wait."""
    waiter = Session(target.mq, target.connect())
    source = waiter.source(queue)
    bodies: list[bytes] = []
    thread = threading.Thread(target=lambda: bodies.append(waiter.get(source, wait=LONG_WAIT).body))
    thread.start()
    target.waits(session, queue)
    session.put(session.destination(queue), b"body")
    thread.join()
    waiter.connection.disconnect()
    assert bodies == [b"body"]


def test_overlong_fields_are_cut(session: Session, queue: str) -> None:
    """Neither complains of a value that is longer than its field."""
    session.put(session.destination(queue), b"", Format=b"MUCHTOOLONG")
    assert session.get(session.source(queue)).md.Format == b"MUCHTOOL"


def test_text_in_a_field(library: Library, session: Session, queue: str) -> None:
    """pymqi wants bytes in fields, ibmmq encodes text."""
    if library == "pymqi":
        with pytest.raises(TypeError):
            session.put(session.destination(queue), b"", Format="MQSTR")
    else:
        session.put(session.destination(queue), b"", Format="MQSTR")
        assert session.get(session.source(queue)).md.Format == b"MQSTR   "


HAS_OPENTELEMETRY = importlib.util.find_spec("opentelemetry") is not None


def environment(target: Target, *, traced: bool) -> Mapping[str, str]:
    """Return the environment of a process in which ibmmq traces, or does not: it asks only whether the variable is
    there."""
    others = {name: value for name, value in target.environment.items() if name != "MQIPY_NOOTEL"}
    return others if traced else others | {"MQIPY_NOOTEL": "1"}


GETTER = """
try:
    print(mq.Queue(connection, queues[0], mq.CMQC.MQOO_INPUT_SHARED).get(100, mq.MD(), mq.GMO()))
except mq.PYIFError:
    print("refused")
"""


@pytest.mark.parametrize("traced", [True, False])
def test_ibmmq_reads_headers_beside_opentelemetry(
    target: Target, session: Session, queue: str, *, traced: bool
) -> None:
    """Where OpenTelemetry can be imported, ibmmq looks for its properties in every MQRFH2, and raises for one that it
    cannot read: when the message has been taken, and without its body. pymqi hands it over as it is."""
    session.put(session.destination(queue), b"not an MQRFH2", version=1, Format=b"MQHRF2")
    command = [sys.executable, "-c", CONNECT + GETTER, *target.arguments(), queue]
    printed = subprocess.check_output(command, env=environment(target, traced=traced), text=True)
    refuses = target.library == "ibmmq" and traced and HAS_OPENTELEMETRY
    assert printed.strip() == ("refused" if refuses else repr(b"not an MQRFH2"))
    assert session.bodies(session.source(queue)) == []


PUTTER = """
md = mq.MD(Format=mq.CMQC.MQFMT_RF_HEADER_2)
try:
    mq.Queue(connection, queues[0], mq.CMQC.MQOO_OUTPUT).put(sys.stdin.buffer.read(), md)
except TypeError:
    print("refused")
"""


@pytest.mark.parametrize("traced", [True, False])
def test_ibmmq_puts_no_headers_beside_opentelemetry(
    target: Target, session: Session, queue: str, c: ModuleType, *, traced: bool
) -> None:
    """Nor can ibmmq then put a message with an MQRFH2 that has folders: it looks for text in their bytes."""
    body = properties(c, b"<usr><colour>blue</colour></usr>") + b"data"
    command = [sys.executable, "-c", CONNECT + PUTTER, *target.arguments(), queue]
    printed = subprocess.check_output(command, env=environment(target, traced=traced), input=body)
    refuses = target.library == "ibmmq" and traced and HAS_OPENTELEMETRY
    assert printed.strip() == (b"refused" if refuses else b"")
    assert len(session.bodies(session.source(queue))) == (0 if refuses else 1)


def test_closing_lets_go_of_a_queue(target: Target, session: Session, queue: str, c: ModuleType) -> None:
    """A Queue that is dropped closes its handle."""
    source = session.source(queue)
    del source
    inquiry = session.open(queue, c.MQOO_INQUIRE)
    until(lambda: inquiry.inquire(c.MQIA_OPEN_INPUT_COUNT) == 0)
