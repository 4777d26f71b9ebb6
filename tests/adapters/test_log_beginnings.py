"""A log of events begins with each way in which a database of PostgreSQL may lose what it had."""

import os
import signal
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest

from adapters.sql_catalog import SqlCatalog
from app.model.errors import CatalogChanged, CatalogError, LeaseLost
from app.model.records import Checkpoint, JournalIdentity, NewEvent
from app.testing.waiting import until
from tests.support.postgresql import Cluster, new_database

pytestmark = pytest.mark.database

IDENTITY = JournalIdentity("journal", 1)


@pytest.fixture
def url(cluster: Cluster) -> str:
    return new_database(cluster.folder)


@pytest.fixture
def catalog(url: str) -> Iterator[SqlCatalog]:
    with closing(SqlCatalog(url)) as opened:
        yield opened


def happened(number: int) -> Checkpoint:
    """Return a checkpoint with events."""
    return Checkpoint(events=[NewEvent("attachment.deleted", f"a{each}", each, {}) for each in range(number)])


def started(cluster: Cluster) -> object:
    """Return when the server was started."""
    with psycopg.connect(host=str(cluster.folder), user="postgres") as session:
        return session.execute("SELECT pg_postmaster_start_time()").fetchone()


def newest_log(catalog: SqlCatalog) -> str | None:
    """Return the newest log of a catalog, None while its server does not answer."""
    with suppress(CatalogError):
        return catalog.newest_log()
    return None


def test_an_older_copy_gives_numbers_to_other_events_under_another_name(
    cluster: Cluster, catalog: SqlCatalog, url: str, tmp_path: Path
) -> None:
    catalog.bind(IDENTITY)
    catalog.checkpoint(happened(3))
    cluster.copy(tmp_path / "copy")
    assert newest_log(catalog)
    catalog.checkpoint(happened(3))
    before, newest = catalog.event_logs(), catalog.newest_log()
    kept, lost = before.identify(3), before.identify(6)
    lease = catalog.take_lease("keeper", "this", 3600)
    assert lease is not None
    catalog.under(lease).flush()

    cluster.put_back(tmp_path / "copy")
    for write in (lambda: catalog.under(lease).flush(), lambda: catalog.checkpoint(happened(1))):
        with suppress(CatalogError):  # the connections of the pool are those of the server before
            write()
    with pytest.raises(LeaseLost):
        catalog.under(lease).flush()
    with pytest.raises(CatalogChanged):
        catalog.checkpoint(Checkpoint(progress=99, restarts=0, log=newest, events=happened(1).events))
    assert catalog.progress() is None
    with closing(SqlCatalog(url)) as other:
        other.checkpoint(happened(5))
        after = other.event_logs()
        assert other.newest_log() == catalog.newest_log() != newest
    assert after.number(kept) == 3
    assert after.number(lost) is None
    assert after.identify(6) != lost
    assert after.last_alike(before) == before.last_alike(after) == 3
    assert after.last_alike(after) is None


@pytest.mark.parametrize("how", ["nothing", "start", "session killed"])
def test_another_log_begins_after_each_start_and_each_crash_and_has_no_lost_number(
    cluster: Cluster, catalog: SqlCatalog, url: str, how: str
) -> None:
    catalog.bind(IDENTITY)
    catalog.checkpoint(happened(2))
    catalog.flush()
    before, newest, began = catalog.event_logs(), catalog.newest_log(), started(cluster)
    if how == "start":
        cluster.stop()
        cluster.start()
    if how == "session killed":  # the server is not started anew, and may lose what was not on disk yet
        session = psycopg.connect(host=str(cluster.folder), user="postgres")
        os.kill(session.info.backend_pid, signal.SIGKILL)
        with pytest.raises(psycopg.OperationalError):
            session.execute("SELECT 1")
    until(lambda: newest_log(catalog) not in (None, newest) or how == "nothing")
    assert (started(cluster) != began) is (how == "start")
    with closing(SqlCatalog(url)) as other:
        other.checkpoint(happened(1))
    assert (catalog.newest_log() == newest) is (how == "nothing")
    assert catalog.event_logs().number(before.identify(2)) == 2
    assert catalog.event_logs().last_alike(before) == (None if how == "nothing" else 2)
    assert catalog.last_event() == 3, "no number is left out"


def test_numbers_go_on_when_all_events_were_removed(catalog: SqlCatalog, url: str) -> None:
    catalog.bind(IDENTITY)
    catalog.checkpoint(happened(4))
    with psycopg.connect(url.replace("postgresql+psycopg", "postgresql"), autocommit=True) as session:
        session.execute("DELETE FROM events")
    catalog.bind(IDENTITY)
    catalog.checkpoint(happened(1))
    assert catalog.last_event() == 5


def test_another_log_begins_where_another_database_takes_the_place(cluster: Cluster, url: str) -> None:
    name = url.partition("@/")[2].partition("?")[0]
    with closing(SqlCatalog(url)) as catalog:
        catalog.bind(IDENTITY)
        catalog.checkpoint(happened(3))
        before = catalog.event_logs()
    with (
        psycopg.connect(host=str(cluster.folder), user="postgres", autocommit=True) as session,
        closing(SqlCatalog(url)) as catalog,
    ):
        catalog.close()
        session.execute(f"CREATE DATABASE copy_of_{name} TEMPLATE {name}".encode())
        catalog.checkpoint(happened(3))
        lost, newest = catalog.event_logs().identify(6), catalog.newest_log()
        session.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
        session.execute(f"ALTER DATABASE copy_of_{name} RENAME TO {name}".encode())
        until(lambda: newest_log(catalog) not in (None, newest))
        catalog.checkpoint(happened(3))
        assert catalog.event_logs().number(lost) is None
        assert catalog.event_logs().last_alike(before) == 3
