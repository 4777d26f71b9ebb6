"""Lines of hexadecimal digits: one capture per line, optionally with its time.

    # the first message of the morning
    2026-11-21T07:30:00.125Z 30 0f 00 03 ...
    1795246200125000 300f0003...                    # the same time in microseconds since 1970
    300f0003...

Empty lines and text after a `#` are ignored, as are blanks, tabs, colons and hyphens between digits. The first word is
a time if it is an ISO 8601 time with a `T` (UTC without a zone), or a number of 16 decimal digits without a leading 0.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from app.capture.bounded_lines import BoundedLine, LineError
from app.capture.capture_entries import Origin, RefusedEntry
from app.model.times import to_microseconds

_BETWEEN_DIGITS = b" \t:-\r\n\f\v"
_NO_DIGIT = re.compile(rb"[^0-9A-Fa-f \t:\-\r\n\f\v]")
_ISO_TIME = re.compile(rb"\s*(\d{4}-\d\d-\d\dT\S*)")
_MICROSECONDS = re.compile(rb"\s*([1-9]\d{15})(?=\s)")


class Capture(NamedTuple):
    """The content of a line: its number, its bytes, and their capture time (µs since 1970, 0 if unknown)."""

    line: int
    data: bytes
    time: int = 0


def captures(lines: Iterable[BoundedLine], origin: Origin) -> Iterator[Capture | RefusedEntry]:
    """Yield the content of each line. A malformed line is refused as `bad-capture`."""
    for line in lines:
        try:
            line.require_whole()
            found = capture(line)
        except LineError as error:
            yield origin.refused(line.content, "bad-capture", error.why, line.number, error.at)
        else:
            if found is not None:
                yield found


def capture(line: BoundedLine) -> Capture | None:
    """Return the content of a line of hexadecimal digits, or None if it is empty. Raises LineError."""
    text = line.content.partition(b"#")[0]
    if not text.strip():
        return None
    time, start = _time(text)
    digits = text[start:]
    if wrong := _NO_DIGIT.search(digits):
        raise LineError(start + wrong.start(), f"not a hexadecimal digit: {chr(digits[wrong.start()])!r}")
    digits = digits.translate(None, _BETWEEN_DIGITS)
    if not digits:
        raise LineError(start, "no bytes follow the time")
    if len(digits) % 2:
        raise LineError(len(text), f"odd number of hexadecimal digits: {len(digits):,}")
    return Capture(line.number, bytes.fromhex(str(digits, "ascii")), time)


def _time(line: bytes) -> tuple[int, int]:
    """Return the time at the start of a line (0 if there is none), and where it ends."""
    if found := _ISO_TIME.match(line):
        try:
            return microseconds(str(found[1], "latin-1")), found.end()
        except ValueError:
            raise LineError(
                found.start(1), f"{str(found[1][:40], 'latin-1')!r} is not an ISO 8601 time from 1970 on"
            ) from None
    if found := _MICROSECONDS.match(line):
        return int(found[1]), found.end()
    return 0, 0


def microseconds(text: str) -> int:
    """Return an ISO 8601 time in microseconds since 1970; without a zone it is UTC. Raises ValueError."""
    since = to_microseconds(datetime.fromisoformat(text))
    if since < 0:
        raise ValueError(f"{text!r} is before 1970")
    return since
