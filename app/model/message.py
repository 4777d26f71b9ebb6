"""The physical message, which a broker delivers once, and where the journal keeps it: its position, and its segment.

Segments have the same names in the journal's folder, in the archive and in backups.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

UNREADABLE = "unreadable"
"""The framing of a journalled message whose envelope no transport could read. The reason is in its properties
`refused-code`, `refused-why`, `refused-row` and `refused-at`, so that a replay of the journal puts it into quarantine
again."""

REFUSED = ("refused-code", "refused-why", "refused-row", "refused-at")
"""The names of these properties."""

REFUSED_FRAMING = "refused-framing"
"""The property of such a message whose envelope could be read, with the framing by which it could not be numbered."""

NO_ENVELOPE = "no-envelope"
"""The `refused-code` of a message that has no descriptor, where its framing needs one."""

NO_PROPERTIES: Mapping[str, str] = {}

GAP = "gap"
"""The property of the first message after a gap, in which a transport states why it may have missed messages."""

EVIDENCE = "evidence"
"""The property of a message that contradicts its own announcements, such as a header in another byte order or two
contradictory properties: sentences for people, which the attachment's warnings repeat."""

TOPIC, TOPIC_PREFIX = "mqtt.topic", "mqtt.topic-prefix"
"""The properties with the topic of a message, where its framing needs it: the levels that say what the message is, and
those before them."""

RESPONSE_TOPIC, CORRELATION_DATA = "response-topic", "correlation-data"
"""The properties with the topic on which a sender wants answers, and with what they repeat, in hexadecimal digits."""

LONGEST_CORRELATION_DATA = 0xFFFF
"""The most bytes of correlation data that MQTT 5 can carry."""

OTHER_BYTES = "bytes of it came twice, and were not the same"
"""The warning of a file of which two byte ranges contradict each other."""

DELIVERY = "gateway.delivery"
"""The property with the identity of a broker's delivery. Only the transport understands it, and recognises by it a
redelivered message that is in the journal (`app.ports.Receiver.resume`)."""

REPLAYED = "gateway.replayed"
"""The property of a message that was journalled again, not received."""

PROPERTY_BYTES = 128
"""The memory in bytes that a property takes in addition to its name and its value."""


class PhysicalMessage(NamedTuple):
    """Descriptor fields and a body, from any broker.

    The names are IBM MQ's, since its descriptor has the most fields; a transport that lacks a field leaves its default.
    `encoding` and `ccsid` of 0 mean "not stated". Times are microseconds since 1970-01-01 UTC, 0 for unknown. A body
    may be a memoryview of a larger buffer, which it keeps in memory.
    """

    source: str
    framing: str
    msg_type: int = 0
    correl_id: bytes = bytes(24)
    body: bytes | memoryview = b""
    message_id: bytes = b""
    group_id: bytes = b""
    msg_seq_number: int = 1
    offset: int = 0
    msg_flags: int = 0
    original_length: int = -1
    encoding: int = 0
    ccsid: int = 0
    format: str = ""
    put_time: int = 0
    received_at: int = 0
    properties: Mapping[str, str] = NO_PROPERTIES

    def unreadable(self, code: str, why: str, row: str = "", at: int = -1) -> "PhysicalMessage":
        """Return the message as the journal keeps one that could not be read; `why` is a sentence for people. `row`
        names the field, `at` the byte (-1 where no byte applies)."""
        reason = {name: value for name, value in self.properties.items() if name not in REFUSED}
        reason |= {"refused-code": code, "refused-why": why}
        if row:
            reason["refused-row"] = row
        if at >= 0:
            reason["refused-at"] = str(at)
        return self._replace(framing=UNREADABLE, properties=reason)

    def readable_again(self, framing: str) -> "PhysicalMessage":
        """Return the message as one of a framing, without what `unreadable` added."""
        reason = (*REFUSED, REFUSED_FRAMING)
        kept = {name: value for name, value in self.properties.items() if name not in reason}
        return self._replace(framing=framing, properties=kept or NO_PROPERTIES)

    def replayed(self) -> "PhysicalMessage":
        """Return the message as it is journalled again, without the facts about its delivery."""
        kept = {name: value for name, value in self.properties.items() if name not in (GAP, DELIVERY)}
        return self._replace(properties={REPLAYED: "1", **kept})


def utf8_length(text: str) -> int:
    """Return the bytes of a text in UTF-8, lone surrogates included."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def properties_length(properties: Mapping[str, str]) -> int:
    """Return the bytes of all names and values."""
    return sum(utf8_length(name) + utf8_length(value) for name, value in properties.items())


def footprint(message: PhysicalMessage) -> int:
    """Return the bytes that a message takes: its body, and its properties as they are kept."""
    properties = message.properties
    if not properties:
        return len(message.body)
    return len(message.body) + properties_length(properties) + PROPERTY_BYTES * len(properties)


def limited_properties(properties: Mapping[str, str], limit: int) -> dict[str, str]:
    """Return the first properties that together take at most `limit` bytes."""
    kept: dict[str, str] = {}
    for name, value in properties.items():
        limit -= utf8_length(name) + utf8_length(value)
        if limit < 0:
            break
        kept[name] = value
    return kept


class Position(NamedTuple):
    """Where the journal keeps a physical message. Positions are ordered as the messages were written."""

    segment: int
    batch: int
    row: int

    def pack(self) -> int:
        """Return the position as one integer of 63 bits: 31 of segment, 20 of batch, 12 of row. Order is kept."""
        return self.segment << 32 | self.batch << 12 | self.row

    @classmethod
    def unpack(cls, packed: int) -> "Position":
        return cls(packed >> 32, packed >> 12 & 0xFFFFF, packed & 0xFFF)

    @classmethod
    def end_of(cls, segment: int) -> "Position":
        """Return the last position that a segment can have."""
        return cls(segment, MAX_BATCHES_A_SEGMENT - 1, MAX_ROWS_A_BATCH - 1)


ROW_BITS = 12
"""The bits of a packed position below its record batch."""
MAX_SEGMENTS = 1 << 31
MAX_BATCHES_A_SEGMENT = 1 << 20
MAX_ROWS_A_BATCH = 512


SEALED_SEGMENT: Final = ".arrows"
OPEN_SEGMENT: Final = ".open.arrows"
DAMAGED_SEGMENT: Final = ".damaged"
"""The ending of what is kept aside of a damaged segment."""
SEGMENT_DIGITS: Final = 10


def segment_name(number: int, ending: str = SEALED_SEGMENT) -> str:
    """Return the name of a segment, a sealed one unless said otherwise."""
    return f"{number:0{SEGMENT_DIGITS}}{ending}"


def sealed_number(name: str) -> int | None:
    """Return the number of the sealed segment that has this name; None where it is another file's."""
    number, ending = name[:SEGMENT_DIGITS], name[SEGMENT_DIGITS:]
    return int(number) if ending == SEALED_SEGMENT and number.isascii() and number.isdigit() else None
