"""Leases, and the fence that keeps a former holder from writing."""

from copy import copy
from typing import Any, Self

from sqlalchemy import Connection, func, select, text, update
from sqlalchemy.exc import ProgrammingError

from adapters.sql_catalog.database_connections import Database
from adapters.sql_catalog.log_beginnings import NEWEST_NAME, newest_log
from adapters.sql_catalog.parts.part import CatalogPart, ends_in, now_of
from adapters.sql_catalog.schema.catalog_tables import leases
from app.model.errors import CatalogError, LeaseLost
from app.ports import HeldLease

_EPOCH = {
    "sqlite": f"SELECT holder, epoch, ({NEWEST_NAME}) FROM leases WHERE name = ?",  # noqa: S608 - a constant
    "postgresql": f"SELECT holder, epoch, ({NEWEST_NAME}) FROM leases WHERE name = %s",  # noqa: S608 - a constant
}


def holder_of(connection: Connection, name: str) -> str | None:
    """Return the process that has a lease now."""
    is_held = (leases.c.name == name) & (leases.c.until > now_of(connection))
    holder: str | None = connection.scalar(select(leases.c.holder).where(is_held))
    return holder


class LeasesPart(CatalogPart):
    """`LeaseCatalog` of `app.ports.catalog` over SQL. Every change is durable on return."""

    _ends_with_log = True

    def lease_holder(self, name: str) -> str | None:
        with self._database.read() as connection:
            return holder_of(connection, name)

    def take_lease(self, name: str, holder: str, seconds: float, *, at_once: bool = False) -> HeldLease | None:
        # In a turn: then no write under the lease before is still under way.
        with self._database.write(durable=True) as connection:
            taken = {"holder": holder, "until": ends_in(connection, seconds)}
            added = self._database.insert(leases).values(name=name, epoch=1, note=None, **taken)
            changed = added.on_conflict_do_update(
                index_elements=["name"],
                set_={**taken, "epoch": leases.c.epoch + 1},
                where=None if at_once else leases.c.until <= now_of(connection),
            )
            row = connection.execute(changed.returning(leases.c.epoch, leases.c.note)).first()
            log = newest_log(connection).name if self._ends_with_log else None
        return None if row is None else HeldLease(name, holder, row.epoch, row.note, log)

    def renew_lease(self, lease: HeldLease, seconds: float, note: int | None = None) -> bool:
        return self._change_lease(lease, seconds, note)

    def release_lease(self, lease: HeldLease, note: int | None = None) -> None:
        if not self._change_lease(lease, 0.0, note):
            self._change_lease(lease._replace(log=None), 0.0, None)

    def _change_lease(self, lease: HeldLease, seconds: float, note: int | None) -> bool:
        """Set the end of a lease, unless somebody has taken it or its log is not the newest; return whether it was
        set."""
        noted = {} if note is None else {"note": note}
        with self._database.statement() as connection:
            until = ends_in(connection, seconds)
            same = [leases.c.name == lease.name, leases.c.holder == lease.holder, leases.c.epoch == lease.epoch]
            if lease.log is not None:
                same.append(func.coalesce(text(f"({NEWEST_NAME})"), "") == lease.log)
            return bool(connection.execute(update(leases).where(*same).values(until=until, **noted)).rowcount)

    def under(self, lease: HeldLease) -> Self:
        asked = _EPOCH[self._database.dialect]

        def require_held(connection: Connection) -> None:
            """Raise LeaseLost if somebody has taken the lease since, or another log has begun. This runs with every
            write, by the driver."""
            cursor: Any = connection.connection.cursor()
            try:
                cursor.execute(asked, (lease.name,))
                row = cursor.fetchone()
            finally:
                cursor.close()
            if row is None or tuple(row[:2]) != (lease.holder, lease.epoch):
                holder = "nobody" if row is None else f"{row[0]} with epoch {row[1]}"
                raise LeaseLost(
                    f"the lease {lease.name} of epoch {lease.epoch} is over: {holder} holds it, so {lease.holder} "
                    "writes nothing more under it"
                )
            if lease.log not in (None, row[2] or ""):
                raise LeaseLost(
                    f"the lease {lease.name} of epoch {lease.epoch} is over: the database was started or put back "
                    "since it was taken, and may lack what was read from it before"
                )

        view = copy(self)
        view._database = self._database.also_requiring(require_held)
        return view


class LeasesAlone(LeasesPart):
    """The leases of a catalog that is not open. A schema that is there stays as it is: another process may use it."""

    _ends_with_log = False

    def __init__(self, url: str) -> None:
        super().__init__(Database(url, upgrades=False))
        self._is_made = False

    def lease_holder(self, name: str) -> str | None:
        if not self._is_made:
            self._database.upgrade(only_new=True)
            self._is_made = True
        try:
            return super().lease_holder(name)
        except ProgrammingError as error:
            self._is_made = False
            raise CatalogError(f"the catalog {self._database.place} has been replaced by a new one") from error

    def close(self) -> None:
        self._database.close()
