"""The ends of attachments: finished, refused, damaged, deleted, expired."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from app.assembly.states import DECISIONS, TRANSITIONS, Input, follow
from app.model.message import Position
from app.model.records import (
    Checkpoint,
    Extent,
    NewEvent,
    PartRun,
    RefusedContent,
    StoredObject,
)
from app.ports import Catalog
from tests.contracts.catalog.records import HAPPENED, SETTLED, State, attachment, finished, keep, known, message, spoilt


def told(message_id: str, source: str) -> NewEvent:
    return NewEvent("message.complete", message_id, 60, {"source": source})


class Finishing:
    """A part of `CatalogContract`, which the tests of adapters inherit."""

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
        complete = catalog.complete_messages([f"a{number}" for number in many], 60, told)
        assert complete == {f"m{number}" for number in many}
        assert {event.subject for event in catalog.events_after(0, len(many))} == complete
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
        assert catalog.complete_messages(["a1"], 60, told) == {"m1"}
        answered = message(1, "a1", application_body=b"\0body", application_format="MQSTR", application_ccsid=37)
        catalog.checkpoint(Checkpoint(messages=[answered]))
        assert catalog.message("m1") == replace(answered, complete_at=60)

    def test_a_message_keeps_its_answer(self, catalog: Catalog) -> None:
        """Whoever assembles may have forgotten it when the header comes again."""
        answered = message(1, application_body=b"body", application_format="MQSTR", application_ccsid=37)
        catalog.checkpoint(Checkpoint(messages=[answered]))
        catalog.checkpoint(Checkpoint(messages=[message(1, header_position=9)]))
        assert catalog.message("m1") == replace(answered, header_position=9)

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
        assert catalog.extents_of(["a1", "a2", "a3"]) == {"a1": extents}
        assert not catalog.finish([outcome], [HAPPENED._replace(subject="a1")])
        assert not catalog.finish([finished(2)], [HAPPENED._replace(subject="a1")])
        assert not catalog.finish([finished(3)], [HAPPENED._replace(subject="a1")])
        assert len(catalog.events_after(0, 10)) == 1

        assert catalog.settle({"a1": SETTLED}, 60) == {"a1"}
        assert known(catalog, 1) == replace(
            found, storage="store", object_name="attachments/a1", checksums=b"sums", settled_at=60
        )
        assert catalog.extents("a1") == ()
        assert catalog.extents_of(["a1"]) == {}
        assert catalog.part_runs("a1") == []
        assert catalog.settle({"a1": SETTLED}, 60) == {"a1"}, "the object is in use: it must not be removed"

    def test_warnings_that_come_while_content_is_read_are_kept(self, catalog: Catalog) -> None:
        for number, state in enumerate((State.COMPLETE, State.FINISHED, State.QUARANTINED), 1):
            keep(catalog, attachment(number, State.COMPLETE))
            if state is State.FINISHED:
                catalog.finish([finished(number, warnings=("before",))], [])
            elif state is State.QUARANTINED:
                catalog.set_state([f"a{number}"], state, reason_code="bad-content", reason="why")
        came = NewEvent("attachment.warned", "", 6, {"warnings": ["meanwhile"]})
        noted = attachment(1, State.COMPLETE, warnings=("meanwhile",))
        warned = [came._replace(subject=f"a{number}") for number in (1, 2, 3)]
        catalog.checkpoint(Checkpoint(attachments=[noted], saved_before={"a1"}, warned=warned))
        assert catalog.finish([finished(1, warnings=("read",))], []) == {"a1"}
        assert [known(catalog, number).warnings for number in (1, 2, 3)] == [
            ("read", "meanwhile"),
            ("before", "meanwhile"),
            ("meanwhile",),
        ]
        assert [each.subject for each in catalog.events_after(0, 10)] == ["a2", "a3"]

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

    def test_the_oldest_unfinished_attachment_is_the_one_that_waits_longest(self, catalog: Catalog) -> None:
        assert catalog.oldest_unfinished() is None
        pick = Random(3)
        times = [pick.randrange(10_000) for _ in range(2500)]
        waits = [time + pick.randrange(5_000, 9_000) for time in times]
        ended = [replace(attachment(9000 + number), state=state) for number, state in enumerate(State) if number]
        open_ones = [
            attachment(number, first_received_at=time, last_received_at=last)
            for number, (time, last) in enumerate(zip(times, waits, strict=True))
        ]
        keep(catalog, *ended, *open_ones)
        assert catalog.oldest_unfinished() == min(waits)

    def test_unsettled_attachments_come_oldest_first(self, catalog: Catalog) -> None:
        keep(catalog, *(attachment(number, State.COMPLETE) for number in range(5)))
        keep(catalog, *(replace(attachment(number), last_received_at=20 - number) for number in range(5, 10)))
        for number in range(4):
            storage: Any = "store" if number == 2 else "journal"
            catalog.finish([finished(number, storage=storage, finished_at=10 - number)], [])
        assert [record.id for record in catalog.unsettled_attachments(10, 9)] == ["a3", "a1"]
        assert [record.id for record in catalog.unsettled_attachments(11, 2)] == ["a3", "a1"]
        assert [record.id for record in catalog.unsettled_attachments(9, 9, latest=9)] == ["a3", "a0"]
        first, second, last = catalog.unsettled_attachments(11, 9)
        assert catalog.unsettled_attachments(11, 1, first) == [second]
        assert catalog.unsettled_attachments(11, 9, first) == [second, last]
        assert catalog.unsettled_attachments(11, 9, last) == []
        keep(catalog, *(attachment(number, State.COMPLETE) for number in range(20, 25)))
        (waiting, *others) = catalog.complete_attachments()[1:]
        assert catalog.complete_attachments(2, waiting) == others[:2]
        assert catalog.complete_attachments(9, others[-1]) == []

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
        assert catalog.left_to_complete() == ([] if unfinished or record.complete_at is not None else ["a1"])
        assert catalog.complete_messages(["a1", "a2", "a3", "a4"], 60, told) == ({"m1"} if complete else set())
        found = catalog.message("m1")
        assert found == (replace(record, complete_at=60) if complete else record)
        assert catalog.complete_messages(["a1"], 61, told) == set()
        assert [event[1:] for event in catalog.events_after(0, 9)] == ([told("m1", "quay")] if complete else [])

    def test_a_message_is_completed_with_its_event_or_not_at_all(self, catalog: Catalog) -> None:
        theirs = attachment(1, State.COMPLETE, message_id="m1")
        catalog.checkpoint(Checkpoint(attachments=[theirs], messages=[message(1, "a1")], finished=[finished(1)]))

        def killed(_message: str, _source: str) -> NewEvent:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            catalog.complete_messages(["a1"], 60, killed)
        assert catalog.message("m1") == message(1, "a1")
        assert catalog.complete_messages(catalog.left_to_complete(), 61, told) == {"m1"}
        assert catalog.left_to_complete() == []
        assert [event[1:] for event in catalog.events_after(0, 9)] == [told("m1", "quay")]

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
