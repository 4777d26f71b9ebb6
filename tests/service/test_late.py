"""What comes for attachments that have expired, after the journal has let go of what had come before; and what comes
again, after assembly has let go of it."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

from adapters.object_store import ObjectStore
from app.model.attachment import AttachmentState
from app.model.errors import StoreFull
from app.model.identity import message_id
from app.model.records import AttachmentRecord
from app.ports import AttachmentFilter
from app.service.finishing.finisher import Finisher
from app.service.receiving.journal_upkeep import seal_old_segment
from app.testing.gateway_stages import ManualClock, service_context
from tests.support.host import SOURCE, Host
from tests.support.sas_client import APPLICATION_BODY, Program, binary_file, text_file
from tests.support.service_context import receive_for


def expire_and_retire(host: Host) -> None:
    """All that is unfinished expires, and the journal keeps nothing of it."""
    receive_for(host.times, host.clock, 8)
    host.sweep()
    host.receive(host.messages(binary_file(host.program, "news", b"")))
    receive_for(host.times, host.clock, 8)
    host.sweep()
    host.assembler.recover()
    assert host.segments() == [2]


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    clock = ManualClock()
    with service_context(tmp_path, clock) as context:
        yield Host(context, clock)


def test_a_header_for_an_application_message_that_is_gone(host: Host) -> None:
    header, application, *rest = host.messages(attached := binary_file(host.program, "a", b"x" * 100_000))
    host.receive([application])
    expire_and_retire(host)
    host.receive([header, *rest])
    assert host.record(attached).state is AttachmentState.FINISHED
    identifier = message_id(SOURCE, header.correl_id)
    waiting = host.context.catalog.message(identifier)
    assert waiting is not None
    assert waiting.application_body is None
    host.receive([application])
    answered = host.context.catalog.message(identifier)
    assert answered is not None
    assert answered.application_body == application.body
    assert answered.complete_at is not None


def test_a_header_for_a_bad_count_that_is_gone(host: Host) -> None:
    header, _, *parts, count = host.messages(attached := binary_file(host.program, "a", b"x" * 100_000))
    host.receive([count._replace(body=b"no count")])
    expire_and_retire(host)
    host.receive([header, *parts, count])
    assert host.record(attached).state is AttachmentState.FINISHED


def test_a_count_for_parts_that_were_read_early_and_are_gone(host: Host) -> None:
    attached = binary_file(host.program, "a", b"x" * 100_000)
    *others, count = host.messages(attached)
    host.receive(others)
    expire_and_retire(host)
    host.receive([count])
    record = host.record(attached)
    assert (record.state, record.reason_code) == (AttachmentState.RECEIVING, None)
    host.receive(others)
    assert host.record(attached).state is AttachmentState.FINISHED


def test_what_is_sent_again_begins_a_new_life(host: Host) -> None:
    attached = binary_file(host.program, "a", b"x" * 100_000)
    *others, count = host.messages(attached)
    host.receive(others)
    expire_and_retire(host)
    expired = host.record(attached)
    assert (expired.state, expired.parts_received) == (AttachmentState.EXPIRED, 0)
    assert "begins anew" in (expired.reason or "")
    host.receive([*others[1:], others[0], count])
    host.assert_whole(attached)


@pytest.mark.parametrize("restarted", [False, True])
def test_parts_that_were_lost_with_their_segment_may_be_sent_again(host: Host, *, restarted: bool) -> None:
    """They are not taken for duplicates, neither by who has them in memory nor by who reads them from the catalog."""
    attached = binary_file(host.program, "a", b"x" * 200_000)
    *others, last, count = host.messages(attached)
    host.receive(others)
    host.context.journal.seal()
    host.receive([last])
    host.context.journal.retire(1)
    if restarted:
        host.assembler.forget()
    host.receive([*others, last, count])
    host.assert_whole(attached)


def test_a_complete_attachment_whose_parts_are_lost_begins_a_new_life(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What was read as it came would be finished by the checkpoint.
    monkeypatch.setattr("app.service.finishing.incremental.IncrementalReader.take", lambda *_: None)
    attached = binary_file(host.program, "a", b"x" * 200_000)
    sent = host.messages(attached)
    host.context.journal.append(sent)
    host.assembler.recover()
    host.context.journal.seal()
    host.context.journal.append(host.messages(binary_file(host.program, "news", b"")))
    host.context.journal.retire(1)
    host.receive([])
    record = host.record(attached)
    assert (record.state, record.parts_received) == (AttachmentState.RECEIVING, 0)
    host.receive(sent)
    host.assert_whole(attached)


def test_finished_content_that_cannot_be_stored_keeps_no_room_from_being_made(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StoreFull("no space left")

    host.receive(host.messages(binary_file(host.program, "a", b"x" * 100_000)))
    host.receive(host.messages(binary_file(host.program, "b", b""))[:1])
    with monkeypatch.context() as disk:
        disk.setattr(ObjectStore, "create", full)
        receive_for(host.times, host.clock, 8)
        seal_old_segment(host.context)
        host.sweep()
    states = [each.state for each in host.context.catalog.attachments(AttachmentFilter(), None, 9).items]
    assert sorted(states) == [AttachmentState.EXPIRED, AttachmentState.FINISHED]
    assert all(segment.sealed_at is not None for segment in host.context.journal.segments())


def test_parts_that_come_again_while_their_attachment_is_finished(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread finishes it after its record was read, and before its parts are."""
    messages = host.messages(attached := text_file(host.program, "a", b"a line\n" * 20_000))
    host.context.journal.append(messages)
    host.assembler.recover()
    assert host.record(attached).state is AttachmentState.COMPLETE
    read = host.context.catalog.attachments_by_key

    def finished_meanwhile(source: str, correl_ids: Sequence[bytes]) -> dict[bytes, AttachmentRecord]:
        found = read(source, correl_ids)
        Finisher(host.context, host.assembler.change).finish(host.complete)
        host.complete.clear()
        return found

    monkeypatch.setattr(host.context.catalog, "attachments_by_key", finished_meanwhile)
    _, _, *parts, _ = messages
    host.receive(parts)
    assert host.entries() == []
    assert host.record(attached).duplicates == len(parts)
    host.assert_whole(attached)


@pytest.mark.parametrize("is_before", [False, True], ids=["after the header", "before the header"])
def test_an_application_message_that_comes_again_beside_a_header_of_another_is_known(
    host: Host, is_before: bool
) -> None:
    """Correlids of both messages begin in the same way."""
    host.program = Program(Random(5), numbers_messages=True)
    first, (header, *others) = (host.messages(binary_file(host.program, name, b"x")) for name in ("a", "b"))
    host.receive(first)
    again = next(each for each in first if each.body == APPLICATION_BODY)
    host.receive([again, header, *others] if is_before else [header, again, *others])
    found = host.context.catalog.attachments(AttachmentFilter(), None, 9).items
    assert [record.state for record in found] == ["finished", "finished"]
