"""Ready to read and ready to receive are two things: a database that is away keeps readers away, but no messages."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from random import Random

import psycopg
import pytest
from sqlalchemy import make_url

from tests.support.forked_gateway import ForkedGateway
from tests.support.gateway import mqtt_source
from tests.support.loads import assert_received, messages, mixed
from tests.support.mosquitto import Mosquitto
from tests.support.postgresql import new_database
from tests.support.publish import publish
from tests.support.sas_client import Program

pytestmark = pytest.mark.broker

TOPIC = "sas/attachments"


@contextmanager
def gone(postgresql: Path, way: Path, name: str) -> Iterator[None]:
    """Close the way to a database, and end the connections to it."""
    way.unlink()
    with psycopg.connect(f"host={postgresql} user=postgres dbname=postgres", autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
    try:
        yield
    finally:
        way.symlink_to(postgresql)


@contextmanager
def silent(postgresql: Path, way: Path, name: str) -> Iterator[None]:
    """Stop the server, as a network does that drops all packets: connections stay open and nothing is answered."""
    del way, name
    server = int((postgresql / "data" / "postmaster.pid").read_text().split()[0])
    os.kill(server, signal.SIGSTOP)
    children = [int(pid) for pid in Path(f"/proc/{server}/task/{server}/children").read_text().split()]
    for pid in children:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in (*children, server):
            os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("away", [gone, silent])
def test_a_database_that_is_away_keeps_readers_away_and_no_messages(
    tmp_path: Path, postgresql: Path, away: Callable[..., AbstractContextManager[None]]
) -> None:
    way = tmp_path / "way"
    way.symlink_to(postgresql)
    program = Program(Random(13))
    attachments = mixed(program, 6)
    url = new_database(postgresql).replace(str(postgresql), str(way))
    settings = f'[catalog]\nurl = "{url}"\n'
    with (
        Mosquitto(tmp_path) as broker,
        ForkedGateway(
            tmp_path, settings + mqtt_source("sas", broker.port, TOPIC), http='public = ["docs", "metrics", "health"]\n'
        ) as process,
    ):
        process.await_source("sas")

        def statuses() -> dict[str, int]:
            paths = ("live", "ready", "ready/read", "ready/receive")
            return {path: process.client.get(f"/health/{path}", timeout=5).status_code for path in paths}

        process.until(lambda: set(statuses().values()) == {200})

        def received() -> float:
            return process.samples().total("messages_received_total", source="sas")

        with away(postgresql, way, str(make_url(url).database)):
            process.until(lambda: statuses()["ready/read"] == 503, 30)
            # The source's first messages come while nothing can be read of it.
            assert statuses() == {"live": 200, "ready": 503, "ready/read": 503, "ready/receive": 200}
            checks = process.client.get("/health/ready", timeout=5).json()["checks"]
            assert (checks["catalog"]["ok"], checks["journal"]["ok"]) == (False, True)
            assert checks["catalog"]["error"]
            stream = messages(program, attachments)
            publish(stream, broker.port, TOPIC, "5")
            process.until(lambda: received() == len(stream))
        process.until(lambda: set(statuses().values()) == {200}, 60)
        assert_received(process, attachments)
        assert "catalog_reading_failed" in process.log or away is silent
