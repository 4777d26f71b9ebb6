"""Documents that ask for missing parts: any bytes are a value or an error of ours."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.codecs.missing_parts.request_documents import (
    HIGHEST,
    LONGEST,
    MOST_RANGES,
    Document,
    MissingParts,
    PartsGone,
    read_document,
    spoken,
    write_document,
)
from app.wire import WireError

GIVEN = {"type": "missing", "version": 1, "framing": "sas_queue", "attachment": "0a" * 16}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
)
NUMBERS = st.sets(st.integers(1, HIGHEST), max_size=2 * MOST_RANGES).map(sorted)


@st.composite
def documents(draw: st.DrawFn) -> Document:
    framing, key = draw(st.text(max_size=20)), draw(st.binary(min_size=1, max_size=24))
    is_gone, is_open, header, total = (draw(st.booleans()) for _ in range(4))
    if is_gone:
        return PartsGone(framing, key, draw(st.text(max_size=50)))
    numbers = draw(NUMBERS)
    ranges: list[tuple[int, int | None]] = [*zip(numbers[::2], numbers[1::2], strict=False)]
    if ranges and is_open:
        ranges[-1] = (ranges[-1][0], None)
    return MissingParts(framing, key, tuple(ranges), header, total, draw(st.integers(1, 9)))


@given(documents())
def test_what_was_written_is_read(document: Document) -> None:
    assert read_document(write_document(document)) == document


@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
@example(b"[" * LONGEST)
@example(b'{"type": ' + b"[" * 900 + b"]" * 900 + b"}")
@example(b"1" * 5000)
def test_any_bytes_are_refused_by_an_error_of_ours(body: bytes) -> None:
    with pytest.raises(WireError):
        read_document(body)


WRONG: list[tuple[str, Any]] = [
    *(("type", each) for each in ("", "Missing", None, ["missing"])),
    *(("version", each) for each in (0, 2, True, 1.0, "1", None)),
    *(("framing", each) for each in (None, 1, "x" * 81)),
    *(("attachment", each) for each in ("", "0", "0g", "0a" * 25, None, 1)),
    ("parts", [[2, 1]]),
    ("parts", [[1, None], [5, 6]]),
    ("parts", [[0, 1]]),
    ("parts", [[1, HIGHEST + 1]]),
    ("parts", [[1]]),
    ("parts", [1]),
    ("parts", {}),
    ("parts", None),
    ("parts", [[each, each] for each in range(1, MOST_RANGES + 2)]),
    *(("parts", [[1, 2], [each, 3]]) for each in (1, 2, True, 2.5, "3")),
    *((flag, each) for flag in ("header", "count") for each in (1, 0, "true", None)),
    *(("request", each) for each in (0, -1, True, 1.5, "1", None)),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_one_wrong_member_is_named(name: str, value: Any) -> None:
    with pytest.raises(WireError) as raised:
        read_document(json.dumps(GIVEN | {name: value}).encode())
    assert raised.value.row == name


def test_a_request_as_the_documentation_has_it() -> None:
    body = b"""{"type": "missing", "version": 1, "framing": "sas_queue", "later": {}, "request": 1,
        "attachment": "000102030405060708090A0B0C0D0E0F", "parts": [[2, 3], [7, 7], [12, null]], "count": true}"""
    asked = read_document(body)
    assert isinstance(asked, MissingParts)
    assert [number for number in range(1, 20) if asked.has(number)] == [2, 3, 7, *range(12, 20)]
    assert (asked.attachment, asked.header, asked.total) == (bytes(range(16)), False, True)
    assert spoken(asked) == "parts 2-3, 7, 12 and all that follow, count"
    assert read_document(b'{"type":"gone","version":1,"framing":"mq_group","attachment":"01"}') == PartsGone(
        "mq_group", b"\x01"
    )
    with pytest.raises(WireError, match="version 1 is known"):
        read_document(b'{"type":"gone","version":2,"framing":"mq_group","attachment":"01"}')
