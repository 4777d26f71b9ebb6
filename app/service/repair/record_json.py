"""Rows of the catalog as JSON objects, and back.

Bytes are base64 in an object of their own. A field with its default value is left out, and a missing field gets its
default. Unknown fields are ignored, so that each version can read what others wrote.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from operator import attrgetter
from typing import Any, NamedTuple

import orjson

from app.model.attachment import AttachmentKind, AttachmentState, DeliveryState
from app.model.evidence import Choice
from app.model.records import (
    AttachmentRecord,
    ContainedFile,
    DeliveryRecord,
    FramingOptions,
    GroupProgress,
    MessageRecord,
    OutgoingAttachment,
    QuarantineRecord,
)

Row = AttachmentRecord | MessageRecord | QuarantineRecord | DeliveryRecord

_BASE64 = "base64"


def to_json(row: Row) -> dict[str, Any]:
    """Return a row as an object that `line` writes."""
    names, get, defaults = _FIELDS[type(row)]
    return {name: value for name, value, default in zip(names, get(row), defaults, strict=True) if value != default}


def line(value: Mapping[str, Any]) -> bytes:
    """Return an object as a line of JSON. Names may hold lone surrogates, which only ASCII escapes can represent."""
    try:
        return orjson.dumps(value, default=_encodable, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        return json.dumps(value, default=_encodable, separators=(",", ":")).encode() + b"\n"


def from_json(kind: str, value: Mapping[str, Any]) -> Row:
    """Return the row of this kind (`KINDS`) that `to_json` wrote. Raises KeyError, TypeError or ValueError for other
    objects."""
    known = KINDS[kind]
    row: Row = known.type(**_fields(known.type, value, known.readers))
    return row


def kind_of(row: Row) -> str:
    """Return the kind of a row."""
    return _WORDS[type(row)]


def _encodable(value: Any) -> Any:
    if isinstance(value, bytes):
        return {_BASE64: b64encode(value).decode()}
    return list(value) if isinstance(value, tuple) else {each.name: getattr(value, each.name) for each in fields(value)}


def _decoded(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {_BASE64}:
        return b64decode(value[_BASE64], validate=True)
    return tuple(_decoded(inner) for inner in value) if isinstance(value, list) else value


def _fields(made: type[Any], found: Mapping[str, Any], readers: Mapping[str, Callable[[Any], Any]]) -> dict[str, Any]:
    names = {each.name for each in fields(made)}
    return {
        name: value if value is None else readers.get(name, _decoded)(value)
        for name, value in found.items()
        if name in names
    }


def _outgoing(found: list[dict[str, Any]]) -> tuple[OutgoingAttachment, ...]:
    readers = {"kind": AttachmentKind}
    return tuple(OutgoingAttachment(**_fields(OutgoingAttachment, each, readers)) for each in found)


class _Kind(NamedTuple):
    type: type[Any]
    readers: Mapping[str, Callable[[Any], Any]] = {}


KINDS: Mapping[str, _Kind] = {
    "attachment": _Kind(
        AttachmentRecord,
        {
            "state": AttachmentState,
            "kind": AttachmentKind,
            "group": lambda values: GroupProgress(*values),
            "files": lambda values: tuple(map(ContainedFile._make, values)),
            "evidence": lambda values: tuple(map(Choice.of, values)),
        },
    ),
    "message": _Kind(MessageRecord),
    "quarantine": _Kind(QuarantineRecord),
    "delivery": _Kind(
        DeliveryRecord,
        {"state": DeliveryState, "attachments": _outgoing, "cut": lambda values: FramingOptions(*values)},
    ),
}
"""The rows that can be recorded, by kind."""

_WORDS = {kind.type: word for word, kind in KINDS.items()}


def _columns(row: type[Any]) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]], tuple[Any, ...]]:
    names = tuple(each.name for each in fields(row))
    defaults = tuple(each.default for each in fields(row))
    assert all(each.default_factory is MISSING for each in fields(row))
    return names, attrgetter(*names), defaults


_FIELDS = {kind.type: _columns(kind.type) for kind in KINDS.values()}
