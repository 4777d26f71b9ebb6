"""Table -> transport file -> table."""

import math
from datetime import date, datetime, time, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.model.errors import InvalidInputError
from app.tables.xpt.xpt_layouts import Version
from tests.tables.read.reading import defined
from tests.tables.xpt.tables import VERSIONS, character, file_of, missing, numeric, table, table_of

LEAST, GREATEST = 5.4e-79, 7.2e75
TAGS = [f".{letter}" for letter in "_ABCDEFGHIJKLMNOPQRSTUVWXYZ"]

versions = pytest.mark.parametrize("version", VERSIONS)
numbers = (
    st.floats(LEAST, GREATEST) | st.floats(-GREATEST, -LEAST) | st.just(0.0) | st.integers(-(2**53), 2**53).map(float)
)
cells = st.none() | numbers | st.sampled_from(TAGS)
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5).map(lambda text: text.rstrip(" "))


@given(st.lists(st.tuples(cells, cells, texts), max_size=30), st.sampled_from(VERSIONS), st.integers(1, 3))
def test_values_and_special_missing_values_come_back(rows: list[Any], version: Version, cut: int) -> None:
    first, second, third = zip(*rows, strict=True) if rows else ((), (), ())
    fields, columns = [], []
    for name, column in (("X", first), ("Y", second)):
        fields.append(numeric(name))
        columns.append([None if isinstance(cell, str) else cell for cell in column])
        if any(isinstance(cell, str) for cell in column):
            fields.append(missing(name))
            columns.append([cell if isinstance(cell, str) else None for cell in column])
    written = table([*fields, character("C", 20)], [*columns, third])
    batched = pa.Table.from_batches(written.to_batches(max_chunksize=cut), written.schema)
    again = table_of(file_of(batched, version))
    assert again.column_names == written.column_names
    assert again.to_pydict() == written.to_pydict()


@versions
def test_dates_and_times_come_back_in_their_types(version: Version) -> None:
    moment = datetime(2024, 2, 29, 12, 30, 15, 250_000)
    columns: dict[str, tuple[pa.Array, str]] = {
        "D": (pa.array([date(1960, 1, 1), None, date(1959, 12, 31)]), "DATE9."),
        "S": (pa.array([moment, None, datetime(1582, 10, 15)], pa.timestamp("us")), "DATETIME22.3"),
        "T": (pa.array([time(0), None, time(23, 59, 59, 5)], pa.time64("us")), "TIME8."),
        "L": (pa.array([timedelta(hours=-3), None, timedelta(days=2)], pa.duration("us")), "TIME8."),
    }
    written = table(
        [numeric(name, column.type, format=reference) for name, (column, reference) in columns.items()],
        [column for column, _ in columns.values()],
    )
    again = table_of(file_of(written, version))
    assert again.schema.types == written.schema.types
    assert again.to_pydict() == written.to_pydict()
    assert [field.metadata[b"sas.format"] for field in again.schema] == [
        reference.encode() for _, reference in columns.values()
    ]


@versions
def test_what_a_table_says_of_itself_comes_back(version: Version) -> None:
    written = table(
        [
            numeric("N", label="a number", format="COMMA12.2", informat="8.", length="4"),
            numeric("M", format="10.1", length="8"),
            character("C", 7, label="é and blanks  inside", format="$CHAR7.", informat="$UPCASE7."),
        ],
        [[1.5], [None], ["ab"]],
        member="SALES",
        label="what was sold",
        dataset_type="DATA",
        encoding="latin-1",
    )
    again = table_of(file_of(written, version), charset="latin-1")
    assert again.to_pydict() == written.to_pydict()
    for key in (b"sas.member", b"sas.label", b"sas.dataset_type", b"sas.encoding"):
        assert again.schema.metadata[key] == written.schema.metadata[key]
    for kept, field in zip(written.schema, again.schema, strict=True):
        for key, value in kept.metadata.items():
            assert field.metadata[key] == value


def test_long_names_labels_and_formats_come_back_from_version_8() -> None:
    name = "A_name of 32 bytes with blanks-é"[:31]
    written = table(
        [
            numeric(name, label="l" * 256, format="ALONGFORMATNAMEINDEED12.2"),
            numeric("plain"),
            numeric("LABEL_ONLY", label="m" * 41, format="BEST12."),
            character("C", 300, informat="$ANOTHERLONGNAME300."),
        ],
        [[1.0], [2.0], [3.0], ["x" * 300]],
        member="A_MEMBER_OF_VERSION_8_WITH_32_BY",
    )
    again = table_of(file_of(written, 8))
    assert again.to_pydict() == written.to_pydict()
    assert again.schema.metadata[b"sas.member"] == b"A_MEMBER_OF_VERSION_8_WITH_32_BY"
    for kept, field in zip(written.schema, again.schema, strict=True):
        for key, value in kept.metadata.items():
            assert field.metadata[key] == value


def test_version_5_has_capitals() -> None:
    assert table_of(file_of(table([numeric("price")], [[1.0]]), 5)).column_names == ["PRICE"]
    assert table_of(file_of(table([numeric("price")], [[1.0]]), 8)).column_names == ["price"]


@versions
def test_numerics_keep_their_lengths(version: Version) -> None:
    fields = [numeric(f"L{length}", length=str(length)) for length in range(3, 9)]
    values = [[float(2 ** (8 * length - 11)), -0.5, None] for length in range(3, 8)] + [[math.pi, -1 / 3, None]]
    again = table_of(file_of(table(fields, values), version))
    assert list(again.to_pydict().values()) == values
    assert [field.metadata[b"sas.length"] for field in again.schema] == [b"3", b"4", b"5", b"6", b"7", b"8"]


@versions
@pytest.mark.parametrize("value", [1e76, -1e76, 1e-80, math.inf])
def test_a_number_beyond_the_range_is_refused_with_its_row(version: Version, value: float) -> None:
    with pytest.raises(InvalidInputError, match="observation 2") as refused:
        file_of(table([numeric("X")], [[1.0, value]]), version)
    assert refused.value.row == "X"


@versions
def test_bytes_that_did_not_decode_come_back(version: Version) -> None:
    data = file_of(table([character("C", 3)], [["aé", "b"]]), version, charset="latin-1")
    read = table_of(data)
    assert read.column_names == ["C", "C__bytes"]
    assert read["C__bytes"].to_pylist() == [b"a\xe9 ", None]
    assert file_of(read, version) == data


@versions
def test_the_same_table_makes_the_same_bytes(version: Version) -> None:
    written = table([numeric("X"), character("C", 2)], [[1.0, None], ["a", ""]])
    data = file_of(written, version)
    assert data == file_of(written, version)
    assert b"02JAN26:03:04:05" in file_of(written, version, created=datetime(2026, 1, 2, 3, 4, 5))


@versions
def test_a_negative_zero_is_written_as_zero(version: Version) -> None:
    data = file_of(table([numeric("X")], [[-0.0, 1.0]]), version)
    assert bytes([0x80]) + bytes(7) not in data
    found = table_of(data)["X"].to_pylist()
    assert (found, math.copysign(1, found[0])) == ([0.0, 1.0], 1.0)


@versions
def test_the_format_8_of_characters_is_sent(version: Version) -> None:
    data = file_of(table([character("C", 8, format="$8.")], [["x"]]), version)
    assert b"$       " in data
    definition = defined(data.replace(b"$       ", b" " * 8))
    assert (definition.errors, definition.variables[0].format) == ((), "$8.")


def test_rows_behind_those_that_version_8_announces_are_refused() -> None:
    data = file_of(table([character("C", 8)], [["x"] * 5]), 8)
    fewer = data.replace(b"!!!!!!!              5", b"!!!!!!!              4")
    assert fewer != data
    with pytest.raises(InvalidInputError, match="bytes that are not padding follow the 4 observations"):
        table_of(fewer)
