"""Groups and segments: physical and logical order, complete messages, and how the queue manager numbers them."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from tests.conformance.calls import Session, Waiting
from tests.conformance.headers import GROUP
from tests.conformance.target import Target

OTHER = b"other".ljust(24, b"\0")


def put_group(session: Session, queue: str, numbers: list[int], last: int = 3, group: bytes = GROUP) -> None:
    """Messages of a group in the order of `numbers`, each with its number as its body."""
    c = session.mq.CMQC
    destination = session.destination(queue)
    for number in numbers:
        flags = c.MQMF_LAST_MSG_IN_GROUP if number == last else c.MQMF_MSG_IN_GROUP
        session.put(destination, b"%d" % number, GroupId=group, MsgSeqNumber=number, MsgFlags=flags)


def put_segments(session: Session, queue: str, *texts: tuple[int, bytes], last: int, **fields: Any) -> None:
    """Segments (offset, text) of one logical message; the one at offset `last` is its last."""
    c = session.mq.CMQC
    destination = session.destination(queue)
    for offset, text in texts:
        flags = c.MQMF_LAST_SEGMENT if offset == last else c.MQMF_SEGMENT
        session.put(destination, text, **{"GroupId": GROUP, "Offset": offset, "MsgFlags": flags} | fields)


def test_messages_come_in_the_order_of_arrival(session: Session, queue: str) -> None:
    """IBM MQ: Logical and physical ordering, "physical order"."""
    put_group(session, queue, [3, 1, 2])
    assert session.bodies(session.source(queue)) == [b"3", b"1", b"2"]


def test_logical_order(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: Logical and physical ordering, MQGMO_LOGICAL_ORDER."""
    put_group(session, queue, [3, 1, 2])
    assert session.bodies(session.source(queue), c.MQGMO_LOGICAL_ORDER) == [b"1", b"2", b"3"]


def test_logical_order_keeps_groups_apart(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: Logical and physical ordering: a group stands where its first item stands physically."""
    destination = session.destination(queue)
    session.put(destination)
    put_group(session, queue, [1], last=2)
    put_group(session, queue, [1, 2], last=2, group=OTHER)
    session.put(destination)
    put_group(session, queue, [2], last=2)
    source = session.source(queue)
    descriptors = [session.get(source, c.MQGMO_LOGICAL_ORDER, match=c.MQMO_NONE).md for _ in range(6)]
    alone = (bytes(24), 1)
    assert [(md.GroupId, md.MsgSeqNumber) for md in descriptors] == [
        alone,
        (GROUP, 1),
        (GROUP, 2),
        (OTHER, 1),
        (OTHER, 2),
        alone,
    ]


def test_leaving_logical_order_within_a_group(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2241 (08C1) MQRC_INCOMPLETE_GROUP, a warning on MQGET."""
    put_group(session, queue, [1, 2], last=2)
    source = session.source(queue)
    session.get(source, c.MQGMO_LOGICAL_ORDER)
    assert session.get(source, warning=c.MQRC_INCOMPLETE_GROUP).body == b"2"


def test_a_group_is_got_in_or_out_of_units_of_work(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2245 (08C5) MQRC_INCONSISTENT_UOW, on MQGET."""
    put_group(session, queue, [1, 2], last=2)
    source = session.source(queue)
    session.get(source, c.MQGMO_LOGICAL_ORDER | c.MQGMO_SYNCPOINT)
    with session.fails(c.MQRC_INCONSISTENT_UOW):
        session.get(source, c.MQGMO_LOGICAL_ORDER | c.MQGMO_NO_SYNCPOINT)
    session.connection.backout()


def test_browsing_goes_on_in_the_order_it_began_in(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2259 (08D3) MQRC_INCONSISTENT_BROWSE."""
    put_group(session, queue, [2, 1], last=2)
    browser = session.open(queue, c.MQOO_BROWSE)
    assert session.get(browser, c.MQGMO_BROWSE_FIRST | c.MQGMO_LOGICAL_ORDER).body == b"1"
    with session.fails(c.MQRC_INCONSISTENT_BROWSE):
        session.get(browser, c.MQGMO_BROWSE_NEXT)
    assert session.get(browser, c.MQGMO_BROWSE_NEXT | c.MQGMO_LOGICAL_ORDER).body == b"2"


def test_logical_order_waits_for_what_is_missing(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MQGMO options, MQGMO_LOGICAL_ORDER: only the next message of the current group is eligible."""
    put_group(session, queue, [1, 3])
    session.put(session.destination(queue), b"not in the group")
    source = session.source(queue)
    assert session.bodies(source, c.MQGMO_LOGICAL_ORDER) == [b"1"]
    put_group(session, queue, [2])
    assert session.bodies(source, c.MQGMO_LOGICAL_ORDER) == [b"2", b"3", b"not in the group"]


def test_all_messages_available(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MQGMO options, MQGMO_ALL_MSGS_AVAILABLE."""
    options = c.MQGMO_ALL_MSGS_AVAILABLE | c.MQGMO_LOGICAL_ORDER
    put_group(session, queue, [3, 1])
    source = session.source(queue)
    assert session.bodies(source, options) == []
    put_group(session, queue, [2])
    assert session.bodies(source, options) == [b"1", b"2", b"3"]


def test_a_group_that_becomes_available_ends_a_wait(
    target: Target, session: Session, connect: Callable[..., Session], queue: str, c: ModuleType
) -> None:
    """IBM MQ: Grouping logical messages: MQGMO_WAIT with MQGMO_ALL_MSGS_AVAILABLE."""
    waiting = Waiting(connect(), queue, c.MQGMO_ALL_MSGS_AVAILABLE | c.MQGMO_LOGICAL_ORDER)
    target.waits(session, queue)
    put_group(session, queue, [3, 1, 2])
    assert waiting.result() == b"1"


def test_a_complete_message(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MQGMO options, MQGMO_COMPLETE_MSG: reassembled, whatever the order of its segments; the descriptor is the
    first's, with flags as of an only segment."""
    put_segments(session, queue, (3, b"def"), (0, b"abc"), (6, b"g"), last=6)
    got = session.get(session.source(queue), c.MQGMO_COMPLETE_MSG)
    assert got.body == b"abcdefg"
    assert (got.md.Offset, got.md.MsgFlags) == (0, c.MQMF_SEGMENT | c.MQMF_LAST_SEGMENT)
    assert character(got.gmo.SegmentStatus) == "L"
    assert session.bodies(session.source(queue)) == []


def test_an_incomplete_message_does_not_come(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MQGMO options, MQGMO_COMPLETE_MSG: only when all segments are there."""
    put_segments(session, queue, (0, b"abc"), (6, b"g"), last=6)
    source = session.source(queue)
    with session.fails(c.MQRC_NO_MSG_AVAILABLE):
        session.get(source, c.MQGMO_COMPLETE_MSG)
    put_segments(session, queue, (3, b"def"), last=6)
    assert session.get(source, c.MQGMO_COMPLETE_MSG).body == b"abcdefg"


def test_all_segments_available(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MQGMO options, MQGMO_ALL_SEGMENTS_AVAILABLE: they come one by one, when all are there."""
    options = c.MQGMO_ALL_SEGMENTS_AVAILABLE | c.MQGMO_LOGICAL_ORDER
    put_segments(session, queue, (3, b"de"), last=3)
    source = session.source(queue)
    assert session.bodies(source, options) == []
    put_segments(session, queue, (0, b"abc"), last=3)
    assert session.bodies(source, options) == [b"abc", b"de"]


@pytest.mark.parametrize(
    ("field", "values", "reason"),
    [
        ("CodedCharSetId", (819, 1208), "MQRC_INCONSISTENT_CCSIDS"),
        ("Encoding", (273, 546), "MQRC_INCONSISTENT_ENCODINGS"),
    ],
)
def test_segments_that_are_written_differently(
    session: Session, queue: str, field: str, values: tuple[int, int], reason: str, c: ModuleType
) -> None:
    """IBM MQ: 2243 (08C3) MQRC_INCONSISTENT_CCSIDS; 2244 (08C4) MQRC_INCONSISTENT_ENCODINGS: those alike come first."""
    put_segments(session, queue, (0, b"abc"), last=3, **{field: values[0]})
    put_segments(session, queue, (3, b"de"), last=3, **{field: values[1]})
    got = session.get(session.source(queue), c.MQGMO_COMPLETE_MSG, warning=getattr(c, reason))
    assert got.body == b"abc"
    assert session.bodies(session.source(queue)) == [b"de"]


def test_segments_come_one_by_one(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: Offset (MQLONG); MsgFlags (MQLONG)."""
    put_segments(session, queue, (0, b"abc"), (3, b"de"), last=3)
    source = session.source(queue)
    first, second = session.get(source), session.get(source)
    assert (first.body, first.md.Offset, first.md.MsgFlags) == (b"abc", 0, c.MQMF_SEGMENT)
    assert (second.body, second.md.Offset) == (b"de", 3)


def test_complete_messages_in_logical_order(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: Logical and physical ordering; a group of which one message is in segments."""
    put_group(session, queue, [2], last=2)
    for offset, flags in ((2, c.MQMF_LAST_SEGMENT), (0, c.MQMF_SEGMENT)):
        session.put(
            session.destination(queue),
            b"%d-" % offset,
            GroupId=GROUP,
            MsgSeqNumber=1,
            Offset=offset,
            MsgFlags=flags | c.MQMF_MSG_IN_GROUP,
        )
    options = c.MQGMO_LOGICAL_ORDER | c.MQGMO_COMPLETE_MSG
    assert session.bodies(session.source(queue), options) == [b"0-2-", b"2"]


def test_a_complete_message_that_does_not_fit(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2080 (0820) MQRC_TRUNCATED_MSG_FAILED; MQGET - Get message, DataLength: of the whole logical message."""
    put_segments(session, queue, (0, b"abc"), (3, b"de"), last=3)
    source = session.source(queue)
    got = session.get(source, c.MQGMO_COMPLETE_MSG, length=4, warning=c.MQRC_TRUNCATED_MSG_FAILED)
    assert (got.body, got.length) == (b"abcd", 5)
    assert session.get(source, c.MQGMO_COMPLETE_MSG).body == b"abcde"


def test_a_complete_message_that_is_backed_out(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MQBACK - Back out changes: all segments are reinstated."""
    put_segments(session, queue, (0, b"abc"), (3, b"de"), last=3)
    source = session.source(queue)
    for count in range(2):
        got = session.get(source, c.MQGMO_COMPLETE_MSG | c.MQGMO_SYNCPOINT)
        assert (got.body, got.md.BackoutCount) == (b"abcde", count)
        session.connection.backout()


def test_a_complete_message_begins_under_the_cursor(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2246 (08C6) MQRC_INVALID_MSG_UNDER_CURSOR."""
    put_segments(session, queue, (3, b"de"), (0, b"abc"), last=3)
    source = session.source(queue, c.MQOO_BROWSE)
    session.get(source, c.MQGMO_BROWSE_FIRST)
    with session.fails(c.MQRC_INVALID_MSG_UNDER_CURSOR):
        session.get(source, c.MQGMO_MSG_UNDER_CURSOR | c.MQGMO_COMPLETE_MSG)


def test_a_complete_message_and_another_unit_of_work(session: Session, permanent_queue: str, c: ModuleType) -> None:
    """IBM MQ: 2255 (08CF) MQRC_UOW_NOT_AVAILABLE: persistent segments are taken within a unit of work only."""
    persistent = {"Persistence": c.MQPER_PERSISTENT}
    put_segments(session, permanent_queue, (0, b"abc"), (3, b"de"), last=3, **persistent)
    session.put(session.destination(permanent_queue), b"", c.MQPMO_SYNCPOINT)
    source = session.source(permanent_queue)
    with session.fails(c.MQRC_UOW_NOT_AVAILABLE):
        session.get(source, c.MQGMO_COMPLETE_MSG | c.MQGMO_NO_SYNCPOINT)
    assert session.get(source, c.MQGMO_COMPLETE_MSG | c.MQGMO_SYNCPOINT).body == b"abcde"
    session.connection.commit()


@pytest.mark.guess
def test_a_version_1_descriptor_cannot_take_a_complete_message(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2257 (08D1) MQRC_WRONG_MD_VERSION; that MQGMO_COMPLETE_MSG needs version 2 is believed."""
    put_segments(session, queue, (0, b"abc"), last=0)
    with session.fails(c.MQRC_WRONG_MD_VERSION):
        session.get(session.source(queue), c.MQGMO_COMPLETE_MSG, version=1)


@pytest.mark.parametrize(
    ("last", "also"), [("MQMF_LAST_MSG_IN_GROUP", "MQMF_MSG_IN_GROUP"), ("MQMF_LAST_SEGMENT", "MQMF_SEGMENT")]
)
def test_the_last_is_flagged_as_one_of_them(session: Session, queue: str, last: str, also: str, c: ModuleType) -> None:
    """IBM MQ: MsgFlags (MQLONG): the queue manager turns the flag on in the copy that is sent, not in the caller's."""
    flag = getattr(c, last)
    sent = session.put(session.destination(queue), b"body", GroupId=GROUP, MsgFlags=flag)
    assert sent.MsgFlags == flag
    assert session.get(session.source(queue)).md.MsgFlags == flag | getattr(c, also)


def test_the_status_of_a_message(session: Session, queue: str) -> None:
    """IBM MQ: GroupStatus (MQCHAR), SegmentStatus (MQCHAR) and Segmentation (MQCHAR) of MQGMO."""
    put_group(session, queue, [1, 2], last=2)
    put_segments(session, queue, (0, b"abc"), (3, b"de"), last=3)
    session.put(session.destination(queue), b"alone")
    source = session.source(queue)
    options = [session.get(source).gmo for _ in range(5)]
    status = [character(gmo.GroupStatus) + character(gmo.SegmentStatus) for gmo in options]
    assert status == ["G ", "L ", " S", " L", "  "]


def character(field: int | bytes) -> str:
    """A field of one character, which pymqi gives as a number."""
    return chr(field) if isinstance(field, int) else field.decode()


def test_a_group_id_is_made(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: GroupId (MQBYTE24): made for MQGI_NONE when a flag says that there is a group, and returned."""
    destination = session.destination(queue)
    first, second = (session.put(destination, b"", MsgFlags=c.MQMF_MSG_IN_GROUP).GroupId for _ in range(2))
    assert bytes(24) != first != second
    assert session.get(session.source(queue)).md.GroupId == first


def test_a_group_id_without_flags_is_dropped(session: Session, queue: str) -> None:
    """IBM MQ: GroupId (MQBYTE24), "if none of these flags is set"; MsgSeqNumber (MQLONG); Offset (MQLONG)."""
    session.put(session.destination(queue), b"body", GroupId=GROUP, MsgSeqNumber=7, Offset=5)
    md = session.get(session.source(queue)).md
    assert (md.GroupId, md.MsgSeqNumber, md.Offset) == (bytes(24), 1, 0)


def test_a_segment_alone_has_no_number(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MsgSeqNumber (MQLONG): "a physical message that is not in a group has a sequence number of 1"."""
    session.put(session.destination(queue), b"abc", GroupId=GROUP, MsgSeqNumber=7, MsgFlags=c.MQMF_SEGMENT)
    assert session.get(session.source(queue)).md.MsgSeqNumber == 1


def test_a_message_in_a_group_alone_has_no_offset(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: Offset (MQLONG): zero for a physical message that is no segment."""
    session.put(session.destination(queue), b"abc", GroupId=GROUP, Offset=7, MsgFlags=c.MQMF_MSG_IN_GROUP)
    assert session.get(session.source(queue)).md.Offset == 0


def test_putting_in_logical_order(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: Grouping logical messages, MQPMO_LOGICAL_ORDER: the queue manager numbers."""
    destination = session.destination(queue)
    for number in (1, 2, 3):
        flags = c.MQMF_LAST_MSG_IN_GROUP if number == 3 else c.MQMF_MSG_IN_GROUP
        session.put(destination, b"%d" % number, c.MQPMO_LOGICAL_ORDER, MsgFlags=flags)
    source = session.source(queue)
    descriptors = [session.get(source).md for _ in range(3)]
    assert [md.MsgSeqNumber for md in descriptors] == [1, 2, 3]
    (group,) = {md.GroupId for md in descriptors}
    assert group != bytes(24)


def test_putting_segments_in_logical_order(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: Application segmentation of logical messages, MQPMO_LOGICAL_ORDER: the queue manager adds up offsets."""
    destination = session.destination(queue)
    segments = ((b"abc", c.MQMF_SEGMENT), (b"de", c.MQMF_SEGMENT), (b"f", c.MQMF_LAST_SEGMENT))
    sent = [session.put(destination, text, c.MQPMO_LOGICAL_ORDER, MsgFlags=flags) for text, flags in segments]
    source = session.source(queue)
    got = [session.get(source).md for _ in segments]
    assert [md.Offset for md in got] == [md.Offset for md in sent] == [0, 3, 5]
    assert [md.OriginalLength for md in got] == [3, 2, 1]


def test_a_group_must_be_finished(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2241 (08C1) MQRC_INCOMPLETE_GROUP, on MQPUT of a message that is not in a group, and on MQCLOSE."""
    destination = session.destination(queue)
    session.put(destination, b"", c.MQPMO_LOGICAL_ORDER, MsgFlags=c.MQMF_MSG_IN_GROUP)
    with session.fails(c.MQRC_INCOMPLETE_GROUP):
        session.put(destination, b"", c.MQPMO_LOGICAL_ORDER)
    with session.warns(c.MQRC_INCOMPLETE_GROUP):
        destination.close()


def test_a_message_must_be_finished(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2242 (08C2) MQRC_INCOMPLETE_MSG."""
    destination = session.destination(queue)
    session.put(destination, b"abc", c.MQPMO_LOGICAL_ORDER, MsgFlags=c.MQMF_SEGMENT)
    with session.fails(c.MQRC_INCOMPLETE_MSG):
        session.put(destination, b"", c.MQPMO_LOGICAL_ORDER)
    with session.warns(c.MQRC_INCOMPLETE_MSG):
        destination.close()


def test_a_group_stays_in_or_out_of_units_of_work(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2245 (08C5) MQRC_INCONSISTENT_UOW."""
    destination = session.destination(queue)
    in_group = {"MsgFlags": c.MQMF_MSG_IN_GROUP}
    session.put(destination, b"", c.MQPMO_LOGICAL_ORDER | c.MQPMO_SYNCPOINT, **in_group)
    with session.fails(c.MQRC_INCONSISTENT_UOW):
        session.put(destination, b"", c.MQPMO_LOGICAL_ORDER | c.MQPMO_NO_SYNCPOINT, **in_group)
    session.connection.backout()


def test_a_group_has_one_persistence(session: Session, permanent_queue: str, c: ModuleType) -> None:
    """IBM MQ: 2185 (0889) MQRC_INCONSISTENT_PERSISTENCE."""
    destination = session.destination(permanent_queue)
    in_group = {"MsgFlags": c.MQMF_MSG_IN_GROUP}
    session.put(destination, b"", c.MQPMO_LOGICAL_ORDER, Persistence=c.MQPER_PERSISTENT, **in_group)
    with session.fails(c.MQRC_INCONSISTENT_PERSISTENCE):
        session.put(destination, b"", c.MQPMO_LOGICAL_ORDER, Persistence=c.MQPER_NOT_PERSISTENT, **in_group)


def test_a_segment_that_ends_too_far(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2251 (08CB) MQRC_OFFSET_ERROR, "a message segment that would extend beyond an offset of 999 999 999"."""
    with session.fails(c.MQRC_OFFSET_ERROR):
        session.put(session.destination(queue), b"abc", Offset=999_999_998, MsgFlags=c.MQMF_SEGMENT)


def test_a_segment_has_data(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2253 (08CD) MQRC_SEGMENT_LENGTH_ZERO."""
    with session.fails(c.MQRC_SEGMENT_LENGTH_ZERO):
        session.put(session.destination(queue), b"", MsgFlags=c.MQMF_SEGMENT)


def test_the_queue_manager_cuts_what_is_too_long_where_that_is_allowed(
    session: Session, new_queue: Callable[..., str], c: ModuleType
) -> None:
    """IBM MQ: Segmentation and reassembly by queue manager; MsgFlags (MQLONG), MQMF_SEGMENTATION_ALLOWED."""
    queue = new_queue(maxmsgl=100)
    body = bytes(range(250))
    with session.fails(c.MQRC_MSG_TOO_BIG_FOR_Q):
        session.put(session.destination(queue), body)
    session.put(session.destination(queue), body, MsgFlags=c.MQMF_SEGMENTATION_ALLOWED)
    source = session.source(queue, c.MQOO_BROWSE)
    first = session.get(source, c.MQGMO_BROWSE_FIRST, match=c.MQMO_NONE).md
    assert first.MsgFlags & c.MQMF_SEGMENT
    assert first.GroupId != c.MQGI_NONE
    assert 0 < first.OriginalLength <= 100
    assert session.get(source, c.MQGMO_COMPLETE_MSG, match=c.MQMO_NONE).body == body


def test_a_segment_has_at_least_16_bytes(session: Session, new_queue: Callable[..., str], c: ModuleType) -> None:
    """IBM MQ: 2030 (07EE) MQRC_MSG_TOO_BIG_FOR_Q: the smallest segment that the queue manager can create."""
    with session.fails(c.MQRC_MSG_TOO_BIG_FOR_Q):
        session.put(session.destination(new_queue(maxmsgl=15)), bytes(20), MsgFlags=c.MQMF_SEGMENTATION_ALLOWED)
