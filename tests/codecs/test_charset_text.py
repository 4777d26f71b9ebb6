"""Text decoded piece by piece is the text decoded at once."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.codecs import code_pages
from app.codecs.charset_text import TextDecoder

code_pages.register()

CODECS = ["ascii", "utf-8", "utf-16-be", "utf-16-le", "cp037", "ibm1047", "cp1252", "euc-jp", "gb18030", "cp932"]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(edges)]


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.binary(max_size=60), places=st.lists(st.integers(0, 60), max_size=8))
def test_any_bytes_however_cut_give_the_same_text_and_count(codec: str, data: bytes, places: list[int]) -> None:
    whole, pieces = TextDecoder(codec), TextDecoder(codec)
    text = "".join(whole.decode([data]))
    assert "".join(pieces.decode(cut(data, places))) == text
    assert (pieces.undecodable, pieces.first) == (whole.undecodable, whole.first)
    assert (whole.undecodable > 0) == (whole.first is not None)
    if not whole.undecodable and not codec.startswith("utf"):
        assert text == data.decode(codec)


@pytest.mark.parametrize("codec", CODECS)
@given(text=st.text(alphabet="az 09\n.,", max_size=60))
def test_what_is_encoded_decodes(codec: str, text: str) -> None:
    decoder = TextDecoder(codec)
    assert "".join(decoder.decode([text.encode(codec)])) == text
    assert (decoder.undecodable, decoder.first) == (0, None)


def test_undecodable_bytes_are_counted_and_placed() -> None:
    decoder = TextDecoder("utf-8")
    assert "".join(decoder.decode([b"ab\xc3", b"\xa4c\xff\xfed"])) == "abäc\ufffd\ufffdd"
    assert (decoder.undecodable, decoder.first) == (2, 5)


@pytest.mark.parametrize("mark", ["utf-16-be", "utf-16-le"])
def test_a_byte_order_mark_decides(mark: str) -> None:
    decoder = TextDecoder("utf-16-be")
    data = ("\ufeff" + "größer").encode(mark)
    assert "".join(decoder.decode([data[:1], data[1:5], data[5:]])) == "größer"
    assert decoder.undecodable == 0
