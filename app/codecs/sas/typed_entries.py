"""Messages of a data set that hold a type identifier followed by entries: variables and indexes."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from app.codecs.sas import message_reader
from app.codecs.sas.constants import MessageKind
from app.codecs.sas.dialect import Dialect, frames, furthest, survey
from app.codecs.sas.message_reader import Check, Fault
from app.wire import Context, Layout, WireError
from app.wire.kinds import Buffer

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
    within their own message instead; this is tried, too. Raises WireError.
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

    def attempt(dialect: Dialect) -> tuple[Any, ...] | None:
        context = dialect.context(charset)
        message = message_reader.attempt(layout, joined, context, check_all)
        if message is not None:
            return tuple(getattr(message, row))
        return _separately(layout, row, bodies, context, check, count) if dialect.aligned else None

    def explain(dialect: Dialect) -> tuple[int, WireError]:
        return message_reader.explain(layout, joined, dialect.context(charset), check_all)

    possible = frames(mask)
    found = survey(attempt, possible, known=mask)
    if found is None:
        raise furthest(explain, possible, known=mask)
    return found


def _separately(
    layout: type[M], row: str, bodies: Sequence[Buffer], context: Context, check: Check[M], count: int | None
) -> tuple[Any, ...] | None:
    entries: list[Any] = []
    for body in bodies:
        message = message_reader.attempt(layout, body, context, check)
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
