"""The schema's history. It is part of the package: no configuration file is needed, and opening a catalog runs it."""

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import Connection

from app.model.data_formats import CATALOG, number_in
from app.model.errors import GatewayError


def configuration(connection: Connection | None = None) -> Config:
    """Return Alembic's configuration for this connection, or for what needs none."""
    config = Config()
    config.set_main_option("script_location", "adapters.sql_catalog.schema:migrations")
    config.set_main_option("file_template", "r%%(rev)s_%%(slug)s")
    config.attributes["connection"] = connection
    return config


def upgrade(connection: Connection, place: str, *, only_new: bool = False) -> None:
    """Migrate the schema of the catalog in a place to its newest revision, in the caller's transaction; with `only_new`
    only if there is none yet. Raises NewerFormat."""
    there = require_known(connection, place)
    if CATALOG.number not in there and not (there and only_new):
        command.upgrade(configuration(connection), "head")


def require_known(connection: Connection, place: str) -> list[int]:
    """Return the number of the revision of the schema that is there, none if there is none. Raises NewerFormat, and
    GatewayError if it is the schema of another program."""
    there: list[int] = []
    for revision in MigrationContext.configure(connection).get_current_heads():
        CATALOG.require_known(revision, f"the catalog {place}")
        if (number := number_in(revision)) is None:
            raise GatewayError(
                f"the catalog {place} has the schema {revision!r} of another program; name another database"
            )
        there.append(number)
    return there
