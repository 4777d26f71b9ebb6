"""A gateway that is killed while it sends, and brokers that go away: what arrives, and how often.

`python -m tests.support.sending_campaign 100 30` is the long form.
"""

from pathlib import Path

import pytest

from tests.support.sending_campaign import UNIT, publish_under_fire, send_under_fire

KILLS, BROKER_KILLS = 8, 3


def test_with_a_state_queue_every_message_arrives_exactly_once(tmp_path: Path) -> None:
    outcome = send_under_fire(tmp_path, KILLS, BROKER_KILLS, state_queue=True)
    assert len(outcome.expected) >= KILLS * 100
    assert (outcome.lost, outcome.surplus, outcome.unexpected) == (0, 0, 0)
    assert outcome.states_left == 0


def test_without_one_nothing_is_lost_and_a_kill_repeats_one_unit_of_work_at_most(tmp_path: Path) -> None:
    outcome = send_under_fire(tmp_path, KILLS, BROKER_KILLS, state_queue=False)
    assert (outcome.lost, outcome.unexpected) == (0, 0)
    assert outcome.surplus <= (KILLS + BROKER_KILLS) * UNIT


@pytest.mark.parametrize("qos", [1, 2])
def test_over_mqtt_what_was_not_confirmed_comes_again_with_dup_and_the_same_identifiers(
    tmp_path: Path, qos: int
) -> None:
    outcome = publish_under_fire(tmp_path, KILLS, BROKER_KILLS, qos=qos)
    assert (outcome.lost, outcome.unexpected) == (0, 0)
    assert outcome.surplus <= (KILLS + BROKER_KILLS) * UNIT
    assert (outcome.repeats_without_dup, outcome.repeats_with_other_identifiers) == (0, 0)
