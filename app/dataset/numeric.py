"""SAS numerics <-> double columns. A numeric of length 2 to 8 is the most significant bytes of an 8-byte float.

Missing values are NaNs whose third byte tells `.`, `._` and `.A` to `.Z` apart (SAS, "Numeric values, missing values").
"""

from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.dataset.errors import refuse_any

ByteOrder = Literal["little", "big"]
FloatFormat = Literal["ieee", "ibm"]

Bytes = NDArray[np.uint8]
Doubles = NDArray[np.float64]

MISSING = np.uint64(0xFFFFFE0000000000)
"""The bits of the ordinary missing value `.`"""

# An IBM float is a sign, 7 bits of a power of 16 biased by 64, and 56 bits of fraction.
_IBM_POWER = np.array([16.0 ** ((top & 0x7F) - 64) * 2.0**-56 * (-1 if top & 0x80 else 1) for top in range(256)])
_IBM_FRACTION = np.uint64((1 << 56) - 1)


def decode(cells: Bytes, order: ByteOrder, float_format: FloatFormat) -> Doubles:
    """Native doubles of a column given as rows by length bytes. Missing values are NaN (IEEE ones keep their bits)."""
    rows, length = cells.shape
    padded = np.zeros((rows, 8), np.uint8)
    padded[:, _kept(length, order)] = cells
    words = padded.view("<u8" if order == "little" else ">u8").reshape(rows)
    native = words.astype(np.uint64, copy=False)
    return native.view(np.float64) if float_format == "ieee" else _from_ibm(native)


def _from_ibm(words: NDArray[np.uint64]) -> Doubles:
    top = (words >> np.uint64(56)).astype(np.uint8)
    fraction = words & _IBM_FRACTION
    doubles: Doubles = fraction.astype(np.float64) * _IBM_POWER[top]
    # A fraction of zero under any top byte but that of zero itself is a missing value; the byte is its letter.
    doubles[(fraction == 0) & (top & 0x7F != 0)] = np.nan
    return doubles


def to_arrow(doubles: Doubles) -> pa.DoubleArray:
    """NaN becomes null."""
    present = ~np.isnan(doubles)
    nulls = len(doubles) - int(np.count_nonzero(present))
    validity = pa.py_buffer(np.packbits(present, bitorder="little")) if nulls else None
    return pa.Array.from_buffers(pa.float64(), len(doubles), [validity, pa.py_buffer(doubles)], nulls)


def encode(doubles: Doubles, length: int, order: ByteOrder) -> Bytes:
    """A column of rows by length bytes of IEEE floats; NaN is written as the missing value `.`

    Raises BadValueError for an infinity, which SAS lacks, and for a value that the length would change.
    """
    words = np.where(np.isnan(doubles), MISSING, doubles.view(np.uint64))
    refuse_any(np.isinf(doubles), "a SAS numeric cannot be infinite")
    lost = np.uint64((1 << 8 * (8 - length)) - 1)
    refuse_any(words & lost != 0, f"the value does not fit a numeric of length {length} exactly")
    cells = words.astype("<u8" if order == "little" else ">u8").view(np.uint8).reshape(len(doubles), 8)
    return cells[:, _kept(length, order)]


def _kept(length: int, order: ByteOrder) -> slice:
    """Where the most significant bytes of eight lie."""
    return slice(8 - length, 8) if order == "little" else slice(0, length)
