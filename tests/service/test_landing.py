"""The gateway where a job beside it assembles: what it journals, what it leaves alone, and what it still does."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from random import Random
from shutil import rmtree
from typing import Any
from uuid import uuid4

import httpx
import pytest

from adapters.memory import MemoryReceiver, QueueSettings, queue
from adapters.object_store import ObjectStore
from app.main import build
from app.model.attachment import AttachmentState
from app.model.errors import JournalFull, StoreFull
from app.model.identity import attachment_id
from app.model.message import PhysicalMessage
from app.model.records import AttachmentRecord
from app.ports import AttachmentFilter
from app.service.context import ReceiverContext
from app.service.gateway import Gateway
from app.service.receiving.journal_upkeep import JournalUpkeep
from app.service.retention.removal import Sweeper
from app.settings import Settings
from app.testing.gateway_stages import ManualClock, service_context
from app.testing.waiting import until
from app.web.app import create_app
from tests.support.job_without_spark import JobWithoutSpark, journal_in
from tests.support.roles import own
from tests.support.sas_client import Attached, Program, binary_file, message, text_file
from tests.web.stock import serving

SOURCE = "orders"


class Landing:
    """A running gateway, the job beside it, and the program that sends to it."""

    def __init__(self, folder: Path, context: ReceiverContext, gateway: Gateway, clock: ManualClock, name: str) -> None:
        self.folder, self.context, self.gateway, self.clock = folder, context, gateway, clock
        self.queue, self.program = queue(name), Program(Random(3))
        self.job = JobWithoutSpark(context.settings, clock)
        self.catalog = context.catalog
        self.sent: list[PhysicalMessage] = []

    def file(self, name: str = "a.bin", size: int = 100_000) -> Attached:
        return binary_file(self.program, name, self.program.random.randbytes(size))

    def messages(self, *attached: Attached) -> list[PhysicalMessage]:
        now = self.clock.now()
        return [each._replace(source=SOURCE, received_at=now) for each in message(self.program, attached)]

    def land(self, messages: Sequence[PhysicalMessage]) -> None:
        """Sends them and waits until they are in sealed segments."""
        self.queue.put(messages)
        self.sent += messages
        until(lambda: self.metric("messages_received_total", source=SOURCE) == len(self.sent))
        self.seal()

    def seal(self) -> None:
        """Time passes, and the gateway seals by itself."""
        self.clock.advance(6)
        until(lambda: all(segment.sealed_at is not None for segment in self.context.journal.segments()))

    def record(self, attached: Attached) -> AttachmentRecord:
        record = self.catalog.attachment(attachment_id(SOURCE, attached.definition.correl_id))
        assert record is not None
        return record

    def behind(self) -> dict[str, float]:
        behind: dict[str, float] = self.gateway.health().checks["assembly"]["behind"]
        return behind

    def metric(self, name: str, **labels: str) -> float:
        return self.gateway.metrics.registry.get_sample_value(f"attachment_gateway_{name}", labels) or 0.0

    @contextmanager
    def http(self) -> Iterator[httpx.Client]:
        with serving(create_app(self.gateway)) as address, httpx.Client(base_url=address, timeout=30) as client:
            yield client


Start = Callable[..., Landing]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts gateways one after the other in the same folder; each start stops the one before."""
    for period in (
        "roles.receiving.UPKEEP_SECONDS",
        "roles.keeping.SWEEP_SECONDS",
        "roles.keeping.SETTLE_SECONDS",
        "assembling.assembly_hosts.LISTEN_SECONDS",
    ):
        monkeypatch.setattr(f"app.service.{period}", 0.02)
    running = ExitStack()
    name = uuid4().hex

    def begin(**settings: Any) -> Landing:
        running.close()
        return running.enter_context(landing(tmp_path, name, settings))

    yield begin
    running.close()


@contextmanager
def landing(folder: Path, name: str, settings: dict[str, Any]) -> Iterator[Landing]:
    clock = ManualClock()
    sources = {SOURCE: {"transport": "memory", "queue": name}}
    settings = {"assembler": "spark", "sources": sources, "limits": {"free_bytes": 0}, **settings}
    with service_context(folder, clock, **settings) as context:
        url = context.settings.journal.archive_url
        receiver = MemoryReceiver(SOURCE, "sas_queue", QueueSettings(queue=name))
        gateway = Gateway(context, {SOURCE: receiver}, {}, None if url is None else ObjectStore(url))
        gateway.start()
        running = Landing(folder, context, gateway, clock, name)
        try:
            yield running
        finally:
            running.job.close()
            gateway.stop()


def test_all_is_in_sealed_segments_and_nothing_is_assembled(start: Start) -> None:
    landing = start()
    garbage = PhysicalMessage(SOURCE, "sas_queue", 7, body=b"?")
    landing.land([*landing.messages(landing.file()), garbage])
    assert journal_in(landing.folder / "journal") == [bytes(each.body) for each in landing.sent]
    landing.queue.put(last := landing.messages(landing.file()))
    until(lambda: len(landing.queue) == 0)
    landing.gateway.stop()
    assert journal_in(landing.folder / "journal")[-len(last) :] == [bytes(each.body) for each in last]
    landing = start()
    assert landing.catalog.progress() is None
    assert landing.catalog.attachments(AttachmentFilter(), None, 9).items == []
    assert landing.catalog.quarantined(None, None, None, 9).items == []
    assert landing.gateway.health().ready


def test_what_the_job_does_is_seen(start: Start) -> None:
    landing = start()
    whole, cut = landing.file("whole.bin"), landing.file("cut.bin")
    sent = landing.messages(cut)
    landing.land([*landing.messages(whole), *sent[:3], *sent[4:]])
    before = landing.catalog.last_event()
    with ThreadPoolExecutor(1) as pool, landing.http() as http:
        seen = landing.gateway.notifier.notifications
        told = pool.submit(landing.gateway.notifier.wait, seen, 60.0)
        landing.job.run()
        assert told.result(30) > seen
        assert "attachment.finished" in {event.type for event in landing.catalog.events_after(before, 99)}
        states = {item["name"]: item["state"] for item in http.get("/v1/attachments").json()["items"]}
        assert states == {"whole.bin": "finished", "cut.bin": "receiving"}
        assert http.get(f"/v1/attachments/{landing.record(whole).id}/content").content == whole.content
        partial = http.get(f"/v1/attachments/{landing.record(cut).id}").json()
        assert partial["progress"]["missing_parts"] == [[2, 2]]
        landing.land([sent[3]])
        landing.job.run()
        assert http.get(f"/v1/attachments/{landing.record(cut).id}/content").content == cut.content
        assert http.delete(f"/v1/attachments/{landing.record(cut).id}").status_code == 204
        landing.land(sent[2:4])
        landing.job.run()
        assert landing.record(cut).state is AttachmentState.DELETED
    assert landing.record(whole).duplicates == 0


def test_content_that_was_deleted_does_not_come_back_with_a_job_that_begins_anew(start: Start) -> None:
    landing = start()
    kept, dropped = (text_file(landing.program, name, b"line\n" * 10) for name in ("kept.txt", "dropped.txt"))
    landing.land(landing.messages(kept, dropped))
    landing.job.run()
    assert len(list(landing.context.store.names())) == 2
    assert landing.gateway.deletion.attachment(landing.record(dropped).id)
    with closing(JobWithoutSpark(landing.context.settings, landing.clock)) as anew:
        committed = anew.run()
    assert committed is not None
    assert committed.was_known
    assert list(landing.context.store.names("attachments/")) == [landing.record(kept).object_name]


def test_how_far_the_job_is_behind(start: Start) -> None:
    landing = start()
    assert landing.behind() == {"segments": 0, "seconds": 0}
    landing.land(landing.messages(landing.file()))
    landing.clock.advance(3)
    landing.land(landing.messages(landing.file()))
    assert landing.behind() == {"segments": 2, "seconds": 9}
    assert (landing.metric("assembly_behind_segments"), landing.metric("assembly_behind_seconds")) == (2, 9)
    assert landing.gateway.health().ready
    landing.job.run()
    until(lambda: landing.behind() == {"segments": 0, "seconds": 0})
    assert landing.gateway.health().checks["assembly"]["by"] == "spark"


def test_a_replayed_message_is_journalled_anew(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    landing = start()
    landing.land([PhysicalMessage(SOURCE, "sas_queue", 7, body=b"?")])
    landing.job.run()
    (kept,) = landing.catalog.quarantined(None, "kept", None, 9).items
    assert landing.gateway.replayer.replay(kept.id)
    landing.seal()
    assert journal_in(landing.folder / "journal") == [b"?", b"?"]
    assert landing.catalog.quarantined(None, "kept", None, 9).items == []
    landing.job.run()
    (again,) = landing.catalog.quarantined(None, "kept", None, 9).items
    assert again.position > kept.position
    monkeypatch.setattr(landing.context.journal, "free_bytes", lambda: -1)
    monkeypatch.setattr("app.service.receiving.intake.REPLAY_SECONDS", 0.1)
    for _ in range(2):
        with pytest.raises(JournalFull):
            landing.gateway.replayer.replay(again.id)
    entry = landing.catalog.quarantine_entry(again.id)
    assert entry is not None
    assert entry.state == "kept"


def test_refused_content_gets_another_try_with_the_next_batch(start: Start) -> None:
    landing = start()
    spoilt = landing.file(size=5)
    header, application, description, records, count = landing.messages(spoilt)
    landing.land([header, application, description, records._replace(body=b"\0\0\x7f\xff"), count])
    landing.job.run()
    assert landing.record(spoilt).state is AttachmentState.QUARANTINED
    (kept,) = landing.catalog.quarantined(None, "kept", None, 9).items
    assert landing.gateway.replayer.replay(kept.id)
    assert landing.record(spoilt).state is AttachmentState.COMPLETE
    landing.land(landing.messages(landing.file("news.bin")))
    landing.job.run()
    assert landing.record(spoilt).state is AttachmentState.QUARANTINED
    refused = [event for event in landing.catalog.events_after(0, 99) if event.type == "attachment.quarantined"]
    assert [event.subject for event in refused] == [landing.record(spoilt).id] * 2


def test_the_job_goes_on_where_the_gateway_was_killed_and_back(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what the gateway received it had finished nothing: one is complete, another lacks its last message. The job
    finishes both, and begins a third, which the gateway completes."""
    landing = start(assembler="embedded")
    whole, cut, last = landing.file("whole.bin"), landing.file("cut.bin"), landing.file("last.bin")
    *most, end = landing.messages(cut)
    *half, count = landing.messages(last)
    with monkeypatch.context() as killed:
        killed.setattr("app.service.finishing.finisher.Finisher._finish", lambda *_: {})
        killed.setattr("app.service.finishing.incremental.IncrementalReader.take", lambda *_: None)
        landing.queue.put([*landing.messages(whole), *most])
        until(lambda: landing.catalog.counts()["attachments"].get("complete") == 1)
        landing = start()
    landing.land([end, *half])
    landing.job.run()
    assert landing.record(whole).state is AttachmentState.FINISHED
    assert landing.record(cut).state is AttachmentState.FINISHED
    assert landing.record(last).state is AttachmentState.RECEIVING
    finished = [event.subject for event in landing.catalog.events_after(0, 99) if event.type == "attachment.finished"]
    assert sorted(finished) == sorted([landing.record(whole).id, landing.record(cut).id])
    landing = start(assembler="embedded")
    landing.queue.put([count])
    until(lambda: landing.record(last).state is AttachmentState.FINISHED)
    for attached in (whole, cut, last):
        content = landing.gateway.contents.open(landing.record(attached))
        assert b"".join(content.read(0, content.size)) == attached.content
        assert landing.record(attached).duplicates == 0


KEPT_BRIEFLY = {"retention": {"journal": "60s"}, "content": {"settle_after": "0s"}}


def sweep(landing: Landing) -> list[int]:
    """What is left of the journal when everything in it has been done and time has passed."""
    if landing.context.settings.assembler == "spark":
        landing.job.run()
    until(lambda: not landing.catalog.complete_attachments())
    landing.clock.advance(120)
    Sweeper(landing.context).sweep()
    JournalUpkeep(landing.context, own(landing.gateway)._may_go).retire_segments()
    return [segment.number for segment in landing.context.journal.segments()]


@pytest.mark.parametrize("assembler", ["embedded", "spark"])
def test_segments_are_archived_before_they_go(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assembler: str
) -> None:
    archive = tmp_path / "archive"
    landing = start(assembler=assembler, journal={"archive_url": archive.as_uri(), "segment_age": "5s"}, **KEPT_BRIEFLY)

    def full(*_: object) -> None:
        raise StoreFull("no space left")

    with monkeypatch.context() as disk:
        disk.setattr("app.service.receiving.archiver.Archiver._take", full)
        for number in range(1, 4):
            landing.land(landing.messages(landing.file()))
            assert sweep(landing) == list(range(1, number + 1))
        until(lambda: not landing.gateway.health().checks["archive"]["ok"])
        assert landing.gateway.health().checks["archive"]["waiting"] == 3
        assert landing.metric("archive_waiting_segments") == 3
        assert landing.gateway.health().ready
        originals = {path.name: path.read_bytes() for path in (tmp_path / "journal").glob("*.arrows")}
    until(lambda: landing.gateway.health().checks["archive"] == {"ok": True, "waiting": 0, "error": None})
    assert {path.name: path.read_bytes() for path in archive.glob("*.arrows")} == originals
    until(lambda: sweep(landing) == [3])
    assert journal_in(archive) == [bytes(each.body) for each in landing.sent]


def test_what_a_killed_job_would_read_again_stays(start: Start) -> None:
    landing = start(**KEPT_BRIEFLY)
    for _ in range(2):
        landing.land(landing.messages(landing.file()))
    assert sweep(landing) == [1, 2]
    landing.land(landing.messages(landing.file()))
    until(lambda: sweep(landing) == [3])
    landing = start(**KEPT_BRIEFLY)
    landing.land(landing.messages(landing.file()))
    assert sweep(landing) == [3, 4]


def _written(path: Path) -> tuple[int, int, int]:
    """What a file's being written anew would change."""
    status = path.stat()
    return status.st_ino, status.st_mtime_ns, status.st_size


def test_what_is_in_the_archive_is_not_copied_again(start: Start, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    place = {"archive_url": archive.as_uri()}
    landing = start(journal=place)
    landing.land(landing.messages(landing.file()))
    (copy,) = until(lambda: list(archive.glob("*.arrows")))
    before = _written(copy)
    (archive / "0000000002.arrows").touch()
    landing = start(journal=place)
    landing.land(landing.messages(landing.file()))
    until(lambda: landing.gateway.health().checks["archive"]["waiting"] == 0)
    assert _written(copy) == before
    assert (archive / "0000000002.arrows").read_bytes() == (tmp_path / "journal/0000000002.arrows").read_bytes()


def test_the_archive_of_another_journal_is_left_alone(start: Start, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    landing = start(journal={"archive_url": archive.as_uri()}, **KEPT_BRIEFLY)
    landing.land(landing.messages(landing.file()))
    (copy,) = until(lambda: list(archive.glob("*.arrows")))
    before = copy.read_bytes()
    landing.gateway.stop()
    for name in ("journal", "content"):
        rmtree(tmp_path / name)
    for path in tmp_path.glob("catalog.sqlite*"):
        path.unlink()
    landing = start(journal={"archive_url": archive.as_uri()}, **KEPT_BRIEFLY)
    for _ in range(3):
        landing.land(landing.messages(landing.file()))
        sweep(landing)
    error = until(lambda: landing.gateway.health().checks["archive"]["error"])
    assert "the archive belongs to the journal " in error
    assert sweep(landing) == [1, 2, 3]
    assert {path: path.read_bytes() for path in archive.glob("*.arrows")} == {copy: before}


def test_the_tables_are_opened_when_they_are_asked_for(start: Start) -> None:
    landing = start()
    assert landing.gateway.tables.delta().names() == []
    assert landing.gateway.tables.delta() is landing.gateway.tables.delta()


def test_it_is_built_from_its_settings(tmp_path: Path) -> None:
    journal = {"archive_url": str(tmp_path / "archive")}
    gateway = build(Settings.model_validate({"data": tmp_path / "data", "assembler": "spark", "journal": journal}))
    gateway.start()
    checks = gateway.health().checks
    gateway.stop()
    assert checks["assembly"] == {"ok": True, "by": "spark", "behind": {"segments": 0, "seconds": 0.0}}
    assert checks["archive"]["ok"]
