"""A process that is stopped while it sends, and another one that goes on.

`python -m tests.support.paused_senders 7 100` is the long form, for IBM MQ.
"""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.support.paused_senders import QUEUES, UNIT, Moment, Pair, drawn, sending_pair

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def pair(postgresql: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with sending_pair(tmp_path_factory.mktemp("senders"), postgresql) as running:
        yield running


def test_a_state_message_that_comes_late_is_not_taken_for_the_one_that_another_process_holds(pair: Pair) -> None:
    """The first process is stopped when it has found no state message. The second one makes it, and is stopped in its
    first unit of work. Then the first one makes another, and claims the delivery again."""
    has_looked = Moment(0, "after", goes_on_early=False, is_broken=False)
    has_put = Moment(8, "after", goes_on_early=False, is_broken=False)
    pair.send(Random(26), dict.fromkeys(QUEUES, has_looked), dict.fromkeys(QUEUES, has_put))
    arrived = pair.finish()
    assert arrived.moments.keys() >= {"after MQGET", "after MQPUT"}
    assert (arrived.wrong, arrived.states_left) == ([], 0)


def test_with_a_state_queue_each_message_arrives_exactly_once_and_in_order(pair: Pair) -> None:
    random = Random(25)
    pair.send(random, drawn(random))
    pair.send(random, drawn(random), drawn(random))
    arrived = pair.finish()
    assert arrived.deliveries == 2 * len(QUEUES)
    assert arrived.moments.total() > len(QUEUES)
    assert (arrived.wrong, arrived.states_left) == ([], 0)


@pytest.mark.parametrize("qos", [1, 2])
def test_over_mqtt_no_more_comes_twice_than_was_in_flight(pair: Pair, qos: int) -> None:
    """What the client library had when the process was stopped goes out again, with the same identifiers."""
    for publishes in (1, 3, 7):
        pair.publish(qos, publishes)
    arrived = pair.finish()
    assert arrived.deliveries == 3
    assert len(arrived.twice) <= 3 * UNIT
    assert (arrived.lost, arrived.out_of_order, arrived.sent_twice) == ([], [], [])
