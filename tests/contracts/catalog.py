"""What every catalog promises."""

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import count
from struct import iter_unpack
from threading import Barrier, Event
from typing import Any, TypeVar, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.assembly.states import DECISIONS, TRANSITIONS, Input, follow
from app.model.access import ApiKey, Scope
from app.model.attachment import AttachmentKind, AttachmentState, DeliveryState
from app.model.errors import GatewayError
from app.model.message import Position
from app.model.pipeline import PipelineRun, RunKind, RunState
from app.model.records import (
    AttachmentRecord,
    Checkpoint,
    DeliveryRecord,
    EventRecord,
    Extent,
    Finished,
    FramingOptions,
    GroupProgress,
    JournalIdentity,
    Kept,
    MessageRecord,
    NewEvent,
    OutgoingAttachment,
    PartRun,
    QuarantineCopy,
    QuarantineRecord,
    ReceivingMark,
    RefusedContent,
    StoredObject,
)
from app.model.webhooks import DeadLetter, WebhookRecord, WebhookState
from app.ports import AttachmentFilter, BadCursor, Catalog, IdempotencyConflict, Identified, Page, Sort

T = TypeVar("T")
State = AttachmentState

HAPPENED = NewEvent("attachment.finished", "a", 5, {"name": "Grüße\0.txt", "size": 3, "parts": [1, None]})


def attachment(number: int, state: State = State.RECEIVING, **changes: Any) -> AttachmentRecord:
    record = AttachmentRecord(id=f"a{number}", source="quay", correl_id=number.to_bytes(16, "big"), state=state)
    return replace(record, **{"first_received_at": number, "last_received_at": number} | changes)


def message(number: int, *attachments: str, **changes: Any) -> MessageRecord:
    record = MessageRecord(
        id=f"m{number}",
        source="quay",
        header_correl_id=number.to_bytes(24, "big"),
        message_correl_id=bytes(24),
        original_msg_type=8,
        original_correl_id=b"\xff" * 24,
        attachments=attachments,
        header_position=number,
        received_at=number,
    )
    return replace(record, **changes)


def spoilt(number: int, **changes: Any) -> QuarantineRecord:
    position = Position(number, 0, 0).pack()
    record = QuarantineRecord(f"q{number}", "quay", position, "cut", "count", 4, "too short", 8, bytes(24), 7, number)
    return replace(record, **changes)


def delivery(number: int, **changes: Any) -> DeliveryRecord:
    content = OutgoingAttachment(
        number.to_bytes(16, "big"),
        AttachmentKind.TEXT_FILE,
        "FILENAME",
        "a.txt",
        "",
        0,
        0,
        f"outgoing/{number}",
        3,
        "5e",
    )
    record = DeliveryRecord(
        f"d{number}", "pier", bytes(24), bytes(24), (content,), created_at=number, updated_at=number
    )
    return replace(record, **changes)


SETTLED = StoredObject("attachments/a1", b"sums")


def finished(number: int, **changes: Any) -> Finished:
    return replace(Finished(f"a{number}", 3, "5e", "text/plain", "store", 50, f"attachments/a{number}"), **changes)


def keep(catalog: Catalog, *records: AttachmentRecord) -> None:
    catalog.checkpoint(Checkpoint(attachments=list(records)))


def known(catalog: Catalog, number: int) -> AttachmentRecord:
    record = catalog.attachment(f"a{number}")
    assert record is not None
    return record


def everything(catalog: Catalog, identifier: str) -> tuple[object, ...]:
    """What each search by an identifier finds."""
    found = (catalog.attachment(identifier), catalog.message(identifier), catalog.quarantine_entry(identifier))
    return (*found, catalog.delivery(identifier))


def pages(listing: Callable[[str | None], Page[T]]) -> Iterator[list[T]]:
    page = listing(None)
    yield page.items
    while page.next is not None:
        page = listing(page.next)
        yield page.items


def all_of(listing: Callable[[str | None], Page[T]]) -> list[T]:
    return [item for items in pages(listing) for item in items]


numbers = st.integers(-(1 << 63), (1 << 63) - 1)
texts = st.text(st.characters()) | st.text("\0\x1a0af\ud800")  # the latter: what databases refuse, or escapes
serial = count()

# One catalog takes all the examples, whose identifiers are new, and each database's tests inherit the property.
ON_PURPOSE = [HealthCheck.function_scoped_fixture, HealthCheck.differing_executors]


outgoing = st.builds(
    OutgoingAttachment,
    correl_id=st.binary(max_size=16),
    kind=st.sampled_from(AttachmentKind),
    qualifier_1=texts,
    qualifier_2=texts,
    description=texts,
    minor_version=numbers,
    major_version=numbers,
    object_name=texts,
    size=numbers,
    sha256=texts,
)


def dead_letter(number: int, webhook: str = "one") -> DeadLetter:
    event = EventRecord(number, HAPPENED.type, HAPPENED.subject, number, HAPPENED.data)
    return DeadLetter(webhook, event, 100 + number, "it was away")


class CatalogContract:
    """Inherited by an adapter's tests, which give the fixture `catalog`: an empty one."""

    # --- checkpoints ----------------------------------------------------------------------------------------------

    def test_begins_empty(self, catalog: Catalog) -> None:
        assert catalog.progress() is None
        assert catalog.source_dialects() == {}
        assert catalog.attachments_by_key("quay", [bytes(16)]) == {}
        assert catalog.messages_by_correl_id("quay", []) == {}
        assert catalog.part_runs("a1") == []
        assert catalog.extents("a1") == ()
        assert catalog.complete_attachments() == []
        assert catalog.needed_segments() == set()
        assert {*everything(catalog, "a1"), *everything(catalog, "k")} == {None}
        assert catalog.attachments(AttachmentFilter(), None, 10) == ([], None)
        assert catalog.last_event() == 0
        assert {n for counted in catalog.counts().values() for n in counted.values()} == {0}

    def test_tallies_are_by_source_and_destination(self, catalog: Catalog) -> None:
        assert catalog.tallies([5]) == ({}, {}, {}, {})
        states = [State.RECEIVING] * 3 + [State.FINISHED] * 2 + [State.EXPIRED]
        records = [attachment(number, state) for number, state in enumerate(states)]
        other = attachment(9, State.FINISHED, source="pier")
        catalog.checkpoint(Checkpoint(attachments=[*records, other]))
        found = catalog.tallies([1, 0])
        quay = {State.RECEIVING: 3, State.FINISHED: 2, State.EXPIRED: 1}
        assert {source: {s: n for s, n in counted.items() if n} for source, counted in found.attachments.items()} == {
            "quay": quay,
            "pier": {State.FINISHED: 1},
        }
        assert found.waiting == {"quay": [1, 1, 1]}

    def test_identifiers_are_found_by_their_first_digits(self, catalog: Catalog) -> None:
        ids = [f"9f2c{digits}{'0' * 22}" for digits in ("000000", "0abcde", "ffffff")]
        others = ["9f2b" + "f" * 28, "9f2d" + "0" * 28]
        for number, identifier in enumerate([*ids, *others], 1):
            keep(catalog, attachment(number, id=identifier))
            catalog.checkpoint(Checkpoint(messages=[message(number, id=identifier)]))
            catalog.add_delivery(delivery(number, id=identifier), [])
        for of in get_args(Identified):
            assert catalog.identifiers(of, "9f2c", 10) == ids
            assert catalog.identifiers(of, "9f2c", 2) == ids[:2]
            assert catalog.identifiers(of, "9f2cf", 10) == ids[2:]
            assert catalog.identifiers(of, ids[1], 10) == [ids[1]]
            assert catalog.identifiers(of, "0000", 10) == []

    def test_listings_are_limited_to_sources_and_destinations(self, catalog: Catalog) -> None:
        names = ["crane", "quay", "dock", "quay"]
        for number, name in enumerate(names, 1):
            keep(catalog, attachment(number, source=name))
            catalog.checkpoint(
                Checkpoint(messages=[message(number, source=name)], quarantine=[spoilt(number, source=name)])
            )
            catalog.add_delivery(delivery(number, destination=name), [])
        limits: tuple[set[str], ...] = ({"quay"}, {"crane", "dock"}, {"quay", "\0"}, set())
        for within in limits:
            expected = [number for number in (4, 3, 2, 1) if names[number - 1] in within]
            listings: list[tuple[str, Callable[[str | None], Page[Any]]]] = [
                ("a", lambda cursor, w=within: catalog.attachments(AttachmentFilter(within=w), cursor, 1)),  # type: ignore[misc]
                ("m", lambda cursor, w=within: catalog.messages(None, cursor, 1, w)),  # type: ignore[misc]
                ("q", lambda cursor, w=within: catalog.quarantined(None, None, cursor, 1, w)),  # type: ignore[misc]
                ("d", lambda cursor, w=within: catalog.deliveries(None, None, cursor, 1, w)),  # type: ignore[misc]
            ]
            for letter, listing in listings:
                assert [item.id for item in all_of(listing)] == [f"{letter}{number}" for number in expected]
            assert catalog.messages("quay", None, 9, {"crane"}).items == []
            for of, letter in zip(get_args(Identified), "amd", strict=True):
                found = catalog.identifiers(of, letter, 9, within)
                assert found == sorted(f"{letter}{number}" for number in expected)

    def test_keys_are_kept_until_they_are_revoked_and_after(self, catalog: Catalog) -> None:
        assert catalog.api_keys() == []
        first = ApiKey("k1", "billing", b"\x00" * 32, frozenset({Scope.READ}), 5)
        limited = ApiKey("k2", "Grüße\0", b"\xff" * 32, frozenset(Scope), 6, frozenset({"quay"}), frozenset(), 99)
        catalog.add_key(limited)
        catalog.add_key(first)
        assert catalog.api_keys() == [first, limited]
        for taken in (replace(first, name="other"), replace(first, id="k3")):
            with pytest.raises(ValueError, match="already"):
                catalog.add_key(taken)
        assert [catalog.revoke_key("k1", 7), catalog.revoke_key("k1", 8), catalog.revoke_key("k9", 8)] == [
            True,
            False,
            False,
        ]
        again = replace(first, id="k3", created_at=8)
        catalog.add_key(again)
        assert catalog.api_keys() == [replace(first, revoked_at=7), limited, again]

    def test_the_last_use_of_keys_never_goes_back(self, catalog: Catalog) -> None:
        made = [ApiKey(f"k{n}", f"name {n}", b"", frozenset(), n) for n in range(3)]
        for key in made:
            catalog.add_key(key)
        for times in ({"k0": 5, "k1": 9, "gone": 1}, {"k0": 7, "k1": 8}, {}):
            catalog.keys_used(times)
        assert [key.last_used_at for key in catalog.api_keys()] == [7, 9, None]

    def test_belongs_to_the_journal_it_is_bound_to(self, catalog: Catalog) -> None:
        assert catalog.journal_identity() is None
        for epoch in (3, 3, 4):
            catalog.bind(JournalIdentity("a" * 32, epoch))
            assert catalog.journal_identity() == JournalIdentity("a" * 32, epoch)
            catalog.checkpoint(Checkpoint(progress=epoch))
        with pytest.raises(GatewayError, match="older copy"):
            catalog.bind(JournalIdentity("a" * 32, 3))
        assert catalog.journal_identity() == JournalIdentity("a" * 32, 4)
        catalog.bind(JournalIdentity("b" * 32, 1))
        assert catalog.journal_identity() == JournalIdentity("b" * 32, 1)

    def test_a_checkpoint_is_there_whole(self, catalog: Catalog) -> None:
        catalog.checkpoint(
            Checkpoint(
                progress=77,
                attachments=[attachment(1), attachment(2)],
                part_runs={"a1": [PartRun(1, 3, 10), PartRun(9, 1, 1 << 62)], "a2": []},
                messages=[message(1, "a1", "a2")],
                quarantine=[spoilt(1)],
                source_dialects={"quay": (1 << 64) - 1, "crane": 0},
                events=[HAPPENED, HAPPENED],
            )
        )
        assert catalog.progress() == 77
        assert known(catalog, 1) == attachment(1)
        assert catalog.part_runs("a1") == [PartRun(1, 3, 10), PartRun(9, 1, 1 << 62)]
        assert catalog.part_runs("a2") == []
        assert catalog.message("m1") == message(1, "a1", "a2")
        assert catalog.quarantine_entry("q1") == spoilt(1)
        assert catalog.source_dialects() == {"quay": (1 << 64) - 1, "crane": 0}
        assert [event[1:] for event in catalog.events_after(0, 10)] == [HAPPENED, HAPPENED]

    def test_a_checkpoint_that_fails_leaves_nothing(self, catalog: Catalog) -> None:
        keep(catalog, attachment(1))
        catalog.checkpoint(Checkpoint(progress=5, part_runs={"a1": [PartRun(1, 1, 1)]}))
        no_json = NewEvent("attachment.finished", "a1", 1, {"value": object()})
        whole = Checkpoint(
            progress=6,
            attachments=[attachment(1, parts_received=9), attachment(2)],
            part_runs={"a1": [PartRun(2, 1, 2)]},
            messages=[message(1)],
            quarantine=[spoilt(1)],
            source_dialects={"quay": 1},
            events=[HAPPENED, no_json],
        )
        with pytest.raises(Exception, match="JSON"):
            catalog.checkpoint(whole)
        assert catalog.progress() == 5
        assert known(catalog, 1) == attachment(1)
        assert (catalog.attachment("a2"), catalog.message("m1"), catalog.quarantine_entry("q1")) == (None, None, None)
        assert catalog.part_runs("a1") == [PartRun(1, 1, 1)]
        assert catalog.source_dialects() == {}
        assert catalog.last_event() == 0
        catalog.checkpoint(replace(whole, events=[HAPPENED]))
        assert catalog.progress() == 6

    def test_progress_is_set_back_only_when_it_is_said(self, catalog: Catalog) -> None:
        catalog.checkpoint(Checkpoint(progress=9))
        catalog.set_progress(4)
        assert catalog.progress() == 4
        catalog.set_progress(None)
        assert catalog.progress() is None
        catalog.checkpoint(Checkpoint(progress=2))
        catalog.flush()
        assert catalog.progress() == 2

    def test_rows_are_found_by_their_identifiers(self, catalog: Catalog) -> None:
        many = [attachment(number) for number in range(1, 1500)]
        catalog.checkpoint(Checkpoint(attachments=many, messages=[message(1, "a1"), message(2)]))
        found = catalog.attachments_by_id([*(each.id for each in many), "nobody"])
        assert sorted(found, key=lambda each: each.first_received_at) == many
        assert {each.id for each in catalog.messages_by_id(["m1", "m2", "m3"])} == {"m1", "m2"}
        assert catalog.attachments_by_id([]) == []

    def test_progress_never_goes_back(self, catalog: Catalog) -> None:
        for progress in (10, None, 9, 10):
            catalog.checkpoint(Checkpoint(progress=progress))
            assert catalog.progress() == 10
        catalog.checkpoint(Checkpoint(progress=11))
        assert catalog.progress() == 11

    def test_how_far_a_group_has_come_is_kept(self, catalog: Catalog) -> None:
        for progress in (GroupProgress(), GroupProgress(None, 2, 1 << 40), GroupProgress(3, 3, 0)):
            keep(catalog, attachment(1, correl_id=b"G" * 24, group=progress))
            assert known(catalog, 1).group == progress
            assert catalog.attachments_by_key("quay", [b"G" * 24])[b"G" * 24].group == progress
        keep(catalog, attachment(2))
        assert known(catalog, 2).group is None

    def test_a_group_that_is_closed_learns_no_more_than_counts(self, catalog: Catalog) -> None:
        keep(catalog, attachment(1, State.COMPLETE, group=GroupProgress(2, 2, 9)))
        assert catalog.finish([finished(1)], [])
        keep(catalog, attachment(1, duplicates=4, group=GroupProgress(2, 2, 9)))
        assert (known(catalog, 1).state, known(catalog, 1).group) == (State.FINISHED, GroupProgress(2, 2, 9))

    def test_part_runs_add_up_in_order(self, catalog: Catalog) -> None:
        keep(catalog, attachment(1), attachment(2))
        said = [[PartRun(9, 1, 4)], [PartRun(1, 2, 5), PartRun(4, 1, 7)], [PartRun(3, 1, 8)]]
        for runs in said:
            catalog.checkpoint(Checkpoint(part_runs={"a2": [PartRun(1, 1, 0)], "a1": runs}))
        assert catalog.part_runs("a1") == [run for runs in said for run in runs]

    def test_part_runs_are_there_packed_too(self, catalog: Catalog) -> None:
        for number in range(3):
            runs = {"a1": [PartRun(number + 1, 1, number << 32), PartRun(number + 10, 2, number << 32 | 7)]}
            catalog.checkpoint(Checkpoint(attachments=[attachment(1)], part_runs=runs))
        packed = catalog.packed_part_runs("a1")
        assert [PartRun(*each) for each in iter_unpack("<3q", packed)] == catalog.part_runs("a1")
        assert catalog.packed_part_runs("a2") == b""

    def test_quarantine_of_a_time_is_found(self, catalog: Catalog) -> None:
        entries = [spoilt(number) for number in range(6)]
        other = spoilt(3, id="other", source="pier")
        catalog.checkpoint(Checkpoint(quarantine=[*entries, other]))
        assert [each.id for each in catalog.quarantine_between("quay", 2, 4, 9)] == ["q2", "q3", "q4"]
        assert [each.id for each in catalog.quarantine_between("quay", 2, 4, 1)] == ["q2"]

    def test_events_about_something_are_found(self, catalog: Catalog) -> None:
        about = [HAPPENED._replace(time=time, subject=subject) for time in range(4) for subject in "ab"]
        catalog.add_events(about)
        assert [(event.subject, event.time) for event in catalog.events_about("b", 2)] == [("b", 2), ("b", 3)]

    def test_a_removed_attachment_may_begin_anew_at_once(self, catalog: Catalog) -> None:
        catalog.checkpoint(Checkpoint(attachments=[attachment(1)], part_runs={"a1": [PartRun(1, 3, 10)]}))
        anew = attachment(1, first_received_at=99, last_received_at=99)
        runs = {"a1": [PartRun(2, 1, 20)]}
        catalog.checkpoint(Checkpoint(removed_attachments=["a1"], attachments=[anew], part_runs=runs))
        found = catalog.attachment("a1")
        assert found is not None
        assert (found.first_received_at, catalog.part_runs("a1")) == (99, runs["a1"])

    def test_removed_attachments_are_gone_with_their_parts(self, catalog: Catalog) -> None:
        keep(catalog, attachment(1), attachment(2))
        catalog.checkpoint(Checkpoint(part_runs={"a1": [PartRun(1, 1, 1)], "a2": [PartRun(1, 1, 2)]}))
        catalog.checkpoint(Checkpoint(removed_attachments=["a1", "a3"]))
        assert catalog.attachment("a1") is None
        assert catalog.part_runs("a1") == []
        assert catalog.part_runs("a2") == [PartRun(1, 1, 2)]

    @pytest.mark.parametrize("said", [State.RECEIVING, State.COMPLETE])
    @pytest.mark.parametrize("decided", [State.FINISHED, State.QUARANTINED, State.DELETED])
    def test_a_checkpoint_opens_nothing_that_is_closed(self, catalog: Catalog, decided: State, said: State) -> None:
        keep(catalog, attachment(1, State.COMPLETE, dialects=3))
        if decided is State.FINISHED:
            assert catalog.finish([finished(1, dialects=1, observations=4, variables=2)], [])
        else:
            catalog.set_state(["a1"], decided, reason_code="word", reason="why")
        before = known(catalog, 1)
        assert before.state is decided
        counted: dict[str, Any] = {"parts_received": 4, "bytes_received": 99, "duplicates": 2, "last_received_at": 8}
        keep(catalog, attachment(1, said, dialects=2, size=9, object_name="other", finished_at=1, **counted))
        assert known(catalog, 1) == replace(before, **counted)

    @pytest.mark.parametrize("decided", [State.FINISHED, State.QUARANTINED, State.DELETED])
    def test_who_has_forgotten_a_closed_attachment_spoils_nothing_of_it(self, catalog: Catalog, decided: State) -> None:
        first, last = Position(7, 0, 1).pack(), Position(9, 0, 0).pack()
        whole = attachment(
            1,
            State.COMPLETE,
            message_id="m1",
            ordinal=2,
            kind=AttachmentKind.TEXT_FILE,
            qualifier_1="FILENAME",
            qualifier_2="a.txt",
            description="text",
            parts_expected=3,
            parts_received=3,
            bytes_received=90,
            duplicates=1,
            group=GroupProgress(2, 2, 9),
            first_position=first,
            last_position=last,
            last_received_at=70,
            completed_at=70,
        )
        keep(catalog, whole)
        if decided is State.FINISHED:
            assert catalog.finish([finished(1)], [])
        else:
            catalog.set_state(["a1"], decided)
        before = known(catalog, 1)
        late = Position(12, 0, 0).pack()
        keep(
            catalog,
            attachment(
                1,
                parts_received=1,
                bytes_received=30,
                pending_counts=(9,),
                pending_position=late,
                first_position=late,
                last_position=late,
                last_received_at=80,
            ),
        )
        assert known(catalog, 1) == replace(before, last_position=late, last_received_at=80)
        earlier = Position(8, 0, 0).pack()
        keep(catalog, attachment(1, duplicates=5, first_position=earlier, last_position=earlier, last_received_at=60))
        counted = replace(before, duplicates=5, last_position=late, last_received_at=80)
        assert known(catalog, 1) == counted

    # --- checkpoints that close -----------------------------------------------------------------------------------

    def test_a_checkpoint_finishes_and_refuses_what_it_completes(self, catalog: Catalog) -> None:
        keep(catalog, attachment(1), attachment(2, State.COMPLETE))
        catalog.checkpoint(Checkpoint(part_runs={"a1": [PartRun(1, 1, 1)], "a2": [PartRun(1, 1, 2)]}))
        keep(catalog, attachment(4))
        catalog.set_state(["a4"], State.EXPIRED, reason_code="expired", reason="silence")
        extents = (Extent(1, 2, 3), Extent(1, 9, 1 << 40))
        complete = [
            attachment(number, State.COMPLETE, dialects=6, parts_received=number, message_id="m1")
            for number in (1, 3, 4, 5)
        ]
        missed = catalog.checkpoint(
            Checkpoint(
                progress=9,
                attachments=complete,
                part_runs={f"a{number}": [PartRun(2, 1, 3)] for number in (1, 3, 4, 5)},
                messages=[message(1, "a1")],
                events=[HAPPENED._replace(subject=f"a{number}") for number in range(1, 6)],
                finished=[
                    finished(1, dialects=2, observations=4, variables=2),
                    finished(2),
                    finished(3, storage="journal", object_name=None, extents=extents),
                ],
                refused=[RefusedContent("a4", "bad-\0content", "why"), RefusedContent("a5", "bad-content", "too")],
            )
        )
        assert missed == set()
        outcome: dict[str, Any] = {"size": 3, "sha256": "5e", "content_type": "text/plain", "finished_at": 50}
        stored = outcome | {"storage": "store", "state": State.FINISHED}
        assert known(catalog, 1) == replace(
            complete[0], **stored, object_name="attachments/a1", dialects=2, observations=4, variables=2
        )
        assert known(catalog, 2) == replace(attachment(2), **stored, object_name="attachments/a2")
        assert known(catalog, 3) == replace(complete[1], **stored | {"storage": "journal"})
        for number, code, why in ((4, "bad-\0content", "why"), (5, "bad-content", "too")):
            said = replace(complete[number - 2], state=State.QUARANTINED, reason_code=code, reason=why)
            assert known(catalog, number) == said
        assert catalog.extents("a3") == extents
        kept = [len(catalog.part_runs(f"a{number}")) for number in range(1, 6)]
        assert kept == [0, 0, 1, 1, 1]
        assert [event.subject for event in catalog.events_after(0, 9)] == [f"a{number}" for number in range(1, 6)]
        assert (catalog.progress(), catalog.message("m1")) == (9, message(1, "a1"))

    def test_a_checkpoint_closes_only_what_is_complete(self, catalog: Catalog) -> None:
        keep(catalog, *(attachment(number, State.COMPLETE) for number in range(1, 5)), attachment(5))
        catalog.set_state(["a1"], State.DELETED)
        catalog.set_state(["a2"], State.QUARANTINED, reason_code="word", reason="first")
        assert catalog.finish([finished(3)], [])
        before = [known(catalog, number) for number in range(1, 6)]
        missed = catalog.checkpoint(
            Checkpoint(
                attachments=[attachment(number, State.COMPLETE) for number in (1, 2, 3)],
                part_runs={"a1": [PartRun(1, 1, 1)]},
                events=[HAPPENED._replace(subject=f"a{number}") for number in range(1, 8)],
                finished=[finished(number, sha256="other") for number in (1, 2, 4, 5, 6)],
                refused=[RefusedContent("a3", "bad", "bad")],
            )
        )
        assert missed == {"a1", "a2", "a3", "a5", "a6"}
        assert [known(catalog, number) for number in (1, 2, 3, 5)] == [before[place] for place in (0, 1, 2, 4)]
        assert (known(catalog, 4).state, known(catalog, 4).sha256) == (State.FINISHED, "other")
        assert catalog.part_runs("a1") == []
        assert [event.subject for event in catalog.events_after(0, 9)] == ["a4", "a7"]

    def test_a_message_is_complete_with_a_checkpoint_only_if_its_attachments_are(self, catalog: Catalog) -> None:
        keep(catalog, attachment(1, State.COMPLETE), attachment(2, State.COMPLETE))
        catalog.set_state(["a2"], State.DELETED)
        step = Checkpoint(
            attachments=[attachment(number, State.COMPLETE, message_id=f"m{number}") for number in (1, 2)],
            messages=[replace(message(number, f"a{number}"), complete_at=70) for number in (1, 2)],
            events=[HAPPENED._replace(subject=f"m{number}") for number in (1, 2)],
            finished=[finished(1), finished(2)],
        )
        assert catalog.checkpoint(step) == {"a2"}
        completed = [catalog.message(f"m{number}") for number in (1, 2)]
        assert [each and each.complete_at for each in completed] == [70, None]
        assert [event.subject for event in catalog.events_after(0, 9)] == ["m1"]

    def test_very_many_are_closed_and_their_messages_completed_at_once(self, catalog: Catalog) -> None:
        many = range(2500)
        step = Checkpoint(
            attachments=[attachment(number, State.COMPLETE, message_id=f"m{number}") for number in many],
            messages=[message(number, f"a{number}") for number in many],
            finished=[finished(number) for number in many],
        )
        assert catalog.checkpoint(step) == set()
        assert catalog.counts()["attachments"][State.FINISHED] == len(many)
        assert sorted(catalog.complete_messages([f"a{number}" for number in many], 60)) == sorted(
            f"m{number}" for number in many
        )
        assert catalog.checkpoint(step) == {f"a{number}" for number in many}

    def test_an_expired_attachment_is_revived(self, catalog: Catalog) -> None:
        keep(catalog, attachment(1))
        catalog.set_state(["a1"], State.EXPIRED, reason_code="expired", reason="silence")
        assert (known(catalog, 1).state, known(catalog, 1).reason_code) == (State.EXPIRED, "expired")
        keep(catalog, attachment(1, last_received_at=9))
        assert known(catalog, 1) == attachment(1, last_received_at=9)

    @pytest.mark.parametrize("state", [State.FINISHED, State.DELETED])
    def test_parts_that_come_too_late_are_not_kept(self, catalog: Catalog, state: State) -> None:
        keep(catalog, attachment(1, State.COMPLETE))
        if state is State.FINISHED:
            catalog.finish([finished(1)], [])
        else:
            catalog.set_state(["a1"], State.DELETED)
        catalog.checkpoint(Checkpoint(attachments=[attachment(1)], part_runs={"a1": [PartRun(1, 1, 1)]}))
        assert catalog.part_runs("a1") == []

    def test_a_quarantine_entry_that_comes_again_is_kept_again(self, catalog: Catalog) -> None:
        catalog.checkpoint(Checkpoint(quarantine=[spoilt(1)]))
        assert catalog.set_quarantine_state("q1", "replayed")
        catalog.checkpoint(Checkpoint(quarantine=[spoilt(1, code="other", why="another reason")]))
        assert catalog.quarantine_entry("q1") == spoilt(1, code="other", why="another reason")

    def test_a_message_is_replaced_whole_but_stays_complete(self, catalog: Catalog) -> None:
        catalog.checkpoint(Checkpoint(messages=[message(1, "a1")], attachments=[attachment(1, State.COMPLETE)]))
        keep(catalog, attachment(1, State.COMPLETE, message_id="m1"))
        catalog.finish([finished(1)], [])
        assert catalog.complete_messages(["a1"], 60) == ["m1"]
        answered = message(1, "a1", application_body=b"\0body", application_format="MQSTR", application_ccsid=37)
        catalog.checkpoint(Checkpoint(messages=[answered]))
        assert catalog.message("m1") == replace(answered, complete_at=60)

    def test_a_message_keeps_its_answer(self, catalog: Catalog) -> None:
        """Whoever assembles may have forgotten it when the header comes again."""
        answered = message(1, application_body=b"body", application_format="MQSTR", application_ccsid=37)
        catalog.checkpoint(Checkpoint(messages=[answered]))
        catalog.checkpoint(Checkpoint(messages=[message(1, header_position=9)]))
        assert catalog.message("m1") == replace(answered, header_position=9)

    # --- what assembly asks ---------------------------------------------------------------------------------------

    def test_attachments_by_key(self, catalog: Catalog) -> None:
        many = [attachment(number) for number in range(2500)]
        keep(catalog, *many, replace(attachment(3000), source="crane", correl_id=many[0].correl_id))
        catalog.set_state(["a7"], State.DELETED)
        found = catalog.attachments_by_key("quay", [number.to_bytes(16, "big") for number in range(2600)])
        assert found == {
            record.correl_id: replace(record, state=State.DELETED) if record.id == "a7" else record for record in many
        }
        assert catalog.attachments_by_key("crane", [bytes(16)])[bytes(16)].id == "a3000"

    def test_messages_by_correl_id_compare_20_bytes(self, catalog: Catalog) -> None:
        key, other = b"k" * 20, b"o" * 20
        first = message(1, message_correl_id=key + b"....")
        near = message(5, message_correl_id=key[:16] + b"****" + bytes(4))
        blank = message(6, message_correl_id=key[:16] + b"    " + bytes(4))
        catalog.checkpoint(
            Checkpoint(
                messages=[
                    message(2, message_correl_id=key + b"****"),
                    first,
                    near,
                    blank,
                    message(3, message_correl_id=other + bytes(4)),
                    message(4, message_correl_id=key + bytes(4), source="crane"),
                ]
            )
        )
        zeros = key[:16] + bytes(4)
        asked = [key, bytes(20), near.message_correl_id[:20], zeros]
        assert catalog.messages_by_correl_id("quay", asked) == {
            key: first,
            near.message_correl_id[:20]: near,
            zeros: blank,
        }

    def test_parts_are_forgotten_before_others_are_added(self, catalog: Catalog) -> None:
        catalog.checkpoint(Checkpoint(attachments=[attachment(1)], part_runs={"a1": [PartRun(1, 3, 10)]}))
        catalog.checkpoint(Checkpoint(part_runs={"a1": [PartRun(1, 1, 10)]}, without_parts=["a1"]))
        assert catalog.part_runs("a1") == [PartRun(1, 1, 10)]
        catalog.checkpoint(Checkpoint(without_parts=["a1"]))
        assert catalog.part_runs("a1") == []

    # --- finishing ------------------------------------------------------------------------------------------------

    def test_finishing(self, catalog: Catalog) -> None:
        extents = tuple(Extent(1, 1 << 40, number) for number in range(1000))
        keep(catalog, attachment(1, State.COMPLETE), attachment(2))
        catalog.checkpoint(Checkpoint(part_runs={"a1": [PartRun(1, 1, 1)]}))
        outcome = finished(1, storage="journal", object_name=None, extents=extents, dialects=1 << 63)
        assert [record.id for record in catalog.complete_attachments()] == ["a1"]
        assert catalog.finish([outcome], [HAPPENED._replace(subject="a1")])
        assert catalog.complete_attachments() == []
        expected = attachment(1, State.FINISHED, dialects=1 << 63, storage="journal")
        found = known(catalog, 1)
        assert found == replace(expected, size=3, sha256="5e", content_type="text/plain", finished_at=50)
        assert catalog.extents("a1") == extents
        assert not catalog.finish([outcome], [HAPPENED._replace(subject="a1")])
        assert not catalog.finish([finished(2)], [HAPPENED._replace(subject="a1")])
        assert not catalog.finish([finished(3)], [HAPPENED._replace(subject="a1")])
        assert len(catalog.events_after(0, 10)) == 1

        assert catalog.settle({"a1": SETTLED}, 60) == {"a1"}
        assert known(catalog, 1) == replace(
            found, storage="store", object_name="attachments/a1", checksums=b"sums", settled_at=60
        )
        assert catalog.extents("a1") == ()
        assert catalog.part_runs("a1") == []
        assert catalog.settle({"a1": SETTLED}, 60) == {"a1"}, "the object is in use: it must not be removed"

    def test_damage_is_marked_and_taken_back(self, catalog: Catalog) -> None:
        keep(catalog, attachment(1, State.COMPLETE), attachment(2, State.COMPLETE))
        event = NewEvent("attachment.damaged", "a1", 6, {})
        assert not catalog.mark_damaged("a1", "rotten", [event])
        catalog.finish([finished(1)], [])
        assert catalog.mark_damaged("a1", "rotten", [event])
        assert not catalog.mark_damaged("a1", "rotten", [event])
        assert (known(catalog, 1).state, known(catalog, 1).reason_code) == (State.FINISHED, "damaged-content")
        assert [each.type for each in catalog.events_after(0, 10)] == ["attachment.damaged"]
        assert catalog.mark_damaged("a1", None)
        assert not catalog.mark_damaged("a1", None)
        assert (known(catalog, 1).reason_code, known(catalog, 1).reason) == (None, None)
        assert not catalog.mark_damaged("a3", "rotten")

    def test_content_that_is_in_the_store_at_once_needs_no_parts(self, catalog: Catalog) -> None:
        keep(catalog, attachment(1, State.COMPLETE))
        catalog.checkpoint(Checkpoint(part_runs={"a1": [PartRun(1, 1, 1)]}))
        catalog.finish([finished(1, observations=4, variables=2)], [])
        assert (known(catalog, 1).object_name, known(catalog, 1).observations) == ("attachments/a1", 4)
        assert catalog.part_runs("a1") == []

    def test_deleted_is_for_ever(self, catalog: Catalog) -> None:
        named = attachment(1, State.COMPLETE, qualifier_2="a.txt")
        keep(catalog, named, attachment(2, State.COMPLETE))
        catalog.checkpoint(Checkpoint(part_runs={"a1": [PartRun(1, 1, 1)]}))
        extents = (Extent(1, 2, 3),)
        catalog.finish([finished(1, storage="journal", object_name=None, extents=extents)], [])
        gone = NewEvent("attachment.deleted", "a1", 6, {})
        catalog.set_state(["a1", "a2", "a3"], State.DELETED, events=[gone])
        assert catalog.events_after(0, 10)[-1][1:] == gone
        assert (known(catalog, 1).state, known(catalog, 1).qualifier_2) == (State.DELETED, "a.txt")
        assert catalog.extents("a1") == ()
        assert catalog.part_runs("a1") == []
        assert catalog.settle({"a1": SETTLED}, 60) == set()
        assert not catalog.finish([finished(2)], [])
        for state in State:
            catalog.set_state(["a1"], state)
            assert known(catalog, 1).state is State.DELETED

    def test_only_what_is_being_received_expires(self, catalog: Catalog) -> None:
        keep(catalog, *(attachment(number, state) for number, state in enumerate(State)))
        catalog.set_state([f"a{number}" for number in range(len(State))], State.EXPIRED)
        became = [known(catalog, number).state for number in range(len(State))]
        assert became == [State.EXPIRED if state is State.RECEIVING else state for state in State]

    @pytest.mark.parametrize("target", State)
    def test_decisions_change_what_the_transition_table_says(self, catalog: Catalog, target: State) -> None:
        keep(catalog, *(attachment(number, state) for number, state in enumerate(State)))
        catalog.set_state([f"a{number}" for number in range(len(State))], target)
        became = [known(catalog, number).state for number in range(len(State))]
        decided = {here for (here, what), there in TRANSITIONS.items() if what in DECISIONS and there is target}
        assert became == [target if state in decided else state for state in State]

    @pytest.mark.parametrize("state", State)
    def test_parts_are_forgotten_as_the_transition_table_says(self, catalog: Catalog, state: State) -> None:
        keep(catalog, attachment(1, state))
        follows = follow(state, Input.PARTS_GONE)
        assert catalog.restart(["a1"], state, "gone") == ([] if follows is None else ["a1"])
        assert known(catalog, 1).state is (follows or state)

    @pytest.mark.parametrize("state", State)
    def test_what_is_reprocessed_begins_anew_unless_it_is_deleted(self, catalog: Catalog, state: State) -> None:
        keep(catalog, attachment(1, State.COMPLETE if state is State.FINISHED else state))
        if state is State.FINISHED:
            catalog.finish([finished(1)], [])
        before = known(catalog, 1)
        record = replace(
            attachment(1, State.COMPLETE), first_received_at=before.first_received_at - 5, parts_received=7
        )
        found = replace(finished(1), size=77, sha256="7" * 64)
        missed = catalog.checkpoint(
            Checkpoint(reprocessed=["a1"], attachments=[record], without_parts=["a1"], finished=[found])
        )
        after = known(catalog, 1)
        if state is State.DELETED:
            assert (missed, after.state, after.size, after.first_received_at) == (
                {"a1"},
                State.DELETED,
                before.size,
                before.first_received_at,
            )
        else:
            assert (missed, after.state, after.size, after.parts_received) == (set(), State.FINISHED, 77, 7)
            assert (after.first_received_at, after.reason_code) == (record.first_received_at, None)

    def test_what_does_not_change_is_not_told(self, catalog: Catalog) -> None:
        keep(catalog, attachment(1), attachment(2, State.COMPLETE), attachment(3, State.DELETED))
        told = [NewEvent("attachment.expired", f"a{number}", 9, {}) for number in (1, 2, 3)]
        catalog.set_state(["a1", "a2", "a3"], State.EXPIRED, events=told)
        assert [event.subject for event in catalog.events_after(0, 9)] == ["a1"]

    @pytest.mark.parametrize("state", [None, *State])
    def test_a_checkpoint_tells_of_what_expires_once_and_only_if_it_does(
        self, catalog: Catalog, state: State | None
    ) -> None:
        if state is not None:
            keep(catalog, attachment(1, State.COMPLETE if state is State.FINISHED else state))
        if state is State.FINISHED:
            catalog.finish([finished(1)], [])
        event = NewEvent("attachment.expired", "a1", 9, {})
        assert catalog.checkpoint(Checkpoint(attachments=[attachment(1, State.EXPIRED)], events=[event])) == set()
        told = [event.subject for event in catalog.events_after(0, 9)]
        assert told == (["a1"] if state in (None, State.RECEIVING) else [])

    def test_unsettled_and_stale_attachments_come_oldest_first(self, catalog: Catalog) -> None:
        keep(catalog, *(attachment(number, State.COMPLETE) for number in range(5)))
        keep(catalog, *(replace(attachment(number), last_received_at=20 - number) for number in range(5, 10)))
        for number in range(4):
            storage: Any = "store" if number == 2 else "journal"
            catalog.finish([finished(number, storage=storage, finished_at=10 - number)], [])
        assert [record.id for record in catalog.unsettled_attachments(10, 9)] == ["a3", "a1"]
        assert [record.id for record in catalog.unsettled_attachments(11, 2)] == ["a3", "a1"]
        first, second, last = catalog.unsettled_attachments(11, 9)
        assert catalog.unsettled_attachments(11, 1, first) == [second]
        assert catalog.unsettled_attachments(11, 9, first) == [second, last]
        assert catalog.unsettled_attachments(11, 9, last) == []
        keep(catalog, *(attachment(number, State.COMPLETE) for number in range(20, 25)))
        (waiting, *others) = catalog.complete_attachments()[1:]
        assert catalog.complete_attachments(2, waiting) == others[:2]
        assert catalog.complete_attachments(9, others[-1]) == []
        assert [record.id for record in catalog.stale_attachments(14, 9)] == ["a9", "a8", "a7"]
        assert [record.id for record in catalog.stale_attachments(14, 2)] == ["a9", "a8"]

    @pytest.mark.parametrize(
        ("changes", "unfinished", "complete"),
        [
            ({}, False, True),
            ({}, True, False),
            ({"message_correl_id": b" " * 24}, False, True),
            ({"message_correl_id": b"x" * 24}, False, False),
            ({"message_correl_id": b"x" * 24, "application_body": b""}, False, True),
            ({"message_correl_id": b"x" * 24, "application_body": b""}, True, False),
            ({"attachments": ("a1", "a2", "a9")}, False, False),
            ({"complete_at": 1}, False, False),
        ],
        ids=str,
    )
    def test_complete_messages(
        self, catalog: Catalog, changes: dict[str, Any], *, unfinished: bool, complete: bool
    ) -> None:
        theirs = [attachment(number, State.COMPLETE, message_id="m1") for number in (1, 2)]
        record = message(1, "a1", "a2", **changes) if "attachments" not in changes else replace(message(1), **changes)
        catalog.checkpoint(Checkpoint(attachments=[*theirs, attachment(3)], messages=[record]))
        catalog.finish([finished(1)], [])
        if not unfinished:
            catalog.finish([finished(2)], [])
        assert catalog.complete_messages(["a1", "a2", "a3", "a4"], 60) == (["m1"] if complete else [])
        found = catalog.message("m1")
        assert found == (replace(record, complete_at=60) if complete else record)
        assert catalog.complete_messages(["a1"], 61) == []

    def test_only_segments_that_hold_parts_are_needed(self, catalog: Catalog) -> None:
        """Not what lies between the first part of an attachment and the last."""
        states = [State.RECEIVING, State.COMPLETE, State.QUARANTINED, State.EXPIRED, State.DELETED]
        for number, state in enumerate(states):
            runs = [
                PartRun(1, 2, Position(10 * number, 5, 0).pack()),
                PartRun(3, 1, Position(10 * number + 2, 0, 0).pack()),
            ]
            keep(catalog, attachment(number))
            catalog.checkpoint(Checkpoint(part_runs={f"a{number}": runs}))
            assert catalog.part_runs(f"a{number}") == runs
            if state is not State.RECEIVING:
                keep(catalog, attachment(number, State.COMPLETE if state is not State.EXPIRED else State.RECEIVING))
                catalog.set_state([f"a{number}"], state)
        for number, storage in ((6, "journal"), (7, "store")):
            keep(catalog, attachment(number, State.COMPLETE))
            extents = (Extent(10 * number, 0, 1), Extent(10 * number + 5, 0, 1)) if storage == "journal" else ()
            catalog.finish([finished(number, storage=storage, extents=extents)], [])
        keep(catalog, attachment(9, pending_position=Position(90, 1, 1).pack(), pending_counts=(1,)))
        catalog.checkpoint(Checkpoint(quarantine=[spoilt(80), spoilt(81), spoilt(82), spoilt(83, in_journal=False)]))
        catalog.set_quarantine_state("q81", "dismissed")
        catalog.set_quarantine_state("q82", "replayed")
        needed = {0, 2, 10, 12, 20, 22, 30, 32, 60, 65, 80, 82, 90}
        assert catalog.needed_segments() == needed
        assert catalog.needed_segments(range(10, 62)) == {10, 12, 20, 22, 30, 32, 60}
        assert catalog.needed_segments([1, 83]) == set()
        catalog.settle({"a6": StoredObject("attachments/a6", b"sums")}, 60)
        catalog.set_state(["a2", "a9"], State.DELETED)
        assert catalog.needed_segments() == {0, 2, 10, 12, 30, 32, 80, 82}

    # --- receiving time -------------------------------------------------------------------------------------------

    def test_receiving_time_and_its_marks_are_kept(self, catalog: Catalog) -> None:
        assert (catalog.receiving_time(), catalog.receiving_marks()) == ({}, [])
        marks = [ReceivingMark("crane", 7, 1 << 40), ReceivingMark("quay", 5, 1), ReceivingMark("quay", 9, 1 << 62)]
        catalog.save_receiving_time({"quay": 9, "crane": 7}, marks, {})
        catalog.save_receiving_time({"quay": 10}, [marks[0]], {"quay": 9})
        assert catalog.receiving_time() == {"quay": 10, "crane": 7}
        assert catalog.receiving_marks() == [marks[0], marks[2]]

    def test_what_is_silent_expires_unless_more_of_it_came_meanwhile(self, catalog: Catalog) -> None:
        keep(catalog, *(attachment(number, last_position=20 - number) for number in range(6)))
        keep(catalog, attachment(7, State.COMPLETE), attachment(8, source="crane"))
        silent = catalog.silent_attachments("quay", 18, 9)
        assert [record.id for record in silent] == ["a5", "a4", "a3", "a2"]
        assert [record.id for record in catalog.silent_attachments("quay", 18, 1)] == ["a5"]
        keep(catalog, attachment(4, last_position=99))
        events = [HAPPENED._replace(subject=record.id) for record in silent]
        expired = catalog.expire(silent, 70, [f"silent {record.id}" for record in silent], events)
        assert expired == {"a5", "a3", "a2"}
        assert known(catalog, 3) == replace(silent[2], state=State.EXPIRED, reason_code="expired", reason="silent a3")
        assert [event.subject for event in catalog.events_after(0, 9)] == ["a5", "a3", "a2"]
        assert catalog.expire(silent, 71, [""] * 4, events) == set()
        assert catalog.expired_before("quay", 69, 9) == catalog.expired_before("crane", 70, 9) == []
        assert {record.id for record in catalog.expired_before("quay", 70, 9)} == expired
        assert len(catalog.expired_before("quay", 70, 2)) == 2

    def test_what_expired_and_is_let_go_begins_anew(self, catalog: Catalog) -> None:
        first = Position(3, 0, 0).pack()
        whole = attachment(
            1,
            kind=AttachmentKind.TEXT_FILE,
            message_id="m1",
            parts_expected=3,
            parts_received=2,
            bytes_received=9,
            duplicates=4,
            last_position=first,
            group=GroupProgress(1, 1, 1),
        )
        keep(catalog, whole, attachment(2))
        catalog.checkpoint(Checkpoint(part_runs={"a1": [PartRun(1, 2, first)]}))
        catalog.expire([whole, attachment(2)], 5, ["why", "why"], [])
        keep(catalog, attachment(2))
        assert catalog.needed_segments() == {3}
        assert catalog.restart(["a1", "a2", "a3"], State.EXPIRED, "it is gone") == ["a1"]
        assert catalog.needed_segments() == set()
        assert catalog.part_runs("a1") == []
        assert catalog.expired_before("quay", 5, 9) == []
        nothing: dict[str, Any] = {"parts_expected": None, "parts_received": 0, "bytes_received": 0, "group": None}
        said = replace(whole, state=State.EXPIRED, reason_code="expired", reason="it is gone", **nothing)
        assert known(catalog, 1) == said
        assert known(catalog, 2) == attachment(2)
        keep(catalog, attachment(1, State.COMPLETE, parts_received=3, reason="x"))
        assert catalog.restart(["a1"], State.COMPLETE, None) == ["a1"]
        assert (known(catalog, 1).state, known(catalog, 1).reason, known(catalog, 1).parts_received) == (
            State.RECEIVING,
            None,
            0,
        )

    # --- retention ------------------------------------------------------------------------------------------------

    def test_copies_of_what_is_quarantined(self, catalog: Catalog) -> None:
        small, large = QuarantineCopy("q1", b'{"source":"quay"}', b"\0body"), QuarantineCopy("q3", b"{}", None)
        entries = [spoilt(1, in_journal=False), spoilt(2), spoilt(3), spoilt(4, size=99), spoilt(5), spoilt(6)]
        catalog.checkpoint(Checkpoint(quarantine=entries, quarantine_copies=[small]))
        catalog.set_quarantine_state("q5", "dismissed")
        assert catalog.quarantine_copy("q1") == small
        assert catalog.quarantine_copy("q2") is None
        below = Position(6, 0, 0).pack()
        assert [entry.id for entry in catalog.uncopied_quarantine(below, 98, 9)] == ["q2", "q3"]
        assert [entry.id for entry in catalog.uncopied_quarantine(below, 99, 2)] == ["q2", "q3"]
        copies = [large, QuarantineCopy("q9", b"{}", b"")]
        catalog.copied_quarantine(copies, {"q3": "quarantine/q3"}, ["q2"])
        assert catalog.quarantine_copy("q3") == large
        assert catalog.quarantine_entry("q3") == spoilt(3, object_name="quarantine/q3", in_journal=False)
        assert catalog.quarantine_entry("q2") == spoilt(2, in_journal=False)
        assert catalog.needed_segments() == {4, 6}
        catalog.drop_quarantine(["q1", "q3", "q9"])
        assert (catalog.quarantine_entry("q1"), catalog.quarantine_copy("q1")) == (None, None)

    def test_quarantine_goes_by_source_the_oldest_first(self, catalog: Catalog) -> None:
        noisy = [spoilt(number, size=number) for number in range(1, 5)]
        catalog.checkpoint(Checkpoint(quarantine=[*noisy, spoilt(7, source="crane")]))
        assert catalog.quarantine_by_source() == {"quay": Kept(4, 10), "crane": Kept(1, 7)}
        assert [entry.id for entry in catalog.oldest_quarantine("quay", 4, 2)] == ["q1", "q2"]
        assert [entry.id for entry in catalog.oldest_quarantine("quay", 3, 9)] == ["q1", "q2"]

    def test_stored_content_is_listed_oldest_first(self, catalog: Catalog) -> None:
        keep(catalog, *(attachment(number, State.COMPLETE) for number in range(6)))
        for number in range(5):
            storage: Any = "journal" if number == 2 else "store"
            catalog.finish([finished(number, storage=storage, finished_at=10 - number, size=100)], [])
        catalog.set_state(["a1"], State.DELETED)
        assert [record.id for record in catalog.oldest_content(10, 9)] == ["a4", "a3"]
        assert [record.id for record in catalog.oldest_content(11, 2)] == ["a4", "a3"]
        assert catalog.kept()["content"] == Kept(4, 400)

    def test_ended_attachments_go_with_messages_that_have_no_others(self, catalog: Catalog) -> None:
        ends = [State.DELETED, State.QUARANTINED, State.EXPIRED, State.RECEIVING, State.FINISHED, State.DELETED]
        for number, state in enumerate(ends):
            made = State.RECEIVING if state is State.EXPIRED else State.COMPLETE
            keep(catalog, attachment(number, state if state is State.RECEIVING else made, message_id=f"m{number % 4}"))
            if state is State.FINISHED:
                catalog.finish([finished(number)], [])
            elif state is State.EXPIRED:
                catalog.expire([known(catalog, number)], 1, ["why"], [])
            elif state is not State.RECEIVING:
                catalog.set_state([f"a{number}"], state)
        catalog.checkpoint(Checkpoint(messages=[message(number, f"a{number}") for number in range(4)]))
        catalog.checkpoint(Checkpoint(messages=[message(9)]))
        every = [*State]
        assert catalog.drop_attachments(every, 5, 1) == (1, 0)
        assert catalog.drop_attachments([State.DELETED], 5, 9) == (0, 0)
        assert catalog.drop_attachments(every, 9, 9) == (2, 1)
        assert [catalog.attachment(f"a{number}") is None for number in range(6)] == [
            True,
            True,
            False,
            False,
            False,
            True,
        ]
        assert [catalog.message(f"m{number}") is None for number in range(4)] == [False, True, False, False]
        catalog.restart(["a2"], State.EXPIRED, "gone")
        assert catalog.drop_attachments([State.EXPIRED], 9, 9) == (1, 1)
        assert (catalog.drop_messages(9, 9), catalog.drop_messages(10, 9)) == (0, 1)
        assert catalog.kept()["attachments"] == Kept(0)

    def test_ended_deliveries_go(self, catalog: Catalog) -> None:
        for number, state in enumerate([DeliveryState.SENT, DeliveryState.CANCELLED, DeliveryState.QUEUED]):
            catalog.add_delivery(delivery(number, state=state), [])
        assert [found.id for found in catalog.ended_deliveries(9, 9)] == ["d0", "d1"]
        assert catalog.kept()["deliveries"] == Kept(2)
        gone = [NewEvent("delivery.deleted", f"d{number}", 6, {}) for number in range(4)]
        assert catalog.drop_deliveries(["d0", "d2", "d9"], gone) == {"d0"}
        assert catalog.drop_deliveries(["d0", "d1"]) == {"d1"}
        assert [catalog.delivery(f"d{number}") is None for number in range(3)] == [True, True, False]
        assert [event.subject for event in catalog.events_after(0, 9)] == ["d0"]

    def test_a_message_goes(self, catalog: Catalog) -> None:
        catalog.checkpoint(Checkpoint(messages=[message(number) for number in range(2)]))
        gone = [NewEvent("message.deleted", "m0", 6, {})]
        assert [catalog.drop_message("m0", gone), catalog.drop_message("m0", gone)] == [True, False]
        assert [catalog.message(f"m{number}") is None for number in range(2)] == [True, False]
        assert len(catalog.events_after(0, 9)) == 1

    def test_events_go_by_age_and_by_number(self, catalog: Catalog) -> None:
        catalog.add_events([HAPPENED._replace(time=time) for time in range(10)])
        assert (catalog.prune_events(4, None, 3), catalog.prune_events(4, None, 3)) == (3, 1)
        assert catalog.prune_events(0, 4) == 2
        assert [event.time for event in catalog.events_after(0, 99)] == [6, 7, 8, 9]
        assert (catalog.kept()["events"], catalog.last_event()) == (Kept(4), 10)

    def test_events_stay_while_they_are_needed(self, catalog: Catalog) -> None:
        catalog.add_events([HAPPENED._replace(time=time) for time in range(10)])
        assert catalog.prune_events(9, 0, up_to=3) == 3
        assert catalog.prune_events(9, 0, up_to=3) == 0
        assert [event.number for event in catalog.events_after(0, 2)] == [4, 5]

    # --- the pipeline ---------------------------------------------------------------------------------------------

    def test_the_newest_runs_are_kept(self, catalog: Catalog) -> None:
        assert catalog.pipeline_runs(None, 5) == Page([], None)
        kinds: tuple[RunKind, ...] = ("stream", "batch", "stream", "stream")
        stream, batch, third, last = (
            PipelineRun(f"{number}", kind, RunState.RUNNING, began_at=number // 2) for number, kind in enumerate(kinds)
        )
        catalog.begin_run(stream, 3)
        catalog.begin_run(batch, 3)
        catalog.begin_run(third, 3)
        lost = replace(stream, state=RunState.INTERRUPTED)
        first = catalog.pipeline_runs(None, 2)
        assert first.items == [third, batch]
        assert catalog.pipeline_runs(first.next, 2) == Page([lost], None)
        ended = replace(third, state=RunState.FAILED, ended_at=9, messages=1 << 40, rows=7, error="no \x00 disk")
        catalog.end_run(ended)
        catalog.begin_run(last, 3)
        assert catalog.pipeline_runs(None, 9).items == [last, ended, batch], "the oldest is gone"
        catalog.end_run(stream)
        assert len(catalog.pipeline_runs(None, 9).items) == 3
        with pytest.raises(BadCursor):
            catalog.pipeline_runs("x", 1)

    # --- webhooks -------------------------------------------------------------------------------------------------

    def test_a_webhook_is_saved_and_replaced(self, catalog: Catalog) -> None:
        assert catalog.webhooks() == {}
        first, other = WebhookRecord("one", 7), WebhookRecord("two", 1 << 40)
        changed = WebhookRecord("one", 8, WebhookState.DISABLED, 3, 11, 12, "gone \x00", 13)
        for record in (first, other, changed):
            catalog.save_webhook(record)
        assert catalog.webhooks() == {"one": changed, "two": other}

    def test_dead_letters_are_kept_in_order_and_by_webhook(self, catalog: Catalog) -> None:
        letters = [dead_letter(number) for number in (3, 1, 2)]
        catalog.save_webhook(WebhookRecord("one", 3), [*letters, dead_letter(1, "two")])
        assert catalog.dead_letters("one", 0, 9) == [dead_letter(1), dead_letter(2), dead_letter(3)]
        assert catalog.dead_letters("one", 1, 1) == [dead_letter(2)]
        assert catalog.dead_letter_counts() == {"one": 3, "two": 1}
        assert catalog.drop_dead_letters("one", [2, 9]) == 1
        assert catalog.drop_dead_letters("one", []) == 0
        assert catalog.drop_dead_letters("one", None) == 2
        assert catalog.dead_letter_counts() == {"two": 1}

    def test_dead_letters_are_queued_and_come_back(self, catalog: Catalog) -> None:
        catalog.save_webhook(WebhookRecord("one", 3), [dead_letter(number) for number in (1, 2, 3)])
        assert catalog.queue_dead_letters("one", [2, 9], 77) == 1
        assert catalog.dead_letters("one", 0, 9, queued=True) == [dead_letter(2)._replace(queued_at=77)]
        again = dead_letter(2)._replace(failed_at=99, reason="again")
        catalog.save_webhook(WebhookRecord("one", 3), [again])
        assert catalog.dead_letters("one", 1, 1) == [again]
        assert catalog.queue_dead_letters("one", None, 78) == 3
        assert catalog.queue_dead_letters("none", None, 78) == 0

    def test_old_dead_letters_go_unless_they_are_queued(self, catalog: Catalog) -> None:
        catalog.save_webhook(WebhookRecord("one", 4), [dead_letter(number) for number in (1, 2, 3, 4)])
        catalog.queue_dead_letters("one", [1], 5)
        assert (catalog.prune_dead_letters(104, 1), catalog.prune_dead_letters(104, 9)) == (1, 1)
        assert [letter.event.number for letter in catalog.dead_letters("one", 0, 9)] == [1, 4]

    # --- reading --------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("sort", get_args(Sort))
    def test_attachments_in_every_order_page_by_page(self, catalog: Catalog, sort: Sort) -> None:
        found = [
            attachment(
                number,
                qualifier_2=name,
                first_received_at=time,
                state=State.COMPLETE,
            )
            for number, (name, time) in enumerate([("b:1", 5), ("Ü", 5), ("a", 9), ("", 1), ("A", 3), ("b:1", 7)])
        ]
        keep(catalog, *found)
        sizes = {0: 7, 2: 1 << 40, 4: 7}
        for number, size in sizes.items():
            assert catalog.finish([replace(finished(number), size=size)], [])
        keys: dict[str, Callable[[int], object]] = {
            "received": lambda number: found[number].first_received_at,
            "size": lambda number: sizes.get(number, -1),
            "name": lambda number: found[number].qualifier_2.casefold(),
        }
        seen: list[str] = []
        cursor = None
        while True:
            page = catalog.attachments(AttachmentFilter(), cursor, 2, sort)
            seen += [record.id for record in page.items]
            if (cursor := page.next) is None:
                break
        assert sorted(seen) == sorted(record.id for record in found)
        got = [keys[sort.removeprefix("-")](int(each.removeprefix("a"))) for each in seen]
        assert got == sorted(got, reverse=sort.startswith("-"))  # type: ignore[type-var]

    def test_a_cursor_belongs_to_its_order(self, catalog: Catalog) -> None:
        keep(catalog, attachment(1), attachment(2))
        cursors = {sort: catalog.attachments(AttachmentFilter(), None, 1, sort).next for sort in get_args(Sort)}
        for sort in get_args(Sort):
            for other, cursor in cursors.items():
                if other == sort:
                    catalog.attachments(AttachmentFilter(), cursor, 1, sort)
                else:
                    with pytest.raises(BadCursor):
                        catalog.attachments(AttachmentFilter(), cursor, 1, sort)

    def test_attachments_by_size_and_their_count(self, catalog: Catalog) -> None:
        keep(catalog, *(attachment(number, state=State.COMPLETE) for number in range(4)))
        for number in range(3):
            catalog.finish([replace(finished(number), size=number * 10)], [])
        for which, expected in (
            (AttachmentFilter(min_size=10), {"a1", "a2"}),
            (AttachmentFilter(max_size=10), {"a0", "a1"}),
            (AttachmentFilter(min_size=1, max_size=19), {"a1"}),
            (AttachmentFilter(), {"a0", "a1", "a2", "a3"}),
        ):
            assert {record.id for record in catalog.attachments(which, None, 9).items} == expected
            assert catalog.count_attachments(which) == len(expected)

    def test_messages_and_deliveries_between_times(self, catalog: Catalog) -> None:
        catalog.checkpoint(Checkpoint(messages=[message(number, received_at=number) for number in range(1, 5)]))
        assert [each.received_at for each in catalog.messages(None, None, 9, None, 1, 4).items] == [3, 2]
        for number in range(1, 5):
            catalog.add_delivery(delivery(number, created_at=number), [])
        assert [each.created_at for each in catalog.deliveries(None, None, None, 9, None, 1, 4).items] == [3, 2]

    @pytest.mark.parametrize(
        ("which", "wanted"),
        [
            (AttachmentFilter(), lambda record: True),
            (AttachmentFilter(state=State.EXPIRED), lambda record: record.state is State.EXPIRED),
            (AttachmentFilter(kind=AttachmentKind.TEXT_FILE), lambda record: record.kind == 2),
            (AttachmentFilter(source="crane"), lambda record: record.source == "crane"),
            (AttachmentFilter(message="m2"), lambda record: record.message_id == "m2"),
            (AttachmentFilter(name="GRÜSSE"), lambda record: record.qualifier_2 == "Grüße 100%.txt"),
            (AttachmentFilter(name="%"), lambda record: "%" in record.qualifier_2),
            (AttachmentFilter(name="_"), lambda record: "_" in record.qualifier_2),
            (AttachmentFilter(name="\\"), lambda record: "\\" in record.qualifier_2),
            (AttachmentFilter(name="\0"), lambda record: "\0" in record.qualifier_2),
            (AttachmentFilter(name="x" * 60_000), lambda record: False),
            (AttachmentFilter(received_after=1, received_before=4), lambda record: 1 < record.first_received_at < 4),
            (
                AttachmentFilter(State.RECEIVING, AttachmentKind.DATA_SET, "quay", "a", "m1", 0, 9),
                lambda record: (
                    (record.state, record.kind, record.source) == (State.RECEIVING, 1, "quay")
                    and "a" in record.qualifier_2
                    and record.message_id == "m1"
                    and record.first_received_at > 0
                ),
            ),
        ],
        ids=lambda value: str(value) if isinstance(value, AttachmentFilter) else None,
    )
    def test_listing_attachments(
        self, catalog: Catalog, which: AttachmentFilter, wanted: Callable[[AttachmentRecord], bool]
    ) -> None:
        pick = random.Random(7)
        names = ["a.txt", "Grüße 100%.txt", "under_score", "C:\\temp\\a.dat", "レポート", "odd\0name"]
        kept = [
            replace(
                attachment(number, pick.choice(list(State))),
                source=pick.choice(["quay", "crane"]),
                kind=pick.choice([None, *AttachmentKind]),
                message_id=pick.choice([None, "m1", "m2"]),
                qualifier_2=pick.choice(names),
                first_received_at=pick.randrange(5),
            )
            for number in range(60)
        ]
        keep(catalog, *kept)
        newest_first = sorted(kept, key=lambda record: (record.first_received_at, record.id), reverse=True)
        for limit in (1, 7, 100):
            found = list(pages(partial(catalog.attachments, which, limit=limit)))
            assert {len(items) for items in found[:-1]} <= {limit}
            assert [record for items in found for record in items] == list(filter(wanted, newest_first))

    def test_what_comes_while_pages_are_turned_shifts_nothing(self, catalog: Catalog) -> None:
        keep(catalog, *(attachment(number) for number in range(10, 20)))
        fresh = count(20)

        def turn(cursor: str | None) -> Page[AttachmentRecord]:
            page = catalog.attachments(AttachmentFilter(), cursor, 3)
            keep(catalog, attachment(next(fresh)), attachment(12, last_received_at=99))
            return page

        assert [record.id for record in all_of(turn)] == [f"a{number}" for number in range(19, 9, -1)]

    def test_listing_messages(self, catalog: Catalog) -> None:
        kept = [message(number, source=("quay", "crane")[number % 2], received_at=number // 4) for number in range(9)]
        catalog.checkpoint(Checkpoint(messages=kept))
        newest_first = sorted(kept, key=lambda record: (record.received_at, record.id), reverse=True)
        assert all_of(lambda cursor: catalog.messages(None, cursor, 2)) == newest_first
        of_crane = [record for record in newest_first if record.source == "crane"]
        assert all_of(lambda cursor: catalog.messages("crane", cursor, 2)) == of_crane

    @pytest.mark.parametrize(
        "cursor", ["", "x", "%", "MTI6", "é", "\0", "MTox\n", "MTIzNDU2Nzg5MDEyMzQ1Njc4OTA6eA", "=" * 9]
    )
    def test_foreign_cursors_are_refused(self, catalog: Catalog, cursor: str) -> None:
        if cursor == "MTI6":
            assert catalog.attachments(AttachmentFilter(), cursor, 1).items == []
            return
        for listing in (
            lambda: catalog.attachments(AttachmentFilter(), cursor, 1),
            lambda: catalog.messages(None, cursor, 1),
            lambda: catalog.quarantined(None, None, cursor, 1),
            lambda: catalog.deliveries(None, None, cursor, 1),
        ):
            with pytest.raises(BadCursor):
                listing()

    def test_a_cursor_is_a_word_in_a_url(self, catalog: Catalog) -> None:
        keep(catalog, *(replace(attachment(number), id=f"a/?&=ÿ{number}") for number in range(3)))
        cursor = catalog.attachments(AttachmentFilter(), None, 1).next
        assert cursor is not None
        assert cursor.replace("-", "").replace("_", "").isalnum()
        assert cursor.isascii()

    def test_identifiers_may_be_anything_that_a_client_asks_for(self, catalog: Catalog) -> None:
        for strange in ("", "\0", "\udcff", "' OR 1=1 --"):
            assert set(everything(catalog, strange)) == {None}
            assert not catalog.set_quarantine_state(strange, "dismissed")
            assert catalog.attachments(AttachmentFilter(source=strange, message=strange), None, 1).items == []

    def test_counts(self, catalog: Catalog) -> None:
        keep(catalog, attachment(1), attachment(2), attachment(3, State.COMPLETE))
        catalog.checkpoint(Checkpoint(quarantine=[spoilt(1), spoilt(2)]))
        catalog.set_quarantine_state("q2", "dismissed")
        catalog.add_delivery(delivery(1), [])
        assert catalog.counts() == {
            "attachments": dict.fromkeys(State, 0) | {State.RECEIVING: 2, State.COMPLETE: 1},
            "deliveries": dict.fromkeys(DeliveryState, 0) | {DeliveryState.QUEUED: 1},
            "quarantine": {"kept": 1, "replayed": 0, "dismissed": 1},
        }

    # --- quarantine -----------------------------------------------------------------------------------------------

    def test_quarantine(self, catalog: Catalog) -> None:
        kept = [spoilt(number, source=("quay", "crane")[number % 2], received_at=number // 4) for number in range(9)]
        catalog.checkpoint(Checkpoint(quarantine=kept))
        assert catalog.set_quarantine_state("q3", "dismissed")
        assert not catalog.set_quarantine_state("q9", "dismissed")
        kept[3] = replace(kept[3], state="dismissed")
        newest_first = sorted(kept, key=lambda record: (record.received_at, record.id), reverse=True)
        assert all_of(lambda cursor: catalog.quarantined(None, None, cursor, 2)) == newest_first
        of_crane = [record for record in newest_first if record.source == "crane" and record.state == "kept"]
        assert all_of(lambda cursor: catalog.quarantined("crane", "kept", cursor, 2)) == of_crane
        assert all_of(lambda cursor: catalog.quarantined(None, "dismissed", cursor, 2)) == [kept[3]]

    # --- deliveries -----------------------------------------------------------------------------------------------

    def test_deliveries(self, catalog: Catalog) -> None:
        kept = [
            delivery(number, destination=("pier", "dock")[number % 2], created_at=number // 4) for number in range(9)
        ]
        for record in kept:
            catalog.add_delivery(record, [HAPPENED])
        assert len(catalog.events_after(0, 99)) == 9
        kept[3] = replace(kept[3], state=DeliveryState.SENT, messages_sent=4, messages_total=4, attempts=1, reason="r")
        catalog.update_delivery(kept[3], [HAPPENED])
        assert len(catalog.events_after(0, 99)) == 10
        assert catalog.delivery("d3") == kept[3]
        newest_first = sorted(kept, key=lambda record: (record.created_at, record.id), reverse=True)
        assert all_of(lambda cursor: catalog.deliveries(None, None, cursor, 2)) == newest_first
        queued_for_dock = [
            record for record in newest_first if record.destination == "dock" and record.state is DeliveryState.QUEUED
        ]
        assert all_of(lambda cursor: catalog.deliveries(DeliveryState.QUEUED, "dock", cursor, 2)) == queued_for_dock
        with pytest.raises(KeyError):
            catalog.update_delivery(delivery(99), [HAPPENED])
        assert len(catalog.events_after(0, 99)) == 10

    def test_due_deliveries_come_oldest_first(self, catalog: Catalog) -> None:
        due = [
            delivery(1, created_at=5, next_attempt_at=10),
            delivery(2, created_at=4, state=DeliveryState.SENDING),
            delivery(3, created_at=6),
        ]
        for record in (
            *due,
            delivery(4, next_attempt_at=11),
            delivery(5, state=DeliveryState.SENT),
            delivery(6, state=DeliveryState.FAILED),
            delivery(7, destination="dock"),
        ):
            catalog.add_delivery(record, [])
        assert [record.id for record in catalog.due_deliveries("pier", 10, 9)] == ["d2", "d1", "d3"]
        assert [record.id for record in catalog.due_deliveries("pier", 10, 2)] == ["d2", "d1"]
        assert catalog.due_deliveries("bay", 10, 9) == []
        put_off = delivery(70, destination="bay", next_attempt_at=1 << 60)
        catalog.add_delivery(put_off, [])
        assert catalog.due_deliveries("bay", 10, 9) == []
        assert catalog.due_deliveries("bay", 10, 9, 1 << 60) == []
        assert catalog.due_deliveries("bay", 10, 9, 1000) == [put_off]

    def test_ended_deliveries_come_oldest_first(self, catalog: Catalog) -> None:
        sent = delivery(1, state=DeliveryState.SENT, updated_at=5)
        failed = delivery(2, state=DeliveryState.FAILED, updated_at=4)
        for record in (sent, failed, delivery(3, updated_at=1), delivery(4, state=DeliveryState.SENT, updated_at=9)):
            catalog.add_delivery(record, [])
        assert catalog.ended_deliveries(9, 9) == [failed, sent]
        assert catalog.ended_deliveries(9, 1) == [failed]

    def test_an_idempotency_key_stands_for_one_delivery(self, catalog: Catalog) -> None:
        first = delivery(1, idempotency_key="k", fingerprint="f")
        catalog.add_delivery(first, [HAPPENED])
        for fingerprint, same in (("f", True), ("g", False)):
            with pytest.raises(IdempotencyConflict) as conflict:
                catalog.add_delivery(delivery(2, idempotency_key="k", fingerprint=fingerprint), [HAPPENED])
            assert (conflict.value.delivery, conflict.value.same_request) == (first, same)
        assert catalog.delivery("d2") is None
        assert catalog.delivery("d1") == first
        assert len(catalog.events_after(0, 9)) == 1
        catalog.add_delivery(delivery(3), [])
        catalog.add_delivery(delivery(4), [])

    def test_many_clients_with_one_key_make_one_delivery(self, catalog: Catalog) -> None:
        together = Barrier(8)

        def add(number: int) -> str:
            together.wait()
            try:
                catalog.add_delivery(delivery(number, idempotency_key="k", fingerprint="f"), [HAPPENED])
            except IdempotencyConflict as conflict:
                return conflict.delivery.id
            return f"d{number}"

        with ThreadPoolExecutor(8) as pool:
            (told,) = set(pool.map(add, range(8)))
        assert [record.id for record in catalog.deliveries(None, None, None, 99).items] == [told]
        assert len(catalog.events_after(0, 99)) == 1

    def test_a_delivery_is_changed_in_an_expected_state_only(self, catalog: Catalog) -> None:
        queued, sent = delivery(1), delivery(1, state=DeliveryState.SENT)
        catalog.add_delivery(queued, [])
        for expected in ([], [DeliveryState.SENDING, DeliveryState.FAILED]):
            with pytest.raises(KeyError):
                catalog.update_delivery(sent, [HAPPENED], expected)
        assert (catalog.delivery("d1"), catalog.last_event()) == (queued, 0)
        catalog.update_delivery(sent, [HAPPENED], [DeliveryState.QUEUED])
        assert (catalog.delivery("d1"), catalog.last_event()) == (sent, 1)

    # --- events ---------------------------------------------------------------------------------------------------

    def test_events_are_numbered_for_good(self, catalog: Catalog) -> None:
        catalog.add_events([HAPPENED._replace(time=time) for time in (1, 2, 3)])
        catalog.add_events([])
        assert catalog.events_after(1, 1) == [EventRecord(2, HAPPENED.type, HAPPENED.subject, 2, HAPPENED.data)]
        assert [event.number for event in catalog.events_after(0, 9)] == [1, 2, 3]
        assert catalog.last_event() == 3
        catalog.prune_events(3)
        assert [event.number for event in catalog.events_after(0, 9)] == [3]
        catalog.prune_events(4)
        assert catalog.events_after(0, 9) == []
        catalog.add_events([HAPPENED])
        assert catalog.last_event() == 4

    # --- threads --------------------------------------------------------------------------------------------------

    def test_readers_see_whole_checkpoints_while_others_write(self, catalog: Catalog) -> None:
        stop = Event()

        def read() -> int:
            seen = 0
            while not stop.is_set():
                listed = catalog.attachments(AttachmentFilter(), None, 99).items
                (progress,) = {record.parts_received for record in listed} or {0}
                assert progress >= seen
                seen = progress
                assert (catalog.progress() or 0) >= seen
            return seen

        def deliver(first: int) -> None:
            for number in range(first, first + 20):
                catalog.add_delivery(delivery(number), [HAPPENED])

        with ThreadPoolExecutor(6) as pool:
            readers = [pool.submit(read) for _ in range(3)]
            writers = [pool.submit(deliver, first) for first in (0, 100)]
            try:
                for step in range(1, 61):
                    rows = [attachment(number, parts_received=step) for number in range(20)]
                    catalog.checkpoint(Checkpoint(progress=step, attachments=rows))
                for writer in writers:
                    writer.result()
            finally:
                stop.set()
            assert max(reader.result() for reader in readers) <= 60
        assert catalog.counts()["deliveries"][DeliveryState.QUEUED] == 40

    # --- round trips ----------------------------------------------------------------------------------------------

    @settings(suppress_health_check=ON_PURPOSE, max_examples=50, deadline=None)
    @given(data=st.data())
    def test_whatever_senders_write_comes_back(self, catalog: Catalog, data: st.DataObject) -> None:
        optional_number, optional_text = st.none() | numbers, st.none() | texts
        identifier = texts.map(lambda text: f"{next(serial)}{text}")
        kept = data.draw(
            st.builds(
                AttachmentRecord,
                id=identifier,
                source=identifier,
                correl_id=st.binary(max_size=24),
                state=st.sampled_from(State),
                message_id=optional_text,
                ordinal=numbers,
                kind=st.none() | st.sampled_from(AttachmentKind),
                qualifier_1=texts,
                qualifier_2=texts,
                description=texts,
                minor_version=numbers,
                major_version=numbers,
                dialects=st.integers(0, (1 << 64) - 1),
                parts_expected=optional_number,
                parts_received=numbers,
                pending_counts=st.lists(st.integers(0, (1 << 64) - 1)).map(tuple),
                pending_position=optional_number,
                group=st.none() | st.builds(GroupProgress, optional_number, numbers, numbers),
                first_position=numbers,
                first_received_at=numbers,
                size=optional_number,
                content_type=optional_text,
                storage=st.sampled_from([None, "journal", "store"]),
                object_name=optional_text,
                reason_code=optional_text,
                reason=optional_text,
            )
        )
        told = data.draw(
            st.builds(
                MessageRecord,
                id=identifier,
                source=texts,
                header_correl_id=st.binary(max_size=24),
                message_correl_id=st.binary(max_size=24),
                original_msg_type=numbers,
                original_correl_id=st.binary(max_size=24),
                attachments=st.lists(texts).map(tuple),
                header_position=numbers,
                received_at=numbers,
                application_body=st.none() | st.binary(),
                application_format=texts,
                application_ccsid=numbers,
                complete_at=optional_number,
            )
        )
        refused = data.draw(
            st.builds(
                QuarantineRecord,
                id=identifier,
                source=texts,
                position=numbers,
                code=texts,
                row=texts,
                at=numbers,
                why=texts,
                msg_type=numbers,
                correl_id=st.binary(max_size=24),
                size=numbers,
                received_at=numbers,
            )
        )
        sent = data.draw(
            st.builds(
                DeliveryRecord,
                id=identifier,
                destination=texts,
                header_correl_id=st.binary(max_size=24),
                message_correl_id=st.binary(max_size=24),
                attachments=st.lists(outgoing, max_size=3).map(tuple),
                created_at=numbers,
                updated_at=numbers,
                state=st.sampled_from(DeliveryState),
                application_body=st.none() | st.binary(),
                cut=st.none()
                | st.builds(
                    FramingOptions,
                    numbers,
                    texts,
                    numbers,
                    numbers,
                    optional_number,
                    st.sampled_from(["sas_queue", "mq_group"]),
                    st.sampled_from(["messages", "segments"]),
                ),
                reason=optional_text,
                idempotency_key=st.none() | identifier,
                fingerprint=optional_text,
            )
        )
        happened = NewEvent(
            data.draw(texts), data.draw(texts), data.draw(numbers), {data.draw(texts): data.draw(texts)}
        )
        catalog.checkpoint(
            Checkpoint(
                attachments=[kept], messages=[told], quarantine=[refused], source_dialects={kept.source: kept.dialects}
            )
        )
        catalog.add_delivery(sent, [happened])
        assert catalog.attachment(kept.id) == kept
        assert catalog.attachments_by_key(kept.source, [kept.correl_id]) == {kept.correl_id: kept}
        assert kept in catalog.attachments(AttachmentFilter(name=kept.qualifier_2 or None), None, 1000).items
        assert catalog.message(told.id) == told
        assert catalog.quarantine_entry(refused.id) == refused
        assert catalog.delivery(sent.id) == sent
        assert catalog.source_dialects()[kept.source] == kept.dialects
        assert catalog.events_after(catalog.last_event() - 1, 1)[0][1:] == happened
