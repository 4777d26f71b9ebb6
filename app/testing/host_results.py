"""The complete results of a host of assembly, except for times."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from app import plugins
from app.main import SystemClock
from app.metrics import Metrics
from app.model.attachment import AttachmentState
from app.model.records import AttachmentRecord, QuarantineRecord
from app.ports import AttachmentFilter, Catalog, ContentStore, JournalReader, Page
from app.service.content.archived import archive_of
from app.service.content.settling import Settler
from app.service.content.stored_content import open_content
from app.service.context import ReceiverContext
from app.service.finishing.stored_parts import missing_ranges
from app.service.gateway import Gateway
from app.settings import Settings
from app.tables.quality import QUALITY, summed
from app.testing.waiting import until

T = TypeVar("T")

MOST_RANGES = 100
OF_THE_HOST = frozenset(("finished_at", "settled_at", "complete_at"))
"""Times of a host's work, by its own clock."""
NOTED_LATER = frozenset(("warnings", "warnings_count"))
"""The columns of the table of files that lack what was noted after its row was written; the catalog has it."""
WHERE = frozenset(("storage", "object_name", "checksums"))
"""The place of content: the journal, or an object of the store, whose blocks have checksums."""
PATIENT = {
    "expiry": {"unfinished": "36500d"},
    "retention": dict.fromkeys(("journal", "attachments", "expired", "quarantine"), "36500d"),
    "content": {"settle_after": 0},
}
"""Settings with which old traffic neither expires nor is deleted."""


class HostResults(NamedTuple):
    """The catalog's rows, with missing ranges and with content that was read and measured again; and quarantine."""

    attachments: dict[str, dict[str, Any]]
    messages: dict[str, dict[str, Any]]
    quarantine: list[QuarantineRecord]
    dialects: dict[str, int]


def settings(folder: Path) -> Settings:
    return Settings.model_validate({"data": folder, **PATIENT})


def by_the_gateway(folder: Path, journal: Path) -> HostResults:
    """Return the results of the gateway's own process for a journal, with all content in its store."""
    chosen = settings(folder)
    store = plugins.content_store()(chosen.content_url)
    with closing(plugins.journal()(journal)) as opened, closing(plugins.catalog()(chosen.catalog_url)) as catalog:
        context = ReceiverContext(
            settings=chosen, journal=opened, catalog=catalog, store=store, clock=SystemClock(), metrics=Metrics()
        )
        gateway = Gateway(context, {}, {})
        gateway.start()
        until(lambda: not catalog.complete_attachments(), 120)

        def is_settled() -> bool:
            Settler(context).settle()
            return not catalog.unsettled_attachments(context.clock.now(), 1)

        until(is_settled, 120)
        found = _found(catalog, store, opened)
        gateway.stop()
    return found


def in_folder(folder: Path, journal: Path) -> HostResults:
    """Return the results that a pipeline has left in its folder."""
    return where_configured(settings(folder), journal)


def of_several(folder: Path) -> HostResults:
    """Return the results that a pipeline has left in its folder for several archives."""
    chosen = settings(folder)
    with closing(plugins.catalog()(chosen.catalog_url)) as catalog:
        return _found(catalog, plugins.content_store()(chosen.content_url), archive_of(catalog, folder, chosen))


def where_configured(chosen: Settings, journal: Path) -> HostResults:
    """Return the results that a pipeline has left in the places of its settings."""
    with closing(plugins.journal()(journal)) as opened, closing(plugins.catalog()(chosen.catalog_url)) as catalog:
        return _found(catalog, plugins.content_store()(chosen.content_url), opened)


def tables(folder: Path) -> dict[str, tuple[int, str]]:
    """Return rows and checksum of every table of a folder."""
    return tables_at(settings(folder).tables_url)


def tables_at(url: str) -> dict[str, tuple[int, str]]:
    """Return rows and checksum of every table; the checksum ignores the order of rows, the times of finishing, and
    warnings."""
    store = plugins.table_store()(url)
    found: dict[str, tuple[int, str]] = {}
    for name in store.names():
        rows = pa.Table.from_batches(store.rows(name), store.schema(name))
        rows = summed(rows.to_batches()) if name == QUALITY else rows
        kept = sorted(column for column in rows.column_names if column not in OF_THE_HOST | NOTED_LATER)
        lines = sorted(map(repr, zip(*(rows[column].to_pylist() for column in kept), strict=True)))
        found[name] = rows.num_rows, sha256("\n".join([repr(kept), *lines]).encode()).hexdigest()
    return found


def assert_same(mine: HostResults, theirs: HostResults, *, settled: bool) -> None:
    """Assert equal results; the place of content, store or journal, counts only if both hosts have it `settled`."""
    ignored = frozenset() if settled else WHERE
    assert mine.attachments.keys() == theirs.attachments.keys()
    unlike = {}
    for key, attachment in mine.attachments.items():
        other = theirs.attachments[key]
        both = {name: (attachment.get(name), other.get(name)) for name in attachment.keys() | other.keys()}
        if fields := {name: pair for name, pair in both.items() if name not in ignored and pair[0] != pair[1]}:
            unlike[key] = fields
    assert unlike == {}
    assert mine.messages == theirs.messages
    assert mine.quarantine == theirs.quarantine
    assert mine.dialects == theirs.dialects


def _without(item: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name not in names}


def _found(catalog: Catalog, store: ContentStore, journal: JournalReader) -> HostResults:
    everything = AttachmentFilter()
    return HostResults(
        {
            record.id: _attachment(record, catalog, store, journal)
            for record in _all(lambda cursor: catalog.attachments(everything, cursor, 200))
        },
        {
            record.id: (_without(asdict(record), OF_THE_HOST) | {"is_complete": record.complete_at is not None})
            for record in _all(lambda cursor: catalog.messages(None, cursor, 200))
        },
        sorted(_all(lambda cursor: catalog.quarantined(None, None, cursor, 200)), key=lambda entry: entry.id),
        catalog.source_dialects(),
    )


def _attachment(
    record: AttachmentRecord, catalog: Catalog, store: ContentStore, journal: JournalReader
) -> dict[str, Any]:
    if record.storage is not None:
        content = open_content(record, catalog, store, journal)
        digest = sha256()
        for piece in content.read(0, content.size):
            digest.update(piece)
        assert (content.size, digest.hexdigest()) == (record.size, record.sha256)
    is_open = record.state is AttachmentState.RECEIVING
    missing = missing_ranges(record, catalog, journal, MOST_RANGES) if is_open else []
    return _without(asdict(record), OF_THE_HOST) | {"missing": missing}


def _all(fetch: Callable[[str | None], Page[T]]) -> Iterator[T]:
    cursor: str | None = None
    while True:
        page = fetch(cursor)
        yield from page.items
        cursor = page.next
        if cursor is None:
            return
