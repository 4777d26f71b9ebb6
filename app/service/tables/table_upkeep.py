"""Upkeep of the pipeline's tables: small files are joined and large ones divided among sources, files that were
replaced are deleted, logs are shortened.

Nothing here needs to be alone. A version of a table is put only if it does not exist, so of two processes that replace
the same files one gives up, and a commit that comes meanwhile is built upon. Files that a version of the last days
has, or that a batch has written and not yet committed, stay (`tables.keep_replaced`).
"""

from collections.abc import Callable
from threading import Event
from typing import Any

from app.observe import Recurring, logger
from app.ports import TableStore
from app.service.context import ServiceContext

AGAIN_SECONDS = 3600.0
"""The pause after a round in which a table failed, if the configured one is not shorter."""

log = logger(__name__)


class TableUpkeep:
    """Cares for all tables every `tables.upkeep`, one after the other. One that fails is logged, and stops no other."""

    def __init__(self, context: ServiceContext, tables: Callable[[], TableStore], stop: Event) -> None:
        self._context, self._tables, self._stop = context, tables, stop
        self._due = context.clock.monotonic()
        self._fault = Recurring(log, "table_upkeep")
        self._failing: list[str] = []
        context.metrics.table_upkeep_failing.set_function(lambda: len(self._failing))

    def step(self) -> None:
        """Care for all tables if that is due, until the keeper is told to stop."""
        settings, clock = self._context.settings, self._context.clock
        if clock.monotonic() < self._due:
            return
        every = settings.tables.upkeep.total_seconds()
        self._due = clock.monotonic() + min(every, AGAIN_SECONDS)  # holds if the tables cannot be listed
        if settings.tables.url is None and not (settings.data / "tables").exists():
            return  # there are none, and loading their libraries takes time and memory
        failing = self._care_for_all()
        if failing is None:
            return
        self._failing = failing
        if not failing:
            self._fault.worked()
            self._due = clock.monotonic() + every
        self._context.metrics.table_upkeep_ended.set(clock.now() / 1e6)

    def check(self) -> dict[str, Any]:
        """Return the state of the tables' upkeep for the health report."""
        return {"ok": self._fault.error is None, "failing": self._failing[:10], "error": self._fault.error}

    def _care_for_all(self) -> list[str] | None:
        """Return the tables that failed; None if the keeper was told to stop before the end."""
        failing, files = [], self._context.metrics.table_files
        try:
            store = self._tables()
            names = store.names()
        except Exception as error:  # noqa: BLE001 - `Recurring` logs it
            self._fault.failed(error)
            return None
        for name in names:
            if self._stop.is_set():
                return None
            self._context.catalog.flush()  # raises LeaseLost when another process is the keeper
            try:
                replaced = 0
                while not self._stop.is_set() and (now := store.compact(name, most=1)):
                    replaced += now
                if replaced:
                    files.labels("replaced").inc(replaced)
                    log.info("table_compacted", table=name, files=replaced)
                removed = store.vacuum(name, self._context.settings.tables.keep_replaced.total_seconds())
                if removed:
                    files.labels("removed").inc(removed)
                    log.info("table_vacuumed", table=name, files=removed)
                store.shorten_log(name)
            except KeyError:
                continue  # somebody has deleted the table since it was listed
            except Exception as error:  # noqa: BLE001 - `Recurring` logs it
                failing.append(name)
                self._fault.failed(error, table=name)
        return failing
