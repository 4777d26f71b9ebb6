"""What framings have in common when they write: attachment -> framed messages.

Messages are made one at a time; nothing but the body at hand is held. The same delivery gives the same messages each
time, identifiers included, so that an interrupted one can go on where it was.
"""

from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from typing import NamedTuple

from app.model.attachment import AttachmentKind
from app.model.message import Framing
from app.model.records import OutgoingAttachment

Bodies = Callable[[OutgoingAttachment], Iterator[bytes | memoryview]]
"""The bodies of an attachment's parts, in order."""


class Carries(NamedTuple):
    """What a framing can send: which kinds of attachment, and whether an application message beside them."""

    kinds: frozenset[AttachmentKind]
    application_message: bool


CARRIES: Mapping[Framing, Carries] = {
    "sas_queue": Carries(frozenset(AttachmentKind), application_message=True),
    "mq_group": Carries(frozenset({AttachmentKind.TEXT_FILE, AttachmentKind.BINARY_FILE}), application_message=False),
}


def message_identifier(delivery: str, number: int) -> bytes:
    """The MsgId of the physical message of this number in a delivery."""
    return blake2b(f"{delivery}/{number}".encode(), digest_size=24).digest()
