"""A version's dataset: which files a filter excludes, and what is computed for that."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.delta_tables import DeltaTables, table_folders
from adapters.delta_tables.bounded_dataset import BoundedDataset
from tests.contracts.tables import APP, put, written
from tests.support.length import examples
from tests.support.object_server import Bucket
from tests.support.tables import visits

NUMBERS = st.none() | st.integers(-3, 3)
TEXTS = st.none() | st.sampled_from(["", "a", "b" * 40, "b" * 41, "é"])
FILES = st.lists(
    st.lists(st.tuples(NUMBERS, TEXTS, st.none() | st.just(2.5)), min_size=1, max_size=3), min_size=1, max_size=5
)
SCHEMA = pa.schema([("a number", pa.int64()), ("text", pa.string()), ("empty.", pa.float64())])
FILTERS = [
    *(pc.field("a number") == value for value in range(-3, 4)),
    pc.field("a number") > 1,
    pc.field("a number").isin(pa.array([0, None], pa.int64())),
    pc.field("a number").is_null(),
    pc.field("text") >= "b" * 41,
    (pc.field("text") == "é") | (pc.field("a number") < 0),
    ~(pc.field("text") < "b") & pc.field("empty.").is_valid(),
]


@settings(max_examples=examples(15), deadline=None)
@given(FILES)
def test_a_filter_excludes_what_deltalake_excludes_and_no_row(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[tuple[Any, ...]]]
) -> None:
    store = DeltaTables(tmp_path_factory.mktemp("tables"))
    tables = [
        pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA) for rows in files
    ]
    store.commit("T", SCHEMA, [written(store, "T", table) for table in tables], APP, 1)
    rows = pa.concat_tables(tables)
    found, others = store.open("T").dataset, DeltaTable(store.location("T")).to_pyarrow_dataset()
    assert found.to_table().equals(rows)
    for wanted in FILTERS:
        meant = [fragment.path for fragment in found.get_fragments(wanted)]
        assert set(meant) <= {fragment.path for fragment in others.get_fragments(wanted)}
        assert found.to_table(filter=wanted).equals(rows.filter(wanted)), str(wanted)


def test_only_bounds_of_columns_in_a_filter_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def guarantees(self: BoundedDataset, names: Collection[str]) -> Iterator[pc.Expression]:
        made.append([*names])
        return real(self, names)

    made: list[list[str]] = []
    real = BoundedDataset._guarantees
    monkeypatch.setattr(BoundedDataset, "_guarantees", guarantees)
    monkeypatch.setattr(DeltaTable, "to_pyarrow_dataset", lambda *_: pytest.fail("makes the bounds of all columns"))
    store = DeltaTables(tmp_path)
    for transaction in range(3):
        put(store, "T", visits(), transaction)
    dataset = store.open("T").dataset
    assert dataset.to_table().num_rows == 15
    assert made == []
    assert dataset.to_table(filter=pc.field("Age") > 1e80).num_rows == 0
    assert made == [["Age"]]
    assert [*store.open("T", {"Seen"}).dataset.get_fragments(pc.field("Age") > 1e80)] != []


def test_a_server_of_objects_is_asked_for_files_that_are_meant_alone(bucket: Bucket) -> None:
    store = DeltaTables(f"{bucket.url}/tables")
    tables = [pa.table([[n], ["é"], [None]], schema=SCHEMA) for n in range(3)]
    store.commit("T", SCHEMA, [written(store, "T", table) for table in tables], APP, 1)
    dataset = store.open("T").dataset
    first, _, last = dataset.files
    for path in (first, last):
        store._storage.delete(f"{table_folders.folder('T')}/{path}")
    assert dataset.to_table(filter=pc.field("a number") == 1).equals(tables[1])
