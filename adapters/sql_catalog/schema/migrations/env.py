"""Alembic's environment, run for each of its commands."""

from alembic import context
from sqlalchemy import Connection, text

from adapters.sql_catalog.schema.catalog_tables import metadata
from adapters.sql_catalog.schema.migrations import is_in_metadata

_UPGRADING = 0x6361_7461_6C6F_6773


connection: Connection = context.config.attributes["connection"]
if connection.dialect.name == "postgresql":
    # Two gateways that start at once must not both create the tables. SQLite's writers wait for each other anyway.
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _UPGRADING})
context.configure(
    connection=connection,
    target_metadata=metadata,
    include_object=is_in_metadata,
    render_as_batch=True,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
