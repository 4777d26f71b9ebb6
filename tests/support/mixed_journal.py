"""A journal of all kinds of input: senders of many dialects, duplicates, shuffles, losses, garbage, conflicts."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

from adapters.arrow_journal import ArrowJournal
from app.codecs.sas import correlid
from app.codecs.sas.constants import HEADER_MSG_TYPE, SUBORDINATE_MSG_TYPE
from app.codecs.sas.dialect import DIALECTS
from app.model.message import UNREADABLE, PhysicalMessage
from tests.support import group_loads, loads
from tests.support.sas_client import APPLICATION_BODY, Attached, Program, binary_file, data_set, disordered, message

BEGAN_AT = 1_700_000_000_000_000
SEGMENT_BYTES = 4 << 20
BATCH = 150
MIB = 1 << 20


def programs(random: Random, *, numbered: bool = True) -> dict[str, Program]:
    """Return four sources and their senders' habits; one of them may number its messages."""
    return {
        "north": Program(random, DIALECTS[0]),
        "east": Program(random, DIALECTS[5], ccsid=819),
        "south": Program(random, DIALECTS[24], ccsid=500, encoding=785, numbers_messages=numbered),
        "west": Program(random, DIALECTS[23], body_limit=4096),
    }


def traffic(random: Random, attachments: int, largest: int, *, numbered: bool = True) -> list[PhysicalMessage]:
    """Yield physical messages in the order of their arrival.

    Each source sends this number of attachments. The largest file has `largest` bytes and is sent between the others.
    """
    arrived: list[PhysicalMessage] = []
    for source, program in programs(random, numbered=numbered).items():
        sent = loads.messages(program, [*loads.mixed(program, attachments), *_spoilt(program)])
        sent += _hostile(random, sent)
        sent = disordered(_with_losses(random, sent), random)
        arrived += (each._replace(source=source) for each in sent)
    groups = [each for file in group_loads.files(random) for each in file.messages]
    arrived += (
        each._replace(source="groups") for each in disordered(_with_losses(random, groups), random, duplicates=0.2)
    )
    random.shuffle(arrived)
    program = Program(random)
    large = message(program, [binary_file(program, "large.bin", random.randbytes(largest))])
    return list(_merged([each._replace(source="north") for each in large], arrived))


def write(folder: Path, messages: Iterable[PhysicalMessage]) -> None:
    """Write messages to the journal in batches, and seal it."""
    timed = [each._replace(received_at=BEGAN_AT + 1000 * place) for place, each in enumerate(messages)]
    journal = ArrowJournal(folder, segment_bytes=SEGMENT_BYTES)
    for start in range(0, len(timed), BATCH):
        journal.append(timed[start : start + BATCH])
    journal.close()


def _merged(one: list[PhysicalMessage], other: list[PhysicalMessage]) -> Iterator[PhysicalMessage]:
    """Merge two lists evenly; each keeps its own order."""
    places = [(place / len(few), each) for few in (one, other) for place, each in enumerate(few)]
    return (each for _, each in sorted(places, key=lambda place: place[0]))


def _with_losses(random: Random, sent: list[PhysicalMessage]) -> list[PhysicalMessage]:
    """Drop one message in a hundred, of any kind, and at least one application message."""
    lost = set(random.sample(range(len(sent)), len(sent) // 100))
    lost.update([place for place, each in enumerate(sent) if each.body == APPLICATION_BODY][:1])
    return [each for place, each in enumerate(sent) if place not in lost]


def _spoilt(program: Program) -> list[Attached]:
    """Return attachments that are complete and violate their specification."""
    whole = binary_file(program, "spoilt.bin", program.random.randbytes(20_000))
    torn = whole.bodies[1][:-1], *whole.bodies[2:]
    table = data_set(program, "WORK", "SPOILT", loads.table(program, 40))
    return [
        Attached(whole.definition, (whole.bodies[0], *torn), whole.content),
        Attached(table.definition, table.bodies[1:], table.content),
    ]


def _hostile(random: Random, sent: list[PhysicalMessage]) -> Iterator[PhysicalMessage]:
    """Return messages that no program should send: noise, conflicting bytes, a header with other texts."""
    for _ in range(5):
        noise = random.randbytes(random.randrange(300))
        yield PhysicalMessage("", "sas_queue", HEADER_MSG_TYPE, random.randbytes(24), noise)
        yield PhysicalMessage("", "sas_queue", random.randrange(99), random.randbytes(24), noise)
        yield PhysicalMessage("", "sas_queue", SUBORDINATE_MSG_TYPE, random.randbytes(random.randrange(25)), noise)
    yield PhysicalMessage("", "smoke-signals", body=b"?")
    refused = {"refused-code": "bad-envelope", "refused-why": "it was torn"}
    yield PhysicalMessage("", UNREADABLE, body=b"?", properties=refused)
    parts = [each for each in sent if each.msg_type == SUBORDINATE_MSG_TYPE and correlid.split(each.correl_id)[1]]
    for each in random.sample(parts, 5):
        yield each._replace(body=bytes(each.body) + b"!")
        yield each._replace(correl_id=correlid.join(correlid.split(each.correl_id)[0], 900_000))
    headers = [each for each in sent if each.msg_type == HEADER_MSG_TYPE]
    for each in random.sample(headers, 3):
        body = bytearray(each.body)
        body[:16] = random.randbytes(16)
        yield each._replace(body=bytes(body))
