"""Reading of one whole message in one dialect: the readings that do not count, and the reasons.

Messages of a data set that hold a type identifier followed by entries, such as variables and indexes, are read and
written here, too.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from app.codecs.sas.constants import MessageKind
from app.codecs.sas.dialect import Dialect, frames, furthest, survey
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


M = TypeVar("M", bound=Layout)

TYPE_SIZE: Final = 4
"""Size of the type identifier in bytes."""

MESSAGE_LIMIT: Final = 32_000
"""Default limit for the bytes of a written message; the specification says "32K"."""


def read_entries(
    layout: type[M],
    row: str,
    bodies: Sequence[Buffer],
    mask: int,
    charset: str,
    check: Check[M],
    count: int | None = None,
) -> tuple[tuple[Any, ...], int]:
    """Return the entries (the row `row` of each message) and the dialects in which all messages together have them.

    The bytes after the type identifiers are one stream, so an entry may span messages. Aligned numbers may be aligned
    within their own message instead; this is tried, too. Raises WireError with the number of the message.
    """
    if not bodies:
        return (), mask
    joined = bodies[0] if len(bodies) == 1 else b"".join([bodies[0], *(body[TYPE_SIZE:] for body in bodies[1:])])

    def check_all(message: M) -> Fault | None:
        fault = check(message)
        found = len(getattr(message, row))
        if fault is not None or count is None or found == count:
            return fault
        return row if found < count else f"{row}[{count}]", f"found {found}, expected {count}"

    def read_in(dialect: Dialect) -> tuple[Any, ...] | None:
        context = dialect.context(charset)
        message = attempt(layout, joined, context, check_all)
        if message is not None:
            return tuple(getattr(message, row))
        return _separately(layout, row, bodies, context, check, count) if dialect.aligned else None

    def why_not(dialect: Dialect) -> tuple[int, WireError]:
        return explain(layout, joined, dialect.context(charset), check_all)

    possible = frames(mask)
    found = survey(read_in, possible, known=mask)
    if found is None:
        raise furthest(why_not, possible, known=mask).locate(map(len, bodies), TYPE_SIZE)
    return found


def _separately(
    layout: type[M], row: str, bodies: Sequence[Buffer], context: Context, check: Check[M], count: int | None
) -> tuple[Any, ...] | None:
    entries: list[Any] = []
    for body in bodies:
        message = attempt(layout, body, context, check)
        if message is None:
            return None
        entries += getattr(message, row)
    return tuple(entries) if count in {None, len(entries)} else None


def write_entries(
    kind: MessageKind, entries: Iterable[Layout], dialect: Dialect, charset: str, limit: int
) -> Iterator[bytes]:
    """Yield bodies of whole entries, at most `limit` bytes each.

    Raises WireError for an entry that is longer than a body.
    """
    context = dialect.context(charset)
    head = kind.to_bytes(TYPE_SIZE, "big" if dialect.order == ">" else "little")
    out = bytearray(head)
    for entry in entries:
        end = len(out)
        entry.append(out, context)
        if len(out) > limit and end > TYPE_SIZE:
            yield bytes(out[:end])
            out = bytearray(head)
            entry.append(out, context)
        if len(out) > limit:
            raise WireError(type(entry).__name__, 0, f"{len(out)} bytes do not fit in a message of {limit}")
    if len(out) > TYPE_SIZE:
        yield bytes(out)
