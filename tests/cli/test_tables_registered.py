"""Registration of all tables in Spark's catalog."""

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from adapters.delta_tables import DeltaTables
from app.tables.quality import QUALITY, Increment, quality_rows
from app.tables.registering import Registered, statements
from tests.cli.conftest import Run
from tests.support.tables import visits

HOSTILE = "X`; DROP TABLE `y"


def stored(folder: Path) -> DeltaTables:
    store = DeltaTables(folder)
    decimals = pa.table({"a`b": pa.array([Decimal("1.50")], pa.decimal128(9, 2))})
    for number, (name, rows) in enumerate(
        {
            "CLINIC.VISITS": visits(),
            "CLINIC.V-SITS": visits(),
            "CLINIC.V.SITS": visits(),
            f"WORK.{HOSTILE}": decimals,
            "'A.B'.C": decimals,
            QUALITY: quality_rows([Increment("it's", 0, messages=3)]),
        }.items()
    ):
        store.commit(name, rows.schema, [store.write(name, rows.schema, rows.to_batches())], "test", number)
    return store


def test_one_command_registers_all_tables(run: Run, spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "it's here"
    store = stored(folder)
    done = run("tables", "register", "--using", "parquet", "--tables", folder)
    assert done.code == 0
    assert "Parquet has no versions" in done.err
    script = done.out.removesuffix(";\n").split(";\n\n")
    try:
        for statement in script:
            spark.sql(statement)
        for name, table in {
            "CLINIC.VISITS": "clinic.visits",
            "CLINIC.V-SITS": "clinic.v_sits",
            "CLINIC.V.SITS": "clinic.v_sits_2",
            f"WORK.{HOSTILE}": "work.x___drop_table__y",
            "'A.B'.C": "_a_b_.c",
            QUALITY: "attachment_gateway.quality",
        }.items():
            found = spark.table(table).toArrow()
            expected = store.open(name).dataset.to_table()
            assert found.column_names == expected.column_names
            assert found.cast(expected.schema).equals(expected), table
        assert "Who came" in str(spark.sql("DESCRIBE EXTENDED clinic.visits").collect())
    finally:
        for schema in ("clinic", "work", "_a_b_", "attachment_gateway"):
            spark.sql(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    assert store.open("CLINIC.VISITS").dataset.count_rows() == 5, "external tables keep their files"


def test_delta_statements_are_sql_that_needs_only_deltas_library(spark: SparkSession, tmp_path: Path) -> None:
    store = stored(tmp_path / "tables")
    tables = [Registered(name, store.schema(name), store.location(name)) for name in sorted(store.names())]
    for catalog, schema in ((None, None), ("main", None), ("main", "sas")):
        made = list(statements(tables, "delta", catalog, schema))
        for statement in made:
            spark._jsparkSession.sessionState().sqlParser().parsePlan(statement)
    assert made[0] == "CREATE SCHEMA IF NOT EXISTS `main`.`sas`"
    assert any(each.startswith("CREATE TABLE IF NOT EXISTS `main`.`sas`.`clinic_visits`\n") for each in made)
    spark.sql("CREATE SCHEMA IF NOT EXISTS clinic")
    (create,) = [each for each in statements(tables) if "`visits`" in each]
    with pytest.raises(Py4JJavaError, match="DATA_SOURCE_NOT_FOUND"):
        spark.sql(create)
    spark.sql("DROP SCHEMA clinic CASCADE")
