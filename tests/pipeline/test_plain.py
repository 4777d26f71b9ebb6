"""Assembly by columns comes to what the assembly machine comes to, key by key."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.assembly.header_checks import Claim
from app.assembly.machine import AssemblyLimits
from app.codecs.sas import correlid, dialect
from app.codecs.sas.attachment_messages import write_count
from app.codecs.sas.dialect import DIALECTS, Dialect
from app.model.attachment import AttachmentDefinition, AttachmentKind
from app.model.event import Unsequenced
from app.model.identity import message_id
from app.model.message import Position
from app.model.records import MessageRecord, PartRun
from app.pipeline.assemble import assemble_key, columnar_assembly
from app.pipeline.assemble.assemble_key import KeyOutcome, assemble_news, by_key
from app.pipeline.references.message_references import (
    AttachmentClaim,
    CommonDialects,
    MessageBegun,
    MessageEvent,
    Reference,
    ReferenceKind,
    SequencedParts,
    from_batch,
    references,
    to_batch,
)
from app.ports import JournalArchive
from app.testing.reference_passes import Announcing, all_references, batches, journalled
from tests.support import mixed_journal
from tests.support.sas_client import APPLICATION_BODY, Program, binary_file, message

LIMITS = AssemblyLimits(parts=70_000, attachments=100)
SOURCES, KEYS = ("a", "b"), (b"", *(bytes([number]) * correlid.KEY_SIZE for number in range(4)), bytes(24))
BIG, LITTLE = Dialect(">"), Dialect("<")
TIMES = st.integers(0, 3).map(lambda hours: hours * 1_800_000_000)
COUNTS = st.sampled_from([0, 1, 2, 3, 256, 65_536, 70_001])


def by_machine(rows: pa.RecordBatch, known: int | None) -> list[KeyOutcome]:
    return [each for key, some in by_key(from_batch(rows)) for each in assemble_news(key, some, known, LIMITS)]


def by_columns(rows: pa.RecordBatch, known: int | None, size: int) -> list[KeyOutcome]:
    batches = [rows.slice(at, size) for at in range(0, len(rows), size)]
    return list(columnar_assembly.outcomes(batches, known, LIMITS))


def as_rows(references: Sequence[Reference]) -> pa.RecordBatch:
    """Return references as Spark sorts them: by source and key, and in any order under a key."""
    return to_batch(sorted(references, key=lambda each: (each.source, each.key)))


@dataclass(slots=True)
class Count(Reference):
    """The row of a small unsequenced message, as the reference pass writes it."""

    kind = ReferenceKind.COUNT

    body: bytes

    def detail(self) -> bytes:
        return self.body


def parts(first: int) -> Callable[..., Reference]:
    return lambda *place: SequencedParts(*place, first)  # type: ignore[call-arg]


def claim(key: bytes, dialects: int) -> Claim:
    definition = AttachmentDefinition(AttachmentKind.BINARY_FILE, key, "FILE", "name", "text", 1, 2)
    return Claim("message", 3, definition, dialects, "trace")


def message_of(source: str, key: bytes, sequence: int) -> MessageRecord:
    header, application = bytes(24), correlid.join(key.ljust(correlid.KEY_SIZE, b"1")[: correlid.KEY_SIZE], sequence)
    return MessageRecord(message_id(source, header), source, header, application, 1, bytes(24), ("x",), 7, 11)


@st.composite
def drawn_references(draw: st.DrawFn) -> list[Reference]:
    """Draw the references under some keys, most of them plain, in any order, with repetitions and gaps."""
    made: list[Reference] = []
    places = iter(draw(st.permutations(range(0, 12 * len(KEYS) * len(SOURCES) * 8, 8))))

    def add(source: str, key: bytes, make: Callable[..., Reference], length: int, *values: Any) -> None:
        sizes, times = (draw(st.lists(each, min_size=length, max_size=length)) for each in (st.integers(0, 9), TIMES))
        counted = () if make is AttachmentClaim else sizes  # the message of a claim counts with its address
        made.append(make(source, key, next(places), counted, times, *values))

    for source in SOURCES:
        for key in draw(st.sets(st.sampled_from(KEYS))):
            if not key:
                add(source, key, CommonDialects, 1, 5)
                continue
            length, count = draw(st.integers(1, 5)), draw(COUNTS | st.none())
            order = draw(st.sampled_from([BIG, LITTLE]))
            dialects = draw(st.sampled_from([dialect.ALL, dialect.mask_of(BIG), dialect.mask_of(LITTLE)]))
            body = write_count(length if count is None else count, order)
            choices = [
                (AttachmentClaim, 1, claim(key, dialects)),
                (parts(1), length),
                (Count, 1, body),
                (parts(draw(st.sampled_from([1, 2, 1 << 24]))), length),
                (MessageBegun, 1, message_of(source, key, draw(st.sampled_from([0, 1])))),
                (MessageEvent, 1, Unsequenced(key, (length, length), 4)),
            ]
            usual = st.sampled_from([choices[:3], [*_in_runs(draw, length), *choices[:3:2]], [choices[4], choices[2]]])
            for each in draw(usual | st.lists(st.sampled_from(choices), max_size=6)):
                add(source, key, *each)
    return made


def _in_runs(draw: st.DrawFn, length: int) -> list[tuple[Callable[..., Reference], int]]:
    """Draw references that have so many parts together."""
    ends = sorted({*draw(st.sets(st.integers(1, length))), length})
    return [(parts(begin + 1), end - begin) for begin, end in zip([0, *ends], ends, strict=False)]


def shown(outcomes: Sequence[KeyOutcome]) -> list[str]:
    return sorted(map(repr, outcomes))


@given(drawn_references(), st.none() | st.integers(0, 800), st.integers(1, 9))
def test_columns_and_machine_agree(found: list[Reference], known: int | None, size: int) -> None:
    rows = as_rows(found)
    assert shown(by_columns(rows, known, size)) == shown(by_machine(rows, known))


@pytest.fixture
def machine_calls(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The keys that the machine assembles."""
    keys: list[bytes] = []
    machine = assemble_key.assemble_news

    def counted(key: Any, *arguments: Any) -> list[KeyOutcome]:
        keys.append(key[1])
        return machine(key, *arguments)

    monkeypatch.setattr(columnar_assembly, "assemble_news", counted)
    return keys


@pytest.mark.parametrize("size", [1, 7, 1024])
def test_a_journal_gives_the_same_outcomes(tmp_path: Path, size: int) -> None:
    archive = journalled(tmp_path, mixed_journal.traffic(Random(size), 9, 300_000))
    rows = to_batch(
        sorted(Announcing(archive).references(all_references(archive)), key=lambda each: (each.source, each.key))
    )
    expected = by_machine(rows, None)
    assert shown(by_columns(rows, None, size)) == shown(expected)
    assert len(expected) > 100


def test_plain_attachments_and_messages_take_no_machine(machine_calls: list[bytes]) -> None:
    key, other, third, fourth = KEYS[1:5]
    found = [
        AttachmentClaim("a", key, 8, (), (5,), claim(key, dialect.ALL)),
        SequencedParts("a", key, 16, (3, 4), (6, 9), 1),
        Count("a", key, 18, (4,), (7,), write_count(2, LITTLE)),
        MessageBegun("a", other, 9, (5,), (5,), message_of("a", other, 0)),
        Count("a", other, 10, (5,), (5,), b"hello"),
        SequencedParts("a", third, 20, (3, 4), (6, 9), 1),
        AttachmentClaim("a", fourth, 30, (), (5,), claim(fourth, dialect.ALL)),
        SequencedParts("a", fourth, 43, (1,), (8,), 3),
        Count("a", fourth, 35, (4,), (7,), write_count(3, LITTLE)),
        SequencedParts("a", fourth, 40, (3, 4), (6, 6), 1),
    ]
    plain_one, message, open_one, in_runs = sorted(by_columns(as_rows(found), None, 2), key=lambda each: each.position)
    assert machine_calls == [third]
    assert in_runs.complete == (PartRun(1, 2, 40), PartRun(3, 1, 43))
    assert plain_one.record is not None
    assert (plain_one.record.bytes_received, plain_one.record.completed_at, plain_one.reached) == (7, 9, 18)
    assert [each.application_body for each in message.messages] == [b""]
    assert open_one.complete is None


def test_small_application_messages_are_in_their_references(tmp_path: Path, machine_calls: list[bytes]) -> None:
    program = Program(Random(1), DIALECTS[24], ccsid=500, encoding=785)
    sent = message(program, [binary_file(program, "file", b"bytes")])
    for size, is_held in ((9, True), (1024, True), (1025, False), (8, False)):
        body = bytes(size)
        answered = [each._replace(body=body) if each.body == APPLICATION_BODY else each for each in sent]
        archive = journalled(tmp_path / str(size), answered)
        found = [*map(to_batch, [Announcing(archive).references(from_batch(headers(archive)))]), *others(archive)]
        rows = pa.Table.from_batches(found).sort_by([("source", "ascending"), ("key", "ascending")]).combine_chunks()
        (outcome,) = [each for each in by_columns(rows.to_batches()[0], None, 1024) if each.messages]
        (record,) = outcome.messages
        place = next(at for at, each in enumerate(answered) if each.body == body)
        if is_held:
            assert (record.application_body, record.application_format, record.application_ccsid) == (
                body,
                answered[place].format,
                500,
            )
        assert outcome.applications == (() if is_held else ((record.id, Position(1, 0, place).pack()),))
    assert not any(machine_calls)


def headers(archive: JournalArchive) -> pa.RecordBatch:
    (rows,) = (references(batch) for batch in batches(archive))
    return rows.filter(pc.equal(rows.column("kind"), int(ReferenceKind.HEADER)))


def others(archive: JournalArchive) -> list[pa.RecordBatch]:
    found = (references(batch) for batch in batches(archive))
    return [rows.filter(pc.not_equal(rows.column("kind"), int(ReferenceKind.HEADER))) for rows in found]


def test_a_key_in_many_batches_is_gathered_and_rows_without_one_are_not() -> None:
    keyless = [CommonDialects("a", b"", at, (), (), 1) for at in range(5)]
    of_key = [SequencedParts("a", KEYS[1], 8 + at, (1,), (1,), 1 + at) for at in range(5)]
    rows = to_batch([*keyless, *of_key, SequencedParts("a", KEYS[2], 80, (1,), (1,), 1)])
    pieces = columnar_assembly.whole_keys(rows.slice(at, 2) for at in range(0, len(rows), 2))
    assert [piece.column("key").to_pylist() for piece in pieces] == [
        *([b""] * length for length in (2, 2, 1)),
        [KEYS[1]] * 5,
        [KEYS[2]],
    ]
