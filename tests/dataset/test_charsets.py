"""No text changes the next one, in any character set that is accepted."""

from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Annotated

import numpy as np
import pyarrow as pa

from app.codecs.charset_text import TextDecoder
from app.dataset import character_columns
from app.wire import Chars, Context, Layout, row
from tests.support.cases import for_each
from tests.support.charsets import WORDS, every_codec

LENGTH = 12
BEGINNINGS = (
    b"\x1b$B",
    b"\x1b$A",
    b"\x1b$)C\x0e",
    b"\x1b$)A\x0e",
    b"\x0e",
    b"~{",
    b"+AGE",
    b"\x8e\xa2",
    b"\x81",
    b"\xe4\xb8",
)
"""What begins a character, or shifts the meaning of what follows."""

codecs = for_each("codec", every_codec())


class Two(Layout):
    """Two texts of a header, one behind the other."""

    one: Annotated[str, Chars(LENGTH)] = row("a text", default="")
    two: Annotated[str, Chars(LENGTH)] = row("a text", default="")


def cells(codec: str) -> list[bytes]:
    """Cells that end within a character, or in another state than they began."""
    dice = Random(codec)
    words = [word.encode(codec, "ignore")[:LENGTH] for word in WORDS]
    cut = [raw[:size] for raw in words for size in (len(raw) - 1, len(raw) - 2) if size > 0]
    begun = [b"ab" + beginning for beginning in BEGINNINGS]
    noise = [dice.randbytes(LENGTH) for _ in range(40)]
    found = [raw.ljust(LENGTH, b" ") for raw in (*words, *cut, *begun, *noise, b"!0", b"plain")]
    found += [raw.rjust(LENGTH, b"a") for raw in (*cut, *begun)]
    return [*found, *dice.sample(found, len(found))]


def unpadded(raw: bytes, codec: str) -> bytes:
    return raw.rstrip(b" ") if " ".encode(codec) == b" " else raw


def alone(raw: bytes, codec: str) -> str:
    return unpadded(raw, codec).decode(codec, "replace").rstrip(" ")


@codecs
def test_each_cell_of_a_column_is_decoded_alone(codec: str) -> None:
    raw = cells(codec)
    for some in (
        raw,
        [each for each in raw if character_columns.decodes(each, codec)],
        [each for each in raw if each.isascii()],
    ):
        found = character_columns.read(np.frombuffer(b"".join(some), np.uint8).reshape(-1, LENGTH), codec)
        for each, string, beside in zip(some, found.strings.to_pylist(), kept(found, len(some)), strict=True):
            if character_columns.decodes(unpadded(each, codec), codec):
                assert (string, beside) == (alone(each, codec), None)
            else:
                assert beside == each


@codecs
def test_each_text_that_was_read_as_latin_1_is_decoded_alone(codec: str) -> None:
    """The blanks at the end of such texts are not known, as in sas7bdat files."""
    if len(" ".encode(codec)) != 1:
        return
    raw = [each.rstrip(b" ") for each in cells(codec)]
    found = character_columns.reread(pa.array([each.decode("latin-1") for each in raw], pa.string()), codec)
    for each, string, bytes_ in zip(raw, found.strings.to_pylist(), kept(found, len(raw)), strict=True):
        if character_columns.decodes(each, codec):
            assert string == alone(each, codec)
        else:
            assert bytes_ is not None
            assert bytes_.startswith(each)


def kept(found: character_columns.CharacterColumn, rows: int) -> Sequence[bytes | None]:
    return [None] * rows if found.damaged is None else found.damaged.to_pylist()


@codecs
def test_each_text_of_a_header_is_decoded_alone(codec: str) -> None:
    if len(" ".encode(codec)) != 1:
        return
    raw = [each for each in cells(codec) if character_columns.decodes(each, codec)]
    for one, two in pairwise(raw):
        found, _ = Two.decode(one + two, 0, Context(charset=codec))
        assert (found.one, found.two) == tuple(each.decode(codec).rstrip("\0 ") for each in (one, two))


@codecs
def test_each_file_of_text_is_decoded_alone(codec: str) -> None:
    """In pieces of one byte as well as at once."""
    if codec in {"utf-16", "utf-32"}:
        return  # the order of their bytes is decided by the beginning of a text, not by the codec
    for raw in cells(codec):
        if character_columns.decodes(raw, codec):
            for pieces in ([raw], [raw[at : at + 1] for at in range(len(raw))]):
                assert "".join(TextDecoder(codec).decode(pieces)) == raw.decode(codec).removeprefix("\ufeff")
