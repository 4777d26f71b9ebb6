"""The schema's history. It is part of the package: no configuration file is needed, and opening a catalog runs it."""

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import Connection, inspect

from app.model.data_formats import CATALOG, number_in
from app.model.errors import GatewayError

COPY_OF = "copy_of_"
"""How the names of indexes begin that have whole rows."""
_BEGINS = {"attachments": "first_position + 0", "messages": "header_position + 0"}
"""How the entries of large tables begin whose keys have no order: by what grows, so that new entries lie side by side,
and by no column, so that no query uses them."""


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
        copies = connection.dialect.name == "sqlite"
        if copies:
            _drop_copies(connection)
        command.upgrade(configuration(connection), "head")
        if copies:
            _copy_rows(connection)


def is_in_metadata(_object: object, name: str | None, kind: str, _reflected: bool, _compared: object) -> bool:
    """Tell Alembic whether the tables' definitions would have something that a database has: all but copies of rows."""
    return kind != "index" or name is None or not name.startswith(COPY_OF)


def _drop_copies(connection: Connection) -> None:
    """Drop the copies of rows, which would not let a migration drop a column."""
    for name in connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'index'").scalars().all():
        if name.startswith(COPY_OF):
            connection.exec_driver_sql(f'DROP INDEX "{name}"')


def _copy_rows(connection: Connection) -> None:
    """Give each table of SQLite an index over all of its columns.

    SQLite has no checksums. But its integrity check compares each row with its entry in each index: so it finds a
    changed bit in any value.
    """
    inspector = inspect(connection)
    for table in inspector.get_table_names():
        begins = [_BEGINS[table]] if table in _BEGINS else []
        # SQLite takes a name in quotes that is no column for a text, but not one in brackets.
        names = ", ".join([*begins, *(f"[{column['name']}]" for column in inspector.get_columns(table))])
        connection.exec_driver_sql(f'CREATE INDEX "{COPY_OF}{table}" ON "{table}" ({names})')


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
