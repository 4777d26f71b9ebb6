"""The MQTT envelope: how a publish carries a physical message and its descriptor fields.

With MQTT 5 the descriptor fields are properties. The correlation data is the CorrelId; user properties hold the other
fields. The user property `msg-type` makes a publish an envelope. Numbers are decimal; identifiers are hexadecimal
digits. The content type and all user properties that are not in the table are the message's own properties. If a name
occurs twice, the last value counts.

Without properties the payload is an MQ image. Framings that need no descriptor (their bodies contain everything) may
also be sent as plain payloads.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from app.codecs.ibm_mq.image import IMAGE_OVERHEAD, is_image, read_image, write_image
from app.codecs.mqtt import properties
from app.codecs.mqtt.properties import PublishProperties
from app.codecs.rendezvous.subjects import SUBJECT_PROPERTY
from app.model.errors import InvalidInputError
from app.model.framing import FramingTraits
from app.model.message import NO_PROPERTIES, PhysicalMessage
from app.wire import WireError

CONTENT_TYPE = "content-type"
MSG_TYPE = "msg-type"
_CORREL_ID_SIZE = 24
_LONGEST_CACHED = 4096
"""The largest property section that is cached, in bytes."""
_NO_FIELDS: Mapping[str, Any] = {}
_MQLONG = range(-(1 << 31), 1 << 31)


def _number(text: str) -> int:
    number = int(text)
    if number not in _MQLONG:
        raise ValueError(text)
    return number


class _Field(NamedTuple):
    """Name of a message field, its conversion from and to text, and the value that it has when it is left out."""

    field: str
    read: Callable[[str], Any]
    write: Callable[[Any], str]
    initial: object


def _long(field: str, initial: int) -> _Field:
    return _Field(field, _number, str, initial)


_FIELDS = {
    MSG_TYPE: _Field("msg_type", _number, str, None),
    "encoding": _long("encoding", 0),
    "ccsid": _long("ccsid", 0),
    "format": _Field("format", str.rstrip, str, ""),
    "message-id": _Field("message_id", bytes.fromhex, bytes.hex, b""),
    "group-id": _Field("group_id", bytes.fromhex, bytes.hex, b""),
    "msg-seq-number": _long("msg_seq_number", 1),
    "offset": _long("offset", 0),
    "msg-flags": _long("msg_flags", 0),
    "original-length": _long("original_length", -1),
}

FIELD_NAMES = frozenset(_FIELDS)
"""User properties that are descriptor fields and therefore cannot be a message's own properties."""

LARGEST_ENVELOPE = PhysicalMessage(
    "",
    "",
    msg_type=_MQLONG[0],
    message_id=bytes(24),
    group_id=bytes(24),
    msg_seq_number=_MQLONG[0],
    offset=_MQLONG[0],
    msg_flags=_MQLONG[0],
    original_length=_MQLONG[0],
    encoding=_MQLONG[0],
    ccsid=_MQLONG[0],
    format="MQFORMAT",
)
"""A message with the largest envelope that a message without properties of its own can have."""


def read(
    payload: memoryview, packed: bytes, source: str, framing: FramingTraits, received_at: int, topic: Callable[[], str]
) -> PhysicalMessage:
    """Return the physical message that a publish carries; `packed` is its property section, empty before MQTT 5.

    Where messages are numbered as they come, the topic is the subject of one that names none.

    Raises InvalidInputError with the code `bad-envelope`, `bad-mq-image` or `no-envelope`.
    """
    correl_id, fields, others = _read(packed) if packed else (b"", _NO_FIELDS, NO_PROPERTIES)
    if framing.numbered_on_arrival:
        others = {SUBJECT_PROPERTY: topic(), **others}
    if "msg_type" in fields:
        if len(correl_id) > _CORREL_ID_SIZE:
            why = f"{len(correl_id)} bytes; a CorrelId has at most {_CORREL_ID_SIZE}"
            raise InvalidInputError("bad-envelope", "correlation data", -1, why)
        return PhysicalMessage(
            source,
            framing.name,
            correl_id=correl_id.ljust(_CORREL_ID_SIZE, b"\0"),
            body=payload,
            received_at=received_at,
            properties=others,
            **fields,
        )
    if is_image(payload):
        try:
            message = read_image(payload, source, framing.name, received_at)
        except WireError as error:
            raise InvalidInputError("bad-mq-image", error.row, error.at, error.why) from error
        return message._replace(properties=others) if others else message
    if framing.needs_descriptor:
        why = f"the publish on {topic()!r} has no user property msg-type, and its payload is no MQ image"
        raise InvalidInputError("no-envelope", "", -1, why)
    return PhysicalMessage(source, framing.name, body=payload, received_at=received_at, properties=others)


def write(message: PhysicalMessage, version: Literal["5", "3.1.1"]) -> tuple[bytes, bytes | None]:
    """Return the payload of a publish that carries a message, and its property section (None in 3.1.1).

    A message type of 0 means that there is no descriptor to send. Raises InvalidInputError for a value that does not
    fit its field.
    """
    try:
        if version == "5":
            return bytes(message.body), properties.encode(_properties(message))
        return (write_image(message) if message.msg_type else bytes(message.body)), None
    except WireError as error:
        raise InvalidInputError("bad-envelope", error.row, error.at, error.why) from error


def overhead(version: Literal["5", "3.1.1"]) -> tuple[int, int | None]:
    """Return the most bytes that `write` adds to a body without properties of its own, and the most bytes of a property
    section (None in 3.1.1).
    """
    if version == "5":
        return 0, len(properties.encode(_properties(LARGEST_ENVELOPE)))
    return IMAGE_OVERHEAD, None


def _read(packed: bytes) -> tuple[bytes, Mapping[str, Any], Mapping[str, str]]:
    """Return the correlation data, the descriptor fields and all other properties.

    Messages of one program differ in their correlation data only, so the rest is cached.
    """
    if len(packed) <= _LONGEST_CACHED and (place := properties.correlation_data(packed)) is not None:
        try:
            rest = _read_shared(packed[: place.start] + packed[place.stop :])
        except InvalidInputError:
            rest = None  # the error must say where it is among all properties
        if rest is not None:
            return packed[place.start + 3 : place.stop], *rest
    given = _decoded(packed)
    return given.correlation_data or b"", *_sorted_out(given)


@lru_cache(maxsize=256)
def _read_shared(packed: bytes) -> tuple[Mapping[str, Any], Mapping[str, str]] | None:
    """Return the descriptor fields and all other properties; None if there is more correlation data."""
    given = _decoded(packed)
    return None if given.correlation_data is not None else _sorted_out(given)


def _decoded(packed: bytes) -> PublishProperties:
    try:
        return properties.decode(packed)
    except WireError as error:
        raise InvalidInputError("bad-envelope", error.row, error.at, error.why) from error


def _sorted_out(given: PublishProperties) -> tuple[dict[str, Any], Mapping[str, str]]:
    fields: dict[str, Any] = {}
    others: dict[str, str] = {}
    table = _FIELDS if any(name == MSG_TYPE for name, _ in given.user) else {}
    for name, text in given.user:
        known = table.get(name)
        if known is None:
            others[name] = text
            continue
        try:
            fields[known.field] = known.read(text)
        except ValueError:
            raise InvalidInputError("bad-envelope", name, -1, f"{text[:80]!r} is not a valid {name}") from None
    if given.content_type is not None:
        others[CONTENT_TYPE] = given.content_type
    return fields, others or NO_PROPERTIES


def _properties(message: PhysicalMessage) -> PublishProperties:
    own = dict(message.properties)
    content_type = own.pop(CONTENT_TYPE, None)
    user = list(own.items())
    if not message.msg_type:
        return PublishProperties(None, content_type, tuple(user))
    for name, (field, _, write_text, initial) in _FIELDS.items():
        value = getattr(message, field)
        if value != initial:
            user.append((name, write_text(value)))
    return PublishProperties(message.correl_id, content_type, tuple(user))
