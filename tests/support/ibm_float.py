"""Conversion of IEEE doubles to System/390 floats, one at a time and slow; it shares no code with the gateway."""

import math
import struct
from collections.abc import Iterable, Iterator, Sequence

from app.codecs.sas.data_set_messages import Variable

_MISSING = b"." + bytes(7)


def converted(pieces: Iterable[bytes | memoryview], variables: Sequence[Variable]) -> Iterator[bytes]:
    """Convert observations with big-endian IEEE numerics of 8 bytes, in pieces of whole rows, to IBM floats."""
    width = sum(variable.length for variable in variables)
    for piece in pieces:
        rows = bytearray(piece)
        for start in range(0, len(rows), width):
            at = start
            for variable in variables:
                if variable.is_numeric:
                    rows[at : at + 8] = ibm(struct.unpack_from(">d", rows, at)[0])
                at += variable.length
        yield bytes(rows)


def ibm(number: float) -> bytes:
    """Return a hexadecimal float of 8 bytes; NaN becomes `.`, the missing value."""
    if math.isnan(number):
        return _MISSING
    if not number:
        return bytes(8)
    fraction, power = math.frexp(abs(number))
    sixteens = -(-power // 4)
    digits = int(math.ldexp(fraction, 56 + power - 4 * sixteens))
    return bytes([(0x80 if number < 0 else 0) | (sixteens + 64)]) + digits.to_bytes(7, "big")
