"""Programs that put a file on a queue as a group of messages, by the descriptor's fields alone.

This module does not use the gateway's code for sending, so that receiving is tested against the documentation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from random import Random

from app.codecs.ibm_mq.constants import (
    MQFMT_STRING,
    MQMF_LAST_MSG_IN_GROUP,
    MQMF_LAST_SEGMENT,
    MQMF_MSG_IN_GROUP,
    MQMF_SEGMENT,
    MQMT_DATAGRAM,
)
from app.model.message import NO_PROPERTIES, PhysicalMessage

UTF8 = 1208
LogicalMessages = Sequence[Sequence[bytes]]
"""The bodies of a group's messages, each in one piece or in segments."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A file as a program sends it: its identifier, its physical messages, and the expected content."""

    identifier: bytes
    messages: tuple[PhysicalMessage, ...]
    content: bytes

    @property
    def sha256(self) -> str:
        return sha256(self.content).hexdigest()


def group(random: Random, bodies: LogicalMessages, *, text: bool = False, name: str | None = None) -> Sent:
    """Return a group of messages; messages of several bodies are segmented."""
    identifier = random.randbytes(24)
    sent: list[PhysicalMessage] = []
    for number, segments in enumerate(bodies, 1):
        flags = MQMF_MSG_IN_GROUP | (MQMF_LAST_MSG_IN_GROUP if number == len(bodies) else 0)
        sent += _logical(random, identifier, number, segments, flags, text=text)
    return Sent(identifier, _named(sent, name), _joined(bodies))


def segmented(random: Random, segments: Sequence[bytes], *, text: bool = False, name: str | None = None) -> Sent:
    """Return one segmented message outside of any group."""
    identifier = random.randbytes(24)
    sent = _logical(random, identifier, 1, segments, 0, text=text)
    return Sent(identifier, _named(sent, name), _joined([segments]))


def alone(random: Random, body: bytes, *, text: bool = False, name: str | None = None) -> Sent:
    """Return one message that is neither in a group nor segmented."""
    sent = _physical(random, b"", 1, body, 0, text=text)
    return Sent(sent.message_id, _named([sent], name), body)


def any_bodies(random: Random, content: bytes, most_messages: int = 6, most_segments: int = 4) -> list[list[bytes]]:
    """Split content randomly into messages, and some of those into segments."""
    messages = _cut(content, sorted(random.choices(range(len(content) + 1), k=random.randrange(most_messages))))
    return [_segments(random, message, random.randint(1, most_segments)) for message in messages]


def _segments(random: Random, message: bytes, most: int) -> list[bytes]:
    """Return segments of a message; only the last may be empty."""
    inner = range(1, len(message) + 1)
    return _cut(message, sorted(random.sample(inner, k=min(most - 1, len(inner)))))


def _cut(content: bytes, at: Sequence[int]) -> list[bytes]:
    return [content[start:end] for start, end in zip([0, *at], [*at, len(content)], strict=True)]


def _joined(bodies: LogicalMessages) -> bytes:
    return b"".join(body for segments in bodies for body in segments)


def _logical(
    random: Random, identifier: bytes, number: int, segments: Sequence[bytes], flags: int, *, text: bool
) -> list[PhysicalMessage]:
    if len(segments) == 1 and flags:
        return [_physical(random, identifier, number, segments[0], flags, text=text)]
    sent: list[PhysicalMessage] = []
    offset = 0
    for place, body in enumerate(segments, 1):
        segment = flags | MQMF_SEGMENT | (MQMF_LAST_SEGMENT if place == len(segments) else 0)
        message = _physical(random, identifier, number, body, segment, text=text)
        sent.append(message._replace(offset=offset, original_length=len(body)))
        offset += len(body)
    return sent


def _physical(
    random: Random, identifier: bytes, number: int, body: bytes, flags: int, *, text: bool
) -> PhysicalMessage:
    return PhysicalMessage(
        source="",
        framing="mq_group",
        msg_type=MQMT_DATAGRAM,
        body=body,
        message_id=random.randbytes(24),
        group_id=identifier,
        msg_seq_number=number,
        msg_flags=flags,
        encoding=546,
        ccsid=UTF8 if text else 0,
        format=MQFMT_STRING if text else "",
    )


def _named(sent: Sequence[PhysicalMessage], name: str | None) -> tuple[PhysicalMessage, ...]:
    properties: Mapping[str, str] = NO_PROPERTIES if name is None else {"filename": name}
    return sent[0]._replace(properties=properties), *sent[1:]
