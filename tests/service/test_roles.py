"""What each role of a process does, and who is the keeper."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import enumerate as threads
from typing import Any

import pytest
from structlog.testing import capture_logs

from adapters.arrow_journal.segment_files import SegmentState
from adapters.arrow_journal.segment_storage import FolderSegments
from app import plugins
from app.model.errors import DamagedError, LeaseLost, NotArchived
from app.model.message import PhysicalMessage, Position
from app.model.records import Checkpoint, EventRecord, NewEvent
from app.ports import HeldLease
from app.service import gateway as gateway_module
from app.service.content.archived import is_archived, newest_readable
from app.service.content.settling import Settler
from app.service.context import ReceiverContext, ServiceContext
from app.service.events.event_reader import AT_ONCE, CurrentLogs, EventReader
from app.service.gateway import Gateway
from app.service.monitoring.physical_messages import FoundMessages, PhysicalMessages
from app.service.monitoring.timeline import timeline
from app.service.retention.receiving_time import SavedReceivingTime
from app.service.retention.removal import Sweeper
from app.service.roles import election
from app.service.roles.keeping import KEEPER
from app.service.sending.delivery_creation import LONGEST_UPLOAD, AbandonedUploads
from app.settings import Role
from app.testing.gateway_stages import ManualClock, service_context
from app.testing.waiting import until
from tests.support.host import Host
from tests.support.roles import archive_of, own, term
from tests.support.sas_client import binary_file
from tests.support.service_context import receive_for


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def context(tmp_path: Path, clock: ManualClock) -> Iterator[ReceiverContext]:
    with service_context(tmp_path, clock) as made:
        yield made


def named(role: str) -> set[str]:
    """Return the threads of a role by the table of `app.service.gateway`."""
    rows = [row.split("|")[1:3] for row in (gateway_module.__doc__ or "").splitlines() if row.startswith("| ")]
    return {name for whose, names in rows if role in whose for name in re.findall(r"`([^`]+)`", names)}


@pytest.mark.parametrize("role", [Role.SERVE, Role.KEEP])
def test_a_process_runs_the_threads_of_its_roles(context: ReceiverContext, role: Role) -> None:
    before = set(threads())  # not their identifiers, which a new thread gets again
    made = Gateway(archive_of(context, frozenset({role})), {}, {})
    # The catalog of this test is a file, whose lock another process would take.
    made.receiving.recover = lambda: None  # type: ignore[method-assign]
    made.start()
    try:
        found = {thread.name for thread in threads() if thread not in before}
        allowed = named(role.value) | named("any")
        assert found <= allowed
        assert named("any") <= found
        assert ("keeper" in found) == (role is Role.KEEP)
        assert not found & named("receive")
    finally:
        made._keeper.stop()
        made._keeper.release()
        made._stop.set()


def test_the_keeper_that_takes_over_continues_the_lines_of_events(context: ReceiverContext) -> None:
    def happen(number: int) -> None:
        event = NewEvent("attachment.finished", f"a{number}", number, {"source": "s", "name": "n"})
        context.catalog.checkpoint(Checkpoint(events=[event]))

    def logged() -> list[str]:
        return [each["id"] for each in logs if each["event"] == "attachment_finished"]

    with capture_logs() as logs:
        for turn in range(3):
            happen(2 * turn)  # while nobody is the keeper, except the first time, when nobody was before
            made = Gateway(context, {}, {})
            made.start()
            happen(2 * turn + 1)
            until(lambda turn=turn: f"a{2 * turn + 1}" in logged())  # type: ignore[misc]
            made._stop.set()
            made._keeper.stop()
            made.events.read()
            made._keeper.release()
            made.receiving.stop()
    assert logged() == ["a1", "a2", "a3", "a4", "a5"]
    fourth = context.catalog.take_lease(KEEPER, "another", 1.0)
    assert fourth is not None, "each of the three has given it up"
    assert fourth.epoch == 4


def test_a_keeper_whose_lease_was_taken_stops_and_is_a_candidate_again(
    context: ReceiverContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Gateway(archive_of(context, frozenset({Role.KEEP})), {}, {})
    monkeypatch.setattr(made._keeper, "_at_once", False)
    made._keeper.retry = 0.01
    made._keeper.start()
    first = term(made)
    other = context.catalog.take_lease(KEEPER, "other", 3600, at_once=True)
    assert other is not None
    with pytest.raises(LeaseLost):
        first._context.catalog.flush()  # what is at work meanwhile writes nothing
    until(lambda: made._keeper.term is None)
    assert first.stop.is_set()
    assert not made._keeper.check()["is_held"]
    context.catalog.release_lease(other)
    until(lambda: made._keeper.term not in (None, first))
    made._keeper.stop()
    made._keeper.release()


def test_a_keeper_that_cannot_renew_stops_before_the_lease_ends(
    context: ReceiverContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Gateway(archive_of(context, frozenset({Role.KEEP})), {}, {})
    monkeypatch.setattr(made._keeper, "_at_once", False)
    assert made._keeper.renew_deadline < made._keeper.seconds
    made._keeper.retry, made._keeper.renew_deadline = 0.01, 0.1
    renewed = context.catalog.renew_lease
    is_away = False

    def renew(*given: Any) -> bool:
        if is_away:
            raise LeaseLost("the catalog is away")
        return renewed(*given)

    monkeypatch.setattr(context.catalog, "renew_lease", renew)
    made._keeper.start()
    first = term(made)
    is_away = True
    until(first.stop.is_set)
    is_away = False
    until(lambda: made._keeper.term not in (None, first))
    made._keeper.stop()
    made._keeper.release()


def test_a_lease_that_was_taken_late_is_renewed_before_the_work_begins(
    context: ReceiverContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who takes it may have to wait for a transaction of the keeper before, which is paused."""
    made = Gateway(archive_of(context, frozenset({Role.KEEP})), {}, {})
    monkeypatch.setattr(made._keeper, "_at_once", False)
    now, taken = 1000.0, context.catalog.take_lease

    def take(*given: Any, **more: Any) -> HeldLease | None:
        nonlocal now
        now += made._keeper.renew_deadline + 1
        return taken(*given, **more)

    monkeypatch.setattr(election, "monotonic", lambda: now)
    monkeypatch.setattr(context.catalog, "take_lease", take)
    made._keeper.campaign()
    assert made._keeper.term is not None
    assert not made._keeper.is_over()
    made._keeper.stop()
    made._keeper.end()


def test_messages_of_a_segment_that_is_not_archived_yet_are_not_gone(
    context: ReceiverContext, clock: ManualClock
) -> None:
    host = Host(context, clock)
    attached = binary_file(host.program, "a.bin", bytes(200_000))
    first, *rest = host.messages(attached)
    host.receive([first, *rest[:2]])
    other = archive_of(context, frozenset({Role.SERVE}))

    def found(context: ServiceContext, after: Position | None = None) -> FoundMessages:
        return PhysicalMessages(host.record(attached), context).page(after, 99)

    with pytest.raises(NotArchived, match="segment 1 of the journal is not, or not yet, in the archive"):
        found(other)
    assert [moment.type for moment in timeline(host.record(attached), other)].count("first-message") == 1
    context.journal.seal()
    begun = found(other)
    assert begun == found(context)
    host.receive(rest[2:])
    assert found(other)._replace(next=None) == begun
    following = found(other).next
    assert following is not None
    with pytest.raises(NotArchived):
        found(other, following)
    context.journal.seal()
    assert [*begun.items, *found(other, following).items] == found(other).items == found(context).items
    assert not found(other).gone


def test_content_of_a_segment_that_is_not_archived_yet_is_not_damaged(
    context: ReceiverContext, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(context, clock)
    attached = binary_file(host.program, "a.bin", bytes(200_000))
    host.receive(host.messages(attached))
    record = host.record(attached)
    assert record.storage == "journal"
    extents = context.catalog.extents_of([record.id])[record.id]
    other = archive_of(
        context, frozenset({Role.SERVE}), journal={"archive_url": str(context.settings.data / "journal")}
    )
    made = Gateway(other, {}, {})
    with pytest.raises(NotArchived, match="is not, or not yet, in the archive"):
        [*made.contents.open(record).compared()]
    with pytest.raises(NotArchived):
        other.journal.read(Position(extents[0].segment, 0, 0))
    assert is_archived(extents, newest_readable(context))
    assert not is_archived(extents, newest_readable(other))
    clock.advance(60)
    settler = Settler(other)
    settler.settle()  # leaves it out
    assert settler.check()["ok"]
    assert context.catalog.unsettled_attachments(clock.now(), 9) == [record]
    assert made.health().checks["content"]["ok"]

    def archived_meanwhile(_: FolderSegments, number: int) -> SegmentState:
        context.journal.seal()
        raise KeyError(number)

    with monkeypatch.context() as patched:
        patched.setattr(FolderSegments, "find", archived_meanwhile)
        assert other.journal.read(Position(extents[0].segment, 0, 0)).source
    assert b"".join(made.contents.open(record).compared()) == bytes(200_000)
    with pytest.raises(KeyError):
        other.journal.read(Position(0, 0, 0))  # this one is gone


def test_damage_that_a_process_without_the_journal_finds_is_healed_by_the_one_that_has_it(
    context: ReceiverContext, clock: ManualClock
) -> None:
    host, receiving = Host(context, clock), Gateway(context, {}, {})
    attached = binary_file(host.program, "a.bin", bytes(200_000))
    host.receive(host.messages(attached))
    clock.advance(60)
    Settler(context).settle()
    record = host.record(attached)
    assert record.object_name is not None
    file = Path(context.store.local_path(record.object_name) or "")
    file.chmod(0o600)
    file.write_bytes(b"x" + file.read_bytes()[1:])
    serving = Gateway(archive_of(context, frozenset({Role.SERVE})), {}, {})
    with pytest.raises(DamagedError):
        [*serving.contents.open(record).compared()]
    receiving.events.read()
    assert receiving.health().checks["content"]["damaged"] == 1
    for _ in range(2):  # more of it may be arriving
        own(receiving)._healer.step()
    assert receiving.health().checks["content"]["ok"]
    assert b"".join(serving.contents.open(host.record(attached)).compared()) == bytes(200_000)


def test_what_expires_is_known_by_the_time_that_another_process_counted(
    context: ReceiverContext, clock: ManualClock
) -> None:
    host = Host(context, clock)
    *first, _last = host.messages(binary_file(host.program, "a.bin", bytes(40_000)))
    host.receive(first)
    host.times.step()
    sweeper = Sweeper(context, SavedReceivingTime(context.catalog))
    sweeper.sweep()
    assert context.catalog.counts()["attachments"]["receiving"] == 1
    receive_for(host.times, clock, 8)
    host.times.save()
    sweeper.sweep()
    assert context.catalog.counts()["attachments"]["expired"] == 1


def test_uploads_of_no_delivery_are_removed_when_no_request_can_be_at_work(
    context: ReceiverContext, clock: ManualClock
) -> None:
    with context.store.create("outgoing/d1/0") as target:
        target.write(b"x")
    uploads = AbandonedUploads(context)
    uploads.step()
    clock.advance(LONGEST_UPLOAD)
    with context.store.create("outgoing/d2/0") as target:
        target.write(b"y")
    uploads.step()
    assert len([*context.store.names("outgoing/")]) == 2
    clock.advance(1)
    uploads.step()
    assert [*context.store.names("outgoing/")] == ["outgoing/d2/0"]


def test_events_are_read_once_for_all_who_follow(context: ReceiverContext) -> None:
    asked: list[int] = []
    read = context.catalog.events_after

    def counted(number: int, limit: int) -> list[EventRecord]:
        asked.append(number)
        return read(number, limit)

    context.catalog.checkpoint(Checkpoint(events=[NewEvent("x", str(n), n, {}) for n in range(5)]))
    reader = EventReader(replace_method(context, counted))
    early: list[int] = []
    late: list[int] = []
    reader.follow(lambda events: early.extend(each.number for each in events), 2)
    follower = reader.follow(lambda events: late.extend(each.number for each in events))
    context.catalog.checkpoint(Checkpoint(events=[NewEvent("x", "x", 9, {})]))
    reader.read()
    assert (early, late, follower.after) == ([3, 4, 5, 6], [6], 6)
    assert asked == [2, 6]
    reader.leave(follower)
    context.catalog.checkpoint(Checkpoint(events=[NewEvent("x", "x", 9, {})]))
    reader.read()
    assert (early[-1], late) == (7, [6])


def test_who_cannot_take_events_keeps_them_from_no_other(context: ReceiverContext) -> None:
    taken: dict[str, list[int]] = {"sound": [], "failing": []}
    is_failing = True

    def take(events: Sequence[EventRecord]) -> None:
        if is_failing:
            raise ZeroDivisionError
        taken["failing"].extend(each.number for each in events)

    reader = EventReader(context.catalog)
    reader.follow(take)
    reader.follow(lambda events: taken["sound"].extend(each.number for each in events))
    numbers = list(range(1, 2 * AT_ONCE + 2))
    context.catalog.checkpoint(Checkpoint(events=[NewEvent("x", str(n), n, {}) for n in numbers]))
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            reader.read()
        assert taken == {"sound": numbers, "failing": []}
    is_failing = False
    reader.read()
    assert taken == {"sound": numbers, "failing": numbers}


def replace_method(context: ReceiverContext, events_after: Any) -> Any:
    """Return the catalog with another `events_after`."""

    class Counted:
        last_event = staticmethod(context.catalog.last_event)
        newest_log = staticmethod(context.catalog.newest_log)
        event_logs = staticmethod(context.catalog.event_logs)

    Counted.events_after = staticmethod(events_after)  # type: ignore[attr-defined]
    return Counted()


def test_an_event_of_a_log_that_another_process_began_is_named_by_that_log(context: ReceiverContext) -> None:
    catalog, identity = context.catalog, context.journal.identity()
    catalog.bind(identity)
    catalog.checkpoint(Checkpoint(events=[NewEvent("x", "x", 1, {})]))
    logs = CurrentLogs(catalog)
    first = logs.read().identify(1)
    catalog.bind(identity)  # the process that receives has begun again
    catalog.checkpoint(Checkpoint(events=[NewEvent("x", "x", 2, {})]))
    second = logs.read().identify(2)
    assert logs.known.identify(1) == first
    assert first.partition("-")[2] != second.partition("-")[2]
    assert catalog.event_logs().number(second) == 2


def test_messages_of_the_journal_are_replayed_from_an_archive(context: ReceiverContext) -> None:
    sent = [PhysicalMessage("s", "sas_queue", body=bytes([n])) for n in range(4)]
    positions = [position for each in sent for position in context.journal.append([each])]
    context.journal.seal()
    archive = plugins.archive()(context.settings.data / "journal")
    for after in (None, positions[1]):
        replayed = [
            (at, bytes(message.body))
            for some, found in archive.replay(after)
            for at, message in zip(some, found, strict=True)
        ]
        own = [
            (at, bytes(message.body))
            for some, found in context.journal.replay(after)
            for at, message in zip(some, found, strict=True)
        ]
        assert replayed == own
        assert len(own) == (4 if after is None else 2)
