import pickle
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.delta_tables import DeltaTables
from adapters.object_store import ObjectStore
from app.pipeline.commit.tables import CommittedTable, DataSet, append, commit, plan, table_building, tasks, write
from app.pipeline.commit.tables.schema_evolution import evolve
from app.pipeline.commit.tables.table_building import TASK_BYTES, TASK_DATA_SETS
from app.ports import FILES_BY_SOURCE, ContentStore, TableFile, TableStore
from tests.pipeline.tables.schemas import as_duration, data_set_tables
from tests.support.length import examples
from tests.support.tables import field, parquet, pupils, visits

APP = "pipeline"


def stored(content: ContentStore, attachment: str, table: pa.Table, **said: Any) -> DataSet:
    """A data set, in the content store."""
    name = f"attachments/{attachment}"
    with content.create(name) as writer:
        writer.write(parquet(table))
    made = DataSet(attachment, "m", "here", 1_000, "WORK", "T", name, content.size(name), table.schema)
    return made._replace(**said)


def build(
    tables: TableStore, content: ContentStore, data_sets: Iterable[DataSet], transaction: int
) -> list[CommittedTable]:
    """A whole transaction in one process."""
    plans = plan(tables, data_sets, APP, transaction)
    written = [write(task, tables, content) for some in tasks(plans, data_sets) for task in some]
    return commit(plans, written, tables, APP, transaction)


def rows_of(tables: TableStore, table: str, attachment: str) -> pa.Table:
    rows = pa.Table.from_batches(tables.rows(table), tables.schema(table))
    return rows.filter(pa.compute.equal(rows["attachment"], attachment))


@pytest.fixture
def tables(tmp_path: Path) -> DeltaTables:
    return DeltaTables(tmp_path / "tables")


@pytest.fixture
def content(tmp_path: Path) -> ObjectStore:
    return ObjectStore(tmp_path / "content")


def test_a_data_set_becomes_rows_that_say_whence_they_are(tables: DeltaTables, content: ObjectStore) -> None:
    data_set = stored(content, "a1", visits(), library="clinic", member="visits")
    assert build(tables, content, [data_set], 7) == [CommittedTable("CLINIC.VISITS", 5, [], 0)]
    found = rows_of(tables, "CLINIC.VISITS", "a1")
    assert found.select(visits().column_names).to_pylist() == visits().to_pylist()
    assert set(found["message"].to_pylist() + found["source"].to_pylist()) == {"m", "here"}
    assert found["received_at"].cast(pa.int64()).to_pylist() == [1_000] * 5
    assert found["row"].to_pylist() == [1, 2, 3, 4, 5]
    assert tables.reached("CLINIC.VISITS", APP) == 7


@settings(max_examples=examples(12), deadline=None)
@given(st.lists(st.lists(data_set_tables(), max_size=3), max_size=3), st.randoms())
def test_every_value_comes_back(batches: list[list[pa.Table]], random: Random) -> None:
    with TemporaryDirectory() as folder:
        tables, content = DeltaTables(Path(folder, "tables")), ObjectStore(Path(folder, "content"))
        sent: list[DataSet] = []
        for transaction, batch in enumerate(batches):
            made = [stored(content, f"a{len(sent) + n}", table) for n, table in enumerate(batch)]
            sent += made
            random.shuffle(made)
            done = build(tables, content, made, transaction)
            assert [(each.table, each.rows) for each in done] == [("WORK.T", sum(t.num_rows for t in batch))] * bool(
                batch
            )
        for data_set, table in zip(sent, (table for batch in batches for table in batch), strict=True):
            assert_holds(tables, data_set, table)


@pytest.mark.parametrize("names", [["Id", "ID", "iD"], ["A_3", "A", "A_3"], ["A", "A", "A"]])
def test_columns_whose_names_are_equal_keep_their_values(
    tables: DeltaTables, content: ObjectStore, names: list[str]
) -> None:
    """Data sets that were stored by earlier versions may have them."""
    odd = pa.Table.from_arrays([pa.array([float(number)]) for number in (1, 2, 3)], names)
    plain = pa.table({names[1]: [4.0]})
    for transaction, table in enumerate((odd, plain, odd)):
        (done,) = build(tables, content, [stored(content, f"a{transaction}", table)], transaction)
        assert done.rows == 1
    for attachment in ("a0", "a2"):
        (row,) = rows_of(tables, "WORK.T", attachment).to_pylist()
        assert [*row.values()][5:] == [1.0, 2.0, 3.0]
    (row,) = rows_of(tables, "WORK.T", "a1").to_pylist()
    assert [*row.values()].count(4.0) == 1


def assert_holds(tables: DeltaTables, data_set: DataSet, table: pa.Table) -> None:
    found = rows_of(tables, "WORK.T", data_set.attachment).sort_by("row")
    assert found["row"].to_pylist() == list(range(1, table.num_rows + 1))
    mapping = evolve(tables.schema("WORK.T"), [data_set.schema]).mappings[0]
    for column, target in mapping:
        values = table[column].to_pylist()
        if found.schema.field(target).type != table.schema.field(column).type:
            values = [as_duration(value) for value in values]
        assert found[target].to_pylist() == values
    for other in {*found.column_names[5:]} - {target for _, target in mapping}:
        assert found[other].null_count == table.num_rows


def test_tasks_travel_between_processes(tables: DeltaTables, content: ObjectStore) -> None:
    data_sets = [stored(content, "a1", visits()), stored(content, "a2", pupils(), message=None)]
    plans = plan(tables, data_sets, APP, 1)
    (made,) = tasks(plans, data_sets)
    assert pickle.loads(pickle.dumps(made)) == made
    written = [pickle.loads(pickle.dumps(write(task, tables, content))) for task in made]
    assert [each.rows for each in commit(plans, written, tables, APP, 1)] == [8]


def test_a_plan_does_not_depend_on_the_order_it_is_given(tables: DeltaTables, content: ObjectStore) -> None:
    number, text = pa.table({"x": [1.0]}), pa.table({"x": ["one"]})
    data_sets = [
        stored(content, f"a{n}", text if n % 3 else number, received_at=n // 2, member="TU"[n % 2]) for n in range(12)
    ]
    expected = plan(tables, data_sets, APP, 1)
    (made,) = tasks(expected, data_sets)
    for _ in range(5):
        Random(1).shuffle(data_sets)
        assert plan(tables, data_sets, APP, 1) == expected
        assert [*tasks(expected, data_sets)] == [made]
    assert [each.table for each in expected] == [task.table for task in made] == ["WORK.T", "WORK.U"]
    assert [part.attachment for part in made[0].parts] == ["a0", "a2", "a4", "a6", "a8", "a10"]


def test_very_many_data_sets_are_divided_some_at_a_time(
    tables: DeltaTables, content: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only their schemas are known together: the table has the columns of all of them."""
    monkeypatch.setattr(table_building, "DATA_SETS_AT_ONCE", 4)
    shapes = [pa.table({name: [1.0]}) for name in "xyz"]
    data_sets = [stored(content, f"a{n}", shapes[n % 3], received_at=n, member="TU"[n % 2]) for n in range(10)]
    plans = plan(tables, iter(data_sets), APP, 1)
    made = list(tasks(plans, iter(data_sets)))
    assert [sum(len(task.parts) for task in some) for some in made] == [4, 4, 2]
    assert build(tables, content, data_sets, 1) == [CommittedTable(f"WORK.{name}", 5, [], 0) for name in "TU"]
    assert tables.schema("WORK.U").names[5:] == ["y", "x", "z"]
    assert {row["attachment"] for row in pa.Table.from_batches(tables.rows("WORK.T")).to_pylist()} == {
        f"a{n}" for n in range(0, 10, 2)
    }


def sized(*sizes: int) -> list[DataSet]:
    schema = pa.schema([field("X", pa.float64())])
    return [
        DataSet(f"a{n}", None, "here", n, "WORK", "T", f"attachments/a{n}", size, schema)
        for n, size in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [
        ([1], [1]),
        ([TASK_BYTES // 4] * 9, [4, 4, 1]),
        ([1, TASK_BYTES * 3, 1], [1, 1, 1]),
        ([0] * (TASK_DATA_SETS + 1), [TASK_DATA_SETS, 1]),
    ],
)
def test_work_is_cut_by_bytes(sizes: list[int], parts: list[int], tables: DeltaTables) -> None:
    (made,) = tasks(plan(tables, sized(*sizes), APP, 1), sized(*sizes))
    assert [len(task.parts) for task in made] == parts
    assert all(len(task.mappings) == 1 for task in made)


def test_files_of_a_large_transaction_have_few_sources_each(
    tables: DeltaTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_building, "TASK_DATA_SETS", 4)
    of_window, sources = 4 * FILES_BY_SOURCE, 20
    data_sets = [each._replace(source=f"s{n * 7 % sources:02}") for n, each in enumerate(sized(*[1] * 5 * of_window))]
    Random(1).shuffle(data_sets)
    (made,) = tasks(plan(tables, data_sets, APP, 1), data_sets)
    assert [len(task.parts) for task in made] == [4] * 5 * FILES_BY_SOURCE
    files = [{part.source for part in task.parts} for task in made]
    of_source = [sum(f"s{n:02}" in file for file in files) for n in range(sources)]
    assert max(of_source) <= 5 * 2
    for number, task in enumerate(made):
        assert {part.received_at // of_window for part in task.parts} == {number // FILES_BY_SOURCE}
        assert [*task.parts] == sorted(task.parts, key=lambda part: (part.source, part.received_at))


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(st.tuples(st.integers(0, TASK_BYTES), st.sampled_from("abc")), min_size=1, max_size=80))
def test_the_order_by_source_makes_no_more_files(given: list[tuple[int, str]]) -> None:
    by_time = sized(*(size for size, _ in given))
    data_sets = [each._replace(source=source) for each, (_, source) in zip(by_time, given, strict=True)]
    with TemporaryDirectory() as folder:
        plans = plan(DeltaTables(folder), data_sets, APP, 1)
    (made,), (before,) = tasks(plans, data_sets), tasks(plans, by_time)
    assert len(made) <= len(before)
    assert max(task.size for task in made) <= TASK_BYTES
    assert sorted(part.attachment for task in made for part in task.parts) == sorted(
        each.attachment for each in data_sets
    )


def test_many_tables_of_small_data_sets_make_a_file_each(tables: DeltaTables, content: ObjectStore) -> None:
    data_sets = [stored(content, f"a{n}", pupils(), member=f"T{n % 40}") for n in range(120)]
    done = build(tables, content, data_sets, 1)
    assert [each.rows for each in done] == [9] * 40
    described = [tables.describe(name) for name in tables.names()]
    assert [(each.version, each.files) for each in described] == [(0, 1)] * 40


def test_a_data_set_without_observations_makes_columns_and_no_file(tables: DeltaTables, content: ObjectStore) -> None:
    assert build(tables, content, [stored(content, "a1", visits().slice(0, 0))], 1) == [
        CommittedTable("WORK.T", 0, [], 0)
    ]
    assert tables.schema("WORK.T").names[5:] == visits().column_names
    assert tables.describe("WORK.T").files == 0


class Breaks(DeltaTables):
    """A store that takes so many commits, and is killed."""

    left = 1
    lock = Lock()

    def commit(
        self, name: str, schema: pa.Schema, files: Sequence[TableFile], application: str, transaction: int
    ) -> int | None:
        with self.lock:
            if not self.left:
                raise SystemExit
            self.left -= 1
        return super().commit(name, schema, files, application, transaction)


def test_what_was_broken_off_is_finished_and_not_repeated(tmp_path: Path, content: ObjectStore) -> None:
    data_sets = [stored(content, f"a{n}", pupils(), member=f"T{n % 3}") for n in range(6)]
    breaks = Breaks(tmp_path / "tables")
    with pytest.raises(SystemExit):
        build(breaks, content, data_sets, 5)
    tables = DeltaTables(tmp_path / "tables")
    (done,) = tables.names()
    rest = [name for name in ("WORK.T0", "WORK.T1", "WORK.T2") if name != done]
    assert [each.table for each in build(tables, content, data_sets, 5)] == rest
    assert build(tables, content, data_sets, 5) == []
    assert [tables.describe(name).rows for name in tables.names()] == [6, 6, 6]


def test_a_transaction_that_another_process_commits_meanwhile_happens_once(
    tables: DeltaTables, content: ObjectStore
) -> None:
    data_sets = [stored(content, "a1", pupils())]
    plans = plan(tables, data_sets, APP, 1)
    written = [write(task, tables, content) for some in tasks(plans, data_sets) for task in some]
    build(tables, content, data_sets, 1)
    assert commit(plans, written, tables, APP, 1) == []
    assert tables.describe("WORK.T").rows == 3


def test_conflicts_are_warned_of_once(tables: DeltaTables, content: ObjectStore) -> None:
    warned = [
        build(tables, content, [stored(content, f"a{n}", pa.table({"x": [value]}))], n)[0].warnings
        for n, value in enumerate([1.5, "one", "two", 2.5])
    ]
    assert [len(warnings) for warnings in warned] == [0, 1, 0, 0]
    found = pa.Table.from_batches(tables.rows("WORK.T")).sort_by("attachment")
    assert found["x"].to_pylist() == [1.5, None, None, 2.5]
    assert found["x__text"].to_pylist() == [None, "one", "two", None]


GROUPS = 40
MOST_HELD = 192 << 20


class Watched(DeltaTables):
    """A store that looks at how much memory Arrow holds while it writes."""

    most = 0

    def write(self, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> TableFile:
        def watched() -> Iterable[pa.RecordBatch]:
            for batch in batches:
                self.most = max(self.most, pa.total_allocated_bytes())
                yield batch

        return super().write(name, schema, watched())


def test_memory_does_not_grow_with_a_data_set(tmp_path: Path, content: ObjectStore) -> None:
    table = pa.table({"text": pa.array([f"{n:05}".ljust(32_000, "x") for n in range(500)])})
    with content.create("attachments/big") as writer:
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(sink, table.schema, compression="zstd") as to:
            for _ in range(GROUPS):
                to.write_table(table)
        writer.write(memoryview(sink.getvalue()))
        del sink
    data_set = DataSet("big", "m", "here", 1, "WORK", "BIG", "attachments/big", 1, table.schema)
    before = pa.total_allocated_bytes()
    tables = Watched(tmp_path / "tables")
    assert build(tables, content, [data_set], 1)[0].rows == GROUPS * 500
    held = max(pa.total_allocated_bytes() for _ in tables.rows("WORK.BIG"))
    assert max(held, tables.most) - before < MOST_HELD < GROUPS * table.nbytes // 3
    assert tables.describe("WORK.BIG").files == 1


def added(tables: DeltaTables, rows: pa.Table, transaction: int, *, marks: bool = False) -> CommittedTable | None:
    return append(tables, "files", rows.schema, rows.to_batches(2), APP, transaction, marks=marks)


def test_the_pipelines_own_tables_are_appended_to_once(tables: DeltaTables, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"n": [1, 2]})
    assert added(tables, rows.slice(0, 0), 1) is None
    assert tables.names() == []
    assert added(tables, rows, 2) == CommittedTable("files", 2, [], 0)
    assert added(tables, rows, 2) is None
    assert added(tables, rows, 3) == CommittedTable("files", 2, [], 1)
    assert tables.describe("files").rows == 4
    assert added(tables, rows.slice(0, 0), 4, marks=True) is None
    assert tables.reached("files", APP) == 4
    monkeypatch.setattr(table_building, "ROWS_A_FILE", 3)
    assert added(tables, pa.table({"n": range(9)}), 5) == CommittedTable("files", 9, [], 3)
    assert tables.describe("files").files == 2 + 3
    assert sorted(pa.Table.from_batches(tables.rows("files"))["n"].to_pylist()) == sorted([1, 2, 1, 2, *range(9)])


def test_tasks_are_small(tables: DeltaTables) -> None:
    data_sets = sized(*[1_000] * 5_000)
    made = list(tasks(plan(tables, data_sets, APP, 1), data_sets))
    assert len(pickle.dumps(made)) < 5_000 * 200
