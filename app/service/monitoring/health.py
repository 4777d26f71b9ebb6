"""The health of the process, as REST reports it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Checks = Mapping[str, dict[str, Any]]
"""Checks by their names. Each has `ok`, and more for people."""


@dataclass(frozen=True, slots=True)
class Health:
    """The health of the process: whether it should live on, whether clients can read, whether it can receive, and the
    checks."""

    live: bool
    read: bool
    receive: bool
    checks: dict[str, dict[str, Any]]

    @classmethod
    def of(cls, checks: Checks, failed: list[str], *, is_up: bool) -> "Health":
        """Return the health by these checks, where these workers have `failed`."""
        is_well = is_up and not failed
        able = {"read": is_well and checks["catalog"]["ok"], "receive": is_well and checks["journal"]["ok"]}
        stages = {"stages": {"ok": not failed, "failed": failed}}
        return cls(live=not failed, **able, checks={**stages, **checks})

    @property
    def ready(self) -> bool:
        """Whether it can do both."""
        return self.read and self.receive
