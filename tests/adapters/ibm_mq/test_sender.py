"""What is IBM MQ's own on the sending side: units of work, descriptors, refusals."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from structlog.testing import capture_logs

from app.model.message import PhysicalMessage
from app.model.trace_context import TRACE_PARENT
from app.ports import DeliveryProgress, SendFailed
from app.testing.collecting_intake import Collector, receiving
from app.testing.transport_contract import LIMIT, as_sent, message
from tests.adapters.ibm_mq.conftest import Place
from tests.support.queue_manager import QueueManager


def test_the_descriptor_says_what_the_message_says(place: Place) -> None:
    sent = message(7)._replace(
        message_id=b"M" * 24, group_id=b"G" * 24, msg_seq_number=7, offset=300, msg_flags=8 | 2 | 4
    )
    for version in (1, 2):
        place.sender(mqmd_version=version).send([sent])
        ((descriptor, body),) = place.taken()
        assert body == sent.body
        assert (descriptor.MsgType, descriptor.MsgId, descriptor.CorrelId) == (100001, b"M" * 24, sent.correl_id)
        assert (descriptor.Encoding, descriptor.CodedCharSetId, descriptor.Format) == (273, 819, b"MQSTR   ")
        assert (descriptor.GroupId, descriptor.MsgSeqNumber, descriptor.Offset) == (b"G" * 24, 7, 300)
        assert descriptor.MsgFlags == 8 | 2 | 4


@pytest.mark.parametrize("version", [1, 2])
def test_properties_travel_in_an_mqrfh2_where_that_is_wanted(place: Place, version: int) -> None:
    sent = message(1)._replace(properties={"filename": "a & b.txt"}, group_id=b"G" * 24, msg_flags=8)
    collector = Collector()
    with receiving(place.receiver(mqmd_version=version), collector):
        for wanted in ("mqrfh2", "none"):
            place.sender(mqmd_version=version, properties=wanted).send([sent])
        collector.wait_for(2)
    own = [
        {name: text for name, text in received.properties.items() if not name.startswith("mqmd.")}
        for received in collector.messages
    ]
    assert own == [dict(sent.properties), {}]
    assert [as_sent(received) for received in collector.messages] == [sent._replace(properties={})] * 2


@pytest.mark.parametrize("version", [1, 2])
def test_a_traceparent_alone_changes_no_byte(place: Place, version: int) -> None:
    sent = message(1)
    taken = []
    for properties in ({}, {TRACE_PARENT: f"00-{'1' * 32}-{'2' * 16}-01"}):
        place.sender(mqmd_version=version, properties="mqrfh2").send([sent._replace(properties=properties)])
        ((descriptor, body),) = place.taken()
        taken.append((bytes(body), descriptor.Format, descriptor.Encoding, descriptor.CodedCharSetId))
    assert taken[0] == taken[1]


def test_messages_are_persistent_and_last_unless_told_otherwise(place: Place) -> None:
    place.sender().send([message(1)])
    ((descriptor, _),) = place.taken()
    assert (descriptor.Persistence, descriptor.Expiry) == (1, -1)
    place.sender(persistent=False, priority=7, expiry=60).send([message(1)])
    ((descriptor, _),) = place.taken()
    assert (descriptor.Persistence, descriptor.Priority) == (0, 7)
    assert 500 < descriptor.Expiry <= 600


def test_a_unit_that_fails_leaves_none_of_its_messages(troubled: Place) -> None:
    sender = troubled.sender(batch_messages=10)
    troubled.manager.fault("MQPUT", reason=2071, skip=25)
    with pytest.raises(SendFailed, match="2071 MQRC_STORAGE_NOT_AVAILABLE") as failure:
        sender.send([message(number) for number in range(40)])
    assert not failure.value.permanent
    assert failure.value.confirmed == 20
    assert troubled.depth() == 20
    sender.send([message(99)])
    assert troubled.depth() == 21


def test_a_full_queue_keeps_what_it_took_and_says_how_much_that_is(troubled: Place) -> None:
    troubled.manager.alter(troubled.queue, maxdepth=25)
    with pytest.raises(SendFailed, match="2053 MQRC_Q_FULL") as failure:
        troubled.sender(batch_messages=10).send([message(number) for number in range(40)])
    assert (failure.value.permanent, failure.value.confirmed) == (False, 25)
    assert [body for _, body in troubled.taken()] == [message(number).body for number in range(25)]


def test_a_group_is_tried_as_a_whole_before_a_full_queue_gets_a_part_of_it(troubled: Place) -> None:
    troubled.manager.alter(troubled.queue, maxdepth=15)
    group = [message(n)._replace(group_id=b"G" * 24, msg_flags=8, msg_seq_number=n + 1) for n in range(20)]
    sender = troubled.sender(batch_messages=10)
    for confirmed, in_all in ((10, 10), (5, 15)):
        with pytest.raises(SendFailed, match="2053 MQRC_Q_FULL") as failure:
            sender.send(group[in_all - confirmed :], DeliveryProgress("d", in_all - confirmed, 1))
        assert (failure.value.confirmed, troubled.depth()) == (confirmed, in_all)


def test_two_groups_that_take_turns_at_a_full_queue_both_get_through(troubled: Place) -> None:
    troubled.manager.alter(troubled.queue, maxdepth=15)
    sender = troubled.sender(batch_messages=20)
    group = [message(n)._replace(group_id=b"G" * 24, msg_flags=8, msg_seq_number=n + 1) for n in range(20)]
    confirmed = dict.fromkeys("ab", 0)
    for _ in range(4):
        for delivery, done in list(confirmed.items()):
            try:
                sender.send(group[done:], DeliveryProgress(delivery, done, 1))
                confirmed[delivery] = 20
            except SendFailed as failed:
                confirmed[delivery] += failed.confirmed
        troubled.taken()
    assert confirmed == {"a": 20, "b": 20}


def test_a_small_limit_of_a_unit_of_work_that_may_not_be_asked_for_is_learnt(troubled: Place) -> None:
    sender = troubled.sender()
    troubled.manager.fault("MQINQ", reason=2035, times=4)
    troubled.manager.fault("MQPUT", reason=2024, skip=7)
    with pytest.raises(SendFailed, match="2024") as failure:
        sender.send([message(number) for number in range(20)])
    assert failure.value.confirmed == 7
    assert sender.max_batch() == 7


def test_units_stay_below_what_the_queue_manager_allows(place: Place) -> None:
    place.sender(batch_messages=9_999).send([message(number) for number in range(300)])
    assert place.depth() == 300


@pytest.mark.parametrize(("lose", "arrived"), [("before", 0), ("after", 5)])
def test_a_commit_in_doubt_counts_as_failed(troubled: Place, lose: Any, arrived: int) -> None:
    sender = troubled.sender()
    troubled.manager.fault("MQCMIT", lose=lose)
    messages = [message(number)._replace(message_id=bytes([number + 1]) * 24) for number in range(5)]
    with pytest.raises(SendFailed, match="2009") as failure:
        sender.send(messages)
    assert not failure.value.permanent
    assert troubled.depth() == arrived
    sender.send(messages)
    assert {descriptor.MsgId for descriptor, _ in troubled.taken()} == {each.message_id for each in messages}


@pytest.mark.parametrize(
    ("settings", "reason"), [({"queue": "NO.SUCH.QUEUE"}, "2085"), ({"queue_manager": "OTHER"}, "2058")]
)
def test_what_an_administrator_can_mend_is_not_permanent(place: Place, settings: dict[str, str], reason: str) -> None:
    with pytest.raises(SendFailed, match=reason) as failure:
        place.sender(**settings).send([message(1)])
    assert not failure.value.permanent


@pytest.mark.parametrize(
    "sent", [message(1)._replace(msg_type=5000), message(1)._replace(format="TOO LONG A NAME"), message(1, LIMIT + 1)]
)
def test_what_no_queue_manager_takes_is_permanent_and_others_go_on(place: Place, sent: PhysicalMessage) -> None:
    sender = place.sender()
    with pytest.raises(SendFailed) as failure:
        sender.send([message(2), sent])
    assert failure.value.permanent
    assert place.depth() == 0
    sender.send([message(3)])
    assert place.depth() == 1


def test_a_segment_has_no_properties_in_front(place: Place) -> None:
    sent = message(1)._replace(properties={"filename": "a.txt"}, group_id=b"G" * 24, msg_flags=2)
    place.sender(properties="mqrfh2").send([sent])
    ((descriptor, body),) = place.taken()
    assert (descriptor.Format, body) == (b"MQSTR   ", sent.body)


def test_a_queue_manager_that_is_away_is_not(troubled: Place) -> None:
    sender = troubled.sender()
    sender.send([message(1)])
    troubled.manager.kill()
    for _ in range(2):
        with pytest.raises(SendFailed) as failure:
            sender.send([message(2)])
        assert not failure.value.permanent
    assert not sender.status()["connected"]
    troubled.manager.start()
    sender.send([message(3)])
    assert troubled.depth() == 2


@pytest.mark.parametrize(("version", "more"), [(1, 72), (2, 0)])
def test_the_largest_body_is_what_the_channel_takes_where_that_is_less(
    library: ModuleType, tmp_path: Path, version: int, more: int
) -> None:
    with QueueManager(tmp_path, channel_max_message_length=9_000) as manager:
        manager.define("QUEUE")
        place = Place(library, manager, "QUEUE")
        sender = place.sender(mqmd_version=version)
        assert sender.max_body(5_000) >= 5_000
        assert sender.max_body(32_000) == 9_000 - more
        assert sender.max_body(32_000) == 9_000 - more
        assert place.depth() == 0
        sender.send([message(1, 9_000 - more)._replace(group_id=b"G" * 24, msg_flags=8)])
        assert place.depth() == 1


def test_trouble_is_told_once_and_so_is_its_end(troubled: Place) -> None:
    sender = troubled.sender()
    with capture_logs() as logs:
        sender.send([message(1)])
        troubled.manager.kill()
        for _ in range(3):
            with pytest.raises(SendFailed):
                sender.send([message(2)])
        troubled.manager.start()
        sender.send([message(3)])
    told = [log["event"] for log in logs if log["log_level"] == "warning"]
    assert told.count("connection_failed") <= 2, "a broken connection, and one that cannot be made"
    assert [log["event"] for log in logs].count("connection_recovered") == 1


@pytest.mark.parametrize(("version", "most"), [(1, 10_000 - 72), (2, 10_000)])
def test_the_largest_body_is_what_the_queue_takes(place: Place, version: int, most: int) -> None:
    place.manager.alter(place.queue, maxmsgl=10_000)
    sender = place.sender(mqmd_version=version)
    assert sender.max_body() == most
    sender.send([message(1, most)._replace(group_id=b"G" * 24, msg_flags=8)])
    with pytest.raises(SendFailed, match="bytes") as failure:
        sender.send([message(1, most + 1)])
    assert failure.value.permanent
    assert place.depth() == 1
