"""MQTT packets in lines of hexadecimal: a publish becomes a message as one that was received does.

In which version a publish was written, nothing in it says. The envelope tells: user properties are MQTT 5, and an MQ
image stands where the payload of one version or the other begins. A publish without either is told nothing by, so for
framings that travel bare the version has to be given.
"""

from collections.abc import Iterable, Iterator
from functools import partial

from app.capture.entries import Entry, Origin, Refused, Skipped
from app.capture.hexadecimal import Capture, captures
from app.capture.lines import Line
from app.codecs.ibm_mq.image import is_image
from app.codecs.mqtt import envelope, properties
from app.codecs.mqtt.fixed_header import PacketType
from app.codecs.mqtt.packets import Packet, Publish, Version, packets, read_publish
from app.model.errors import TheirError
from app.model.message import PhysicalMessage
from app.wire import WireError


def read(lines: Iterable[Line], origin: Origin, version: Version | None = None) -> Iterator[Entry]:
    """The publishes of a capture in their order.

    Other packets are skipped, by their names. Refused are `bad-capture`: a line; `bad-mqtt-packet`: from the packet on
    to the end of its line; `bad-envelope`, `bad-mq-image` and `no-envelope`: a publish, with its payload for its body.
    `version` None is whichever the envelope tells; it must be given for framings that travel without one.
    """
    for found in captures(lines, origin):
        if isinstance(found, Refused):
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
        yield Refused(unread._replace(body=data[at:]), "bad-mqtt-packet", str(error), found.line)


def _message(publish: Publish, unread: PhysicalMessage, origin: Origin, line: int) -> PhysicalMessage | Refused:
    payload, source, topic = publish.payload, unread.source, partial(str, publish.topic)
    try:
        message = envelope.read(payload, publish.properties, source, origin.framing, unread.received_at, topic)
    except TheirError as error:
        return Refused(unread._replace(body=payload), error.code, str(error), line)
    return origin.completed(message)


def _version(data: memoryview, packet: Packet) -> Version:
    """The version that a publish with an envelope is written in; 3.1.1 where it has none."""
    if is_image(read_publish(data, packet, "3.1.1").payload):
        return "3.1.1"
    try:
        properties.decode(read_publish(data, packet, "5").properties)
    except WireError:
        return "3.1.1"
    return "5"
