"""The 28 missing values and the floats of IBM, bit by bit."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dataset import missing, numeric, sas_columns
from app.dataset.conversion_error import BadValueError
from app.dataset.numeric import ByteOrder, FloatFormat
from tests.support.ibm_float import ibm

ORDERS: tuple[ByteOrder, ...] = ("little", "big")
FORMATS: tuple[FloatFormat, ...] = ("ieee", "ibm")
MISSING = [0, *missing.LETTERS.encode()]
"""An ordinary one and all special ones, as tags."""

IEEE_RANGE = st.floats(allow_nan=False, allow_infinity=False)
IBM_RANGE = st.floats(16.0**-65, 7e75) | st.floats(-7e75, -(16.0**-65)) | st.just(0.0)


def cells_of(codes: list[bytes], order: ByteOrder, length: int = 8) -> numeric.Bytes:
    """A column of these big-endian codes."""
    kept = [code[:length] if order == "big" else code[:length][::-1] for code in codes]
    return np.frombuffer(b"".join(kept), np.uint8).reshape(len(codes), length)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("length", range(3, 9))
def test_the_codes_of_ieee(order: ByteOrder, length: int) -> None:
    """As SAS prints them in HEX16., and as other programs write them: by the complement of the letter's code."""
    sas = {"_": 0xFF, ".": 0xFE} | {letter: 0xFD - number for number, letter in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZ")}
    others = {letter: 0xFF - ord(letter) for letter in sas}
    for scheme in (sas, others):
        codes = [bytes([0xFF, 0xFF, byte]) + bytes(5) for byte in scheme.values()]
        found = numeric.read(cells_of(codes, order, length), order)
        assert found.tags is not None
        assert bytes(found.tags) == "".join(scheme).replace(".", "\0").encode()
        assert found.odd == 0
        assert np.isnan(found.doubles).all()
        written = numeric.encode(found.doubles, length, order, "ieee", found.tags)
        own = [bytes([0xFF, 0xFF, byte]) + bytes(5) for byte in sas.values()]
        assert written.tobytes() == cells_of(own, order, length).tobytes()


@pytest.mark.parametrize(("charset", "shown"), [("latin-1", "ascii"), ("cp037", "cp037"), ("cp500", "cp500")])
def test_the_codes_of_ibm(charset: str, shown: str) -> None:
    letters = "._ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    codes = [letter.encode(shown) + bytes(7) for letter in letters]
    found = numeric.read(cells_of(codes, "big"), "big", "ibm", charset)
    assert found.tags is not None
    assert bytes(found.tags) == letters.replace(".", "\0").encode()
    again = numeric.encode(found.doubles, 8, "big", "ibm", found.tags, charset)
    assert again.tobytes() == b"".join(codes)


def test_the_largest_numbers_of_ibm_come_back_in_its_range() -> None:
    """CONSTANT('BIG') of z/OS, which a double rounds to 16**63, and what is beyond it."""
    big, above = b"\x7f" + b"\xff" * 7, 2.0**252 * (1 + 2.0**-52)
    below = b"\x7f" + b"\xff" * 6 + b"\xf8"
    cells = [big, b"\xff" + big[1:], below]
    found = numeric.read(cells_of(cells, "big"), "big", "ibm")
    assert found.doubles.tolist() == [2.0**252, -(2.0**252), 2.0**252 * (1 - 2.0**-53)]
    assert numeric.encode(found.doubles, 8, "big", "ibm").tobytes() == b"".join(cells)
    with pytest.raises(BadValueError, match="beyond the range of IBM floats"):
        numeric.encode(np.array([above]), 8, "big", "ibm")
    with pytest.raises(BadValueError, match="does not fit a numeric of length 7"):
        numeric.encode(found.doubles, 7, "big", "ibm")


def test_codes_of_the_other_scheme_of_ibm() -> None:
    """4B is `.` in EBCDIC and `.K` in ASCII, 6D is `._` in both; ASCII's other letters are no codes of EBCDIC."""
    codes = cells_of([bytes([code]) + bytes(7) for code in (0x4B, 0x6D, 0x5F, 0x41, 0x2E)], "big")
    in_ascii, in_ebcdic = (numeric.tags(codes, "big", "ibm", charset) for charset in ("utf-8", "cp037"))
    assert in_ascii is not None
    assert in_ebcdic is not None
    assert bytes(in_ascii) == b"K__A\0"
    assert bytes(in_ebcdic) == b"\0__A\0"


def test_other_nans_and_infinities_are_ordinary_and_counted() -> None:
    words = ["7FF8000000000000", "FFF8000000000000", "FFFF000000000000", "FFFFFD0000000001", "7FF0000000000000",
             "FFF0000000000000", "FFFFFE0000000000", "3FF0000000000000"]  # fmt: skip
    found = numeric.read(cells_of([bytes.fromhex(word) for word in words], "big"), "big")
    assert (found.odd, found.tags) == (6, None)
    assert numeric.column(found).to_pylist() == [None] * 7 + [1.0]
    in_ibm = numeric.read(cells_of([b"7" + bytes(7), b"\x80" + bytes(7)], "big"), "big", "ibm")
    assert (in_ibm.odd, in_ibm.tags) == (1, None)


@st.composite
def columns_with_missing(draw: st.DrawFn, float_format: FloatFormat) -> tuple[list[float], list[int]]:
    value = (IBM_RANGE if float_format == "ibm" else IEEE_RANGE).map(lambda number: (number, 0))
    absent = st.sampled_from(MISSING).map(lambda tag: (math.nan, tag))
    pairs = draw(st.lists(value | absent, min_size=1, max_size=40))
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


@pytest.mark.parametrize("charset", ["latin-1", "cp037"])
@pytest.mark.parametrize("float_format", FORMATS)
@given(data=st.data(), order=st.sampled_from(ORDERS))
def test_every_bit_comes_back(data: st.DataObject, order: ByteOrder, float_format: FloatFormat, charset: str) -> None:
    values, tags = data.draw(columns_with_missing(float_format))
    written = numeric.encode(np.array(values), 8, order, float_format, np.array(tags, np.uint8), charset)
    found = numeric.read(written, order, float_format, charset)
    present = ~np.isnan(values)
    assert found.doubles[present].tobytes() == np.array(values)[present].tobytes()
    assert np.isnan(found.doubles[~present]).all()
    assert bytes(found.tags if found.tags is not None else len(tags)) == bytes(tags)
    again = numeric.encode(found.doubles, 8, order, float_format, found.tags, charset)
    assert again.tobytes() == written.tobytes()


def test_floats_of_ibm_that_doubles_lack_become_the_nearest() -> None:
    """56 bits of fraction, where 53 have room; and a fraction that begins with zeros."""
    codes = cells_of(
        [bytes.fromhex(code) for code in ("41FFFFFFFFFFFFFF", "4180000000000005", "4200800000000000")], "big"
    )
    assert numeric.decode(codes, "big", "ibm").tolist() == [16.0, 8.0 + 2**-49, 0.5]
    written = numeric.encode(np.array([16.0, 0.5]), 8, "big", "ibm")
    assert written.tobytes().hex().upper() == "42100000000000004080000000000000"


@given(st.lists(IBM_RANGE, min_size=1))
def test_floats_of_ibm_are_those_of_another_way_to_make_them(values: list[float]) -> None:
    written = numeric.encode(np.array(values), 8, "big", "ibm")
    assert written.tobytes() == b"".join(map(ibm, values))


@pytest.mark.parametrize("value", [1e76, -1e300, 5e-80, -5e-324, math.inf])
def test_what_ibm_floats_cannot_hold_is_refused(value: float) -> None:
    with pytest.raises(BadValueError) as refused:
        numeric.encode(np.array([0.0, math.nan, value]), 8, "big", "ibm")
    assert refused.value.row == 2


def test_side_columns() -> None:
    words = ["._", None, ".A", ".z", "."]
    tags = missing.from_arrow(pa.array(words))
    assert bytes(tags) == b"_\0AZ\0"
    assert missing.to_arrow(tags, 5).to_pylist() == ["._", None, ".A", ".Z", None]
    assert missing.to_arrow(None, 2).to_pylist() == [None, None]


@pytest.mark.parametrize(("values", "words"), [([None, None], [None, ".a1"]), ([None, 1.0], [".A", ".B"])])
def test_side_columns_that_cannot_be(values: list[Any], words: list[Any]) -> None:
    with pytest.raises(BadValueError) as refused:
        sas_columns.doubles_and_tags(pa.array(values, pa.float64()), pa.array(words, pa.string()))
    assert refused.value.row == 1
