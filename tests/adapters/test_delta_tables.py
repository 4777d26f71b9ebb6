import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime
from functools import partial
from math import inf, nan
from pathlib import Path
from typing import Any

import duckdb
import obstore
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, TableFeatures
from hypothesis import given, settings
from hypothesis import strategies as st
from obstore.store import from_url

from adapters.delta_tables import DeltaTables, delta_log, row_files, table_folders
from adapters.delta_tables.delta_store import CHECKPOINT_EVERY
from adapters.delta_tables.table_storage import BucketStorage, LocalStorage
from app.model.errors import GatewayError, StoreFull
from tests.contracts.tables import APP, HOSTILE, TableContract, content, numbered, numbers, put, received, written
from tests.support.disk import small_disk
from tests.support.length import examples
from tests.support.tables import visits, wide

__all__ = ["small_disk"]

NAMES = st.text(st.characters(exclude_categories=["Cs"])) | st.text("aAbB.=-_/", max_size=12) | st.sampled_from(HOSTILE)


class TestLocalFolder(TableContract):
    @pytest.fixture
    def tables(self, tmp_path: Path) -> DeltaTables:
        return DeltaTables(tmp_path / "a folder" / "tables")


class TestBucket(TableContract):
    @pytest.fixture
    def tables(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DeltaTables:
        """A bucket that lies in a folder, as obstore has it."""
        monkeypatch.setattr("adapters.delta_tables.table_storage.bucket", from_url)
        monkeypatch.setattr(
            "adapters.delta_tables.delta_store.LocalStorage", lambda folder: BucketStorage(folder.as_uri())
        )
        return DeltaTables(tmp_path)


class TestBucketWhoseAnswersAreLost(TestBucket):
    """Each new version is written, its answer is lost, and the library's repeated request finds it there."""

    @pytest.fixture(autouse=True)
    def losing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        put = obstore.put

        def putting(store: Any, path: str, data: Any, **options: Any) -> Any:
            put(store, path, data, **options)
            return put(store, path, data, **options)

        monkeypatch.setattr("adapters.delta_tables.table_storage.obstore.put", putting)


class TestFolderWhoseAnswersAreLost(TestLocalFolder):
    """A folder on a network file system: each link is made, its answer is lost, and the repeated request finds it."""

    @pytest.fixture(autouse=True)
    def losing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        link = Path.hardlink_to

        def linking(target: Path, source: Path) -> None:
            link(target, source)
            link(target, source)

        monkeypatch.setattr(Path, "hardlink_to", linking)


@settings(deadline=None)
@given(st.lists(NAMES, unique=True))
def test_folders_differ_whatever_a_file_system_makes_of_case(names: list[str]) -> None:
    found = [table_folders.folder(name) for name in names]
    assert len({folder.casefold() for folder in found}) == len(names)
    for name, folder in zip(names, found, strict=True):
        assert 0 < len(folder) <= table_folders.LONGEST
        assert folder.isascii()
        assert not set(folder) - set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789=-_.")
        assert folder[0] not in "._-"
        assert table_folders.name(folder) in {name, None if len(folder) > 60 else name}


@given(st.text("aA.=-_0F", max_size=8))
def test_what_is_no_folder_of_a_table_has_no_name(folder: str) -> None:
    name = table_folders.name(folder)
    assert name is None or table_folders.folder(name) == folder


def test_other_folders_are_no_tables(tmp_path: Path) -> None:
    store = DeltaTables(tmp_path)
    assert store.names() == []
    put(store, "T", numbered(1), 1)
    for other in ("mixedCase/_delta_log", "x=-cut/_delta_log", "empty", "T.X/_delta_log", ".partial"):
        (tmp_path / other).mkdir(parents=True)
    for folder in ("mixedCase/_delta_log", "x=-cut/_delta_log"):
        (tmp_path / folder / "0.json").write_text("")
    (tmp_path / "file").write_text("")
    assert store.names() == ["T"]


# --- other programs -------------------------------------------------------------------------------------------------


def as_stored(table: pa.Table) -> list[dict[str, object]]:
    """Rows as programs see them that know Delta's types alone."""
    schema = [pa.field(f.name, pa.int64() if f.name in {"Clock", "Stay"} else f.type) for f in table.schema]
    rows: list[dict[str, object]] = table.cast(pa.schema(schema)).to_pylist()
    return rows


@pytest.fixture
def evolved(tmp_path: Path) -> tuple[DeltaTables, list[dict[str, object]]]:
    """A table of every type, that was widened, compacted and written to again."""
    store = DeltaTables(tmp_path)
    table = received(visits())
    wider = table.append_column("More, or less", pa.array(["m"] * table.num_rows))
    for transaction, each in enumerate([table, table, wider]):
        put(store, "CLINIC.VISITS", each, transaction)
    store.compact("CLINIC.VISITS")
    for transaction in range(3, 30):
        put(store, "CLINIC.VISITS", wider.slice(0, 1), transaction)
    rows = [{**row, "More, or less": None} for row in as_stored(table) * 2]
    return store, rows + as_stored(wider) + as_stored(wider.slice(0, 1)) * 27


def in_order(rows: list[dict[str, object]]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)


def described(store: DeltaTables, name: str) -> dict[str, str | None]:
    """The comments that other programs show for a table's columns."""
    fields = json.loads(DeltaTable(store.location(name)).schema().to_json())["fields"]
    return {field["name"]: field["metadata"].get("comment") for field in fields}


def test_labels_and_units_are_comments_for_other_programs(tmp_path: Path) -> None:
    store = DeltaTables(tmp_path)
    put(store, "T", visits(), 1)
    comments = described(store, "T")
    assert (comments["Name"], comments["City"]) == ("First name", None)
    assert comments["Clock"] == "time of day, in microseconds since midnight"
    assert comments["Stay"] == "duration, in microseconds"
    assert DeltaTable(store.location("T")).metadata().description == "Who came"
    assert store.schema("T").types == visits().schema.types
    assert b"comment" not in (store.schema("T").field("Name").metadata or {})
    put(store, "T", visits(), 2)
    versions = list(Path(store.location("T"), "_delta_log").glob("*.json"))
    assert sorted(b"metaData" in path.read_bytes() for path in versions) == [False, True]


def test_a_table_without_comments_gets_them_with_its_next_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = DeltaTables(tmp_path)
    with monkeypatch.context() as before:
        before.setattr("adapters.delta_tables.delta_schema._comment", lambda *_: "")
        put(store, "T", visits(), 1)
    assert set(described(store, "T").values()) == {None}
    kept = store.schema("T")
    put(store, "T", visits(), 2)
    assert described(store, "T")["Name"] == "First name"
    assert store.schema("T").equals(kept, check_metadata=True)
    assert store.describe("T").rows == 2 * visits().num_rows


def test_a_comment_of_another_program_stays(tmp_path: Path) -> None:
    store = DeltaTables(tmp_path)
    put(store, "T", visits(), 1)
    DeltaTable(store.location("T")).alter.set_column_metadata("City", {"comment": "where they live"})
    schema = store.schema("T")
    put(store, "T", visits().cast(schema), 2)
    assert described(store, "T")["City"] == "where they live"
    assert described(store, "T")["Name"] == "First name"


def test_polars_reads_the_same(evolved: tuple[DeltaTables, list[dict[str, object]]]) -> None:
    store, rows = evolved
    found = polars.scan_delta(store.location("CLINIC.VISITS")).collect().to_arrow()
    assert in_order(as_stored(found)) == in_order(rows)


def test_duckdb_reads_the_same(evolved: tuple[DeltaTables, list[dict[str, object]]]) -> None:
    store, rows = evolved
    visits = DeltaTable(store.location("CLINIC.VISITS")).to_pyarrow_dataset()
    with duckdb.connect() as connection:
        connection.register("visits", visits)
        found = connection.sql("select * from visits").to_arrow_table()
        assert in_order(as_stored(found.cast(visits.schema))) == in_order(rows)
        answer = connection.sql("select count(*) from visits where Seen > date '9000-01-01' and Name like 'tab%'")
        assert answer.fetchall() == [(3,)]


def test_times_that_spark_wrote_as_int96_keep_their_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = DeltaTables(tmp_path)
    moments = [datetime(1, 1, 1), datetime(1500, 6, 1, 12, 0, 0, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)]
    with monkeypatch.context() as spark:
        spark.setattr(row_files, "_OPTIONS", {**row_files._OPTIONS, "use_deprecated_int96_timestamps": True})
        for number in range(2):
            put(store, "T", received(pa.table({"at": pa.array([*moments, None], pa.timestamp("us"))})), number)
    assert (
        "Int96" in str(duckdb.execute(f"select type from parquet_schema('{tmp_path}/*/*.parquet')").fetchall()).title()
    )
    assert store.open("T").dataset.to_table()["at"].to_pylist() == [*moments, None] * 2
    store.compact("T")
    assert store.describe("T").files == 1
    assert content(store, "T")["at"].to_pylist() == [*moments, None] * 2


def test_deltalake_finds_the_same_by_statistics(evolved: tuple[DeltaTables, list[dict[str, object]]]) -> None:
    store, rows = evolved
    table = DeltaTable(store.location("CLINIC.VISITS"))
    assert table.protocol().min_reader_version == 3
    assert table.metadata().name == "CLINIC.VISITS"
    assert in_order(as_stored(pa.table(table.to_pyarrow_table()))) == in_order(rows)
    dataset = table.to_pyarrow_dataset()
    for column in ("Name", "Age", "Seen", "Stamp", "Clock", "Stay", "received_at"):
        values = {row[column] for row in rows if row[column] is not None}
        for value in values:
            kind = dataset.schema.field(column).type
            wanted = dataset.to_table(filter=pc.field(column) == pa.scalar(value, kind))
            assert wanted.num_rows == sum(row[column] == value for row in rows)


# --- statistics -----------------------------------------------------------------------------------------------------

TEXT = st.text(st.sampled_from("a\x00é\U0010ffff"), max_size=40) | st.text(st.characters(exclude_categories=["Cs"]))
COLUMNS: list[tuple[pa.DataType, st.SearchStrategy[Any], Callable[[Any], Any]]] = [
    (pa.float64(), st.floats(), float),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1), int),
    (pa.string(), TEXT, str),
    (pa.date32(), st.dates(), date.isoformat),
    (pa.timestamp("us"), st.datetimes(), partial(datetime.isoformat, timespec="microseconds")),
    (pa.binary(), st.binary(), bytes),
    (pa.decimal128(9, 2), st.decimals(-(10**6), 10**6, places=2), float),
    (pa.bool_(), st.booleans(), bool),
]


@pytest.mark.parametrize(("kind", "values", "told"), COLUMNS, ids=[str(kind) for kind, _, _ in COLUMNS])
def test_statistics_bound_every_value(
    kind: pa.DataType, values: st.SearchStrategy[Any], told: Callable[[Any], Any], tmp_path: Path
) -> None:
    store = DeltaTables(tmp_path)

    @settings(max_examples=examples(20), deadline=None)
    @given(st.lists(st.none() | values, max_size=5))
    def check(column: list[Any]) -> None:
        said = written(store, "T", pa.table({"x": pa.array(column, kind)})).statistics
        statistics = json.loads(said, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
        assert statistics["numRecords"] == len(column)
        assert statistics["nullCount"]["x"] == column.count(None)
        least, greatest = statistics["minValues"].get("x"), statistics["maxValues"].get("x")
        assert (least is None) == (greatest is None)
        if least is not None:
            assert all(least <= told(value) <= greatest for value in column if value is not None)

    check()


def test_statistics_leave_out_what_json_or_order_lacks(tmp_path: Path) -> None:
    table = pa.table(
        {"nan": [1.0, nan], "inf": [1.0, inf], "text": ["a" * 32 + "\U0010ffff", "a"], "long": ["b" * 33, "b" * 99]}
    )
    said = json.loads(written(DeltaTables(tmp_path), "T", table).statistics)
    assert said["minValues"] == {"long": "b" * 32}
    assert said["maxValues"] == {"long": "b" * 32 + "\U0010ffff"}
    assert said["nullCount"] == {"nan": 0, "inf": 0, "text": 0, "long": 0}


def test_wide_tables_have_statistics_of_the_first_columns(tmp_path: Path) -> None:
    store = DeltaTables(tmp_path)
    table = wide(2_000, 3)
    file = written(store, "T", table)
    assert list(json.loads(file.statistics)["nullCount"]) == table.column_names[:32]
    assert store.commit("T", table.schema, [file], APP, 1) == 0
    assert content(store, "T").to_pylist() == table.to_pylist()


# --- crashes, races, full disks -------------------------------------------------------------------------------------

KILLED = """
import os, signal, stat, sys
from pathlib import Path
from adapters.delta_tables import DeltaTables
from tests.contracts.tables import numbered, put, written

store = DeltaTables(sys.argv[1])
die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[2] == "before the version":
    Path.hardlink_to = die
if sys.argv[2] == "while writing":
    os.fsync = lambda file: die() if stat.S_ISREG(os.fstat(file).st_mode) else None
written(store, "T", numbered(7))
if sys.argv[2] == "before the commit":
    die()
put(store, "T", numbered(8), 8)
"""


@pytest.mark.process
@pytest.mark.parametrize("moment", ["while writing", "before the commit", "before the version"])
@pytest.mark.parametrize("is_new", [True, False])
def test_what_a_killed_process_left_is_never_seen_and_goes(tmp_path: Path, moment: str, is_new: bool) -> None:
    store = DeltaTables(tmp_path)
    if not is_new:
        put(store, "T", numbered(1), 1)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), moment], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert store.names() == ([] if is_new else ["T"])
    assert store.reached("T", APP) == (None if is_new else 1)
    assert put(store, "T", numbered(8), 8)
    left = [8] if is_new else [1, 8]
    assert numbers(store, "T") == left
    assert store.vacuum("T", 0) > 0
    assert numbers(store, "T") == left
    folder = Path(store.location("T"))
    assert len(list(folder.glob("*"))) == 1 + len(left)
    assert all(path.suffix in {".json", ".crc"} for path in (folder / "_delta_log").iterdir())


def test_a_version_is_on_disk_before_anybody_builds_upon_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when who made it was killed between making it and waiting for the disk."""
    store, synced = DeltaTables(tmp_path), list[Path]()
    with monkeypatch.context() as killed:
        killed.setattr("adapters.delta_tables.table_storage.LocalStorage.put_new", made_and_killed)
        with pytest.raises(KeyboardInterrupt):
            put(store, "T", numbered(8), 8)
    monkeypatch.setattr("adapters.delta_tables.table_storage.sync_folder", synced.append)
    assert store.reached("T", APP) == 8
    assert synced == [Path(store.location("T"), "_delta_log")]
    synced.clear()
    assert store.commit("T", numbered(8).schema, [], APP, 8) is None
    assert synced == [Path(store.location("T"), "_delta_log")]


def made_and_killed(place: LocalStorage, path: str, data: bytes) -> bool:
    version = Path(place.location(path))
    version.parent.mkdir()
    version.write_bytes(data)
    raise KeyboardInterrupt


COMMITS = """
import sys
from adapters.delta_tables import DeltaTables
from tests.contracts.tables import numbered, written

store = DeltaTables(sys.argv[1])
done = []
print("ready", flush=True)
sys.stdin.readline()
for transaction in range(30):
    table = numbered(transaction)
    if sys.argv[3] != "-":
        table = table.append_column(sys.argv[3], table["n"])
    if store.commit("T", table.schema, [written(store, "T", table)], sys.argv[2], transaction) is not None:
        done.append(transaction)
print(*done)
"""


def race(folder: Path, *commands: tuple[str, ...]) -> list[list[int]]:
    """What processes have committed that began at the same moment."""
    processes = [
        subprocess.Popen([sys.executable, "-c", COMMITS, str(folder), *arguments], stdin=-1, stdout=-1, text=True)
        for arguments in commands
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [[int(word) for word in process.communicate()[0].split()] for process in processes]


@pytest.mark.process
def test_a_transaction_of_two_processes_happens_once(tmp_path: Path) -> None:
    done = race(tmp_path, ("same", "-"), ("same", "-"))
    assert sorted(done[0] + done[1]) == list(range(30))
    assert numbers(DeltaTables(tmp_path), "T") == list(range(30))


@pytest.mark.process
def test_transactions_of_two_applications_all_happen(tmp_path: Path) -> None:
    assert race(tmp_path, ("one", "-"), ("other", "-")) == [list(range(30))] * 2
    store = DeltaTables(tmp_path)
    assert numbers(store, "T") == sorted([*range(30)] * 2)
    assert store.describe("T").version == 60  # one of them has joined small files


@pytest.mark.process
def test_compaction_and_commits_do_not_mind_each_other(tmp_path: Path) -> None:
    store = DeltaTables(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", COMMITS, str(tmp_path), APP, "-"], stdin=-1, stdout=-1, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
        while process.poll() is None:
            if store.names():
                store.compact("T")
    store.compact("T")
    assert numbers(store, "T") == list(range(30))
    assert store.describe("T").files == 1


@pytest.mark.process
def test_logs_that_are_summed_up_meanwhile_are_read_and_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of what is summed up is kept, so that two who do it, and who reads, often miss a file."""
    monkeypatch.setitem(delta_log._CONFIGURATION, "delta.logRetentionDuration", "interval 0 seconds")
    store = DeltaTables(tmp_path)
    store.commit("T", numbered(1).schema, [], "maker", 7)
    with ThreadPoolExecutor() as pool:
        racing = pool.submit(race, tmp_path, ("one", "-"), ("other", "-"))
        while not racing.done():
            store.describe("T")
            assert len(set(numbers(store, "T"))) <= 30
    assert racing.result() == [list(range(30))] * 2
    assert numbers(store, "T") == sorted([*range(30)] * 2)
    assert [store.reached("T", who) for who in ("maker", "one", "other")] == [7, 29, 29]
    assert len(list(Path(store.location("T"), "_delta_log").glob("*.json"))) < 40


def test_a_log_that_cannot_be_summed_up_still_grows(tmp_path: Path) -> None:
    store = DeltaTables(tmp_path)
    put(store, "T", numbered(0), 0)
    (Path(store.location("T")) / "_delta_log" / f"{CHECKPOINT_EVERY - 1:020}.checkpoint.parquet" / "x").mkdir(
        parents=True
    )
    for transaction in range(1, CHECKPOINT_EVERY + 2):
        assert put(store, "T", numbered(transaction), transaction)


def test_a_full_disk_is_said_and_changes_nothing(small_disk: Path) -> None:
    store = DeltaTables(small_disk)
    put(store, "T", numbered(1), 1)
    noise = pa.table({"n": pa.array([1] * 32), "received_at": pa.nulls(32, pa.timestamp("us", "UTC"))})
    noise = noise.append_column("noise", pa.array([os.urandom(1 << 20) for _ in range(32)]))
    with pytest.raises(StoreFull, match="no space"):
        put(store, "T", noise, 2)
    assert len(list(Path(store.location("T")).iterdir())) == 2
    assert put(store, "T", numbered(3), 2)
    assert numbers(store, "T") == [1, 3]


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    store = DeltaTables(tmp_path)
    put(store, "T", numbered(1), 1)
    put(store, "U", numbered(1), 1)
    Path(store.location("T"), written(store, "T", numbered(1)).path).write_text("unused")
    version = Path(store.location("T")) / "_delta_log" / f"{0:020}.json"
    version.write_text("{")
    for ask in (store.describe, store.schema, store.rows):
        with pytest.raises(GatewayError, match="'T'"):
            ask("T")
    for path in Path(store.location("U")).glob("*.parquet"):
        path.unlink()
    with pytest.raises(GatewayError, match="cannot be read"):
        list(store.rows("U"))


def test_a_table_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    store = DeltaTables(tmp_path)
    for name in ("T", "x" * 200):
        put(store, name, numbered(1), 1)
    version = Path(store.location("x" * 200)) / "_delta_log" / f"{0:020}.json"
    version.write_text("{")
    assert store.names() == ["T"]


def test_a_table_that_others_gave_more_than_is_known_is_left_alone(tmp_path: Path) -> None:
    store = DeltaTables(tmp_path)
    put(store, "T", numbered(1), 1)
    DeltaTable(store.location("T")).alter.add_feature(
        TableFeatures.DeletionVectors, allow_protocol_versions_increase=True
    )
    with pytest.raises(GatewayError, match="deletionVectors"):
        put(store, "T", numbered(2), 2)


@pytest.mark.parametrize(
    "url", ["http://host/x", "ftp://host/x", "file://host/x", "nonsense://x", "/a%20b", "a\\b", "a\nb"]
)
def test_refuses_other_urls(url: str) -> None:
    with pytest.raises(ValueError, match="table store"):
        DeltaTables(url)


def test_takes_a_file_url(tmp_path: Path) -> None:
    assert put(DeltaTables(f"file://{tmp_path}/t"), "T", numbered(1), 1)
    assert DeltaTables(tmp_path / "t").names() == ["T"]
