"""What comes for attachments that have expired, after the journal has let go of what had come before."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

from adapters.object_store import ObjectStore
from app.model.attachment import AttachmentState
from app.model.errors import StoreFull
from app.model.identity import attachment_id, message_id
from app.model.message import PhysicalMessage
from app.model.records import AttachmentRecord, Finished
from app.ports import AttachmentFilter
from app.service.assembler import Assembler
from app.service.finisher import Finisher
from app.service.surroundings import Surroundings
from app.service.sweeper import Sweeper
from tests.support.sas_client import Attached, Program, binary_file, message
from tests.support.surroundings import ManualClock, surroundings

SOURCE = "orders"
EIGHT_DAYS = 8 * 86_400


class Host:
    """The service's stages one after the other in this thread, under a clock of the test's."""

    def __init__(self, around: Surroundings, clock: ManualClock) -> None:
        self.around, self.clock, self.program = around, clock, Program(Random(5))
        self.complete: dict[str, Finished | None] = {}
        self.assembler = Assembler(around, self.complete.update)
        self.sweeper = Sweeper(around)

    def messages(self, *attached: Attached) -> list[PhysicalMessage]:
        now = self.clock.now()
        return [each._replace(source=SOURCE, received_at=now) for each in message(self.program, attached)]

    def receive(self, messages: Sequence[PhysicalMessage]) -> None:
        self.around.journal.append(messages)
        self.assembler.recover()
        finisher = Finisher(self.around)
        while self.complete:
            finisher.finish(*self.complete.popitem())

    def expire_and_retire(self) -> None:
        """All that is unfinished expires, and the journal keeps nothing of it."""
        self.clock.advance(EIGHT_DAYS)
        self.sweeper.sweep()
        self.receive(self.messages(binary_file(self.program, "news", b"")))
        self.clock.advance(EIGHT_DAYS)
        self.sweeper.sweep()
        assert [segment.number for segment in self.around.journal.segments()] == [2]

    def record(self, attached: Attached) -> AttachmentRecord:
        record = self.around.catalog.attachment(attachment_id(SOURCE, attached.definition.correl_id))
        assert record is not None
        return record


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    clock = ManualClock()
    with surroundings(tmp_path, clock) as around:
        yield Host(around, clock)


def test_a_header_for_an_application_message_that_is_gone(host: Host) -> None:
    header, application, *rest = host.messages(attached := binary_file(host.program, "a", b"x" * 100_000))
    host.receive([application])
    host.expire_and_retire()
    host.receive([header, *rest])
    assert host.record(attached).state is AttachmentState.FINISHED
    identifier = message_id(SOURCE, header.correl_id)
    waiting = host.around.catalog.message(identifier)
    assert waiting is not None
    assert waiting.application_body is None
    host.receive([application])
    answered = host.around.catalog.message(identifier)
    assert answered is not None
    assert answered.application_body == application.body
    assert answered.complete_at is not None


def test_a_header_for_a_bad_count_that_is_gone(host: Host) -> None:
    header, _, *parts, count = host.messages(attached := binary_file(host.program, "a", b"x" * 100_000))
    host.receive([count._replace(body=b"no count")])
    host.expire_and_retire()
    host.receive([header, *parts, count])
    assert host.record(attached).state is AttachmentState.FINISHED


def test_a_count_for_parts_that_were_read_early_and_are_gone(host: Host) -> None:
    attached = binary_file(host.program, "a", b"x" * 100_000)
    *others, count = host.messages(attached)
    host.receive(others)
    host.expire_and_retire()
    host.receive([count])
    record = host.record(attached)
    assert (record.state, record.reason_code) == (AttachmentState.QUARANTINED, "parts-gone")


def test_finished_content_that_cannot_be_stored_keeps_no_room_from_being_made(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StoreFull("no space left")

    host.receive(host.messages(binary_file(host.program, "a", b"x" * 100_000)))
    host.receive(host.messages(binary_file(host.program, "b", b""))[:1])
    with monkeypatch.context() as disk:
        disk.setattr(ObjectStore, "create", full)
        host.clock.advance(EIGHT_DAYS)
        host.sweeper.seal_old_segment()
        host.sweeper.sweep()
    states = [each.state for each in host.around.catalog.attachments(AttachmentFilter(), None, 9).items]
    assert sorted(states) == [AttachmentState.EXPIRED, AttachmentState.FINISHED]
    assert all(segment.sealed_at is not None for segment in host.around.journal.segments())
