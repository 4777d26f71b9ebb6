"""Checkpoints of assembly, and what assembly asks when it begins again."""

from dataclasses import replace
from itertools import product
from struct import iter_unpack
from typing import Any

import pytest

from app.model.attachment import AttachmentKind
from app.model.errors import CatalogChanged, GatewayError
from app.model.message import Position
from app.model.records import (
    Checkpoint,
    GroupProgress,
    JournalIdentity,
    NewEvent,
    PartRun,
)
from app.ports import Catalog
from tests.contracts.catalog.records import HAPPENED, State, attachment, finished, keep, known, message, spoilt


class Checkpoints:
    """A part of `CatalogContract`, which the tests of adapters inherit."""

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

    def test_what_was_saved_before_and_deleted_is_not_added_again(self, catalog: Catalog) -> None:
        catalog.checkpoint(Checkpoint(progress=5, attachments=[attachment(1)], messages=[message(1, "a1")]))
        again = Checkpoint(progress=6, restarts=0, attachments=[attachment(1), attachment(2)], messages=[message(1)])
        again.saved_before = {"a1", "m1"}
        assert catalog.checkpoint(again) == set()
        again.progress = 7
        catalog.drop_message("m1", [])
        with pytest.raises(CatalogChanged, match=r"1 messages were deleted meanwhile \(m1\)"):
            catalog.checkpoint(again)
        assert (catalog.progress(), catalog.message("m1")) == (6, None)
        again.saved_before = {"a3"}
        again.attachments.append(attachment(3))
        with pytest.raises(CatalogChanged, match=r"1 attachments were deleted meanwhile \(a3\)"):
            catalog.checkpoint(again)
        again.restarts = None  # of a host that holds nothing in memory
        catalog.checkpoint(again)
        assert catalog.attachment("a3") == attachment(3)

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
        assert catalog.part_runs_of(["a1"]) == {"a1": catalog.part_runs("a1")}

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
        catalog.checkpoint(Checkpoint(events=about))
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
        assert catalog.part_runs_of(["a1", "a2", "a9"]) == {"a2": [PartRun(1, 1, 2)]}

    def test_only_what_was_there_unannounced_is_told_of(self, catalog: Catalog) -> None:
        """Of what is announced, closed, or nowhere, nobody waits to be told what it is."""
        keep(catalog, attachment(1, kind=None), attachment(2), attachment(3, kind=None), attachment(5, kind=None))
        catalog.set_state(["a5"], State.DELETED)
        told = [HAPPENED._replace(type="attachment.identified", subject=f"a{number}") for number in range(1, 6)]
        others = [HAPPENED._replace(subject="a4")]
        changes = Checkpoint(identified=told, events=others, removed_attachments=["a3"], attachments=[attachment(1)])
        catalog.checkpoint(changes)
        catalog.checkpoint(replace(changes, events=[]))
        events = [(event.type, event.subject) for event in catalog.events_after(0, 99)]
        assert events == [*(("attachment.identified", each) for each in ("a1", "a3")), (HAPPENED.type, "a4")]

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

    def test_identifiers_of_any_characters_are_found(self, catalog: Catalog) -> None:
        odd = ['a"b', "a\\u0041", "a\n", "a\0", "a\ud800", "a\x1a0000", "ä😀"]
        plain = attachment(1)
        made = [replace(attachment(number), id=name) for number, name in enumerate(odd, 2)]
        keep(catalog, plain, *made)
        assert {record.id for record in catalog.attachments_by_id(["a1", *odd, "a", "b"])} == {"a1", *odd}

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
        assert catalog.messages_by_key("quay", [key[:16]]) == [
            first,
            message(2, message_correl_id=key + b"****"),
            near,
            blank,
        ]
        assert catalog.messages_by_key("quay", [bytes(16), other[:16]]) == [
            message(3, message_correl_id=other + bytes(4))
        ]
        assert catalog.messages_by_key("crane", []) == []

    def test_messages_by_key_are_those_between_the_least_and_the_greatest_correlid(self, catalog: Catalog) -> None:
        keys = [bytes(16), bytes(15) + b"\1", b"\xff" * 15 + b"\xfe", b"\xff" * 16]
        made = [
            message(number, message_correl_id=key + end + bytes(4))
            for number, (key, end) in enumerate(product(keys, (b"\1\0\0\0", b"\xff" * 4, b"a\0b\0")), 1)
        ]
        catalog.checkpoint(Checkpoint(messages=made))
        for place, key in enumerate(keys):
            assert catalog.messages_by_key("quay", [key]) == made[3 * place : 3 * place + 3]
        assert catalog.messages_by_key("quay", keys) == made

    def test_parts_are_forgotten_before_others_are_added(self, catalog: Catalog) -> None:
        catalog.checkpoint(Checkpoint(attachments=[attachment(1)], part_runs={"a1": [PartRun(1, 3, 10)]}))
        catalog.checkpoint(Checkpoint(part_runs={"a1": [PartRun(1, 1, 10)]}, without_parts=["a1"]))
        assert catalog.part_runs("a1") == [PartRun(1, 1, 10)]
        catalog.checkpoint(Checkpoint(without_parts=["a1"]))
        assert catalog.part_runs("a1") == []
