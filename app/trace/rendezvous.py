"""Explains tibrvMsg messages: where each field lies, and what the fields say. Frames that a daemon and its clients
exchange are messages, too; what stands before the first of them is explained as numbers."""

import struct
from collections.abc import Iterable, Iterator
from math import isfinite
from typing import Any

from app.codecs.rendezvous.constants import HEADER_SIZE, MAGIC, MOST_DEPTH, WireType
from app.codecs.rendezvous.daemon import PARAMETERS_SIZE, RESPONSE, VERSION
from app.codecs.rendezvous.field_values import DateTime, write_value
from app.codecs.rendezvous.fields import FieldPlace, message_end, places
from app.codecs.rendezvous.tibrv_message import Field, RawValue, by_name, decode_field, is_message
from app.trace.frames import Frame, Hints
from app.wire import Cell, WireError
from app.wire.kinds import Buffer, named

_NAMED = named(WireType) or (lambda value: value)


def messages(data: memoryview, _: Hints) -> list[Frame]:
    """Explain whole messages, one after the other."""
    if not data:
        raise WireError("length", 0, "there is no message")
    frames, at = [], 0
    while at < len(data):
        end = message_end(data, at, len(data))
        found = list(places(data, at + HEADER_SIZE, end))
        fields = [decode_field(data, place, f"field[{number}]", MOST_DEPTH) for number, place in enumerate(found)]
        cells = [
            Cell(at, 4, "length", end - at),
            Cell(at + 4, len(MAGIC), "magic", MAGIC),
            *_cells(data, found, fields),
        ]
        note = f"{len(fields)} fields"
        by_its_name = by_name(fields)
        if "mtype" in by_its_name and not by_its_name["mtype"].id:
            subject = f" {by_its_name['sub'].value}" if "sub" in by_its_name else ""
            note += f": {_KINDS.get(str(by_its_name['mtype'].value), 'frame')}{subject}"
        elif fields and (what := _MESSAGES.get(fields[0].name or "")):
            note += f": {what}"
        frames.append(Frame("tibrvmsg", at, cells, note, {"fields": described(fields)}))
        at = end
    return frames


def payload(data: Buffer) -> list[Frame]:
    """Explain what another format carries, where it begins as a message does; nothing where it is none."""
    if not is_message(data):
        return []
    try:
        return messages(memoryview(data), Hints())
    except WireError:
        return []


def agreements(data: memoryview, _: Hints) -> list[Frame]:
    """Explain the versions and parameters that a daemon and a client exchange before their first message."""
    frames: list[Frame] = []
    at = 0
    while at < len(data) or not frames:
        is_version = bytes(data[at : at + len(VERSION)]) == VERSION
        if not is_version and bytes(data[at + 4 : at + PARAMETERS_SIZE]) != RESPONSE[4:]:
            raise WireError("agreement", at, "neither a version nor parameters")
        size = len(VERSION) if is_version else PARAMETERS_SIZE
        numbers = struct.unpack_from(f">{size // 4}I", data, at)
        name = "version" if is_version else "parameter"
        cells = [Cell(at + 4 * n, 4, f"{name}[{n}]", number) for n, number in enumerate(numbers)]
        note = "version" if is_version else _AGREEING.get(numbers[0], "parameters")
        frames.append(Frame("rendezvous-agreement", at, cells, note))
        at += size
    return frames


_AGREEING = {1: "parameters, agreed", 2: "parameters, requested", 3: "parameters, answered"}

_MESSAGES = {
    "HDR": "attachment header",
    "MSG": "application message",
    "DATA": "application message",
    "DAT": "data set definition",
    "VAR": "variables",
    "ATO": "observations",
    "ATI": "indexes",
    "ATC": "integrity constraints",
    "FDC": "file descriptor",
    "ATX": "text records",
    "ATB": "binary records",
    "LST": "last message",
}
_KINDS = {
    "I": "introduction",
    "L": "listen to",
    "C": "cancel",
    "D": "publication on",
    "A": "advisory on",
    "R": "answer",
}


def _cells(data: memoryview, found: list[FieldPlace], fields: list[Field]) -> Iterator[Cell]:
    for number, (place, field) in enumerate(zip(found, fields, strict=True)):
        row = f"field[{number}]"
        name = "no name" if field.name is None else repr(field.name)
        yield Cell(place.at, place.type_at - place.at, f"{row}.name", f"{name} id {field.id}" if field.id else name)
        yield Cell(place.type_at, 1, f"{row}.type", _NAMED(place.type))
        yield Cell(place.type_at + 1, place.data_at - place.type_at - 1, f"{row}.size", place.end - place.data_at)
        if place.end > place.data_at:
            shown = (
                field.value if isinstance(field.value, int | float | str) else bytes(data[place.data_at : place.end])
            )
            yield Cell(place.data_at, place.end - place.data_at, f"{row}.data", shown)


def described(fields: Iterable[Field]) -> list[dict[str, Any]]:
    """Return fields as JSON values: each with name, id, type and value.

    Bytes are in hexadecimal as `value_hex`. Floating-point numbers also have their bytes as `bits`.
    """
    return [{"name": each.name, "id": each.id, "type": each.type, **_value(each)} for each in fields]


def _value(field: Field) -> dict[str, Any]:
    value = field.value
    shown: Any = value
    match value:
        case _ if field.type == "MSG":
            shown = described(value)
        case _ if field.type == "MSGARRAY":
            shown = [described(each) for each in value]
        case DateTime():
            shown = {"sec": value.seconds, "nsec": value.microseconds * 1000}
        case list():
            shown = [_number(each) for each in value]
        case RawValue(wire_type, data):
            return {"wire_type": wire_type, "value_hex": data.hex()}
        case bytes():
            return {"value_hex": value.hex()}
        case float():
            bits = field.written or write_value(field.type, value)[1]
            return {"value": _number(value), "bits": bits.hex()}
    return {"value": shown}


def _number(value: Any) -> Any:
    """Return a number as JSON has it: those that are not finite by their names."""
    return str(value) if isinstance(value, float) and not isfinite(value) else value
