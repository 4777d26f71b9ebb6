"""What framings have in common when they write: attachment -> framed messages.

Messages are made one at a time; nothing but the body at hand is held. The same delivery gives the same messages each
time, identifiers included, so that an interrupted one can go on where it was.
"""

from collections.abc import Callable, Iterator
from hashlib import blake2b

from app.model.records import OutgoingAttachment

Bodies = Callable[[OutgoingAttachment], Iterator[bytes | memoryview]]
"""The bodies of an attachment's parts, in order."""


def message_identifier(delivery: str, number: int) -> bytes:
    """Return the MsgId of the physical message of this number in a delivery."""
    return blake2b(f"{delivery}/{number}".encode(), digest_size=24).digest()


def fixed_records(pieces: Iterator[memoryview], length: int) -> Iterator[memoryview]:
    """Return the same bytes in records of one length, the last one shorter."""
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
