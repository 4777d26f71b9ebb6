"""The catalog in a SQL database: SQLite by default, PostgreSQL when several processes read."""

from adapters.sql_catalog.catalog import SqlCatalog

__all__ = ["SqlCatalog"]
