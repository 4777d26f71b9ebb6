"""Where a source receives from: alias queues, queues that others read, several queue managers; and how it connects."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType

import pytest
from structlog.testing import capture_logs

from adapters.ibm_mq import queue_watch
from app.model.message import PhysicalMessage
from app.testing.collecting_intake import Collector, receiving
from app.testing.transport_contract import message
from app.testing.waiting import until
from tests.adapters.ibm_mq.conftest import Place
from tests.adapters.ibm_mq.test_receiver import numbers, poisoned
from tests.support import mq
from tests.support.queue_manager import QueueManager


@pytest.fixture
def watchful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inquires each time round."""
    monkeypatch.setattr(queue_watch, "INQUIRY_SECONDS", 0.05)


# --- alias queues -------------------------------------------------------------------------------------------------


def test_an_alias_queue_has_the_backout_queue_of_its_base(place: Place) -> None:
    aside, alias = f"{place.queue}.ASIDE", f"{place.queue}.ALIAS"
    place.manager.define(aside)
    place.manager.define(alias, target=place.queue)
    place.manager.alter(place.queue, bothresh=2, boqname=aside)
    poisoned(place, times=2)
    collector = Collector()
    with receiving(place.receiver(queue=alias), collector):
        collector.wait_for(1)
        until(lambda: place.depth() == 0)
    assert numbers(collector.bodies()) == [1]
    assert len(place.taken(aside)) == 1


# --- segments of a queue manager's making ----------------------------------------------------------------------------


def segments(body: bytes, size: int) -> list[PhysicalMessage]:
    """A message as a queue manager cuts it."""
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    whole = message(1)._replace(group_id=b"AMQ".ljust(24, b"1"), msg_flags=1)
    return [
        whole._replace(body=piece, offset=place * size, msg_flags=1 | 2 | (4 if place == len(pieces) - 1 else 0))
        for place, piece in enumerate(pieces)
    ]


def test_segments_are_put_together_before_a_framing_of_whole_messages_reads_them(place: Place) -> None:
    body = bytes(range(256)) * 400
    place.put(*segments(body, 30_000), message(2))
    collector = Collector()
    with receiving(place.receiver("sas_queue"), collector):
        collector.wait_for(2)
        until(lambda: place.depth() == 0)
    assert [bytes(each.body) for each in collector.messages] == [body, message(2).body]
    assert collector.messages[0].msg_type == message(1).msg_type


def test_a_framing_of_segments_gets_them_one_by_one(place: Place) -> None:
    place.put(*segments(bytes(70_000), 30_000))
    collector = Collector()
    with receiving(place.receiver("mq_group"), collector):
        collector.wait_for(3)
    assert [each.offset for each in collector.messages] == [0, 30_000, 60_000]


@pytest.mark.usefixtures("watchful")
def test_segments_that_wait_for_others_are_told_of(place: Place) -> None:
    first, *others = segments(bytes(70_000), 30_000)
    place.put(first)
    collector = Collector()
    with receiving(receiver := place.receiver("sas_queue"), collector):
        until(lambda: "segments of messages that are not complete" in (receiver.status()["warning"] or ""))
        place.put(*others)
        collector.wait_for(1)
        until(lambda: receiver.status()["warning"] is None)


# --- others that get from the queue ----------------------------------------------------------------------------------


def test_a_second_source_is_kept_out_until_the_first_has_closed_the_queue(place: Place) -> None:
    first, second = Collector(), Collector()
    waiting, stop = place.receiver(), threading.Event()
    thread = threading.Thread(target=waiting.run, args=(second, stop))
    with receiving(place.receiver(), first):
        thread.start()
        until(lambda: "another program has open to get from: 2042" in (waiting.status()["error"] or ""))
        assert not waiting.status()["connected"]
        place.put(*[message(number) for number in range(20)])
        first.wait_for(20)
        until(lambda: place.depth() == 0)
    until(lambda: waiting.status()["connected"])
    place.put(message(20))
    second.wait_for(1)
    stop.set()
    thread.join(10)
    assert numbers(first.bodies()) == list(range(20))


@pytest.mark.usefixtures("watchful")
def test_others_at_a_shared_queue_are_told_of(place: Place) -> None:
    with capture_logs() as logs, receiving(receiver := place.receiver(exclusive=False), Collector()):
        until(lambda: place.manager.status(place.queue)["inputs"] == 1)
        assert receiver.status()["warning"] is None
        with mq.connected(place.library, place.manager) as connection:
            other = place.library.Queue(connection, place.queue, place.library.CMQC.MQOO_INPUT_SHARED)
            until(lambda: "other programs have the queue open to get from: 1." in (receiver.status()["warning"] or ""))
            other.close()
        until(lambda: receiver.status()["warning"] is None)
    assert [log["event"] for log in logs if log["event"].startswith("queue_")] == [
        "queue_shared",
        "queue_sharing_ended",
    ]


@pytest.mark.usefixtures("watchful")
def test_receivers_with_one_journal_get_from_one_queue(place: Place) -> None:
    first, second = Collector(has_others=True), Collector(has_others=True)
    one, other = (place.receiver(exclusive=False) for _ in range(2))
    with capture_logs() as logs, receiving(one, first), receiving(other, second):
        until(lambda: place.manager.status(place.queue)["inputs"] == 2)
        until(lambda: None not in (one.status()["queue_depth"], other.status()["queue_depth"]))
        place.put(*[message(number) for number in range(20)])
        until(lambda: len(first.messages) + len(second.messages) == 20)
        assert [one.status()["warning"], other.status()["warning"]] == [None, None]
    assert [log["event"] for log in logs if log["event"].startswith("queue_")] == []


@pytest.mark.usefixtures("watchful")
def test_several_connections_of_one_source_are_not_others(place: Place) -> None:
    with receiving(receiver := place.receiver(connections=3), collector := Collector()):
        until(lambda: place.manager.status(place.queue)["inputs"] == 3)
        place.put(*[message(number) for number in range(20)])
        collector.wait_for(20)
        until(lambda: receiver.status()["warning"] is None)


# --- several queue managers ---------------------------------------------------------------------------------------


@pytest.fixture
def places(library: ModuleType, tmp_path: Path) -> Iterator[list[Place]]:
    with ExitStack() as running:
        names = ("QM1", "QM2", "QM3")
        managers = [running.enter_context(QueueManager(tmp_path / name, name)) for name in names]
        yield [Place(library, manager, "DEV.QUEUE.1") for manager in managers]


def test_one_source_receives_from_several_queue_managers(places: list[Place]) -> None:
    for number, place in enumerate(places):
        place.put(message(number))
    tables = [
        {"queue_manager": place.manager.name, "connection": place.manager.connection_name} for place in places[:2]
    ]
    tables.append({**tables[0], "queue": "DEV.QUEUE.2"})
    collector = Collector()
    receiver = places[0].receiver(queue_managers=tables, request_missing_to=["DEV.QUEUE.*"])
    for queue, address in (("DEV.QUEUE.1", None), ("DEV.QUEUE.2", None), ("DEV.QUEUE.3", "DEV.QUEUE.3"), ("Q", None)):
        asked = message(9)._replace(properties={"mqmd.reply_to_q": queue})
        assert receiver.reply_address(asked) == address, "a reply to its own queues would come back"
    with receiving(receiver, collector):
        collector.wait_for(2)
        Place(places[0].library, places[0].manager, "DEV.QUEUE.2").put(message(7))
        collector.wait_for(3)
        assert {each.source for each in collector.messages} == {"here"}
        status = receiver.status()
        assert status["connected"]
        assert [each["broker"][:3] for each in status["queue_managers"]] == ["QM1", "QM2", "QM1"]
        places[1].manager.kill()
        until(lambda: not receiver.status()["connected"])
        assert receiver.status()["error"].startswith("QM2 at ")
        places[0].put(message(8))
        collector.wait_for(4)
    assert numbers(collector.bodies()) == [0, 1, 7, 8]
    assert places[2].depth() == 1


@pytest.mark.usefixtures("watchful")
def test_what_waits_on_several_queue_managers_is_told_together(
    places: list[Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sum of what waits, and the fullest and the oldest of the queues whose queue manager is there."""
    monkeypatch.setattr("adapters.ibm_mq.source_session._LONGEST_UNIT", 0.2)
    for place, depth, most in zip(places, (3, 1, 2), (30, 2, 20), strict=True):
        place.manager.alter(place.queue, maxdepth=most)
        place.put(*[message(number) for number in range(depth)])
    tables = [{"queue_manager": each.manager.name, "connection": each.manager.connection_name} for each in places]
    receiver = places[0].receiver(queue_managers=tables)

    def told(key: str) -> float:
        value: float | None = receiver.status()[key]
        return -1 if value is None else value

    with receiving(receiver, Collector(durable_at_once=False)):
        until(lambda: (told("queue_depth"), told("queue_filled")) == (6, 0.5))
        each = [place["oldest_message_seconds"] for place in receiver.status()["queue_managers"]]
        assert told("oldest_message_seconds") >= max(each) > 0
        places[1].manager.kill()
        until(lambda: (told("queue_depth"), told("queue_filled")) == (5, 0.1))
