"""Reading of one whole message in one dialect: the readings that do not count, and the reasons."""

import re
from collections.abc import Callable
from typing import TypeVar

from app.wire import Context, Layout, WireError
from app.wire.kinds import Buffer

L = TypeVar("L", bound=Layout)

Fault = tuple[str, str]
Check = Callable[[L], Fault | None]

INT_LIMIT = 1 << 31

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def control_in(**texts: str) -> Fault | None:
    """Return the first of these texts, named by their rows, that has a control character other than TAB, LF and CR."""
    if not _CONTROL.search("".join(texts.values())):
        return None
    row, found = next((row, found) for row, text in texts.items() if (found := _CONTROL.search(text)))
    return row, f"control character {ord(found[0]):02X} in the text"


def without_controls(text: str) -> str:
    """Return a text without the control characters that `control_in` finds, except NUL: a NUL is a wrong reading."""
    return _CONTROL.sub(lambda found: found[0] if found[0] == "\0" else "", text)


def outside(row: str, value: int, low: int, high: int) -> Fault | None:
    """Return a fault for a number outside low <= value < high."""
    if low <= value < high:
        return None
    return row, f"{value} instead of {low}" if high == low + 1 else f"{value} is not from {low} to {high - 1}"


def attempt(layout: type[L], body: Buffer, context: Context, check: Check[L]) -> L | None:
    """Return the structure that consumes all of a message and passes its check; None if the message cannot be read
    so.
    """
    found = layout.attempt(body, 0, context)
    if found is None or found[1] != len(body) or check(found[0]) is not None:
        return None
    return found[0]


def explain(layout: type[L], body: Buffer, context: Context, check: Check[L]) -> tuple[int, WireError]:
    """Return how far a message could be read that `attempt` refused, and the error.

    A message whose every byte is consumed counts as read furthest, even if its texts or numbers are wrong: no other
    reading is as likely to be the intended one.
    """
    error = _error(layout, body, context, check)
    structure = layout.attempt(body, 0, context._replace(charset="latin-1"))
    return (len(body) + 1 if structure and structure[1] == len(body) else error.at), error


def _error(layout: type[L], body: Buffer, context: Context, check: Check[L]) -> WireError:
    try:
        value, end = layout.decode(body, 0, context)
    except WireError as error:
        return error
    fault = check(value)
    if fault is None:
        return WireError(layout.__name__, end, f"{len(body) - end} bytes are left over")
    row, why = fault
    name = f"{layout.__name__}.{row}"
    at = next((cell.at for cell in layout.cells(body, 0, context) if cell.name == name), end)
    return WireError(name, at, why)
