"""Parquet and Arrow that are not as they say: nothing outside of them is read, and no more than can be held."""

import struct
from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.model.errors import InvalidInputError
from app.tables.read import arrow_inflation, shared_values
from app.tables.read.columnar import read_parquet
from app.tables.read.read_request import DataSetTarget, ReadOptions, VariableOverrides
from tests.tables.read.reading import defined, opened, sent, table_of, whole

LONG = "x" * (1 << 20)
DAMAGED = pa.Array.from_buffers(
    pa.string(), 2, [None, pa.py_buffer(struct.pack("<3i", 0, 4, 5)), pa.py_buffer(b"Ki\xf6lz")]
)


def stream(table: pa.Table, compression: str | None = None) -> bytes:
    sink = BytesIO()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    return sink.getvalue()


def arrow_file(table: pa.Table, compression: str | None = None) -> bytes:
    sink = BytesIO()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    return sink.getvalue()


def parquet(table: pa.Table, **options: Any) -> bytes:
    sink = BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


WRITERS: list[Callable[..., bytes]] = [stream, arrow_file, parquet]


def patched(data: bytes, old: bytes, new: bytes) -> bytes:
    assert len(old) == len(new)
    assert old in data
    return data.replace(old, new)


@pytest.mark.parametrize("write", [stream, arrow_file])
@pytest.mark.parametrize("end", [3000, 1 << 30, -8])
def test_offsets_that_lead_out_of_a_file_are_refused(write: Any, end: int) -> None:
    data = write(pa.table({"c": ["abcdefg", "z"]}))
    wrong = patched(data, struct.pack("<3i", 0, 7, 8), struct.pack("<3i", 0, end, end + 1))
    with pytest.raises(InvalidInputError, match=r"is damaged: .* in column c of batch 1"):
        defined(wrong)


def test_places_that_a_dictionary_lacks_are_refused() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 10], pa.int32()), pa.array(list("abcdefghijk")))
    data = stream(pa.table({"c": column}))
    wrong = patched(data, struct.pack("<3i", 0, 1, 10), struct.pack("<3i", 0, 5_000_000, -7))
    with pytest.raises(InvalidInputError, match=r"is damaged: .* in column c of batch 1"):
        defined(wrong)


@pytest.mark.parametrize("write", WRITERS)
def test_text_that_is_not_utf_8_is_refused(write: Any) -> None:
    with pytest.raises(InvalidInputError, match="a text is not UTF-8, in column city of batch 1"):
        defined(write(pa.table({"n": [1, 2], "city": DAMAGED})), DataSetTarget("latin-1"))


@pytest.mark.parametrize("write", WRITERS)
def test_names_that_are_not_utf_8_are_refused(write: Any) -> None:
    data = write(pa.table({"Kiel": [1]}), **({"store_schema": False} if write is parquet else {}))
    with pytest.raises(InvalidInputError, match="not UTF-8"):
        opened(patched(data, b"Kiel", b"Ki\xf6l"))


@pytest.mark.parametrize("key", ["sas.missing_of", "sas.bytes_of"])
def test_side_columns_of_names_that_are_not_utf_8_are_refused(key: str) -> None:
    schema = pa.schema([pa.field("x", pa.string(), metadata={key: b"\xff"})])
    with pytest.raises(InvalidInputError, match="not UTF-8"):
        opened(stream(pa.table([["a"]], schema=schema)))


# --- more than can be held ----------------------------------------------------------------------------------------


@pytest.fixture
def pool() -> Iterator[pa.MemoryPool]:
    """The memory that Arrow takes during a test."""
    usual = pa.default_memory_pool()
    counting = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(counting)
    yield counting
    pa.set_memory_pool(usual)


def repeated(value: Any, rows: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([value]))


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("column", ["text", "side"])
def test_a_long_value_of_many_rows_is_not_laid_out(write: Any, column: str, pool: pa.MemoryPool) -> None:
    table = pa.table({"text": repeated(LONG, 5_000)})
    if column == "side":
        table = pa.table({"text": pa.nulls(5_000, pa.float64()), "text__missing": table["text"]})
    data = write(table, compression="zstd")
    assert len(data) < 10_000
    if write is parquet:
        with pytest.raises(InvalidInputError, match="has a value of more than 131,068 bytes"):
            opened(data)
    else:
        assert [fault.code for fault in defined(data).errors] == ["value"]
    assert 0 < pool.max_memory() < 4 * shared_values.BYTES_A_BATCH


def test_the_damaged_column_is_looked_for_without_laying_out_long_values(pool: pa.MemoryPool) -> None:
    table = pa.table({"text": repeated("x" * 100_000, 8_000), "number": range(8_000)})
    data = bytearray(parquet(table, compression="zstd", write_page_checksum=True, store_schema=False))
    assert len(data) < 30_000
    chunk = pq.ParquetFile(BytesIO(data)).metadata.row_group(0).column(1)
    data[chunk.dictionary_page_offset + chunk.total_compressed_size - 8] ^= 0xFF
    with pytest.raises(InvalidInputError, match="in column number of row group 1 of 1"):
        table_of(opened(bytes(data)))
    assert 0 < pool.max_memory() < 4 * shared_values.BYTES_A_BATCH


def test_views_of_one_long_value_are_not_laid_out() -> None:
    view = struct.pack("<i4sii", len(LONG), b"xxxx", 0, 0)
    column = pa.Array.from_buffers(
        pa.string_view(), 3000, [None, pa.py_buffer(view * 3000), pa.py_buffer(LONG.encode())]
    )
    (fault,) = defined(stream(pa.table({"c": column}))).errors
    assert (fault.code, fault.row) == ("value", 1)


def test_views_of_nulls_are_not_followed() -> None:
    views = struct.pack("<i12s", 1, b"a") + struct.pack("<i4sii", 100, b"xxxx", 7, 1 << 30)
    for data_type, value in ((pa.string_view(), "a"), (pa.binary_view(), b"a")):
        column = pa.Array.from_buffers(data_type, 2, [pa.py_buffer(b"\1"), pa.py_buffer(views + b"\0")])
        assert shared_values.laid_out(column).to_pylist() == [value, None]
        assert shared_values.laid_out(column.slice(1)).to_pylist() == [None]
        assert shared_values.laid_out(column.slice(2)).to_pylist() == []


def test_only_a_dictionary_s_values_that_occur_count() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([1, None, 1]), pa.array([LONG, "a"]))
    assert sent(defined(stream(pa.table({"c": column}))))["c"].to_pylist() == ["a", "", "a"]
    second = pa.DictionaryArray.from_arrays(pa.array([1, 0]), pa.array([LONG, "a"]))
    (fault,) = defined(stream(pa.table({"c": second}))).errors
    assert (fault.row, fault.why) == (2, "the value has more than 131,068 bytes in UTF-8")


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_texts_as_differences_are_read(encoding: str, version: str) -> None:
    texts = ["", None, *(f"text {number % 97}{'x' * (number % 400)}" for number in range(20_000))]
    table = pa.table({"c": texts, "d": pa.array(texts).dictionary_encode(), "n": range(len(texts))})
    how = {"use_dictionary": ["d"], "column_encoding": {"c": encoding, "n": "DELTA_BINARY_PACKED"}}
    data = parquet(table, **how, data_page_version=version, row_group_size=7_000, store_schema=False)
    assert encoding in pq.ParquetFile(BytesIO(data)).metadata.row_group(2).column(0).encodings
    found = sent(defined(data))
    assert found["c"].to_pylist() == found["d"].to_pylist() == [text or "" for text in texts]
    place = pq.ParquetFile(BytesIO(data)).metadata.row_group(1).column(0).data_page_offset
    with pytest.raises(InvalidInputError, match=r"is damaged: .* in column c of row group 2 of 3"):
        table_of(opened(data[:place] + bytes(40) + data[place + 40 :]))


def test_a_file_of_duckdb_in_its_second_version_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    rows = "select i, 's' || i as s, ['a', 'b'][1 + i % 2] as g, i / 7.0::double as f from range(30000) as t(i)"
    duckdb.execute(f"copy ({rows}) to '{path}' (parquet_version v2, row_group_size 10000)")
    chunks = pq.ParquetFile(path).metadata.row_group(0)
    assert "DELTA_LENGTH_BYTE_ARRAY" in chunks.column(1).encodings
    assert (
        list(zip(*sent(defined(path.read_bytes())).to_pydict().values(), strict=True))
        == duckdb.execute(rows).fetchall()
    )


def as_differences(value: str, rows: int) -> bytes:
    table = pa.table({"c": [value] * rows})
    return parquet(table, use_dictionary=False, column_encoding={"c": "DELTA_BYTE_ARRAY"}, compression="zstd")


@pytest.fixture
def long_differences() -> bytes:
    return as_differences(LONG, 250)


def test_a_long_value_of_many_rows_as_differences_is_not_laid_out(long_differences: bytes, pool: pa.MemoryPool) -> None:
    assert len(long_differences) < 2_000
    with pytest.raises(InvalidInputError, match="column c has a value of more than 131,068 bytes"):
        opened(long_differences)
    assert 0 < pool.max_memory() < 4 * shared_values.BYTES_A_BATCH
    shorter = opened(as_differences("y" * 100_000, 500))
    assert max(batch.num_rows for batch in shorter.batches()) < 400


def test_what_the_library_cannot_read_is_not_called_damaged() -> None:
    table = pa.table({"c": pa.array(["a", "b"]).dictionary_encode()})
    data = parquet(table, use_dictionary=False, column_encoding={"c": "DELTA_BYTE_ARRAY"})
    with pytest.raises(InvalidInputError, match="not supported, in column c of row group 1 of 1") as caught:
        table_of(opened(data))
    assert "is damaged" not in str(caught.value)


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
@pytest.mark.parametrize("rows", [0, 1, 3_000])
def test_files_of_polars_are_read(compression: Any, rows: int) -> None:
    texts = [f"a text of row {number}" if number % 3 else None for number in range(rows)]
    frame = polars.DataFrame({"n": list(range(rows)), "c": texts}, {"n": polars.Int64, "c": polars.String})
    sink = BytesIO()
    frame.write_ipc(sink, compression=compression, record_batch_size=1_000)
    data = sink.getvalue()
    assert data[8:12] != b"\xff\xff\xff\xff"  # no length precedes the schema
    found = sent(defined(data))
    assert found.to_pydict() == {"n": list(range(rows)), "c": [text or "" for text in texts]}
    if rows > 1_000:  # a footer that lists fewer batches than there are
        count = data.rindex(struct.pack("<I", 3), 0, -10)
        with pytest.raises(InvalidInputError, match="footer lists 2 batches, but it has 3"):
            opened(data[:count] + struct.pack("<I", 2) + data[count + 4 :])


@pytest.mark.parametrize("texts", [["a", None, "ü" * 40, "", "a"], [None, None], []])
@pytest.mark.parametrize("write", ["write_ipc", "write_ipc_stream", "write_parquet"])
def test_dictionaries_of_views_are_read(texts: list[str | None], write: str) -> None:
    words = polars.Enum(["", "a", "b", "ü" * 40])
    columns = [polars.Series(name, texts, kind) for name, kind in (("c", polars.Categorical), ("e", words))]
    tags = polars.Series("n__missing", [".A" if text else None for text in texts], polars.Categorical)
    numbers = polars.Series("n", [None] * len(texts), polars.Float64)
    sink = BytesIO()
    getattr(polars.DataFrame([*columns, numbers, tags]), write)(sink)
    found = sent(defined(sink.getvalue())).to_pydict()
    assert found["c"] == found["e"] == [text or "" for text in texts]
    assert found.get("n__missing", []) == [".A" if text else None for text in texts if any(texts)]


def test_nulls_of_a_dictionary_of_views_are_nulls() -> None:
    views = pa.array(["x", "long enough for a view", None, "unused"], pa.string_view())
    column = pa.DictionaryArray.from_arrays(pa.array([1, 2, None, 0, 1], pa.int8()), views)
    assert shared_values.laid_out(column.slice(1)).to_pylist() == [None, None, "x", "long enough for a view"]


@pytest.mark.parametrize("write", WRITERS)
def test_rows_of_long_values_come_in_small_batches(write: Any) -> None:
    data = write(pa.table({"c": repeated("y" * 32_000, 5_000)}))
    rows = [batch.num_rows for batch in opened(data).batches()]
    assert sum(rows) == 5_000
    assert max(rows) * 32_000 <= shared_values.BYTES_A_BATCH


@pytest.mark.parametrize("write", [stream, arrow_file])
@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_a_batch_that_asks_for_too_much_is_refused_before_it_is_read(
    write: Any, compression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = pa.table({"x": np.zeros(100_000), "c": pa.array(["a", "b"] * 50_000).dictionary_encode()})
    monkeypatch.setattr(arrow_inflation, "MOST_INFLATED", 1_200_000)
    assert table_of(opened(write(numbers, compression))).num_rows == 100_000
    monkeypatch.setattr(arrow_inflation, "MOST_INFLATED", 1_100_000)
    with pytest.raises(InvalidInputError, match="1,200,000 bytes after decompression"):
        opened(write(numbers, compression))
    assert table_of(opened(write(numbers))).num_rows == 100_000
    words = pa.table({"c": pa.array([LONG, LONG + "x"]).dictionary_encode()})
    with pytest.raises(InvalidInputError, match="2,097,165 bytes after decompression"):
        opened(write(words, compression))


@pytest.mark.parametrize("write", [stream, arrow_file])
def test_a_length_that_no_buffer_has_is_refused(write: Any) -> None:
    data = write(pa.table({"x": np.zeros(10_000)}), "zstd")
    wrong = patched(data, struct.pack("<q", 80_000), struct.pack("<q", 1 << 50))
    with pytest.raises(InvalidInputError, match="after decompression"):
        opened(wrong)


def test_rows_without_columns_are_not_counted() -> None:
    nothing = pa.Array.from_buffers(pa.null(), 1 << 50, [None])
    batch = pa.record_batch({"x": nothing}).select([])
    sink = BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    assert batch.num_rows == 1 << 50
    assert [fault.code for fault in defined(sink.getvalue()).errors] == ["variables"]


# --- values that another type lacks -------------------------------------------------------------------------------


def counted(data_type: pa.DataType, *ticks: int) -> pa.Array:
    return pa.array(ticks, pa.int32() if data_type.bit_width == 32 else pa.int64()).view(data_type)


DAY_64 = 86_400_000
VAST_DECIMALS = pa.Array.from_buffers(
    pa.decimal256(20, -72), 2, [None, pa.py_buffer(b"".join(n.to_bytes(32, "little") for n in (0, 10**5)))]
)


@pytest.mark.parametrize(
    ("column", "reference", "why"),
    [
        (counted(pa.timestamp("s"), 0, 10**15), None, "beyond the range of timestamp"),
        (counted(pa.timestamp("ms"), 0, 1 << 62), None, "beyond the range of timestamp"),
        (counted(pa.timestamp("s"), 0, 10**13 * 86_400), "DATE9.", "beyond the range of date32"),
        (counted(pa.duration("s"), 0, -(10**15)), None, "beyond the range of duration"),
        (counted(pa.date32(), 0, (1 << 31) - 1), "DATETIME20.", "beyond the range of timestamp"),
        (counted(pa.date64(), 0, (1 << 62) // DAY_64 * DAY_64), None, "beyond the range of date32"),
        (counted(pa.date64(), 0, (1 << 62) // DAY_64 * DAY_64), "DATETIME20.", "beyond the range of date32"),
        (pa.array([None, Decimal("1E25")], pa.decimal256(5, -25)), None, "beyond 2^53"),
        (pa.array([None, Decimal(10) ** 17], pa.decimal64(18, 0)), None, "beyond 2^53"),
        (pa.array([None, Decimal(10) ** 75], pa.decimal256(76, 0)), None, "beyond 2^53"),
        (VAST_DECIMALS, None, "beyond the range of decimal256"),
    ],
)
def test_values_beyond_a_type_are_told_and_never_wrap(column: pa.Array, reference: str | None, why: str) -> None:
    (fault,) = defined(whole(pa.table({"x": column})), variables={"x": VariableOverrides(format=reference)}).errors
    assert (fault.code, fault.row) == ("value", 2)
    assert why in fault.why


def test_moments_beyond_the_calendar_are_no_text() -> None:
    table = pa.table({"x": counted(pa.date32(), 0, (1 << 31) - 1)})
    (fault,) = defined(whole(table), variables={"x": VariableOverrides(type="character")}).errors
    assert (fault.code, fault.row) == ("value", 2)


def test_decimals_of_every_width_are_numbers() -> None:
    types = (pa.decimal32(5, 0), pa.decimal64(18, 0), pa.decimal64(18, 2), pa.decimal128(38, 0), pa.decimal256(76, 0))
    table = pa.table({f"x{number}": pa.array([Decimal(15), None], kind) for number, kind in enumerate(types)})
    assert set(map(tuple, sent(defined(whole(table))).to_pydict().values())) == {(15.0, None)}


def test_what_lies_below_a_microsecond_is_dropped() -> None:
    table = pa.table({"t": counted(pa.timestamp("ns"), 1500, -1), "d": counted(pa.duration("ns"), 1500, 0)})
    definition = defined(whole(table))
    assert [(fault.variable, fault.code) for fault in definition.warnings] == [("t", "rounded"), ("d", "rounded")]
    assert sent(definition)["d"].to_pylist() == [timedelta(microseconds=1), timedelta(0)]


def test_what_arrow_cannot_convert_is_an_error_of_its_variable() -> None:
    column = counted(pa.timestamp("us", "No/Where"), 0)
    (fault,) = defined(whole(pa.table({"x": column})), variables={"x": VariableOverrides(type="character")}).errors
    assert (fault.variable, fault.code) == ("x", "value")


@pytest.mark.parametrize(("depth", "nest"), [(60, pa.list_), (600, lambda inner: pa.struct([("a", inner)]))])
def test_columns_nested_beyond_the_library_s_limit_are_not_called_damaged(depth: int, nest: Any) -> None:
    kind = pa.int64()
    for _ in range(depth):
        kind = nest(kind)
    file = BytesIO()
    pq.write_table(pa.table({"x": pa.nulls(1, kind)}), file)
    with pytest.raises(InvalidInputError, match="nested too deep; write columns of plain values") as caught:
        read_parquet(file, ReadOptions())
    assert "damaged" not in str(caught.value)
