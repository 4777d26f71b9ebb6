"""Upkeep of tables: what it joins, removes and leaves, and what happens meanwhile."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from structlog.testing import capture_logs

from adapters.delta_tables import DeltaTables, delta_log
from app.model.errors import GatewayError
from app.ports import TableStore
from app.service.context import ReceiverContext
from app.service.tables.table_upkeep import AGAIN_SECONDS, TableUpkeep
from app.testing.gateway_stages import ManualClock, service_context
from tests.contracts.tables import APP, numbered, put, written

DAY = 86_400.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def context(tmp_path: Path, clock: ManualClock) -> Iterator[ReceiverContext]:
    with service_context(tmp_path, clock) as made:
        yield made


@pytest.fixture
def tables(context: ReceiverContext) -> DeltaTables:
    return DeltaTables(context.settings.data / "tables")


def upkeep(context: ReceiverContext, tables: TableStore) -> TableUpkeep:
    return TableUpkeep(context, lambda: tables, Event())


def folder(tables: DeltaTables, name: str) -> Path:
    return Path(tables.location(name))


def data_files(tables: DeltaTables, name: str) -> set[str]:
    return {path.name for path in folder(tables, name).glob("*.parquet")}


def read_by_others(tables: DeltaTables, name: str) -> list[int]:
    """The numbers of a table as deltalake and pyarrow find them, by the log of the newest version."""
    found = [pq.read_table(uri)["n"].to_pylist() for uri in DeltaTable(tables.location(name)).file_uris()]
    return sorted(number for numbers in found for number in numbers)


def days_ago(days: float, monkeypatch: pytest.MonkeyPatch, tables: DeltaTables, work: Callable[[], object]) -> None:
    """Do work on the table T with the dates of an earlier day, in its log and on its files."""
    real, before = delta_log._now, set(folder(tables, "T").rglob("*")) if "T" in tables.names() else set()
    with monkeypatch.context() as then:
        then.setattr(delta_log, "_now", lambda: real() - int(days * DAY * 1000))
        work()
    for path in {*folder(tables, "T").rglob("*")} - before:
        if path.is_file():
            os.utime(path, (time.time() - days * DAY,) * 2)


def test_joins_files_removes_what_was_replaced_long_ago_and_shortens_the_log(
    context: ReceiverContext, tables: DeltaTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    def grow(first: int, last: int) -> Callable[[], object]:
        return lambda: [put(tables, "T", numbered(number), number) for number in range(first, last)]

    days_ago(9, monkeypatch, tables, grow(0, 10))
    days_ago(8, monkeypatch, tables, lambda: tables.compact("T"))
    days_ago(6, monkeypatch, tables, grow(10, 15))
    days_ago(5, monkeypatch, tables, lambda: tables.compact("T"))
    days_ago(4, monkeypatch, tables, grow(15, 19))
    assert len(data_files(tables, "T")) == 10 + 1 + 5 + 1 + 4
    older = tables.open("T").dataset
    with capture_logs() as logs:
        upkeep(context, tables).step()
    assert {log["event"]: log["files"] for log in logs} == {"table_compacted": 5, "table_vacuumed": 10}
    assert len(data_files(tables, "T")) == 1 + 5 + 1 + 4 + 1, "what was replaced less than a week ago stays"
    assert sorted(older.to_table()["n"].to_pylist()) == list(range(19)), "who opened an older version reads on"
    assert tables.describe("T").files == 1
    assert read_by_others(tables, "T") == list(range(19))
    log = sorted(path.name for path in (folder(tables, "T") / "_delta_log").glob("*.json"))
    assert len(log) == 1, "only the newest version is younger than an hour"
    again = DeltaTables(context.settings.data / "tables")
    assert again.reached("T", APP) == 18
    assert not put(again, "T", numbered(99), 18)
    assert put(again, "T", numbered(19), 19)
    assert read_by_others(tables, "T") == list(range(20))


def test_what_a_batch_has_written_can_be_committed_afterwards(
    context: ReceiverContext, tables: DeltaTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    days_ago(9, monkeypatch, tables, lambda: put(tables, "T", numbered(1), 1))
    days_ago(8, monkeypatch, tables, lambda: written(tables, "T", numbered(98)))  # its process was killed
    pending = written(tables, "T", numbered(2))
    upkeep(context, tables).step()
    assert len(data_files(tables, "T")) == 2
    assert tables.commit("T", numbered(2).schema, [pending], APP, 2) is not None
    assert read_by_others(tables, "T") == [1, 2]


def test_a_table_that_fails_stops_no_other_and_is_tried_again(
    context: ReceiverContext, tables: DeltaTables, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compact(self: DeltaTables, name: str, most: int | None = None) -> int:
        if name == "A" and is_broken:
            raise GatewayError("the disk is on fire")
        return real(self, name, most)

    real, is_broken = DeltaTables.compact, True
    monkeypatch.setattr(DeltaTables, "compact", compact)
    for name in ("A", "B"):
        for number in range(3):
            put(tables, name, numbered(number), number)
    caring = upkeep(context, tables)
    caring.step()
    assert [tables.describe(name).files for name in ("A", "B")] == [3, 1]
    assert caring.check() == {"ok": False, "failing": ["A"], "error": "the disk is on fire"}
    is_broken = False
    caring.step()
    assert tables.describe("A").files == 3, "not before the pause is over"
    clock.advance(AGAIN_SECONDS)
    caring.step()
    assert tables.describe("A").files == 1
    assert caring.check() == {"ok": True, "failing": [], "error": None}
    put(tables, "A", numbered(3), 3)
    clock.advance(AGAIN_SECONDS)
    caring.step()
    assert tables.describe("A").files == 2, "the next round is a day later"
    clock.advance(DAY)
    caring.step()
    assert tables.describe("A").files == 1


def test_two_at_once_beside_a_writer_lose_and_repeat_nothing(context: ReceiverContext, tables: DeltaTables) -> None:
    commits, failed = 40, list[BaseException]()
    put(tables, "T", numbered(0), 0)
    ended = Event()

    def care() -> None:
        own = DeltaTables(context.settings.data / "tables")
        try:
            while not ended.is_set():
                caring = upkeep(context, own)
                caring.step()
                if (error := caring.check()["error"]) is not None:
                    raise AssertionError(error)
        except BaseException as error:  # noqa: BLE001 - the test shows it
            failed.append(error)

    threads = [Thread(target=care) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(1, commits):
        assert put(tables, "T", numbered(number), number)
    ended.set()
    for thread in threads:
        thread.join()
    assert not failed
    assert read_by_others(tables, "T") == list(range(commits))
    assert tables.reached("T", APP) == commits - 1
    upkeep(context, tables).step()
    assert tables.describe("T").files == 1


def test_libraries_of_tables_are_not_loaded_without_tables(context: ReceiverContext) -> None:
    def fail() -> TableStore:
        raise AssertionError("opened")

    caring = TableUpkeep(context, fail, Event())
    caring.step()
    assert caring.check()["ok"]
