"""The catalog's operations for records and repairs, beyond those of a running gateway."""

from sqlalchemy import update

from adapters.sql_catalog.parts.part import CatalogPart
from adapters.sql_catalog.schema.catalog_tables import progress


class Repairing(CatalogPart):
    """`app.ports.CatalogRepair` over SQL."""

    def flush(self) -> None:
        """Make all earlier writes durable. Any durable write takes the quick ones before it to disk; this one changes
        no value."""
        with self._database.write(durable=True) as connection:
            connection.execute(update(progress).values(position=progress.c.position))

    def set_progress(self, position: int | None) -> None:
        with self._database.write(durable=True) as connection:
            connection.execute(update(progress).values(position=position))
