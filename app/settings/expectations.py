"""Expectations of what the pipeline receives."""

from typing import Literal

from pydantic import model_validator

from app.settings.section import Section
from app.settings.setting_types import Name

Quantity = Literal[
    "messages",
    "duplicates",
    "conflicts",
    "attachments_begun",
    "attachments_completed",
    "attachments_quarantined",
    "missing_ranges",
    "longest_seconds",
    "mean_seconds",
    "duplicate_share",
    "conflict_share",
    "quarantined_share",
]
"""Columns of the table `quality`; the mean time to complete an attachment (seconds); and shares from 0 to 1: of
duplicates and conflicts in the messages, and of quarantined attachments in those begun."""


class Expectation(Section):
    """A limit for a quantity of the table `quality`, checked for every source (or only this one) after each run.

    It covers the hours to which the run has added. A violation is a warning, or ends the run with an error."""

    quantity: Quantity
    at_most: float | None = None
    at_least: float | None = None
    source: Name | None = None
    action: Literal["warn", "fail"] = "warn"

    @model_validator(mode="after")
    def _has_a_limit(self) -> "Expectation":
        if (self.at_most is None) == (self.at_least is None):
            raise ValueError("give either at_most or at_least")
        return self
