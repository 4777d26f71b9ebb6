"""The properties of an MQTT 5 PUBLISH packet.

Source: OASIS, MQTT Version 5.0, sections 2.2.2 and 3.3.2.3. This module does not use paho-mqtt, because its property
objects take more time than the rest of a message.
"""

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from app.wire import WireError

MESSAGE_EXPIRY_INTERVAL = 0x02
CONTENT_TYPE = 0x03
RESPONSE_TOPIC = 0x08
CORRELATION_DATA = 0x09
SUBSCRIPTION_IDENTIFIER = 0x0B
USER_PROPERTY = 0x26

_LONGEST = 0xFFFF


def _string_end(properties: bytes, at: int) -> int:
    return at + 2 + (properties[at] << 8 | properties[at + 1])


def _varint_end(properties: bytes, at: int) -> int:
    while properties[at] & 0x80:
        at += 1
    return at + 1


_PROPERTIES: dict[int, tuple[str, Callable[[bytes, int], int]]] = {
    0x01: ("payload_format_indicator", lambda _, at: at + 1),
    MESSAGE_EXPIRY_INTERVAL: ("message_expiry_interval", lambda _, at: at + 4),
    CONTENT_TYPE: ("content_type", _string_end),
    RESPONSE_TOPIC: ("response_topic", _string_end),
    CORRELATION_DATA: ("correlation_data", _string_end),
    SUBSCRIPTION_IDENTIFIER: ("subscription_identifier", _varint_end),
    0x23: ("topic_alias", lambda _, at: at + 2),
    USER_PROPERTY: ("user_property", lambda properties, at: _string_end(properties, _string_end(properties, at))),
}
"""By identifier: the name of the property, and a function that returns the end of a value that starts at a byte."""


_TEXTS = frozenset({CONTENT_TYPE, RESPONSE_TOPIC})


class PublishProperties(NamedTuple):
    """The properties of a publish that its sender says of the message.

    The others are checked and dropped: topic alias and subscription identifier are about the connection, the message
    expiry interval is the broker's, and the payload format indicator says less than the descriptor's CodedCharSetId.
    """

    correlation_data: bytes | None = None
    content_type: str | None = None
    user: tuple[tuple[str, str], ...] = ()
    response_topic: str | None = None


def decode(properties: bytes) -> PublishProperties:
    """Read a whole property section, without the length in front of it.

    Raises WireError, also for a property that must not come twice (MQTT 5, section 3.3.2.3).
    """
    once: dict[int, Any] = {}
    user = []
    at, name = 0, "identifier"
    while at < len(properties):
        start, identifier = at + 1, properties[at]
        try:
            name, end_of = _PROPERTIES[identifier]
            at = end_of(properties, start)
            if identifier == USER_PROPERTY:
                middle = _string_end(properties, start)
                user.append((str(properties[start + 2 : middle], "utf-8"), str(properties[middle + 2 : at], "utf-8")))
            elif identifier in once:
                raise WireError(f"properties.{name}", start - 1, "it comes twice")
            elif identifier != SUBSCRIPTION_IDENTIFIER:
                raw = properties[start + 2 : at]
                once[identifier] = str(raw, "utf-8") if identifier in _TEXTS else raw
        except KeyError:
            raise WireError("properties", start - 1, f"{identifier:#04x} is not a property of PUBLISH") from None
        except IndexError:
            at = len(properties) + 1
        except UnicodeDecodeError as error:
            raise WireError(f"properties.{name}", start, f"not UTF-8: {error.reason}") from None
        if at > len(properties):
            raise WireError(f"properties.{name}", start, "the value goes past the end of the properties")
    return PublishProperties(once.get(CORRELATION_DATA), once.get(CONTENT_TYPE), tuple(user), once.get(RESPONSE_TOPIC))


def correlation_data(properties: bytes) -> slice | None:
    """Return the place of the first correlation data, with its identifier and its length; None if there is none, or if
    the section cannot be read up to there."""
    return _place(properties, CORRELATION_DATA)


def message_expiry_interval(properties: bytes) -> slice | None:
    """Return the place of the message expiry interval, as `correlation_data` does."""
    return _place(properties, MESSAGE_EXPIRY_INTERVAL)


def _place(properties: bytes, wanted: int) -> slice | None:
    at = 0
    try:
        while at < len(properties):
            identifier, start = properties[at], at
            at = _PROPERTIES[identifier][1](properties, at + 1)
            if identifier == wanted:
                return slice(start, at) if at <= len(properties) else None
    except (KeyError, IndexError):
        pass
    return None


def encode(properties: PublishProperties) -> bytes:
    """Return the property section, without the length in front of it.

    Raises WireError for texts that MQTT cannot carry: more than 65,535 bytes, NUL, surrogates.
    """
    out = bytearray()
    if properties.content_type is not None:
        out.append(CONTENT_TYPE)
        out += _text("content_type", properties.content_type)
    if properties.correlation_data is not None:
        out.append(CORRELATION_DATA)
        out += _string("correlation_data", properties.correlation_data)
    if properties.response_topic is not None:
        out.append(RESPONSE_TOPIC)
        out += _text("response_topic", properties.response_topic)
    for name, value in properties.user:
        out.append(USER_PROPERTY)
        out += _text("user_property", name)
        out += _text("user_property", value)
    return bytes(out)


def _text(name: str, text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise WireError(f"properties.{name}", -1, f"not UTF-8: {error.reason}") from None
    if b"\0" in data:
        raise WireError(f"properties.{name}", -1, "a text must not contain NUL (section 1.5.4)")
    return _string(name, data)


def _string(name: str, data: bytes) -> bytes:
    if len(data) > _LONGEST:
        raise WireError(f"properties.{name}", -1, f"{len(data):,} bytes; the maximum is 65,535")
    return struct.pack(">H", len(data)) + data
