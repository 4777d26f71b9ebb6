"""The tables that a caller knows."""

from typing import Annotated

from fastapi import Depends

from app.plugins import PluginError
from app.ports import OpenTable, TableStore
from app.service.tables.table_reader import are_within, open_table
from app.web.dependencies.caller import Caller, CallerDep
from app.web.dependencies.request_gateway import GatewayDep
from app.web.problems import Problem


class KnownTables:
    """The tables that exist for a caller: all, or those whose rows are all of its sources."""

    def __init__(self, store: TableStore, caller: Caller) -> None:
        self.store, self._caller = store, caller

    def names(self) -> list[str]:
        """Return the names of the tables, in no particular order."""
        names, within = self.store.names(), self._caller.sources
        return names if within is None else [name for name in names if are_within(self.store, name, within)]

    def open(self, name: str) -> OpenTable:
        """Return the newest version of a table, by its name in any case. Raises KeyError if there is none."""
        within, trail = self._caller.sources, self._caller.trail
        opened = open_table(self.store, name)
        exact = opened.version.name
        if within is not None and not are_within(self.store, exact, within):
            trail.refused = f"rows of the table {exact!r} are of sources that are not among the caller's"
            raise KeyError(name)
        trail.details = {"table": exact}
        return opened


def _tables(gateway: GatewayDep, caller: CallerDep) -> KnownTables:
    try:
        return KnownTables(gateway.tables.delta(), caller)
    except PluginError as error:
        raise Problem("tables-unavailable", str(error)) from None


TablesDep = Annotated[KnownTables, Depends(_tables)]
