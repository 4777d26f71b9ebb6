"""The fast ways of reading and writing texts against the plain one."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.dataset import character_columns
from app.dataset.conversion_error import BadValueError
from tests.dataset.test_bytes import CHARSETS

ALL = (*CHARSETS, "ibm1047", "ibm1141", "koi8-r", "cp1255", "cp932", "euc-jp", "gbk", "utf-16-le", "hz")
WORDS = ["", " ", "plain text", "äöü", "€", "日本語", "한국어", "\n", "a\nb", "\N{REPLACEMENT CHARACTER}", "שלום", "ж"]


def plainly(cell: bytes, charset: str) -> tuple[str, bytes | None]:
    """A value, and its bytes if they do not decode."""
    try:
        return cell.decode(charset).rstrip(" "), None
    except UnicodeError:
        return cell.decode(charset, "replace").rstrip(" "), cell


@pytest.mark.parametrize("charset", ALL)
@settings(max_examples=40)
@given(data=st.data())
def test_columns_are_read_as_their_values_one_by_one(data: st.DataObject, charset: str) -> None:
    length = data.draw(st.integers(1, 12))
    words = st.sampled_from([word.encode(charset, "ignore") for word in WORDS])
    cell = words.map(lambda word: word[:length].ljust(length, b"\x40" if charset.startswith(("cp0", "ibm")) else b" "))
    cells = data.draw(st.lists(cell | st.binary(min_size=length, max_size=length), max_size=8))
    found = character_columns.read(np.frombuffer(b"".join(cells), np.uint8).reshape(-1, length), charset)
    found.strings.validate(full=True)
    damaged = [None] * len(cells) if found.damaged is None else found.damaged.to_pylist()
    assert list(zip(found.strings.to_pylist(), damaged, strict=True)) == [plainly(cell, charset) for cell in cells]
    assert (found.damaged is None) == (not any(damaged))


@pytest.mark.parametrize("charset", ALL)
@settings(max_examples=40)
@given(data=st.data())
def test_columns_are_written_as_their_values_one_by_one(data: st.DataObject, charset: str) -> None:
    values = data.draw(st.lists(st.none() | st.sampled_from(WORDS), min_size=1, max_size=8))
    try:
        expected = [(value or "").rstrip(" ").encode(charset) for value in values]
    except UnicodeEncodeError:
        with pytest.raises(BadValueError) as refused:
            character_columns.longest(pa.array(values, pa.string()), charset)
        wrong = values[refused.value.row]
        assert wrong is not None
        assert wrong.encode(charset, "ignore").decode(charset) != wrong
        return
    assert character_columns.longest(pa.array(values, pa.string()), charset) == max(map(len, expected))
    if charset != "utf-16-le":
        length, blank = max(1, *map(len, expected)), " ".encode(charset)
        written = character_columns.encode(pa.array(values, pa.string()), length, charset)
        assert written.tobytes() == b"".join(value.ljust(length, blank) for value in expected)


def test_damaged_values_are_written_as_they_came() -> None:
    strings, damaged = pa.array(["a", "\N{REPLACEMENT CHARACTER}", None]), pa.array([None, b"\xff", None], pa.binary())
    assert character_columns.encode(strings, 2, "latin-1", damaged).tobytes() == b"a \xff   "
    assert character_columns.longest(strings, "latin-1", damaged) == 1
    with pytest.raises(BadValueError) as refused:
        character_columns.encode(strings, 2, "latin-1", pa.array([None, b"\xff\xff\xff", None], pa.binary()))
    assert refused.value.row == 1


@pytest.mark.parametrize("charset", ["euc_jp", "shift_jis", "euc-jp"])
@pytest.mark.parametrize("sign", ["\u00a5", "\u203e"])
def test_what_would_not_come_back_is_refused(charset: str, sign: str) -> None:
    with pytest.raises(BadValueError) as refused:
        character_columns.longest(pa.array(["日本", f"{sign}100"]), charset)
    assert refused.value.row == 1
