"""A query opens only the files that its conditions do not exclude."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from adapters.delta_tables import DeltaTables
from app.service.tables.sql_queries import FilesScanned, answered

FILES, SOURCES = 2000, 20
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema([("source", pa.string()), ("received_at", pa.timestamp("us", "UTC")), ("n", pa.int64())])
HOUR = "received_at >= '2026-01-01 02:00:00+00' AND received_at < '2026-01-01 03:00:00+00'"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> DeltaTables:
    """A table with a file for each minute, from one source after the other."""
    made = DeltaTables(tmp_path_factory.mktemp("tables"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda _file: None)
        files = [
            made.write("W.T", SCHEMA, [pa.record_batch([[f"s{n % SOURCES:02}"], [minute(n)], [n]], schema=SCHEMA)])
            for n in range(FILES)
        ]
    made.commit("W.T", SCHEMA, files, "test", 1)
    return made


def minute(number: int) -> datetime:
    return BEGIN + timedelta(minutes=number)


def asked(tables: DeltaTables, condition: str) -> tuple[list[int], FilesScanned]:
    with answered(tables, f"SELECT n FROM w.t WHERE {condition} ORDER BY n", "1GB") as answer:
        numbers = [number for batch in answer.batches for number in batch["n"].to_pylist()]
        return numbers, answer.scanned()


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (HOUR, range(120, 180)),
        ("received_at BETWEEN '2026-01-02 00:00Z' AND '2026-01-02 00:05Z'", range(1440, 1446)),
        ("source = 's07'", range(7, FILES, SOURCES)),
        (f"source = 's07' AND {HOUR}", range(127, 180, SOURCES)),
        ("received_at > '2030-01-01'", range(0)),
    ],
)
def test_files_that_a_condition_excludes_are_not_read(tables: DeltaTables, condition: str, expected: range) -> None:
    numbers, scanned = asked(tables, condition)
    assert numbers == [*expected]
    assert scanned == FilesScanned(len(expected), FILES)


def test_an_hour_is_read_although_all_other_files_are_gone(tables: DeltaTables) -> None:
    folder = Path(tables.location("W.T"))
    meant = [Path(fragment.path).name for fragment in tables.dataset("W.T").get_fragments()][120:180]
    gone = [path for path in folder.glob("*.parquet") if path.name not in meant]
    hidden = folder.with_name("hidden")
    hidden.mkdir()
    try:
        for path in gone:
            path.rename(hidden / path.name)
        assert asked(tables, HOUR)[0] == [*range(120, 180)]
    finally:
        for path in gone:
            (hidden / path.name).rename(path)


def test_joined_files_keep_narrow_bounds(tables: DeltaTables, monkeypatch: pytest.MonkeyPatch) -> None:
    largest = 100 * max(path.stat().st_size for path in Path(tables.location("W.T")).glob("*.parquet"))
    monkeypatch.setattr("adapters.delta_tables.delta_store.SMALL_FILE", largest // 2)
    monkeypatch.setattr("os.fsync", lambda _file: None)
    assert tables.compact("W.T") == FILES
    numbers, scanned = asked(tables, HOUR)
    assert numbers == [*range(120, 180)]
    assert scanned.there >= FILES // 110
    assert scanned.read <= 2
