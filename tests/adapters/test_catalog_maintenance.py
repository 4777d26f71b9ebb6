"""Catalog databases as a whole, SQLite and PostgreSQL."""

from contextlib import closing
from pathlib import Path

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
