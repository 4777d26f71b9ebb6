"""Times: microseconds since 1970-01-01 UTC, as all records have them, and datetimes."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_time(microseconds: int) -> datetime:
    """Return the time for microseconds since 1970-01-01 UTC."""
    return _EPOCH + timedelta(microseconds=microseconds)


def to_microseconds(time: datetime) -> int:
    """Return the microseconds from 1970-01-01 UTC to a time, negative before. A time without a zone is UTC."""
    return ((time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND
