"""Headers that are read side by side say what they say when all of a source are read one after the other."""

from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from app.codecs.sas.dialect import ALL, DIALECTS
from app.model.message import PhysicalMessage, Position
from app.pipeline.assemble.earlier_state import NOTHING_EARLIER, EarlierState
from app.pipeline.job.job import Job, OpenJob, open_job
from app.pipeline.references.header_pass import HeaderPass
from app.pipeline.references.header_plan import SEGMENTS, HeaderPlan, with_keys
from app.pipeline.references.message_references import SCHEMA, Header, Reference, from_batch, to_batch
from app.pipeline.references.shuffle import unpacked
from app.pipeline.run import header_steps
from app.settings import Settings
from tests.support.local_steps import read_headers
from tests.support.sas_client import Program, binary_file, message


def some_headers(random: Random, count: int, dialects: int) -> list[PhysicalMessage]:
    """Return headers of one source by senders of so many dialects: new ones, repeated, contradictory, and bad ones."""
    programs = [Program(random, random.choice(DIALECTS)) for _ in range(dialects)]
    found: list[PhysicalMessage] = []
    for number in range(count):
        program = random.choice(programs)
        listed = [binary_file(program, f"file {number}-{at}", b"x") for at in range(random.choice((0, 1, 1, 3)))]
        header = message(program, listed)[0]._replace(source="s", received_at=number)
        body = bytes(header.body)
        match random.randrange(8):
            case 0 if found:
                header = random.choice(found)
            case 1 if listed:
                found.append(header)
                header = header._replace(body=body.replace(b"file", b"FILE"))
            case 2:
                header = header._replace(body=body[:-3])
        found.append(header)
    return found


def placed(random: Random, messages: list[PhysicalMessage]) -> list[Header]:
    segment, batch, row = 1, 0, 0
    found = []
    for each in messages:
        found.append(
            Header("s", b"", Position(segment, batch, row).pack(), (len(each.body),), (each.received_at,), each)
        )
        row += 1
        if random.random() < 0.1:
            batch, row = batch + 1, 0
        if random.random() < 0.1:
            segment, batch, row = segment + 1, 0, 0
    return found


def rows(references: list[Reference]) -> list[tuple[object, ...]]:
    return sorted(zip(*(column.to_pylist() for column in to_batch(references).columns), strict=True))


def opened_job(folder: Path) -> OpenJob:
    return open_job(Job.of(Settings.model_validate({"data": folder}), str(folder), in_place=False))


@pytest.mark.parametrize("seed", range(24))
def test_headers_are_read_as_in_order(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    opened = opened_job(tmp_path)
    headers = placed(random, some_headers(random, 60, 1 + seed % 3))
    dialects = {"s": random.choice((ALL, 0x0F, 1 << 31))} if seed % 2 else {}
    memory = EarlierState(dialects=dialects).remembered("s")
    header_pass = HeaderPass(memory, opened.stores.described, opened.job.limits.attachments)
    expected: list[Reference] = []
    earlier = EarlierState(dialects=dialects)
    for each in headers:
        expected += header_pass.read(each.position, each.message)
    batches = [to_batch(headers[at : at + 7]) for at in range(0, len(headers), 7)]
    read = [*with_keys(batches, opened.stores.described, opened.job.configured_dialects)]
    packs = [*read_headers(opened, pa.Table.from_batches(read, SCHEMA), earlier, 3)]
    found = [reference for batch in unpacked(packs) for reference in from_batch(batch)]
    assert rows(found) == rows(expected)
    assert len(expected) > 60


def test_most_headers_need_no_order(tmp_path: Path) -> None:
    random = Random(5)
    program = Program(random, DIALECTS[0])
    sent = [message(program, [binary_file(program, f"file {at}", b"x")])[0]._replace(source="s") for at in range(200)]
    opened = opened_job(tmp_path)
    headers = placed(random, [*sent, sent[3], sent[70]])
    read = [*with_keys([to_batch(headers)], opened.stores.described, opened.job.configured_dialects)]
    segments = pa.Table.from_batches(header_steps.segments_of_headers(opened, read), SEGMENTS)
    keys = [*header_steps.keys_of_headers(opened, read, partitions=1)]
    (batch,) = header_steps.contested_positions(opened, keys, known=NOTHING_EARLIER.keys)
    contested = frozenset(batch.column("position").to_pylist())
    assert contested == {headers[at].position for at in (3, 70, 200, 201)}
    plan = HeaderPlan.of(segments, {}, contested)
    assert segments.num_rows > 5
    assert not plan.ordered
