"""The model of many receivers: its queues lose no work, and wait as theory says."""

from random import Random

import pytest

from bench.queues import Amount, Came, Events, Piece, Queue
from bench.scaling import KEEPER, NO_DISKS, ONE, SPARK, Shape, Simulation, sized
from bench.scaling_costs import chosen

SERVICE, USED, NUMBER = 0.01, 0.7, 20_000


def test_one_at_a_time_waits_as_theory_says() -> None:
    """Random arrivals and constant service (M/D/1) wait for USED x SERVICE / (2 x (1 - USED)) on average."""
    events, random, waits = Events(), Random(1), list[float]()
    queue = Queue(
        events,
        lambda _batch: SERVICE,
        lambda batch: waits.extend(events.now - piece.came.at - SERVICE for piece in batch),
        most=1,
    )

    def arrive() -> None:
        queue.put([Piece(Came(events.now, 1), Amount(1, 1, 1))])
        events.at(events.now + random.expovariate(USED / SERVICE), arrive)

    arrive()
    events.run(NUMBER * SERVICE / USED)
    assert sum(waits) / len(waits) == pytest.approx(USED * SERVICE / (2 * (1 - USED)), rel=0.05)
    assert queue.busy / events.now == pytest.approx(USED, rel=0.02)


def test_a_batch_is_what_waits_and_no_more_than_fits() -> None:
    events, batches = Events(), list[list[float]]()
    queue = Queue(events, lambda _: 1.0, lambda batch: batches.append([each.has.size for each in batch]), most=10)
    for size in (1, 4, 4, 4, 20, 1):
        queue.put([Piece(Came(0.0, 1), Amount(1, 1, size))])
    events.run(10.0)
    assert batches == [[1, 4, 4, 4], [20], [1]]


@pytest.mark.parametrize("shape", [ONE, KEEPER, SPARK, NO_DISKS], ids=lambda shape: shape.name)
def test_all_that_comes_is_assembled_or_waits(shape: Shape) -> None:
    each = Amount(1, 5, 32_000)
    simulation = Simulation(sized(chosen("cloud", []), shape, 5.0, each), 5.0, each)
    simulation.events.run(40.0)
    held = sum(simulation.held())
    assert simulation.came == pytest.approx(simulation.done + held)
    assert 0.5 * simulation.came < simulation.done


def test_nothing_is_lost_under_more_than_it_bears() -> None:
    each = Amount(1, 5, 32_000)
    simulation = Simulation(sized(chosen("bench", []), KEEPER, 4_000.0, each), 4_000.0, each)
    simulation.events.run(14.0)
    assert simulation.came == pytest.approx(simulation.done + sum(simulation.held()))
    assert simulation.done < 0.9 * simulation.came
