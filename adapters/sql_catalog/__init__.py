"""The catalog in a SQL database: SQLite by default, PostgreSQL for several processes that read."""

from adapters.sql_catalog.catalog import SqlCatalog

__all__ = ["SqlCatalog"]
