"""Numbers (VDN): a characteristic byte and packed decimal digits, so written that their bytes sort as they do.

A number is 0.DDDD x 10^e with a first digit that is not 0. Its characteristic is 0xC0 + e if it is positive, 0x40 - e
with the ten's complement of its digits if it is negative, and 0x80 for zero. A field has room for the digits of its
type; what is left of it is 0. Rounding and overflow are the kernel's: half away from zero.
"""

from decimal import Decimal
from typing import Final

from app.wire import WireError
from app.wire.kinds import Buffer

MOST_DIGITS: Final = 38
_MOST_EXPONENT: Final = 63
_ZERO: Final = 0x80
_POSITIVE: Final = 0xC0
_NEGATIVE: Final = 0x40


class NumberOverflow(WireError):
    """A number with more digits before the point, or a greater exponent, than its field can have."""


def field_size(length: int) -> int:
    """Return the size of a number with this number of digits, without an undef byte."""
    return (length + 1) // 2 + 1


def decode_number(field: Buffer, row: str = "number", at: int = 0) -> Decimal:
    """Return the number of a field, which begins at byte `at`. Raises WireError."""
    first = field[0] if len(field) else 0
    if not first:
        raise WireError(row, at, f"a number of {len(field)} bytes without a characteristic")
    if first == _ZERO:
        return Decimal(0)
    digits = bytes(field[1:]).hex().rstrip("0")
    if not digits:
        raise WireError(row, at + 1, f"a number without digits, and its characteristic {first:02X} is not zero's")
    if not digits.isdecimal():
        wrong = next(index for index, digit in enumerate(digits) if not digit.isdecimal())
        raise WireError(row, at + 1 + wrong // 2, f"{field[1 + wrong // 2]:02X} are not two decimal digits")
    if len(digits) > MOST_DIGITS:
        raise WireError(row, at + 1, f"{len(digits)} digits, but a number has at most {MOST_DIGITS}")
    negative = first < _ZERO
    exponent = _NEGATIVE - first if negative else first - _POSITIVE
    return Decimal(
        (int(negative), tuple(map(int, _complement(digits) if negative else digits)), exponent - len(digits))
    )


def encode_number(value: Decimal | int, length: int, frac: int | None = None) -> bytes:
    """Return the field of a number of type fixed(length, frac), or float(length) where `frac` is None.

    Raises NumberOverflow for a number that its type cannot have, and WireError for one that is not finite and for types
    that do not exist.
    """
    number = Decimal(value)
    if not 1 <= length <= MOST_DIGITS or not 0 <= (frac or 0) <= length:
        raise WireError("number", 0, f"there is no type of {length} digits with {frac} after the decimal point")
    if not number.is_finite():
        raise WireError("number", 0, f"{number} is not a number that fields have")
    sign, digits, power = number.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    exponent = len(text) + int(power)
    most = _MOST_EXPONENT if frac is None else length - frac
    if text and exponent <= most:
        text, exponent = _rounded(text, exponent, length if frac is None else frac + exponent)
    size = field_size(length)
    if not text:
        return bytes([_ZERO]).ljust(size, b"\0")
    if not -_MOST_EXPONENT <= exponent <= most:
        kind = f"float({length})" if frac is None else f"fixed({length},{frac})"
        raise NumberOverflow("number", 0, f"{value} does not fit {kind}")
    first = _NEGATIVE - exponent if sign else _POSITIVE + exponent
    packed = _complement(text) if sign else text
    return (bytes([first]) + bytes.fromhex(packed + "0" * (len(packed) % 2))).ljust(size, b"\0")


def _rounded(digits: str, exponent: int, keep: int) -> tuple[str, int]:
    """Return the first digits of a number, without zeros at their end, and its exponent."""
    if keep < 0:
        return "", 0
    if keep < len(digits):
        up = digits[keep] >= "5"
        kept = str(int(digits[:keep] or "0") + up)
        if kept == "0":
            return "", 0
        exponent += len(kept) - keep
        digits = kept
    return digits.rstrip("0"), exponent


def _complement(digits: str) -> str:
    """Return the ten's complement of digits whose last one is not 0."""
    return str(10 ** len(digits) - int(digits)).rjust(len(digits), "0")
