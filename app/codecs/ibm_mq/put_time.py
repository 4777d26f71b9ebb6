"""PutDate and PutTime: YYYYMMDD and HHMMSSTH, in GMT (IBM MQ, "MQMD": PutDate, PutTime)."""

from datetime import UTC, datetime


def microseconds(put_date_and_time: str) -> int:
    """Return the time of a PutDate followed by its PutTime, in microseconds since 1970; 0 if it is not a valid time."""
    try:
        moment = datetime.strptime(put_date_and_time[:14] + "+0000", "%Y%m%d%H%M%S%z")
        return int(moment.timestamp()) * 1_000_000 + int(put_date_and_time[14:]) * 10_000
    except ValueError:
        return 0


def put_date_and_time(microseconds: int) -> tuple[str, str]:
    """Return the PutDate and the PutTime of a time; two empty strings for 0."""
    if not microseconds:
        return "", ""
    seconds, rest = divmod(microseconds, 1_000_000)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y%m%d}", f"{moment:%H%M%S}{rest // 10_000:02d}"
