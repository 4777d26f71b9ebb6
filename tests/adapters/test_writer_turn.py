"""Writers of PostgreSQL that stand still, in real processes: nobody waits for them, and nothing is written twice."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from adapters.sql_catalog import SqlCatalog, writer_turn
from adapters.sql_catalog.database_connections import Database
from app.model.errors import CatalogError
from tests.support.length import IS_LONG
from tests.support.postgresql import new_database

pytestmark = pytest.mark.database

ROUNDS = 100 if IS_LONG else 4
WRITER = """
import os, signal, sys
import psycopg
from sqlalchemy import text
from adapters.sql_catalog.database_connections import Database
from app.model.errors import CatalogError

url, how, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
database = Database(url)

def pause():
    os.kill(os.getpid(), signal.SIGSTOP)

for _ in range(rounds):
    try:
        with database.write(durable=True) as connection:
            connection.execute(text("UPDATE counted SET number = number + 1 WHERE name = 'paused'"))
            if how == "statements":
                pause()
                connection.execute(text("UPDATE counted SET number = number + 1 WHERE name = 'second'"))
            elif how == "copy":
                with connection.connection.cursor().copy("COPY copied FROM STDIN") as copy:
                    copy.write_row((1,))
                    pause()
                    copy.write_row((2,))
            else:
                commit = connection.engine.dialect.do_commit
                def stopping(dbapi_connection):
                    pause()
                    commit(dbapi_connection)
                connection.engine.dialect.do_commit = stopping
    except (CatalogError, psycopg.OperationalError):
        print("refused", flush=True)
    else:
        print("written", flush=True)
    connection.engine.dialect.__dict__.pop("do_commit", None)
"""


@pytest.fixture
def url(postgresql: Path) -> str:
    return new_database(postgresql)


@contextmanager
def counting(url: str) -> Iterator[Database]:
    database = Database(url)
    with database.write() as connection:
        connection.execute(text("CREATE TABLE counted (name text PRIMARY KEY, number integer NOT NULL)"))
        connection.execute(text("INSERT INTO counted VALUES ('paused', 0), ('second', 0), ('other', 0)"))
        connection.execute(text("CREATE TABLE copied (number integer NOT NULL)"))
    yield database
    database.close()


def count(database: Database, name: str) -> int:
    with database.write(durable=True) as connection:
        changed = text("UPDATE counted SET number = number + 1 WHERE name = :name RETURNING number")
        return int(connection.scalar(changed, {"name": name}) or 0)


@pytest.mark.parametrize("how", ["statements", "copy", "commit"])
def test_a_writer_that_is_paused_keeps_nobody_waiting(url: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_turn, "PAUSED_SECONDS", 0.2)
    monkeypatch.setattr(writer_turn, "LOOK_SECONDS", 0.1)
    with counting(url) as database, capture_logs() as logs:
        child = subprocess.Popen(
            [sys.executable, "-c", WRITER, url, how, str(ROUNDS)], stdout=subprocess.PIPE, text=True
        )
        try:
            assert child.stdout is not None
            outcomes = []
            for number in range(ROUNDS):
                _, status = os.waitpid(child.pid, os.WUNTRACED)
                assert os.WIFSTOPPED(status)
                assert count(database, "other") == number + 1
                child.send_signal(signal.SIGCONT)
                outcomes.append(child.stdout.readline().strip())
            assert child.wait(60) == 0
        finally:
            child.kill()
            child.communicate()
        with database.read() as connection:
            numbers = {row.name: row.number for row in connection.execute(text("SELECT name, number FROM counted"))}
            copied = connection.scalar(text("SELECT count(*) FROM copied"))
    written = outcomes.count("written")
    assert outcomes == ["refused"] * ROUNDS
    assert [each["event"] for each in logs].count("paused_writer_ended") == ROUNDS
    assert (numbers, copied) == ({"paused": written, "second": 0, "other": ROUNDS}, 0)


def test_a_writer_that_works_is_waited_for(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_turn, "PAUSED_SECONDS", 0.2)
    monkeypatch.setattr(writer_turn, "LOOK_SECONDS", 0.1)
    other, began = SqlCatalog(url), Event()

    def work() -> None:
        with other._database.write() as connection:
            connection.execute(text("UPDATE counted SET number = number + 1 WHERE name = 'other'"))
            began.set()
            connection.execute(text("SELECT pg_sleep(2)"))

    with counting(url) as database, capture_logs() as logs:
        working = Thread(target=work)
        working.start()
        assert began.wait(60)
        assert count(database, "other") == 2
        working.join()
    events = [each["event"] for each in logs]
    assert "catalog_writer_waited" in events
    assert "paused_writer_ended" not in events
    other.close()


def test_who_waits_too_long_is_told_who_writes(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_turn, "LONGEST_WAIT", 0.3)
    monkeypatch.setattr(writer_turn, "LOOK_SECONDS", 0.1)
    other = SqlCatalog(url)
    with counting(url) as database, other._database.write() as connection:
        connection.execute(text("SELECT 1"))
        with pytest.raises(CatalogError, match=r"another process .*session \d+, idle in transaction"):
            count(database, "other")
    other.close()
