"""Convert SAS numerics to double columns and back.

A numeric of length 2 to 8 is the most significant bytes of an 8-byte float. Floats are IEEE's or of IBM
System/390: a sign, 7 bits of a power of 16 biased by 64, and 56 bits of fraction. Missing values are NaNs in IEEE
format and fractions of zero in IBM format; `app.dataset.missing` distinguishes them.
"""

from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.dataset import missing
from app.dataset.conversion_error import refuse_any
from app.dataset.missing import Tags

ByteOrder = Literal["little", "big"]
FloatFormat = Literal["ieee", "ibm"]

Bytes = NDArray[np.uint8]
Doubles = NDArray[np.float64]
Words = NDArray[np.uint64]

MAX_EXACT = 1 << 53
"""The largest integer up to which all integers are exact in a double."""

MISSING = np.uint64(0xFFFFFE0000000000)
"""The bits of the ordinary missing value `.` in IEEE format."""

_TAG_BITS = np.uint64(40)
_TAG_MASK = np.uint64(0xFF << 40)
_UNTAGGED = np.uint64(0xFFFF << 48)

_IBM_FRACTION = np.uint64((1 << 56) - 1)
_IBM_EXPONENT = np.uint64(0x7F << 56)
_TOP_BITS = np.uint64(56)
_FOUR_TIMES = np.uint64(2)
"""Two shifts that are both of two bits.

The difference in bits between a count of powers of 16 and one of powers of 2, and the distance by which an IBM exponent
is further left than four times an IEEE one.
"""
_UNIT = np.uint64((1023 - 4 * 64 - 56) << 52)
"""The exponent bits of 16^-64 * 2^-56, the unit of a fraction whose IBM exponent is 0."""

_SIGN = np.uint64(1 << 63)
_LARGEST = ~_SIGN
"""The bits of the largest IBM float, CONSTANT('BIG') on z/OS."""
_ROUNDED_LARGEST = 16.0**63
_IEEE_FRACTION = np.uint64((1 << 52) - 1)
_IEEE_ONE = np.uint64(1 << 52)
_IEEE_FRACTION_BITS = np.uint64(52)
_IEEE_EXPONENT = np.uint64(0x7FF)
_LEAST_EXPONENT = np.uint64(763)
"""The biased exponent of 16^-65, the smallest IBM float: an IEEE exponent minus this is four times an IBM one."""
_EXPONENTS = np.uint64(512)
"""The number of IEEE exponents, from the smallest on, that have IBM ones. Lower ones wrap around to larger values."""
_SIXTEENTHS = np.uint64(3)


class Numbers(NamedTuple):
    """A numeric column.

    `doubles` are NaN or infinite where `absent`, which is None if no value is absent. `tags` is None without special
    missing values. `odd` counts missing values that SAS does not have: other NaNs and infinities, replaced by `.`.
    `float_format` is that of the floats of which these are the nearest doubles.
    """

    doubles: Doubles
    absent: NDArray[np.bool_] | None = None
    tags: Tags | None = None
    odd: int = 0
    float_format: FloatFormat = "ieee"


def read(cells: Bytes, order: ByteOrder, float_format: FloatFormat = "ieee", charset: str = "latin-1") -> Numbers:
    """Return the numbers of a column given as rows by length bytes. `charset` is the character set of the data set's
    texts."""
    rows, length = cells.shape
    stored = "<u8" if order == "little" else ">u8"
    if length == 8 and cells.strides[1] == 1:
        words = cells.view(stored).reshape(rows).astype(np.uint64)
    else:
        padded = np.zeros((rows, 8), np.uint8)
        padded[:, _kept(length, order)] = cells
        words = padded.view(stored).reshape(rows).astype(np.uint64, copy=False)
    if float_format == "ibm":
        return _read_ibm(words, charset)._replace(float_format="ibm")
    doubles = words.view(np.float64)
    absent = ~np.isfinite(doubles)
    if not absent.any():
        return Numbers(doubles)
    places = np.flatnonzero(absent)
    codes = words[places]
    if (codes == MISSING).all():
        return Numbers(doubles, absent)
    letters = missing.OF_IEEE[((codes & _TAG_MASK) >> _TAG_BITS).astype(np.uint8)]
    letters[codes & ~_TAG_MASK != _UNTAGGED] = 0
    return _with_letters(doubles, absent, places, letters)


def _read_ibm(words: Words, charset: str) -> Numbers:
    fraction = words & _IBM_FRACTION
    doubles: Doubles = fraction.view(np.int64).astype(np.float64)
    unit = words & _IBM_EXPONENT
    unit >>= _FOUR_TIMES
    unit += _UNIT
    unit |= words & _SIGN
    doubles *= unit.view(np.float64)
    # A fraction of zero under a top byte other than zero's own is a missing value.
    absent = fraction == 0
    if not absent.any():
        return Numbers(doubles)
    absent &= (words & ~_SIGN) != 0
    if not absent.any():
        return Numbers(doubles)
    places = np.flatnonzero(absent)
    doubles[places] = np.nan
    letters = missing.of_ibm(charset)[(words[places] >> _TOP_BITS).astype(np.uint8)]
    return _with_letters(doubles, absent, places, letters)


def _with_letters(doubles: Doubles, absent: NDArray[np.bool_], places: NDArray[np.intp], letters: Tags) -> Numbers:
    odd = len(letters) - int(np.count_nonzero(letters))
    letters[letters == missing.ORDINARY] = 0
    if not letters.any():
        return Numbers(doubles, absent, None, odd)
    tags = np.zeros(len(doubles), np.uint8)
    tags[places] = letters
    return Numbers(doubles, absent, tags, odd)


def decode(cells: Bytes, order: ByteOrder, float_format: FloatFormat) -> Doubles:
    """Return native doubles of a column given as rows by length bytes.

    Missing values are NaN (IEEE ones keep their bits).
    """
    return read(cells, order, float_format).doubles


def tags(cells: Bytes, order: ByteOrder, float_format: FloatFormat, charset: str = "latin-1") -> Tags | None:
    """Return for each row the letter of its special missing value (`_`, `A` to `Z` in ASCII) or 0.

    Return None without any.
    """
    return read(cells, order, float_format, charset).tags


def to_arrow(doubles: Doubles) -> pa.DoubleArray:
    """Return doubles as an Arrow array, with null for NaN and infinity."""
    return column(Numbers(doubles, ~np.isfinite(doubles)))


def column(numbers: Numbers) -> pa.DoubleArray:
    """Return numbers as an Arrow array, with null for absent values."""
    bits, nulls = validity(numbers.absent)
    doubles = numbers.doubles
    return pa.Array.from_buffers(pa.float64(), len(doubles), [bits, pa.py_buffer(doubles)], nulls)


def validity(absent: NDArray[np.bool_] | None) -> tuple[pa.Buffer | None, int]:
    """Return Arrow's validity bitmap for absent values (None if there are none), and the number of nulls."""
    nulls = 0 if absent is None else int(np.count_nonzero(absent))
    if absent is None or not nulls:
        return None, 0
    return pa.py_buffer(np.packbits(~absent, bitorder="little")), nulls


def encode(
    doubles: Doubles,
    length: int,
    order: ByteOrder,
    float_format: FloatFormat = "ieee",
    tags: Tags | None = None,
    charset: str = "latin-1",
) -> Bytes:
    """Return a column of rows by length bytes. NaN becomes the missing value in `tags`, or `.` if that has none.

    `charset` is the character set of the texts: it determines the codes of special missing values in IBM floats. Raises
    BadValueError for an infinity, which SAS does not have, for a value beyond the range of IBM floats, and for one that
    the length would change.
    """
    doubles = np.asarray(doubles, np.float64)
    absent = ~np.isfinite(doubles)
    if absent.any():
        refuse_any(np.isinf(doubles), "a SAS numeric cannot be infinite")
    if float_format == "ibm":
        words = _to_ibm(doubles, absent)
        codes, shift = missing.to_ibm(charset), _TOP_BITS
    else:
        words = doubles.view(np.uint64).copy()
        codes, shift = missing.TO_IEEE, _TAG_BITS
    if absent.any():
        letters = np.zeros(len(doubles), np.uint8) if tags is None else tags
        tagged = codes[letters[absent]].astype(np.uint64) << shift
        words[absent] = tagged if float_format == "ibm" else tagged | _UNTAGGED
    if length < 8:
        lost = np.uint64((1 << 8 * (8 - length)) - 1)
        refuse_any(words & lost != 0, f"the value does not fit a numeric of length {length} exactly")
    cells = words.astype("<u8" if order == "little" else ">u8").view(np.uint8).reshape(len(doubles), 8)
    return cells[:, _kept(length, order)]


def _to_ibm(doubles: Doubles, absent: NDArray[np.bool_]) -> Words:
    """Return the bits of IBM floats, normalised: the fraction's first hexadecimal digit is not 0.

    The conversion is exact, as the 53 bits of IEEE always fit the 56 of IBM. A negative zero becomes zero: readers take
    a sign with a fraction of zero for a missing value. 16**63, to which a double rounds the largest IBM floats, becomes
    the largest.
    """
    words = doubles.view(np.uint64)
    exponent = words >> _IEEE_FRACTION_BITS
    exponent &= _IEEE_EXPONENT
    exponent -= _LEAST_EXPONENT
    unusual = exponent >= _EXPONENTS
    ibm: Words = words & _IEEE_FRACTION
    ibm |= _IEEE_ONE
    ibm <<= exponent & _SIXTEENTHS
    exponent >>= _FOUR_TIMES
    exponent <<= _TOP_BITS
    ibm |= exponent
    ibm |= words & _SIGN
    if unusual.any():
        zero, largest = doubles == 0, np.abs(doubles) == _ROUNDED_LARGEST
        beyond = unusual & ~(zero | absent | largest)
        refuse_any(beyond, "the value is beyond the range of IBM floats (5.4e-79 to 7.2e75)")
        ibm[zero] = 0
        ibm[largest] = _LARGEST | words[largest] & _SIGN
    return ibm


def _kept(length: int, order: ByteOrder) -> slice:
    """Return the positions of the most significant of eight bytes."""
    return slice(8 - length, 8) if order == "little" else slice(0, length)
