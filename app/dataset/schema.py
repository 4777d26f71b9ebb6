"""The columns of a SAS data set and their Arrow schema; the rest of its attributes is in `sas.*` metadata.

Numerics are doubles, or dates and times by their format, and may be null (missing). Characters are strings and never
null (blank is the empty string). Of passwords, only the flags are kept. `docs/data-sets.md` lists the metadata.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Any

import pyarrow as pa

from app.codecs.sas.data_set_messages import DataSetDefinition, Variable
from app.dataset import side_columns, temporal_columns
from app.dataset.format_names import Kind, SasFormat, kind_of
from app.dataset.temporal_columns import Moment
from app.model.errors import InvalidInputError

LONGEST_CHARACTER = 32_767
"""The maximum length in bytes of a character variable in SAS."""

MOST_VARIABLES = 32_767
"""The maximum number of variables in all of SAS's engines. Each column costs memory, however few values it has."""

ALIGNMENT = 8
"""Observations may be padded at their end to a multiple of this."""

MOMENTS: Mapping[Kind, tuple[Moment, ...]] = {
    "date": ("date32",),
    "datetime": ("timestamp",),
    "time": ("time64", "duration"),
    "time-of-day": ("time64", "timestamp"),
}
"""The Arrow types of each kind of numbers, in the order in which they are tried; the last resort is doubles."""


@dataclass(frozen=True, slots=True)
class Column:
    """A variable, the offset of its values in an observation, and how they become Arrow values.

    `moment` is None for doubles and strings. `has_side` states that a side column follows it. `odd` counts missing
    values that SAS does not have. `inexact` states why the values of a date or time format stay doubles.
    """

    variable: Variable
    name: str
    position: int
    at: int
    moment: Moment | None = None
    has_side: bool = False
    odd: int = 0
    inexact: str = ""

    @property
    def kind(self) -> Kind | None:
        return kind_of(self.variable.format) if self.variable.is_numeric else None


def columns(variables: Sequence[Variable], offsets: Iterable[int]) -> tuple[Column, ...]:
    """Return a column for each variable, whose values begin at these offsets, for the usual values."""
    found = []
    for position, (variable, name, at) in enumerate(zip(variables, column_names(variables), offsets, strict=True), 1):
        kind = kind_of(variable.format) if variable.is_numeric else None
        found.append(Column(variable, name, position, at, None if kind is None else MOMENTS[kind][0]))
    return tuple(found)


def arrow_schema(columns: Sequence[Column], metadata: Mapping[str, str]) -> pa.Schema:
    """Return the schema of columns and their side columns."""
    fields = []
    taken = {column.name.casefold() for column in columns}
    for column in columns:
        if column.variable.is_numeric:
            data_type = pa.float64() if column.moment is None else temporal_columns.TYPES[column.moment]
        else:
            data_type = pa.string()
        fields.append(pa.field(column.name, data_type, column.variable.is_numeric, metadata=_variable_metadata(column)))
        if column.has_side:
            made = side_columns.missing_field if column.variable.is_numeric else side_columns.bytes_field
            fields.append(made(column.name, taken))
            taken.add(fields[-1].name.casefold())
    return pa.schema(fields, metadata)


def check_definition(definition: DataSetDefinition) -> None:
    """Raise InvalidInputError for numbers that no data set can have, before anything is read with them."""
    if not 0 <= definition.variables <= MOST_VARIABLES:
        why = f"{definition.variables:,} variables, at most {MOST_VARIABLES:,} are read"
        raise InvalidInputError("variable-count", "number of variables", -1, why)
    if not definition.obs_length and definition.observations > 0:
        why = f"{definition.observations:,} observations of no bytes"
        raise InvalidInputError("observation-length", "observation length", -1, why)


def check(definition: DataSetDefinition, variables: Sequence[Variable]) -> None:
    """Raise InvalidInputError if the definition and its variables contradict each other or the limits of SAS."""
    check_definition(definition)
    if definition.variables != len(variables):
        why = f"the definition states {definition.variables} variables, but {len(variables)} are defined"
        raise InvalidInputError("variable-count", "number of variables", -1, why)
    for variable in variables:
        shortest, longest, kind = (2, 8, "numeric") if variable.is_numeric else (0, LONGEST_CHARACTER, "character")
        if not shortest <= variable.length <= longest:
            why = f"{kind} variable {variable.name} cannot have length {variable.length}"
            raise InvalidInputError("variable-length", "variable length", -1, why)


def column_names(variables: Sequence[Variable]) -> list[str]:
    """Return a column name for each variable: its own name if possible.

    Readers of tables need names, and unique ones, and SAS ignores case. A variable without a name gets `VAR<position>`.
    A name that an earlier variable has gets the first free suffix `_2`, `_3` ...
    """
    own_names = [variable.name.rstrip(" \0") for variable in variables]
    reserved = {own.casefold() for own in own_names}
    names: list[str] = []
    taken: set[str] = set()
    suffixes: dict[str, Iterator[str]] = {}
    for position, own in enumerate(own_names, 1):
        name = own
        if not own or own.casefold() in taken:
            base = own or f"VAR{position}"
            # A candidate that was taken once stays taken, so that a million equal names take a million steps.
            left = suffixes.setdefault(base.casefold(), chain([""], (f"_{n}" for n in count(2))))
            candidates = (base + suffix for suffix in left)
            name = next(c for c in candidates if (folded := c.casefold()) not in taken and folded not in reserved)
        taken.add(name.casefold())
        names.append(name)
    return names


def data_set_metadata(definition: DataSetDefinition, variables: Sequence[Variable], charset: str) -> dict[str, str]:
    """Return the attributes that a definition gives a data set as a whole, and the sort key from its variables."""
    flags = {"read": definition.read_flag, "write": definition.write_flag, "alter": definition.alter_flag}
    entries = {
        "sas.label": definition.label,
        "sas.dataset_type": definition.data_set_type,
        "sas.compress": definition.compress,
        "sas.reuse": definition.reuse.decode(charset, "replace").strip(" \0"),
        "sas.encrypt": definition.encrypt,
        "sas.sort_collating": definition.collating,
        "sas.sort_key": _sort_key(variables),
        "sas.passwords": " ".join(word for word, flag in flags.items() if flag),
        "sas.version": str(definition.version) if definition.version else "",
    }
    return {key: value for key, value in entries.items() if value} | {
        "sas.obs_length": str(definition.obs_length),
        "sas.sort_variables": str(definition.sort_variables),
        "sas.sort_flags": str(definition.sort_flags),
    }


def nsort(variable: Variable) -> int:
    """Return the variable's place in the sort key: negative if it descends, 0 if it is not in the key."""
    return int.from_bytes(variable.nsort, "big", signed=True)


def _sort_key(variables: Sequence[Variable]) -> str:
    """Return the key as JSON, or an empty text if the places are not 1, 2, 3 and so on."""
    named = zip(column_names(variables), map(nsort, variables), strict=True)
    key = sorted((abs(place), place < 0, name) for name, place in named if place)
    if not key or [place for place, _, _ in key] != list(range(1, len(key) + 1)):
        return ""
    return to_json([{"variable": name, "descending": descending} for _, descending, name in key])


def to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _variable_metadata(column: Column) -> dict[str, str]:
    variable = column.variable
    entries = {
        "sas.label": variable.label,
        "sas.format": str(SasFormat(variable.format, variable.format_length, variable.format_decimal)),
        "sas.informat": str(SasFormat(variable.informat, variable.informat_length, variable.informat_decimal)),
        "sas.kind": column.kind or "",
        "sas.inexact": column.inexact,
        "sas.odd_missing": str(column.odd) if column.odd else "",
    }
    named = {} if variable.name == column.name else {"sas.name": variable.name}
    return (
        named
        | {key: value for key, value in entries.items() if value}
        | {
            "sas.type": "numeric" if variable.is_numeric else "character",
            "sas.length": str(variable.length),
            "sas.nsort": str(nsort(variable)),
            "sas.position": str(column.position),
        }
    )
