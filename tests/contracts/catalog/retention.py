"""Receiving time, what goes and what stays, and the runs of the pipeline."""

from dataclasses import replace
from typing import Any

import pytest

from app.model.attachment import AttachmentKind, DeliveryState
from app.model.message import Position
from app.model.pipeline_run import PipelineRun, RunKind, RunState
from app.model.records import ALONE, Checkpoint, GroupProgress, Kept, NewEvent, PartRun, QuarantineCopy, ReceivingMark
from app.ports import BadCursor, Catalog, Page
from tests.contracts.catalog.records import (
    HAPPENED,
    State,
    attachment,
    deleted,
    delivery,
    finished,
    keep,
    known,
    message,
    spoilt,
)


class Retention:
    """A part of `CatalogContract`, which the tests of adapters inherit."""

    # --- receiving time -------------------------------------------------------------------------------------------

    def test_receiving_time_and_its_marks_are_kept(self, catalog: Catalog) -> None:
        assert (catalog.receiving_time(), catalog.receiving_marks()) == ({}, [])
        marks = [ReceivingMark("crane", 7, 1 << 40), ReceivingMark("quay", 5, 1), ReceivingMark("quay", 9, 1 << 62)]
        catalog.save_receiving_time({"quay": 9, "crane": 7}, marks, {})
        catalog.save_receiving_time({"quay": 10}, [marks[0]], {"quay": 9})
        assert catalog.receiving_time() == {ALONE: {"quay": 10, "crane": 7}}
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
        small = QuarantineCopy("q1", b'{"source":"quay"}', b"\0body", 7)
        large = QuarantineCopy("q3", b"{}", None, 0xFFFFFFFF)
        entries = [spoilt(1, in_journal=False), spoilt(2), spoilt(3), spoilt(4, size=99), spoilt(5), spoilt(6)]
        catalog.checkpoint(Checkpoint(quarantine=entries, quarantine_copies=[small]))
        catalog.set_quarantine_state("q5", "dismissed")
        assert catalog.quarantine_copy("q1") == small
        assert catalog.quarantine_copy("q2") is None
        below = Position(6, 0, 0).pack()
        assert [entry.id for entry in catalog.uncopied_quarantine(below, 98, 9)] == ["q2", "q3"]
        assert [entry.id for entry in catalog.uncopied_quarantine(below, 99, 2)] == ["q2", "q3"]
        copies = [large, QuarantineCopy("q9", b"{}", b"", 0)]
        assert catalog.copied_quarantine(copies, {"q3": "quarantine/q3"}, ["q2"]) == {"q3"}
        assert catalog.quarantine_copy("q3") == large
        assert catalog.quarantine_entry("q3") == spoilt(3, object_name="quarantine/q3", in_journal=False)
        assert catalog.quarantine_entry("q2") == spoilt(2, in_journal=False)
        assert catalog.needed_segments() == {4, 6}
        assert catalog.drop_quarantine(["q1", "q3", "q9"]) == {"q1"}
        assert catalog.quarantine_copy("q3") == large
        assert catalog.drop_quarantine(["q3", "q4"], ["quarantine/q3"]) == {"q3", "q4"}
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

    def test_a_row_stays_until_its_object_is_gone(self, catalog: Catalog) -> None:
        for number, storage in enumerate(("store", "store", "journal", "store")):
            keep(catalog, attachment(number, State.COMPLETE))
            name = f"o{number}" if storage == "store" else None
            catalog.finish([finished(number, storage=storage, object_name=name)], [])
        catalog.set_state(["a0", "a1", "a2"], State.DELETED)
        assert [record.object_name for record in catalog.content_to_remove(9)] == ["o0", "o1"]
        assert [record.id for record in catalog.content_to_remove(1)] == ["a0"]
        catalog.content_removed(["a1", "a3", "a9"])
        assert [record.id for record in catalog.content_to_remove(9)] == ["a0"]
        assert catalog.drop_attachments([State.DELETED], 9, 9, deleted) == (2, 0)
        assert (known(catalog, 0).object_name, known(catalog, 3).object_name) == ("o0", "o3")

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
        assert catalog.drop_attachments(every, 5, 1, deleted) == (1, 0)
        assert catalog.drop_attachments([State.DELETED], 5, 9, deleted) == (0, 0)
        assert catalog.drop_attachments(every, 9, 9, deleted) == (2, 1)
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
        assert catalog.drop_attachments([State.EXPIRED], 9, 9, deleted) == (1, 1)
        assert [event.subject for event in catalog.events_after(0, 9)] == ["a1", "a2"], "a0 and a5 were deleted before"
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
        catalog.checkpoint(Checkpoint(events=[HAPPENED._replace(time=time) for time in range(10)]))
        assert (catalog.prune_events(4, None, 3), catalog.prune_events(4, None, 3)) == (3, 1)
        assert catalog.prune_events(0, 4) == 2
        assert [event.time for event in catalog.events_after(0, 99)] == [6, 7, 8, 9]
        assert (catalog.kept()["events"], catalog.last_event()) == (Kept(4), 10)

    def test_events_stay_while_they_are_needed(self, catalog: Catalog) -> None:
        catalog.checkpoint(Checkpoint(events=[HAPPENED._replace(time=time) for time in range(10)]))
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
