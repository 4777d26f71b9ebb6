"""The health of the process, as REST reports it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.settings import Role

Checks = Mapping[str, dict[str, Any]]
"""Checks by their names. Each has `ok`, and more for people."""


_NOT_OK: Final = {"ok": False}


@dataclass(frozen=True, slots=True)
class Health:
    """The health of the process: whether it should live on, whether it can do what its roles say, whether clients can
    read, whether it can receive, and the checks."""

    live: bool
    ready: bool
    read: bool
    receive: bool
    checks: dict[str, dict[str, Any]]

    @classmethod
    def of(cls, checks: Checks, failed: list[str], roles: Collection[Role], *, is_up: bool) -> "Health":
        """Return the health of a process with these roles by these checks, where these workers have `failed`."""
        is_well = is_up and not failed
        able = {
            Role.RECEIVE: is_well and checks.get("journal", _NOT_OK)["ok"],
            Role.SERVE: is_well and checks["catalog"]["ok"],
            Role.KEEP: is_well,
        }
        stages = {"stages": {"ok": not failed, "failed": failed}}
        return cls(
            live=not failed,
            ready=all(able[role] for role in roles),
            read=Role.SERVE in roles and able[Role.SERVE],
            receive=Role.RECEIVE in roles and able[Role.RECEIVE],
            checks={**stages, **checks},
        )
