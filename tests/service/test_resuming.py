"""Numbering continues where the journal ends, if the transport can prove that nothing is missing behind it."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from app.codecs.sas.attachment_messages import AttachmentEntry
from app.codecs.sas.correlid import BLANK_CORRELID, split
from app.codecs.sas.file_messages import FileDescription
from app.codecs.sas.rendezvous_messages import (
    RendezvousHeader,
    write_file_description,
    write_header,
    write_last,
    write_records,
)
from app.framing.arrivals import ArrivalsBySource
from app.framing.protocol import ArrivalOptions
from app.model.attachment import AttachmentKind, AttachmentState
from app.model.message import DELIVERY, GAP, UNREADABLE, PhysicalMessage
from app.service.assembling.assembler import Assembler
from app.service.context import ReceiverContext
from app.service.receiving.resumed_numbering import resume_numbering
from app.testing.gateway_stages import service_context
from tests.support.service_context import Connected

SOURCE = {"transport": "mqtt", "framing": "sas_rendezvous", "url": "mqtt://127.0.0.1", "topic": "t"}
SETTINGS: dict[str, Any] = {"sources": {"sas": SOURCE, "other": SOURCE}}
FDC, TWO_LINES = (write_file_description(FileDescription(80, size)) for size in (2, 4))


class Resuming(Connected):
    """A receiver that can continue, or cannot, and keeps what it was shown."""

    def __init__(self, *, continues: bool = True) -> None:
        super().__init__()
        self._continues = continues
        self.shown: list[PhysicalMessage] = []

    def resume(self, newest: Iterator[PhysicalMessage]) -> bool:
        self.shown += islice(newest, 100)
        return self._continues


def header(attachments: int = 1) -> bytes:
    entries = [
        AttachmentEntry(AttachmentKind.TEXT_FILE, BLANK_CORRELID, "FILENAME", f"{n}.txt", "")
        for n in range(attachments)
    ]
    return write_header(RendezvousHeader(BLANK_CORRELID, 0, BLANK_CORRELID, BLANK_CORRELID, attachments, entries))


def part(text: bytes = b"a") -> bytes:
    (body,) = write_records([text], "ATX")
    return body


def message(body: bytes, subject: str = "A", source: str = "sas", **more: str) -> PhysicalMessage:
    properties = {"rendezvous.subject": subject, **more}
    return PhysicalMessage(source, "sas_rendezvous", body=body, received_at=1, properties=properties)


def journal(context: ReceiverContext, arrivals: ArrivalsBySource, *messages: PhysicalMessage) -> list[PhysicalMessage]:
    """Number messages and journal them, each by itself; return what was journalled."""
    found: list[PhysicalMessage] = []
    for each in messages:
        numbered = arrivals.numbered([each])
        context.journal.append(numbered)
        found += numbered
    return found


def restarted(context: ReceiverContext, receiver: Resuming | None = None) -> ArrivalsBySource:
    arrivals = ArrivalsBySource(lambda name: ArrivalOptions(context.catalog.counting(name)))
    resume_numbering(context, {"sas": receiver or Resuming()}, arrivals)
    return arrivals


def assemble(context: ReceiverContext) -> None:
    Assembler(context, lambda _complete: None, read_early=False).recover()


def numbers(messages: Sequence[PhysicalMessage]) -> list[int | str]:
    return [
        each.properties["refused-code"] if each.framing == UNREADABLE else split(each.correl_id)[1] for each in messages
    ]


def states(context: ReceiverContext) -> dict[str, int]:
    found: dict[str, int] = {}
    for state in AttachmentState:
        if count := len(context.catalog.attachments(filter_of(state), None, 100).items):
            found[state.value] = count
    return found


def filter_of(state: AttachmentState) -> Any:
    from app.ports import AttachmentFilter  # noqa: PLC0415

    return AttachmentFilter(state=state)


@pytest.mark.parametrize("is_assembled", [False, True], ids=["by Spark, later", "at once"])
def test_what_was_open_continues(tmp_path: Path, is_assembled: bool) -> None:
    with service_context(tmp_path, **SETTINGS) as context:
        arrivals = ArrivalsBySource()
        begun = journal(
            context, arrivals, *(message(each, subject) for each in (header(), FDC, part()) for subject in "AB")
        )
        journal(context, arrivals, message(header(), source="other"))
        if is_assembled:
            assemble(context)
        receiver = Resuming()
        again = restarted(context, receiver)
        assert [each.correl_id for each in receiver.shown] == [each.correl_id for each in reversed(begun)]
        ended = journal(context, again, message(part(), "B"), message(part()), message(write_last(3)), message(part()))
        assert numbers(ended) == [3, 3, 0, "no-header"]
        assert {split(each.correl_id)[0] for each in ended[1:3]} == {split(begun[2].correl_id)[0]}
        assemble(context)
        assert states(context)["complete"] == 1


def test_where_nothing_is_proved_nothing_continues(tmp_path: Path) -> None:
    with service_context(tmp_path, **SETTINGS) as context:
        journal(context, ArrivalsBySource(), message(header()), message(FDC))
        assemble(context)
        again = restarted(context, Resuming(continues=False))
        assert numbers(journal(context, again, message(part()))) == ["no-header"]


def test_what_a_message_in_the_journal_ended_has_ended(tmp_path: Path) -> None:
    with service_context(tmp_path, **SETTINGS) as context:
        arrivals = ArrivalsBySource()
        journal(context, arrivals, message(header()), message(FDC), message(header(), "B"), message(FDC, "B"))
        journal(context, arrivals, message(header(), "C", **{GAP: "lost"}), message(FDC, "C"))
        journal(context, arrivals, message(write_last(1), "C"))
        assemble(context)
        assert states(context) == {"receiving": 2, "complete": 1}
        again = restarted(context)
        ended = journal(context, again, *(message(part(), subject) for subject in "ABC"), message(header(), "C"))
        assert numbers(ended) == ["no-header"] * 3 + [0]


def test_messages_of_what_has_ended_are_left_out(tmp_path: Path) -> None:
    """Others of them may be gone: here the last message of an attachment was retired with its segment."""
    with service_context(tmp_path, **SETTINGS) as context:
        arrivals = ArrivalsBySource()
        journal(context, arrivals, message(header()), message(FDC), message(header(), "B"), message(FDC, "B"))
        context.journal.seal()
        journal(context, arrivals, message(write_last(1), "B"))
        context.journal.seal()
        assemble(context)
        context.journal.retire(context.journal.segments()[-1].number)
        again = restarted(context)
        assert numbers(journal(context, again, message(header(), "B"), message(FDC, "B"), message(part()))) == [0, 1, 2]


def test_a_message_that_was_journalled_again_counts_once(tmp_path: Path) -> None:
    with service_context(tmp_path, **SETTINGS) as context:
        begun = journal(context, ArrivalsBySource(), message(header()), message(FDC, **{DELIVERY: "d"}))
        context.journal.append([each.replayed() for each in begun])
        receiver = Resuming()
        again = restarted(context, receiver)
        assert [each.properties.get(DELIVERY) for each in receiver.shown] == [None, None, "d", None]
        assert numbers(journal(context, again, message(header(), "B"), message(FDC, "B"), message(part(), "B"))) == [
            0,
            1,
            2,
        ]


def test_how_senders_count_is_shown_by_the_journal_where_the_catalog_does_not_know(tmp_path: Path) -> None:
    with service_context(tmp_path, **SETTINGS) as context:
        whole = [header(), FDC, part(), write_last(3)]
        arrivals = ArrivalsBySource()
        journal(context, arrivals, *map(message, whole), *map(message, whole))
        assemble(context)
        assert (learned := arrivals.take_learned("sas"))
        assert context.catalog.counting("sas") == {}
        restarted(context, Resuming(continues=False))
        assert context.catalog.counting("sas") == learned
