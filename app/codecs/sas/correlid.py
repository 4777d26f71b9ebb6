"""Correlation identifiers: 16 bytes for an attachment, 4 for a sequence number, and 4 without meaning.

Brokers transfer different numbers of the 24 bytes, and pad them differently. So missing bytes are read as zeros, and
blanks are read as zeros, too.
"""

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
