"""The MQTT envelope: how a publish carries a physical message and its descriptor fields.

With MQTT 5 the descriptor fields are properties. The correlation data is the CorrelId; user properties hold the other
fields. The user property `msg-type` makes a publish an envelope. Numbers are decimal; identifiers are hexadecimal
digits. The content type, the response topic and all user properties that are not in the table are the message's own
properties. If a name of these occurs twice, the last value counts. The other properties of a publish are about the
connection or the broker.

Without `msg-type` the payload is an MQ image, whose descriptor counts. Framings that need no descriptor (their bodies
contain everything) may also be sent as plain payloads, with those descriptor fields that there are.

A reply repeats the correlation data byte for byte. A CorrelId has 24 bytes, and comes from elsewhere where there is an
image or a header with a descriptor, or where messages are numbered. So a message that names a response topic keeps the
correlation data as a property too, if its CorrelId does not tell them: those of 24 bytes, and none, take no property.

No field is dropped without a word: what is not used is named, in the error or in the property `EVIDENCE`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from app.codecs.ibm_mq.constants import MQ_NO_ID
from app.codecs.ibm_mq.image import FORMAT_SIZE, IMAGE_OVERHEAD, fault_code, is_image, read_image, write_image
from app.codecs.ibm_mq.structure_writing import identifier
from app.codecs.ibm_mq.unwrap import unwrap
from app.codecs.mqtt import properties
from app.codecs.mqtt.properties import PublishProperties
from app.codecs.rendezvous.subjects import SUBJECT_PROPERTY
from app.model.errors import InvalidInputError
from app.model.framing_facts import FramingTraits
from app.model.message import (
    CORRELATION_DATA,
    EVIDENCE,
    NO_ENVELOPE,
    NO_PROPERTIES,
    RESPONSE_TOPIC,
    TOPIC,
    TOPIC_PREFIX,
    PhysicalMessage,
)
from app.wire import WireError

CONTENT_TYPE = "content-type"
MSG_TYPE = "msg-type"
_CORREL_ID_SIZE = 24
_NO_CORRELATION_DATA = "none"
"""The property of a message without correlation data whose CorrelId comes from elsewhere."""
_LONGEST_CACHED = 4096
"""The largest property section that is cached, in bytes."""
_NO_FIELDS: Mapping[str, Any] = {}
_MQLONG = range(-(1 << 31), 1 << 31)


_DECIMAL = re.compile(r"[+-]?[0-9]{1,10}")


def _number(text: str) -> int:
    if not _DECIMAL.fullmatch(text) or (number := int(text)) not in _MQLONG:
        raise ValueError(text)
    return number


def _hexadecimal(text: str) -> bytes:
    found = bytes.fromhex(text)
    if len(found) > _CORREL_ID_SIZE:
        raise ValueError(text)
    return found


def _format(text: str) -> str:
    if len(found := text.rstrip()) > FORMAT_SIZE:
        raise ValueError(text)
    return found


class _Field(NamedTuple):
    """Name of a message field, its conversion from and to text, the value that it has when it is left out, and what its
    texts are."""

    field: str
    read: Callable[[str], Any]
    write: Callable[[Any], str]
    initial: object
    texts: str


def _long(field: str, initial: int | None) -> _Field:
    return _Field(field, _number, str, initial, "a decimal number of 32 bits")


def _identifier(field: str) -> _Field:
    return _Field(field, _hexadecimal, bytes.hex, b"", f"up to {2 * _CORREL_ID_SIZE} hexadecimal digits")


_FIELDS = {
    MSG_TYPE: _long("msg_type", None),
    "encoding": _long("encoding", 0),
    "ccsid": _long("ccsid", 0),
    "format": _Field("format", _format, str, "", f"a name of up to {FORMAT_SIZE} characters"),
    "message-id": _identifier("message_id"),
    "group-id": _identifier("group_id"),
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
    payload: memoryview,
    packed: bytes,
    source: str,
    framing: FramingTraits,
    received_at: int,
    topic: Callable[[], str],
    prefix: int = 1,
) -> PhysicalMessage:
    """Return the physical message that a publish carries; `packed` is its property section, empty before MQTT 5.

    Where messages are numbered as they come, the topic is the subject of one that names none. Where the topic says what
    a message is, its first levels, as many as `prefix`, say nothing of that.

    Raises InvalidInputError with the code `bad-envelope`, `bad-mq-image`, `bad-mq-header` or `no-envelope`.
    """
    if framing.told_by_topic:
        return _told_by_topic(payload, packed, topic().split("/"), prefix)._replace(
            source=source, framing=framing.name, received_at=received_at
        )
    correl_id, fields, others = _read(packed) if packed else (None, _NO_FIELDS, NO_PROPERTIES)
    if framing.numbered_on_arrival:
        others = {SUBJECT_PROPERTY: topic(), **others}
    is_described = "msg_type" in fields
    if not is_described and is_image(payload):
        try:
            message = read_image(payload, source, framing.name, received_at)
        except WireError as error:
            raise InvalidInputError(fault_code(error), error.row, error.at, error.why) from error
        return _with_correlation_data(_with_publish_properties(message, correl_id, fields, others), correl_id, framing)
    if not is_described and framing.needs_descriptor:
        unused = ", ".join(_given(correl_id, fields))
        why = f"the publish on {topic()!r} has no user property msg-type, and its payload is not an MQ image"
        raise InvalidInputError(NO_ENVELOPE, "", -1, f"{why}; so these are not used: {unused}" if unused else why)
    if correl_id is not None and len(correl_id) > _CORREL_ID_SIZE:
        why = f"{len(correl_id)} bytes; a CorrelId has at most {_CORREL_ID_SIZE}"
        raise InvalidInputError("bad-envelope", "correlation data", -1, why)
    message = PhysicalMessage(
        source,
        framing.name,
        correl_id=identifier(correl_id or b""),
        body=payload,
        received_at=received_at,
        properties=others,
        **fields,
    )
    try:
        message = unwrap(message)
    except WireError as error:
        raise InvalidInputError("bad-mq-header", error.row, error.at, error.why) from error
    return _with_correlation_data(message, correl_id, framing)


def correlation_data(message: PhysicalMessage, framing: FramingTraits) -> bytes | None:
    """Return the correlation data with which a message came, which a reply repeats; None if it had none."""
    text = message.properties.get(CORRELATION_DATA)
    if text == _NO_CORRELATION_DATA:
        return None
    with suppress(ValueError):  # a property of this name may come from elsewhere, such as another transport
        if text is not None:
            return bytes.fromhex(text)
    return None if framing.numbered_on_arrival or message.correl_id == MQ_NO_ID else message.correl_id


def _with_correlation_data(message: PhysicalMessage, given: bytes | None, framing: FramingTraits) -> PhysicalMessage:
    """Return a message with its correlation data as a property, if it can be replied to and needs that property."""
    known = message.properties
    if RESPONSE_TOPIC not in known or correlation_data(message, framing) == given:
        return message
    kept = {CORRELATION_DATA: _NO_CORRELATION_DATA if given is None else given.hex()}
    if known.get(CORRELATION_DATA, kept[CORRELATION_DATA]) != kept[CORRELATION_DATA]:
        doubt = f"the property {CORRELATION_DATA} is not the correlation data of the publish, and is not used"
        kept[EVIDENCE] = "; ".join([known[EVIDENCE], doubt] if EVIDENCE in known else [doubt])
    return message._replace(properties={**known, **kept})


def _told_by_topic(payload: memoryview, packed: bytes, levels: Sequence[str], prefix: int) -> PhysicalMessage:
    """Return the message of a publish with these levels of its topic, whose payload is its body as it is. The
    correlation data, which an answer repeats, is a property in hexadecimal digits."""
    given = _decoded(packed) if packed else PublishProperties()
    own = {TOPIC: "/".join(levels[prefix:]), TOPIC_PREFIX: "/".join(levels[:prefix])}
    correlation = None if given.correlation_data is None else given.correlation_data.hex()
    stated = ((CONTENT_TYPE, given.content_type), (RESPONSE_TOPIC, given.response_topic))
    others = {**dict(given.user), **{name: text for name, text in stated if text is not None}}
    others.pop(CORRELATION_DATA, None)
    if correlation is not None:
        others[CORRELATION_DATA] = correlation
    return PhysicalMessage("", "", body=payload, properties={**own, **others, **own})


def _with_publish_properties(
    message: PhysicalMessage, correl_id: bytes | None, fields: Mapping[str, Any], others: Mapping[str, str]
) -> PhysicalMessage:
    """Return the message of an MQ image with the properties of its publish.

    The image has a descriptor of its own, which counts. Fields of the publish that say something else are kept as
    properties, and named.
    """
    given = _given(correl_id, fields)
    if not given and not others:
        return message
    differ = []
    for name, value in given.items():
        own = getattr(message, _FIELDS[name].field if name in _FIELDS else "correl_id")
        if (identifier(own) != identifier(value)) if isinstance(value, bytes) else (own != value):
            differ.append(name)
    differ += [name for name, text in others.items() if message.properties.get(name, text) != text]
    kept = {name: _FIELDS[name].write(value) if name in _FIELDS else value.hex() for name, value in given.items()}
    properties = {**message.properties, **kept, **others}
    stated = [each[EVIDENCE] for each in (message.properties, others) if EVIDENCE in each]
    if differ:
        stated.append(f"the publish and the MQ image in it do not say the same: {', '.join(differ)}")
    return message._replace(properties=properties | ({EVIDENCE: "; ".join(stated)} if stated else {}))


def _given(correl_id: bytes | None, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the descriptor fields of a publish by the names of its properties."""
    given = {name: fields[known.field] for name, known in _FIELDS.items() if known.field in fields}
    return given if correl_id is None else {CORRELATION_DATA: correl_id, **given}


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


def _read(packed: bytes) -> tuple[bytes | None, Mapping[str, Any], Mapping[str, str]]:
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
    return given.correlation_data, *_sorted_out(given)


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
    """Return the descriptor fields and all other properties; what is not used as a field is named in `EVIDENCE`.

    Without `msg-type` a property may have the name of a field by chance, so it need not be a valid one, but for an
    identifier. Raises InvalidInputError.
    """
    fields: dict[str, Any] = {}
    others: dict[str, str] = {}
    doubts: list[str] = []
    is_described = any(name == MSG_TYPE for name, _ in given.user)
    for name, text in given.user:
        known = _FIELDS.get(name)
        if known is None:
            _keep(others, name, text, doubts)
        elif (why := _taken(known, text, fields)) is not None:
            if is_described or known.read is _hexadecimal:
                raise InvalidInputError("bad-envelope", name, -1, why)
            doubts.append(f"the property {name} is not a field of the descriptor: {why}")
            others[name] = text
    for name, stated in ((CONTENT_TYPE, given.content_type), (RESPONSE_TOPIC, given.response_topic)):
        if stated is not None:
            _keep(others, name, stated, doubts)
    if doubts:
        others[EVIDENCE] = "; ".join(doubts)
    return fields, others or NO_PROPERTIES


def _taken(known: _Field, text: str, fields: dict[str, Any]) -> str | None:
    """Add a field of the descriptor to the others, or return why that cannot be."""
    try:
        value = known.read(text)
    except ValueError:
        return f"{text[:80]!r} is not {known.texts}"
    if fields.setdefault(known.field, value) != value:
        return f"it comes twice, as {known.write(fields[known.field])[:80]!r} and as {text[:80]!r}"
    return None


def _keep(others: dict[str, str], name: str, text: str, doubts: list[str]) -> None:
    if others.get(name, text) != text:
        doubts.append(f"the property {name[:80]} comes twice, as {others[name][:80]!r} and as {text[:80]!r}")
    others[name] = text


def _properties(message: PhysicalMessage) -> PublishProperties:
    own = dict(message.properties)
    is_answer = TOPIC in own and CORRELATION_DATA in own
    correlation = bytes.fromhex(own.pop(CORRELATION_DATA)) if is_answer else None
    own = {name: text for name, text in own.items() if name not in (TOPIC, TOPIC_PREFIX)}
    content_type, response_topic = own.pop(CONTENT_TYPE, None), own.pop(RESPONSE_TOPIC, None)
    user = list(own.items())
    if not message.msg_type:
        return PublishProperties(correlation, content_type, tuple(user), response_topic)
    for name, (field, _, write_text, initial, _) in _FIELDS.items():
        value = getattr(message, field)
        if value != initial:
            user.append((name, write_text(value)))
    return PublishProperties(message.correl_id, content_type, tuple(user), response_topic)
