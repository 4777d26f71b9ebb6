"""Read CDISC Define-XML 2.0 and 2.1: what it says about the data sets of a study.

Source: CDISC, "Define-XML Specification" 2.0 and 2.1. Elements are known by their local names, so that extensions and
other versions of the namespaces do not matter. Entities and document types are refused, whatever they contain.
"""

import re
from collections.abc import Iterator, Mapping
from typing import BinaryIO, Final, NamedTuple
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import iterparse

from app.dataset import checks, format_names, value_labels
from app.dataset.value_labels import Catalog, ValueLabels
from app.model.errors import InvalidInputError
from app.model.names import folded

MOST_BYTES: Final = 32 << 20
"""The maximum size of a file in bytes. Its elements are held in memory."""

MOST_DEPTH: Final = 64
"""The maximum depth of nested elements."""

_NUMERIC = frozenset({"integer", "float", "double", "decimal", "boolean"})
"""The data types of numeric variables. All others, also dates in ISO 8601, are those of character variables."""

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
    groups = {folded(name): group for element in found["ItemGroupDef"] for name, group in _groups(element, items)}
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


def _children(element: Element, name: str) -> Iterator[Element]:
    return (child for child in element if _local(child.tag) == name)


def _text(element: Element, within: str) -> str:
    """Return the first translated text of a child element, with single blanks."""
    for child in _children(element, within):
        for text in _children(child, "TranslatedText"):
            return " ".join("".join(text.itertext()).split())
    return ""


def _groups(element: Element, items: Mapping[str, DefinedItem]) -> Iterator[tuple[str, DefinedGroup]]:
    """Yield a data set with each of its names."""
    said = _attributes(element)
    references = (_attributes(child).get("ItemOID", "") for child in _children(element, "ItemRef"))
    named = (items[reference] for reference in references if reference in items)
    label = _text(element, "Description") or said.get("Label", "")
    group = DefinedGroup(said.get("Name", ""), label, {folded(item.name): item for item in named})
    yield from ((said[key], group) for key in ("SASDatasetName", "Name") if said.get(key))


def _item(element: Element, code_lists: Mapping[str, _CodeList]) -> DefinedItem:
    said = _attributes(element)
    used = next((_attributes(child).get("CodeListOID", "") for child in _children(element, "CodeListRef")), "")
    reference = said.get("DisplayFormat", "")
    length = said.get("Length", "")
    return DefinedItem(
        name=said.get("SASFieldName") or said.get("Name", ""),
        label=_text(element, "Description") or said.get("Label", ""),
        is_numeric=said.get("DataType", "") in _NUMERIC,
        length=int(length) if length.isdecimal() and len(length) <= 5 else 0,
        format=reference if "." in reference or not reference else f"{reference}.",
        code_list=code_lists[used].name if used in code_lists else "",
    )


def _code_lists(elements: list[Element]) -> dict[str, _CodeList]:
    """Return the code lists that decode values, by OID, with different format names."""
    found: dict[str, _CodeList] = {}
    taken: dict[str, ValueLabels] = {}
    for element in elements:
        said = _attributes(element)
        is_numeric = said.get("DataType", "text") in _NUMERIC
        labels = dict(_decodes(element, is_numeric=is_numeric))
        if not labels:
            continue
        base = _format_name(said, is_numeric=is_numeric)
        name, number = base, 0
        while taken.setdefault(name, labels) != labels:
            number += 1
            name = f"{base[: checks.LONGEST_FORMAT['V9'] - 8]}_{_letters(number)}"
        found[said.get("OID", "")] = _CodeList(name, labels)
    try:
        value_labels.check_size(taken.values())
    except ValueError as error:
        raise _wrong(str(error)) from None
    return found


def _decodes(element: Element, *, is_numeric: bool) -> Iterator[tuple[str, str]]:
    for child in _children(element, "CodeListItem"):
        value, label = _attributes(child).get("CodedValue", ""), _text(child, "Decode")
        if label:
            yield (_number(value) if is_numeric else value), label


def _number(text: str) -> str:
    try:
        return value_labels.value_text(float(text))
    except ValueError:
        return text


def _format_name(said: Mapping[str, str], *, is_numeric: bool) -> str:
    """Return the name of a code list's format: its own, or one that is made of its identifier."""
    own = format_names.parse(said.get("SASFormatName", "")).name.upper().removeprefix("$")
    made = _NOT_IN_A_FORMAT_NAME.sub("_", _PREFIX.sub("", (own or said.get("OID", "")).upper(), count=1))
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
