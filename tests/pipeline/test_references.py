"""What a journal batch means, found all at once, is what its messages mean one by one."""

from collections.abc import Sequence
from itertools import compress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.assembly.header_checks import Claim
from app.codecs.sas import correlid, dialect
from app.codecs.sas.constants import HEADER_MSG_TYPE, SUBORDINATE_MSG_TYPE
from app.framing.message_events import is_header, read_event
from app.model.attachment import AttachmentDefinition, AttachmentKind
from app.model.errors import InvalidInputError
from app.model.event import PartArrived, Unsequenced
from app.model.message import PhysicalMessage, Position
from app.model.records import MessageRecord
from app.pipeline.references.message_references import (
    LONGEST_ANSWER,
    LONGEST_COUNT,
    AttachmentClaim,
    CommonDialects,
    Header,
    MessageBegun,
    MessageEvent,
    Reference,
    ReferenceKind,
    RefusedMessage,
    RepeatedHeader,
    SequencedParts,
    from_batch,
    references,
    references_between,
    to_batch,
    unpacked_answer,
)
from app.testing.reference_passes import all_references, batches, journalled, positioned
from tests.support import mixed_journal

KEYS = st.sampled_from([b"k" * 16, b"k" * 15 + b"l", bytes(16)])
SEQUENCES = st.integers(0, 6) | st.sampled_from([0x20202020, 1 << 24, 0xFFFFFFFF])
CORREL_IDS = st.builds(correlid.join, KEYS, SEQUENCES) | st.binary(max_size=24)


def _message(**fields: Any) -> PhysicalMessage:
    return PhysicalMessage(**fields)


MESSAGES = st.builds(
    _message,
    source=st.sampled_from(["a", "b"]),
    framing=st.sampled_from(["sas_queue", "sas_queue", "mq_group", "none such"]),
    msg_type=st.sampled_from([SUBORDINATE_MSG_TYPE, SUBORDINATE_MSG_TYPE, HEADER_MSG_TYPE, 8, 4]),
    correl_id=CORREL_IDS,
    body=st.binary(max_size=9),
    group_id=st.sampled_from([b"", b"g" * 24]),
    message_id=st.sampled_from([b"", b"m" * 24]),
    msg_flags=st.sampled_from([0, 1, 2, 4, 6, 8, 16, 24]),
    msg_seq_number=st.integers(-1, 3),
    offset=st.sampled_from([0, 0, 0, -1, 3]),
    received_at=st.integers(0, 1 << 50),
)


def one_by_one(position: int, message: PhysicalMessage) -> tuple[Any, ...]:
    """What a message means, and of which place that is said."""
    if message.framing == "sas_queue" and message.msg_type == HEADER_MSG_TYPE:
        return message.source, position, "header"
    try:
        event = read_event(message, dialect.ALL)
    except InvalidInputError as error:
        return message.source, position, (error.code, error.row, error.at, error.why)
    return message.source, position, event, message.received_at


def unfolded(reference: Reference) -> list[tuple[Any, ...]]:
    source, position = reference.source, reference.position
    if isinstance(reference, SequencedParts):
        return [
            (source, position + place, PartArrived(reference.key, reference.number + place, size), received)
            for place, (size, received) in enumerate(zip(reference.sizes, reference.received_at, strict=True))
        ]
    if isinstance(reference, MessageEvent):
        return [(source, position, reference.event, *reference.received_at)]
    if isinstance(reference, RefusedMessage):
        return [(source, position, (reference.code, reference.row, reference.at, reference.why))]
    assert isinstance(reference, Header)
    return [(source, position, "header")]


def check(sent: Sequence[PhysicalMessage]) -> None:
    with TemporaryDirectory() as folder:
        archive = journalled(Path(folder), sent, batch=7)
        expected = [one_by_one(position, message) for position, message in positioned(archive)]
        found = [each for reference in all_references(archive) for each in unfolded(reference)]
        assert sorted(found, key=lambda each: each[1]) == expected
        places = [Position.unpack(batch.positions[0].item()) for batch in batches(archive)]
        after, until = sorted(Random(len(sent)).choices([each[1] for each in expected], k=2))
        for checked in (True, False):
            rows = references_between(archive, places, after, until, checked=checked)
            between = [] if rows is None else [each for one in from_batch(rows) for each in unfolded(one)]
            assert sorted(between, key=lambda each: each[1]) == [each for each in expected if after < each[1] <= until]
        with pytest.MonkeyPatch.context() as patched:
            for worth in (-1, 1 << 40):
                patched.setattr("app.pipeline.references.message_references.WORTH_BYTES", worth)
                for place, batch in zip(places, batches(archive), strict=True):
                    found_unchecked = references_between(archive, [place], checked=False)
                    assert found_unchecked is not None
                    assert found_unchecked.equals(references(batch))


@given(st.lists(MESSAGES, min_size=1, max_size=40))
def test_any_messages(sent: list[PhysicalMessage]) -> None:
    check(sent)


def test_mixed_traffic() -> None:
    check(mixed_journal.traffic(Random(1), 6, 100_000))


def test_parts_in_a_row_are_one_reference(tmp_path: Path) -> None:
    key = b"k" * 16
    sent = [
        PhysicalMessage(
            "a", "sas_queue", SUBORDINATE_MSG_TYPE, correlid.join(key, number), bytes(number), received_at=9
        )
        for number in (1, 2, 3, 4, 6, 7)
    ]
    assert all_references(journalled(tmp_path, sent, batch=10)) == [
        SequencedParts("a", key, Position(1, 0, 0).pack(), [1, 2, 3, 4], [9] * 4, 1),
        SequencedParts("a", key, Position(1, 0, 4).pack(), [6, 7], [9] * 2, 6),
    ]


def test_a_header_is_carried_with_its_body(tmp_path: Path) -> None:
    sent = mixed_journal.traffic(Random(2), 6, 1000)
    archive = journalled(tmp_path, sent)
    carried = [each.message for each in all_references(archive) if isinstance(each, Header)]
    assert carried == [each for each in sent if is_header(each)]
    assert all(type(each.body) is bytes for each in carried)


def test_rows_keep_what_references_say() -> None:
    entry = AttachmentDefinition(AttachmentKind.DATA_SET, b"k" * 16, "WORK", "é", "described", 1, 2)
    said = [
        SequencedParts("a", b"k", 9, [3, 4], [5, 6], 7),
        MessageEvent("a", b"k", 1, [2], [5], Unsequenced(b"k", (1, 2), 2)),
        Header("a", b"", 1, [], [5], PhysicalMessage("a", "any", body=b"thing")),
        RefusedMessage("a", b"", 1, [1], [5], "code", "row", -1, "why"),
        MessageBegun("a", b"k", 1, [1], [5], MessageRecord("m", "a", b"h", b"a", 8, bytes(24), ("x",), 1, 3)),
        AttachmentClaim("a", b"k", 1, [], [5], Claim("message", 3, entry, 7, "00-trace")),
        RepeatedHeader("a", b"", 1, [1], [5], 8),
        CommonDialects("é", b"", 1 << 62, [1, 2], [3, -4], 5),
    ]
    found = list(from_batch(to_batch(said)))
    assert found == said


def test_unsequenced_messages_are_found_in_columns(tmp_path: Path) -> None:
    sent = mixed_journal.traffic(Random(2), 4, 30_000)
    is_count = [
        each.framing == "sas_queue" and each.msg_type == SUBORDINATE_MSG_TYPE and not correlid.split(each.correl_id)[1]
        for each in sent
    ]
    archive = journalled(tmp_path, sent)
    rows = [row for batch in batches(archive) for row in references(batch).to_pylist()]
    counts = [row["detail"] for row in rows if row["kind"] == ReferenceKind.COUNT]
    answers = [unpacked_answer(row["detail"])[0] for row in rows if row["kind"] == ReferenceKind.ANSWER]
    assert len(counts) >= 4
    bodies = [
        bytes(each.body)
        for each, count in zip(sent, is_count, strict=True)
        if count and (len(each.body) <= LONGEST_COUNT or len(each.correl_id) >= correlid.COMPARED_SIZE)
    ]
    are_answers = [LONGEST_COUNT < len(body) <= LONGEST_ANSWER for body in bodies]
    assert sorted(answers) == sorted(compress(bodies, are_answers)) != []
    rest = (body for body, is_answer in zip(bodies, are_answers, strict=True) if not is_answer)
    assert sorted(counts) == sorted(body if len(body) <= LONGEST_COUNT else b"" for body in rest)
