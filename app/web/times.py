"""Conversion of times: ISO 8601 for clients, microseconds since 1970-01-01 UTC internally."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import BeforeValidator

_NUMBER = re.compile(r"[+-]?[0-9.]+(e[+-]?[0-9]+)?", re.IGNORECASE)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _no_number(given: object) -> object:
    if isinstance(given, str) and _NUMBER.fullmatch(given.strip()):
        raise ValueError("a number is not a time; write a time such as 2026-11-21T08:00:00Z or 2026-11-21")
    return given


Timestamp = Annotated[datetime, BeforeValidator(_no_number)]
"""A time in ISO 8601. pydantic reads digits as seconds since 1970, which is never the intent of `20261122`."""


def to_time(microseconds: int) -> datetime:
    """Return the time for microseconds since 1970-01-01 UTC."""
    return _EPOCH + timedelta(microseconds=microseconds)


def to_microseconds(time: datetime | None) -> int | None:
    """Return the microseconds from 1970-01-01 UTC to a time. A time without a zone is UTC."""
    if time is None:
        return None
    return ((time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH) // timedelta(microseconds=1)


def optional_time(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else to_time(microseconds)
