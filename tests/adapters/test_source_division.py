"""Neighbouring files are divided among sources, so that a query of one source reads few of them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import from_url

from adapters.delta_tables import DeltaTables
from adapters.delta_tables.delta_log import ActiveFile
from adapters.delta_tables.row_files import RowWriter
from adapters.delta_tables.source_division import Rows, division, windows
from adapters.delta_tables.table_storage import BucketStorage
from app.model.errors import GatewayError
from app.ports import FILES_BY_SOURCE
from tests.contracts.tables import APP, content, put

SOURCES = st.none() | st.sampled_from("abcdefgh")
COUNTS = st.lists(st.dictionaries(SOURCES, st.integers(1, 100), min_size=1), min_size=1, max_size=20)
SCHEMA = pa.schema([("source", pa.string()), ("received_at", pa.timestamp("us", "UTC")), ("n", pa.int64())])
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
KINDS = 20
FILES = 3 * FILES_BY_SOURCE + 5


@given(COUNTS, st.integers(1, 20))
def test_each_row_goes_to_one_of_few_files_and_fewer_have_a_source(counted: list[Rows], files: int) -> None:
    made = division(counted, files)
    if not made:
        return
    assert [{*each} for each in made] == [{*each} for each in counted]
    pairs = {pair for each in made for pair in each.items()}
    assert {number for _, number in pairs} == set(range(max(number for _, number in pairs) + 1)) <= set(range(files))
    assert len(pairs) < sum(map(len, counted))


def test_equal_sources_are_each_in_one_file() -> None:
    made = division([dict.fromkeys("abcdefgh", 5)] * 8, 8)
    assert made == [{source: at for at, source in enumerate("abcdefgh")}] * 8


def test_a_large_source_is_divided_by_time() -> None:
    made = division([{"a": 10, "b": 90}] * 5, 5)
    assert [each["a"] for each in made] == [0] * 5
    assert [each["b"] for each in made] == sorted(each["b"] for each in made)
    assert max(each["b"] for each in made) == 4


@pytest.mark.parametrize("counted", [[{"a": 5}] * 8, [{"a": 1}, {"b": 1}, {"c": 1}], [{"a": 1, "b": 1}]])
def test_what_would_save_nothing_stays(counted: list[Rows]) -> None:
    assert division(counted, len(counted)) == []


def bounded(*bounds: str | None) -> list[ActiveFile]:
    return [ActiveFile("", 1, 1, 0, None, None if each is None else (each[0], each[-1])) for each in bounds]


def test_windows_are_of_neighbours_whose_sources_overlap() -> None:
    found = windows(bounded("az", "bz", "az", "az", "az", None, "az", "az", "ac", "cf", "fz", "az", "by"), 2)
    assert [["".join(file.sources or ()) for file in window] for window in found] == [
        ["az", "bz"],
        ["az", "az"],
        ["az", "az"],
        ["az", "by"],
    ]


@pytest.fixture(params=["folder", "bucket"])
def tables(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DeltaTables:
    """A table with a file for each hour, with rows of all sources, and no file too small."""
    if request.param == "bucket":
        monkeypatch.setattr("adapters.delta_tables.table_storage.bucket", from_url)
        monkeypatch.setattr(
            "adapters.delta_tables.delta_store.LocalStorage", lambda folder: BucketStorage(folder.as_uri())
        )
    monkeypatch.setattr("adapters.delta_tables.delta_store.SMALL_FILE", 1)
    monkeypatch.setattr("os.fsync", lambda _file: None)
    made = DeltaTables(tmp_path)
    files = [made.write("T", SCHEMA, hour(number).to_batches()) for number in range(FILES)]
    made.commit("T", SCHEMA, files, APP, 1)
    return made


def hour(number: int) -> pa.Table:
    times = [BEGIN + timedelta(hours=number, minutes=minute) for minute in range(KINDS)]
    numbers = range(number * KINDS, (number + 1) * KINDS)
    return pa.table([[f"s{(7 * n) % KINDS:02}" for n in numbers], times, [*numbers]], schema=SCHEMA)


def read(tables: DeltaTables, wanted: pc.Expression) -> int:
    return len([*tables.open("T").dataset.get_fragments(wanted)])


def test_compaction_divides_large_files_among_sources(tables: DeltaTables) -> None:
    begin = pa.scalar(BEGIN + timedelta(hours=20), SCHEMA.field("received_at").type)
    end = pa.scalar(BEGIN + timedelta(hours=21), SCHEMA.field("received_at").type)
    in_hour = (pc.field("received_at") >= begin) & (pc.field("received_at") < end)
    before = content(tables, "T")
    assert [read(tables, pc.field("source") == f"s{n:02}") for n in range(KINDS)] == [FILES] * KINDS
    assert read(tables, in_hour) == 1
    older = tables.open("T").dataset
    assert tables.compact("T", most=1) == FILES_BY_SOURCE
    assert tables.compact("T") == 2 * FILES_BY_SOURCE
    assert tables.compact("T") == 0
    assert tables.describe("T").files <= FILES
    assert content(tables, "T").sort_by("n").equals(before)
    assert older.to_table().equals(before)
    of_source = [read(tables, pc.field("source") == f"s{n:02}") for n in range(KINDS)]
    assert max(of_source) <= 3 * 2 + 5
    assert sum(of_source) / KINDS < 3 * 1.5 + 5
    assert read(tables, in_hour) <= FILES_BY_SOURCE
    later = pc.field("received_at") >= pa.scalar(BEGIN + timedelta(hours=FILES - 5), begin.type)
    assert read(tables, later) == 5
    assert put(tables, "T", hour(FILES), 2)
    assert tables.compact("T") == 0, "too few are not divided"


def test_rows_without_a_source_stay(tables: DeltaTables) -> None:
    nobody = pa.table([[None] * KINDS, [BEGIN] * KINDS, [-1] * KINDS], schema=SCHEMA)
    mixed = pa.concat_tables([nobody, hour(FILES)])
    files = [tables.write("T", SCHEMA, mixed.to_batches()) for _ in range(FILES_BY_SOURCE)]
    tables.commit("T", SCHEMA, files, APP, 2)
    before = content(tables, "T").sort_by([("n", "ascending")])
    assert tables.compact("T") == 4 * FILES_BY_SOURCE
    assert content(tables, "T").sort_by([("n", "ascending")]).equals(before)
    assert content(tables, "T")["source"].null_count == KINDS * FILES_BY_SOURCE


def test_what_another_process_replaces_meanwhile_is_divided_once(
    tables: DeltaTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    def divided_before(self: DeltaTables, *given: Any) -> bool:
        if not other:
            other.append(self)
            assert self.compact("T", most=1) == FILES_BY_SOURCE
        return replaced(self, *given)

    other: list[DeltaTables] = []
    replaced, before = DeltaTables._replaced, content(tables, "T")
    monkeypatch.setattr(DeltaTables, "_replaced", divided_before)
    assert tables.compact("T") == 2 * FILES_BY_SOURCE
    assert content(tables, "T").sort_by("n").equals(before)


def test_a_division_that_fails_leaves_the_table_as_it_was(tables: DeltaTables, monkeypatch: pytest.MonkeyPatch) -> None:
    def add(self: RowWriter, batch: pa.RecordBatch) -> None:
        added.append(batch)
        if len(added) == 100:
            raise GatewayError("the disk is on fire")

    added: list[pa.RecordBatch] = []
    before, files = content(tables, "T"), data_files(tables)
    monkeypatch.setattr(RowWriter, "add", add)
    with pytest.raises(GatewayError, match="on fire"):
        tables.compact("T")
    assert content(tables, "T").equals(before)
    assert data_files(tables) == files


def data_files(tables: DeltaTables) -> set[str]:
    return {path.name for path in Path(tables.location("T").removeprefix("file://")).glob("*.parquet")}
