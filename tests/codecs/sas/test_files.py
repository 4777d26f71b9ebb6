"""The records of a file: one stream, however it is cut into messages."""

from dataclasses import replace
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from app.codecs.sas.dialect import ALL, DIALECTS, Dialect, mask_of
from app.codecs.sas.file_messages import (
    FileDescription,
    RecordTotals,
    detect,
    length_contradiction,
    read_file_description,
    record_start,
    size_contradiction,
    spans,
    tried_first,
    write_file_description,
    write_records,
)
from app.wire import WireError
from app.wire.kinds import Buffer, Nul, Order
from tests.codecs.sas.samples import dialects, records

contents = st.lists(st.binary(max_size=40), max_size=20)
packed = st.sampled_from([dialect for dialect in DIALECTS if not dialect.aligned])


def cut(stream: bytes, at: list[int]) -> list[bytes]:
    edges = sorted({0, len(stream), *(place % (len(stream) + 1) for place in at)})
    return [stream[start:end] for start, end in pairwise(edges)]


def with_nuls(content: list[bytes], dialect: Dialect) -> bytes:
    """Records whose NUL follows the rule that a dialect has for strings."""
    stream = b""
    for record in content:
        ended = dialect.nul in {"excluded", "included"} or (dialect.nul == "excluded_nonempty" and bool(record))
        length = len(record) + (dialect.nul == "included")
        stream += length.to_bytes(dialect.long, "big" if dialect.order == ">" else "little") + record + b"\0" * ended
    return stream


@given(contents, dialects, st.integers(9, 120))
def test_what_is_written_is_read(content: list[bytes], dialect: Dialect, limit: int) -> None:
    parts = list(write_records(content, dialect, limit))
    assert all(0 < len(part) <= limit for part in parts)
    found = detect(lambda: parts, mask_of(dialect))
    assert found == replace(dialect, nul="absent")
    assert [bytes(record) for record in records(parts, found)] == content


@given(contents, st.integers(9, 120))
def test_only_a_record_that_does_not_fit_a_message_is_cut(content: list[bytes], limit: int) -> None:
    parts = list(write_records(content, Dialect(), limit))
    is_cut = any(not ends for *_, ends in spans(parts, Dialect(nul="absent")))
    assert is_cut == any(len(record) + 4 > limit for record in content)


@given(contents, packed, st.lists(st.integers(0, 2000), max_size=12), st.booleans())
def test_a_stream_may_be_cut_anywhere(content: list[bytes], dialect: Dialect, places: list[int], viewed: bool) -> None:
    pieces = cut(with_nuls(content, dialect), places)
    parts: list[Buffer] = [memoryview(piece) if viewed else piece for piece in pieces]
    assert [bytes(record) for record in records(parts, dialect)] == content
    joined, ends = [b""], 0
    for index, start, length, is_end in spans(parts, dialect):
        joined[-1] += bytes(parts[index][start : start + length])
        ends += is_end
        if is_end:
            joined.append(b"")
    assert (joined[:-1], ends) == (content, len(content))


@given(contents, packed, st.integers(1, 2000), st.lists(st.integers(0, 2000), max_size=4))
def test_a_stream_that_ends_early_is_an_error(
    content: list[bytes], dialect: Dialect, missing: int, places: list[int]
) -> None:
    stream = with_nuls(content, dialect)
    ends = {len(with_nuls(content[:count], dialect)) for count in range(len(content) + 1)}
    within = sorted({*range(len(stream))} - ends)
    assume(within)
    size = within[missing % len(within)]
    with pytest.raises(WireError, match="the last record is incomplete") as raised:
        list(records(cut(stream[:size], places), dialect))
    assert raised.value.at == size


@given(st.binary(max_size=80), dialects, st.lists(st.integers(0, 80), max_size=4))
def test_noise(noise: bytes, dialect: Dialect, places: list[int]) -> None:
    try:
        found = list(records(cut(noise, places), dialect))
    except WireError:
        return
    assert sum(map(len, found)) <= len(noise)


@pytest.mark.parametrize("nul", ["absent", "excluded"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_a_nul_behind_each_record_is_recognised(nul: Nul, order: Order) -> None:
    dialect = Dialect(order, nul=nul)
    content = [b"line %d" % number for number in range(50)]
    stream = with_nuls(content, dialect)
    for parts in ([stream], cut(stream, [33, 100, 101, 300])):
        found = detect(partial(iter, parts), mask_of(replace(dialect, nul="included")))
        assert found == dialect
        assert list(records(parts, found)) == content


def test_detection_walks_the_whole_file_where_its_beginning_does_not_tell() -> None:
    first = b"\0" * 70_000
    parts = list(write_records([first, b"second"], Dialect("<"), 32_000))
    assert len(parts) == 3
    assert detect(lambda: parts, mask_of(Dialect("<"), Dialect(">"))) == Dialect("<", nul="absent")


def test_detection_of_an_empty_file() -> None:
    assert detect(list, mask_of(Dialect("<", 8))) == Dialect("<", 8, "absent")


def test_detection_tells_how_far_the_best_dialect_came() -> None:
    parts = [*write_records([b"record"] * 9, Dialect(), 100), b"\0\0\0\x09half"]
    with pytest.raises(WireError, match="the last record is incomplete: 5 bytes") as raised:
        detect(lambda: parts, mask_of(Dialect()))
    assert raised.value.at == 9 * 10 + 8


@pytest.mark.parametrize("length", ["FFFFFFFF", "80000000"])
def test_a_negative_length_is_an_error_at_its_byte(length: str) -> None:
    parts = [b"\0\0\0\1A" + bytes.fromhex(length[:4]), bytes.fromhex(length[4:]) + b"BC"]
    with pytest.raises(WireError) as raised:
        list(records(parts, Dialect(nul="absent")))
    assert (raised.value.row, raised.value.at) == ("Record.length", 5)


def test_a_record_without_its_nul_is_an_error_at_its_byte() -> None:
    with pytest.raises(WireError, match="expected a NUL after the record, found 42") as raised:
        list(records([b"\0\0\0\1A\0\0\0\0\1", b"AB"], Dialect()))
    assert raised.value.at == 11


def test_a_huge_length_takes_no_memory() -> None:
    parts = [b"\x7f\xff\xff\xff" + bytes(100)]
    with pytest.raises(WireError, match="the last record is incomplete: 2147483547 bytes"):
        list(records(parts, Dialect(nul="absent")))


def test_a_limit_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="no room"):
        list(write_records([b"x"], Dialect(), 4))


@given(st.integers(0, 1 << 20), st.integers(0, 1 << 40), dialects)
def test_a_file_description(lrecl: int, filesize: int, dialect: Dialect) -> None:
    body = write_file_description(FileDescription(lrecl, filesize), dialect)
    found, mask = read_file_description(body, mask_of(dialect))
    modulus = 1 << 32 if dialect.long == 4 else 1 << 64
    assert (found, mask) == (FileDescription(lrecl, filesize % modulus), mask_of(dialect))


def test_a_file_description_has_its_own_width_and_the_smaller_record_length() -> None:
    description = FileDescription(80, 4000)
    body = write_file_description(description, Dialect("<", 4))
    found, mask = read_file_description(body, ALL)
    assert found == description
    assert mask == mask_of(*(dialect for dialect in DIALECTS if dialect.order == "<"))


@pytest.mark.parametrize("body", [b"", b"1234567", b"123456789", bytes(17), b"\xff" * 8])
def test_no_file_description(body: bytes) -> None:
    with pytest.raises(WireError):
        read_file_description(body, ALL)


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=20), packed, st.lists(st.integers(0, 2000), max_size=5))
def test_a_nul_that_lengths_count_is_none_of_a_text(content: list[bytes], dialect: Dialect, places: list[int]) -> None:
    included = replace(dialect, nul="included")
    parts = cut(with_nuls(content, included), places)
    found = detect(lambda: parts, mask_of(dialect), text=True)
    assert found == included
    assert [bytes(record) for record in records(parts, found)] == content
    assert detect(lambda: parts, mask_of(dialect)).nul != "included"


@given(contents, packed)
def test_a_text_of_which_not_every_record_ends_in_a_nul_keeps_them(content: list[bytes], dialect: Dialect) -> None:
    parts = [with_nuls([*content, b"\0", b"plain"], replace(dialect, nul="absent"))]
    found = detect(lambda: parts, mask_of(dialect), text=True)
    assert [bytes(record) for record in records(parts, found)] == [*content, b"\0", b"plain"]


@pytest.mark.parametrize("size", [0, 30, 33, 36, 42, 32, 34, 240, 30 + (1 << 32)])
def test_a_size_that_can_be_meant_is_no_contradiction(size: int) -> None:
    description, totals = FileDescription(80, size), RecordTotals(count=3, size=30, longest=20)
    assert size_contradiction(description, totals, of_lines=True) is None
    is_of_bytes = size % (1 << 32) in {0, 30, 240}
    assert (size_contradiction(description, totals, of_lines=False) is None) == is_of_bytes, (
        "a binary file has no lines"
    )


def test_what_contradicts_the_description_is_said() -> None:
    description, totals = FileDescription(10, 77_777), RecordTotals(count=1, size=11, longest=11)
    said = "the sender announced 77777 bytes, but 11 were received in 1 records"
    assert size_contradiction(description, totals, of_lines=True) == said
    said = "the sender announced records of at most 10 bytes, but the longest has 11"
    assert length_contradiction(description, totals) == said
    assert length_contradiction(FileDescription(0, 0), totals) is None


@given(st.binary(max_size=12), dialects)
def test_a_part_that_is_one_record_is_read_as_by_detection(body: bytes, dialect: Dialect) -> None:
    mask = mask_of(dialect)
    first = tried_first(mask)
    for part in (body, len(body).to_bytes(dialect.long, "big" if dialect.order == ">" else "little") + body):
        start = None if first is None else record_start([part, part], first)
        if first is not None:
            assert record_start([part, part + b"x"], first) is None
        if start is not None:
            chosen = detect(partial(list, [part]), mask)
            assert chosen == first
            assert [each[1:3] for each in spans([part], chosen)] == [(start, len(part) - start)]
