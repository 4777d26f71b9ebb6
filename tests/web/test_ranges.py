from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.web.http.byte_ranges import MAX_RANGES, ByteRange, parse_ranges, precondition, range_applies

SPECS = st.one_of(
    st.builds("{}-{}".format, st.integers(0, 40), st.integers(0, 40)),
    st.builds("{}-".format, st.integers(0, 40)),
    st.builds("-{}".format, st.integers(0, 40)),
)


def positions(spec: str, size: int) -> set[int]:
    """What RFC 9110 selects, position by position."""
    first, _, last = spec.partition("-")
    if not first:
        return set(range(size)[max(size - int(last), 0) :]) if int(last) else set()
    return {at for at in range(int(first), size) if not last or at <= int(last)}


@given(st.lists(SPECS, min_size=1, max_size=6), st.integers(1, 30))
def test_ranges_select_what_the_rfc_says(specs: list[str], size: int) -> None:
    ranges = parse_ranges("bytes=" + ", ".join(specs), size)
    backwards = any(a and b and int(b) < int(a) for a, _, b in (spec.partition("-") for spec in specs))
    if backwards:
        assert ranges is None
        return
    assert ranges is not None
    selected = [at for chosen in ranges for at in range(chosen.first, chosen.last + 1)]
    assert set(selected) == set().union(*(positions(spec, size) for spec in specs))
    assert len(selected) == len(set(selected))


@given(st.text(st.characters(max_codepoint=255), max_size=60), st.integers(0, 1 << 40))
def test_any_header_is_ranges_within_the_content_or_ignored(value: str, size: int) -> None:
    for header in (value, "bytes=" + value):
        for chosen in parse_ranges(header, size) or []:
            assert 0 <= chosen.first <= chosen.last < size


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("bytes=0-0,-1", [ByteRange(0, 0), ByteRange(9, 9)]),
        ("bytes=5-6,1-2", [ByteRange(5, 6), ByteRange(1, 2)]),
        ("BYTES=2-", [ByteRange(2, 9)]),
        ("bytes= 2-3 ,, ", [ByteRange(2, 3)]),
        ("bytes=4-99999999999999999999999999", [ByteRange(4, 9)]),
        ("bytes=0000000000000000000000001-2", [ByteRange(1, 2)]),
        ("bytes=10-", []),
        ("bytes=99999999999999999999999999-", []),
        ("bytes=-0", []),
        ("lines=1-2", None),
        ("bytes=", None),
        ("bytes=-", None),
        ("bytes=a-b", None),
        ("bytes=1-2 3-4", None),
        ("bytes=" + ",".join(f"{n}-{n}" for n in range(MAX_RANGES + 1)), None),
    ],
)
def test_examples(value: str, expected: list[ByteRange] | None) -> None:
    assert parse_ranges(value, 10) == expected


def test_ranges_of_nothing_are_ignored() -> None:
    assert parse_ranges("bytes=0-", 0) is None


NOW = datetime(2026, 11, 21, 8, 0, 0, tzinfo=UTC)
BEFORE, AFTER = (format_datetime(NOW + timedelta(seconds=s), usegmt=True) for s in (-1, 1))
AT = format_datetime(NOW, usegmt=True)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"if-match": '"a"'}, 200),
        ({"if-match": '"x", "a"'}, 200),
        ({"if-match": "*"}, 200),
        ({"if-match": '"x"'}, 412),
        ({"if-match": 'W/"a"'}, 412),
        ({"if-none-match": '"a"'}, 304),
        ({"if-none-match": 'W/"a"'}, 304),
        ({"if-none-match": '"x", W/"a"'}, 304),
        ({"if-none-match": "*"}, 304),
        ({"if-none-match": '"x"'}, 200),
        ({"if-none-match": '"x"', "if-modified-since": AFTER}, 200),
        ({"if-modified-since": AT}, 304),
        ({"if-modified-since": BEFORE}, 200),
        ({"if-modified-since": "yesterday"}, 200),
        ({"if-unmodified-since": BEFORE}, 412),
        ({"if-unmodified-since": AT}, 200),
        ({"if-match": '"a"', "if-unmodified-since": BEFORE}, 200),
    ],
)
def test_preconditions(headers: dict[str, str], status: int) -> None:
    assert precondition(headers, '"a"', NOW) == status


@pytest.mark.parametrize(
    ("value", "applies"), [(None, True), ('"a"', True), ('"x"', False), ('W/"a"', False), (AT, True), (AFTER, False)]
)
def test_if_range(value: str | None, applies: bool) -> None:
    assert range_applies({} if value is None else {"if-range": value}, '"a"', NOW) is applies
