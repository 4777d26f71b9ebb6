"""The schema's history. It is part of the package: no configuration file is needed, and opening a catalog runs it."""

from functools import cache

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

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
    only if there is none yet. Raises GatewayError when it is newer than this program."""
    known, newest = _revisions()
    there = MigrationContext.configure(connection).get_current_heads()
    if newer := sorted({*there} - known):
        raise GatewayError(
            f"a newer version of this program has made the catalog {place}: its schema is {', '.join(newer)}, and this "
            f"version knows schemas up to {newest}. Run the newer version. To go back to this one, "
            "restore a backup that it has made, or run `attachment-gateway rebuild`: it makes a catalog of this "
            "version from the journal and the records"
        )
    if newest not in there and not (there and only_new):
        command.upgrade(configuration(connection), "head")


@cache
def _revisions() -> tuple[frozenset[str], str | None]:
    """Return the revisions that this program knows, and the newest one."""
    script = ScriptDirectory.from_config(configuration())
    return frozenset(each.revision for each in script.walk_revisions()), script.get_current_head()
