"""Functions that framings share when they write an attachment as framed messages.

Messages are made one at a time, and only the current body is held. The same delivery always gives the same messages,
including their identifiers, so that an interrupted delivery can continue.
"""

from collections.abc import Callable, Iterator
from hashlib import blake2b

from app.model.records import OutgoingAttachment

Bodies = Callable[[OutgoingAttachment], Iterator[bytes | memoryview]]
"""The bodies of an attachment's parts, in order."""


def message_identifier(delivery: str, number: int) -> bytes:
    """Return the MsgId of the physical message with this number in a delivery."""
    return blake2b(f"{delivery}/{number}".encode(), digest_size=24).digest()


def fixed_records(pieces: Iterator[memoryview], length: int) -> Iterator[memoryview]:
    """Yield the same bytes in records of one length; the last one may be shorter."""
    tail = b""
    for piece in pieces:
        start = 0
        if tail:
            start = min(length - len(tail), len(piece))
            tail += piece[:start]
            if len(tail) < length:
                continue
            yield memoryview(tail)
        whole = start + (len(piece) - start) // length * length
        for at in range(start, whole, length):
            yield piece[at : at + length]
        tail = bytes(piece[whole:])
    if tail:
        yield memoryview(tail)
