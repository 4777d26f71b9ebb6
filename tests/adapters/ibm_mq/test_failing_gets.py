"""MQGETs that fail in the middle of a unit of work, time after time, in the same place."""

from pathlib import Path
from threading import Event, Thread
from types import ModuleType
from typing import Any

import pytest

from app.testing.collecting_intake import Collector, receiving
from app.testing.transport_contract import message
from app.testing.waiting import until
from tests.adapters.ibm_mq.conftest import Place
from tests.adapters.ibm_mq.test_receiver import numbers
from tests.support.queue_manager import QueueManager

FAILURES = 6


def guarded(place: Place, threshold: int = 2) -> None:
    """Gives the queue a backout queue, where a message lands that is backed out over and over."""
    place.manager.define("ASIDE")
    place.manager.alter(place.queue, bothresh=threshold, boqname="ASIDE")


@pytest.mark.parametrize("reason", [2003, 2010, 2024, 2071, 2080, 2101])
def test_what_was_got_before_is_committed(troubled: Place, reason: int) -> None:
    guarded(troubled)
    troubled.put(*[message(number) for number in range(40)])
    for _ in range(FAILURES):
        troubled.manager.fault("MQGET", reason=reason, skip=5)
    collector = Collector()
    with receiving(troubled.receiver(), collector):
        until(lambda: troubled.depth() == 0)
    assert numbers(collector.bodies()) == list(range(40))
    assert troubled.taken("ASIDE") == []


def test_a_connection_that_always_breaks_in_one_place_sets_nothing_aside(troubled: Place) -> None:
    guarded(troubled, threshold=4)
    troubled.put(*[message(number) for number in range(40)])
    for _ in range(FAILURES):
        troubled.manager.fault("MQGET", lose="before", skip=5)
    collector = Collector()
    with receiving(troubled.receiver(), collector):
        until(lambda: troubled.depth() == 0)
    assert numbers(collector.bodies()) == list(range(40))
    assert troubled.taken("ASIDE") == []


def test_a_commit_that_fails_for_large_units_is_tried_with_smaller_ones(troubled: Place) -> None:
    guarded(troubled, threshold=4)
    troubled.put(*[message(number) for number in range(40)])
    troubled.manager.fault("MQCMIT", reason=2003, times=2)
    collector = Collector()
    with receiving(troubled.receiver(), collector):
        until(lambda: troubled.depth() == 0)
    assert numbers(collector.bodies()) == list(range(40))
    assert troubled.taken("ASIDE") == []


def test_a_small_limit_of_uncommitted_messages_is_found_out(tmp_path: Path, library: ModuleType) -> None:
    with QueueManager(tmp_path, max_uncommitted=5) as manager:
        place = Place(library, manager, "DEV.QUEUE.1")
        guarded(place)
        for _ in range(6):
            place.put(*[message(number) for number in range(5)])
        manager.fault("MQINQ", reason=2035, times=1000)
        collector = Collector()
        with receiving(place.receiver(), collector):
            collector.wait_for(30)
            until(lambda: place.depth() == 0)
        assert place.taken("ASIDE") == []


@pytest.mark.parametrize("limit", [4096, 20_000, 65_535])
def test_channels_with_a_small_limit_receive(tmp_path: Path, library: ModuleType, limit: int) -> None:
    with QueueManager(tmp_path, channel_max_message_length=limit) as manager:
        place = Place(library, manager, "DEV.QUEUE.1")
        place.put(*[message(number, size) for number, size in enumerate([100, limit, limit // 2, limit - 1, 100])])
        collector = Collector()
        with receiving(place.receiver(), collector):
            until(lambda: place.depth() == 0)
        assert numbers(collector.bodies()) == list(range(5))


@pytest.fixture
def narrowed(tmp_path: Path, library: ModuleType) -> Any:
    """A queue with messages of 100,000 and 70,000 bytes amid others, behind a channel that allows 32,768."""
    with QueueManager(tmp_path) as manager:
        place = Place(library, manager, "DEV.QUEUE.1")
        guarded(place)
        sizes = [100, 200, 100_000, 300, 32_768, 70_000, 400]
        place.put(*[message(number, size) for number, size in enumerate(sizes)])
        manager.restart(channel_max_message_length=32_768)
        yield place


def test_what_is_too_long_for_the_channel_is_got_around(narrowed: Place) -> None:
    collector = Collector()
    with receiving(receiver := narrowed.receiver(), collector):
        collector.wait_for(5)
        until(lambda: "MAXMSGL stay on the queue: 2; the first has 100,000" in (receiver.status()["warning"] or ""))
        narrowed.put(message(7))
        collector.wait_for(6)
        until(lambda: narrowed.depth() == 2)
        assert receiver.status()["connected"]
    assert numbers(collector.bodies()) == [0, 1, 3, 4, 6, 7]
    narrowed.manager.restart(channel_max_message_length=100 << 20)
    whole = Collector()
    with receiving(narrowed.receiver(), whole):
        until(lambda: narrowed.depth() == 0)
    assert numbers(whole.bodies()) == [2, 5]
    assert narrowed.taken("ASIDE") == []


def test_passes_end_when_nothing_is_too_long_any_more(narrowed: Place) -> None:
    collector = Collector()
    with receiving(receiver := narrowed.receiver(), collector):
        until(lambda: receiver.status()["warning"])
        narrowed.manager.clear(narrowed.queue)
        until(lambda: not receiver.status()["warning"])
        narrowed.put(message(8))
        collector.wait_for(6)


def test_without_the_authority_to_browse_what_is_in_front_is_still_received(narrowed: Place) -> None:
    granted = {"": ["connect", "inq"], narrowed.queue: ["get", "inq"], "ASIDE": ["put", "passall"]}
    narrowed.manager.restart(users={"gateway": "g"}, authorities={"gateway": granted})
    collector, receiver, stop = Collector(), narrowed.receiver(user="gateway", password="g"), Event()
    thread = Thread(target=receiver.run, args=(collector, stop))
    thread.start()
    until(lambda: "without authority to browse" in (receiver.status()["error"] or ""))
    assert numbers(collector.bodies()) == [0, 1]
    assert narrowed.depth() == 5
    stop.set()
    thread.join(10)
