"""Runs of parts and the messages between them are what reading one message after the other gives."""

from random import Random

import pytest

from app.codecs.sas import correlid, dialect
from app.framing.message_events import read_event
from app.framing.part_runs import MessageRun, runs_and_others
from app.model.event import PartArrived
from app.model.message import PhysicalMessage
from tests.support.mq_client import any_bodies, group
from tests.support.sas_client import Program, binary_file, disordered, message


def traffic(random: Random) -> list[PhysicalMessage]:
    """Return interleaved messages of several files, sources and framings, some of them twice."""
    program = Program(random, body_limit=600)
    streams = [message(program, [binary_file(program, str(n), random.randbytes(3000))]) for n in range(6)]
    streams.append(list(group(random, any_bodies(random, random.randbytes(900), 4)).messages))
    streams.append(disordered(streams[0], random, 0.3))
    streams.append(
        [PhysicalMessage("", "unknown", 100_001, bytes(24)), PhysicalMessage("", "sas_queue", 100_001, b"short")]
    )
    sent = []
    while any(streams):
        stream = random.choice([each for each in streams if each])
        source = random.choice(["orders", "orders", "orders", "bills"])
        take = random.randrange(1, 6)
        sent += [each._replace(source=source) for each in stream[:take]]
        del stream[:take]
    return sent


def key(message: PhysicalMessage) -> tuple[str, bytes]:
    return message.source, correlid.split(message.correl_id)[0]


@pytest.mark.parametrize("seed", range(8))
def test_nothing_is_missing_and_each_attachment_keeps_its_order(seed: int) -> None:
    sent = traffic(Random(seed))
    steps = runs_and_others(sent)
    rows = [row for step in steps for row in (step.rows if isinstance(step, MessageRun) else (step,))]
    assert sorted(rows) == list(range(len(sent)))
    for each in {key(one) for one in sent}:
        theirs = [row for row in rows if key(sent[row]) == each]
        assert theirs == sorted(theirs)
    for step in steps:
        if isinstance(step, MessageRun):
            for number, row in enumerate(step.rows, step.first):
                event = read_event(sent[row], dialect.ALL)
                assert event == PartArrived(step.correl_id, number, len(sent[row].body))
                assert sent[row].source == step.source
    others = [step for step in steps if not isinstance(step, MessageRun)]
    assert others == sorted(others)
    for at, step in enumerate(steps):
        if not isinstance(step, MessageRun):  # all messages before another one stay before it
            before = {row for each in steps[:at] for row in (each.rows if isinstance(each, MessageRun) else (each,))}
            assert before == set(range(step))
    numbered = [row for row in others if sent[row].framing == "sas_queue" and sent[row].msg_type == 100_001]
    assert all(correlid.split(sent[row].correl_id)[1] == 0 for row in numbered)


def test_interleaved_parts_are_few_runs() -> None:
    program = Program(Random(1), body_limit=600)
    streams = [message(program, [binary_file(program, str(n), bytes(20_000))]) for n in range(4)]
    sent = [each for row in zip(*streams, strict=True) for each in row]
    assert sum(isinstance(step, MessageRun) for step in runs_and_others(sent)) == 4
