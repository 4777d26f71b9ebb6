"""Correlation identifiers: 16 bytes of an attachment, 4 of a sequence number, and 4 that mean nothing.

Brokers differ in how much of the 24 bytes they carry and in what they put behind it, so what is missing is taken as
zeros, and blanks as zeros too.
"""

from app.wire import WireError

KEY_SIZE = 16
COMPARED_SIZE = 20
SIZE = 24

_BLANKS = b"    "


def split(correl_id: bytes) -> tuple[bytes, int]:
    """The 16-byte key and the sequence number, read big-endian; 0 for a correlid without one."""
    key, sequence = correl_id[:KEY_SIZE], correl_id[KEY_SIZE:COMPARED_SIZE]
    if len(key) < KEY_SIZE:
        key = key.ljust(KEY_SIZE, b"\0")
    if not sequence or sequence == _BLANKS[: len(sequence)]:
        return key, 0
    return key, int.from_bytes(sequence.ljust(4, b"\0"), "big")


def join(key: bytes, sequence: int) -> bytes:
    """The 24-byte correlid of an attachment's message. Raises WireError for a key that is not 16 bytes long, or a
    sequence number that does not fit four."""
    if len(key) != KEY_SIZE:
        raise WireError("correlid", 0, f"a key of {len(key)} bytes, where {KEY_SIZE} belong")
    if not 0 <= sequence < 1 << 32:
        raise WireError("correlid", KEY_SIZE, f"the sequence number {sequence} does not fit four bytes")
    return key + sequence.to_bytes(4, "big") + bytes(SIZE - COMPARED_SIZE)


def compared(correl_id: bytes) -> bytes:
    """The 20 bytes by which correlids are compared, blanks among the last four of them taken as zeros."""
    key, sequence = split(correl_id)
    return key + sequence.to_bytes(COMPARED_SIZE - KEY_SIZE, "big")


def matches(one: bytes, other: bytes) -> bool:
    """Whether two correlids are the same in the 20 bytes that count."""
    return compared(one) == compared(other)
