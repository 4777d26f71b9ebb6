"""A query opens only the files that its conditions do not exclude."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from adapters.delta_tables import DeltaTables
from app.service.tables.sql_queries import FilesScanned, answered
from app.tables.quality import HOUR as HOUR_MICROS
from app.tables.quality import QUALITY, Increment, quality_rows
from app.tables.quality import SCHEMA as QUALITY_SCHEMA

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
    meant = [Path(fragment.path).name for fragment in tables.open("W.T").dataset.get_fragments()][120:180]
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
    assert tables.compact("W.T", most=FILES) == FILES
    numbers, scanned = asked(tables, HOUR)
    assert numbers == [*range(120, 180)]
    assert scanned.there >= FILES // 110
    assert scanned.read <= 2


@pytest.fixture(scope="module")
def quality(tmp_path_factory: pytest.TempPathFactory) -> DeltaTables:
    """A table of quality to which two increments of each hour were added, in a file each, of one of two sources."""
    made = DeltaTables(tmp_path_factory.mktemp("quality"))
    added = [
        quality_rows([Increment(f"s{n % 2}", n * HOUR_MICROS, messages=n + more, longest_seconds=float(more))])
        for more in (0, 1000)
        for n in range(10)
    ]
    made.commit(
        QUALITY, QUALITY_SCHEMA, [made.write(QUALITY, QUALITY_SCHEMA, rows.to_batches()) for rows in added], "test", 1
    )
    return made


@pytest.mark.parametrize(
    ("condition", "hours", "read"),
    [
        ("true", range(10), 20),
        ("hour >= '1970-01-01 03:00Z' AND hour < '1970-01-01 05:00Z'", (3, 4), 4),
        ("source = 's1'", range(1, 10, 2), 10),
        ("source = 's1' AND hour > '1970-01-01 06:00Z' AND messages > 1014", (9,), 4),
        ("messages = 1004", (2,), 20),
        ("messages > 1000 AND longest_seconds < 1000", (), 20),
    ],
)
def test_sums_of_quality_read_only_files_of_their_hours_and_sources(
    quality: DeltaTables, condition: str, hours: Sequence[int], read: int
) -> None:
    query = f"SELECT epoch(hour)::INT // 3600, messages, longest_seconds FROM quality WHERE {condition} ORDER BY hour"
    with answered(quality, query, "1GB") as answer:
        found = [tuple(row.values()) for batch in answer.batches for row in batch.to_pylist()]
        assert answer.scanned() == FilesScanned(read, 20)
    assert found == [(hour, 2 * hour + 1000, 1000.0) for hour in hours]
