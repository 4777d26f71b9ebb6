"""Numbers: both ways, and what they refuse."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.codecs.sapdb.numbers import NumberOverflow, decode_number, encode_number, field_size
from app.wire import WireError

decimals = st.builds(
    lambda digits, exponent: Decimal(digits).scaleb(exponent),
    st.integers(-(10**38) + 1, 10**38 - 1),
    st.integers(-60, 24),
)


@given(decimals)
def test_any_number_comes_back(value: Decimal) -> None:
    assert decode_number(encode_number(value, 38)) == value


@given(decimals, decimals)
def test_the_bytes_of_numbers_sort_as_they_do(one: Decimal, other: Decimal) -> None:
    assert (encode_number(one, 38) < encode_number(other, 38)) == (one < other)


@given(st.decimals(-(10**12), 10**12, places=6), st.integers(1, 15), st.integers(0, 6))
def test_fixed_numbers_are_rounded_half_away_from_zero(value: Decimal, length: int, frac: int) -> None:
    frac = min(frac, length)
    unit = Decimal(1).scaleb(-frac)
    rounded = value.quantize(unit, "ROUND_HALF_UP")
    if abs(rounded) >= Decimal(10) ** (length - frac):
        with pytest.raises(NumberOverflow):
            encode_number(value, length, frac)
        return
    field = encode_number(value, length, frac)
    assert len(field) == field_size(length)
    assert decode_number(field) == rounded


@pytest.mark.parametrize(
    ("value", "length", "frac"),
    [
        ("1E64", 38, None),
        ("-1E63", 38, None),
        ("1E-65", 38, None),
        ("100", 4, 2),
        ("99.995", 4, 2),
        ("1E+999999", 38, 0),
    ],
)
def test_a_number_that_does_not_fit_overflows(value: str, length: int, frac: int | None) -> None:
    with pytest.raises(NumberOverflow):
        encode_number(Decimal(value), length, frac)


@pytest.mark.parametrize("value", ["NaN", "Infinity"])
def test_numbers_are_finite(value: str) -> None:
    with pytest.raises(WireError, match="not a number"):
        encode_number(Decimal(value), 10)


@pytest.mark.parametrize(("length", "frac"), [(0, 0), (39, 0), (5, 6), (5, -1)])
def test_types_of_numbers_that_do_not_exist(length: int, frac: int) -> None:
    with pytest.raises(WireError, match="no type"):
        encode_number(1, length, frac)


@pytest.mark.parametrize(
    ("field", "at"), [("", 0), ("00c110", 0), ("c1", 1), ("c100", 1), ("c1a0", 1), ("c1100f", 2), ("c1" + "11" * 20, 1)]
)
def test_bytes_that_are_no_number(field: str, at: int) -> None:
    with pytest.raises(WireError) as refused:
        decode_number(bytes.fromhex(field))
    assert refused.value.at == at


@given(st.binary(max_size=25))
def test_any_bytes_are_a_number_or_our_error(field: bytes) -> None:
    places = [0]
    try:
        assert decode_number(field).is_finite()
    except WireError as error:
        places.append(error.at)
    assert 0 <= places[-1] <= max(1, len(field))
