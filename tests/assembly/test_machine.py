"""The assembly machine over every order, duplicate and loss of the messages, with states let go and loaded again."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.assembly.collecting import (
    CONTRADICTED,
    CONTRADICTED_LATER,
    ApplicationArrived,
    Completed,
    Effect,
    Identification,
    Refused,
    Repeated,
    TrackedAttachment,
    Warned,
)
from app.assembly.header_checks import message_address
from app.assembly.machine import Assembly, AssemblyLimits
from app.assembly.part_places import Parts, number_in
from app.codecs.sas import dialect
from app.codecs.sas.dialect import with_order
from app.model.attachment import AttachmentDefinition, AttachmentKind, AttachmentState, MessageHeader
from app.model.event import Announced, Event, PartArrived, Unsequenced
from app.model.identity import attachment_id, message_id
from app.model.message import PhysicalMessage
from app.model.records import AttachmentRecord, Checkpoint, MessageRecord, PartRun
from app.wire.kinds import Order
from tests.support.length import examples

SOURCE = "orders"
OTHER = {">": "<", "<": ">"}
APPLICATION = b"A" * 16
NUMBERS = (1, 2, 7, 1 << 30)
NUMBERED = [b"N" * 16 + number.to_bytes(4, "big") + bytes(4) for number in NUMBERS]
"""Correlids of messages that differ only where a part has its sequence number."""
APPLICATIONS = [Unsequenced(APPLICATION, (), 20), *(PartArrived(b"N" * 16, number, 20) for number in NUMBERS)]


def correl_id(number: int) -> bytes:
    return bytes([0x30 + number]) * 16


def header(parts: list[int]) -> Announced:
    definitions = tuple(
        AttachmentDefinition(AttachmentKind.BINARY_FILE, correl_id(number), "FILENAME", f"file {number}")
        for number in range(len(parts))
    )
    return Announced(MessageHeader(b"H" * 24, 7, b"O" * 24, APPLICATION + bytes(8), definitions), 1)


def events(parts: list[int]) -> list[Event]:
    """A message with an application message and one attachment a number, of so many parts each."""
    found: list[Event] = [header(parts), Unsequenced(APPLICATION, (), 20)]
    for number, count in enumerate(parts):
        found += [PartArrived(correl_id(number), sequence, 100) for sequence in range(1, count + 1)]
        found.append(Unsequenced(correl_id(number), (count, count << 24), 4))
    return found


class Host:
    """The catalog's side of the machine, in memory. With `forgetful` it saves and lets go of everything after each
    event, as a host that was started again does."""

    def __init__(self, *, forgetful: bool = False, limits: AssemblyLimits | None = None) -> None:
        self.machine, self.forgetful = Assembly(limits or AssemblyLimits()), forgetful
        self.attachments: dict[str, AttachmentRecord] = {}
        self.runs: dict[str, list[PartRun]] = {}
        self.messages: dict[str, MessageRecord] = {}
        self.effects: list[Effect] = []

    def feed(self, arrived: Sequence[Event], start: int = 0) -> "Host":
        for position, event in enumerate(arrived, start):
            self.load(event)
            for effect in self.machine.apply(SOURCE, event, position, 1_000 + position):
                self.effects.append(effect)
                if isinstance(effect, ApplicationArrived):
                    assert arrived[effect.position - start] in APPLICATIONS
                    answer = PhysicalMessage(SOURCE, "", body=b"application", format="MQSTR", ccsid=1208, received_at=9)
                    self.machine.set_application(effect.address, answer, effect.position)
            if self.forgetful:
                self.save()
                self.machine.forget_beyond(0)
        self.save()
        return self

    def load(self, event: Event) -> None:
        for key in self.machine.keys(SOURCE, event):
            known = self.attachments.get(attachment_id(*key))
            if known is not None and key not in self.machine.attachments:
                self.machine.attachments[key] = TrackedAttachment(known, Parts(self.runs.get(known.id)))
        address = self.machine.address(SOURCE, event)
        for message in self.messages.values():
            if address == message_address(message) and address not in self.machine.messages:
                self.machine.messages[address] = message

    def save(self) -> None:
        saved: Checkpoint = self.machine.take_changes()
        for removed in saved.removed_attachments:
            self.attachments.pop(removed, None)
            self.runs.pop(removed, None)
        for record in saved.attachments:
            self.attachments[record.id] = record
        for attachment in saved.without_parts:
            self.runs.pop(attachment, None)
        for attachment, runs in saved.part_runs.items():
            self.runs.setdefault(attachment, []).extend(runs)
        for message in saved.messages:
            self.messages[message.id] = message

    def positions(self, number: int) -> list[int]:
        record = self.attachments[attachment_id(SOURCE, correl_id(number))]
        assert record.parts_expected is not None
        return list(Parts(self.runs.get(record.id)).in_order(record.parts_expected))

    def of(self, kind: type[Effect]) -> list[Any]:
        return [effect for effect in self.effects if isinstance(effect, kind)]


def assert_whole(host: Host, arrived: list[Event], parts: list[int]) -> None:
    """Each attachment complete exactly once, with the first arrival of each of its parts, and the message with its
    application message."""
    assert sorted(effect.attachment for effect in host.of(Completed)) == sorted(
        attachment_id(SOURCE, correl_id(number)) for number in range(len(parts))
    )
    assert len(host.attachments) == len(parts)
    for number, count in enumerate(parts):
        first = [arrived.index(PartArrived(correl_id(number), sequence, 100)) for sequence in range(1, count + 1)]
        assert host.positions(number) == first
        record = host.attachments[attachment_id(SOURCE, correl_id(number))]
        assert (record.state, record.parts_received) == (AttachmentState.COMPLETE, count)
        assert (record.qualifier_2, record.ordinal) == (f"file {number}", number)
        assert record.message_id == message_id(SOURCE, b"H" * 24)
    (message,) = host.messages.values()
    assert message.application_body == b"application"
    assert not host.of(Refused)


@pytest.mark.parametrize("forgetful", [False, True])
@pytest.mark.parametrize("parts", [[2], [0], [1, 0]])
def test_every_order_gives_the_same(parts: list[int], forgetful: bool) -> None:
    for arrived in permutations(events(parts)):
        assert_whole(Host(forgetful=forgetful).feed(arrived), list(arrived), parts)


@settings(max_examples=examples(75), deadline=None)
@given(st.data(), st.lists(st.integers(0, 12), min_size=1, max_size=4), st.booleans())
def test_any_order_with_duplicates_gives_the_same(data: st.DataObject, parts: list[int], forgetful: bool) -> None:
    whole = events(parts)
    again = data.draw(st.lists(st.sampled_from(whole), max_size=10))
    arrived = data.draw(st.permutations(whole + again))
    host = Host(forgetful=forgetful).feed(arrived)
    assert_whole(host, arrived, parts)
    assert len(host.of(Repeated)) == len(again)


@settings(max_examples=examples(75), deadline=None)
@given(st.data(), st.lists(st.integers(1, 8), min_size=1, max_size=3), st.booleans())
def test_a_loss_is_a_gap_and_nothing_more(data: st.DataObject, parts: list[int], forgetful: bool) -> None:
    whole = events(parts)
    lost = data.draw(st.sampled_from(whole))
    arrived = data.draw(st.permutations([event for event in whole if event is not lost]))
    host = Host(forgetful=forgetful).feed(arrived)
    unhurt = {number for number in range(len(parts)) if not _concerns(lost, number)}
    assert {effect.attachment for effect in host.of(Completed)} == {attachment_id(SOURCE, correl_id(n)) for n in unhurt}
    if isinstance(lost, PartArrived):
        identifier = attachment_id(SOURCE, lost.correl_id)
        expected = host.attachments[identifier].parts_expected
        assert Parts(host.runs.get(identifier)).missing(expected, 9) == [(lost.sequence, lost.sequence)]
    assert_whole(Host(forgetful=forgetful).feed([*arrived, lost]), [*arrived, lost], parts)


def _concerns(lost: Event, number: int) -> bool:
    return isinstance(lost, Announced) or lost.correl_id == correl_id(number)


def test_what_contradicts_is_refused_and_the_first_one_wins() -> None:
    arrived: list[Event] = [
        *events([2]),
        Unsequenced(correl_id(0), (3,), 4),
        PartArrived(correl_id(0), 3, 100),
        PartArrived(correl_id(0), 0x01020304, 100),
        Announced(replace(header([2]).header, header_correl_id=b"X" * 24), 1),
    ]
    host = Host().feed(arrived)
    assert [effect.code for effect in host.of(Refused)] == [
        "conflicting-count",
        "sequence-beyond-count",
        "sequence-beyond-count",
        "conflicting-header",
    ]
    assert [effect.position for effect in host.of(Refused)] == [5, 6, 7, 8]
    assert len(host.of(Completed)) == 1


@pytest.mark.parametrize("other", [Unsequenced(correl_id(0), (3,), 4), PartArrived(correl_id(0), 3, 100)])
@pytest.mark.parametrize("place", [5, 6])
def test_what_contradicts_is_in_doubt_before_it_is_complete_and_has_a_warning_afterwards(
    other: Event, place: int
) -> None:
    announced, application, first, second, count = events([2])
    arrived = [announced, application, count, first, second]
    host = Host().feed([*arrived[: place - 1], other, *arrived[place - 1 :]])
    (attachment,) = host.attachments.values()
    assert [effect.code for effect in host.of(Refused)] in (["conflicting-count"], ["sequence-beyond-count"])
    assert len(host.of(Completed)) == 1
    is_late = place > len(arrived)
    assert (attachment.evidence, attachment.warnings) == (
        ((), (CONTRADICTED_LATER,)) if is_late else ((CONTRADICTED,), ())
    )
    assert [each.why for each in host.of(Warned)] == [CONTRADICTED_LATER] * is_late


@pytest.mark.parametrize("counts", [(), (2**31 - 1,), (1,)])
def test_a_count_that_cannot_be_is_refused(counts: tuple[int, ...]) -> None:
    arrived: list[Event] = [header([2]), PartArrived(correl_id(0), 1, 9), PartArrived(correl_id(0), 2, 9)]
    host = Host().feed([*arrived, Unsequenced(correl_id(0), counts, 4)])
    assert [effect.code for effect in host.of(Refused)] == ["bad-count"]
    early = Host().feed([Unsequenced(correl_id(0), counts, 4), *arrived])
    first = ("bad-count", 0) if counts != (1,) else ("sequence-beyond-count", 3)
    assert [(effect.code, effect.position) for effect in early.of(Refused)] == [first]


def test_the_header_tells_in_which_byte_order_a_count_is_written() -> None:
    """65,536 big-endian reads as 256 little-endian, and would do for an attachment of which 256 parts have come."""
    counts = (65_536, 256)
    parts: list[Event] = [PartArrived(correl_id(0), sequence, 100) for sequence in range(1, 257)]
    for early in (True, False):
        count: list[Event] = [Unsequenced(correl_id(0), counts, 4)]
        announced: list[Event] = [header([65_536])]
        host = Host().feed([*count, *parts, *announced] if early else [*announced, *parts, *count])
        assert not host.of(Completed)
        assert host.attachments[attachment_id(SOURCE, correl_id(0))].parts_expected == 65_536


def test_a_count_beyond_the_limit_is_not_read_in_the_byte_order_that_the_header_cannot_have() -> None:
    """50,331,648 big-endian reads as 3 little-endian, and would finish an attachment with 3 of its 8 parts."""
    parts: list[Event] = [PartArrived(correl_id(0), sequence, 100) for sequence in range(1, 4)]
    count: list[Event] = [Unsequenced(correl_id(0), (3 << 24, 3), 4)]
    for arrived in ([header([8]), *parts, *count], [*count, *parts, header([8])]):
        host = Host().feed(arrived)
        assert not host.of(Completed)
        assert [effect.code for effect in host.of(Refused)] == ["bad-count"]
    host = Host().feed([header([8])._replace(dialects=0), *parts, *count])
    assert len(host.of(Completed)) == 1, "without a byte order both are possible"


@pytest.mark.parametrize("stray", [1 << 31, 1 << 24])
def test_a_part_numbered_in_the_other_byte_order_than_those_before_is_refused(stray: int) -> None:
    """It would stay among the parts, and no count could be right."""
    parts = events([3])[2:-1]
    count: list[Event] = [Unsequenced(correl_id(0), (3, 3 << 24), 4)]
    host = Host().feed([header([3]), *parts[:2], PartArrived(correl_id(0), stray, 9), parts[2], *count])
    assert [(effect.code, effect.position) for effect in host.of(Refused)] == [("sequence-beyond-count", 3)]
    assert len(host.of(Completed)) == 1


@given(st.data(), st.integers(2, 6), st.sampled_from("><"), st.booleans())
def test_a_stray_changes_nothing_wherever_it_comes(
    data: st.DataObject, count: int, order: Order, forgetful: bool
) -> None:
    """A part whose number is in the other byte order than the rest goes to quarantine; the rest is the attachment."""
    written = partial(number_in, order)
    number = data.draw(st.integers(1, count))
    stray = PartArrived(correl_id(0), number_in(OTHER[order], number), 99)
    announced = header([count])._replace(dialects=with_order(dialect.ALL, order))
    parts: list[Event] = [PartArrived(correl_id(0), written(sequence), 100) for sequence in range(1, count + 1)]
    rest: list[Event] = [
        announced,
        Unsequenced(APPLICATION, (), 20),
        Unsequenced(correl_id(0), (count, count << 24), 4),
    ]
    if order == "<":
        rest[-1] = Unsequenced(correl_id(0), (count << 24, count), 4)
    arrived = data.draw(st.permutations([*rest, *parts, stray]))
    host = Host(forgetful=forgetful).feed(arrived)
    assert [(each.code, each.position) for each in host.of(Refused)] == [
        ("sequence-beyond-count", arrived.index(stray))
    ]
    assert len(host.of(Completed)) == 1
    assert host.positions(0) == [arrived.index(part) for part in parts]
    record = host.attachments[attachment_id(SOURCE, correl_id(0))]
    assert (record.state, record.parts_received) == (AttachmentState.COMPLETE, count)


@pytest.mark.parametrize("order", "><")
def test_missing_parts_are_told_in_the_order_of_most(order: Order) -> None:
    numbers = [number_in(order, number) for number in (1, 2, 256, 300)] + [number_in(OTHER[order], 4)]
    for arrived in (numbers, numbers[::-1]):
        parts = Parts([PartRun(number, 1, at) for at, number in enumerate(arrived)])
        assert parts.missing(None, 10) == [(3, 255), (257, 299)]
        assert parts.majority() == (order, 4)


def test_too_many_attachments_are_refused_whole() -> None:
    host = Host(limits=AssemblyLimits(attachments=2)).feed([header([1, 1, 1])])
    assert [effect.code for effect in host.of(Refused)] == ["too-many-attachments"]
    assert not host.attachments


def test_a_message_of_nothing_but_an_application_message() -> None:
    both: list[Event] = [header([]), Unsequenced(APPLICATION, (), 20)]
    for arrived in permutations(both):
        host = Host().feed(list(arrived))
        (message,) = host.messages.values()
        assert message.application_body == b"application"
        assert message.complete_at is not None
        assert not host.attachments


def test_an_expired_attachment_is_revived_by_a_message() -> None:
    host = Host().feed(events([2])[:3])
    identifier = attachment_id(SOURCE, correl_id(0))
    host.attachments[identifier] = replace(host.attachments[identifier], state=AttachmentState.EXPIRED)
    host.machine = Assembly(AssemblyLimits())
    late: list[Event] = [PartArrived(correl_id(0), 2, 100), Unsequenced(correl_id(0), (2,), 4)]
    for position, event in enumerate(late, 100):
        host.load(event)
        host.effects += host.machine.apply(SOURCE, event, position, 5_000)
    host.save()
    assert host.of(Completed) == [Completed(identifier, 2)]
    assert host.positions(0) == [2, 100]


@pytest.mark.parametrize("state", [AttachmentState.FINISHED, AttachmentState.DELETED])
def test_what_comes_for_a_finished_attachment_is_a_duplicate(state: AttachmentState) -> None:
    host = Host().feed(events([2]))
    identifier = attachment_id(SOURCE, correl_id(0))
    host.attachments[identifier] = replace(host.attachments[identifier], state=state)
    host.runs.clear()
    host.machine, host.effects = Assembly(AssemblyLimits()), []
    host.feed(events([2]), start=100)
    assert not host.of(Completed)
    assert not host.of(Refused)
    assert len(host.of(Repeated)) == 5
    assert host.attachments[identifier].state is state


def test_an_application_message_that_looks_like_a_count_waits_for_its_header() -> None:
    application = Unsequenced(APPLICATION, (3,), 4)
    host = Host()
    arrived: list[Event] = [application, header([1])]
    for position, event in enumerate(arrived):
        host.load(event)
        host.effects += host.machine.apply(SOURCE, event, position, 0)
    assert host.of(ApplicationArrived) == [ApplicationArrived((SOURCE, APPLICATION + bytes(4)), 0)]


def test_a_header_that_lists_a_correlid_twice_is_refused_whole() -> None:
    entry = header([1]).header.attachments[0]
    twice = replace(header([1]).header, attachments=(entry, replace(entry, qualifier_2="another file")))
    host = Host().feed([Announced(twice, 1), Announced(twice, 1)])
    assert [(effect.code, effect.row) for effect in host.of(Refused)] == [("conflicting-header", "attachments[1]")] * 2
    assert not host.attachments
    assert not host.messages


@pytest.mark.parametrize("forgetful", [False, True])
def test_of_two_headers_with_one_message_correlid_none_is_lost(forgetful: bool) -> None:
    first = header([1])
    entry = replace(first.header.attachments[0], correl_id=correl_id(5))
    second = Announced(replace(first.header, header_correl_id=b"X" * 24, attachments=(entry,)), 1)
    host = Host(forgetful=forgetful).feed([first, second, Unsequenced(APPLICATION, (), 20)])
    answered = {message.header_correl_id: message.application_body for message in host.messages.values()}
    assert answered == {b"H" * 24: b"application", b"X" * 24: None}


def test_what_a_message_took_over_may_begin_again_at_once() -> None:
    """An orphan that turned out to be an application message is removed, and parts come under its correlid."""
    parts: list[Event] = [PartArrived(APPLICATION, sequence, 100) for sequence in (1, 2)]
    host = Host()
    arrived: list[Event] = [Unsequenced(APPLICATION, (), 20), header([1]), *parts]
    host.feed(arrived)
    record = host.attachments[attachment_id(SOURCE, APPLICATION)]
    assert record.parts_received == 2


def test_an_older_message_that_is_replayed_makes_an_attachment_older() -> None:
    host = Host().feed([PartArrived(correl_id(0), 2, 100)], start=100)
    host.feed([PartArrived(correl_id(0), 1, 100)], start=7)
    record = host.attachments[attachment_id(SOURCE, correl_id(0))]
    assert (record.first_position, record.last_position) == (7, 100)


def numbered_messages() -> list[Event]:
    """Messages without an attachment, but the first, whose correlids use all 24 bytes."""
    found: list[Event] = []
    for number, correlid in enumerate(NUMBERED):
        entries = header([1]).header.attachments if not number else ()
        said = MessageHeader(bytes([number]) * 24, 7, b"O" * 24, correlid, entries)
        found += [Announced(said, 1), PartArrived(correlid[:16], int.from_bytes(correlid[16:20], "big"), 20)]
    return [*found, PartArrived(correl_id(0), 1, 100), Unsequenced(correl_id(0), (1, 1 << 24), 4)]


@settings(max_examples=examples(80), deadline=None)
@given(st.permutations(numbered_messages()), st.booleans())
def test_application_messages_are_told_from_parts_by_their_headers(arrived: list[Event], forgetful: bool) -> None:
    host = Host(forgetful=forgetful).feed(arrived)
    assert [message.application_body for message in host.messages.values()] == [b"application"] * len(NUMBERED)
    assert sorted(host.attachments) == [attachment_id(SOURCE, correl_id(0))]
    assert not host.of(Refused)
    assert len(host.of(Completed)) == 1
    assert len(host.of(ApplicationArrived)) == len(NUMBERED)


def test_what_no_header_claims_stays_with_the_others() -> None:
    claimed = Announced(MessageHeader(b"H" * 24, 7, b"O" * 24, NUMBERED[1], ()), 1)
    arrived: list[Event] = [*(PartArrived(b"N" * 16, sequence, 20) for sequence in (1, 2, 3)), claimed]
    host = Host(forgetful=True)
    key = attachment_id(SOURCE, b"N" * 16)
    for position, event in enumerate(arrived):
        host.load(event)
        effects = host.machine.apply(SOURCE, event, position, 0)
        if event is claimed:
            identified, application = effects
            assert identified == Identification(key, message_id(SOURCE, b"H" * 24), True)
            assert application == ApplicationArrived((SOURCE, NUMBERED[1][:20]), 1)
        else:
            assert not effects
        host.save()
    assert host.attachments[key].parts_received == 2
    assert [*Parts(host.runs[key])] == [(1, 0), (3, 2)]


def test_an_announced_attachment_keeps_its_parts_from_messages_that_look_alike() -> None:
    entry = replace(header([1]).header.attachments[0], correl_id=b"N" * 16)
    said = Announced(MessageHeader(b"H" * 24, 7, b"O" * 24, NUMBERED[0], (entry,)), 1)
    arrived: list[Event] = [said, PartArrived(b"N" * 16, 1, 100), Unsequenced(b"N" * 16, (1, 1 << 24), 4)]
    for order in permutations(arrived):
        host = Host(forgetful=True).feed(list(order))
        assert len(host.of(Completed)) == 1
        assert not host.of(ApplicationArrived)
