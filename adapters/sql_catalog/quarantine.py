"""What could not be understood."""

from sqlalchemy import select, update

from adapters.sql_catalog.paging import Listing, fetch_page
from adapters.sql_catalog.part import CatalogPart
from adapters.sql_catalog.rows import quarantine_record
from adapters.sql_catalog.tables import quarantine
from app.model.records import QuarantineRecord, QuarantineState
from app.ports import Page

_QUARANTINE = Listing(quarantine.c.received_at, quarantine.c.id, quarantine_record)


class Quarantine(CatalogPart):
    """The calls of `app.ports.Catalog` under "quarantine"."""

    def quarantined(
        self, source: str | None, state: QuarantineState | None, cursor: str | None, limit: int
    ) -> Page[QuarantineRecord]:
        statement = select(quarantine)
        if source is not None:
            statement = statement.where(quarantine.c.source == source)
        if state is not None:
            statement = statement.where(quarantine.c.state == state)
        with self._database.read() as connection:
            return fetch_page(connection, _QUARANTINE, statement, cursor, limit)

    def quarantine_entry(self, quarantine_id: str) -> QuarantineRecord | None:
        return self._one(select(quarantine).where(quarantine.c.id == quarantine_id), quarantine_record)

    def set_quarantine_state(self, quarantine_id: str, state: QuarantineState) -> bool:
        """False when there is no such entry."""
        change = update(quarantine).where(quarantine.c.id == quarantine_id).values(state=state)
        with self._database.write(durable=True) as connection:
            return bool(connection.execute(change).rowcount)
