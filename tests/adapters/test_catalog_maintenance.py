"""Catalog databases as a whole, SQLite and PostgreSQL."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from adapters.sql_catalog import SqlCatalog
from app.model.errors import GatewayError
from app.model.records import Checkpoint, JournalIdentity, NewEvent, PartRun
from app.ports import AttachmentFilter
from tests.contracts.catalog.records import attachment, delivery, message
from tests.support.postgresql import new_database

JOURNAL = JournalIdentity("0" * 32, 3)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.database)])
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """Two databases of one kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/one.sqlite", f"sqlite:///{tmp_path}/other.sqlite"
    server = request.getfixturevalue("postgresql")
    return new_database(server), new_database(server)


def fill(url: str) -> None:
    with closing(SqlCatalog(url)) as catalog:
        rows = [attachment(n, qualifier_2="na\u00efve\0\udc80", dialects=(1 << 70) | n) for n in range(1, 2500)]
        runs = {"a1": [PartRun(1, 2, 3)], "a2": [PartRun(4, 5, 6)]}
        catalog.checkpoint(Checkpoint(progress=5, attachments=rows, messages=[message(1, "a1")], part_runs=runs))
        catalog.add_delivery(delivery(1), [NewEvent("delivery.queued", "d1", 1, {"a": [1]})])
        catalog.bind(JOURNAL)


def told(url: str) -> list[object]:
    with closing(SqlCatalog(url)) as catalog:
        return [
            catalog.attachments(AttachmentFilter(), None, 5000).items,
            catalog.messages(None, None, 10).items,
            catalog.deliveries(None, None, None, 10).items,
            catalog.events_after(0, 10),
            catalog.progress(),
            catalog.part_runs("a1"),
            catalog.journal_identity(),
        ]


def test_a_copy_is_the_same_and_goes_on(urls: tuple[str, str], tmp_path: Path) -> None:
    one, other = urls
    fill(one)
    copy = tmp_path / "copy.sqlite"
    with closing(SqlCatalog(one)):  # as beside a running gateway
        SqlCatalog.database(one).snapshot(copy)
    assert {path.name for path in tmp_path.glob("copy.sqlite*")} == {"copy.sqlite"}
    SqlCatalog.database(other).load(copy)
    assert told(other) == told(one)
    with closing(SqlCatalog(other)) as catalog:
        catalog.checkpoint(Checkpoint(events=[NewEvent("x", "y", 2, {})]))
        assert [event.number for event in catalog.events_after(0, 10)] == [1, 2]
        catalog.checkpoint(Checkpoint(part_runs={"a1": [PartRun(3, 1, 9)]}))
        assert catalog.part_runs("a1") == [PartRun(1, 2, 3), PartRun(3, 1, 9)]


def test_a_database_of_the_other_kind_takes_a_copy(postgresql: Path, tmp_path: Path) -> None:
    one, two = (f"sqlite:///{tmp_path}/{name}.sqlite" for name in ("one", "two"))
    fill(one)
    other = new_database(postgresql)
    for source, target in ((one, other), (other, two)):
        copy = tmp_path / f"copy-{source[:4]}"
        SqlCatalog.database(source).snapshot(copy)
        SqlCatalog.database(target).load(copy)
        assert told(target) == told(one)


def test_a_copy_is_loaded_into_an_empty_database_only(urls: tuple[str, str], tmp_path: Path) -> None:
    one, _ = urls
    database = SqlCatalog.database(one)
    fill(one)
    database.snapshot(tmp_path / "copy.sqlite")
    assert not database.is_empty()
    with pytest.raises(GatewayError, match="not empty"):
        database.load(tmp_path / "copy.sqlite")
    before = told(one)
    assert database.set_aside()
    assert database.is_empty()
    database.load(tmp_path / "copy.sqlite")
    assert told(one) == before
    assert database.problems() == []


def test_what_is_set_aside_is_never_overwritten(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/one.sqlite"
    fill(url)
    assert SqlCatalog.database(url).set_aside().endswith("one.sqlite.aside-1")
    fill(url)
    assert SqlCatalog.database(url).set_aside().endswith("one.sqlite.aside-2")
    assert not SqlCatalog.database(url).exists()
    assert len(told(f"sqlite:///{tmp_path}/one.sqlite.aside-1")[0]) == 2499  # type: ignore[arg-type]


@pytest.mark.parametrize("spoil", [True, False])
def test_damage_of_a_file_is_found(tmp_path: Path, spoil: bool) -> None:
    url = f"sqlite:///{tmp_path}/one.sqlite"
    fill(url)
    path = tmp_path / "one.sqlite"
    data = bytearray(path.read_bytes())
    if spoil:
        data[40_960:41_100] = bytes(140)
    else:
        data = data[: len(data) // 2]
    path.write_bytes(data)
    assert SqlCatalog.database(url).problems()


TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
REFERRED = {"attachment_id": "a1", "delivery_id": "d1", "id": "the one"}


def fill_each_table(path: Path) -> None:
    """Put rows into each table that has none."""
    with closing(SqlCatalog(f"sqlite:///{path}")) as catalog:
        catalog.checkpoint(Checkpoint(progress=5, attachments=[attachment(1)], messages=[message(1, "a1")]))
        catalog.add_delivery(delivery(1), [NewEvent("delivery.queued", "d1", 1, {"a": [1]})])
        catalog.bind(JOURNAL)
    random = Random(5)
    made: dict[str, Callable[[str], object]] = {
        "TEXT": lambda name: REFERRED.get(name, f"{name} {random.random()}"),
        "BLOB": lambda _: random.randbytes(40),
        "JSON": lambda _: '["x", {"y": 1}]',
        "BIGINT": lambda _: random.getrandbits(60),
        "INTEGER": lambda _: random.getrandbits(30),
        "BOOLEAN": lambda _: 1,
    }
    with closing(sqlite3.connect(path)) as file:
        for (table,) in file.execute(TABLES).fetchall():
            if file.execute(f"SELECT * FROM {table}").fetchone() is None:
                row = [made[kind](name) for _, name, kind, *_ in file.execute(f"PRAGMA table_info({table})")]
                file.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
        file.commit()
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        file.execute("PRAGMA journal_mode = DELETE")


def columns_of(path: Path) -> dict[str, str]:
    """The names of the columns of each table."""
    with closing(sqlite3.connect(path)) as file:
        tables = [name for (name,) in file.execute(TABLES)]
        named = {table: file.execute(f"SELECT name FROM pragma_table_info('{table}')").fetchall() for table in tables}
    return {table: ", ".join(f"[{name}]" for (name,) in names) for table, names in named.items()}


def rows_in(path: Path, columns: dict[str, str]) -> dict[str, list[str]]:
    """The rows of each table, their bytes as they are."""
    with closing(sqlite3.connect(path)) as file:
        file.text_factory = bytes
        return {
            table: sorted(map(repr, file.execute(f"SELECT {names} FROM {table}"))) for table, names in columns.items()
        }


@pytest.mark.parametrize(("filled", "flips", "least"), [(True, 500, 300), (False, 300, 150)])
def test_no_flipped_bit_of_a_file_changes_a_row_untold(tmp_path: Path, filled: bool, flips: int, least: int) -> None:
    """An empty catalog is mostly its schema."""
    path, spoilt = tmp_path / "catalog.sqlite", tmp_path / "spoilt.sqlite"
    SqlCatalog(f"sqlite:///{path}").close()
    if filled:
        fill_each_table(path)
    columns, data, random = columns_of(path), path.read_bytes(), Random(7)
    whole, database = rows_in(path, columns), SqlCatalog.database(f"sqlite:///{spoilt}")
    assert all(whole.values()) == filled
    spoilt.write_bytes(data)
    assert database.problems() == []
    told = 0
    for at in random.sample([at for at, byte in enumerate(data) if byte], flips):
        bit = random.randrange(8)
        spoilt.write_bytes(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :])
        if database.problems():
            told += 1
        else:
            assert rows_in(spoilt, columns) == whole, f"byte {at}, bit {bit}"
            SqlCatalog(f"sqlite:///{spoilt}").close()
    assert told > least


def test_a_row_that_is_not_like_its_copy_is_named(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    with closing(SqlCatalog(f"sqlite:///{path}")) as catalog:
        catalog.checkpoint(Checkpoint(attachments=[attachment(1, description="as it was sent")]))
    data = path.read_bytes()
    assert data.count(b"as it was sent") == 2, "the row, and its copy"
    path.write_bytes(data.replace(b"as it was sent", b"as it was seot", 1))
    assert "row 1 of attachments is not as it was written" in SqlCatalog.database(f"sqlite:///{path}").problems()
