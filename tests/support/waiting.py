"""Waiting on conditions, as the contract suites do."""

from app.testing.waiting import PATIENCE, until

__all__ = ["PATIENCE", "until"]
