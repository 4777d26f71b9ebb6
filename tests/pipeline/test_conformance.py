"""The hosts of assembly over one journal: in the gateway's process, a batch on Spark, a stream on Spark."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeVar

import pytest
from pyspark.sql import SparkSession

from adapters.arrow_journal import ArrowJournal
from adapters.object_store import ObjectStore
from adapters.sql_catalog import SqlCatalog
from app.main import SystemClock
from app.model.attachment import AttachmentState
from app.model.records import AttachmentRecord, MessageRecord, QuarantineRecord
from app.observe import Metrics
from app.pipeline import batch, streaming
from app.pipeline.job import Job
from app.ports import AttachmentFilter, Catalog, JournalReader, Page
from app.service.gateway import Gateway
from app.service.missing import missing_ranges
from app.service.surroundings import Surroundings
from app.service.sweeper import Sweeper
from app.settings import Settings
from tests.support import mixed_journal
from tests.support.waiting import until

T = TypeVar("T")

LARGEST = 200 * mixed_journal.MIB
MOST_RANGES = 100
OF_THE_HOST = ("finished_at", "complete_at")
"""When a host did its work, by its own clock."""


class Found(NamedTuple):
    """All that a host leaves behind, of everything but its clock."""

    attachments: dict[str, dict[str, Any]]
    messages: dict[str, dict[str, Any]]
    quarantine: list[QuarantineRecord]
    dialects: dict[str, int]


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixed") / "journal"
    mixed_journal.write(folder, mixed_journal.traffic(Random(2024), 24, LARGEST))
    return folder


@pytest.fixture(scope="module")
def embedded(journal: Path, tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What the gateway makes of it in its own process."""
    folder = tmp_path_factory.mktemp("embedded")
    patient = {"expiry": {"unfinished": "36500d"}, "retention": {"journal": "36500d"}, "content": {"settle_after": 0}}
    settings = Settings.model_validate({"data": folder, **patient})
    store = ObjectStore(settings.content_url)
    with closing(ArrowJournal(journal)) as opened, closing(SqlCatalog(settings.catalog_url)) as catalog:
        around = Surroundings(
            settings=settings, journal=opened, catalog=catalog, store=store, clock=SystemClock(), metrics=Metrics()
        )
        gateway = Gateway(around, {}, {})
        gateway.start()
        until(lambda: not catalog.complete_attachments(), 120)
        Sweeper(around).settle()
        until(lambda: not catalog.unsettled_attachments(SystemClock().now(), 1), 60)
        found = _found(catalog, store, opened)
        gateway.stop()
    return found


def test_traffic_has_what_hosts_might_differ_in(embedded: Found) -> None:
    states = {item["state"] for item in embedded.attachments.values()}
    assert states == {AttachmentState.RECEIVING, AttachmentState.FINISHED, AttachmentState.QUARANTINED}
    assert {"conflicting-part", "bad-header", "unknown-message-type", "unknown-framing", "bad-envelope"} <= {
        entry.code for entry in embedded.quarantine
    }
    assert {item["size"] for item in embedded.attachments.values()} >= {0, LARGEST}
    assert any(item["duplicates"] for item in embedded.attachments.values())
    assert any(item["missing"] for item in embedded.attachments.values())
    assert any(message["application_body"] is None for message in embedded.messages.values())


def test_a_batch_finds_the_same(journal: Path, embedded: Found, spark: SparkSession, tmp_path: Path) -> None:
    job = _job(tmp_path, journal)
    with closing(_catalog(tmp_path)) as catalog:
        assert batch.run(spark, job, catalog, SystemClock()) is not None
        _assert_same(catalog, tmp_path, journal, embedded)
        again = batch.run(spark, job, catalog, SystemClock())
        assert again is not None
        assert again.was_known
        _assert_same(catalog, tmp_path, journal, embedded)


def test_a_stream_finds_the_same(journal: Path, embedded: Found, spark: SparkSession, tmp_path: Path) -> None:
    batches: list[int] = []
    with closing(_catalog(tmp_path)) as catalog:
        query = streaming.start(
            spark,
            _job(tmp_path, journal),
            catalog,
            SystemClock(),
            checkpoint=str(tmp_path / "checkpoint"),
            bytes_per_trigger=60 * mixed_journal.MIB,
            every=None,
            watch=lambda number, _results, _committed: batches.append(number),
        )
        assert query.awaitTermination(240)
        assert len(batches) > 3
        _assert_same(catalog, tmp_path, journal, embedded)


def _job(folder: Path, journal: Path) -> Job:
    settings = Settings.model_validate({"data": folder})
    return Job.of(settings, str(journal), in_place=False)


def _catalog(folder: Path) -> SqlCatalog:
    return SqlCatalog(Settings.model_validate({"data": folder}).catalog_url)


def _assert_same(catalog: Catalog, folder: Path, journal: Path, expected: Found) -> None:
    with closing(ArrowJournal(journal)) as opened:
        found = _found(catalog, ObjectStore(Settings.model_validate({"data": folder}).content_url), opened)
    for mine, theirs in ((found.attachments, expected.attachments), (found.messages, expected.messages)):
        assert mine.keys() == theirs.keys()
        for key, item in mine.items():
            assert item == theirs[key]
    assert found.quarantine == expected.quarantine
    assert found.dialects == expected.dialects


def _found(catalog: Catalog, store: ObjectStore, journal: JournalReader) -> Found:
    everything = AttachmentFilter()
    attachments = _all(lambda cursor: catalog.attachments(everything, cursor, 200))
    messages = _all(lambda cursor: catalog.messages(None, cursor, 200))
    quarantine = _all(lambda cursor: catalog.quarantined(None, None, cursor, 200))
    return Found(
        {record.id: _attachment(record, catalog, store, journal) for record in attachments},
        {record.id: _message(record) for record in messages},
        sorted(quarantine, key=lambda entry: entry.id),
        catalog.source_dialects(),
    )


def _attachment(
    record: AttachmentRecord, catalog: Catalog, store: ObjectStore, journal: JournalReader
) -> dict[str, Any]:
    item = {name: value for name, value in asdict(record).items() if name not in OF_THE_HOST}
    if record.object_name is not None:
        digest = sha256()
        for piece in store.read(record.object_name):
            digest.update(piece)
        assert digest.hexdigest() == record.sha256
    return item | {"missing": missing_ranges(record, catalog, journal, MOST_RANGES)}


def _message(record: MessageRecord) -> dict[str, Any]:
    item = {name: value for name, value in asdict(record).items() if name not in OF_THE_HOST}
    return item | {"is_complete": record.complete_at is not None}


def _all(fetch: Callable[[str | None], Page[T]]) -> Iterator[T]:
    cursor: str | None = None
    while True:
        page = fetch(cursor)
        yield from page.items
        cursor = page.next
        if cursor is None:
            return
