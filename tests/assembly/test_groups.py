"""IBM MQ groups in the assembly machine: every cut, order, duplicate and loss, and what contradicts."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import permutations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.assembly import groups
from app.assembly.collecting import Completed, Refused, Repeated
from app.assembly.groups import GroupPlace
from app.assembly.machine import Assembly, AssemblyLimits
from app.assembly.part_places import Parts
from app.model.attachment import AttachmentDefinition, AttachmentKind, AttachmentState
from app.model.event import GroupPart
from app.model.identity import attachment_id
from tests.assembly.test_machine import SOURCE, Host
from tests.support.length import examples

Sizes = list[list[int]]
"""For each logical message of a group the sizes of its segments; one of a single size is not segmented."""

sizes = st.lists(
    st.one_of(
        st.integers(0, 5).map(lambda size: [size]),
        st.builds(lambda firsts, last: [*firsts, last], st.lists(st.integers(1, 5), max_size=3), st.integers(0, 5)),
    ),
    min_size=1,
    max_size=5,
)


def identifier(number: int) -> bytes:
    return bytes([0x41 + number]) * 24


def part(
    message: int, size: int = 5, *, offset: int = 0, ends: bool = True, last: bool = False, group: int = 0
) -> GroupPart:
    definition = AttachmentDefinition(AttachmentKind.BINARY_FILE, identifier(group), "FILENAME", f"file {group}")
    return GroupPart(definition, message, offset, size, ends_message=ends, ends_group=last)


def whole(given: Sizes, group: int = 0) -> list[GroupPart]:
    """All parts of a group, in order."""
    found: list[GroupPart] = []
    for message, segments in enumerate(given, 1):
        offset = 0
        for place, size in enumerate(segments, 1):
            ends, last = place == len(segments), message == len(given)
            found.append(part(message, size, offset=offset, ends=ends, last=last, group=group))
            offset += size
    return found


def attachment(group: int = 0) -> str:
    return attachment_id(SOURCE, identifier(group))


def places(host: Host, group: int = 0) -> list[int]:
    """The positions of a complete group's parts, in order."""
    return [position for _, position in groups.in_order(Parts(host.runs.get(attachment(group))))]


def missing(host: Host, arrived: Sequence[GroupPart], group: int = 0) -> set[int]:
    """The MsgSeqNumbers that a host lacks, positions being those in `arrived`."""
    record = host.attachments.get(attachment(group))
    if record is None or record.group is None:
        return set()
    parts = Parts(host.runs.get(record.id))
    ranges = groups.missing(parts, record.group.last, lambda positions: [arrived[at].size for at in positions], 100)
    return {number for first, last in ranges for number in range(first, last + 1)}


def really_missing(arrived: Iterable[GroupPart], everything: Sequence[GroupPart], group: int) -> set[int]:
    """What `missing` must say, found out slowly."""
    here = {each for each in arrived if each.correl_id == identifier(group)}
    known = {each.message for each in here}
    if any(each.ends_group for each in here):
        known = {each.message for each in everything if each.correl_id == identifier(group)}
    incomplete = {each.message for each in everything if each.correl_id == identifier(group) and each not in here}
    return incomplete & set(range(1, max(known, default=0) + 1))


@settings(max_examples=examples(80), deadline=None)
@given(st.data(), st.lists(sizes, min_size=1, max_size=3), st.booleans())
def test_any_cut_in_any_order_with_duplicates_gives_the_same(
    data: st.DataObject, cuts: list[Sizes], forgetful: bool
) -> None:
    everything = [each for number, cut in enumerate(cuts) for each in whole(cut, number)]
    again = data.draw(st.lists(st.sampled_from(everything), max_size=6))
    arrived = data.draw(st.permutations(everything + again))
    host = Host(forgetful=forgetful)
    for position, event in enumerate(arrived):
        host.feed([event], position)
        for number in range(len(cuts)):
            if host.attachments.get(attachment(number)) is not None:
                assert missing(host, arrived, number) == really_missing(arrived[: position + 1], everything, number)
        theirs = [each for each in arrived[: position + 1] if each.correl_id == event.correl_id]
        is_whole = set(theirs) == set(whole(cuts[event.correl_id[0] - 0x41], event.correl_id[0] - 0x41))
        state = host.attachments[attachment(event.correl_id[0] - 0x41)].state
        assert state is (AttachmentState.COMPLETE if is_whole else AttachmentState.RECEIVING)
    assert not host.of(Refused)
    assert len(host.of(Repeated)) == len(again)
    assert sorted(effect.attachment for effect in host.of(Completed)) == sorted(
        attachment(number) for number in range(len(cuts))
    )
    for number, cut in enumerate(cuts):
        ordered = whole(cut, number)
        assert places(host, number) == [arrived.index(each) for each in ordered]
        record = host.attachments[attachment(number)]
        assert (record.parts_received, record.parts_expected) == (len(ordered), len(ordered))
        assert record.bytes_received == sum(each.size for each in ordered)
        assert (record.kind, record.qualifier_2) == (AttachmentKind.BINARY_FILE, f"file {number}")
        keys = [key for key, _ in groups.in_order(Parts(host.runs[record.id]))]
        assert groups.misfit(keys, [each.size for each in ordered]) is None


def test_every_order_of_a_small_group() -> None:
    for arrived in permutations(whole([[3], [2, 2, 0], [0]])):
        host = Host(forgetful=True).feed(arrived)
        assert host.of(Completed) == [Completed(attachment(), 5)]


@given(sizes, st.booleans())
def test_a_replay_from_an_earlier_position_changes_nothing(cut: Sizes, forgetful: bool) -> None:
    arrived = whole(cut)
    host = Host(forgetful=forgetful).feed(arrived[: len(arrived) // 2]).feed(arrived)
    assert host.of(Completed) == [Completed(attachment(), len(arrived))]
    assert not host.of(Repeated)
    before = host.attachments[attachment()]
    assert host.feed(arrived).attachments[attachment()] == before
    assert len(host.of(Completed)) == 1


A_THIRD, A_SECOND = part(3, last=True), part(2)
FIRST, SECOND, LAST = part(1, 4, ends=False), part(1, 4, offset=4, ends=False), part(1, 4, offset=8, last=True)


@pytest.mark.parametrize(
    ("before", "event", "code", "row"),
    [
        ([A_THIRD], part(4), "sequence-beyond-last", "msg_seq_number"),
        ([A_THIRD], part(4, ends=False), "sequence-beyond-last", "msg_seq_number"),
        ([A_THIRD], part(4, last=True), "conflicting-last", "msg_flags"),
        ([A_THIRD], part(2, last=True), "conflicting-last", "msg_flags"),
        ([part(4)], A_THIRD, "conflicting-last", "msg_flags"),
        ([part(4, ends=False)], A_THIRD, "conflicting-last", "msg_flags"),
        ([A_SECOND], part(2, last=True), "conflicting-last", "msg_flags"),
        ([A_SECOND], part(2, ends=False), "conflicting-segment", "msg_flags"),
        ([A_SECOND], part(2, offset=3), "conflicting-segment", "msg_flags"),
        ([part(2, ends=False)], A_SECOND, "conflicting-segment", "msg_flags"),
        ([part(2, offset=3)], A_SECOND, "conflicting-segment", "msg_flags"),
        ([LAST], part(1, 4, offset=12, ends=False), "conflicting-segment", "offset"),
        ([LAST], part(1, 4, offset=8, ends=False), "conflicting-segment", "offset"),
        ([LAST], part(1, 4, offset=12), "conflicting-segment", "offset"),
        ([LAST], part(1, 4, offset=4), "conflicting-segment", "offset"),
        ([SECOND], part(1, 4, offset=4), "conflicting-segment", "offset"),
        ([SECOND], part(1, 4, offset=2), "conflicting-segment", "offset"),
        ([FIRST, SECOND, LAST], part(1, 4, offset=2, ends=False), "conflicting-segment", "offset"),
        ([], part(1_000_001), "too-many-parts", "msg_seq_number"),
    ],
)
def test_what_contradicts_is_refused_and_the_first_one_wins(
    before: list[GroupPart], event: GroupPart, code: str, row: str
) -> None:
    host = Host(forgetful=True).feed(before)
    known = dict(host.attachments)
    host.feed([event], len(before))
    assert [(effect.code, effect.row, effect.position) for effect in host.of(Refused)] == [(code, row, len(before))]
    assert all(effect.why for effect in host.of(Refused))
    for record in known.values():
        kept = host.attachments[record.id]
        assert (kept.group, kept.parts_received, kept.bytes_received) == (
            record.group,
            record.parts_received,
            record.bytes_received,
        )


def test_a_neighbour_contradicts_nothing() -> None:
    arrived = [LAST._replace(message=2, ends_group=False), part(1, ends=False), part(3, ends=False), part(1, offset=5)]
    assert not Host().feed(arrived).of(Refused)


def test_more_parts_than_are_taken_are_refused() -> None:
    arrived = [part(1, 1, offset=offset, ends=False) for offset in range(4)]
    host = Host(limits=AssemblyLimits(parts=3)).feed(arrived)
    assert [(effect.code, effect.position) for effect in host.of(Refused)] == [("too-many-parts", 3)]


@pytest.mark.parametrize(
    ("arrived", "why"),
    [
        ([part(1, 6, ends=False), LAST], "message 1 has a part at offset 8, but byte 6 of message 1 is expected"),
        ([FIRST, part(1, 8, offset=2, ends=False), LAST], "message 1 has a part at offset 2, but byte 4 of"),
        ([FIRST, SECOND, part(1, 9, offset=6, ends=False), LAST], "message 1 has a part at offset 6, but byte 8 of"),
    ],
)
def test_bytes_that_do_not_lie_side_by_side_are_told(arrived: list[GroupPart], why: str) -> None:
    host = Host().feed(arrived)
    keys, positions = zip(*groups.in_order(Parts(host.runs[attachment()])), strict=True)
    told = groups.misfit(keys, [arrived[at].size for at in positions])
    assert told is not None
    assert told.startswith(why)
    assert bool(host.of(Completed)) == (sum(each.size for each in arrived) >= 12)


anything = st.builds(
    part, st.integers(1, 4), st.integers(1, 4), offset=st.integers(0, 6), ends=st.booleans(), last=st.booleans()
)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(anything, max_size=30), st.booleans())
def test_whatever_comes_what_is_kept_is_free_of_contradictions(arrived: list[GroupPart], are_pieces: bool) -> None:
    if are_pieces:
        arrived = [each._replace(units=each.size) for each in arrived]
    host, forgetful = Host().feed(arrived), Host(forgetful=True).feed(arrived)
    assert host.effects == forgetful.effects
    assert host.attachments == forgetful.attachments
    if not arrived:
        return
    record = host.attachments[attachment()]
    assert record.group is not None
    kept = {GroupPlace.of(key): arrived[at] for key, at in Parts(host.runs[record.id])}
    assert all((each.message, each.offset, each.ends_message, each.units) == place for place, each in kept.items())
    assert record.bytes_received == sum(each.size for each in kept.values())
    assert len({place[:2] for place in kept}) == len(kept)
    ends = {place.message: place.offset + each.size for place, each in kept.items() if place.is_last}
    assert (record.group.ended, record.group.size) == (len(ends), sum(ends.values()))
    assert len(ends) == sum(place.is_last for place in kept)
    assert all(place.message <= (record.group.last or 4) for place in kept)
    assert len(host.of(Completed)) == (record.state is AttachmentState.COMPLETE) <= (len(ends) == record.group.last)


def test_the_first_part_of_all_tells_what_the_file_is() -> None:
    text = part(1)
    definition = replace(text.definition, kind=AttachmentKind.TEXT_FILE, qualifier_2="a.txt")
    others = [part(2), part(3, last=True)]
    for arrived in permutations([text._replace(definition=definition), *others]):
        record = Host(forgetful=True).feed(arrived).attachments[attachment()]
        assert (record.kind, record.qualifier_2) == (AttachmentKind.TEXT_FILE, "a.txt")


def test_an_expired_group_is_revived_by_a_part() -> None:
    host = Host().feed([part(1)])
    host.attachments[attachment()] = replace(host.attachments[attachment()], state=AttachmentState.EXPIRED)
    host.machine = Assembly(AssemblyLimits())
    host.feed([part(2, last=True)], 7)
    assert host.of(Completed) == [Completed(attachment(), 2)]
    assert places(host) == [0, 7]


@pytest.mark.parametrize("state", [AttachmentState.FINISHED, AttachmentState.DELETED])
def test_what_comes_for_a_finished_group_is_a_duplicate(state: AttachmentState) -> None:
    host = Host().feed(whole([[1], [2, 2]]))
    host.attachments[attachment()] = replace(host.attachments[attachment()], state=state)
    host.runs.clear()
    host.machine, host.effects = Assembly(AssemblyLimits()), []
    host.feed([*whole([[1], [2, 2]]), part(9)], 100)
    assert len(host.of(Repeated)) == len(host.effects) == 4
    assert host.attachments[attachment()].state is state


@given(st.integers(1, 10**9 - 1), st.integers(0, 10**9 - 1), st.booleans())
def test_a_key_says_its_place(message: int, offset: int, is_last: bool) -> None:
    place = GroupPlace(message, offset, is_last)
    assert GroupPlace.of(place.key) == place
    assert 0 < place.key < 1 << 62


def test_a_group_sent_alone_costs_one_run() -> None:
    host = Host().feed(whole([[5]] * 1000))
    assert len(host.runs[attachment()]) == 1


def test_places_of_pieces_come_back_from_their_keys() -> None:
    random = Random(3)
    for _ in range(2000):
        place = GroupPlace(
            random.randrange(1, 4), random.randrange(1 << 31), random.random() < 0.5, random.randrange(1 << 18)
        )
        assert GroupPlace.of(place.key) == place
        assert groups.PIECES_FROM <= place.first <= place.key < place.behind <= place.following


def test_a_piece_from_a_place_that_is_taken_is_refused() -> None:
    one = part(1, offset=0, ends=False)._replace(units=5)
    host = Host().feed([one, one._replace(units=4)])
    (refused,) = host.of(Refused)
    assert refused.code == "conflicting-segment"


def test_offsets_may_count_other_things_than_bytes() -> None:
    described = part(1)._replace(units=0, ends_group=False)
    rows = [part(2, offset=offset, ends=offset == 6, last=True)._replace(units=3, size=100) for offset in (0, 3, 6)]
    for arrived in permutations([described, *rows]):
        host = Host().feed(arrived)
        record = host.attachments[attachment()]
        assert record.state is AttachmentState.COMPLETE
        assert record.bytes_received == 300 + described.size
        keys, positions = zip(*groups.in_order(Parts(host.runs[record.id])), strict=True)
        assert groups.misfit(keys, [0] * len(keys)) is None
        assert [arrived[at].offset for at in positions] == [0, 0, 3, 6]
