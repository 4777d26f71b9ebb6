"""What keeps a journal segment, what expires when, and what goes in the end."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from errno import EIO
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from adapters.memory import MemoryReceiver, QueueSettings, queue
from app.model.attachment import AttachmentState, DeliveryState
from app.model.errors import GatewayError
from app.model.identity import attachment_id
from app.model.message import PhysicalMessage, Position
from app.model.records import DeliveryRecord, NewEvent
from app.ports import AttachmentFilter
from app.service.content.settling import Settler
from app.service.context import ReceiverContext, at_once
from app.service.gateway import Gateway
from app.service.quarantine.quarantine_records import copy_quarantined
from app.service.receiving.catalog_claim import claim_again
from app.service.receiving.journal_upkeep import seal_old_segment
from app.service.retention.deletion import Deletion
from app.service.retention.removal import Remover, RetentionClock, Sweeper
from app.testing.gateway_stages import ManualClock, service_context
from app.testing.waiting import until
from tests.support.host import SOURCE, Host
from tests.support.roles import own
from tests.support.sas_client import Program, binary_file, message
from tests.support.service_context import receive_for

DEADLINE = 60.0
MANY = 300
MONTH = 30
FILES, GARBAGE = 50, 20
"""Of a day."""
SMALL = 64 << 10

Start = Callable[..., Host]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def begin(sources: tuple[str, ...] = (SOURCE,), **settings: Any) -> Host:
            clock = ManualClock()
            context = stack.enter_context(service_context(tmp_path, clock, segment_bytes=SMALL, **settings))
            return Host(context, clock, sources)

        yield begin


@contextmanager
def gateway(folder: Path, clock: ManualClock, name: str) -> Iterator[Gateway]:
    settings = {"sources": {SOURCE: {"transport": "memory", "queue": name}}, "limits": {"free_bytes": 0}}
    with service_context(folder, clock, segment_bytes=SMALL, **settings) as context:
        receiver = MemoryReceiver(SOURCE, "sas_queue", QueueSettings(queue=name))
        built = Gateway(context, {SOURCE: receiver}, {})
        Sweeper(context, own(built).times).sweep()  # as early as can be
        built.start()
        try:
            yield built
        finally:
            built.stop()


def states(gateway: Gateway) -> dict[str, int]:
    return {state: number for state, number in gateway.catalog.counts()["attachments"].items() if number}


# --- expiry -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("days", [30, -30])
def test_what_was_unfinished_before_a_long_time_down_finishes(tmp_path: Path, days: int) -> None:
    clock, name, program = ManualClock(), uuid4().hex, Program(Random(1))
    sent = [message(program, [binary_file(program, "a.bin", program.random.randbytes(2000))]) for _ in range(MANY)]
    with gateway(tmp_path, clock, name) as first:
        queue(name).put([each for whole in sent for each in whole[:2]])
        until(lambda: states(first).get("receiving") == MANY, DEADLINE)
        receive_for(own(first).stream.times, clock, 6)
    clock.leap(days * 86_400)
    with gateway(tmp_path, clock, name) as second:
        for _ in range(5):
            Sweeper(second.context, own(second).times).sweep()
        assert states(second) == {"receiving": MANY}
        clock.leap(days * 86_400)
        queue(name).put([each for whole in sent for each in whole[2:]])
        until(lambda: states(second) == {"finished": MANY}, DEADLINE)
        assert not [event for event in second.catalog.events_after(0, 10_000) if event.type == "attachment.expired"]


def test_what_expires_is_told_and_kept_for_a_grace_period(start: Start) -> None:
    host = start(expiry={"unfinished": "3d", "grace": "2d"}, retention={"journal": "1s", "expired": "10d"})
    attached = binary_file(host.program, "a.bin", bytes(40_000))
    *others, last = host.messages(attached)
    host.receive(others)
    host.receive_file(2 * SMALL)
    host.days(2)
    assert host.record(attached).state is AttachmentState.RECEIVING
    host.days(1.2)
    expired = host.record(attached)
    assert (expired.state, expired.reason_code) == (AttachmentState.EXPIRED, "expired")
    assert "3 days, 0:00:00 in which its source could receive; expired at 20" in (expired.reason or "")
    assert Position.unpack(expired.first_position).segment in host.segments()
    host.receive([last])
    host.assert_whole(attached)


def test_when_the_grace_period_is_over_nothing_is_kept(start: Start) -> None:
    host = start(expiry={"unfinished": "3d", "grace": "2d"}, retention={"journal": "1s", "expired": "10d"})
    attached = binary_file(host.program, "a.bin", bytes(40_000))
    host.receive(host.messages(attached)[:-1])
    host.receive_file(2 * SMALL)
    host.days(3.2)
    host.days(2.2)
    gone = host.record(attached)
    assert (gone.state, gone.parts_received) == (AttachmentState.EXPIRED, 0)
    assert Position.unpack(gone.first_position).segment not in host.segments()
    host.days(8)
    assert host.context.catalog.attachment(gone.id) is None
    assert [event.type for event in host.context.catalog.events_about(gone.id, 0)] == ["attachment.deleted"]
    host.receive(host.messages(attached))
    host.assert_whole(attached)


# --- what keeps a segment ---------------------------------------------------------------------------------------------


def test_a_trickle_of_poison_keeps_no_segment(start: Start) -> None:
    host = start(retention={"journal": "1s"}, content={"settle_after": "1s"})
    for number in range(44):
        host.receive_file(SMALL)
        host.poison(b"%06d" % number)
    assert len(host.segments()) > 39
    host.days(0.2)
    assert len(host.segments()) <= 1
    assert list(host.context.store.names("quarantine/")) == []
    assert [host.quarantined(entry).body for entry in host.entries()] == [b"%06d" % number for number in range(44)]


def test_a_slow_attachment_keeps_the_segments_of_its_parts_alone(start: Start) -> None:
    host = start(retention={"journal": "1s"}, content={"settle_after": "1s"})
    attached = binary_file(host.program, "a.bin", host.program.random.randbytes(100_000))
    slow = host.messages(attached)
    for each in slow[:-1]:
        host.receive([each])
        for _ in range(10):
            host.receive_file(SMALL)
        host.days(1)
    parts = len(slow) - 3  # without header, application message and count
    assert len(host.segments()) <= parts + 1
    host.receive(slow[-1:])
    host.assert_whole(attached)


def test_a_segment_that_cannot_be_sealed_ends_no_other(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    host = start(journal={"segment_age": "60s"})
    for module in ("arrow_journal", "segment_writer"):
        monkeypatch.setattr(f"adapters.arrow_journal.{module}.seal_file", broken_disk)
    host.receive_file(1)
    host.clock.advance(61)
    for _ in range(5):
        with pytest.raises(GatewayError, match="the disk fails"):
            seal_old_segment(host.context)
        host.receive_file(1)
    assert [segment.number for segment in host.context.journal.segments()] == [1, 2]


def test_a_segment_that_cannot_be_removed_keeps_no_other(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    host = start(retention={"journal": "1s"}, content={"settle_after": "0s"})
    for _ in range(3):
        host.receive_file(1)
        host.context.journal.seal()
        host.clock.advance(2)
    host.receive_file(1)
    Settler(host.context).settle()
    unlink = Path.unlink
    monkeypatch.setattr(Path, "unlink", lambda path: broken_disk() if "0000000001" in path.name else unlink(path))
    with pytest.raises(GatewayError, match="the disk fails"):
        host.upkeep.retire_segments()
    assert [segment.number for segment in host.context.journal.segments()] == [1, 4]


def test_the_segment_that_assembly_has_reached_stays_until_a_later_one(start: Start) -> None:
    """A start looks for it in the journal, so it stays though nothing needs it."""
    host = start(retention={"journal": "1s"}, content={"settle_after": "0s"})
    host.receive_file(1)
    host.clock.advance(2)
    Settler(host.context).settle()
    host.context.journal.seal()
    host.clock.advance(2)
    host.upkeep.retire_segments()
    assert host.segments() == [1]
    host.receive_file(1)
    host.upkeep.retire_segments()
    assert host.segments() == [2]
    claim_again(host.context)


def broken_disk(*_: object, **__: object) -> None:
    raise OSError(EIO, "the disk fails")


def test_large_messages_are_copied_to_the_content_store(start: Start) -> None:
    host = start(
        retention={"journal": "1s", "quarantine": "5d"},
        content={"settle_after": "1s"},
        limits={"quarantine_body": 50_000},
    )
    bodies = [bytes([size % 251]) * size for size in (0, 6, 4096, 32_000, 50_000, 50_001)]
    for body in bodies:
        host.poison(body)
        host.receive_file(SMALL)
    host.days(1)
    entries = host.entries()
    assert [entry.in_journal for entry in entries] == [False] * 5 + [True]
    assert [host.quarantined(entry).body for entry in entries] == bodies
    assert all(host.quarantined(entry).msg_type == 7 for entry in entries)
    kept = Position.unpack(entries[-1].position).segment
    assert {kept} <= set(host.segments()) <= {kept, max(host.segments())}
    objects = {entry.object_name for entry in entries if entry.object_name is not None}
    assert set(host.context.store.names("quarantine/")) == objects
    assert len(objects) == 3
    host.days(5)
    assert host.entries() == []
    assert kept not in host.segments()
    assert list(host.context.store.names("quarantine/")) == []


@pytest.mark.parametrize("is_copied_first", [False, True])
def test_an_entry_that_is_dropped_while_it_is_copied_leaves_no_object(
    start: Start, monkeypatch: pytest.MonkeyPatch, is_copied_first: bool
) -> None:
    host = start(retention={"quarantine": "5d"})
    remover = Remover(host.context, RetentionClock(host.clock))
    host.poison(bytes(9_000))
    host.context.journal.seal()
    host.clock.advance(6 * 86_400)
    (entry,) = host.entries()
    copy = partial(copy_quarantined, host.context, Position.unpack(entry.position).segment + 1)
    begun, meanwhile = (remover.drop_quarantine, copy) if is_copied_first else (copy, remover.drop_quarantine)
    last_step = "drop_quarantine" if is_copied_first else "copied_quarantine"
    do_last = getattr(host.context.catalog, last_step)

    def other_first(*given: Any) -> Any:
        monkeypatch.undo()
        meanwhile()
        return do_last(*given)

    monkeypatch.setattr(host.context.catalog, last_step, other_first)
    begun()
    remover.drop_quarantine()
    assert host.entries() == []
    assert list(host.context.store.names()) == []
    dropped = host.context.metrics.registry.get_sample_value
    assert dropped("attachment_gateway_dropped_total", {"what": "quarantine"}) == 1


def test_refused_content_keeps_its_parts_as_long_as_quarantine(start: Start) -> None:
    host = start(retention={"journal": "1s", "quarantine": "5d"}, content={"settle_after": "1s"})
    attached = binary_file(host.program, "a.bin", b"x" * 100)
    header, application, description, records, count = host.messages(attached)
    host.receive([header, application, description, records._replace(body=b"\0\0\x7f\xff"), count])
    host.receive_file(2 * SMALL)
    host.days(1)
    refused = host.record(attached)
    assert (refused.state, 1 in host.segments()) == (AttachmentState.QUARANTINED, True)
    host.days(5)
    assert host.record(attached).state is AttachmentState.QUARANTINED
    assert "its parts were kept for 5 days" in (host.record(attached).reason or "")
    assert 1 not in host.segments()


# --- retention --------------------------------------------------------------------------------------------------------


def test_a_noisy_source_pushes_out_nobody_elses_quarantine(start: Start) -> None:
    host = start(("noisy", "quiet"), retention={"quarantine_count": 5, "quarantine_bytes": 4000})
    host.poison(b"quiet", "quiet")
    for number in range(8):
        host.poison(b"%02d" % number, "noisy")
    host.days(0.1)
    assert [host.quarantined(entry).body for entry in host.entries("noisy")] == [
        b"%02d" % number for number in range(3, 8)
    ]
    host.poison(bytes(3995), "noisy")
    host.days(0.1)
    assert [entry.size for entry in host.entries("noisy")] == [2, 2, 3995]
    assert [entry.source for entry in host.entries("quiet")] == ["quiet"]
    dropped = host.context.metrics.registry.get_sample_value
    assert dropped("attachment_gateway_dropped_total", {"what": "quarantine"}) == 6
    assert dropped("attachment_gateway_dropped_bytes_total", {"what": "quarantine"}) == 12


def test_the_oldest_content_goes_first_and_never_what_is_not_settled(start: Start) -> None:
    host = start(retention={"content": "10d", "content_bytes": 250_000}, content={"settle_after": "1d"})
    files = []
    for _ in range(4):
        files.append(host.receive_file(100_000))
        host.clock.advance(1)
    host.days(0.1)
    assert [host.record(each).storage for each in files] == ["journal"] * 4
    host.days(1)
    assert [host.record(each).state for each in files] == ["deleted"] * 2 + ["finished"] * 2
    assert host.record(files[0]).reason_code == "retention"
    names = {f"attachments/{host.record(each).id}" for each in files}
    assert len(names.intersection(host.context.store.names("attachments/"))) == 2
    host.clock.leap(20 * 86_400)
    host.days(0.1)
    assert [host.record(each).state for each in files] == ["deleted"] * 2 + ["finished"] * 2, "only the clock was set"
    host.days(10)
    assert [host.record(each).state for each in files] == ["deleted"] * 4
    assert not names.intersection(host.context.store.names("attachments/"))


@pytest.mark.parametrize("by", ["client", "retention"])
def test_deleted_content_goes_when_the_store_works_again(
    start: Start, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    host = start(retention={"content": "10d", "attachments": "20d"}, content={"settle_after": "1d"})
    sent = host.receive_file(100_000)
    host.days(2)
    name = host.record(sent).object_name
    delete_all = host.context.store.delete_all

    def fails(_names: object) -> None:
        raise GatewayError("503 Slow Down")

    monkeypatch.setattr(host.context.store, "delete_all", fails)
    if by == "client":
        assert Deletion(host.context, at_once).attachment(host.record(sent).id)
    host.days(40)
    assert host.record(sent).state is AttachmentState.DELETED, "its row stays"
    assert name in [*host.context.store.names("attachments/")]
    monkeypatch.setattr(host.context.store, "delete_all", delete_all)
    host.days(0.1)
    assert name not in [*host.context.store.names("attachments/")]
    assert not host.context.catalog.attachments_by_id([attachment_id(SOURCE, sent.definition.correl_id)])


def test_the_disk_reaches_a_steady_state(start: Start, tmp_path: Path) -> None:
    """A month of the same traffic: nothing grows any more once everything has grown old."""
    ages = dict.fromkeys(("content", "attachments", "expired", "deliveries", "quarantine", "events"), "4d")
    host = start(
        retention={"journal": "1h", **ages},
        expiry={"unfinished": "2d", "grace": "1d"},
        content={"settle_after": "1s"},
    )
    sizes: list[tuple[int, int, int]] = []
    for day in range(MONTH):
        traffic(host, day)
        host.days(1)
        sizes.append(measured(host, tmp_path))
    print(sizes)  # noqa: T201 - shown when it fails
    for kind, what in enumerate(("journal", "catalog", "content")):
        early = max(size[kind] for size in sizes[MONTH // 3 : 2 * MONTH // 3])
        late = max(size[kind] for size in sizes[2 * MONTH // 3 :])
        assert late <= 1.05 * early, what
    kept = {what: each.number for what, each in host.context.catalog.kept().items()}
    assert kept["content"] <= 6 * FILES
    assert kept["quarantine"] <= 6 * (GARBAGE + 1)
    assert kept["deliveries"] <= 6 * 2
    assert kept["attachments"] <= 10 * FILES
    assert kept["messages"] <= 12 * FILES
    assert host.context.catalog.counts()["attachments"]["receiving"] <= 4 * FILES


def traffic(host: Host, day: int) -> None:
    """A day of it: files of which every sixth remains unfinished, garbage small and large, deliveries."""
    sent: list[PhysicalMessage] = []
    for number in range(FILES):
        whole = host.messages(binary_file(host.program, "a.bin", host.program.random.randbytes(3000)))
        sent += whole if number % 6 else whole[:-1]
    sent += [garbage(host, b"%d %d" % (day, number)) for number in range(GARBAGE)]
    host.receive([*sent, garbage(host, bytes(20_000))])
    for number in range(2):
        deliver(host.context, f"{day}-{number}")


def garbage(host: Host, body: bytes) -> PhysicalMessage:
    return PhysicalMessage(SOURCE, "sas_queue", 7, body=body, received_at=host.clock.now())


def deliver(context: ReceiverContext, name: str) -> None:
    now = context.clock.now()
    record = DeliveryRecord(name, "pier", bytes(24), bytes(24), (), now, now, DeliveryState.SENT)
    context.catalog.add_delivery(record, [NewEvent("delivery.sent", name, now, {})])


def measured(host: Host, folder: Path) -> tuple[int, int, int]:
    """Bytes of the journal, of the catalog and of the content."""
    journal = sum(segment.size for segment in host.context.journal.segments())
    catalog = sum(path.stat().st_size for path in folder.glob("catalog.sqlite"))
    content = sum(path.stat().st_size for path in (folder / "content").rglob("*") if path.is_file())
    return journal, catalog, content


@pytest.mark.parametrize(("times", "is_there"), [(2, True), (4, False)])
def test_what_gets_no_header_expires_and_stays_what_it_was(start: Start, times: int, is_there: bool) -> None:
    """In its grace period the header still explains it. Later nothing is left to explain: the message lacks it."""
    host = start()
    header, application, *rest = host.messages(binary_file(host.program, "a.bin", b"x"))
    identifier = attachment_id(SOURCE, application.correl_id[:16])
    catalog = host.context.catalog
    host.receive([application])
    for _ in range(times):
        host.days(4)
    (apart,) = catalog.attachments(AttachmentFilter(announced=False), None, 9).items
    assert (apart.id, apart.state, apart.kind) == (identifier, AttachmentState.EXPIRED, None)
    host.receive([header, *rest])
    waited = [each.application_body for each in catalog.messages_that_waited([identifier])]
    assert (waited, catalog.attachment(identifier)) == (([application.body], None) if is_there else ([], apart))
