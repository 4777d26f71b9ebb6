"""MQOPEN, MQCLOSE and what an open queue may be used for."""

from collections.abc import Callable
from types import ModuleType

import pytest

from tests.conformance.calls import Session
from tests.conformance.target import Target
from tests.support.queue_manager import QueueManager


def test_a_queue_that_does_not_exist(session: Session, c: ModuleType) -> None:
    """IBM MQ: 2085 (0825) MQRC_UNKNOWN_OBJECT_NAME."""
    with session.fails(c.MQRC_UNKNOWN_OBJECT_NAME):
        session.destination("NO.SUCH.QUEUE")


def test_getting_needs_an_open_for_input(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2037 (07F5) MQRC_NOT_OPEN_FOR_INPUT."""
    with session.fails(c.MQRC_NOT_OPEN_FOR_INPUT):
        session.get(session.destination(queue))


def test_putting_needs_an_open_for_output(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2039 (07F7) MQRC_NOT_OPEN_FOR_OUTPUT."""
    with session.fails(c.MQRC_NOT_OPEN_FOR_OUTPUT):
        session.put(session.source(queue))


def test_browsing_needs_an_open_for_browse(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2036 (07F4) MQRC_NOT_OPEN_FOR_BROWSE."""
    with session.fails(c.MQRC_NOT_OPEN_FOR_BROWSE):
        session.get(session.source(queue), c.MQGMO_BROWSE_FIRST)


def test_inquiring_needs_an_open_for_inquire(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2038 (07F6) MQRC_NOT_OPEN_FOR_INQUIRE."""
    with session.fails(c.MQRC_NOT_OPEN_FOR_INQUIRE):
        session.source(queue).inquire(c.MQIA_CURRENT_Q_DEPTH)


def test_setting_needs_an_open_for_set(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2040 (07F8) MQRC_NOT_OPEN_FOR_SET."""
    with session.fails(c.MQRC_NOT_OPEN_FOR_SET):
        session.source(queue).set(c.MQIA_INHIBIT_GET, c.MQQA_GET_INHIBITED)


def test_exclusive_input_excludes(session: Session, connect: Callable[..., Session], queue: str, c: ModuleType) -> None:
    """IBM MQ: 2042 (07FA) MQRC_OBJECT_IN_USE."""
    held = session.open(queue, c.MQOO_INPUT_EXCLUSIVE)
    with session.fails(c.MQRC_OBJECT_IN_USE):
        connect().source(queue)
    held.close()
    connect().source(queue)


def test_exclusive_input_keeps_out_no_browser(
    session: Session, connect: Callable[..., Session], queue: str, c: ModuleType
) -> None:
    """IBM MQ: 2042 (07FA) MQRC_OBJECT_IN_USE is about input; OpenInputCount (MQLONG): handles open for input."""
    session.put(session.destination(queue), b"body")
    held = session.open(queue, c.MQOO_INPUT_EXCLUSIVE)
    other = connect()
    browser = other.open(queue, c.MQOO_BROWSE)
    assert other.get(browser, c.MQGMO_BROWSE_FIRST).body == b"body"
    assert other.open(queue, c.MQOO_INQUIRE).inquire(c.MQIA_OPEN_INPUT_COUNT) == 1
    assert session.get(held).body == b"body"


def test_shared_input_keeps_out_the_exclusive(
    session: Session, connect: Callable[..., Session], queue: str, c: ModuleType
) -> None:
    """IBM MQ: 2042 (07FA) MQRC_OBJECT_IN_USE, "already open for input (of any sort)"."""
    session.source(queue)
    held = session.source(queue)
    with session.fails(c.MQRC_OBJECT_IN_USE):
        connect().open(queue, c.MQOO_INPUT_EXCLUSIVE)
    held.close()


def test_a_handle_that_was_closed(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2019 (07E3) MQRC_HOBJ_ERROR."""
    opened = session.source(queue)
    handle = opened.get_handle()
    opened.close()
    stale = session.mq.Queue(session.connection)
    stale.set_handle(handle)
    with session.fails(c.MQRC_HOBJ_ERROR):
        session.get(stale)
    stale.set_handle(None)


def test_open_options_that_exclude_each_other(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: 2046 (07FE) MQRC_OPTIONS_ERROR; MQOPEN - Open object: one MQOO_INPUT_* option at most."""
    with session.fails(c.MQRC_OPTIONS_ERROR):
        session.open(queue, c.MQOO_INPUT_SHARED | c.MQOO_INPUT_EXCLUSIVE)


def test_the_queue_manager_may_be_named(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: ObjectQMgrName (MQCHAR48) of MQOD."""
    name = session.connection.inquire(c.MQCA_Q_MGR_NAME).strip()
    od = session.mq.OD(ObjectName=queue.encode(), ObjectQMgrName=name)
    session.put(session.destination(od), b"body")
    assert session.bodies(session.source(queue)) == [b"body"]


def test_the_resolved_name_is_told(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: ResolvedQName (MQCHAR48) of MQPMO and of MQGMO."""
    pmo = session.mq.PMO()
    session.destination(queue).put(b"", session.mq.MD(), pmo)
    assert pmo.ResolvedQName.strip(b" \0") == queue.encode()
    assert session.get(session.source(queue)).gmo.ResolvedQName.strip(b" \0") == queue.encode()


def test_a_model_queue_makes_a_dynamic_one(session: Session, double: QueueManager, c: ModuleType) -> None:
    """IBM MQ: DynamicQName (MQCHAR48) of MQOD: a name in place of the asterisk, returned in ObjectName."""
    double.define("MODEL", model=True)
    od = session.mq.OD(ObjectName=b"MODEL", DynamicQName=b"REPLIES.*")
    session.open(od, c.MQOO_OUTPUT)
    assert od.ObjectName.startswith(b"REPLIES.")
    assert b"*" not in od.ObjectName


def test_a_model_queue_cannot_be_put_to_at_once(session: Session, c: ModuleType) -> None:
    """IBM MQ: 2057 (0809) MQRC_Q_TYPE_ERROR, "the object descriptor specifies the name of a model queue"."""
    with session.fails(c.MQRC_Q_TYPE_ERROR):
        session.connection.put1("SYSTEM.DEFAULT.MODEL.QUEUE", b"", session.mq.MD())


@pytest.mark.guess
def test_no_other_queue_manager_is_inquired(session: Session, c: ModuleType) -> None:
    """IBM MQ: ObjectQMgrName (MQCHAR48) for MQOD, "must be blank or the name of the local queue manager". That the
    reason is that of the field is believed."""
    with session.fails(c.MQRC_OBJECT_Q_MGR_NAME_ERROR):
        descriptor = session.mq.OD(ObjectType=c.MQOT_Q_MGR, ObjectQMgrName=b"NO.SUCH.QMGR")
        session.mq.Queue(session.connection, descriptor, c.MQOO_INQUIRE)


def test_a_temporary_queue_ends_with_the_handle_that_made_it(
    session: Session, double: QueueManager, c: ModuleType
) -> None:
    """IBM MQ: Temporary dynamic queues; MQCLOSE - Close object."""
    double.define("MODEL", model=True)
    od = session.mq.OD(ObjectName=b"MODEL", DynamicQName=b"REPLIES.*")
    made = session.open(od, c.MQOO_OUTPUT)
    name = od.ObjectName.decode().strip(" \0")
    session.put(made, b"lost with it")
    made.close()
    with session.fails(c.MQRC_UNKNOWN_OBJECT_NAME):
        session.source(name)


def test_a_queue_that_is_deleted_while_it_is_open(
    session: Session, connect: Callable[..., Session], double: QueueManager, c: ModuleType
) -> None:
    """IBM MQ: 2052 (0804) MQRC_Q_DELETED."""
    double.define("MODEL", model=True)
    od = session.mq.OD(ObjectName=b"MODEL", DynamicQName=b"REPLIES.*")
    made = session.open(od, c.MQOO_OUTPUT)
    other = connect()
    source = other.source(od.ObjectName.decode().strip(" \0"))
    made.close()
    with session.fails(c.MQRC_Q_DELETED):
        other.get(source)


def test_a_permanent_queue_is_deleted_when_it_is_empty(session: Session, double: QueueManager, c: ModuleType) -> None:
    """IBM MQ: 2055 (0807) MQRC_Q_NOT_EMPTY; MQCLOSE - Close object, MQCO_DELETE and MQCO_DELETE_PURGE."""
    double.define("MODEL", model=True, deftype="PERMDYN")
    od = session.mq.OD(ObjectName=b"MODEL", DynamicQName=b"KEPT.*")
    made = session.open(od, c.MQOO_OUTPUT)
    name = od.ObjectName.decode().strip(" \0")
    session.put(made, Persistence=c.MQPER_PERSISTENT)
    with session.fails(c.MQRC_Q_NOT_EMPTY):
        made.close(c.MQCO_DELETE)
    made.close(c.MQCO_DELETE_PURGE)
    with session.fails(c.MQRC_UNKNOWN_OBJECT_NAME):
        session.source(name)


def test_handles_have_a_limit(own: Callable[..., Target], connect: Callable[..., Session], c: ModuleType) -> None:
    """IBM MQ: 2017 (07E1) MQRC_HANDLE_NOT_AVAILABLE: MaxHandles of the queue manager."""
    to = own(max_handles=4)
    assert to.double is not None
    to.double.define("QUEUE")
    session = connect(to=to)
    held = []
    with session.fails(c.MQRC_HANDLE_NOT_AVAILABLE):
        while True:
            held.append(session.source("QUEUE"))
    held.pop().close()
    session.source("QUEUE")


def test_a_temporary_queue_takes_no_persistent_messages(session: Session, double: QueueManager, c: ModuleType) -> None:
    """IBM MQ: 2048 (0800) MQRC_PERSISTENT_NOT_ALLOWED."""
    double.define("MODEL", model=True)
    made = session.open(session.mq.OD(ObjectName=b"MODEL", DynamicQName=b"REPLIES.*"), c.MQOO_OUTPUT)
    with session.fails(c.MQRC_PERSISTENT_NOT_ALLOWED):
        session.put(made, Persistence=c.MQPER_PERSISTENT)


def test_only_dynamic_queues_are_deleted_on_closing(session: Session, double: QueueManager, c: ModuleType) -> None:
    """IBM MQ: 2045 (07FD) MQRC_OPTION_NOT_VALID_FOR_TYPE, "MQCO_DELETE or MQCO_DELETE_PURGE"."""
    double.define("STAYS")
    with session.fails(c.MQRC_OPTION_NOT_VALID_FOR_TYPE):
        session.source("STAYS").close(c.MQCO_DELETE)


def test_a_dynamic_name_that_exists(session: Session, double: QueueManager, c: ModuleType) -> None:
    """IBM MQ: 2100 (0834) MQRC_OBJECT_ALREADY_EXISTS, "the same name as the dynamic queue"."""
    double.define("MODEL", model=True)
    double.define("TAKEN")
    with session.fails(c.MQRC_OBJECT_ALREADY_EXISTS):
        session.open(session.mq.OD(ObjectName=b"MODEL", DynamicQName=b"TAKEN"), c.MQOO_OUTPUT)
