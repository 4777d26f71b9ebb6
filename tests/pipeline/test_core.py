"""Assembly key by key, with any pauses, comes to what assembly of everything in a row comes to."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from app.assembly.collecting import ApplicationArrived, Completed, Effect, Key, Refused, Repeated, TrackedAttachment
from app.assembly.machine import Assembly, AssemblyLimits
from app.assembly.part_places import Parts
from app.codecs.sas import dialect
from app.framing.message_events import read_event
from app.model.errors import InvalidInputError
from app.model.event import Announced, Pieces
from app.model.message import PhysicalMessage
from app.model.records import AttachmentRecord, MessageRecord, PartRun
from app.pipeline.assemble import key_state
from app.pipeline.assemble.assemble_key import KeyOutcome, KeyState, assemble, assemble_news, by_key, missing_count
from app.pipeline.references.message_references import Reference
from app.testing.reference_passes import LIMIT, Announcing, all_references, journalled, positioned
from tests.support import mixed_journal
from tests.support.sas_client import Program
from tests.support.sas_client import message as sent_message

LIMITS = AssemblyLimits(parts=1_000_000, attachments=LIMIT)


class Found(NamedTuple):
    attachments: dict[str, AttachmentRecord]
    messages: dict[str, MessageRecord]
    parts: dict[str, list[tuple[int, int]]]
    completed: list[str]
    repeated: list[tuple[int | None, int]]
    refused: list[Refused]
    applications: list[int]


def in_a_row(arrived: Iterable[tuple[int, PhysicalMessage]]) -> Found:
    """Every message after the one before it, by one machine."""
    assembly = Assembly(LIMITS)
    known: dict[str, int] = {}
    found = Found({}, {}, {}, [], [], [], [])
    for position, message in arrived:
        before = known.get(message.source, dialect.ALL)
        try:
            event = read_event(message, before)
        except InvalidInputError as error:
            found.refused.append(Refused(position, error.code, error.row, error.why, error.at))
            continue
        assert not isinstance(event, Pieces), "no framing here brings several parts in a message"
        if isinstance(event, Announced):
            known[message.source] = dialect.narrow(before, event.dialects)
        for effect in assembly.apply(message.source, event, position, message.received_at):
            note(found, assembly, effect)
    for attachment in assembly.attachments.values():
        found.attachments[attachment.record.id] = attachment.current()
        found.parts[attachment.record.id] = list(attachment.parts)
    for record in assembly.messages.values():
        found.messages[record.id] = record
    return found


def note(found: Found, assembly: Assembly, effect: Effect) -> None:
    match effect:
        case Completed(attachment):
            found.completed.append(attachment)
        case Repeated(_, first, again):
            found.repeated.append((first, again))
        case Refused():
            found.refused.append(effect._replace(contradicted=()))  # other keys have them as references
        case ApplicationArrived(address, at):
            found.applications.append(at)
            assembly.set_application(address, PhysicalMessage("", ""), at)


def key_by_key(
    slices: Iterable[list[Reference]], announcing: Announcing, random: Random
) -> tuple[Found, list[KeyOutcome]]:
    """Slice by slice, the keys of each in any order; what is held goes through a row of state every time."""
    held: dict[Key, key_state.KeyStateRow] = {}
    outcomes: list[KeyOutcome] = []
    for some in slices:
        coming = announcing.references(some)
        random.shuffle(coming)
        coming.sort(key=lambda each: (each.source, each.key))
        for key, together in by_key(coming):
            made, after = assemble(key, together, key_state.unpack(held.get(key, key_state.KeyStateRow())), LIMITS)
            outcomes += made
            held[key] = key_state.pack(after)
    return _found(outcomes, held.values()), outcomes


def _found(outcomes: Iterable[KeyOutcome], rows: Iterable[key_state.KeyStateRow]) -> Found:
    found = Found({}, {}, {}, [], [], [], [])
    for outcome in outcomes:
        found.repeated.extend(outcome.repeated)
        found.refused.extend(outcome.refused)
        if outcome.removed is not None:
            found.attachments.pop(outcome.removed, None)
        if outcome.record is not None:
            found.attachments[outcome.record.id] = outcome.record
        if outcome.complete is not None and outcome.record is not None:
            found.completed.append(outcome.record.id)
        found.messages.update((message.id, message) for message in outcome.messages)
        found.applications.extend(place for _, place in outcome.applications)
    for held in map(key_state.unpack, rows):
        if held.attachment is not None:
            found.parts[held.attachment.record.id] = list(held.attachment.parts)
    return found


def slices(references: list[Reference], random: Random, count: int) -> Iterator[list[Reference]]:
    """The references in the journal's order, cut anywhere."""
    references.sort(key=lambda each: each.position)
    cuts = sorted(random.choices(range(len(references) + 1), k=count - 1))
    return (references[start:end] for start, end in zip([0, *cuts], [*cuts, len(references)], strict=True))


@pytest.mark.parametrize("count", [1, 2, 30])
@pytest.mark.parametrize("seed", range(4))
def test_keys_apart_come_to_the_same(tmp_path: Path, seed: int, count: int) -> None:
    random = Random(seed)
    sent = [
        each._replace(received_at=1000 * place + random.randrange(3000))
        for place, each in enumerate(mixed_journal.traffic(random, 9, 300_000))
    ]
    archive = journalled(tmp_path, sent)
    expected = in_a_row(positioned(archive))
    found, outcomes = key_by_key(slices(all_references(archive), random, count), Announcing(archive), random)
    assert found.attachments == expected.attachments
    assert found.messages == expected.messages
    assert found.parts == expected.parts
    assert sorted(found.completed) == sorted(expected.completed)
    assert sorted(found.repeated, key=str) == sorted(expected.repeated, key=str)
    assert sorted(found.refused) == sorted(expected.refused)
    assert sorted(found.applications) == sorted(expected.applications)
    assert len(set(expected.completed)) == len(expected.completed) > 20
    assert {each.code for each in expected.refused} > {"bad-header", "conflicting-header", "sequence-beyond-count"}
    _check_quality(outcomes, expected, len(sent))


def _check_quality(outcomes: list[KeyOutcome], expected: Found, messages_sent: int) -> None:
    """Increments add up to what there is."""
    assert sum(outcome.quality.messages for outcome in outcomes) == messages_sent
    assert sum(outcome.quality.attachments_completed for outcome in outcomes) == len(expected.completed)
    held = [
        TrackedAttachment(record, Parts(_runs(expected.parts[record.id]))) for record in expected.attachments.values()
    ]
    assert sum(outcome.quality.missing_ranges for outcome in outcomes) == sum(map(missing_count, held)) > 0


def _runs(parts: Iterable[tuple[int, int]]) -> list[PartRun]:
    return [PartRun(number, 1, position) for number, position in parts]


@pytest.mark.parametrize("seed", range(4))
def test_what_is_known_is_not_told_again(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    archive = journalled(tmp_path, mixed_journal.traffic(random, 9, 300_000))
    coming = sorted(Announcing(archive).references(all_references(archive)), key=lambda each: (each.source, each.key))
    known = random.choice(coming).position
    earlier = [each for each in coming if each.position + max(len(each.sizes) - 1, 0) <= known]
    before, behind, at_once = (
        [told for key, some in by_key(references) for told in assemble_news(key, some, position, LIMITS)]
        for references, position in ((earlier, None), (coming, known), (coming, None))
    )
    found, expected = _found([*before, *behind], ()), _found(at_once, ())
    assert before
    assert behind
    assert found.attachments == expected.attachments
    assert found.messages == expected.messages
    assert sorted(found.completed) == sorted(expected.completed)
    assert sorted(found.repeated, key=str) == sorted(expected.repeated, key=str)
    assert sorted(found.refused) == sorted(expected.refused)
    for name in ("messages", "attachments_begun", "attachments_completed", "missing_ranges"):
        summed, whole = (sum(getattr(each.quality, name) for each in told) for told in ([*before, *behind], at_once))
        assert summed == whole


def test_messages_that_wait_for_the_same_application_message_are_all_told_of(tmp_path: Path) -> None:
    program = Program(Random(3))
    first, application, *_ = sent_message(program, [])
    other, unsent, *_ = sent_message(program, [])
    second = other._replace(body=bytes(other.body).replace(unsent.correl_id, application.correl_id))
    sent = [each._replace(source="s") for each in (first, second, application)]
    archive = journalled(tmp_path, sent, batch=1)
    for count in (1, 3):
        found, _ = key_by_key(slices(all_references(archive), Random(1), count), Announcing(archive), Random(1))
        assert len(found.messages) == 2
        assert sorted(each.application_body is not None for each in found.messages.values()) == [False, True]


def test_what_is_held_survives_its_row(tmp_path: Path) -> None:
    archive = journalled(tmp_path, mixed_journal.traffic(Random(7), 9, 300_000))
    announcing, seen = Announcing(archive), 0
    coming = sorted(announcing.references(all_references(archive)), key=lambda each: (each.source, each.key))
    for key, together in by_key(coming):
        _, held = assemble(key, together, KeyState(), LIMITS)
        again = key_state.unpack(key_state.pack(held))
        assert again.messages == held.messages
        assert (again.attachment is None) == (held.attachment is None)
        if held.attachment is not None and again.attachment is not None:
            assert again.attachment.current() == held.attachment.current()
            assert list(again.attachment.parts) == list(held.attachment.parts)
            seen += 1
    assert seen > 40
