"""Dates, times and timestamps as the digits that data parts have, in every format of a session.

The formats have different shapes, so reading needs no format. ISO and JIS write dates and times alike; USA, EUR and JIS
write timestamps alike.
"""

import re
from datetime import date, datetime
from enum import IntEnum
from typing import Final, NamedTuple, NoReturn

from app.wire import WireError


class DateFormat(IntEnum):
    """How a session writes dates and times. Oracle's own format has no fixed shape and is not written here."""

    NONE = 0
    INTERNAL = 1
    ISO = 2
    USA = 3
    EUR = 4
    JIS = 5
    ORACLE = 6


class Time(NamedTuple):
    """A time of day, or a duration of up to 9999 hours, which is what the internal format has room for."""

    hours: int
    minutes: int
    seconds: int


_DATES: Final = re.compile(
    r"(?P<y>\d{4})(?P<m>\d\d)(?P<d>\d\d)|(?P<y1>\d{4})-(?P<m1>\d\d)-(?P<d1>\d\d)"
    r"|(?P<m2>\d\d)/(?P<d2>\d\d)/(?P<y2>\d{4})|(?P<d3>\d\d)\.(?P<m3>\d\d)\.(?P<y3>\d{4})",
    re.ASCII,
)
_TIMES: Final = re.compile(
    r"(?P<h>\d{4})(?P<m>\d\d)(?P<s>\d\d)|(?P<h1>\d\d):(?P<m1>\d\d):(?P<s1>\d\d)"
    r"|(?P<h2>\d\d)\.(?P<m2>\d\d)\.(?P<s2>\d\d)|(?P<h3>\d\d):(?P<m3>\d\d) (?P<half>[AP]M)",
    re.ASCII,
)
_TIMESTAMPS: Final = re.compile(
    r"(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d{6})"
    r"|(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{6})"
    r"|(\d{4})-(\d\d)-(\d\d)-(\d\d)\.(\d\d)\.(\d\d)\.(\d{6})",
    re.ASCII,
)

_DATE_TEXTS: Final = {
    DateFormat.INTERNAL: "{0:04}{1:02}{2:02}",
    DateFormat.ISO: "{0:04}-{1:02}-{2:02}",
    DateFormat.USA: "{1:02}/{2:02}/{0:04}",
    DateFormat.EUR: "{2:02}.{1:02}.{0:04}",
    DateFormat.JIS: "{0:04}-{1:02}-{2:02}",
}
_TIME_TEXTS: Final = {
    DateFormat.INTERNAL: "{0:04}{1:02}{2:02}",
    DateFormat.ISO: "{0:02}:{1:02}:{2:02}",
    DateFormat.EUR: "{0:02}.{1:02}.{2:02}",
    DateFormat.JIS: "{0:02}:{1:02}:{2:02}",
}
_MOST_HOURS: Final = {DateFormat.INTERNAL: 9999, DateFormat.USA: 23}
_INTERNAL_TIMESTAMP: Final = "{:04}{:02}{:02}{:02}{:02}{:02}{:06}"
_ISO_TIMESTAMP: Final = "{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:06}"
_OTHER_TIMESTAMP: Final = "{:04}-{:02}-{:02}-{:02}.{:02}.{:02}.{:06}"
_TIMESTAMP_TEXTS: Final = {
    DateFormat.INTERNAL: _INTERNAL_TIMESTAMP,
    DateFormat.ISO: _ISO_TIMESTAMP,
    DateFormat.USA: _OTHER_TIMESTAMP,
    DateFormat.EUR: _OTHER_TIMESTAMP,
    DateFormat.JIS: _OTHER_TIMESTAMP,
}


def parse_date(text: str, row: str, at: int) -> date:
    """Return the date of a text in any format. Raises WireError."""
    found = _DATES.fullmatch(text)
    if found is None:
        raise WireError(row, at, f"{text!r} is not a date in any format")
    year, month, day = (_first(found, name) for name in "ymd")
    try:
        return date(year, month, day)
    except ValueError as error:
        raise WireError(row, at, f"{text!r} is not a date: {error}") from None


def parse_time(text: str, row: str, at: int) -> Time:
    """Return the time of a text in any format. Raises WireError."""
    found = _TIMES.fullmatch(text)
    if found is None:
        raise WireError(row, at, f"{text!r} is not a time in any format")
    half = found["half"]
    hours, minutes = _first(found, "h"), _first(found, "m")
    seconds = 0 if half else _first(found, "s")
    if minutes > 59 or seconds > 59 or (half and not 1 <= hours <= 12):
        raise WireError(row, at, f"{text!r} is not a time")
    return Time(hours % 12 + 12 * (half == "PM") if half else hours, minutes, seconds)


def parse_timestamp(text: str, row: str, at: int) -> datetime:
    """Return the timestamp of a text in any format. Raises WireError."""
    found = _TIMESTAMPS.fullmatch(text)
    if found is None:
        raise WireError(row, at, f"{text!r} is not a timestamp in any format")
    year, month, day, hour, minute, second, microsecond = (int(each) for each in found.groups() if each is not None)
    try:
        return datetime(year, month, day, hour, minute, second, microsecond)
    except ValueError as error:
        raise WireError(row, at, f"{text!r} is not a timestamp: {error}") from None


def _first(found: re.Match[str], name: str) -> int:
    """Return the number of the first group of a name that matched: name, name1, name2 ..."""
    return next(int(text) for key, text in found.groupdict().items() if key[0] == name and text and key != "half")


def date_text(value: date, date_format: DateFormat) -> str:
    """Return a date in a format. Raises WireError for a format that has no fixed shape."""
    shape = _DATE_TEXTS.get(date_format) or _refuse(date_format)
    return shape.format(value.year, value.month, value.day)


def time_text(value: Time, date_format: DateFormat) -> str:
    """Return a time in a format. USA has no seconds. Raises WireError."""
    hours, minutes, _ = value
    if not 0 <= hours <= _MOST_HOURS.get(date_format, 99):
        raise WireError("time", 0, f"{hours} hours do not fit the format {date_format.name}")
    if date_format == DateFormat.USA:
        return f"{(hours - 1) % 12 + 1:02}:{minutes:02} {'PM' if hours >= 12 else 'AM'}"
    return (_TIME_TEXTS.get(date_format) or _refuse(date_format)).format(*value)


def timestamp_text(value: datetime, date_format: DateFormat) -> str:
    """Return a timestamp in a format. Raises WireError for a format that has no fixed shape."""
    shape = _TIMESTAMP_TEXTS.get(date_format) or _refuse(date_format)
    return shape.format(*value.timetuple()[:6], value.microsecond)


def _refuse(date_format: DateFormat) -> NoReturn:
    raise WireError("date_format", 0, f"values are not written in the format {date_format.name}")
