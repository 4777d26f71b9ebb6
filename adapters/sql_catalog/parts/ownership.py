"""The binding of a catalog to a journal and to the gateway that writes it."""

from sqlalchemy import Connection, select, update

from adapters.sql_catalog.log_beginnings import begin_event_log
from adapters.sql_catalog.parts.part import CatalogPart, rewrite_progress
from adapters.sql_catalog.schema import catalog_tables
from app.model.errors import CatalogTaken, GatewayError
from app.model.records import JournalIdentity


class OwnershipPart(CatalogPart):
    """`CatalogBinding` and `CatalogRepair` of `app.ports.catalog` over SQL."""

    def lock(self) -> None:
        self._database.lock.take()

    def take_over(self, least: int) -> int:
        with self._database.write(durable=True) as connection:
            last = connection.scalar(select(catalog_tables.progress.c.journal_epoch))
            epoch = max(least, (last or 0) + 1)
            connection.execute(update(catalog_tables.progress).values(journal_epoch=epoch))
        return epoch

    def journal_identity(self) -> JournalIdentity | None:
        bound = select(catalog_tables.progress.c.journal_id, catalog_tables.progress.c.journal_epoch)
        with self._database.read() as connection:
            row = connection.execute(bound).first()
        return None if row is None or row.journal_id is None else JournalIdentity(row.journal_id, row.journal_epoch)

    def claim(self, journal: JournalIdentity, place: str) -> None:
        def require_same(connection: Connection) -> None:
            bound = _bound(connection)
            if bound is not None and bound.id != journal.id:
                raise GatewayError(
                    f"the catalog {self._database.place} has results of journal {bound.id}, and the archive {place} is "
                    f"journal {journal.id}: give each journal results of its own (--out, or a catalog, content and "
                    "tables in the configuration), or name the archives of both in one batch"
                )

        is_new = catalog_tables.progress.c.journal_id.is_(None)
        self._database.admit = require_same
        with self._database.write(durable=True) as connection:
            bound = (
                update(catalog_tables.progress).where(is_new).values(journal_id=journal.id, journal_epoch=journal.epoch)
            )
            connection.execute(bound)

    def bind(self, journal: JournalIdentity) -> None:
        def require_no_later(connection: Connection) -> None:
            bound = _bound(connection)
            if bound is not None and bound.id == journal.id and bound.epoch > journal.epoch:
                raise GatewayError(
                    f"the catalog {self._database.place} is bound to epoch {bound.epoch} of journal {journal.id}, and "
                    f"this is an older copy of the journal with epoch {journal.epoch}: use the newest copy, or run "
                    "`attachment-gateway rebuild` to make a new catalog from this one"
                )

        def require_bound(connection: Connection) -> None:
            bound = _bound(connection)
            if bound is not None and bound != journal:
                raise CatalogTaken(
                    f"another gateway has taken over the catalog: it is bound to epoch {bound.epoch} of journal "
                    f"{bound.id}, and this process has epoch {journal.epoch} of {journal.id}, so it stops writing"
                )

        self._database.admit = require_no_later
        with self._database.write(durable=True) as connection:
            connection.execute(
                update(catalog_tables.progress).values(journal_id=journal.id, journal_epoch=journal.epoch)
            )
            begin_event_log(connection)
        self._database.admit = require_bound

    def flush(self) -> None:
        with self._database.write(durable=True) as connection:
            rewrite_progress(connection)

    def set_progress(self, position: int | None) -> None:
        self._execute(update(catalog_tables.progress).values(position=position), durable=True)


def _bound(connection: Connection) -> JournalIdentity | None:
    """Return the journal that the catalog is bound to.

    This runs with every write, so it uses the driver: SQLAlchemy would take longer than the database.
    """
    cursor = connection.connection.cursor()
    try:
        cursor.execute("SELECT journal_id, journal_epoch FROM progress")
        row = cursor.fetchone()
    finally:
        cursor.close()
    return None if row is None or row[0] is None else JournalIdentity(*row)
