"""Read a file together with its define.xml, which says what the file itself does not.

A sender's options take precedence, then what the file says, then define.xml.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO

import pyarrow as pa

from app.dataset import format_names, sas_columns, side_columns
from app.model.names import folded
from app.tables.read import file_formats
from app.tables.read.define_xml import DefinedGroup, DefinedItem, Definitions
from app.tables.read.overrides import DataSetOverrides, said_of
from app.tables.read.read_request import Options, Reading, Remark, VariableType

MOST_NAMES = 10
"""The maximum number of names in a remark."""


def read(
    file: BinaryIO, format_name: str, options: Options, overrides: DataSetOverrides, definitions: Definitions | None
) -> Reading:
    """Read a file, and add the attributes that define.xml has for its data set. Raises InvalidInputError."""
    if definitions is None:
        return file_formats.read(file, format_name, options)
    named = (overrides.member, options.member)
    group = definitions.group(*named, overrides.file_stem)
    reading = file_formats.read(file, format_name, _typed(options, group))
    member = said_of(reading.schema.metadata).get("member")
    group = definitions.group(*named, member, overrides.file_stem)
    if group is None:
        name = next(filter(None, [*named, member, overrides.file_stem]), "")
        return reading._replace(remarks=(*reading.remarks, Remark(None, f"define.xml describes no data set {name}")))
    return _enriched(reading, group)


def _typed(options: Options, group: DefinedGroup | None) -> Options:
    """Return the options with the columns that define.xml has as text, which a text format need not guess."""
    if group is None:
        return options
    texts: dict[str, VariableType] = {name: "character" for name, item in group.items.items() if not item.is_numeric}
    return replace(options, types={**texts, **options.types})


def _enriched(reading: Reading, group: DefinedGroup) -> Reading:
    whole = dict(reading.schema.metadata or {})
    if group.label:
        whole.setdefault(b"sas.label", group.label.encode())
    fields = []
    found: set[str] = set()
    for field in reading.schema:
        name = folded(said_of(field.metadata).get("name") or str(field.name))
        item = None if side_columns.is_side(field) else group.items.get(name)
        if item is not None:
            found.add(name)
        fields.append(field if item is None else _with(field, item))
    remarks = (*reading.remarks, *_lacking([group.items[name].name for name in group.items if name not in found]))
    return reading._replace(schema=pa.schema(fields, whole), remarks=remarks)


def _with(field: pa.Field, item: DefinedItem) -> pa.Field:
    """Return a column's field with the attributes that it lacks."""
    is_numeric = not sas_columns.is_text(field.type)
    said = said_of(field.metadata)
    added: dict[str, str] = {"label": item.label}
    if item.is_numeric is is_numeric:
        added["format"] = item.format
    if item.code_list and item.code_list.startswith("$") is not is_numeric and not _is_named(added.get("format", "")):
        added["format"] = f"{item.code_list}."
    if item.length and not is_numeric and "length" not in said:
        added |= {"type": "character", "length": str(item.length)}
    lacking = {
        f"sas.{key}".encode(): value.encode()
        for key, value in added.items()
        if value and (not said.get(key) or (key == "format" and item.code_list and not _is_named(said[key])))
    }
    return field.with_metadata({**(field.metadata or {}), **lacking})


def _is_named(reference: str) -> bool:
    """Tell whether a format has a name: `8.` and `$20.` have none."""
    return bool(format_names.parse(reference).name.removeprefix("$"))


def _lacking(names: list[str]) -> Iterator[Remark]:
    if names:
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        yield Remark(None, f"define.xml has variables that the file lacks: {', '.join(names[:MOST_NAMES])}{more}")
