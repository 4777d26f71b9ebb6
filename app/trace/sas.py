"""Explain the messages of the SAS Common Messaging Interface, in any dialect."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from app.codecs.ibm_mq.encodings import integer_order
from app.codecs.sas.attachment_messages import AttachmentHeader, read_counts, read_header
from app.codecs.sas.constants import MessageKind
from app.codecs.sas.data_set_messages import (
    ConstraintMessage,
    DataSetDefinition,
    IndexMessage,
    ObservationMessage,
    VariableMessage,
    read_definition,
)
from app.codecs.sas.dialect import Dialect, furthest, members, preferred, survey
from app.codecs.sas.file_messages import FileDescriptionMessage, detect, read_file_description, spans
from app.codecs.sas.message_reader import Fault, attempt, control_in
from app.codecs.sas.message_reader import explain as why_not
from app.trace.frames import Explain, Formats, Frame, Hints
from app.wire import Cell, Context, Layout, WireError
from app.wire.kinds import Order

MOST_CELLS_OF_BEGINNING = 1000
"""The maximum number of cells before an error: enough to see where a message went wrong."""

_LAYOUTS: Mapping[str, type[Layout]] = {
    "sas-attachment-header": AttachmentHeader,
    "sas-data-set-definition": DataSetDefinition,
    "sas-variables": VariableMessage,
    "sas-indexes": IndexMessage,
    "sas-observations": ObservationMessage,
    "sas-constraints": ConstraintMessage,
}
"""The layouts of formats that are one structure."""

Possible = Callable[[memoryview, Hints, str], int]
"""A function that returns the dialects in which bytes can be read in a character set. It raises WireError if none fits.
"""


def _message(name: str, possible: Possible) -> Explain:
    layout = _LAYOUTS[name]

    def frames(data: memoryview, hints: Hints) -> list[Frame]:
        refusals = []
        for charset in hints.charsets:
            try:
                dialect = preferred(possible(data, hints, charset), hints.encoding)
            except WireError as error:
                refusals.append(error)
                continue
            cells = [_owned(cell) for cell in layout.cells(data, 0, dialect.context(charset))]
            return [Frame(name, 0, cells, f"dialect {dialect.name}, {charset}")]
        raise refusals[0]

    return frames


def _typed(name: str, kind: MessageKind) -> Possible:
    """Return the function that finds the dialects of a layout.

    In these it takes every byte, begins with its type identifier, and its texts have no control characters.
    """
    layout = _LAYOUTS[name]

    def check(value: Any) -> Fault | None:
        if value.type != kind:
            return "type", f"{value.type} is not the type identifier {int(kind)}"
        return control_in(**dict(_texts(value)))

    def possible(data: memoryview, hints: Hints, charset: str) -> int:
        found = survey(lambda dialect: attempt(layout, data, dialect.context(charset), check), hints.dialects)
        if found is None:
            raise furthest(lambda dialect: why_not(layout, data, dialect.context(charset), check), hints.dialects)
        return found[1]

    return possible


def _texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, f"{path}[{index}]")
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _texts(getattr(value, field.name), f"{path}.{field.name}" if path else field.name)


def beginning(name: str, data: memoryview, hints: Hints) -> list[Cell]:
    """Return the cells of a format up to the byte where the data stops matching it, and the rest as one cell.

    They are read in the dialect that reads furthest. The list is empty if nothing could be read, or the format has no
    layout.
    """
    layout = _LAYOUTS.get(name)
    if layout is None:
        return []
    readings = (_until_error(layout, data, dialect, hints.charset or "latin-1") for dialect in members(hints.dialects))
    cells = max(readings, key=_end)
    end = _end(cells)
    return [*cells, Cell(end, len(data) - end, "rest", bytes(data[end:]))] if cells and end < len(data) else cells


def _until_error(layout: type[Layout], data: memoryview, dialect: Dialect, charset: str) -> list[Cell]:
    cells = []
    with suppress(WireError):
        for cell in islice(layout.cells(data, 0, dialect.context(charset)), MOST_CELLS_OF_BEGINNING):
            cells.append(_owned(cell))  # noqa: PERF401 - those before the error are kept
    return cells


def _end(cells: list[Cell]) -> int:
    return cells[-1].at + cells[-1].size if cells else 0


def _file_description(data: memoryview, hints: Hints) -> list[Frame]:
    if len(data) not in {8, 16}:
        raise WireError("FileDescriptionMessage", min(len(data), 16), "two numeric integers must have 8 or 16 bytes")
    order = preferred(read_file_description(data, hints.dialects)[1], hints.encoding).order
    context = Context(order, long=8 if len(data) == 16 else 4)
    return [Frame("sas-file-description", 0, list(FileDescriptionMessage.cells(data, 0, context)), _WORDS[order])]


def _count(data: memoryview, hints: Hints) -> list[Frame]:
    readings = read_counts(data)
    if not readings:
        raise WireError("Count.count", min(len(data), 8), "a count must be a non-negative number of 4 or 8 bytes")
    numbers: dict[Order, int] = {order: number for order, number in zip(_WORDS, readings, strict=True) if number >= 0}
    stated = integer_order(hints.encoding)
    order = stated if stated in numbers else min(numbers, key=numbers.__getitem__)
    return [Frame("sas-count", 0, [Cell(0, len(data), "Count.count", numbers[order])], _WORDS[order])]


def _records(data: memoryview, hints: Hints) -> list[Frame]:
    if not data:
        raise WireError("Record.length", 0, "no record found")
    dialect = detect(lambda: [data], hints.dialects)
    cells: list[Cell] = []
    at = number = 0
    for _, start, length, _ends in spans([data], dialect):
        cells += _filling(at, start - dialect.long, number - 1)
        cells.append(Cell(start - dialect.long, dialect.long, f"record[{number}].length", length))
        cells.append(Cell(start, length, f"record[{number}].data", bytes(data[start : start + length])))
        at, number = start + length, number + 1
    cells += _filling(at, len(data), number - 1)
    return [Frame("sas-file-records", 0, cells, f"dialect {dialect.name}")]


def _filling(at: int, end: int, number: int) -> list[Cell]:
    """Return the NUL or the padding after a record as a cell."""
    return [Cell(at, end - at, f"record[{number}].filling", bytes(end - at))] if at < end else []


def _owned(cell: Cell) -> Cell:
    return cell._replace(value=bytes(cell.value)) if isinstance(cell.value, memoryview) else cell


_WORDS: dict[Order, str] = {">": "big-endian", "<": "little-endian"}

FORMATS: Formats = {
    "sas-attachment-header": _message(
        "sas-attachment-header",
        lambda data, hints, charset: read_header(data, charset=charset, encoding=hints.encoding)[1],
    ),
    "sas-data-set-definition": _message(
        "sas-data-set-definition", lambda data, hints, charset: read_definition(data, hints.dialects, charset)[1]
    ),
    "sas-variables": _message("sas-variables", _typed("sas-variables", MessageKind.VARIABLES)),
    "sas-indexes": _message("sas-indexes", _typed("sas-indexes", MessageKind.INDEXES)),
    "sas-file-records": _records,
    "sas-file-description": _file_description,
    "sas-count": _count,
    "sas-observations": _message("sas-observations", _typed("sas-observations", MessageKind.OBSERVATIONS)),
    "sas-constraints": _message("sas-constraints", _typed("sas-constraints", MessageKind.CONSTRAINTS)),
}
"""The formats by name, in the order of recognition: exact ones before those that match almost any bytes."""
