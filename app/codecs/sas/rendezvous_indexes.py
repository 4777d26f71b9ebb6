"""The indexes and the integrity constraints of a data set on TIB/Rendezvous (ATI, ATC).

The codes of a constraint's type are not published; what kind of constraint it is follows from the fields after it.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final, NamedTuple

from app.codecs.rendezvous.fields import message_end
from app.codecs.sas.constants import MessageKind
from app.codecs.sas.message_reader import MESSAGE_LIMIT
from app.codecs.sas.numbered import FieldReader, Value, grouped, string_value, text_values, write_message
from app.wire import WireError
from app.wire.kinds import Buffer

_LIBREF_SIZE: Final = 8
_LEAST_INDEX: Final = 6
_LEAST_CONSTRAINT: Final = 6


class RendezvousIndex(NamedTuple):
    """One index: its name, its number of variables, and the names of its keys."""

    upercmx: int
    name: str
    flags: int
    variables: int
    keys: tuple[str, ...]


class CheckConstraint(NamedTuple):
    """What a CHECK constraint has besides its type and name: its expression, as bytes that are not described."""

    retval: int
    total_length: int
    wtnames: str
    whlen: int
    buffers: tuple[bytes, ...]


class KeyConstraint(NamedTuple):
    """What a constraint has that is neither CHECK nor FOREIGN KEY: its variables."""

    variables: int
    names: tuple[str, ...]
    filler: int = 1


class ForeignKeyConstraint(NamedTuple):
    """What a FOREIGN KEY constraint has: its variables, and the primary key that it refers to."""

    variables: int
    names: tuple[str, ...]
    total_length: int
    fkdelt: int
    fkupd: int
    pkname: str
    libref: str
    member: str
    attributes: int


class Constraint(NamedTuple):
    """One integrity constraint. `type` is the sender's code."""

    type: int
    max_length: int
    name: str
    content: CheckConstraint | KeyConstraint | ForeignKeyConstraint


def read_indexes(body: Buffer, charset: str = "latin-1") -> tuple[RendezvousIndex, ...]:
    """Return the indexes in one message. Raises WireError."""
    reader, count = _opened(body, charset, "ATI", MessageKind.INDEXES, _LEAST_INDEX)
    found = []
    for number in range(count):
        path = f"ATI[{number}]."
        upercmx, name = reader.integer(f"{path}upercmx"), reader.text(f"{path}name")
        flags, variables = reader.integer(f"{path}flags"), reader.integer(f"{path}variables")
        keys = tuple(reader.words(f"{path}keys[{key}]") for key in range(reader.count(f"{path}keys")))
        found.append(RendezvousIndex(upercmx, name, flags, variables, keys))
    reader.end("ATI")
    return tuple(found)


def write_indexes(
    indexes: Iterable[RendezvousIndex], charset: str = "latin-1", limit: int = MESSAGE_LIMIT
) -> Iterator[bytes]:
    """Return a data set's messages of indexes, each of at most `limit` bytes. Raises WireError."""
    return _written("ATI", MessageKind.INDEXES, (_index_values(index, charset) for index in indexes), limit)


def _index_values(index: RendezvousIndex, charset: str) -> list[Value]:
    keys = [string_value(key.encode(charset), "ATI.keys") for key in index.keys]
    name = text_values(index.name, charset, "ATI.name")
    return [_i32(index.upercmx), *name, _i32(index.flags), _i32(index.variables), _i32(len(keys)), *keys]


def read_constraints(body: Buffer, charset: str = "latin-1") -> tuple[Constraint, ...]:
    """Return the integrity constraints in one message. Raises WireError."""
    reader, count = _opened(body, charset, "ATC", MessageKind.CONSTRAINTS, _LEAST_CONSTRAINT)
    found = []
    for number in range(count):
        path = f"ATC[{number}]."
        kind, max_length = reader.integer(f"{path}type"), reader.integer(f"{path}max_length")
        name = reader.words(f"{path}name")
        found.append(Constraint(kind, max_length, name, _content(reader, path)))
    reader.end("ATC")
    return tuple(found)


def constraint_messages(data: bytes, charset: str = "latin-1") -> Iterator[tuple[bytes, tuple[Constraint, ...]]]:
    """Yield the messages that follow each other in `data`, each with the integrity constraints in it. Raises
    WireError."""
    at = 0
    while at < len(data):
        end = message_end(data, at, len(data))
        yield data[at:end], read_constraints(data[at:end], charset)
        at = end


def _content(reader: FieldReader, path: str) -> CheckConstraint | KeyConstraint | ForeignKeyConstraint:
    """Return the rest of a constraint, by the types of its fields.

    It begins with two numbers and with names. The numbers after these, and the first fields that are none, differ for
    each kind.
    """
    names = 0
    while reader.type_of(2 + names) == "STRING":
        names += 1
    numbers = 0
    while reader.type_of(2 + names + numbers) == "INT":
        numbers += 1
    behind = reader.type_of(2 + names + numbers), reader.type_of(3 + names + numbers)
    is_check = names == 1 and (
        (numbers, behind[0]) == (2, "OPAQUE") or (numbers, behind) in {(2, ("", "")), (4, ("STRING", "INT"))}
    )
    if is_check:
        retval, total = reader.integer(f"{path}retval"), reader.integer(f"{path}total_length")
        wtnames, whlen = reader.words(f"{path}wtnames"), reader.integer(f"{path}whlen")
        count = reader.count(f"{path}members")
        return CheckConstraint(
            retval, total, wtnames, whlen, tuple(reader.string(f"{path}whbuf[{n}]") for n in range(count))
        )
    if (numbers, behind) == (4, ("STRING", "STRING")):
        return _foreign_key(reader, path)
    return KeyConstraint(*_names(reader, path), reader.integer(f"{path}filler"))


def _names(reader: FieldReader, path: str) -> tuple[int, tuple[str, ...]]:
    variables = reader.integer(f"{path}variables")
    count = reader.count(f"{path}names")
    return variables, tuple(reader.words(f"{path}names[{number}]") for number in range(count))


def _foreign_key(reader: FieldReader, path: str) -> ForeignKeyConstraint:
    variables, names = _names(reader, path)
    total, fkdelt = reader.integer(f"{path}total_length"), reader.integer(f"{path}fkdelt")
    fkupd, length = reader.integer(f"{path}fkupd"), reader.integer(f"{path}pklng")
    at = reader.place(-1)
    pkname, libref = reader.words(f"{path}pkname"), reader.words(f"{path}libref").rstrip()
    if length not in {len(pkname), len(pkname) + 1}:
        raise WireError(f"{path}pklng", at, f"{length} for a name of {len(pkname)} characters and one")
    member = reader.text(f"{path}member")
    return ForeignKeyConstraint(
        variables, names, total, fkdelt, fkupd, pkname, libref, member, reader.integer(f"{path}attributes")
    )


def write_constraints(
    constraints: Iterable[Constraint], charset: str = "latin-1", limit: int = MESSAGE_LIMIT
) -> Iterator[bytes]:
    """Return a data set's messages of integrity constraints, each of at most `limit` bytes. Raises WireError."""
    entries = (_constraint_values(constraint, charset) for constraint in constraints)
    return _written("ATC", MessageKind.CONSTRAINTS, entries, limit)


def _constraint_values(constraint: Constraint, charset: str) -> list[Value]:
    def text(value: str, row: str) -> Value:
        return string_value(value.encode(charset), f"ATC.{row}")

    head = [_i32(constraint.type), _i32(constraint.max_length), text(constraint.name, "name")]
    content = constraint.content
    if isinstance(content, CheckConstraint):
        numbers = [_i32(content.retval), _i32(content.total_length), text(content.wtnames, "wtnames")]
        buffers: list[Value] = [("OPAQUE", each) for each in content.buffers]
        return [*head, *numbers, _i32(content.whlen), _i32(len(buffers)), *buffers]
    names = [text(name, "names") for name in content.names]
    head = [*head, _i32(content.variables), _i32(len(names)), *names]
    if isinstance(content, KeyConstraint):
        return [*head, _i32(content.filler)]
    return [
        *head,
        _i32(content.total_length),
        _i32(content.fkdelt),
        _i32(content.fkupd),
        _i32(len(content.pkname) + 1),
        text(content.pkname, "pkname"),
        text(content.libref.ljust(_LIBREF_SIZE), "libref"),
        *text_values(content.member, charset, "ATC.member"),
        _i32(content.attributes),
    ]


def _i32(value: int) -> tuple[str, Any]:
    return "I32", value


def _opened(body: Buffer, charset: str, name: str, kind: MessageKind, least: int) -> tuple[FieldReader, int]:
    """Take the type of record and the number of records."""
    reader = FieldReader(body, charset)
    found = reader.integer(f"{name}.record")
    if found != kind:
        raise WireError(f"{name}.record", reader.place(-1), f"{found}, but the type of record is {kind.value}")
    return reader, reader.count(f"{name}.count", least)


def _written(name: str, kind: MessageKind, entries: Iterable[list[Value]], limit: int) -> Iterator[bytes]:
    for group in grouped(name, 2, entries, limit):
        yield write_message(name, [_i32(kind.value), _i32(len(group)), *chain.from_iterable(group)])
