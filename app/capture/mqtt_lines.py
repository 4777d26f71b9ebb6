"""MQTT packets in lines of hexadecimal: a publish becomes a message as a received one does.

A publish does not state its MQTT version. The envelope reveals it: user properties exist only in MQTT 5, and an MQ
image stands where the payload of one version or the other begins. Framings that travel without an envelope need the
version as an argument.
"""

from collections.abc import Iterable, Iterator
from functools import partial

from app.capture.bounded_lines import BoundedLine
from app.capture.capture_entries import Entry, Origin, RefusedEntry, Skipped
from app.capture.hexadecimal import Capture, captures
from app.codecs.ibm_mq.image import is_image
from app.codecs.mqtt import mqtt_envelope, properties
from app.codecs.mqtt.fixed_header import PacketType
from app.codecs.mqtt.packets import ControlPacket, Publish, Version, packets, read_publish
from app.model.errors import InvalidInputError
from app.model.message import PhysicalMessage
from app.wire import WireError


def read(lines: Iterable[BoundedLine], origin: Origin, version: Version | None = None) -> Iterator[Entry]:
    """Yield the publishes of a capture in their order.

    Other packets are skipped, by their names. Refused are, as `bad-capture`, a line; as `bad-mqtt-packet`, a bad packet
    with the rest of its line; as `bad-envelope`, `bad-mq-image` or `no-envelope`, a publish, with its payload as body.
    With `version` None, the envelope determines it; framings that travel without an envelope need it.
    """
    for found in captures(lines, origin):
        if isinstance(found, RefusedEntry):
            yield found
        else:
            yield from _entries(found, origin, version)


def _entries(found: Capture, origin: Origin, version: Version | None) -> Iterator[Entry]:
    data, received_at = memoryview(found.data), found.time or origin.now()
    unread = PhysicalMessage(origin.initial.source, origin.initial.framing, received_at=received_at)
    at = 0
    try:
        for packet in packets(data, version):
            at = packet.at
            if packet.type is PacketType.PUBLISH:
                publish = read_publish(data, packet, version or _version(data, packet))
                yield _message(publish, unread, origin, found.line)
            else:
                yield Skipped(packet.type.name)
            at = packet.end
    except WireError as error:
        yield RefusedEntry(unread._replace(body=data[at:]), "bad-mqtt-packet", str(error), found.line)


def _message(publish: Publish, unread: PhysicalMessage, origin: Origin, line: int) -> PhysicalMessage | RefusedEntry:
    payload, source, topic = publish.payload, unread.source, partial(str, publish.topic)
    try:
        message = mqtt_envelope.read(payload, publish.properties, source, origin.framing, unread.received_at, topic)
    except InvalidInputError as error:
        return RefusedEntry(unread._replace(body=payload), error.code, str(error), line)
    return origin.completed(message)


def _version(data: memoryview, packet: ControlPacket) -> Version:
    """Return the version of a publish by its envelope; 3.1.1 without an envelope."""
    if is_image(read_publish(data, packet, "3.1.1").payload):
        return "3.1.1"
    try:
        properties.decode(read_publish(data, packet, "5").properties)
    except WireError:
        return "3.1.1"
    return "5"
