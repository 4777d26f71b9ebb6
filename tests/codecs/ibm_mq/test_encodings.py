"""Encoding and CodedCharSetId in Python's terms."""

import codecs

import pytest

from app.codecs.ibm_mq import encodings
from app.codecs.ibm_mq.encodings import charset, decimal_order, float_format, integer_order


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        (0, (None, None, None)),
        (273, (">", ">", "ieee-big")),
        (546, ("<", "<", "ieee-little")),
        (785, (">", ">", "s390")),
        (0x400 | 0x10 | 1, (">", ">", "tns")),
        (0x10 | 2, ("<", ">", None)),
        (0xFFF, (None, None, None)),
        (-1, (None, None, None)),
    ],
)
def test_the_bits_of_an_encoding(encoding: int, expected: tuple[object, ...]) -> None:
    assert (integer_order(encoding), decimal_order(encoding), float_format(encoding)) == expected


def test_every_known_character_set_has_a_codec() -> None:
    for ccsid in encodings._CHARSETS:
        assert codecs.lookup(charset(ccsid) or "")


@pytest.mark.parametrize(
    ("ccsid", "encoding", "text", "expected"),
    [
        (819, 273, "é", b"\xe9"),
        (1208, 273, "é", b"\xc3\xa9"),
        (500, 785, "A1", b"\xc1\xf1"),
        (1200, 273, "A", b"\0A"),
        (1200, 546, "A", b"A\0"),
        (13488, 546, "A", b"A\0"),
        (17584, 0, "A", b"\0A"),
        (1386, 546, "中", b"\xd6\xd0"),
        (5488, 546, "中", b"\xd6\xd0"),
        (1252, 546, "€", b"\x80"),
    ],
)
def test_text_in_a_character_set(ccsid: int, encoding: int, text: str, expected: bytes) -> None:
    assert text.encode(charset(ccsid, encoding) or "") == expected


@pytest.mark.parametrize("ccsid", [0, -1, -2, -3, 277, 935, 937, 939, 1047, 1388, 99999])
def test_character_sets_that_python_cannot_read_have_no_codec(ccsid: int) -> None:
    assert charset(ccsid) is None
