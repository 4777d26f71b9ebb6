"""The upkeep of the tables of data sets: small files are joined, and what no version needs any more is deleted."""

from typing import Any, Final

from app.model.errors import GatewayError
from app.observe import Recurring, logger
from app.plugins import PluginError
from app.service.context import ServiceContext
from app.service.tables.table_adapters import TableAdapters

UPKEEP_SECONDS: Final = 900.0
LONGEST_COMMIT_SECONDS: Final = 6 * 3600.0
"""Files that are younger stay in any case: a pipeline may have written them and not yet committed them."""

log = logger(__name__)


class TableUpkeep:
    """Compacts and vacuums all tables with each call of `step`, one after the other.

    Pipelines and readers may use the tables meanwhile. A table that a pipeline changes at the same moment is left for
    the next call.
    """

    def __init__(self, context: ServiceContext) -> None:
        self._settings = context.settings
        self._tables = TableAdapters(context.settings)
        self._fault = Recurring(log, "table_upkeep")

    def step(self) -> None:
        """Do what is due. An error in one table does not stop the others; the first one is logged."""
        kept = self._settings.retention.table_versions
        if kept is None or not self._may_have_tables():
            return
        failed: Exception | None = None
        try:
            store = self._tables.delta()
            names = store.names()
        except PluginError:  # nothing can have made tables in this installation
            return
        except (GatewayError, OSError) as error:
            self._fault.failed(error)
            return
        for name in names:
            try:
                joined = store.compact(name)
                removed = store.vacuum(name, max(kept.total_seconds(), LONGEST_COMMIT_SECONDS))
            except (GatewayError, KeyError, OSError) as error:
                failed = failed or error
            else:
                if joined or removed:
                    log.info("table_maintained", table=name, files_joined=joined, files_removed=removed)
        if failed is None:
            self._fault.worked()
        else:
            self._fault.failed(failed)

    def check(self) -> dict[str, Any]:
        """Return the state of the upkeep for the health report."""
        return {"ok": self._fault.error is None, "error": self._fault.error}

    def _may_have_tables(self) -> bool:
        """Tell whether tables can exist; the library that reads them takes much memory."""
        return self._settings.tables.url is not None or (self._settings.data / "tables").is_dir()
