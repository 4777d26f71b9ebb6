"""Lines of hexadecimal: digits, times, comments, and where something else stands."""

from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.capture import capture_entries as lines_module
from app.capture.capture_entries import BoundedLine, RefusedEntry, lines
from app.capture.hexadecimal import CapturedBytes, captures
from tests.support.captures import origin

MOMENT = 1_795_246_200_125_000
"""2026-11-21T07:30:00.125Z"""


def read(text: bytes) -> list[CapturedBytes | RefusedEntry]:
    return list(captures(lines(BytesIO(text)), origin()))


@pytest.mark.parametrize(
    ("line", "time"),
    [
        ("0aFf", 0),
        (" 0a:ff\t", 0),
        ("0a-ff # what it is", 0),
        ("2026-11-21T07:30:00.125Z 0aff", MOMENT),
        ("2026-11-21T07:30:00.125 0aff", MOMENT),
        ("2026-11-21T08:30:00.125+01:00\t0aff#", MOMENT),
        ("2026-11-21T07:30Z 0a ff", MOMENT - 125_000),
        ("1795246200.125 0aff", MOMENT),
        (" 1795246200.125000999\t0a ff", MOMENT),
    ],
)
def test_a_line_holds_bytes_and_perhaps_a_time(line: str, time: int) -> None:
    assert read(line.encode()) == [CapturedBytes(1, b"\x0a\xff", time)]


def test_digits_without_a_point_are_bytes() -> None:
    for digits in (b"1795246200125000", b"1795246200125000 00", b"3006000161313233 3006000161343536"):
        assert read(digits) == [CapturedBytes(1, bytes.fromhex(digits.decode()))]
    (refused,) = read(b"1795246200.125000")
    assert isinstance(refused, RefusedEntry)


def test_empty_lines_and_comments_mean_nothing() -> None:
    assert read(b"# a capture\r\n\r\n  \n  # of two lines\n01\r\n02") == [
        CapturedBytes(5, b"\1"),
        CapturedBytes(6, b"\2"),
    ]


@pytest.mark.parametrize(
    ("line", "at", "why"),
    [
        ("zz", 0, "not a hexadecimal digit: 'z'"),
        ("0a fx", 4, "not a hexadecimal digit: 'x'"),
        ("0af", 3, "odd number of hexadecimal digits: 3"),
        ("2026-11-21T07:30:00Z", 20, "no bytes follow the time"),
        ("2026-13-21T07:30:00Z 00", 0, "not an ISO 8601 time"),
        ("1969-12-31T23:59:59Z 00", 0, "not an ISO 8601 time from 1970 on"),
        ("0001-01-01T00:00:00+23:59 00", 0, "not an ISO 8601 time"),
        ("2026-11-21 07:30:00 0", 21, "odd number"),
    ],
)
def test_what_is_wrong_has_its_place(line: str, at: int, why: str) -> None:
    _, refused = read(b"00\n" + line.encode())
    assert isinstance(refused, RefusedEntry)
    assert (refused.code, refused.line, refused.message.body) == ("bad-capture", 2, line.encode())
    assert why in refused.why
    assert refused.at == at


@given(st.binary(max_size=100) | st.text("09afTZ:-. #\n2026", max_size=100).map(str.encode))
def test_any_bytes_are_captures_or_refused(text: bytes) -> None:
    for found in read(text):
        if isinstance(found, CapturedBytes):
            assert found.data
        else:
            assert 0 <= found.at <= len(found.message.body)


def test_a_line_without_end_is_cut_and_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "LONGEST_LINE", 8)
    monkeypatch.setattr(lines_module, "_PIECE", 3)
    assert list(lines(BytesIO(b"0011\n00112233445566\n0022\n00112233445566"))) == [
        BoundedLine(1, b"0011"),
        BoundedLine(2, b"00112233", is_whole=False),
        BoundedLine(3, b"0022"),
        BoundedLine(4, b"00112233", is_whole=False),
    ]
    _, refused, _ = read(b"0011\n00112233445566\n0022\n")
    assert isinstance(refused, RefusedEntry)
    assert "longer than the limit" in refused.why
