"""An active gateway and one that stands by: whatever ends the active one, nothing is lost and nothing counts twice."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import httpx
import psycopg
import pytest

from app.model.message import PhysicalMessage
from app.testing.waiting import until
from tests.support.forked_gateway import ForkedGateway
from tests.support.gateway import mqtt_source
from tests.support.length import IS_LONG
from tests.support.loads import assert_received, messages, mixed
from tests.support.mosquitto import Mosquitto
from tests.support.postgresql import Cluster
from tests.support.publish import publish
from tests.support.sas_client import Attached, Program, binary_file, disordered
from tests.support.subscribe import left_in_session, subscribe

pytestmark = pytest.mark.broker

TOPIC = "sas/attachments"
FAIL_OVERS = 50 if IS_LONG else 6
SUPERSEDED = 75
SETTINGS = '[limits]\nfree_bytes = 0\n[journal]\nsegment_bytes = "1 MiB"\n[content]\nsettle_after = "1s"\n'


class Pair:
    """Two gateways with one data folder and one database, each with a user of its own there."""

    def __init__(self, folder: Path, cluster: Cluster, broker: Mosquitto, duration: str) -> None:
        self._cluster, self._database = cluster, f"host={cluster.folder} user=postgres dbname=postgres"
        self.execute("DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
        (folder / "var").mkdir()
        self._journal = folder / "var" / "journal"
        self.gateways: dict[str, ForkedGateway] = {}
        for name in ("one", "two"):
            self.execute(f"DROP ROLE IF EXISTS {name}", f"CREATE ROLE {name} SUPERUSER LOGIN")
            own = folder / name
            own.mkdir()
            (own / "var").symlink_to(folder / "var")
            settings = (
                f'{SETTINGS}[catalog]\nurl = "postgresql+psycopg://{name}@/postgres?host={cluster.folder}"\n'
                f'[standby]\nduration = "{duration}"\n{mqtt_source("sas", broker.port, TOPIC)}'
            )
            self.gateways[name] = ForkedGateway(own, settings)

    def execute(self, *statements: str) -> None:
        with psycopg.connect(self._database, autocommit=True) as connection:
            for each in statements:
                connection.execute(each.encode())

    def stop(self) -> None:
        for each in self.gateways.values():
            if each.process is not None and each.process.poll() is None:
                os.kill(each.process.pid, signal.SIGCONT)
            each.stop()

    def active(self, besides: str = "") -> str | None:
        """Return the name of the gateway that is ready, besides one."""
        asked = {name: each for name, each in self.gateways.items() if name != besides}
        return next((name for name, each in asked.items() if _status(each, "/health/ready") == 200), None)

    def await_active(self, besides: str = "") -> str:
        """Return the gateway that is active, besides one; gateways that have ended are started again."""

        def found() -> str | None:
            self.revive()
            return self.active(besides)

        try:
            return until(found, 20, pause=0.05) or ""
        except TimeoutError as late:
            said = "\n".join(f"{name}:\n{each.log[-3000:]}" for name, each in self.gateways.items())
            raise AssertionError(f"{late}: no gateway is active besides {besides!r}\n{said}") from late

    def revive(self) -> None:
        """Start each gateway that has ended, as Kubernetes does."""
        for each in self.gateways.values():
            if each.process is None or each.process.poll() is not None:
                each.spawn()

    def await_standby(self, name: str) -> None:
        """Return when a gateway is up and stands by, or has become active."""

        def is_up() -> bool:
            self.revive()
            return self.gateways[name].is_up()

        until(is_up)

    def assert_received(self, attachments: Sequence[Attached]) -> None:
        """Check that each attachment is there, finished once. On a busy machine, a gateway may lose its lease."""

        def is_received() -> bool:
            name = self.await_active()
            try:
                assert_received(self.gateways[name], attachments)
            except (httpx.HTTPError, AssertionError):
                if self._process(name).poll() is None:
                    raise
                return False
            return True

        until(is_received)
        finished = self.rows("SELECT count(*) FROM events WHERE type = 'attachment.finished' GROUP BY subject")
        assert finished == [(1,)] * len(attachments)

    def holders(self) -> int:
        """Return how often the lease was taken."""
        ((epoch,),) = self.rows("SELECT epoch FROM leases WHERE name = 'active'")
        return int(epoch)

    def end_lease_of_one(self) -> bool:
        """End the lease, and tell whether the second gateway has taken it: the first one may just have renewed it."""
        self.execute("UPDATE leases SET until = 0 WHERE name = 'active' AND epoch = 1")
        return self.holders() > 1

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._database) as connection:
            return connection.execute(query.encode()).fetchall()

    # --- what ends the active gateway -----------------------------------------------------------------------------

    def kill(self, name: str) -> None:
        self.gateways[name].kill()

    def terminate(self, name: str) -> None:
        process = self._process(name)
        process.terminate()
        assert process.wait(60) in (0, SUPERSEDED)  # on a busy machine its lease may end while it stops

    def pause(self, name: str) -> None:
        """Pause it until another one is active. When it goes on, it ends."""
        process = self._process(name)
        os.kill(process.pid, signal.SIGSTOP)
        try:
            self.await_active(besides=name)
        finally:
            os.kill(process.pid, signal.SIGCONT)
        assert process.wait(60) == SUPERSEDED

    def cut(self, name: str) -> None:
        """Cut it off from the database, which the other one still reaches."""
        sessions = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{name}'"
        self.execute(f"ALTER ROLE {name} NOLOGIN", sessions)
        assert self._process(name).wait(60) == SUPERSEDED
        self.await_active(besides=name)
        self.execute(f"ALTER ROLE {name} LOGIN")

    def away(self, name: str) -> None:
        """Have the database end for a while: nobody is active then."""
        self._cluster.stop()
        try:
            assert self._process(name).wait(60) == SUPERSEDED
            self.await_standby(name)  # it starts without a database, too
            assert self.active() is None
        finally:
            self._cluster.start()

    def forget(self, name: str) -> None:
        """Remove the file by which it sees that no other one has opened the journal. Messages come meanwhile."""
        (self._journal / "identity").unlink()
        assert self._process(name).wait(60) == SUPERSEDED
        assert "identity is missing or cannot be read" in self.gateways[name].log

    def _process(self, name: str) -> Any:
        process = self.gateways[name].process
        assert process is not None
        return process


def _status(gateway: ForkedGateway, path: str) -> int:
    try:
        return gateway.client.get(path, timeout=2).status_code
    except Exception:  # noqa: BLE001 - it has ended, is paused, or is about to take over
        return 0


ENDS: list[Callable[[Pair, str], None]] = [Pair.pause, Pair.kill, Pair.cut, Pair.forget, Pair.away, Pair.terminate]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    folder = tmp_path / "broker"
    folder.mkdir()
    with Mosquitto(folder) as running:
        yield running


def test_whatever_ends_the_active_gateway_nothing_is_lost_and_nothing_counts_twice(
    tmp_path: Path, cluster: Cluster, broker: Mosquitto
) -> None:
    program = Program(Random(17))
    attachments = [
        *mixed(program, 12),
        *(binary_file(program, f"{n}", program.random.randbytes(200_000)) for n in range(4 * FAIL_OVERS)),
    ]
    stream = disordered(messages(program, attachments), program.random)
    slices = [stream[at::FAIL_OVERS] for at in range(FAIL_OVERS)]
    with ExitStack() as ending:
        pair = Pair(tmp_path, cluster, broker, "1200ms")
        ending.callback(pair.stop)
        subscribe(broker.port, "sas", TOPIC, "5")
        for number, each in enumerate(slices):
            name = pair.await_active()
            for other in pair.gateways:
                pair.await_standby(other)
            sending = Thread(target=_publish, args=(each, broker))
            sending.start()
            ENDS[number % len(ENDS)](pair, name)
            sending.join()
        pair.assert_received(attachments)
        assert pair.holders() > FAIL_OVERS
        pair.stop()
        assert left_in_session(broker.port, "sas", TOPIC, "5") == 0


def test_a_gateway_that_believes_to_hold_its_lease_writes_nothing_when_another_has_it(
    tmp_path: Path, cluster: Cluster, broker: Mosquitto
) -> None:
    """For a second both of them believe that they are active."""
    program = Program(Random(18))
    attachments = mixed(program, 30)
    stream = disordered(messages(program, attachments), program.random)
    with ExitStack() as ending:
        pair = Pair(tmp_path, cluster, broker, "9s")
        ending.callback(pair.stop)
        one, two = pair.gateways.values()
        subscribe(broker.port, "sas", TOPIC, "5")
        one.start()
        until(lambda: pair.active() == "one")
        two.start()
        sending = Thread(target=_publish, args=(stream, broker))
        sending.start()
        until(pair.end_lease_of_one)
        assert one.process is not None
        assert one.process.wait(60) == SUPERSEDED
        why = "the lease active is lost: another process has taken it", "another gateway has opened the journal"
        assert any(each in one.log for each in why), "whichever it notices first"
        one.process = None
        sending.join()
        until(lambda: pair.active() == "two")
        pair.assert_received(attachments)
        pair.stop()
        assert left_in_session(broker.port, "sas", TOPIC, "5") == 0


def _publish(stream: Sequence[PhysicalMessage], broker: Mosquitto) -> None:
    publish(stream, broker.port, TOPIC, "5")
