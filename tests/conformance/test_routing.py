"""Alias queues, remote queues with their transmission queues, and the dead-letter queue."""

import struct
from types import ModuleType
from typing import Any

import pytest

from tests.conformance.calls import Got, Session
from tests.conformance.headers import GROUP, dead_letter_header, fields_of
from tests.support.queue_manager import QueueManager

XQH = 428
MDE = 72
"""Lengths of the headers."""


def test_an_alias_stands_for_its_target(session: Session, double: QueueManager, queue: str) -> None:
    """IBM MQ: Alias queues."""
    double.define(f"{queue}.ALIAS", target=queue)
    session.put(session.destination(f"{queue}.ALIAS"), b"1")
    session.put(session.destination(queue), b"2")
    assert session.bodies(session.source(f"{queue}.ALIAS")) == [b"1", b"2"]


def test_an_alias_resolves_to_its_target(session: Session, double: QueueManager, queue: str) -> None:
    """IBM MQ: ResolvedQName (MQCHAR48) of MQPMO."""
    double.define(f"{queue}.ALIAS", target=queue)
    pmo = session.mq.PMO()
    session.destination(f"{queue}.ALIAS").put(b"", session.mq.MD(), pmo)
    assert pmo.ResolvedQName.strip(b" \0") == queue.encode()


def test_an_alias_has_defaults_of_its_own(session: Session, double: QueueManager, queue: str) -> None:
    """IBM MQ: Message priorities: the default is that "of the queue specified in the open command"."""
    double.define(f"{queue}.ALIAS", target=queue, defprty=7)
    assert session.put(session.destination(f"{queue}.ALIAS")).Priority == 7
    assert session.put(session.destination(queue)).Priority == 0


def test_an_alias_without_its_target(session: Session, double: QueueManager, c: ModuleType) -> None:
    """IBM MQ: 2082 (0822) MQRC_UNKNOWN_ALIAS_BASE_Q."""
    double.define("ASTRAY", target="NO.SUCH.QUEUE")
    with session.fails(c.MQRC_UNKNOWN_ALIAS_BASE_Q):
        session.destination("ASTRAY")


def test_an_alias_may_be_inhibited_alone(session: Session, double: QueueManager, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2051 (0803) MQRC_PUT_INHIBITED, of the queue or of one that it resolves to."""
    double.define(f"{queue}.ALIAS", target=queue, put_enabled=False)
    with session.fails(c.MQRC_PUT_INHIBITED):
        session.put(session.destination(f"{queue}.ALIAS"))
    session.put(session.destination(queue))


@pytest.fixture
def remote(double: QueueManager) -> str:
    """A local definition of a remote queue; its transmission queue is TRANSMISSION."""
    double.define("TRANSMISSION", usage="XMITQ")
    double.clear("TRANSMISSION")
    double.define("REMOTE", rname="THERE", rqmname="OTHER", xmitq="TRANSMISSION")
    return "REMOTE"


def transmitted(session: Session, version: int = 2) -> Got:
    return session.get(session.source("TRANSMISSION"), version=version)


def test_a_remote_queue_cannot_be_got_from(session: Session, remote: str, c: ModuleType) -> None:
    """IBM MQ: 2045 (07FD) MQRC_OPTION_NOT_VALID_FOR_TYPE, "an option that is unsupported for the queue type"."""
    with session.fails(c.MQRC_OPTION_NOT_VALID_FOR_TYPE):
        session.source(remote)


def test_a_remote_queue_without_its_transmission_queue(session: Session, double: QueueManager, c: ModuleType) -> None:
    """IBM MQ: 2196 (0894) MQRC_UNKNOWN_XMIT_Q."""
    double.define("NOWHERE", rname="THERE", rqmname="OTHER", xmitq="NO.SUCH.QUEUE")
    with session.fails(c.MQRC_UNKNOWN_XMIT_Q):
        session.destination("NOWHERE")


def test_a_transmission_queue_must_be_one(session: Session, double: QueueManager, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2092 (082C) MQRC_XMIT_Q_USAGE_ERROR."""
    double.define("ABUSED", rname="THERE", rqmname="OTHER", xmitq=queue)
    with session.fails(c.MQRC_XMIT_Q_USAGE_ERROR):
        session.destination("ABUSED")


def test_the_transmission_queue_header(session: Session, remote: str, c: ModuleType) -> None:
    """IBM MQ: MQXQH - Transmission-queue header: names, and the original descriptor as a version-1 MQMD."""
    sent = session.put(session.destination(remote), b"data", Format=b"MQSTR", CorrelId=b"c" * 24, CodedCharSetId=819)
    body = transmitted(session).body
    assert struct.unpack_from("=4si48s48s", body) == (b"XQH ", 1, b"THERE".ljust(48), b"OTHER".ljust(48))
    embedded = unpacked(session, body[104:XQH])
    assert (embedded.Version, embedded.Format, embedded.CodedCharSetId) == (1, b"MQSTR   ", 819)
    assert (embedded.MsgId, embedded.CorrelId) == (sent.MsgId, b"c" * 24)
    assert body[XQH:] == b"data"


def unpacked(session: Session, descriptor: bytes) -> Any:
    md = session.mq.MD()
    md.unpack(descriptor + bytes(40))
    return md


def test_the_separate_descriptor(session: Session, remote: str, c: ModuleType) -> None:
    """IBM MQ: MQXQH - Transmission-queue header: the separate MQMD names it, in the queue manager's ways of writing."""
    sent = session.put(session.destination(remote), b"data", Format=b"MQSTR", CodedCharSetId=819, Encoding=273)
    md = transmitted(session).md
    assert (md.Format, md.Encoding) == (c.MQFMT_XMIT_Q_HEADER, c.MQENC_NATIVE)
    assert md.CodedCharSetId == session.connection.inquire(c.MQIA_CODED_CHAR_SET_ID)
    assert (md.UserIdentifier, md.Priority, md.Persistence) == (sent.UserIdentifier, sent.Priority, sent.Persistence)


@pytest.mark.guess
def test_the_separate_descriptors_identifiers(session: Session, remote: str, c: ModuleType) -> None:
    """Believed of the separate MQMD: a new MsgId, the message's as CorrelId, put by the queue manager."""
    sent = session.put(session.destination(remote), b"data", CorrelId=b"c" * 24)
    md = transmitted(session).md
    assert md.MsgId != sent.MsgId
    assert md.CorrelId == sent.MsgId
    assert md.PutApplType == c.MQAT_QMGR
    assert md.PutApplName.strip() == session.connection.inquire(c.MQCA_Q_MGR_NAME).strip()


def test_a_group_on_a_transmission_queue(session: Session, remote: str, c: ModuleType) -> None:
    """IBM MQ: MQMDE, "MQMDE in messages on transmission queues": behind the MQXQH, if a field is not a default."""
    session.put(
        session.destination(remote),
        b"data",
        Format=b"MQSTR",
        Encoding=273,
        GroupId=GROUP,
        MsgSeqNumber=2,
        MsgFlags=c.MQMF_MSG_IN_GROUP,
    )
    got = transmitted(session)
    assert (got.md.GroupId, got.md.MsgFlags) == (bytes(24), 0)
    embedded = unpacked(session, got.body[104:XQH])
    assert (embedded.Version, embedded.Format, embedded.Encoding) == (1, c.MQFMT_MD_EXTENSION, c.MQENC_NATIVE)
    mde = fields_of(got.body[XQH : XQH + MDE])
    assert mde[:3] == (b"MDE ", 2, 72)
    assert (mde[5], mde[7], mde[8], mde[10]) == (b"MQSTR   ", GROUP, 2, c.MQMF_MSG_IN_GROUP)
    assert got.body[XQH + MDE :] == b"data"


def test_a_dead_letter_in_a_group_on_a_transmission_queue(session: Session, remote: str, c: ModuleType) -> None:
    """IBM MQ: MQMDE, "MQMDE in messages on transmission queues": MQXQH, MQMDE, MQDLH, data."""
    header = dead_letter_header(c, "THERE")
    session.put(
        session.destination(remote),
        header + b"data",
        Format=c.MQFMT_DEAD_LETTER_HEADER,
        GroupId=GROUP,
        MsgFlags=c.MQMF_MSG_IN_GROUP,
    )
    body = transmitted(session).body
    assert (body[:4], body[XQH : XQH + 4]) == (b"XQH ", b"MDE ")
    assert body[XQH + MDE :] == header + b"data"


def test_a_transmission_queue_got_from_with_version_1(session: Session, remote: str, c: ModuleType) -> None:
    """The separate MQMD has initial values, so nothing is put in front of the MQXQH."""
    session.put(session.destination(remote), b"data", GroupId=GROUP, MsgFlags=c.MQMF_MSG_IN_GROUP)
    assert transmitted(session, version=1).body[:4] == b"XQH "


def test_another_queue_manager_by_name(session: Session, double: QueueManager, remote: str, c: ModuleType) -> None:
    """IBM MQ: ObjectQMgrName (MQCHAR48) of MQOD: the name of a transmission queue."""
    od = session.mq.OD(ObjectName=b"ELSEWHERE", ObjectQMgrName=b"TRANSMISSION")
    session.put(session.destination(od), b"data")
    names = struct.unpack_from("=4si48s48s", transmitted(session).body)[2:]
    assert names == (b"ELSEWHERE".ljust(48), b"TRANSMISSION".ljust(48))


def test_another_queue_manager_that_is_not_known(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2087 (0827) MQRC_UNKNOWN_REMOTE_Q_MGR."""
    od = session.mq.OD(ObjectName=queue.encode(), ObjectQMgrName=b"NO.SUCH.MANAGER")
    with session.fails(c.MQRC_UNKNOWN_REMOTE_Q_MGR):
        session.destination(od)


def test_the_dead_letter_queue(session: Session, double: QueueManager, queue: str, c: ModuleType) -> None:
    """IBM MQ: MQDLH - Dead-letter header: put by an application, it comes as it was put."""
    name = session.connection.inquire(c.MQCA_DEAD_LETTER_Q_NAME).decode().strip()
    double.clear(name)
    header = dead_letter_header(c, queue)
    session.put(session.destination(name), header + b"data", Format=c.MQFMT_DEAD_LETTER_HEADER)
    got = session.get(session.source(name))
    assert (got.body, got.md.Format) == (header + b"data", c.MQFMT_DEAD_LETTER_HEADER)
