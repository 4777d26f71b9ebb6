"""The sequenced messages of a data set: its definition, variables, observations, indexes and integrity constraints.

Each begins with a type identifier. Variables, observations and indexes may span messages: the bytes after the type
identifiers are then one stream. Integrity constraints stay raw bytes.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Final, Protocol

from app.codecs.sas import message_reader
from app.codecs.sas.constants import Byte4, Char, Int, Long, LongString, LongStringOrOne, MessageKind, Short
from app.codecs.sas.dialect import Dialect, frames, furthest, orders, survey
from app.codecs.sas.message_reader import (
    INT_LIMIT,
    MESSAGE_LIMIT,
    TYPE_SIZE,
    Check,
    Fault,
    control_in,
    outside,
    read_entries,
    without_controls,
    write_entries,
)
from app.wire import Context, Layout, Many, Rest, Texts, WireError, row
from app.wire.kinds import Buffer, Order, least_size

OBSERVATION_LIMIT = 1 << 48
DOUBLE_SIZE = 8

LONGEST_VARIABLE = 4096
"""Bytes of the longest definition of a variable that is read. SAS names have at most 32 characters, labels 256."""

_NUMERIC_TYPES = {b"\1", b"1", "1".encode("cp037")}


class DataSetDefinition(Layout):
    """The first message of a data set."""

    type: Int = row("type: data set definition = 1")
    version: Int = row("version (future)", default=0)
    data_set_type: LongString = row("data set type", default="")
    label: LongString = row("data set label", default="")
    observations: Long = row("number of observations; -1 where the sender does not know it", default=0)
    variables: Long = row("number of variables", default=0)
    obs_length: Long = row("observation length", default=0)
    compress: LongString = row("compress", default="NO")
    reuse: Char = row("reuse: R or E", default=b"E")
    encrypt: LongString = row("encrypt", default="NO")
    sort_variables: Long = row("number of variables in sort key", default=0)
    collating: LongStringOrOne = row("sort collating sequence", default="")
    sort_flags: Short = row("sort flags", default=0)
    read_flag: Int = row("read password flag", default=0)
    read_password: Byte4 = row("read password (encrypted)", default=bytes(4))
    write_flag: Int = row("write password flag", default=0)
    write_password: Byte4 = row("write password (encrypted)", default=bytes(4))
    alter_flag: Int = row("alter password flag", default=0)
    alter_password: Byte4 = row("alter password (encrypted)", default=bytes(4))


class Variable(Layout):
    """One variable of a data set."""

    name: LongString = row("variable name")
    format: LongString = row("format name", default="")
    informat: LongString = row("informat name", default="")
    label: LongString = row("variable label", default="")
    type: Char = row("variable type: 1 = double, otherwise character", default=b"\1")
    length: Long = row("variable length", default=8)
    format_length: Long = row("format field length", default=0)
    format_decimal: Long = row("format decimal", default=0)
    informat_length: Long = row("informat field length", default=0)
    informat_decimal: Long = row("informat decimal", default=0)
    nsort: Char = row("nsort", default=b"\0")

    @property
    def is_numeric(self) -> bool:
        """Whether the values are doubles. The type is the number 1; some senders write the digit."""
        return self.type in _NUMERIC_TYPES


class VariableMessage(Layout):
    """A message of variable definitions."""

    type: Int = row("type: variable definition = 2")
    variables: Annotated[list[Variable], Many(Variable)] = row("variable definitions")


class ObservationMessage(Layout):
    """A message of observations."""

    type: Int = row("type: observation = 3")
    data: Annotated[bytes | memoryview, Rest()] = row("observations, laid out as the variables say")


_IDENTIFIERS: Final[dict[Order, dict[bytes, MessageKind]]] = {
    ">": {kind.to_bytes(TYPE_SIZE, "big"): kind for kind in MessageKind},
    "<": {kind.to_bytes(TYPE_SIZE, "little"): kind for kind in MessageKind},
}


def message_kinds(bodies: Iterable[Buffer], mask: int) -> Iterator[MessageKind]:
    """Yield the kinds of a data set's sequenced messages.

    Every message begins with a type identifier, and all identifiers have one byte order of these dialects. Raises
    WireError at a message for which this is not so: nothing else tells what it is.
    """
    possible = [_IDENTIFIERS[order] for order in orders(mask)]
    for number, body in enumerate(bodies):
        head = bytes(body[:TYPE_SIZE])
        possible = [each for each in possible if head in each]
        if not possible:
            found = head.hex().upper() or "(empty)"
            raise WireError("type", 0, f"message {number + 1} begins with the unknown type identifier {found}", number)
        yield possible[0][head]


def read_definition(body: Buffer, mask: int, charset: str = "latin-1") -> tuple[DataSetDefinition, int]:
    """Return a data set's definition, and the dialects in which the message has these contents.

    These agree in byte order, width and alignment with one of the given dialects; their NUL rule may differ from the
    header's. Raises WireError.
    """

    def attempt(dialect: Dialect, check: Check[DataSetDefinition] = definition_fault) -> DataSetDefinition | None:
        return message_reader.attempt(DataSetDefinition, body, dialect.context(charset), check)

    def attempt_with_odd_label(dialect: Dialect) -> DataSetDefinition | None:
        return attempt(dialect, partial(definition_fault, strict=False))

    def explain(dialect: Dialect) -> tuple[int, WireError]:
        return message_reader.explain(DataSetDefinition, body, dialect.context(charset), definition_fault)

    possible = frames(mask)
    found = survey(attempt, possible, known=mask) or survey(attempt_with_odd_label, possible, known=mask)
    if found is None:
        raise furthest(explain, possible, known=mask)
    return found


def write_definition(definition: DataSetDefinition, dialect: Dialect, charset: str = "latin-1") -> bytes:
    """Return the body of a data set definition message. Raises WireError."""
    return definition.encode(dialect.context(charset))


def read_variables(
    bodies: Sequence[Buffer], count: int, mask: int, charset: str = "latin-1"
) -> tuple[tuple[Variable, ...], int]:
    """Return the `count` variables of a data set, and the dialects in which its variable definition messages define
    them. A definition may span messages. Raises WireError.
    """
    least = count * least_size(Variable.ROWS, Context(nul="absent"))
    total = sum(map(len, bodies)) - TYPE_SIZE * len(bodies)
    if not 0 <= least <= total <= count * LONGEST_VARIABLE:
        raise WireError("VariableMessage.variables", 0, f"{count} variables in {max(0, total)} bytes", 0)
    try:
        return read_entries(VariableMessage, "variables", bodies, mask, charset, _variables_fault, count)
    except WireError as error:
        refusal = error
    try:
        lenient = partial(_variables_fault, strict=False)
        return read_entries(VariableMessage, "variables", bodies, mask, charset, lenient, count)
    except WireError:
        raise refusal from None


def write_variables(
    variables: Iterable[Variable], dialect: Dialect, charset: str = "latin-1", limit: int = MESSAGE_LIMIT
) -> Iterator[bytes]:
    """Yield the bodies of a data set's variable definition messages: whole definitions, at most `limit` bytes each.

    Raises WireError for values that do not fit, and for a definition that is longer than a message.
    """
    return write_entries(MessageKind.VARIABLES, variables, dialect, charset, limit)


class Bodies(Protocol):
    """Message bodies that can be iterated several times."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Buffer]: ...


class ObservationBlocks:
    """The rows of a data set, one block for each of its observation messages; a row may span blocks."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies

    @property
    def size(self) -> int:
        """The number of bytes of all rows."""
        return sum(len(body) - TYPE_SIZE for body in self._bodies)

    def __iter__(self) -> Iterator[memoryview]:
        for body in self._bodies:
            yield memoryview(body)[TYPE_SIZE:]


def observation_blocks(bodies: Bodies, definition: DataSetDefinition) -> ObservationBlocks:
    """Return the rows of a data set, from its observation messages.

    If the sender does not know the number of observations (-1), it follows from the number of bytes. Raises WireError
    when the bytes are not exactly that many whole observations.
    """
    blocks = ObservationBlocks(bodies)
    size, length = blocks.size, definition.obs_length
    if definition.observations >= 0:
        is_whole, expected = size == definition.observations * length, f"{definition.observations} rows"
    else:
        is_whole, expected = not (size % length if length else size), "whole rows"
    if not is_whole:
        raise WireError("ObservationMessage.data", size, f"{size} bytes instead of {expected} of {length} bytes")
    return blocks


class LeadingBlocks(ObservationBlocks):
    """The whole rows in the first observation messages of a data set. `definition` describes these rows alone.

    Raises WireError for rows without a length.
    """

    def __init__(self, bodies: Bodies, definition: DataSetDefinition) -> None:
        super().__init__(bodies)
        if definition.obs_length < 1:
            raise WireError("ObservationMessage.data", 0, f"rows of {definition.obs_length} bytes")
        rows = self.size // definition.obs_length
        if definition.observations >= 0:
            rows = min(rows, definition.observations)
        self.definition = replace(definition, observations=rows)

    def __iter__(self) -> Iterator[memoryview]:
        left = self.definition.observations * self.definition.obs_length
        for block in super().__iter__():
            if left <= 0:
                return
            yield block[:left]
            left -= len(block)


def write_observations(
    rows: Iterable[Buffer], obs_length: int, dialect: Dialect, limit: int = MESSAGE_LIMIT
) -> Iterator[bytes]:
    """Yield the bodies of a data set's observation messages: whole rows, at most `limit` bytes each.

    Only a row that is too long for one message is split. Each buffer of `rows` holds any number of whole rows. Raises
    WireError.
    """
    room = limit - TYPE_SIZE
    if obs_length < 1 or room < 1:
        raise WireError("ObservationMessage.data", 0, f"rows of {obs_length} bytes in messages of {limit}")
    room = room // obs_length * obs_length or room
    head = ObservationMessage(MessageKind.OBSERVATIONS, b"").encode(dialect.context())
    pieces: list[Buffer] = [head]
    used = 0
    for block in rows:
        if len(block) % obs_length:
            raise WireError("ObservationMessage.data", used, f"{len(block)} bytes are not whole rows of {obs_length}")
        view, at = memoryview(block), 0
        while at < len(view):
            piece = view[at : at + room - used]
            pieces.append(piece)
            at += len(piece)
            used += len(piece)
            if used == room:
                yield b"".join(pieces)
                pieces, used = [head], 0
    if used:
        yield b"".join(pieces)


def definition_fault(definition: DataSetDefinition, *, strict: bool = True) -> Fault | None:
    """Return what shows that a definition was not read as it was meant, or None.

    A label may have control characters if it is not read strictly: they are a sender's, and do not cost a data set.
    """
    return (
        outside("type", definition.type, MessageKind.DEFINITION, MessageKind.DEFINITION + 1)
        or outside("observations", definition.observations, -1, OBSERVATION_LIMIT)
        or outside("variables", definition.variables, 0, INT_LIMIT)
        or outside("obs_length", definition.obs_length, 0, INT_LIMIT)
        or outside("sort_variables", definition.sort_variables, 0, definition.variables + 1)
        or control_in(
            data_set_type=definition.data_set_type,
            label=definition.label if strict else without_controls(definition.label),
            compress=definition.compress,
            encrypt=definition.encrypt,
            collating=definition.collating,
        )
    )


def _variables_fault(message: VariableMessage, *, strict: bool = True) -> Fault | None:
    fault = outside("type", message.type, MessageKind.VARIABLES, MessageKind.VARIABLES + 1)
    for index, variable in enumerate(message.variables):
        if fault is not None:
            break
        fault = variable_fault(f"variables[{index}].", variable, strict=strict)
    return fault


def variable_fault(path: str, variable: Variable, *, strict: bool = True) -> Fault | None:
    """Return what shows that a variable was not read as it was meant, or None; see `definition_fault`."""
    if not variable.name.strip():
        return f"{path}name", "a variable without a name"
    return (
        outside(f"{path}length", variable.length, 1, DOUBLE_SIZE + 1 if variable.is_numeric else INT_LIMIT)
        or outside(f"{path}format_length", variable.format_length, 0, INT_LIMIT)
        or outside(f"{path}format_decimal", variable.format_decimal, 0, INT_LIMIT)
        or outside(f"{path}informat_length", variable.informat_length, 0, INT_LIMIT)
        or outside(f"{path}informat_decimal", variable.informat_decimal, 0, INT_LIMIT)
        or control_in(
            **{
                f"{path}name": variable.name,
                f"{path}format": variable.format,
                f"{path}informat": variable.informat,
                f"{path}label": variable.label if strict else without_controls(variable.label),
            }
        )
    )


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
    return read_entries(IndexMessage, "indexes", bodies, mask, charset, _indexes_fault)


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


def _indexes_fault(message: IndexMessage) -> Fault | None:
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
