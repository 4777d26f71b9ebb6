"""Tables to which a stream adds a few rows again and again."""

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.delta_tables import DeltaTables, delta_log
from adapters.delta_tables.delta_log import ActiveFile
from adapters.delta_tables.delta_store import JOIN_EVERY, last_files
from app.model.errors import GatewayError
from tests.contracts.tables import APP, content, numbered, numbers, put, written


def active(rows: int, size: int = 1) -> ActiveFile:
    return ActiveFile(f"{rows}", size, rows, 0, None)


@pytest.mark.parametrize(
    ("rows", "joined"),
    [
        ([], []),
        ([5], [5]),
        ([5, 1], [1]),
        ([1, 1, 1], [1, 1, 1]),
        ([4, 2, 1, 1], [4, 2, 1, 1]),
        ([9, 2, 1, 1], [2, 1, 1]),
        ([1, 9, 2, 1, 1], [2, 1, 1]),
    ],
)
def test_the_last_files_are_joined_while_none_is_larger_than_those_after_it(rows: list[int], joined: list[int]) -> None:
    assert [file.rows for file in last_files([*map(active, rows)], 10)] == joined


def test_a_large_file_is_not_joined() -> None:
    assert last_files([active(1), active(1, 10), active(1), active(1)], 10) == [active(1), active(1)]


@given(st.integers(1, 3000))
def test_there_are_few_files_and_rows_are_seldom_written_again(commits: int) -> None:
    files: list[int] = []
    again = 0
    for number in range(1, commits + 1):
        files.append(1)
        if number % JOIN_EVERY == 0:
            last = [file.rows for file in last_files([*map(active, files)], 10)]
            files[len(files) - len(last) :] = [sum(last)]
            again += sum(last)
    assert sum(files) == commits
    assert len(files) <= JOIN_EVERY + commits.bit_length()
    assert again <= commits * commits.bit_length()


def test_rows_keep_the_order_of_their_commits_where_the_clock_is_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables, begun = DeltaTables(tmp_path), delta_log._now()
    now = begun
    monkeypatch.setattr(delta_log, "_now", lambda: now)
    for number in range(2 * JOIN_EVERY):
        now -= 60_000
        assert put(tables, "W.T", numbered(number), number)
    assert content(tables, "W.T")["n"].to_pylist() == list(range(2 * JOIN_EVERY))
    times = [file.modified_at for file in delta_log.Snapshot(tables.location("W.T"), "W.T").files()]
    assert times == sorted(set(times))
    assert begun - 60_000 <= min(times)
    assert max(times) < begun + 60_000


def test_a_stream_of_commits_leaves_few_files_and_the_same_rows(tmp_path: Path) -> None:
    tables = DeltaTables(tmp_path)
    commits = 3 * JOIN_EVERY
    for number in range(commits):
        assert put(tables, "W.T", numbered(number), number)
        assert not put(tables, "W.T", numbered(number), number)
    described = tables.describe("W.T")
    assert described.files < JOIN_EVERY
    assert described.version > commits
    assert content(tables, "W.T")["n"].to_pylist() == list(range(commits))
    assert tables.reached("W.T", APP) == commits - 1


def test_commits_of_two_stores_see_each_other(tmp_path: Path) -> None:
    one, other = DeltaTables(tmp_path), DeltaTables(tmp_path)
    for number in range(2 * JOIN_EVERY):
        assert put((one, other)[number % 2], "W.T", numbered(number), number)
        assert not put((other, one)[number % 2], "W.T", numbered(number), number)
    assert numbers(one, "W.T") == list(range(2 * JOIN_EVERY))
    assert one.schema("W.T") == other.schema("W.T")


def test_files_that_another_process_joins_meanwhile_are_joined_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables, other = DeltaTables(tmp_path), DeltaTables(tmp_path)
    write = DeltaTables.write

    def compact_first(self: DeltaTables, *given: object) -> object:
        if self is tables and joining:
            joining.clear()
            other.compact("W.T")
        return write(self, *given)  # type: ignore[arg-type]

    for number in range(JOIN_EVERY + 1):
        file = written(tables, "W.T", numbered(number))
        joining = [True] if number == JOIN_EVERY else []
        monkeypatch.setattr(DeltaTables, "write", compact_first)
        assert tables.commit("W.T", numbered(0).schema, [file], APP, number) is not None
        monkeypatch.undo()
    assert not joining
    assert numbers(tables, "W.T") == list(range(JOIN_EVERY + 1))


def test_files_that_cannot_be_joined_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bool:
        raise GatewayError("the disk is on fire")

    monkeypatch.setattr(DeltaTables, "_join", fail)
    tables = DeltaTables(tmp_path)
    for number in range(JOIN_EVERY + 2):
        assert put(tables, "W.T", numbered(number), number)
    assert tables.describe("W.T").files == JOIN_EVERY + 2


def test_a_table_that_was_deleted_begins_anew(tmp_path: Path) -> None:
    tables = DeltaTables(tmp_path)
    for number in range(3):
        put(tables, "W.T", numbered(number), number)
    shutil.rmtree(tmp_path / "W.T")
    assert tables.reached("W.T", APP) is None
    assert put(tables, "W.T", numbered(7), 1)
    assert (tables.describe("W.T").version, numbers(tables, "W.T")) == (0, [7])
