"""The messages of a data set that usually have no use: its indexes, and its integrity constraints, which stay raw
bytes.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

from app.codecs.sas.constants import Int, Long, LongString, MessageKind
from app.codecs.sas.dialect import Dialect
from app.codecs.sas.message_reader import INT_LIMIT, Fault, control_in, outside
from app.codecs.sas.typed_entries import MESSAGE_LIMIT, TYPE_SIZE, read_entries, write_entries
from app.wire import Layout, Many, Rest, Texts, row
from app.wire.kinds import Buffer


class Index(Layout):
    """One index of a data set."""

    upercmx: Long = row("upercmx")
    name: LongString = row("index/key name")
    flags: Long = row("flags")
    variable_count: Long = row("number of variables in the index/key")
    variables: Annotated[list[str], Texts("variable_count", "long")] = row(
        "variable lengths added together, and all variables null terminated"
    )


class IndexMessage(Layout):
    """A message of indexes."""

    type: Int = row("type: index = 4")
    indexes: Annotated[list[Index], Many(Index)] = row("indexes")


class ConstraintMessage(Layout):
    """A message of integrity constraints; its layout is not published."""

    type: Int = row("type: integrity constraints = 5")
    data: Annotated[bytes | memoryview, Rest()] = row("integrity constraints")


def read_indexes(bodies: Sequence[Buffer], mask: int, charset: str = "latin-1") -> tuple[tuple[Index, ...], int]:
    """Return a data set's indexes, and the dialects in which the messages have these contents. Raises WireError."""
    return read_entries(IndexMessage, "indexes", bodies, mask, charset, _fault)


def write_indexes(
    indexes: Iterable[Index], dialect: Dialect, charset: str = "latin-1", limit: int = MESSAGE_LIMIT
) -> Iterator[bytes]:
    """Yield the bodies of a data set's index messages: whole indexes, at most `limit` bytes each. Raises WireError."""
    return write_entries(MessageKind.INDEXES, indexes, dialect, charset, limit)


def read_constraints(bodies: Sequence[Buffer]) -> bytes:
    """Return a data set's integrity constraints as received, without the type identifiers."""
    return b"".join(body[TYPE_SIZE:] for body in bodies)


def write_constraints(constraints: Buffer, dialect: Dialect, limit: int = MESSAGE_LIMIT) -> Iterator[bytes]:
    """Yield the bodies of messages that carry integrity constraints as received."""
    room = limit - TYPE_SIZE
    for at in range(0, len(constraints), room):
        yield ConstraintMessage(MessageKind.CONSTRAINTS, constraints[at : at + room]).encode(dialect.context())


def _fault(message: IndexMessage) -> Fault | None:
    fault = outside("type", message.type, MessageKind.INDEXES, MessageKind.INDEXES + 1)
    for number, index in enumerate(message.indexes):
        path = f"indexes[{number}]."
        fault = (
            fault
            or outside(f"{path}variable_count", index.variable_count, 0, INT_LIMIT)
            or control_in(**{f"{path}name": index.name})
            or control_in(**{f"{path}variables[{i}]": name for i, name in enumerate(index.variables)})
        )
    return fault
