"""Conversion of times: ISO 8601 for clients, microseconds since 1970-01-01 UTC internally."""

import re
from datetime import datetime
from typing import Annotated

from pydantic import BeforeValidator

from app.model import times

_NUMBER = re.compile(r"[+-]?[0-9.]+(e[+-]?[0-9]+)?", re.IGNORECASE)


def _no_number(given: object) -> object:
    if isinstance(given, str) and _NUMBER.fullmatch(given.strip()):
        raise ValueError("a number is not a time; write a time such as 2026-11-21T08:00:00Z or 2026-11-21")
    return given


Timestamp = Annotated[datetime, BeforeValidator(_no_number)]
"""A time in ISO 8601. pydantic reads digits as seconds since 1970, which is never the intent of `20261122`."""


def to_microseconds(time: datetime | None) -> int | None:
    """Return the microseconds from 1970-01-01 UTC to a time. A time without a zone is UTC."""
    return None if time is None else times.to_microseconds(time)


def optional_time(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else times.to_time(microseconds)
