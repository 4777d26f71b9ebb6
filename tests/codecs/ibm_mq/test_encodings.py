"""Encoding and CodedCharSetId in Python's terms."""

import codecs

import pytest

from app.codecs import code_pages
from app.codecs.ibm_mq import encodings
from app.codecs.ibm_mq.encodings import charset, float_format, integer_order, is_ebcdic


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        (0, (None, None)),
        (273, (">", "ieee-big")),
        (546, ("<", "ieee-little")),
        (785, (">", "s390")),
        (0x400 | 0x10 | 1, (">", "tns")),
        (0x10 | 2, ("<", None)),
        (0xFFF, (None, None)),
        (-1, (None, None)),
    ],
)
def test_the_bits_of_an_encoding(encoding: int, expected: tuple[object, ...]) -> None:
    assert (integer_order(encoding), float_format(encoding)) == expected


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
        (1201, 546, "A", b"\0A"),
        (1202, 273, "A", b"A\0"),
        (1203, 273, "A", b"A\0"),
        (1204, 546, "A", b"\0A"),
        (1205, 546, "A", b"\0A"),
        (1386, 546, "中", b"\xd6\xd0"),
        (5488, 546, "中", b"\xd6\xd0"),
        (1252, 546, "€", b"\x80"),
    ],
)
def test_text_in_a_character_set(ccsid: int, encoding: int, text: str, expected: bytes) -> None:
    assert text.encode(charset(ccsid, encoding) or "") == expected


@pytest.mark.parametrize("ccsid", [0, -1, -2, -3, 870, 935, 937, 939, 964, 1025, 1233, 1388, 99999])
def test_character_sets_that_python_cannot_read_have_no_codec(ccsid: int) -> None:
    assert charset(ccsid) is None


@pytest.mark.parametrize("ccsid", [37, 273, 424, 500, 875, 1026, 1140, *code_pages.HOST_CCSIDS])
def test_code_pages_have_what_headers_hold_in_one_place(ccsid: int) -> None:
    """Capitals, digits, blank, full stop, slash, percent and underscore: what names of queues may hold."""
    text = "ABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789./%_"
    assert text.encode(charset(ccsid) or "") == text.encode("cp500")
    assert is_ebcdic(ccsid)


def test_every_known_character_set_is_ebcdic_or_ascii() -> None:
    text = "ABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789"
    for ccsid, codec in encodings._CHARSETS.items():
        expected = text.encode("cp500") if is_ebcdic(ccsid) else text.encode()
        assert text.encode(codec) == expected, ccsid
    assert [is_ebcdic(ccsid) for ccsid in (277, 1047, 1025, 1388, 1208, 1200, 0, -2)] == [True] * 4 + [False] + [
        None
    ] * 3


@pytest.mark.parametrize("ccsid", code_pages.HOST_CCSIDS)
def test_added_code_pages_read_what_they_write(ccsid: int) -> None:
    """Every byte is a character, and every character one byte, as with all code pages of Latin letters."""
    raw, codec = bytes(range(256)), charset(ccsid) or ""
    text = str(raw, codec)
    assert text.encode(codec) == raw
    latin = bytes(range(256)).decode("latin-1")
    assert set(text) <= set(latin) | {"€", "‾"}
    assert {character for character in latin if character.isalpha()} <= set(text)


def test_the_brackets_of_z_os() -> None:
    """What tells code page 1047 from 037: brackets, caret, not sign, Y with acute accent, diaeresis."""
    assert str(bytes.fromhex("AD BD 5F B0 BA BB 4F"), "ibm1047") == "[]^¬Ý¨|"


@pytest.mark.parametrize(
    ("ccsid", "other", "place"),
    [
        (37, 1140, 0x9F),
        (277, 1142, 0x5A),
        (278, 1143, 0x5A),
        (280, 1144, 0x9F),
        (284, 1145, 0x9F),
        (285, 1146, 0x9F),
        (297, 1147, 0x9F),
        (500, 1148, 0x9F),
        (871, 1149, 0x9F),
        (850, 858, 0xD5),
    ],
)
def test_the_euro_is_what_tells_two_code_pages_apart(ccsid: int, other: int, place: int) -> None:
    raw = bytes(range(256))
    one, another = str(raw, charset(ccsid) or ""), str(raw, charset(other) or "")
    assert [at for at in range(256) if one[at] != another[at]] == [place]
    assert another[place] == "€"
