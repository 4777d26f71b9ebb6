"""The table store: Delta tables in a local folder or a bucket."""

from adapters.delta_tables.delta_store import DeltaTables

__all__ = ["DeltaTables"]
