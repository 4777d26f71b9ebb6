"""The description of a data set from the `sas.*` metadata of its Arrow schema, and its listing as of PROC CONTENTS."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from app.dataset import sas_columns, side_columns
from app.dataset.sapdb.column_types import LENGTH, sapdb_metadata

_DOUBLE = 8
_GAP = 4
_FULL_WIDTH = 100


class VariableContents(NamedTuple):
    """A variable. `column` holds its values; `missing_column` and `bytes_column` are its side columns.

    Texts and byte strings are characters; their `length` is 0 if it is not known.
    """

    position: int
    name: str
    column: str
    is_numeric: bool
    length: int
    format: str
    informat: str
    label: str
    kind: str
    arrow_type: str
    missing_column: str | None
    bytes_column: str | None
    notes: tuple[str, ...]


class IndexContents(NamedTuple):
    """An index. `flags` and `upercmx` are as the sender wrote them; the meaning of their bits is not published."""

    name: str
    variables: tuple[str, ...]
    flags: int
    upercmx: int = 0


class KeyContents(NamedTuple):
    """A variable of the sort key."""

    variable: str
    descending: bool


class DataSetDescription(NamedTuple):
    """A data set. `attributes` are all other `sas.*` entries, by the name after the dot."""

    library: str
    member: str
    label: str
    observations: int
    observation_length: int
    variables: tuple[VariableContents, ...]
    sort_key: tuple[KeyContents, ...]
    indexes: tuple[IndexContents, ...]
    protection: tuple[str, ...]
    warnings: tuple[str, ...]
    attributes: Mapping[str, str]

    @property
    def remarks(self) -> list[str]:
        """The warnings about the data set, and the notes on each of its variables."""
        return [*self.warnings, *(f"{each.name}: {note}" for each in self.variables for note in each.notes)]


def contents(schema: pa.Schema, observations: int) -> DataSetDescription:
    """Return the description in a schema.

    Facts that it does not state are inferred from its types; it need not be of SAS.
    """
    entries = sas_metadata(schema.metadata)
    sides = {
        side_columns.missing_of(field) or side_columns.bytes_of(field): field
        for field in schema
        if side_columns.is_side(field)
    }
    fields = side_columns.without_sides(schema)
    variables = tuple(_variable(field, position, sides.get(field.name)) for position, field in enumerate(fields, 1))
    needed = str(sum(variable.length for variable in variables))
    return DataSetDescription(
        library=entries.pop("library", ""),
        member=entries.pop("member", ""),
        label=entries.pop("label", ""),
        observations=observations,
        observation_length=int(entries.pop("obs_length", needed)),
        variables=variables,
        sort_key=tuple(
            KeyContents(each["variable"], each["descending"]) for each in _list(entries.pop("sort_key", ""))
        ),
        indexes=tuple(
            IndexContents(each["name"], tuple(each["variables"]), each["flags"], each.get("upercmx", 0))
            for each in _list(entries.pop("indexes", ""))
        ),
        protection=tuple(entries.pop("passwords", "").split()),
        warnings=tuple(entries.pop("warnings", "").splitlines()),
        attributes=entries,
    )


def _variable(field: pa.Field, position: int, side: pa.Field | None) -> VariableContents:
    entries = sas_metadata(field.metadata)
    is_numeric = not (sas_columns.is_text(field.type) or pa.types.is_binary(field.type))
    odd = entries.get("odd_missing")
    damaged = side.name if side is not None and not is_numeric else None
    notes = [
        entries.get("inexact"),
        f"values that do not decode, as bytes in {damaged}" if damaged else None,
        f"NaNs and infinities that SAS lacks, taken as missing: {odd}" if odd else None,
    ]
    return VariableContents(
        position=int(entries.get("position", position)),
        name=entries.get("name", field.name),
        column=field.name,
        is_numeric=is_numeric,
        length=_DOUBLE if is_numeric and "length" not in entries else character_length(field),
        format=entries.get("format", ""),
        informat=entries.get("informat", ""),
        label=entries.get("label", ""),
        kind=entries.get("kind", ""),
        arrow_type=str(field.type),
        missing_column=side.name if side is not None and is_numeric else None,
        bytes_column=damaged,
        notes=tuple(filter(None, notes)),
    )


def character_length(field: pa.Field) -> int:
    """Return the length of a column of texts or byte strings that its metadata state, of SAS or of SAP DB; 0 if none.

    A LONG column of SAP DB has none.
    """
    return int(sas_metadata(field.metadata).get("length") or sapdb_metadata(field).get(LENGTH, "0"))


def _list(text: str) -> Any:
    return json.loads(text) if text else []


def sas_metadata(metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    """Return the `sas.*` entries of Arrow metadata, by the name after the dot."""
    pairs = (
        (key.decode("utf-8", "replace"), value.decode("utf-8", "replace")) for key, value in (metadata or {}).items()
    )
    return {key.removeprefix("sas."): value for key, value in pairs if key.startswith("sas.")}


# --- as text ------------------------------------------------------------------------------------------------------


def listing(found: DataSetDescription) -> str:
    """Return the lines of PROC CONTENTS, as far as a data set's messages contain the information."""
    lines = [_title("The CONTENTS Procedure"), "", *_attributes(found)]
    lines += _section("Alphabetic List of Variables and Attributes", *_variable_table(found.variables))
    if found.indexes:
        rows = [[index.name, str(len(index.variables)), " ".join(index.variables)] for index in found.indexes]
        lines += _section("Alphabetic List of Indexes and Attributes", ["Index", "# of Variables", "Variables"], rows)
    if found.sort_key:
        key = " ".join("DESCENDING " * each.descending + each.variable for each in found.sort_key)
        rows = [["Sortedby", key], ["Character Set", found.attributes.get("sort_collating", "")]]
        lines += _section("Sort Information", [], rows)
    if found.remarks:
        lines += _section("Warnings", [], [[remark] for remark in found.remarks])
    return "\n".join(lines) + "\n"


def _attributes(found: DataSetDescription) -> Iterator[str]:
    entries = found.attributes
    order = {"little": "low byte first", "big": "high byte first"}.get(entries.get("byte_order", ""), "")
    left = {
        "Data Set Name": ".".join(filter(None, [found.library, found.member])),
        "Member Type": "DATA",
        "Data Set Type": entries.get("dataset_type", ""),
        "Label": found.label,
        "Data Representation": ", ".join(filter(None, [entries.get("float", "").upper(), order])),
        "Encoding": entries.get("encoding", ""),
        "Protection": " ".join(word.upper() for word in found.protection),
    }
    right = {
        "Observations": f"{found.observations}",
        "Variables": f"{len(found.variables)}",
        "Indexes": f"{len(found.indexes)}",
        "Observation Length": f"{found.observation_length}",
        "Compressed": entries.get("compress", ""),
        "Encrypted": entries.get("encrypt", ""),
        "Sorted": "YES" if found.sort_key else "NO",
    }
    rows = [[*pair[0], *pair[1]] for pair in zip(left.items(), right.items(), strict=True)]
    return _table([], rows, [False] * 4)


def _variable_table(variables: Sequence[VariableContents]) -> tuple[list[str], list[list[str]]]:
    heads = ["#", "Variable", "Type", "Len", "Format", "Informat", "Label"]
    rows = [
        [
            str(each.position),
            each.name,
            "Num" if each.is_numeric else "Char",
            str(each.length),
            each.format,
            each.informat,
            each.label,
        ]
        for each in sorted(variables, key=lambda variable: variable.name.casefold())
    ]
    used = [column < 4 or any(row[column] for row in rows) for column in range(len(heads))]
    return _chosen(heads, used), [_chosen(row, used) for row in rows]


def _chosen(row: list[str], used: Sequence[bool]) -> list[str]:
    return [cell for cell, is_used in zip(row, used, strict=True) if is_used]


def _section(title: str, heads: list[str], rows: list[list[str]]) -> Iterator[str]:
    yield ""
    yield _title(title)
    yield ""
    to_the_right = [head in {"#", "Len", "# of Variables"} for head in heads] or [False] * len(rows[0])
    yield from _table(heads, rows, to_the_right)


def _title(text: str) -> str:
    return text.center(_FULL_WIDTH).rstrip()


def _table(heads: list[str], rows: list[list[str]], to_the_right: Sequence[bool]) -> Iterator[str]:
    lines = [heads, *rows] if heads else rows
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, to_the_right, strict=True)
        )
        yield (" " * _GAP).join(cells).rstrip()
