"""The journals of the pipeline's benchmark: large and small files, small ones only, unfinished ones, a large one."""

from collections.abc import Iterable, Iterator
from itertools import chain, zip_longest
from pathlib import Path
from random import Random

import pyarrow as pa

from adapters.arrow_journal import ArrowJournal
from app.codecs.sas.attachment_messages import write_count
from app.codecs.sas.correlid import join
from app.model.message import PhysicalMessage
from tests.support.sas_client import Attached, Program, binary_file, data_set, message

MIB = 1 << 20
LARGE, SMALL = 4 * MIB, 32 << 10
SENDERS = 4
TOGETHER = 4
"""Attachments of one message."""
OPEN_PARTS = 64
GROUP = 256
RECEIVED_AT = 1_750_000_000_000_000
LEAST_SMALL, MOST_SMALL = 1 << 10, 32 << 10
ROWS = 40


def traffic(large: int, small: int) -> Iterator[PhysicalMessage]:
    """Yield large and small files of four senders with interleaved messages; one in a hundred messages comes twice."""
    random = Random(1)
    streams = [_sender(Random(number), large // SENDERS, small // SENDERS) for number in range(SENDERS)]
    for number, turn in enumerate(zip_longest(*streams)):
        for sender, each in enumerate(turn):
            if each is not None:
                sent = each._replace(source=f"sender-{sender}", received_at=RECEIVED_AT + number)
                yield sent
                if random.random() < 0.01:
                    yield sent


def _sender(random: Random, large: int, small: int) -> Iterator[PhysicalMessage]:
    program = Program(random)
    content = random.randbytes(LARGE)
    sizes = [LARGE] * large + [SMALL] * small
    random.shuffle(sizes)
    for start in range(0, len(sizes), TOGETHER):
        together: list[Attached] = []
        for number, size in enumerate(sizes[start : start + TOGETHER], start):
            at = random.randrange(LARGE - size + 1)
            together.append(binary_file(program, f"file {number}", content[at : at + size]))
        yield from message(program, together)


def write(folder: Path, messages: Iterable[PhysicalMessage], segment_bytes: int = 64 * MIB) -> None:
    journal = ArrowJournal(folder, segment_bytes=segment_bytes)
    some: list[PhysicalMessage] = []
    for each in messages:
        some.append(each)
        if len(some) == GROUP:
            journal.append(some)
            some = []
    journal.append(some)
    journal.close()


def unfinished(attachments: int) -> Iterator[PhysicalMessage]:
    """Yield half of the parts of each attachment, interleaved and out of order."""
    random = Random(3)
    program = Program(random, body_limit=1024)
    made = [binary_file(program, f"file {n}", random.randbytes(OPEN_PARTS * 1000)) for n in range(attachments)]
    sent = [message(program, [each]) for each in made]
    headers = [each[0] for each in sent]
    halves = [random.sample(each[2:-1], OPEN_PARTS // 2) for each in sent]
    for each in chain(headers, *zip(*halves, strict=True)):
        yield each._replace(source="open", received_at=RECEIVED_AT)


def one_file(size: int) -> Iterator[PhysicalMessage]:
    """Yield the messages of a file of about this size, with the same record repeated."""
    program = Program(Random(1))
    sample = binary_file(program, "large.bin", program.random.randbytes(MIB))
    header, application, description, record, *_, count = message(program, [sample])
    parts = 1 + size // len(record.body)
    body = write_count(parts, program.dialect)
    key = sample.definition.correl_id
    numbered = (record._replace(correl_id=join(key, number)) for number in range(2, parts + 1))
    for each in chain((header, application, description), numbered, (count._replace(body=body),)):
        yield each._replace(source="large", received_at=RECEIVED_AT)


def small(attachments: int, data_sets: int) -> Iterator[PhysicalMessage]:
    """Yield files of 1 to 32 KiB from four senders, and data sets of a few rows among them, each with its own name."""
    random = Random(5)
    content = random.randbytes(LARGE)
    every = max(attachments // data_sets, 1) if data_sets else attachments + 1
    for start in range(0, attachments, TOGETHER):
        program = Program(random)
        together = [
            _data_set(program, number // every)
            if number % every == 0 and number // every < data_sets
            else _small_file(program, number, content)
            for number in range(start, min(start + TOGETHER, attachments))
        ]
        sender = start // TOGETHER % SENDERS
        for each in message(program, together):
            yield each._replace(source=f"sender-{sender}", received_at=RECEIVED_AT + start)


def files_of(number: int, size: int) -> Iterator[PhysicalMessage]:
    """Yield a number of files of one size, from four senders."""
    random = Random(7)
    content = random.randbytes(LARGE)
    for start in range(0, number, TOGETHER):
        program = Program(random)
        together = [_small_file(program, at, content, size) for at in range(start, min(start + TOGETHER, number))]
        sender = start // TOGETHER % SENDERS
        for each in message(program, together):
            yield each._replace(source=f"sender-{sender}", received_at=RECEIVED_AT + start)


def _small_file(program: Program, number: int, content: bytes, size: int | None = None) -> Attached:
    size = size or program.random.randint(LEAST_SMALL, MOST_SMALL)
    at = program.random.randrange(len(content) - size)
    return binary_file(program, f"file {number}", content[at : at + size])


def _data_set(program: Program, number: int) -> Attached:
    values = [program.random.random() for _ in range(ROWS)]
    names = [f"name {value:.3f}" for value in values]
    return data_set(program, "WORK", f"SET{number}", pa.table({"NAME": names, "X": values, "Y": values[::-1]}))
