"""Rows that other processes have packed are what a checkpoint would have written."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest

from app import plugins
from app.model.attachment import AttachmentKind
from app.model.evidence import Choice, Ground, Question
from app.model.records import (
    AttachmentRecord,
    Checkpoint,
    EventRecord,
    Extent,
    Finished,
    GroupProgress,
    MessageRecord,
    NewEvent,
)
from app.ports import PACKED_AT_ONCE, Catalog, Packed
from tests.contracts.catalog.records import State, attachment, finished, keep, known, message

NOW = 77
ANY = "tab\t, line\n\r\v, \\N \\x00 \\, \"quotes', %s %(now)s :now, \0\x1a\ud800, Grüße €"


def pack(catalog: Catalog, checkpoint: Checkpoint) -> Packed:
    packing = catalog.packing()
    assert packing is not None
    return plugins.catalog().pack(packing, checkpoint)


def complete(number: int) -> tuple[AttachmentRecord, Finished, NewEvent]:
    """One of every kind of value in each place that a sender fills."""
    record = attachment(
        number,
        State.COMPLETE,
        message_id=None if number % 2 else f"m{number}",
        kind=AttachmentKind.DATA_SET if number % 3 else None,
        qualifier_1=ANY,
        qualifier_2=f"{ANY}{number}",
        description="" if number % 2 else ANY,
        dialects=(1 << 64) - number,
        parts_expected=number,
        bytes_received=1 << 62,
        pending_counts=(1, number),
        group=GroupProgress(None, number, 1 << 40) if number % 2 else None,
        completed_at=number,
        trace_parent=ANY if number % 2 else None,
    )
    in_journal = {"storage": "journal", "object_name": None, "extents": (Extent(1, 2, number), Extent(1, 9, 1 << 40))}
    found = finished(
        number,
        checksums=bytes(range(256)) if number % 2 else None,
        dialects=None if number % 2 else 5,
        observations=number,
        warnings=(ANY, "two") if number % 3 else (),
        evidence=(Choice(Question.DIALECT, ANY, Ground.PREFERENCE, (ANY, "b")),) if number % 3 else (),
        **(in_journal if number % 2 else {}),
    )
    data: dict[str, object] = {"name": ANY, "size": number, "list": [None, 1.5]}
    return record, found, NewEvent("attachment.finished", record.id, 0, data, record.trace_parent)


def checkpoint(*numbers: int) -> Checkpoint:
    records, found, events = (list(each) for each in zip(*map(complete, numbers), strict=True))
    return Checkpoint(attachments=records, finished=found, events=events)


def events(catalog: Catalog) -> list[EventRecord]:
    return catalog.events_after(0, 1000)


class PackedRows:
    """A part of `CatalogContract`, which the tests of adapters inherit."""

    def test_packed_rows_say_what_a_checkpoint_says(self, catalog: Catalog) -> None:
        """Packages of different sizes follow each other, some together, some as checkpoints."""
        ends = [1, 3, 150, 151, 153, 160]
        for is_packed, (first, end) in enumerate(pairwise(ends)):
            some = checkpoint(*range(first, end))
            if is_packed % 4:
                bounds = pairwise(sorted({*range(first, end, max(1, (end - first) // (PACKED_AT_ONCE - 1))), end}))
                assert catalog.add_finished([pack(catalog, checkpoint(*range(*each))) for each in bounds], NOW)
            else:
                some.finished = [replace(each, finished_at=NOW) for each in some.finished]
                some.events = [event._replace(time=NOW) for event in some.events]
                assert catalog.checkpoint(some) == set()
        for number in range(ends[0], ends[-1]):
            record, found, _ = complete(number)
            names = (
                "size",
                "sha256",
                "content_type",
                "storage",
                "object_name",
                "checksums",
                "observations",
                "warnings",
            )
            outcome = {name: getattr(found, name) for name in (*names, "warnings", "evidence")}
            outcome |= {"finished_at": NOW, "state": State.FINISHED}
            dialects = record.dialects if found.dialects is None else found.dialects
            assert known(catalog, number) == replace(record, **outcome, dialects=dialects)
            assert catalog.extents(record.id) == found.extents
        told = [(event.number, event[1:]) for event in events(catalog)]
        wanted = [complete(number)[2]._replace(time=NOW) for number in range(ends[0], ends[-1])]
        assert told == [*enumerate(map(tuple, wanted), 1)]

    def test_packed_attachments_are_all_new_or_none_is_added(self, catalog: Catalog) -> None:
        keep(catalog, attachment(2, State.DELETED))
        before = known(catalog, 2)
        assert not catalog.add_finished([pack(catalog, checkpoint(1, 3)), pack(catalog, checkpoint(2))], NOW)
        same_key = checkpoint(4)
        same_key.attachments = [replace(same_key.attachments[0], correl_id=before.correl_id)]
        assert not catalog.add_finished([pack(catalog, same_key)], NOW)
        assert [catalog.attachment(f"a{number}") for number in range(1, 5)] == [None, before, None, None]
        assert events(catalog) == []
        assert catalog.add_finished([pack(catalog, checkpoint(1)), pack(catalog, checkpoint(3))], NOW)

    def test_attachments_are_left_out_of_packed_rows(self, catalog: Catalog) -> None:
        keep(catalog, attachment(2, State.DELETED))
        before = known(catalog, 2)
        packed = [pack(catalog, checkpoint(1, 2)), pack(catalog, checkpoint(3, 4))]
        assert catalog.add_finished(packed, NOW, ["a2", "a3"])
        assert [known(catalog, number).state for number in (1, 4)] == [State.FINISHED] * 2
        assert [catalog.attachment(f"a{number}") for number in (2, 3)] == [before, None]
        assert [event.subject for event in events(catalog)] == ["a1", "a4"]
        assert [catalog.extents(f"a{number}") != () for number in (1, 2, 3)] == [True, False, False]

    def test_packed_rows_are_read_back(self, catalog: Catalog) -> None:
        given = checkpoint(*range(1, 9))
        given.messages = [message(1, "a1", application_body=b"\0\\x", application_format=ANY), message(2, source=ANY)]
        read = catalog.unpacked(pack(catalog, given))
        dialects = [
            record.dialects if each.dialects is None else each.dialects
            for each, record in zip(given.finished, given.attachments, strict=True)
        ]
        assert sorted(read.finished, key=lambda each: each.id) == [
            replace(each, dialects=known, finished_at=0) for each, known in zip(given.finished, dialects, strict=True)
        ]
        assert sorted(read.attachments, key=lambda record: record.id) == [
            replace(record, dialects=known) for record, known in zip(given.attachments, dialects, strict=True)
        ]
        assert sorted(read.messages, key=lambda each: each.id) == given.messages
        assert catalog.attachment("a1") is None

    def test_packed_messages_are_complete_if_all_their_attachments_are_finished(self, catalog: Catalog) -> None:
        answer = {"application_body": b"\0\\x", "application_format": ANY, "application_ccsid": 1208}
        assert catalog.add_finished([pack(catalog, checkpoint(1, 2, 3, 4))], NOW)
        keep(catalog, attachment(5, State.COMPLETE))
        before = len(events(catalog))
        catalog.checkpoint(Checkpoint(messages=[message(1, "a1", **answer), message(2, "a2", complete_at=3)]))
        new: list[MessageRecord] = [
            message(1, "a1"),
            message(2, "a2"),
            message(3, "a3", "a4", **answer),
            message(4, "a4", "a5", source=ANY),
            message(5, "a9"),
        ]
        told = [NewEvent("message.complete", each.id, 0, {"source": each.source}) for each in new]
        both = [Checkpoint(messages=new[some], events=told[some]) for some in (slice(0, 3), slice(3, None))]
        for _ in range(2):
            catalog.add_messages([pack(catalog, each) for each in both], NOW)
            assert [catalog.message(each.id) for each in new] == [
                message(1, "a1", **answer, complete_at=NOW),
                message(2, "a2", complete_at=3),
                replace(new[2], complete_at=NOW),
                *new[3:],
            ]
            assert [event[1:] for event in events(catalog)[before:]] == [told[at]._replace(time=NOW) for at in (0, 2)]

    def test_checkpoints_are_written_all_or_none(self, catalog: Catalog) -> None:
        def some() -> Iterator[Checkpoint]:
            yield Checkpoint(attachments=[attachment(1)])
            raise RuntimeError("the second one cannot be made")

        with pytest.raises(RuntimeError):
            catalog.checkpoints(some())
        assert catalog.attachment("a1") is None
        keep(catalog, attachment(2, State.DELETED))
        record, found, event = complete(2)
        last = Checkpoint(attachments=[record], finished=[found], events=[event], progress=9)
        assert catalog.checkpoints([Checkpoint(attachments=[attachment(1)]), last]) == {"a2"}
        assert (known(catalog, 1).state, known(catalog, 2).state) == (State.RECEIVING, State.DELETED)
        assert (catalog.progress(), events(catalog)) == (9, [])
