"""The stores of a gateway on which a check or a repair works. Those of a running gateway are only read."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from time import monotonic, time_ns
from typing import Protocol

from app import plugins
from app.metrics import Metrics
from app.model.errors import GatewayError
from app.model.message import Position
from app.ports import Catalog, CatalogDatabase, Clock, ContentStore, Journal, JournalArchive, TableStore
from app.service.content.archived import archive_of
from app.service.context import ReceiverContext
from app.service.receiving.catalog_claim import assembled, require_no_receivers, require_one_archive
from app.service.repair.record_files import last_recorded_event
from app.settings import Settings


class ProgressListener(Protocol):
    """A receiver of the progress of long work."""

    def begin(self, work: str, total: int | None) -> None:
        """Report that work begins, with its total of bytes or pieces; None when the total is unknown."""

    def advance(self, amount: int) -> None:
        """Report that `amount` more bytes or pieces are done."""


class _Clock:
    def now(self) -> int:
        return time_ns() // 1000

    def monotonic(self) -> float:
        return monotonic()


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayStores:
    """All the stores of a gateway.

    `catalog` is None when no catalog can be opened; `catalog_error` says why. The journal is the `writer` if it may be
    written, else the `archive`.
    """

    settings: Settings
    database: CatalogDatabase
    catalog: Catalog | None
    catalog_error: str | None
    writer: Journal | None
    archive: JournalArchive | None
    store: ContentStore
    tables: Callable[[], TableStore]
    clock: Clock

    @property
    def journal(self) -> Journal | JournalArchive:
        found = self.archive if self.writer is None else self.writer
        assert found is not None
        return found

    def service_context(self, catalog: Catalog, journal: Journal) -> ReceiverContext:
        """Return the context that the service's own functions need."""
        return ReceiverContext(
            settings=self.settings,
            journal=journal,
            catalog=catalog,
            store=self.store,
            clock=self.clock,
            metrics=Metrics(),
        )


@contextmanager
def opened(settings: Settings, *, write: bool) -> Iterator[GatewayStores]:
    """Open all stores: to be read while a gateway runs, or (`write`) alone, with the locks that a gateway takes.

    The journal that receivers share is the archive, which is only read.

    Raises GatewayError when another process has the locks, or when a store is missing or cannot be opened.
    """
    if write and settings.journal.shared:
        raise GatewayError(
            "what repairs a journal and makes a catalog anew works for a gateway that receives alone. With "
            "journal.shared, the journal is the archive, which is not changed: restore the database from its own backup"
        )
    clock = _Clock()
    database = plugins.catalog().database(settings.catalog_url)
    with ExitStack() as closing:

        @cache
        def opened_catalog() -> tuple[Catalog | None, str | None]:
            catalog, why = _catalog(settings, database)
            if catalog is not None:
                closing.callback(catalog.close)
            return catalog, why

        def durable(journal_id: str) -> Position | None:
            catalog, _ = opened_catalog()
            return None if catalog is None else assembled(catalog, journal_id)

        # What is changed is compared first. What is only read may be missing: the journal says so, and makes no folder.
        store = _content_store(settings) if write else None
        writer: Journal | None = None
        archive: JournalArchive | None = None
        catalog, why = opened_catalog()
        if catalog is not None and write:
            require_one_archive(catalog, database.place)
        if not settings.journal.shared:
            if catalog is not None:
                require_no_receivers(catalog, database.place, "as the archive is this journal")
            _require_folder(settings, catalog)
        if write:
            writer = plugins.journal()(settings.journal_folder, clock=clock, durable=durable)
            closing.callback(writer.close)
        else:
            archive = journal_archive(settings, catalog)
        if catalog is not None and write:
            catalog.lock()
        yield GatewayStores(
            settings=settings,
            database=database,
            catalog=catalog,
            catalog_error=why,
            writer=writer,
            archive=archive,
            store=store or _content_store(settings),
            tables=lambda: tables(settings),
            clock=clock,
        )


def _require_folder(settings: Settings, catalog: Catalog | None) -> None:
    """Raise GatewayError if the journal of a catalog that processes share is not in this data folder: it is in that of
    the process that receives, and this one must not take it for lost."""
    if catalog is not None and catalog.combined() is not None:
        return
    if settings.is_catalog_shared and not settings.journal_folder.is_dir():
        raise GatewayError(
            f"there is no folder {settings.journal_folder}, and the journal is in the data folder of the process that "
            "receives: use the settings of that one. If its journal is lost, make the folder"
        )


def _content_store(settings: Settings) -> ContentStore:
    """Return the content store. Raises NewerFormat if a newer version has written its records."""
    store: ContentStore = plugins.content_store()(settings.content_url)
    last_recorded_event(store)
    return store


def journal_archive(settings: Settings, catalog: Catalog | None) -> JournalArchive:
    """Return the journal for reading: that of this gateway, or the one that receivers share, or all that the catalog
    has results of."""
    shared = settings.journal.archive_url if settings.journal.shared else None
    return archive_of(catalog, shared or settings.journal_folder, settings)


def tables(settings: Settings) -> TableStore:
    """Return the tables. Raises PluginError when the library that reads them is missing."""
    return plugins.table_store()(settings.tables_url)


def _catalog(settings: Settings, database: CatalogDatabase) -> tuple[Catalog | None, str | None]:
    if not database.exists():
        return None, None
    try:
        problems = database.problems()
        if problems:
            return None, "; ".join(problems)
        return plugins.catalog()(settings.catalog_url), None
    except GatewayError as error:
        return None, str(error)
