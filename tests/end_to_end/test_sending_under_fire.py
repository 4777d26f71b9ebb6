"""A gateway that is killed while it sends, and brokers that go away: what arrives, and how often."""

from pathlib import Path
from random import Random

import pytest

from app.framing.protocol import message_identifier
from tests.support.forked_gateway import ForkedGateway
from tests.support.gateway import GatewayProcess
from tests.support.length import IS_LONG
from tests.support.mq import mq_destination
from tests.support.mqi import load
from tests.support.queue_manager import QueueManager
from tests.support.sending_campaign import BODY, QUEUE, SETTINGS, UNIT, publish_under_fire, send_under_fire, taken

pytestmark = pytest.mark.broker

KILLS, BROKER_KILLS = (100, 30) if IS_LONG else (4, 2)


def test_with_a_state_queue_every_message_arrives_exactly_once(tmp_path: Path) -> None:
    outcome = send_under_fire(tmp_path, KILLS, BROKER_KILLS, state_queue=True)
    assert len(outcome.expected) >= KILLS * 100
    assert (outcome.lost, outcome.surplus, outcome.unexpected) == (0, 0, 0)
    assert outcome.states_left == 0


def test_without_one_nothing_is_lost_and_a_kill_repeats_one_unit_of_work_at_most(tmp_path: Path) -> None:
    outcome = send_under_fire(tmp_path, KILLS, BROKER_KILLS, state_queue=False)
    assert (outcome.lost, outcome.unexpected) == (0, 0)
    assert outcome.surplus <= (KILLS + BROKER_KILLS) * UNIT


def test_a_full_queue_and_breaking_connections_make_no_copies_and_end(tmp_path: Path) -> None:
    """Nobody is killed, there is no state queue, and the reader takes what is there now and then."""
    content = Random(3).randbytes(300 * BODY)
    with QueueManager(tmp_path / "queue-manager") as manager:
        manager.define(QUEUE, maxdepth=50)
        settings = mq_destination("out", manager, QUEUE, SETTINGS)
        with ForkedGateway(tmp_path, settings) as process:
            files = {"file": ("f.bin", content, "application/octet-stream")}
            answer = process.client.post("/v1/messages", data={"destination": "out"}, files=files)
            place = answer.raise_for_status().headers["Location"]
            assert "one unit of work may arrive twice" in answer.json()["repeats"]
            received: list[bytes] = []
            for turn in range(200):
                process.until(lambda: manager.depth(QUEUE) == 50 or is_sent(process, place))
                if turn % 5 == 1:
                    manager.break_connections()
                received += taken(load("pymqi"), manager)
                if is_sent(process, place):
                    break
            received += taken(load("pymqi"), manager)
            delivery = process.client.get(place).json()
    assert delivery["state"] == "sent"
    expected = [message_identifier(delivery["id"], number) for number in range(delivery["messages_total"])]
    assert received == expected
    assert delivery["messages_sent"] == len(expected) > 300


def is_sent(process: GatewayProcess, place: str) -> bool:
    return bool(process.client.get(place).json()["state"] == "sent")


@pytest.mark.parametrize("qos", [1, 2])
def test_over_mqtt_what_was_not_confirmed_comes_again_with_dup_and_the_same_identifiers(
    tmp_path: Path, qos: int
) -> None:
    outcome = publish_under_fire(tmp_path, KILLS, BROKER_KILLS, qos=qos)
    assert (outcome.lost, outcome.unexpected) == (0, 0)
    assert outcome.surplus <= (KILLS + BROKER_KILLS) * UNIT
    assert (outcome.repeats_without_dup, outcome.repeats_with_other_identifiers) == (0, 0)
