"""Schema evolution: how a table's columns follow from the data sets appended to it, without any input or output.

A table begins with the columns of `FIXED`. A column is added after them for each new variable (SAS ignores the case of
names) and each new side column, and is never removed. A variable may have several columns: when data sets have values
of another type than before, these get a column that is named with the type (`VALUE__text`), and a warning. Times of day
and durations are one type, since a duration holds both exactly: the column becomes a duration with the first one. A
variable with the name of a fixed column is named `SOURCE__variable`. Characters that tables do not allow in a column
name become `_`.

Variables are known by the names that their senders gave them, and never by those that the columns of a data set got
because its own names are empty or not unique. If variables of one data set have names that differ only in case, each
goes to the column of its exact name, whatever their order. So does a later data set's variable of that exact name. A
variable without a name is known by its position.

The fields' metadata say which column belongs to which variable, so that names are never parsed:

- `table.variable`: the variable, by its case-folded name; by a number and its exact name if a data set had another
  variable of the same case-folded one; by 0 and its position if it has no name;
- `table.warning`: why the column is not named like its variable;
- `table.former_labels`, `table.former_formats`: earlier labels and formats in data sets, as JSON.

Label, format and informat are from the newest data set that has any; the length is the longest so far. The data
sets of one call are processed in order, so the same data sets in the same order always give the same table.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from app.dataset import side_columns
from app.dataset.sapdb.column_types import NAME
from app.model.names import folded
from app.tables.column_remarks import FORMER_FORMATS, FORMER_LABELS, VARIABLE, WARNING

FIXED = pa.schema(
    [
        pa.field("message", pa.string()),
        pa.field("attachment", pa.string()),
        pa.field("source", pa.string()),
        pa.field("received_at", pa.timestamp("us", "UTC")),
        pa.field("row", pa.int64()),
    ]
)
"""The columns before the variables: identifiers, the source's name, the time when the attachment was received, and the
number of the observation, from 1."""

MOST_COLUMNS = 100_000
"""More than a data set can have. Columns beyond this number are only in the stored data sets."""

MOST_FORMER = 10
"""The number of former labels, and of former formats, that are kept for a column: the newest ones."""

_FORMER = {"sas.label": FORMER_LABELS, "sas.format": FORMER_FORMATS}
_NEWEST = ("sas.label", "sas.format", "sas.informat", "sas.kind")
_OF_TABLE = ("sas.library", "sas.member", "sas.label")
_NAMES = ("sas.name", NAME)
_FIXED_NAMES = frozenset(FIXED.names)
_SIDES = {side_columns.MISSING_OF.decode(): "missing", side_columns.BYTES_OF.decode(): "bytes"}
_WORDS = {
    pa.float64(): "number",
    pa.string(): "text",
    pa.date32(): "date",
    pa.timestamp("us"): "datetime",
    pa.time64("us"): "time",
    pa.duration("us"): "time",
}
_EXACT = "\x1f"
"""The beginning of the identity of a variable that is known by a number and its exact name."""
_UNNAMED = f"{_EXACT}0{_EXACT}"
"""The beginning of the identity of a variable that has no name."""
_REFUSED = frozenset(" ,;{}()=\x7f") | frozenset(map(chr, range(32)))
"""Characters that some readers of tables do not allow in a column name."""


class SourceColumn(NamedTuple):
    """A column of a data set, and the column of the table that its values go to. None: they are left out."""

    column: str
    target: str | None


ColumnMapping = tuple[SourceColumn, ...]
"""The columns of a data set, all of them, in order. Their names may be equal."""


class Evolution(NamedTuple):
    """A table's new schema, the mapping of each data set's columns, and warnings about new columns, for people."""

    schema: pa.Schema
    mappings: list[ColumnMapping]
    warnings: list[str]


def evolve(current: pa.Schema | None, data_sets: Sequence[pa.Schema]) -> Evolution:
    """Return the schema of a table (None: it does not exist yet) after these data sets, oldest first, have been
    appended."""
    columns = _Columns(FIXED if current is None else current)
    mappings: list[ColumnMapping] = []
    before = None
    for schema in data_sets:
        key = schema.serialize().to_pybytes()
        mappings.append(mappings[-1] if key == before else columns.take(schema))
        before = key
    return Evolution(columns.schema(), mappings, columns.warnings)


@dataclass(slots=True)
class _Column:
    name: str
    type: pa.DataType
    metadata: dict[str, str]


class _Columns:
    """A table's columns, to which data sets are added."""

    def __init__(self, schema: pa.Schema) -> None:
        self.warnings: list[str] = []
        self._metadata = _decoded(schema.metadata)
        self._columns = [_Column(field.name, field.type, _decoded(field.metadata)) for field in schema]
        self._used_names = {column.name.casefold() for column in self._columns}
        self._of_variable = {
            (column.metadata[VARIABLE], word(column.type)): column
            for column in self._columns
            if VARIABLE in column.metadata
        }
        self._of_key: dict[str, list[_Column]] = {}
        for (key, _), column in self._of_variable.items():
            self._of_key.setdefault(key, []).append(column)
        self._of_side = {
            (column.metadata[key], key): column for column in self._columns for key in _SIDES if key in column.metadata
        }

    def take(self, schema: pa.Schema) -> ColumnMapping:
        """Add the columns of a data set, and return their mapping."""
        left_out = 0
        variables = self._variables(schema)
        for variable in variables:
            column = self._place(variable)
            if column is None and len(self._columns) >= MOST_COLUMNS:
                left_out += 1
                continue
            self._describe(column or self._new_place(variable), variable.field)
        if left_out:
            self.warnings.append(f"{left_out:,} columns are left out: a table has at most {MOST_COLUMNS:,}")
        metadata = _decoded(schema.metadata)
        self._metadata |= {key: metadata[key] for key in _OF_TABLE if metadata.get(key)}
        places = ((variable.field.name, self._place(variable)) for variable in variables)
        return tuple(SourceColumn(name, None if column is None else column.name) for name, column in places)

    def schema(self) -> pa.Schema:
        fields = [pa.field(column.name, column.type, metadata=column.metadata or None) for column in self._columns]
        return pa.schema(fields, self._metadata or None)

    def _variables(self, schema: pa.Schema) -> list["_Variable"]:
        """Return the columns of a data set."""
        owners = [_owner(schema, field) for field in schema]
        own = [at for at, (owner, _) in enumerate(owners) if owner is None]
        identities = dict(zip(own, self._identities([schema.field(at) for at in own]), strict=True))
        return [
            _Variable(field, identities[at if owner is None else owner], side)
            for at, (field, (owner, side)) in enumerate(zip(schema, owners, strict=True))
        ]

    def _identities(self, variables: Sequence[pa.Field]) -> list[tuple[str, str]]:
        """Return an identity for each variable of a data set.

        Of those whose names differ only in case, the one that the table's first column of the name is named after has
        the common identity. So their order does not matter. Without such a column, it is the first one.
        """
        names = [_name_in(_decoded(field.metadata), field.name) for field in variables]
        alike = Counter(map(folded, names))
        times: Counter[str] = Counter()
        begun: set[str] = set()
        found = []
        for at, (field, name) in enumerate(zip(variables, names, strict=True), 1):
            times[name] += 1
            key, exact = folded(name), f"{_EXACT}{times[name]}{_EXACT}{name}"
            others = self._of_key.get(key)
            is_first = times[name] == 1 and (others is None or name == _name_in(others[0].metadata, others[0].name))
            if not name:
                key = f"{_UNNAMED}{_decoded(field.metadata).get('sas.position', at)}"
            elif exact in self._of_key or key in begun or key.startswith(_EXACT) or (alike[key] > 1 and not is_first):
                key = exact
            else:
                begun.add(key)
            found.append((key, word(field.type)))
        return found

    def _place(self, variable: "_Variable") -> _Column | None:
        """Return the column for a variable or side column of a data set, if it exists."""
        column = self._of_variable.get(variable.identity)
        if column is None or variable.side is None:
            return column
        return self._of_side.get((column.name, variable.side))

    def _new_place(self, variable: "_Variable") -> _Column:
        field, (key, kind), side = variable
        if side is not None:
            owner = self._of_variable[variable.identity].name
            column = self._of_side[owner, side] = self._new(f"{owner}__{_SIDES[side]}", field.type, {side: owner})
            return column
        others = [word(other.type) for other in self._of_key.get(key, ())]
        own_name = _name_in(_decoded(field.metadata), field.name) or field.name
        name = "".join("_" if character in _REFUSED else character for character in own_name)
        metadata = {VARIABLE: key}
        if others:
            name = f"{name}__{kind}"
            metadata[WARNING] = f"{own_name} is {kind} in some data sets, and {' or '.join(others)} in others"
        elif own_name.casefold() in _FIXED_NAMES:
            name = f"{name}__variable"
            metadata[WARNING] = f"{own_name} is a column that every table has"
        elif key.startswith(_EXACT) and not key.startswith(_UNNAMED):
            metadata[WARNING] = f"{own_name} is the name of several variables of one data set, apart from its case"
        column = self._of_variable[variable.identity] = self._new(name, field.type, metadata)
        self._of_key.setdefault(key, []).append(column)
        if column.name != own_name:
            metadata["sas.name"] = own_name
        if column.name != name:
            metadata.setdefault(WARNING, f"{own_name} is also the name of another column")
        if WARNING in metadata:
            self.warnings.append(f"{metadata[WARNING]}: the values are in {column.name}")
        return column

    def _new(self, name: str, data_type: pa.DataType, metadata: dict[str, str]) -> _Column:
        while name.casefold() in self._used_names:
            name += "_"
        self._used_names.add(name.casefold())
        column = _Column(name, data_type, metadata)
        self._columns.append(column)
        return column

    def _describe(self, column: _Column, field: pa.Field) -> None:
        """Merge the metadata of a field into its column."""
        metadata = _decoded(field.metadata)
        if column.type != field.type:
            column.type = pa.duration("us")
        for key in _NEWEST:
            if metadata.get(key):
                if key in _FORMER:
                    self._note_former(column, key, metadata[key])
                column.metadata[key] = metadata[key]
        if "sas.type" in metadata:
            column.metadata["sas.type"] = metadata["sas.type"]
        lengths = [int(each["sas.length"]) for each in (column.metadata, metadata) if "sas.length" in each]
        if lengths:
            column.metadata["sas.length"] = str(max(lengths))

    def _note_former(self, column: _Column, key: str, new: str) -> None:
        old = column.metadata.get(key)
        if not old or old == new:
            return
        former: list[str] = json.loads(column.metadata.get(_FORMER[key], "[]"))
        if new not in former:
            self.warnings.append(f"{column.name} had the {key.removeprefix('sas.')} {old!r}, and now has {new!r}")
        noted = [each for each in former if each not in {old, new}] + [old]
        column.metadata[_FORMER[key]] = json.dumps(noted[-MOST_FORMER:], ensure_ascii=False)


def word(data_type: pa.DataType) -> str:
    """Return the word for a type in the names of columns."""
    if pa.types.is_decimal(data_type):
        return f"decimal_{data_type.precision}_{data_type.scale}"
    return _WORDS.get(data_type, str(data_type))


class _Variable(NamedTuple):
    """A column of a data set: the identity of its variable in all data sets, and of what kind the column is if it is a
    side column of that variable.

    The identity is the key of the variable, `table.variable`, and the type of its values. Two variables of one data set
    never have the same.
    """

    field: pa.Field
    identity: tuple[str, str]
    side: str | None = None


def _name_in(metadata: Mapping[str, str], column: str) -> str:
    """Return the name that the sender gave the variable of a column. It is empty if there was none."""
    stated = (metadata[key] for key in _NAMES if key in metadata)
    return next(stated, column).rstrip(" \0")


def _owner(schema: pa.Schema, field: pa.Field) -> tuple[int | None, str | None]:
    """Return where the variable is that a side column belongs to, and the kind of side column. Return None for a
    variable."""
    for kind in _SIDES:
        owner = (field.metadata or {}).get(kind.encode())
        at = -1 if owner is None else schema.get_field_index(owner.decode())
        if at >= 0:
            return at, kind
    return None, None


def _decoded(metadata: dict[bytes, bytes] | None) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in (metadata or {}).items()}
