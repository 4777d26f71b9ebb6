"""The Iceberg REST catalog: the same rows as other readers have, at every version, also while a writer is writing."""

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path

import duckdb
import httpx
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, UnauthorizedError
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

from adapters.delta_tables import DeltaTables, delta_log
from adapters.delta_tables import iceberg as adapter
from adapters.delta_tables.iceberg import VERSION, IcebergOverDelta
from app.web.app import create_app
from app.web.resources.iceberg_catalog import identifier
from tests.support.tables import visits
from tests.web.stock import Stock, serving

TABLE = "CLINIC.VISITS"
WIDER = visits().append_column(pa.field("Extra", pa.float64()), pa.array([1.0, None, 3.0, -0.5, 1e300]))


@contextmanager
def catalog_of(folder: Path, **http: list[str]) -> Iterator[tuple[str, DeltaTables]]:
    """Run a gateway with the catalog; provide its address and its tables."""
    stock = Stock(folder, tables={"iceberg": True}, http=http)
    with closing(stock), serving(create_app(stock.gateway)) as address:
        yield address, DeltaTables(stock.gateway.settings.tables_url)


def add(store: DeltaTables, number: int, rows: pa.Table, name: str = TABLE) -> None:
    numbered = rows.append_column(pa.field("row", pa.int64()), pa.array([number] * rows.num_rows))
    store.commit(name, numbered.schema, [store.write(name, numbered.schema, numbered.to_batches())], "test", number)


def lines(table: pa.Table) -> list[str]:
    """Return the rows as text, in an order of their own; names of columns are in order, and times are in UTC."""
    names = sorted(table.column_names)
    plain = [pc.cast(table[name], pa.string()) if _is_text(table, name) else table[name] for name in names]
    return sorted(map(repr, zip(*(column.to_pylist() for column in plain), strict=True)))


def _is_text(table: pa.Table, name: str) -> bool:
    kind = table.schema.field(name).type
    return bool(pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def test_every_reader_has_the_same_rows_at_every_version(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    with catalog_of(tmp_path / "stock") as (address, store):
        for number in range(2):
            add(store, number, visits())
        for number in range(2, 5):
            add(store, number, WIDER)
        assert store.compact(TABLE) == 5
        add(store, 5, WIDER)
        place = store.location(TABLE)
        table = RestCatalog("test", uri=f"{address}/iceberg").load_table(("CLINIC", "VISITS"))
        snapshots = {int(each.summary[VERSION]): each.snapshot_id for each in table.metadata.snapshots if each.summary}
        assert sorted(snapshots) == list(range(7)) == list(range(DeltaTable(place).version() + 1))
        for version, snapshot in snapshots.items():
            delta = DeltaTable(place, version=version)
            expected = lines(delta.to_pyarrow_table())
            assert len(expected) == (5 * (version + 1) if version < 5 else 25 + 5 * (version - 5))
            assert lines(table.scan(snapshot_id=snapshot).to_arrow()) == expected
            assert lines(polars.scan_delta(place, version=version).collect().to_arrow()) == expected
            by_polars = polars.scan_iceberg(table, snapshot_id=snapshot).collect().to_arrow()
            assert lines(by_polars) == expected
            dataset = delta.to_pyarrow_dataset()
            by_duckdb = duckdb.from_arrow(dataset).to_arrow_table()
            assert lines(by_duckdb) == expected
            by_spark = spark.read.option("mergeSchema", "true").parquet(*delta.file_uris()).toArrow()
            assert lines(by_spark) == expected
        assert table.schema().find_field("Name").doc == "First name"
        files = {task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()}
        assert files == set(DeltaTable(place).file_uris()), "the very same files"


def test_a_reader_has_whole_versions_while_a_writer_writes(tmp_path: Path) -> None:
    with catalog_of(tmp_path / "stock") as (address, store):
        add(store, 0, visits())
        catalog = RestCatalog("test", uri=f"{address}/iceberg")
        over = threading.Event()

        def write() -> None:
            for number in range(1, 25):
                add(store, number, WIDER if number > 4 else visits())
                if number % 8 == 0:
                    store.compact(TABLE)
            over.set()

        writer = threading.Thread(target=write)
        writer.start()
        seen = 0
        while not over.is_set():
            table = catalog.load_table(("CLINIC", "VISITS"))
            snapshot = table.current_snapshot()
            assert snapshot is not None
            assert snapshot.summary is not None
            version = int(snapshot.summary[VERSION] or -1)
            rows = table.scan().to_arrow()
            delta = DeltaTable(store.location(TABLE), version=version)
            assert lines(rows) == lines(delta.to_pyarrow_table())
            assert rows.num_rows % 5 == 0
            seen += 1
        writer.join()
        assert seen > 1
        table = catalog.load_table(("CLINIC", "VISITS"))
        assert table.scan().to_arrow().num_rows == 125


def test_metadata_are_bounded_rebuilt_and_follow_a_table_that_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "SNAPSHOTS", 3)
    store = DeltaTables(tmp_path / "tables")
    for number in range(5):
        add(store, number, visits())

    def versions(tables: IcebergOverDelta) -> list[str]:
        _, metadata = tables.load(TABLE)
        return sorted(each["summary"][VERSION] for each in metadata["snapshots"])

    with closing(IcebergOverDelta(str(tmp_path / "tables"), tmp_path)) as tables:
        assert versions(tables) == ["2", "3", "4"]
        before, _ = tables.load(TABLE)
        assert tables.load(TABLE)[0] == before, "nothing is written without a new version"
        add(store, 5, visits())
        assert versions(tables) == ["3", "4", "5"]
        with pytest.raises(KeyError):
            tables.load("CLINIC.NOBODY")
    (tmp_path / adapter.CATALOG).unlink()
    with closing(IcebergOverDelta(str(tmp_path / "tables"), tmp_path)) as tables:
        assert versions(tables) == ["3", "4", "5"]
    assert store.compact(TABLE) == 6
    assert store.vacuum(TABLE, 0) == 6
    (tmp_path / adapter.CATALOG).unlink()
    with closing(IcebergOverDelta(str(tmp_path / "tables"), tmp_path)) as tables:
        assert versions(tables) == ["6"], "no snapshot names files that are gone"
        for path in sorted((tmp_path / "tables" / TABLE).rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        add(store, 0, WIDER)
        assert versions(tables) == ["0"]
    assert store.names() == [TABLE]


def remove(store: DeltaTables) -> None:
    for path in sorted(Path(store.location(TABLE)).rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


def test_a_table_that_is_made_anew_may_have_other_types_and_more_versions(tmp_path: Path) -> None:
    with catalog_of(tmp_path / "stock") as (address, store):
        catalog = RestCatalog("test", uri=f"{address}/iceberg")
        for number in range(2):
            add(store, number, visits())
        former = catalog.load_table(("CLINIC", "VISITS")).metadata.table_uuid
        remove(store)
        other = visits().set_column(0, pa.field("Name", pa.float64()), pa.array([1.0, 2.0, 3.0, 4.0, 5.0]))
        for number in range(3):
            add(store, number, other)
        table = catalog.load_table(("CLINIC", "VISITS"))
        assert [each.summary[VERSION] for each in table.metadata.snapshots if each.summary] == ["0", "1", "2"]
        assert lines(table.scan().to_arrow()) == lines(DeltaTable(store.location(TABLE)).to_pyarrow_table())
        assert table.metadata.table_uuid != former
        remove(store)
        for number in range(3):
            add(store, number, visits())
        table = catalog.load_table(("CLINIC", "VISITS"))
        assert lines(table.scan().to_arrow()) == lines(DeltaTable(store.location(TABLE)).to_pyarrow_table())


def test_a_table_that_was_restored_from_an_older_copy_has_the_snapshots_of_its_own_versions(tmp_path: Path) -> None:
    store = DeltaTables(tmp_path / "tables")
    add(store, 0, visits())
    shutil.copytree(tmp_path / "tables", tmp_path / "copy")
    with closing(IcebergOverDelta(str(tmp_path / "tables"), tmp_path)) as tables:
        for number in (1, 2):
            add(store, number, visits())
        tables.load(TABLE)
        for more in (2, 4):
            shutil.rmtree(tmp_path / "tables" / TABLE)
            shutil.copytree(tmp_path / "copy" / TABLE, tmp_path / "tables" / TABLE)
            time.sleep(0.01)
            for number in range(1, 1 + more):
                add(store, 10 * more + number, WIDER)
            place, _ = tables.load(TABLE)
            rows = StaticTable.from_metadata(place).scan().to_arrow()
            assert lines(rows) == lines(DeltaTable(store.location(TABLE)).to_pyarrow_table())
            assert rows.num_rows == 5 * (1 + more)


def test_a_load_that_is_overtaken_drops_no_snapshots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = DeltaTables(tmp_path / "tables")
    add(store, 0, visits())
    with closing(IcebergOverDelta(str(tmp_path / "tables"), tmp_path)) as tables:
        stale = delta_log.Snapshot(store.location(TABLE), TABLE)
        add(store, 1, visits())
        before, metadata = tables.load(TABLE)
        read = [stale]
        monkeypatch.setattr(adapter, "Snapshot", lambda *place: read.pop() if read else delta_log.Snapshot(*place))
        assert tables.load(TABLE) == (before, metadata)
        assert not read


def test_the_catalog_lists_names_refuses_writes_and_needs_a_token(tmp_path: Path) -> None:
    digest = sha256(b"open-sesame").hexdigest()
    with catalog_of(tmp_path / "stock", tokens=[digest]) as (address, store):
        for name in (TABLE, "CLINIC.A B/ä", "files"):
            add(store, 0, visits(), name)
        catalog = RestCatalog("test", uri=f"{address}/iceberg", token="open-sesame")
        assert catalog.list_namespaces() == [("CLINIC",), ("attachment_gateway",)]
        assert catalog.list_namespaces(("CLINIC",)) == []
        assert catalog.list_tables("CLINIC") == [("CLINIC", "A B/ä"), ("CLINIC", "VISITS")]
        assert catalog.list_tables("attachment_gateway") == [("attachment_gateway", "files")]
        assert catalog.load_table(("CLINIC", "A B/ä")).scan().to_arrow().num_rows == 5
        assert catalog.namespace_exists("CLINIC")
        assert not catalog.namespace_exists("clinic")
        assert catalog.table_exists(("CLINIC", "VISITS"))
        assert not catalog.table_exists(("CLINIC", "NOBODY"))
        assert catalog.load_namespace_properties("CLINIC") == {}
        with pytest.raises(NoSuchTableError):
            catalog.load_table(("CLINIC", "NOBODY"))
        with pytest.raises(NoSuchNamespaceError):
            catalog.list_tables("NOBODY")
        table = catalog.load_table(("CLINIC", "VISITS"))
        rows = table.scan().to_arrow()
        with pytest.raises(NotImplementedError):
            table.append(rows)
        with pytest.raises(UnauthorizedError):
            RestCatalog("test", uri=f"{address}/iceberg")


def test_without_the_setting_there_is_no_catalog(http: httpx.Client) -> None:
    assert http.get("/iceberg/v1/config").status_code == 404


def test_identifiers_are_namespace_and_name() -> None:
    names = {
        "WORK.SALES": ("WORK", "SALES"),
        "WORK.A.B": ("WORK", "A.B"),
        "'A.B'.C": ("'A.B'", "C"),
        "quality": ("attachment_gateway", "quality"),
        "WORK..": ("WORK", "'.'"),
        "WORK...": ("WORK", "'..'"),
        "WORK....": ("WORK", "..."),
        "WORK.'.'": ("WORK", "'''.'''"),
    }
    assert {name: identifier(name) for name in names} == names
