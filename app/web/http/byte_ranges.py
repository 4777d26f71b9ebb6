"""Ranges and preconditions of RFC 9110 (sections 13 and 14), as functions of header values."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import pairwise
from typing import NamedTuple

MAX_RANGES = 32
_BEYOND = 1 << 63
_UNIT = re.compile(r"bytes=(.*)", re.IGNORECASE | re.DOTALL)
_SPEC = re.compile(r"([0-9]*)-([0-9]*)")
_ETAG = re.compile(r'(?:W/)?"[^"]*"')


class ByteRange(NamedTuple):
    """A closed range of byte positions."""

    first: int
    last: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1


def parse_ranges(value: str, size: int) -> list[ByteRange] | None:
    """Return the ranges of `size` bytes that a Range header selects, in its order; overlapping ones are joined.

    Return None when the header must be ignored: another unit, not well-formed, more than MAX_RANGES, or empty content.
    Return an empty list when no range can be satisfied.
    """
    match = _UNIT.fullmatch(value.strip())
    if match is None or size == 0:
        return None
    specs = [spec.strip(" \t") for spec in match[1].split(",")]
    parsed = [_SPEC.fullmatch(spec) for spec in specs if spec]
    if not parsed or len(parsed) > MAX_RANGES:
        return None
    ranges = []
    for spec in parsed:
        if spec is None or spec[0] == "-":
            return None
        first, last = (
            (_BEYOND if len(digits.lstrip("0")) > 18 else int(digits[-18:])) if digits else None
            for digits in spec.groups()
        )
        if first is None:
            assert last is not None
            ranges.append(ByteRange(max(size - last, 0), size - 1))
        elif last is not None and last < first:
            return None
        else:
            ranges.append(ByteRange(first, size - 1 if last is None else min(last, size - 1)))
    return _joined([chosen for chosen in ranges if chosen.first < size])


def _joined(ranges: list[ByteRange]) -> list[ByteRange]:
    ordered = sorted(ranges)
    if all(before.last < after.first for before, after in pairwise(ordered)):
        return ranges
    joined = [ordered[0]]
    for chosen in ordered[1:]:
        if chosen.first <= joined[-1].last:
            joined[-1] = ByteRange(joined[-1].first, max(joined[-1].last, chosen.last))
        else:
            joined.append(chosen)
    return joined


def precondition(headers: Mapping[str, str], etag: str, modified: datetime) -> int:
    """Return 200 to continue, 304 if the client already has the content, 412 if it wants another (section 13.2.2).

    `etag` is a strong entity tag with its quotes; `modified` is a time in whole seconds. Header names are in lower
    case.
    """
    if "if-match" in headers:
        if not _matches(headers["if-match"], etag, weakly=False):
            return 412
    elif (since := _date(headers.get("if-unmodified-since"))) and modified > since:
        return 412
    if "if-none-match" in headers:
        return 304 if _matches(headers["if-none-match"], etag, weakly=True) else 200
    since = _date(headers.get("if-modified-since"))
    return 304 if since and modified <= since else 200


def is_among(etag: str, if_match: str) -> bool:
    """Tell whether an If-Match header names this entity tag, or any (`*`)."""
    return _matches(if_match, etag, weakly=False)


def names_tag(etag: str, if_none_match: str) -> bool:
    """Tell whether an If-None-Match header names this entity tag, or any (`*`)."""
    return _matches(if_none_match, etag, weakly=True)


def range_applies(headers: Mapping[str, str], etag: str, modified: datetime) -> bool:
    """Tell whether a Range header applies: there is no If-Range, or it matches (section 13.1.5)."""
    value = headers.get("if-range")
    return value is None or value.strip() == etag or _date(value) == modified


def _matches(value: str, etag: str, *, weakly: bool) -> bool:
    if value.strip() == "*":
        return True
    tags: list[str] = _ETAG.findall(value)
    if weakly:
        return etag.removeprefix("W/") in [tag.removeprefix("W/") for tag in tags]
    return etag in tags


def _date(value: str | None) -> datetime | None:
    if not value:
        return None
    try:
        when = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    return when if when.tzinfo else when.replace(tzinfo=UTC)
