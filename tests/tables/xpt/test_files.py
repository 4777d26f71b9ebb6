"""Files as they come: several data sets, padding, torn and hostile ones."""

import io
import math
import tracemalloc
from itertools import repeat
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.model.errors import InvalidInputError
from app.tables.xpt.xpt_layouts import RECORD, Version
from app.tables.xpt.xpt_members import Records, decoded, read_members
from app.tables.xpt.xpt_reader import read
from app.tables.xpt.xpt_writer import write
from tests.tables.xpt.tables import VERSIONS, character, file_of, missing, numeric, table, table_of

versions = pytest.mark.parametrize("version", VERSIONS)

LIBRARY_SIZE = 3 * RECORD
"""What a file has once, before its data sets."""


def small(member: str = "ONE", rows: int = 5) -> pa.Table:
    """Rows of 20 bytes, one of them with a special missing value."""
    columns = [[None, *range(rows - 1)], [".B", *[None] * (rows - 1)], ["text"] * rows, ["", *["é"] * (rows - 1)]]
    return table(
        [numeric("X", label="a number"), missing("X"), character("C", 7), character("D", 5)], columns, member=member
    )


def long_things() -> pa.Table:
    """With records for long labels and formats."""
    fields = [numeric("A_LONG_NAME", label="l" * 50, format="ALONGFORMAT8.2"), numeric("Y")]
    return table(fields, [[1.0, 2.0], [3.0, None]], member="LONG")


FILES = {
    "version 5": file_of(small(), 5),
    "version 8": file_of(small(), 8),
    "version 8, long": file_of(long_things(), 8),
    "version 8, no count": file_of(small(), 8, rows=None),
    "two data sets": file_of(small(), 5) + file_of(small("TWO", 3), 5)[LIBRARY_SIZE:],
}

files = pytest.mark.parametrize("name", FILES)


def members(data: bytes) -> list[str]:
    """The names of the data sets in a file."""
    return [decoded(each, "utf-8").name for each in read_members(Records(io.BytesIO(data)))]


def outcome(data: bytes) -> list[dict[str, object]] | InvalidInputError:
    """The rows of the first data set, or why there are none."""
    try:
        return [row for member in members(data)[:1] for row in table_of(data, member=member).to_pylist()]
    except InvalidInputError as error:
        return error


@files
def test_a_file_cut_anywhere_is_refused_or_ends_with_a_whole_row(name: str) -> None:
    data = FILES[name]
    whole = outcome(data)
    assert isinstance(whole, list)
    for size in range(len(data)):
        found = outcome(data[:size])
        if isinstance(found, InvalidInputError):
            assert -1 <= found.at <= size
        else:
            assert size % RECORD == 0
            assert found == whole[: len(found)]
            assert not found or name not in {"version 8", "version 8, long"}
    assert isinstance(outcome(b""), InvalidInputError)


@pytest.mark.parametrize("name", ["version 5", "version 8, long"])
def test_every_damaged_byte_is_refused_or_read(name: str) -> None:
    data = FILES[name]
    for at in range(len(data)):
        outcome(data[:at] + b"\x00 9\xff"[at % 4 : at % 4 + 1] + data[at + 1 :])


@given(st.data())
def test_noise_is_refused_or_read(data: st.DataObject) -> None:
    file = bytearray(data.draw(st.sampled_from(list(FILES.values()))))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(file)))
        noise = data.draw(st.binary(max_size=12) | st.sampled_from([file[:RECORD], file[3 * RECORD : 5 * RECORD]]))
        file[at : at + data.draw(st.sampled_from([0, len(noise)]))] = noise
    outcome(bytes(file))
    outcome(bytes(file[: len(file) // RECORD * RECORD]))


@versions
def test_a_data_set_is_chosen_by_name(version: Version) -> None:
    one, two = small("ONE"), small("TWO", 79)
    data = file_of(one, version) + file_of(two, version)[LIBRARY_SIZE:]
    assert members(data) == ["ONE", "TWO"]
    assert table_of(data, member="ONE").to_pydict() == one.to_pydict()
    assert table_of(data, member="two").to_pydict() == two.to_pydict()
    for wrong in (None, "THREE"):
        with pytest.raises(InvalidInputError, match="ONE, TWO"):
            table_of(data, member=wrong)
    with pytest.raises(InvalidInputError, match="more than one"):
        table_of(data + file_of(one, version)[LIBRARY_SIZE:], member="ONE")
    with pytest.raises(InvalidInputError, match="none"):
        table_of(data[:LIBRARY_SIZE])


def test_an_error_lists_some_of_many_data_sets() -> None:
    one = file_of(small("ONE"), 5)
    with pytest.raises(InvalidInputError, match="ONE, ONE and 30 more"):
        table_of(one + one[LIBRARY_SIZE:] * 49)


@given(st.lists(st.sampled_from(["", "x"]), max_size=90), st.integers(1, 170), st.sampled_from(VERSIONS))
def test_only_blank_rows_in_the_last_record_can_be_lost(values: list[str], length: int, version: Version) -> None:
    written = table([character("C", length)], [values])
    counted = table_of(file_of(written, 8))["C"].to_pylist()
    assert counted == values
    found = table_of(file_of(written, version, rows=None))["C"].to_pylist()
    lost = len(values) - len(found)
    assert found + [""] * lost == values
    last_record = max(0, math.ceil(len(values) * length / RECORD) - 1) * RECORD
    assert not lost or len(found) * length > last_record or (len(found), last_record) == (0, 0)


def test_a_header_record_among_the_observations_ends_them_only_if_a_data_set_follows() -> None:
    header = file_of(small(), 5)[LIBRARY_SIZE : LIBRARY_SIZE + RECORD].decode()
    written = table([character("C", RECORD)], [[header, "between", header, "end"]])
    assert table_of(file_of(written, 5)).to_pydict() == {"C": [value.rstrip() for value in written["C"].to_pylist()]}


def test_descriptions_of_vax_are_shorter() -> None:
    data = file_of(table([numeric("X"), numeric("Y")], [[1.0], [2.0]]), 5)
    at = data.index(b"HEADER RECORD*******NAMESTR") + RECORD
    short = b"".join(data[at + start : at + start + 136] for start in (0, 140))
    shorter = data[:at].replace(b"0140  ", b"0136  ") + short + b" " * (-len(short) % RECORD) + data[at + 320 :]
    assert table_of(shorter).to_pydict() == {"X": [1.0], "Y": [2.0]}


def test_labels_that_are_counted_from_0_go_by_their_names() -> None:
    data = file_of(table([numeric("A"), numeric("B", label="l" * 50)], [[1.0], [2.0]]), 8)
    at = data.index(b"HEADER RECORD*******LABELV8") + RECORD
    assert data[at : at + 2] == b"\0\2"
    for number in (b"\0\1", b"\0\0"):
        again = table_of(data[:at] + number + data[at + 2 :])
        assert again.schema.field("B").metadata[b"sas.label"] == b"l" * 50
        assert b"sas.label" not in again.schema.field("A").metadata


def changed(version: Version, old: bytes, new: bytes) -> bytes:
    data = file_of(small(), version)
    assert old in data
    return data.replace(old, new.ljust(len(old)))


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"**COMPRESSED** " * 16, "xpt-header"),
        (changed(5, b"!!!!!!!0000000003", b"!!!!!!!0000032768"), "xpt-variables"),
        (changed(5, b"!!!!!!!0000000003", b"!!!!!!!0000032767"), "xpt-truncated"),
        (changed(5, b"!!!!!!!0000000003", b"!!!!!!!00000000-3"), "xpt-header"),
        (changed(8, b"!!!!!!!              5", b"!!!!!!!999999999999999"), "xpt-truncated"),
        (changed(8, b"!!!!!!!              5", b"!!!!!!!              x"), "xpt-header"),
        (changed(8, b"!!!!!!!              5", b"!!!!!!!              3"), "xpt-observations"),
        (changed(5, b"0000000140", b"0000000141"), "xpt-header"),
        (changed(5, b"\0\2\0\0\0\7", b"\0\2\0\0\x80\0"), "xpt-variable"),
        (changed(5, b"\0\2\0\0\0\7", b"\0\2\0\0\0\0"), "xpt-variable"),
        (changed(5, b"\0\1\0\0\0\x08", b"\0\1\0\0\0\x09"), "xpt-variable"),
        (changed(5, b"\0\1\0\0\0\x08", b"\0\3\0\0\0\x08"), "xpt-variable"),
        (changed(5, b"\0\2\0\0\0\7", b"\0\2\0\0\x70\7"), "xpt-truncated"),
        (
            FILES["version 8, long"].replace(b"LABELV9 HEADER RECORD!!!!!!!1", b"LABELV9 HEADER RECORD!!!!!!!9"),
            "xpt-truncated",
        ),
        (
            FILES["version 8, long"].replace(b"\0\1\0\x0b", b"\0\x09\0\x0b").replace(b"A_LONG_NAMEl", b"X_LONG_NAMEl"),
            "xpt-variable",
        ),
    ],
)
def test_a_hostile_file_is_refused_before_memory_is_taken(data: bytes, code: str) -> None:
    outcome(file_of(small(), 5))
    tracemalloc.start()
    try:
        found = outcome(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(found, InvalidInputError)
    assert (found.code, 0 <= found.at <= len(data)) == (code, True)
    assert peak < 1 << 20


def test_observations_of_no_bytes_are_none() -> None:
    empty = pa.table([], schema=pa.schema([], {"sas.member": "EMPTY"}))
    for version in VERSIONS:
        data = file_of(empty, version)
        assert table_of(data).num_columns == 0
        torn = outcome(data + b"x" * RECORD)
        assert isinstance(torn, InvalidInputError)


def test_a_file_that_becomes_shorter_is_refused() -> None:
    file = io.BytesIO(file_of(small(rows=1000), 5))
    found = read(file)
    file.truncate(file.seek(0, 2) - RECORD)
    with pytest.raises(InvalidInputError, match="shorter"):
        list(found.batches())


@pytest.mark.parametrize("charset", ["cp037", "utf-16", "nonsense", "base64"])
def test_a_character_set_without_ascii_is_refused(charset: str) -> None:
    with pytest.raises(InvalidInputError, match="character set"):
        table_of(FILES["version 5"], charset=charset)
    with pytest.raises(InvalidInputError, match="character set"):
        file_of(small(), 5, charset=charset)


def test_a_table_in_ebcdic_is_written_in_latin_1() -> None:
    written = table([character("C", 2)], [["é"]], encoding="cp037")
    assert "é ".encode("latin-1") in file_of(written, 5)


def test_thousands_of_equal_names_are_told_apart() -> None:
    data = file_of(table([numeric("X")], [[]]), 5)
    at = data.index(b"HEADER RECORD*******NAMESTR")
    count = 20_000
    described = data[at + RECORD : at + RECORD + 140] * count
    header = data[at : at + RECORD].replace(b"0000000001", b"%010d" % count)
    found = read(io.BytesIO(data[:at] + header + described + data[-RECORD:]))
    assert found.schema.names[:3] == ["X", "X_2", "X_3"]
    assert len(set(found.schema.names)) == count


@versions
def test_memory_is_flat(version: Version, tmp_path: Path) -> None:
    batch = table([numeric("X"), character("C", 192)], [[1.5] * 4096, ["text"] * 4096]).to_batches()[0]
    batches = 50
    path = tmp_path / "large.xpt"
    tracemalloc.start()
    try:
        with path.open("wb") as file:
            for piece in write(batch.schema, repeat(batch, batches), version, rows=batches * batch.num_rows):
                file.write(piece)
        with path.open("rb") as file:
            assert sum(found.num_rows for found in read(file).batches()) == batches * batch.num_rows
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert path.stat().st_size > 40_000_000
    assert peak < 12 << 20
