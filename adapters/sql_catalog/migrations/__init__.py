"""The schema's history. It is part of the package: no configuration file is needed, and opening a catalog runs it."""

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection

from app.model.errors import GatewayError


def configuration(connection: Connection) -> Config:
    """Return Alembic's configuration for this connection."""
    config = Config()
    config.set_main_option("script_location", "adapters.sql_catalog:migrations")
    config.set_main_option("file_template", "r%%(rev)s_%%(slug)s")
    config.attributes["connection"] = connection
    return config


def upgrade(connection: Connection) -> None:
    """Migrate the schema to its newest revision, in the caller's transaction. Raises GatewayError when it is newer than
    this program."""
    try:
        command.upgrade(configuration(connection), "head")
    except CommandError as error:
        raise GatewayError(f"the catalog's schema is of another version of this program: {error}") from error
