"""Which message MQGET takes: identifiers, group, sequence number, offset, token, priority."""

from types import ModuleType

from tests.conformance.calls import Session
from tests.conformance.headers import GROUP

A, B = b"A" * 24, b"B" * 24


def put_three(session: Session, queue: str) -> None:
    destination = session.destination(queue)
    session.put(destination, b"A", MsgId=A, CorrelId=A)
    session.put(destination, b"AB", MsgId=A, CorrelId=B)
    session.put(destination, b"B", MsgId=B, CorrelId=B)


def test_by_correlation_id(session: Session, queue: str) -> None:
    """IBM MQ: Getting a particular message, table 1."""
    put_three(session, queue)
    assert session.get(session.source(queue), CorrelId=B).body == b"AB"


def test_by_message_id(session: Session, queue: str) -> None:
    """IBM MQ: Getting a particular message, table 1."""
    put_three(session, queue)
    assert session.get(session.source(queue), MsgId=B).body == b"B"


def test_by_both(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: Getting a particular message, table 1; 2033 (07F1) MQRC_NO_MSG_AVAILABLE."""
    put_three(session, queue)
    source = session.source(queue)
    assert session.get(source, MsgId=A, CorrelId=B).body == b"AB"
    with session.fails(c.MQRC_NO_MSG_AVAILABLE):
        session.get(source, MsgId=B, CorrelId=A)


def test_no_identifiers_take_the_first(session: Session, queue: str) -> None:
    """IBM MQ: Getting a particular message, table 1; the descriptor comes back with the message's."""
    put_three(session, queue)
    got = session.get(session.source(queue))
    assert (got.body, got.md.MsgId, got.md.CorrelId) == (b"A", A, A)


def test_a_descriptor_used_again_matches_the_message_it_got(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: Getting a particular message: "on return, the MQGET call sets the MsgId and CorrelId fields"."""
    put_three(session, queue)
    source = session.source(queue)
    md = session.mq.MD()
    source.get(100, md)
    with session.fails(c.MQRC_NO_MSG_AVAILABLE):
        source.get(100, md)


def test_match_options_say_what_counts(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MatchOptions (MQLONG): "fields for which the corresponding match option is not specified are ignored"."""
    put_three(session, queue)
    source = session.source(queue)
    assert session.get(source, match=c.MQMO_MATCH_CORREL_ID, MsgId=B, CorrelId=A).body == b"A"
    assert session.get(source, match=c.MQMO_NONE, MsgId=B, CorrelId=A).body == b"AB"


def test_match_options_are_for_version_2(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MatchOptions (MQLONG): ignored below MQGMO_VERSION_2, so both identifiers count."""
    put_three(session, queue)
    gmo = session.mq.GMO(Version=c.MQGMO_VERSION_1, MatchOptions=c.MQMO_NONE)
    with session.fails(c.MQRC_NO_MSG_AVAILABLE):
        session.source(queue).get(100, session.mq.MD(CorrelId=b"Z" * 24), gmo)


def test_a_match_option_that_does_not_exist(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2247 (08C7) MQRC_MATCH_OPTIONS_ERROR, "an undefined option is specified"."""
    with session.fails(c.MQRC_MATCH_OPTIONS_ERROR):
        session.get(session.source(queue), match=0x4000)


def put_groups(session: Session, queue: str, c: ModuleType) -> None:
    destination = session.destination(queue)
    for group, number in ((A, 1), (GROUP, 1), (GROUP, 2)):
        body = group[:1] + b"%d" % number
        session.put(destination, body, GroupId=group, MsgSeqNumber=number, MsgFlags=c.MQMF_MSG_IN_GROUP)
    session.put(destination, b"segment", GroupId=GROUP, Offset=10, MsgFlags=c.MQMF_SEGMENT)


def test_by_group(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MatchOptions (MQLONG), MQMO_MATCH_GROUP_ID."""
    put_groups(session, queue, c)
    assert session.get(session.source(queue), match=c.MQMO_MATCH_GROUP_ID, GroupId=GROUP).body == b"g1"


def test_by_group_and_sequence_number(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MatchOptions (MQLONG), MQMO_MATCH_MSG_SEQ_NUMBER."""
    put_groups(session, queue, c)
    match = c.MQMO_MATCH_GROUP_ID | c.MQMO_MATCH_MSG_SEQ_NUMBER
    assert session.get(session.source(queue), match=match, GroupId=GROUP, MsgSeqNumber=2).body == b"g2"


def test_by_offset(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MatchOptions (MQLONG), MQMO_MATCH_OFFSET."""
    put_groups(session, queue, c)
    assert session.get(session.source(queue), match=c.MQMO_MATCH_OFFSET, Offset=10).body == b"segment"


def test_by_token(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MatchOptions (MQLONG), MQMO_MATCH_MSG_TOKEN; MsgToken (MQBYTE16) of MQGMO, as a browse returned it."""
    put_three(session, queue)
    source = session.source(queue, c.MQOO_BROWSE)
    session.get(source, c.MQGMO_BROWSE_NEXT)
    token = session.get(source, c.MQGMO_BROWSE_NEXT).gmo.MsgToken
    assert token != bytes(16)
    assert session.get(source, match=c.MQMO_MATCH_MSG_TOKEN, token=token).body == b"AB"


def test_higher_priorities_first(session: Session, queue: str) -> None:
    """IBM MQ: The order in which messages are retrieved from a queue: by priority, then in the order of arrival."""
    destination = session.destination(queue)
    for body, priority in ((b"a", 1), (b"b", 5), (b"c", 1), (b"d", 9), (b"e", 5)):
        session.put(destination, body, Priority=priority)
    assert session.bodies(session.source(queue)) == [b"d", b"b", b"e", b"a", b"c"]
