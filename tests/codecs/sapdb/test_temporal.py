"""Dates and times: both ways, and what they refuse."""

from datetime import date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.codecs.sapdb.constants import DataType
from app.codecs.sapdb.parameter_values import decode_value
from app.codecs.sapdb.temporal_digits import (
    DateFormat,
    Time,
    date_text,
    parse_date,
    parse_time,
    parse_timestamp,
    time_text,
    timestamp_text,
)
from app.wire import WireError
from tests.codecs.sapdb.values import BIG

FORMATS = [DateFormat.INTERNAL, DateFormat.ISO, DateFormat.USA, DateFormat.EUR, DateFormat.JIS]


@pytest.mark.parametrize("date_format", FORMATS)
@given(st.datetimes(datetime(1, 1, 1)), st.integers(0, 9999))
def test_moments_come_back_in_every_format(date_format: DateFormat, moment: datetime, hours: int) -> None:
    assert parse_date(date_text(moment.date(), date_format), "date", 0) == moment.date()
    assert parse_timestamp(timestamp_text(moment, date_format), "timestamp", 0) == moment
    hours %= 10_000 if date_format == DateFormat.INTERNAL else 24
    time = Time(hours, moment.minute, 0 if date_format == DateFormat.USA else moment.second)
    assert parse_time(time_text(time, date_format), "time", 0) == time


def test_moments_as_the_formats_have_them() -> None:
    day, time = date(2001, 5, 10), Time(14, 39, 44)
    moment = datetime(1999, 1, 23, 14, 30, 8, 456234)
    texts = [(date_text(day, each), time_text(time, each), timestamp_text(moment, each)) for each in FORMATS]
    assert texts == [
        ("20010510", "00143944", "19990123143008456234"),
        ("2001-05-10", "14:39:44", "1999-01-23 14:30:08.456234"),
        ("05/10/2001", "02:39 PM", "1999-01-23-14.30.08.456234"),
        ("10.05.2001", "14.39.44", "1999-01-23-14.30.08.456234"),
        ("2001-05-10", "14:39:44", "1999-01-23-14.30.08.456234"),
    ]
    assert [parse_time(text, "", 0).hours for text in ("12:00 AM", "12:00 PM", "01:00 AM", "11:59 PM")] == [
        0,
        12,
        1,
        23,
    ]
    with pytest.raises(WireError, match="ORACLE"):
        date_text(day, DateFormat.ORACLE)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (DataType.DATE, "2001-02-29"),
        (DataType.DATE, "10/31/01"),
        (DataType.DATE, ""),
        (DataType.TIME, "13:00 PM"),
        (DataType.TIME, "10:61:00"),
        (DataType.TIMESTAMP, "1999-01-23 25:00:00.000000"),
        (DataType.TIMESTAMP, "1999-01-23"),
    ],
)
def test_texts_that_are_no_moment(kind: int, text: str) -> None:
    with pytest.raises(WireError):
        decode_value(kind, b" " + text.encode(), BIG)


def test_times_of_usa_have_one_day() -> None:
    with pytest.raises(WireError, match="24 hours"):
        time_text(Time(24, 0, 0), DateFormat.USA)
