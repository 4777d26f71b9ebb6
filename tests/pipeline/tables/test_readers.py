"""What other programs read: the tables of the pipeline, and Parquet files that Spark can open."""

from io import BytesIO
from pathlib import Path

import duckdb
import pandas
import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from adapters.delta_tables import DeltaTables
from tests.contracts.tables import put, received
from tests.support.tables import visits
from tests.tables.out.making import made

TIMES = ("Clock", "Stay")


def in_micros(table: pa.Table) -> pa.Table:
    """The table as programs see it that know neither times of day nor durations."""
    fields = [pa.field(f.name, pa.int64() if f.name in TIMES else f.type) for f in table.schema]
    return table.cast(pa.schema(fields))


def in_order(table: pa.Table, schema: pa.Schema) -> list[str]:
    """The rows in one order, with the same types whoever has read them."""
    same = pa.table([_plain(table[name]).cast(_plain(schema.field(name).type)) for name in schema.names], schema.names)
    return sorted(repr(row) for row in same.to_pylist())


def _plain(what: pa.ChunkedArray | pa.DataType) -> pa.ChunkedArray | pa.DataType:
    """Durations as numbers, and timestamps with or without the zone UTC as one type."""
    kind = what if isinstance(what, pa.DataType) else what.type
    wanted = pa.int64() if pa.types.is_duration(kind) else kind
    return wanted if what is kind else what.cast(wanted)


def test_a_table_is_read_alike_by_all(tmp_path: Path, spark: SparkSession) -> None:
    store = DeltaTables(tmp_path)
    table = received(visits())
    wider = table.append_column("More", pa.array(["m"] * table.num_rows))
    put(store, "CLINIC.VISITS", table, 1)
    put(store, "CLINIC.VISITS", wider, 2)
    location = store.location("CLINIC.VISITS")
    delta = DeltaTable(location)
    earlier = table.append_column("More", pa.nulls(table.num_rows, pa.string()))
    expected = in_micros(pa.concat_tables([earlier, wider]))
    schema = expected.schema

    with duckdb.connect() as connection:
        connection.register("visits", delta.to_pyarrow_dataset())
        by_duckdb = connection.sql("SELECT * FROM visits").to_arrow_table()
    found = {
        "deltalake": pa.table(delta.to_pyarrow_table()),
        "polars": polars.read_delta(location).to_arrow(),
        "DuckDB": by_duckdb,
        "pandas": pa.Table.from_pandas(delta.to_pandas(), schema, preserve_index=False),
        "Spark": spark.read.option("mergeSchema", "true").parquet(*delta.file_uris()).toArrow(),
    }
    rows = in_order(expected, schema)
    assert {name: in_order(each, schema) == rows for name, each in found.items()} == dict.fromkeys(found, True)


def test_parquet_with_times_of_day_as_durations_is_read_by_all(tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "time.parquet").write_bytes(made(visits(), "parquet"))
    with pytest.raises(PySparkException, match="TIME"):
        spark.read.parquet(str(tmp_path / "time.parquet")).collect()

    path = tmp_path / "duration.parquet"
    path.write_bytes(made(visits(), "parquet", times="duration"))
    expected = in_micros(visits())
    schema = expected.schema
    found = {
        "polars": polars.read_parquet(path).to_arrow(),
        "DuckDB": duckdb.read_parquet(str(path)).to_arrow_table(),
        "pandas": pa.Table.from_pandas(pandas.read_parquet(path), visits_with_durations(), preserve_index=False),
        "Spark": spark.read.parquet(str(path)).toArrow(),
    }
    rows = in_order(expected, schema)
    assert {name: in_order(each, schema) == rows for name, each in found.items()} == dict.fromkeys(found, True)


def visits_with_durations() -> pa.Schema:
    at = visits().schema.get_field_index("Clock")
    return visits().schema.set(at, visits().schema.field(at).with_type(pa.duration("us")))


def test_pandas_finds_labels_in_its_attributes() -> None:
    frame = pandas.read_parquet(BytesIO(made(visits(), "parquet", attrs=True)))
    assert frame.attrs["name"] == "CLINIC.VISITS"
    assert frame.attrs["label"] == "Who came"
    assert frame.attrs["labels"] == {"Name": "First name", "Age": "Age, in years"}
    assert frame.attrs["formats"]["Seen"] == "DATE9."
    assert pandas.read_parquet(BytesIO(made(visits(), "parquet"))).attrs == {}
