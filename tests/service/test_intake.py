"""Durable before acknowledged, in groups, within bounds."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from threading import Event, Thread
from time import sleep
from typing import Any

import pytest
from structlog.testing import capture_logs

from adapters.arrow_journal import ObjectJournal
from app.codecs.sas.attachment_messages import AttachmentEntry
from app.codecs.sas.correlid import BLANK_CORRELID, split
from app.codecs.sas.file_messages import FileDescription
from app.codecs.sas.rendezvous_messages import RendezvousHeader, write_file_description, write_header, write_records
from app.framing.message_events import read_event
from app.model.attachment import AttachmentKind
from app.model.errors import CatalogError, GatewayError, InvalidInputError, JournalFull, JournalTaken
from app.model.message import UNREADABLE, PhysicalMessage, Position
from app.ports import Prepared
from app.service.context import ReceiverContext, WriterContext
from app.service.receiving.backlog import Backlog, BacklogEntry
from app.service.receiving.intake import SharedIntake
from app.service.receiving.journal_writer import JournalWriter
from app.testing.gateway_stages import service_context
from app.testing.waiting import until

DEADLINE = 20.0


def message(number: int, size: int = 10) -> PhysicalMessage:
    return PhysicalMessage("orders", "sas_queue", 100_001, number.to_bytes(24, "big"), bytes(size))


class Forwarded:
    """What assembly would have been given."""

    def __init__(self) -> None:
        self.messages: list[PhysicalMessage] = []
        self.batches: list[int] = []

    def __call__(self, positions: Sequence[Position], messages: Sequence[PhysicalMessage]) -> None:
        assert len(positions) == len(messages)
        self.messages += messages
        self.batches.append(len(messages))


@contextmanager
def journalling(
    folder: Path, journal: ObjectJournal | None = None, **settings: Any
) -> Iterator[tuple[SharedIntake, Forwarded, ReceiverContext, Callable[[], None]]]:
    """Write what is submitted into this journal, or into one in a folder."""
    with service_context(folder, **settings) as context:
        forwarded, backlog = Forwarded(), Backlog(context.settings.limits.backlog_bytes)
        writing: WriterContext = context if journal is None else replace(context, journal=journal)  # type: ignore[arg-type]
        writer = JournalWriter(writing, backlog, forwarded)
        threads = [Thread(target=writer.run) for _ in range(writing.journal.most_appends + 1)]

        def start() -> None:
            for thread in threads:
                thread.start()

        def finish() -> None:
            if not threads[0].ident:
                start()
            backlog.stop()
            for thread in threads:
                thread.join(DEADLINE)
                assert not thread.is_alive()

        try:
            yield SharedIntake(context, backlog), forwarded, context, start
        finally:
            finish()


def journalled(context: ReceiverContext) -> list[PhysicalMessage]:
    return [each._replace(body=bytes(each.body)) for _, batch in context.journal.replay(None) for each in batch]


def test_what_is_acknowledged_is_in_the_journal(tmp_path: Path) -> None:
    with journalling(tmp_path) as (intake, forwarded, context, start):
        start()
        found: list[int] = []
        done = Event()
        for number in range(50):
            intake.submit([message(number)], lambda: found.append(len(journalled(context))))
        intake.submit([message(50)], done.set)
        assert done.wait(DEADLINE)
        assert all(there > number for number, there in enumerate(found))
    assert forwarded.messages == [message(number) for number in range(51)]


def test_what_is_journalled_again_keeps_its_number(tmp_path: Path) -> None:
    """A message of quarantine has nothing to do with the attachment that is being received."""
    entry = AttachmentEntry(AttachmentKind.TEXT_FILE, BLANK_CORRELID, "FILENAME", "a.txt", "")
    header = write_header(RendezvousHeader(BLANK_CORRELID, 0, BLANK_CORRELID, BLANK_CORRELID, 1, [entry]))
    bodies = [header, write_file_description(FileDescription(80, 10)), *write_records([b"one"], "ATX")]
    came = [PhysicalMessage("sas", "sas_rendezvous", body=body, received_at=1) for body in bodies]
    with journalling(tmp_path) as (intake, _, context, start):
        start()
        for each in came:
            intake.submit([each], lambda: None)
        until(lambda: len(journalled(context)) == 3)
        intake.journal_again(journalled(context)[1:2], lambda: None)
        intake.submit(came[2:], lambda: None)
        until(lambda: len(journalled(context)) == 5)
        first, second, third, again, fourth = journalled(context)
    assert again == second.replayed()
    assert [split(each.correl_id)[1] for each in (first, second, third, fourth)] == [0, 1, 2, 3]


def test_what_waits_together_is_written_together(tmp_path: Path) -> None:
    with journalling(tmp_path) as (intake, forwarded, _, start):
        acknowledged = [Event() for _ in range(600)]
        for number, event in enumerate(acknowledged):
            intake.submit([message(number)], event.set)
        start()
        assert all(event.wait(DEADLINE) for event in acknowledged)
    assert forwarded.batches == [512, 88]


def test_batches_that_are_encoded_together_are_written_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.service.receiving.backlog.BATCH_BYTES", 20_000)
    with journalling(tmp_path) as (intake, forwarded, context, start):
        prepare, append = context.journal.prepare, context.journal.append
        writing, begun, ahead, acknowledged = Event(), Event(), Event(), list[int]()

        def prepares(messages: Sequence[PhysicalMessage]) -> Prepared:
            (ahead if begun.is_set() else begun).set()
            return prepare(messages)

        def appends(messages: Sequence[PhysicalMessage], prepared: Prepared | None = None) -> list[Position]:
            assert not writing.is_set(), "one thread at a time"
            writing.set()
            try:
                assert ahead.wait(DEADLINE), "the other thread encodes before the first batch is written"
                return append(messages, prepared)
            finally:
                writing.clear()

        monkeypatch.setattr(context.journal, "prepare", prepares)
        monkeypatch.setattr(context.journal, "append", appends)
        for number in range(300):
            intake.submit([message(number, 3000 * (number % 5))], partial(acknowledged.append, number))
        start()
        until(lambda: len(acknowledged) == 300)
    assert acknowledged == list(range(300))
    assert forwarded.messages == [message(number, 3000 * (number % 5)) for number in range(300)]
    assert journalled(context) == forwarded.messages


def test_what_a_store_takes_in_any_order_is_acknowledged_in_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Puts take their time, fail, and lose their answers."""
    monkeypatch.setattr("app.service.receiving.backlog.BATCH_BYTES", 20_000)
    monkeypatch.setattr("app.service.receiving.journal_writer.RETRY_SECONDS", 0.001)
    random, journal = Random(7), ObjectJournal(tmp_path.as_uri())
    add, under_way, most = journal._storage.add, [0], [0]

    def adds(number: int, pieces: Any) -> bool:
        under_way[0] += 1
        most[0] = max(most[0], under_way[0])
        sleep(random.uniform(0, 0.01))
        under_way[0] -= 1
        if random.random() < 0.2:
            raise GatewayError("the store is away")
        is_added = add(number, pieces)
        if random.random() < 0.2:
            raise GatewayError("the answer is lost")
        return is_added

    monkeypatch.setattr(journal._storage, "add", adds)
    sent = [message(number, 3000 * (number % 5)) for number in range(300)]
    acknowledged, counted = list[int](), list[bool]()

    def acknowledge(number: int) -> None:
        acknowledged.append(number)
        if number % 20 == 0:
            counted.append(sum(len(batch) for batch, _ in journal.replay(None)) > number)

    with journalling(tmp_path, journal) as (intake, forwarded, _, start):
        for number, each in enumerate(sent):
            intake.submit([each], partial(acknowledge, number))
        start()
        until(lambda: len(acknowledged) == 300)
    assert (acknowledged, forwarded.messages, all(counted)) == (list(range(300)), sent, True)
    assert most[0] > 1
    stored = [each._replace(body=bytes(each.body)) for _, batch in journal.replay(None) for each in batch]
    assert stored == sent


def test_nothing_is_written_after_what_could_not_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.service.receiving.backlog.BATCH_BYTES", 20_000)
    with journalling(tmp_path) as (intake, forwarded, context, start):
        append, acknowledged = context.journal.append, list[int]()

        def appends(messages: Sequence[PhysicalMessage], prepared: Prepared | None = None) -> list[Position]:
            if messages[0] == message(0, 15_000):
                raise JournalFull("no space is left")
            return append(messages, prepared)

        monkeypatch.setattr(context.journal, "append", appends)
        for number in range(6):
            intake.submit([message(number, 15_000)], partial(acknowledged.append, number))
        start()
        until(lambda: intake.backlog.holding == "no space is left")
    assert (acknowledged, forwarded.messages, journalled(context)) == ([], [], [])
    assert intake.backlog.unwritten == 6


def test_a_submission_beyond_the_backlog_waits(tmp_path: Path) -> None:
    with journalling(tmp_path, limits={"backlog_bytes": 1 << 20}) as (intake, _, context, start):
        intake.submit([message(1, 1 << 20)], lambda: None)
        entered = Event()

        def submit_and_tell() -> None:
            intake.submit([message(2)], lambda: None)
            entered.set()

        late = Thread(target=submit_and_tell)
        late.start()
        assert not entered.wait(0.1)
        start()
        assert entered.wait(DEADLINE)
        late.join(DEADLINE)
    assert context.metrics.registry.get_sample_value("attachment_gateway_backlog_bytes") == 0


def test_nothing_is_acknowledged_while_there_is_no_room(tmp_path: Path) -> None:
    with journalling(tmp_path, limits={"free_bytes": 1 << 60}) as (intake, forwarded, context, start):
        acknowledged = Event()
        intake.submit([message(1)], acknowledged.set)
        start()
        assert "limits.free_bytes asks for" in str(until(lambda: intake.backlog.holding))
        assert not acknowledged.wait(0.2)
        assert context.metrics.registry.get_sample_value("attachment_gateway_taking") == 0
    assert not acknowledged.is_set()
    assert not forwarded.messages


def test_a_message_without_an_envelope_goes_to_the_journal_with_its_reason(tmp_path: Path) -> None:
    with journalling(tmp_path) as (intake, forwarded, context, start):
        start()
        done = Event()
        intake.refuse(
            message(1), InvalidInputError("bad-mq-image", "MQMD1.version", 4, "it is not version 1"), done.set
        )
        assert done.wait(DEADLINE)
        (kept,) = journalled(context)
    assert kept.framing == UNREADABLE
    with pytest.raises(InvalidInputError) as refused:
        read_event(kept, 0)
    error = refused.value
    assert (error.code, error.row, error.at, error.why) == ("bad-mq-image", "MQMD1.version", 4, "it is not version 1")
    assert forwarded.messages == [kept]


def flood(pairs: int, body: bytes = b"?") -> PhysicalMessage:
    return PhysicalMessage(
        "orders", "sas_queue", 7, body=body, properties={f"name {n:05}": "v" * 20 for n in range(pairs)}
    )


def test_properties_are_counted_by_the_backlog(tmp_path: Path) -> None:
    with journalling(tmp_path, limits={"backlog_bytes": 1 << 20}) as (intake, _, context, start):
        intake.submit([flood(1000)] * 5, lambda: None)
        backlog = context.metrics.registry.get_sample_value("attachment_gateway_backlog_bytes") or 0
        assert backlog >= 5 * 1000 * (10 + 20)
        entered = Event()

        def submit_and_tell() -> None:
            intake.submit([flood(1000)] * 5, lambda: None)
            entered.set()

        late = Thread(target=submit_and_tell)
        late.start()
        assert not entered.wait(0.2), "what is taken already fills the backlog"
        start()
        assert entered.wait(DEADLINE)
        late.join(DEADLINE)
    assert context.metrics.registry.get_sample_value("attachment_gateway_backlog_bytes") == 0


def test_batches_are_as_small_as_their_properties_ask(tmp_path: Path) -> None:
    with journalling(tmp_path, limits={"backlog_bytes": 1 << 30}) as (intake, forwarded, _, start):
        done = Event()
        for _ in range(200):
            intake.submit([flood(1000)], lambda: None)
        intake.submit([message(1)], done.set)
        start()
        assert done.wait(DEADLINE)
    assert max(forwarded.batches) < 40, "a batch has about 4 MiB, and these take 160 KiB each"


def test_a_message_with_too_many_properties_goes_to_quarantine_without_them(tmp_path: Path) -> None:
    with journalling(tmp_path, limits={"properties_bytes": "4 KiB"}) as (intake, forwarded, context, start):
        start()
        done = Event()
        within, beyond = flood(136), flood(137)
        intake.submit([within, beyond], done.set)
        assert done.wait(DEADLINE)
        first, second = journalled(context)
    assert first == within
    assert (second.framing, second.body) == (UNREADABLE, b"?")
    assert second.properties["refused-code"] == "properties-too-large"
    assert "take 4110 bytes, and limits.properties_bytes allows 4096" in second.properties["refused-why"]
    assert len(second.properties) == 136 + 2
    assert forwarded.messages == [first, second]


def test_a_message_that_cannot_be_written_stops_no_other(tmp_path: Path) -> None:
    lone = PhysicalMessage("orders", "sas_queue", 7, body=b"a", properties={"name": "\ud800"})
    large = PhysicalMessage("orders", "sas_queue", 1 << 70, body=b"b")
    with capture_logs() as logs, journalling(tmp_path) as (intake, forwarded, context, start):
        done = Event()
        sent = [*map(message, range(20)), lone, *map(message, range(20, 30)), large, message(30)]
        intake.submit(sent, lambda: None)
        start()
        intake.submit([message(31)], done.set)
        assert done.wait(DEADLINE)
        kept = journalled(context)
    assert [each for each in kept if each.framing != UNREADABLE] == [message(number) for number in range(32)]
    refused = [each for each in kept if each.framing == UNREADABLE]
    assert [each.body for each in refused] == [b"a", b"b"]
    assert {each.properties["refused-code"] for each in refused} == {"unwritable"}
    assert "UnicodeEncodeError" in refused[0].properties["refused-why"]
    assert forwarded.messages == kept
    assert [entry["event"] for entry in logs] == ["message_not_written"] * 2


def test_a_journal_that_fails_for_every_message_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.service.receiving.journal_writer.RETRY_SECONDS", 0.05)
    with journalling(tmp_path) as (intake, forwarded, context, start):
        append, broken = context.journal.append, [True]

        def fails(messages: Sequence[PhysicalMessage], prepared: Prepared | None = None) -> list[Position]:
            if broken:
                raise TypeError("not today")
            return append(messages, prepared)

        monkeypatch.setattr(context.journal, "append", fails)
        done = Event()
        intake.submit([message(number) for number in range(3)], done.set)
        start()
        assert not done.wait(0.5)
        assert "TypeError: not today" in (intake.backlog.holding or "")
        broken.clear()
        assert done.wait(DEADLINE)
        assert intake.backlog.holding is None
    assert forwarded.messages == [message(number) for number in range(3)], "none is blamed for it"


def test_a_journal_that_another_gateway_has_opened_acknowledges_nothing(tmp_path: Path) -> None:
    with journalling(tmp_path) as (made, forwarded, context, start):

        def taken(messages: Sequence[PhysicalMessage], prepared: Prepared | None = None) -> list[Position]:
            raise JournalTaken("another gateway has opened the journal")

        context.journal.append = taken  # type: ignore[method-assign]
        acknowledged = Event()
        made.submit([message(1)], acknowledged.set)
        start()
        until(lambda: made.backlog.holding == "another gateway has opened the journal")
        made.submit([message(2)], acknowledged.set)  # returns at once: there is nothing to wait for
    assert not acknowledged.is_set()
    assert forwarded.messages == []


@pytest.mark.parametrize("retry", [0.05, DEADLINE])
def test_what_senders_have_shown_is_saved_although_no_message_follows_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, retry: float
) -> None:
    """The next attempt is made while nothing comes, and at the stop at the latest."""
    monkeypatch.setattr("app.service.receiving.journal_writer.RETRY_SECONDS", retry)
    rules, tried = {"A": "rule"}, Event()
    with journalling(tmp_path) as (intake, _, context, start):
        learn = context.catalog.learn_counting

        def fails_once(source: str, rules: Mapping[str, str]) -> None:
            if not tried.is_set():
                tried.set()
                raise CatalogError("the database restarts")
            learn(source, rules)

        monkeypatch.setattr(context.catalog, "learn_counting", fails_once)
        start()
        intake.backlog.put(BacklogEntry([message(1)], 100, lambda: None, "orders", rules))
        assert tried.wait(DEADLINE)
        if retry < DEADLINE:
            until(lambda: context.catalog.counting("orders") == rules)
        intake.backlog.stop()
        until(lambda: context.catalog.counting("orders") == rules)
