"""Correlation identifiers: 16 bytes for an attachment, 4 for a sequence number, and 4 without meaning.

Brokers transfer different numbers of the 24 bytes, and pad them differently. So missing bytes are read as zeros, and
blanks are read as zeros, too.

On TIB/Rendezvous a correlid is text and may be blank, so that nothing in a message tells which attachment it belongs
to. The gateway's own correlids are there a key of 16 bytes in base64 after a mark: who receives them has the sender's
keys. Keys of other senders' attachments are made of where and when their header came.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from hashlib import blake2b
from typing import Final

from app.wire import WireError

KEY_SIZE = 16
COMPARED_SIZE = 20
SIZE = 24

_BLANKS = b"    "


def split(correl_id: bytes) -> tuple[bytes, int]:
    """Return the 16-byte key and the big-endian sequence number; 0 for a correlid without a sequence number."""
    key, sequence = correl_id[:KEY_SIZE], correl_id[KEY_SIZE:COMPARED_SIZE]
    if len(sequence) == len(_BLANKS):
        return key, 0 if sequence == _BLANKS else int.from_bytes(sequence, "big")
    if len(key) < KEY_SIZE:
        key = key.ljust(KEY_SIZE, b"\0")
    if not sequence or sequence == _BLANKS[: len(sequence)]:
        return key, 0
    return key, int.from_bytes(sequence.ljust(4, b"\0"), "big")


def join(key: bytes, sequence: int) -> bytes:
    """Return the 24-byte correlid of an attachment's message.

    Raises WireError for a key that is not 16 bytes long, or a sequence number that does not fit in 4 bytes.
    """
    if len(key) != KEY_SIZE:
        raise WireError("correlid", 0, f"the key has {len(key)} bytes; it must have {KEY_SIZE}")
    if not 0 <= sequence < 1 << 32:
        raise WireError("correlid", KEY_SIZE, f"the sequence number {sequence} does not fit in 4 bytes")
    return key + sequence.to_bytes(4, "big") + bytes(SIZE - COMPARED_SIZE)


def compared(correl_id: bytes) -> bytes:
    """Return the 20 bytes by which correlids are compared; blanks in the last four bytes are replaced with zeros."""
    found = correl_id[:COMPARED_SIZE]
    if len(found) == COMPARED_SIZE and not found.endswith(_BLANKS):
        return found
    key, sequence = split(correl_id)
    return key + sequence.to_bytes(COMPARED_SIZE - KEY_SIZE, "big")


def matches(one: bytes, other: bytes) -> bool:
    """Tell whether two correlids have the same 20 significant bytes."""
    return compared(one) == compared(other)


_MARK: Final = b"AG"
BLANK_CORRELID: Final = b" " * SIZE
"""A correlid that says nothing."""


def correlid_of(key: bytes) -> bytes:
    """Return the correlid that a key travels as."""
    return _MARK + urlsafe_b64encode(key[:KEY_SIZE]).rstrip(b"=")


def key_of(correlid: bytes) -> bytes | None:
    """Return the key that a correlid of the gateway's holds; None for any other."""
    if not correlid.startswith(_MARK) or len(correlid) != SIZE:
        return None
    try:
        key = urlsafe_b64decode(correlid[len(_MARK) :] + b"==")
    except (Error, ValueError):
        return None
    return key if len(key) == KEY_SIZE and correlid_of(key) == correlid else None


def header_key(*facts: bytes) -> bytes:
    """Return the key of a header, of what is known of it."""
    return blake2b(b"\0".join(facts), digest_size=KEY_SIZE, person=b"rendezvous-hdr").digest()


def attachment_key(correlid: bytes, base: bytes, number: int) -> bytes:
    """Return the key of an attachment by its correlid, or else by its header's key `base` and its number there."""
    given = key_of(correlid)
    return given or blake2b(base + number.to_bytes(4, "big"), digest_size=KEY_SIZE, person=b"rendezvous").digest()
