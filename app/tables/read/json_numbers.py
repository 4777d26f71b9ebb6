"""Find the numbers of JSON rows that doubles do not hold: parsers round them and report nothing.

A block of rows is searched for digits first. Only where a number was rounded, its rows are read again with Python's own
parser, which shows how numbers are written.
"""

import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from app.tables.read.typed_texts import is_rounded

Place = str | int
"""The name of a member, or the position of an element."""

_MAYBE_SUSPECT: Final = r"[0-9.]{16}|[eE]-[0-9]{3}"
_SUSPECT: Final = re.compile(
    rb"(?<=[\s:,\[])-?(?=[0-9.]{16}|[0-9.]+[eE]-[0-9]{3})[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?=[\s,\]}])"
)
_BETWEEN: Final = re.compile(r"[\s,]*")


_INTEGERS: Final = range(-(1 << 63), 1 << 64)
_LONGEST_INTEGER: Final = 20


class _Written(str):
    """A number as it is written."""

    __slots__ = ()


_DECODER: Final = json.JSONDecoder(parse_float=_Written, parse_int=_Written)


class RoundedNumbers:
    """A search for numbers with more digits than a double holds; `rows` has the first row of each place."""

    def __init__(self) -> None:
        self.rows: dict[Place, int] = {}

    def see(self, text: bytes, first: int) -> None:
        """Add rows with commas between them; `first` is the number of the first, from 1. Ignores what is not JSON."""
        if not pc.match_substring_regex(pa.array([text], pa.binary()), _MAYBE_SUSPECT)[0].as_py():
            return
        suspects = [each for each in _SUSPECT.findall(b" %b " % text) if not _is_exact(each)]
        if not _has_rounded(suspects):
            return
        for number, row in enumerate(_rows(text.decode("utf-8", "replace")), first):
            for place, value in row.items() if isinstance(row, dict) else enumerate(row):
                is_new = type(value) is _Written and place not in self.rows and not _is_exact(value.encode())
                if is_new and is_rounded(value):
                    self.rows[place] = number


def _is_exact(number: bytes) -> bool:
    """Tell whether a number is an integer that is not read as a double."""
    digits = number.removeprefix(b"-")
    return digits.isdigit() and int(number) in _INTEGERS if len(digits) <= _LONGEST_INTEGER else False


def _has_rounded(numbers: list[bytes]) -> bool:
    """Tell whether one of these numbers has more digits than a double."""
    if not numbers:
        return False
    texts = pa.array(numbers, pa.binary()).cast(pa.string())
    shortest = texts.cast(pa.float64()).cast(pa.string())
    return any(is_rounded(text) for text in texts.filter(pc.not_equal(texts, shortest)).to_pylist())


def _rows(text: str) -> Iterator[Any]:
    at = 0
    while (between := _BETWEEN.match(text, at)) is not None and between.end() < len(text):
        try:
            row, at = _DECODER.raw_decode(text, between.end())
        except (ValueError, RecursionError):
            return  # the rows are refused where they are parsed
        yield row


def beyond_doubles(text: bytes) -> str | None:
    """Return the number that makes a text of JSON unreadable, as it is beyond the range of doubles; None without
    one."""
    try:
        json.loads(text, parse_float=_in_range, parse_int=_in_range)
    except _BeyondError as error:
        return str(error)
    except (ValueError, RecursionError):
        return None
    return None


class _BeyondError(Exception):
    """A number beyond the range of doubles."""


def _in_range(written: str) -> float:
    value = float(written)
    if math.isinf(value):
        raise _BeyondError(written)
    return value


See = Callable[[bytes, int], None]
"""A function that is given the text of rows, and the number of the first."""
