"""The upkeep of tables by the keeper."""

import os
from pathlib import Path
from time import time

from adapters.delta_tables import DeltaTables
from adapters.delta_tables.delta_store import CHECKPOINT_EVERY
from app.service.retention.table_upkeep import TableUpkeep
from app.testing.gateway_stages import service_context
from tests.contracts.tables import APP, numbered, numbers, put

WEEK, MONTH = 7 * 86_400, 31 * 86_400


def _aged(folder: Path, seconds: float) -> None:
    """Make all files of a table so old."""
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (time() - seconds, time() - seconds))


def test_small_files_are_joined_and_what_no_version_needs_goes(tmp_path: Path) -> None:
    """An application's transaction number stays, although its entry of the log goes."""
    store = DeltaTables(tmp_path / "tables")
    for name in ("A", "B"):
        for number in range(1, CHECKPOINT_EVERY + 3):
            put(store, name, numbered(number), number)
    folders = [Path(store.location(name)) for name in ("A", "B")]
    with service_context(tmp_path) as context:
        upkeep = TableUpkeep(context)
        upkeep.step()
        files = [{*folder.glob("*.parquet")} for folder in folders]
        assert all(len(each) > 3 for each in files), "older versions still have their files"
        assert [store.describe(name).files for name in ("A", "B")] == [1, 1]
        for folder in folders:
            _aged(folder, MONTH)
        upkeep.step()
        assert upkeep.check() == {"ok": True, "error": None}
    wanted = list(range(1, CHECKPOINT_EVERY + 3))
    for name, folder in zip(("A", "B"), folders, strict=True):
        fresh = DeltaTables(tmp_path / "tables")
        assert numbers(fresh, name) == wanted
        assert fresh.reached(name, APP) == CHECKPOINT_EVERY + 2
        assert not (folder / "_delta_log" / f"{1:020}.json").exists()
        assert put(fresh, name, numbered(99), 99)
        assert not put(fresh, name, numbered(99), 99)


def test_a_table_that_cannot_be_read_does_not_stop_the_others(tmp_path: Path) -> None:
    store = DeltaTables(tmp_path / "tables")
    for name in ("A", "B"):
        for number in (1, 2):
            put(store, name, numbered(number), number)
    for path in (Path(store.location("A")) / "_delta_log").glob("*.json"):
        path.write_bytes(b"no JSON")
    with service_context(tmp_path) as context:
        upkeep = TableUpkeep(context)
        upkeep.step()
        assert not upkeep.check()["ok"]
    assert store.describe("B").files == 1


def test_nothing_is_done_without_tables_or_when_all_files_are_to_stay(tmp_path: Path) -> None:
    with service_context(tmp_path) as context:
        TableUpkeep(context).step()
    assert not (tmp_path / "tables").exists()
    store = DeltaTables(tmp_path / "tables")
    for number in (1, 2):
        put(store, "A", numbered(number), number)
    with service_context(tmp_path, retention={"table_versions": None}) as context:
        TableUpkeep(context).step()
    assert store.describe("A").files == 2
