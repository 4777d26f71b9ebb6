"""Read CDISC Define-XML 2.0 and 2.1, which describes the data sets of a study, and complete files with it.

Source: CDISC, "Define-XML Specification" 2.0 and 2.1. Elements are recognised by their local names, so that extensions
and other versions of the namespaces do not matter. Entities and document types are refused.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import BinaryIO, Final, NamedTuple
from xml.etree.ElementTree import Element, ParseError

import pyarrow as pa
from defusedxml import DefusedXmlException
from defusedxml.ElementTree import iterparse

from app.dataset import checks, format_names, sas_columns, side_columns, value_labels
from app.dataset.description import sas_metadata
from app.dataset.value_labels import Catalog, ValueLabels
from app.model.errors import InvalidInputError
from app.model.names import folded
from app.tables.read import file_formats
from app.tables.read.read_request import DataSetOverrides, FileTable, ReadOptions, Remark, VariableType, listed

MOST_BYTES: Final = 32 << 20
"""The maximum size of a file in bytes. Its elements are held in memory."""

MOST_DEPTH: Final = 64
"""The maximum depth of nested elements."""

_NUMERIC = frozenset({"integer", "float", "double", "decimal", "boolean"})
"""The data types of numeric variables. All others, also of dates in ISO 8601, are data types of character variables."""

_KEPT = frozenset({"ItemGroupDef", "ItemDef", "CodeList"})
_NOT_IN_A_FORMAT_NAME = re.compile(r"[^A-Z0-9_]")
_PREFIX = re.compile(r"(?:CL|CODELIST)[._-]")


class DefinedItem(NamedTuple):
    """A variable as Define-XML has it. `length` counts characters; `code_list` is the format of its code list."""

    name: str
    label: str
    is_numeric: bool
    length: int
    format: str
    code_list: str


class DefinedGroup(NamedTuple):
    """A data set as Define-XML has it; `items` are by name, casefolded."""

    name: str
    label: str
    items: Mapping[str, DefinedItem]


class Definitions(NamedTuple):
    """The data sets of a file by each of their names, folded, and the code lists as value labels by format."""

    groups: Mapping[str, DefinedGroup]
    catalog: Catalog

    def group(self, *names: str | None) -> DefinedGroup | None:
        """Return the data set with the first known one of these names."""
        return next((self.groups[folded(name)] for name in names if name and folded(name) in self.groups), None)


class _CodeList(NamedTuple):
    name: str
    labels: ValueLabels


def read(file: BinaryIO) -> Definitions:
    """Read a Define-XML file. Raises InvalidInputError that states the fault."""
    file.seek(0, 2)
    if (size := file.tell()) > MOST_BYTES:
        raise _wrong(f"{size:,} bytes; at most {MOST_BYTES:,} are read")
    file.seek(0)
    found: dict[str, list[Element]] = {name: [] for name in _KEPT}
    try:
        for element in _elements(file):
            found[_local(element.tag)].append(element)
    except ParseError as error:
        raise _wrong(f"not well-formed XML: {error}") from None
    except DefusedXmlException:
        raise _wrong("it has a document type (<!DOCTYPE …>), which is not read; remove it from the file") from None
    except (ValueError, LookupError) as error:
        raise _wrong(f"its text cannot be read: {error}") from None
    if not found["ItemGroupDef"]:
        raise _wrong("it has no ItemGroupDef, so it describes no data set")

    code_lists = _code_lists(found["CodeList"])
    items = {element.get("OID", ""): _item(element, code_lists) for element in found["ItemDef"]}
    groups: dict[str, DefinedGroup] = {}
    for element in found["ItemGroupDef"]:
        attributes = _attributes(element)
        references = (_attributes(child).get("ItemOID", "") for child in element.iterfind("{*}ItemRef"))
        named = (items[reference] for reference in references if reference in items)
        label = _text(element, "Description") or attributes.get("Label", "")
        group = DefinedGroup(attributes.get("Name", ""), label, {folded(item.name): item for item in named})
        groups |= {folded(attributes[key]): group for key in ("SASDatasetName", "Name") if attributes.get(key)}
    return Definitions(groups, {each.name: each.labels for each in code_lists.values()})


def _wrong(why: str) -> InvalidInputError:
    return InvalidInputError("define-xml", "", -1, why)


def _elements(file: BinaryIO) -> Iterator[Element]:
    """Yield the elements that define something, and release all others."""
    depth = 0
    kept = 0
    for event, element in iterparse(file, events=("start", "end"), forbid_dtd=True):
        if event == "start":
            depth += 1
            if depth > MOST_DEPTH:
                raise _wrong(f"elements are nested more than {MOST_DEPTH} deep")
            kept += _local(element.tag) in _KEPT
            continue
        depth -= 1
        if _local(element.tag) in _KEPT:
            kept -= 1
            yield element
        elif not kept:
            element.clear()


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


def _attributes(element: Element) -> dict[str, str]:
    return {_local(name): value.strip() for name, value in element.attrib.items()}


def _text(element: Element, within: str) -> str:
    """Return the first translated text of a child element, with single blanks."""
    text = element.find(f"{{*}}{within}/{{*}}TranslatedText")
    return "" if text is None else " ".join("".join(text.itertext()).split())


def _item(element: Element, code_lists: Mapping[str, _CodeList]) -> DefinedItem:
    attributes = _attributes(element)
    used = next((_attributes(child).get("CodeListOID", "") for child in element.iterfind("{*}CodeListRef")), "")
    reference = attributes.get("DisplayFormat", "")
    length = attributes.get("Length", "")
    return DefinedItem(
        name=attributes.get("SASFieldName") or attributes.get("Name", ""),
        label=_text(element, "Description") or attributes.get("Label", ""),
        is_numeric=attributes.get("DataType", "") in _NUMERIC,
        length=int(length) if length.isdecimal() and len(length) <= 5 else 0,
        format=reference if "." in reference or not reference else f"{reference}.",
        code_list=code_lists[used].name if used in code_lists else "",
    )


def _code_lists(elements: list[Element]) -> dict[str, _CodeList]:
    """Return the code lists that decode values, by OID, with different format names."""
    found: dict[str, _CodeList] = {}
    taken: dict[str, ValueLabels] = {}
    for element in elements:
        attributes = _attributes(element)
        is_numeric = attributes.get("DataType", "text") in _NUMERIC
        labels: dict[str, str] = {}
        for child in element.iterfind("{*}CodeListItem"):
            value, label = _attributes(child).get("CodedValue", ""), _text(child, "Decode")
            if label:
                with suppress(ValueError):
                    value = value_labels.value_text(float(value)) if is_numeric else value
                labels[value] = label
        if not labels:
            continue
        base = _format_name(attributes, is_numeric=is_numeric)
        name, number = base, 0
        while taken.setdefault(name, labels) != labels:
            number += 1
            name = f"{base[: checks.LONGEST_FORMAT['V9'] - 8]}_{_letters(number)}"
        found[attributes.get("OID", "")] = _CodeList(name, labels)
    try:
        value_labels.check_size(taken.values())
    except ValueError as error:
        raise _wrong(str(error)) from None
    return found


def _format_name(attributes: Mapping[str, str], *, is_numeric: bool) -> str:
    """Return the name of a code list's format: its own, or one that is made of its identifier."""
    own = format_names.parse(attributes.get("SASFormatName", "")).name.upper().removeprefix("$")
    made = _NOT_IN_A_FORMAT_NAME.sub("_", _PREFIX.sub("", (own or attributes.get("OID", "")).upper(), count=1))
    name = made[: checks.LONGEST_FORMAT["V9"] - 2].lstrip("0123456789") or "CODES"
    if name[-1].isdigit():  # digits at the end would be the width
        name += "_"
    return name if is_numeric else f"${name}"


def _letters(number: int) -> str:
    """Return a number in letters, as a format name cannot end in a digit: A, B ... Z, AA ..."""
    text = ""
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(ord("A") + rest) + text
    return text


def read_enriched(
    file: BinaryIO, format_name: str, options: ReadOptions, overrides: DataSetOverrides, definitions: Definitions | None
) -> FileTable:
    """Read a file, and add the attributes that define.xml has for its data set. Raises InvalidInputError.

    A sender's options take precedence, then what the file states, then define.xml.
    """
    if definitions is None:
        return file_formats.read(file, format_name, options)
    named = (overrides.member, options.member)
    group = definitions.group(*named, overrides.file_stem)
    if group is not None:  # a text format need not guess the type of its texts
        texts: dict[str, VariableType] = {
            name: "character" for name, item in group.items.items() if not item.is_numeric
        }
        options = replace(options, types={**texts, **options.types})
    reading = file_formats.read(file, format_name, options)
    member = sas_metadata(reading.schema.metadata).get("member")
    group = definitions.group(*named, member, overrides.file_stem)
    if group is None:
        name = next(filter(None, [*named, member, overrides.file_stem]), "")
        return reading._replace(remarks=(*reading.remarks, Remark(None, f"define.xml describes no data set {name}")))
    whole = dict(reading.schema.metadata or {})
    if group.label:
        whole.setdefault(b"sas.label", group.label.encode())
    fields = []
    found: set[str] = set()
    for field in reading.schema:
        name = folded(sas_metadata(field.metadata).get("name") or str(field.name))
        item = None if side_columns.is_side(field) else group.items.get(name)
        if item is not None:
            found.add(name)
        fields.append(field if item is None else _with(field, item))
    remarks = reading.remarks
    if lacking := [item.name for name, item in group.items.items() if name not in found]:
        remarks += (Remark(None, f"define.xml has variables that the file lacks: {listed(lacking)}"),)
    return reading._replace(schema=pa.schema(fields, whole), remarks=remarks)


def _with(field: pa.Field, item: DefinedItem) -> pa.Field:
    """Return a column's field with the attributes that it lacks."""
    is_numeric = not sas_columns.is_text(field.type)
    attributes = sas_metadata(field.metadata)
    added: dict[str, str] = {"label": item.label}
    if item.is_numeric is is_numeric:
        added["format"] = item.format
    if item.code_list and item.code_list.startswith("$") is not is_numeric and not _is_named(added.get("format", "")):
        added["format"] = f"{item.code_list}."
    if item.length and not is_numeric and "length" not in attributes:
        added |= {"type": "character", "length": str(item.length)}
    lacking = {
        f"sas.{key}".encode(): value.encode()
        for key, value in added.items()
        if value
        and (not attributes.get(key) or (key == "format" and item.code_list and not _is_named(attributes[key])))
    }
    return field.with_metadata({**(field.metadata or {}), **lacking})


def _is_named(reference: str) -> bool:
    """Tell whether a format has a name: `8.` and `$20.` have none."""
    return bool(format_names.parse(reference).name.removeprefix("$"))
