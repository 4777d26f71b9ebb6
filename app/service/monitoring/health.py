"""The health of the process, as REST reports it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

Checks = Mapping[str, dict[str, Any]]
"""Checks by their names. Each has `ok`, and more for people."""


@dataclass(frozen=True, slots=True)
class Health:
    """The health of the process: whether it should live on, whether clients can read, whether it can receive, whether
    it is ready by `http.ready`, and the checks."""

    live: bool
    read: bool
    receive: bool
    ready: bool
    checks: dict[str, dict[str, Any]]

    @classmethod
    def of(cls, checks: Checks, failed: list[str], asked: Collection[str], *, is_up: bool) -> "Health":
        """Return the health by these checks, where these workers have `failed`. To be ready, it must be able to do what
        is `asked`."""
        is_well = is_up and not failed
        able = {"read": is_well and checks["catalog"]["ok"], "receive": is_well and checks["journal"]["ok"]}
        stages = {"stages": {"ok": not failed, "failed": failed}}
        return cls(live=not failed, ready=all(able[each] for each in asked), **able, checks={**stages, **checks})
