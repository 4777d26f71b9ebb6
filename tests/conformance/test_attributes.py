"""MQINQ and MQSET."""

from collections.abc import Callable
from types import ModuleType

from tests.conformance.calls import Session
from tests.conformance.target import Target
from tests.support.queue_manager import QueueManager


def test_the_queue_managers_attributes(session: Session, target: Target, c: ModuleType) -> None:
    """IBM MQ: MQINQ - Inquire object attributes, table 2: attributes of the queue manager."""
    inquire = session.connection.inquire
    assert inquire(c.MQCA_Q_MGR_NAME) == target.name.encode().ljust(48)
    assert inquire(c.MQIA_CODED_CHAR_SET_ID) > 0
    assert inquire(c.MQIA_MAX_MSG_LENGTH) >= 4 << 20
    assert inquire(c.MQIA_MAX_UNCOMMITTED_MSGS) > 0
    assert len(inquire(c.MQCA_DEAD_LETTER_Q_NAME)) == 48
    assert inquire(c.MQIA_COMMAND_LEVEL) >= 900
    assert inquire(c.MQIA_MAX_PRIORITY) == 9


def test_a_queues_attributes(session: Session, new_queue: Callable[..., str], c: ModuleType) -> None:
    """IBM MQ: MQINQ - Inquire object attributes, table 1: attributes of queues; character attributes have blanks."""
    name = new_queue(bothresh=3, boqname="BACKED.OUT", maxmsgl=1000, maxdepth=10)
    queue = session.open(name, c.MQOO_INQUIRE)
    assert queue.inquire(c.MQIA_BACKOUT_THRESHOLD) == 3
    assert queue.inquire(c.MQCA_BACKOUT_REQ_Q_NAME) == b"BACKED.OUT".ljust(48)
    assert queue.inquire(c.MQIA_MAX_MSG_LENGTH) == 1000
    assert queue.inquire(c.MQIA_MAX_Q_DEPTH) == 10
    assert queue.inquire(c.MQCA_Q_NAME) == name.encode().ljust(48)
    assert queue.inquire(c.MQIA_Q_TYPE) == c.MQQT_LOCAL


def test_the_depth(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: CurrentQDepth (MQLONG)."""
    opened = session.destination(queue, c.MQOO_INQUIRE)
    for depth in range(3):
        assert opened.inquire(c.MQIA_CURRENT_Q_DEPTH) == depth
        session.put(opened)


def test_the_depth_and_units_of_work(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: CurrentQDepth (MQLONG): puts count at once, and gets as well, whether they are committed or not."""
    opened = session.open(queue, c.MQOO_INQUIRE | c.MQOO_OUTPUT | c.MQOO_INPUT_SHARED)
    depths = []
    for step in (
        lambda: session.put(opened, options=c.MQPMO_SYNCPOINT),
        session.connection.commit,
        lambda: session.get(opened, c.MQGMO_SYNCPOINT),
        session.connection.backout,
        lambda: session.get(opened, c.MQGMO_SYNCPOINT),
        session.connection.commit,
    ):
        step()
        depths.append(opened.inquire(c.MQIA_CURRENT_Q_DEPTH))
    assert depths == [1, 1, 0, 1, 0, 0]


def test_a_message_got_makes_room_before_it_is_committed(
    session: Session, new_queue: Callable[..., str], c: ModuleType
) -> None:
    """IBM MQ: CurrentQDepth (MQLONG); MaxQDepth (MQLONG); 2053 (0805) MQRC_Q_FULL."""
    opened = session.open(new_queue(maxdepth=1), c.MQOO_OUTPUT | c.MQOO_INPUT_SHARED)
    session.put(opened)
    with session.fails(c.MQRC_Q_FULL):
        session.put(opened)
    session.get(opened, c.MQGMO_SYNCPOINT)
    session.put(opened)
    session.connection.backout()
    assert len(session.bodies(opened)) == 2


def test_selectors_of_local_queues(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MQINQ - Inquire object attributes, table 1: none of these fails for a local queue."""
    opened = session.open(queue, c.MQOO_INQUIRE)
    numbers = "DEF_BIND DIST_LISTS NPM_CLASS Q_DEPTH_HIGH_LIMIT Q_DEPTH_LOW_LIMIT Q_DEPTH_MAX_EVENT RETENTION_INTERVAL"
    more = "SCOPE TRIGGER_CONTROL TRIGGER_DEPTH TRIGGER_MSG_PRIORITY TRIGGER_TYPE Q_SERVICE_INTERVAL"
    assert all(isinstance(opened.inquire(getattr(c, f"MQIA_{name}")), int) for name in f"{numbers} {more}".split())
    texts = {"INITIATION_Q_NAME": 48, "PROCESS_NAME": 48, "TRIGGER_DATA": 64, "CLUSTER_NAME": 48}
    assert {name: len(opened.inquire(getattr(c, f"MQCA_{name}"))) for name in texts} == texts


def test_who_has_it_open(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: OpenInputCount (MQLONG); OpenOutputCount (MQLONG)."""
    inquiry = session.open(queue, c.MQOO_INQUIRE)
    opened = [session.source(queue), session.source(queue), session.destination(queue)]
    assert inquiry.inquire(c.MQIA_OPEN_INPUT_COUNT) == 2
    assert inquiry.inquire(c.MQIA_OPEN_OUTPUT_COUNT) == 1
    for one in opened:
        one.close()
    assert inquiry.inquire(c.MQIA_OPEN_INPUT_COUNT) == 0


def test_a_selector_that_does_not_exist(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2067 (0813) MQRC_SELECTOR_ERROR."""
    with session.fails(c.MQRC_SELECTOR_ERROR):
        session.open(queue, c.MQOO_INQUIRE).inquire(1999)


def test_a_selector_of_another_type(session: Session, double: QueueManager, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2068 (0814) MQRC_SELECTOR_NOT_FOR_TYPE: an alias queue has no depth."""
    double.define(f"{queue}.ALIAS", target=queue)
    with session.warns(c.MQRC_SELECTOR_NOT_FOR_TYPE):
        session.open(f"{queue}.ALIAS", c.MQOO_INQUIRE).inquire(c.MQIA_CURRENT_Q_DEPTH)


def test_inhibiting_is_seen(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MQSET - Set object attributes; InhibitGet (MQLONG); InhibitPut (MQLONG)."""
    opened = session.open(queue, c.MQOO_INQUIRE | c.MQOO_SET)
    for selector in (c.MQIA_INHIBIT_GET, c.MQIA_INHIBIT_PUT):
        before = opened.inquire(selector)
        opened.set(selector, c.MQQA_GET_INHIBITED)
        assert (before, opened.inquire(selector)) == (c.MQQA_GET_ALLOWED, c.MQQA_GET_INHIBITED)
        opened.set(selector, c.MQQA_GET_ALLOWED)
