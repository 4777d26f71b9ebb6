"""Explain MQTT packets, one after the other, and what a PUBLISH carries.

A packet does not state its version. What it carries shows it: a descriptor in user properties exists only in MQTT 5,
and an MQ image or a tibrvMsg stands where the payload of one version begins. Without any of them, a section of
properties that can be read shows MQTT 5.
"""

from contextlib import suppress
from typing import NamedTuple

from app.codecs.ibm_mq.image import is_image
from app.codecs.mqtt import mqtt_envelope, properties
from app.codecs.mqtt.packets import ControlPacket, FixedHeader, PacketType, Publish, Version, read_publish
from app.codecs.mqtt.packets import packets as whole_packets
from app.codecs.mqtt.properties import PublishProperties
from app.model.errors import InvalidInputError
from app.model.framing_facts import FramingTraits
from app.trace import ibm_mq, rendezvous
from app.trace.frames import MOST_FRAMES, NO_HINTS, Frame, Hints, TooManyFrames, moved
from app.wire import Cell, WireError

_VERSIONS: tuple[Version, ...] = ("5", "3.1.1")
_ANY_FRAMING = FramingTraits("", needs_descriptor=False)


class _Read(NamedTuple):
    """A PUBLISH as one version reads it. `frames` explain its payload, from byte 0; none if it is only bytes."""

    version: Version
    publish: Publish
    given: PublishProperties
    frames: list[Frame]


def packets(data: memoryview, _: Hints) -> list[Frame]:
    """Explain whole packets, one after the other."""
    if not data:
        FixedHeader.decode(data)
    frames: list[Frame] = []
    for packet in whole_packets(data, "5"):
        if len(frames) >= MOST_FRAMES:
            raise TooManyFrames(f"more than {MOST_FRAMES:,} packets; byte {packet.at} begins another")
        cells = list(FixedHeader.cells(data, packet.at))
        versions = _VERSIONS if packet.type is PacketType.PUBLISH else ()
        readings = []
        for version in versions:
            with suppress(WireError):
                publish = read_publish(data, packet, version)
                given = properties.decode(publish.properties)
                readings.append(_Read(version, publish, given, _payload(publish, given)))
        # The version counts that explains most of the packet.
        read = next((read for read in readings if read.frames), readings[0] if readings else None)
        if read is not None:
            cells += _cells(data, packet, read)
            frames.append(Frame("mqtt", packet.at, cells, f"PUBLISH, read as MQTT {read.version}"))
            frames += moved(read.frames, packet.end - len(read.publish.payload))
            continue
        if packet.end > packet.start:
            rest = bytes(data[packet.start : packet.end])
            cells.append(Cell(packet.start, len(rest), "rest", rest))
        note = "AUTH of MQTT 5; 15 is reserved before" if packet.type is PacketType.AUTH else packet.type.name
        frames.append(Frame("mqtt", packet.at, cells, note))
    return frames


def _payload(publish: Publish, given: PublishProperties) -> list[Frame]:
    """Explain a payload: a message whose descriptor is in the properties, an MQ image, or a tibrvMsg."""
    payload = publish.payload
    try:
        message = mqtt_envelope.read(payload, publish.properties, "", _ANY_FRAMING, 0, lambda: publish.topic)
        if is_image(payload) and mqtt_envelope.MSG_TYPE not in dict(given.user):
            return ibm_mq.descriptor(payload, NO_HINTS)
        return ibm_mq.body(message) if message.msg_type else rendezvous.payload(payload)
    except (InvalidInputError, WireError):
        return []


def _cells(data: memoryview, packet: ControlPacket, read: _Read) -> list[Cell]:
    """Return the cells between the fixed header and what is explained of the payload."""
    topic, at = read.publish.topic, packet.start + 2
    size = int.from_bytes(data[packet.start : at], "big")
    cells = [Cell(packet.start, 2, "PUBLISH.topic_length", size), Cell(at, size, "PUBLISH.topic", topic)]
    at += size
    if packet.header.qos:
        identifier = int.from_bytes(data[at : at + 2], "big")
        cells.append(Cell(at, 2, "PUBLISH.packet_identifier", identifier))
        at += 2
    payload_at = packet.end - len(read.publish.payload)
    if read.version == "5":
        size = len(read.publish.properties)
        cells.append(Cell(at, payload_at - size - at, "PUBLISH.properties_length", size))
        if size:
            given = read.given
            own = {"correlation-data": given.correlation_data.hex()} if given.correlation_data is not None else {}
            own |= {mqtt_envelope.CONTENT_TYPE: given.content_type} if given.content_type is not None else {}
            cells.append(Cell(payload_at - size, size, "PUBLISH.properties", own | dict(given.user)))
    if not read.frames and payload_at < packet.end:
        payload = bytes(read.publish.payload)
        cells.append(Cell(payload_at, len(payload), "PUBLISH.payload", payload))
    return cells
