"""Messages of IBM MQ as files: an MQ image, or a body with its descriptor in a second file.

A descriptor is a JSON object with fields of a physical message. `msg_type`, `encoding`, `ccsid`, `msg_seq_number`,
`offset`, `msg_flags` and `original_length` are numbers. `correl_id`, `message_id` and `group_id` are hexadecimal
digits. `format` and the values of `properties` are texts. `put_time` and `received_at` are ISO 8601 times or
microseconds since 1970. A missing field has its initial value.
"""

import json
from collections.abc import Callable
from itertools import chain
from typing import Any, Final

from app.capture.capture_entries import Origin, RefusedEntry
from app.capture.hexadecimal import microseconds
from app.codecs.ibm_mq.constants import MQ_NO_ID
from app.codecs.ibm_mq.image import FORMAT_SIZE, fault_code, is_image, read_image
from app.codecs.ibm_mq.structure_writing import identifier
from app.codecs.ibm_mq.unwrap import unwrap
from app.model.message import PhysicalMessage
from app.wire import WireError

LONGEST_DESCRIPTOR: Final = 1 << 20
"""Size in bytes of the longest descriptor that is read."""

_MQLONG = range(-(1 << 31), 1 << 31)
_LAST_TIME = microseconds("9999-12-31T23:59:59Z")


def _long(value: Any) -> int:
    if type(value) is not int or value not in _MQLONG:
        raise ValueError("a number of 32 bits")
    return value


def _correl_id(value: Any) -> bytes:
    try:
        found = bytes.fromhex(value)
    except (TypeError, ValueError):
        found = bytes(len(MQ_NO_ID) + 1)
    if len(found) > len(MQ_NO_ID):
        raise ValueError("at most 48 hexadecimal digits")
    return identifier(found)


def _id(value: Any) -> bytes:
    found = _correl_id(value)
    return b"" if found == MQ_NO_ID else found


def _format(value: Any) -> str:
    if not _is_text(value):
        raise ValueError("a text")
    found: str = value.rstrip(" ")
    if len(found) > FORMAT_SIZE:
        raise ValueError(f"a text of up to {FORMAT_SIZE} characters")
    return found


def _time(value: Any) -> int:
    try:
        found = value if type(value) is int else microseconds(value)
    except (TypeError, ValueError):
        found = -1
    if not 0 <= found <= _LAST_TIME:
        raise ValueError("an ISO 8601 time, or microseconds since 1970")
    return found


def _properties(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(map(_is_text, chain(value, value.values()))):
        raise ValueError("an object of texts")
    return value


def _is_text(value: Any) -> bool:
    """Tell whether this is a text that can be encoded. JSON also allows unpaired surrogates."""
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)


_FIELDS: dict[str, Callable[[Any], Any]] = {
    "msg_type": _long,
    "correl_id": _correl_id,
    "message_id": _id,
    "group_id": _id,
    "msg_seq_number": _long,
    "offset": _long,
    "msg_flags": _long,
    "original_length": _long,
    "encoding": _long,
    "ccsid": _long,
    "format": _format,
    "put_time": _time,
    "received_at": _time,
    "properties": _properties,
}


def read(content: bytes, descriptor: bytes | None, origin: Origin) -> PhysicalMessage | RefusedEntry:
    """Return the message of a file, as the IBM MQ transport would have received it.

    With a `descriptor`, the file is a body, whatever it begins with. Without one, it is an MQ image, or else a body
    that the values of `origin` describe. It is refused as `bad-mq-image`, `bad-mq-header`, `bad-descriptor` or
    `no-descriptor`.
    """
    initial = origin.initial._replace(body=content, received_at=origin.now())
    if descriptor is not None:
        try:
            initial = initial._replace(**_fields(descriptor))
        except ValueError as error:
            return RefusedEntry(initial, "bad-descriptor", str(error))
    elif is_image(content):
        try:
            return origin.completed(read_image(content, initial.source, initial.framing, initial.received_at))
        except WireError as error:
            return RefusedEntry(
                initial, fault_code(error), f"{error.row}: {error.why}", 0, error.at, error.row, error.at
            )
    elif origin.framing.needs_descriptor and not initial.msg_type:
        why = "not an MQ image; give it a descriptor, or a message type for all bodies"
        return RefusedEntry(initial, "no-descriptor", why)
    try:
        return unwrap(initial)
    except WireError as error:
        return RefusedEntry(initial, "bad-mq-header", f"{error.row}: {error.why}", 0, error.at, error.row, error.at)


def _fields(descriptor: bytes) -> dict[str, Any]:
    """Return the fields of a descriptor. Raises ValueError."""
    try:
        found = json.loads(descriptor)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the descriptor is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError("the descriptor is not a JSON object")  # noqa: TRY004
    fields = {}
    for name, value in found.items():
        read_value = _FIELDS.get(name)
        if read_value is None:
            raise ValueError(f"the descriptor has an unknown field {name[:40]!r}; known are: {', '.join(_FIELDS)}")
        try:
            fields[name] = read_value(value)
        except ValueError as error:
            raise ValueError(f"the descriptor's {name} must be {error}") from None
    return fields
