"""Times: microseconds since 1970-01-01 UTC, as all records have them, and datetimes."""

from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from functools import lru_cache

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_time(microseconds: int) -> datetime:
    """Return the time for microseconds since 1970-01-01 UTC."""
    return _EPOCH + timedelta(microseconds=microseconds)


@lru_cache(maxsize=1000)
def http_date(seconds: int) -> str:
    """Return a date as HTTP has it (IMF-fixdate; RFC 9110, 5.6.7), for seconds since 1970-01-01 UTC."""
    return formatdate(seconds, usegmt=True)


def to_microseconds(time: datetime) -> int:
    """Return the microseconds from 1970-01-01 UTC to a time, negative before. A time without a zone is UTC."""
    return ((time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND
