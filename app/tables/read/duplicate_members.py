"""Refuse JSON objects that have a member twice: parsers keep its last value only and say nothing.

A text of objects that are parsed already is only counted: a member has a colon behind its name. Where the counts
differ from the objects' members, or blanks precede a colon, the text is parsed again with Python's own parser.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from app.tables.read.read_request import unreadable

_BLANKS_BEFORE: Final = (b" :", b"\t:", b"\r:", b"\n:")
_BETWEEN: Final = re.compile(r"[\s,]*")


class _RepeatedError(Exception):
    """A member's name that an object has twice."""


def check_members(text: bytes, rows: Sequence[dict[str, Any]], first: int) -> None:
    """Raise InvalidInputError if an object has a member twice.

    `rows` are the objects in a text, which has commas between them; `first` is the number of the first.
    """
    members = sum(map(len, rows))
    if text.count(b":") == members:
        return
    if text.count(b'":') == members and not any(blank in text for blank in _BLANKS_BEFORE):
        return
    written = text.decode()
    at = _after(written, 0)
    for row in range(first, first + len(rows)):
        try:
            _, at = _DECODER.raw_decode(written, at)
        except _RepeatedError as error:
            raise unreadable(f"it has the member {error} twice", row) from None
        except RecursionError:
            return  # nested values are refused later
        at = _after(written, at)


def check_metadata(text: bytes) -> None:
    """Raise InvalidInputError if an object in a JSON text has a member twice."""
    try:
        _DECODER.decode(text.decode("utf-8-sig"))
    except _RepeatedError as error:
        raise unreadable(f"its metadata have the member {error} twice in one object") from None
    except RecursionError:
        return


def _after(text: str, at: int) -> int:
    found = _BETWEEN.match(text, at)
    return found.end() if found else at


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise _RepeatedError(f"{name!r:.60}")
            seen.add(name)
    return found


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_pairs, parse_int=float)
