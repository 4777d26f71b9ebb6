"""Lines of hexadecimal digits: a capture a line, perhaps with the time it was taken at.

    # the first message of the morning
    2026-11-21T07:30:00.125Z 30 0f 00 03 ...
    1795246200125000 300f0003...                    # the same moment in microseconds since 1970
    300f0003...

Empty lines and what follows a `#` mean nothing, and neither do blanks, tabs, colons and hyphens between digits. A first
word is a time when it is one of ISO 8601 with a `T` (UTC unless it says otherwise), or a number of 16 decimal digits
without a 0 in front.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from app.capture.entries import Origin, Refused
from app.capture.lines import Line, LineError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_BETWEEN_DIGITS = b" \t:-\r\n\f\v"
_NO_DIGIT = re.compile(rb"[^0-9A-Fa-f \t:\-\r\n\f\v]")
_ISO_TIME = re.compile(rb"\s*(\d{4}-\d\d-\d\dT\S*)")
_MICROSECONDS = re.compile(rb"\s*([1-9]\d{15})(?=\s)")


class Capture(NamedTuple):
    """What a line holds: its number, bytes, and when they were captured (µs since 1970, 0 for unknown)."""

    line: int
    data: bytes
    time: int = 0


def captures(lines: Iterable[Line], origin: Origin) -> Iterator[Capture | Refused]:
    """What the lines hold. Refused are, as `bad-capture`, lines that are not as they should be."""
    for line in lines:
        try:
            line.require_whole()
            found = capture(line)
        except LineError as error:
            yield origin.refused(line.content, "bad-capture", error.why, line.number, error.at)
        else:
            if found is not None:
                yield found


def capture(line: Line) -> Capture | None:
    """What a line of hexadecimal digits holds, None for nothing. Raises LineError."""
    text = line.content.partition(b"#")[0]
    if not text.strip():
        return None
    time, start = _time(text)
    digits = text[start:]
    if wrong := _NO_DIGIT.search(digits):
        raise LineError(start + wrong.start(), f"this is not hexadecimal: {chr(digits[wrong.start()])!r}")
    digits = digits.translate(None, _BETWEEN_DIGITS)
    if not digits:
        raise LineError(start, "a time, and no bytes behind it")
    if len(digits) % 2:
        raise LineError(len(text), f"this is not hexadecimal: {len(digits):,} digits are an odd number")
    return Capture(line.number, bytes.fromhex(str(digits, "ascii")), time)


def _time(line: bytes) -> tuple[int, int]:
    """The time in front of a line, 0 for none, and where it ends."""
    if found := _ISO_TIME.match(line):
        try:
            return microseconds(str(found[1], "latin-1")), found.end()
        except ValueError:
            raise LineError(
                found.start(1), f"{str(found[1][:40], 'latin-1')!r} is no time of ISO 8601 from 1970 on"
            ) from None
    if found := _MICROSECONDS.match(line):
        return int(found[1]), found.end()
    return 0, 0


def microseconds(text: str) -> int:
    """A time of ISO 8601 in microseconds since 1970; UTC unless it says otherwise. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    since = ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND
    if since < 0:
        raise ValueError(f"{text!r} is before 1970")
    return since
