"""An active gateway and one that stands by: whatever ends the active one, nothing is lost and nothing counts twice."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import psycopg
import pytest

from app.model.message import PhysicalMessage
from app.testing.waiting import until
from tests.support.forked_gateway import ForkedGateway
from tests.support.gateway import mqtt_source
from tests.support.lease_server import LeaseServer
from tests.support.length import IS_LONG
from tests.support.loads import assert_received, messages, mixed
from tests.support.mosquitto import Mosquitto
from tests.support.publish import publish
from tests.support.sas_client import Program, binary_file, disordered
from tests.support.subscribe import left_in_session, subscribe

pytestmark = pytest.mark.broker

TOPIC = "sas/attachments"
FAIL_OVERS = 50 if IS_LONG else 5
SUPERSEDED = 75
SETTINGS = '[limits]\nfree_bytes = 0\n[journal]\nsegment_bytes = "1 MiB"\n[content]\nsettle_after = "1s"\n'


class Pair:
    """Two gateways with one data folder, one database and one Lease."""

    def __init__(
        self,
        folder: Path,
        postgresql: Path,
        api: LeaseServer,
        broker: Mosquitto,
        other_api: LeaseServer | None = None,
        times: str = 'duration = "1s"\nrenew_deadline = "800ms"\n',
    ) -> None:
        self.api, self._database = api, f"host={postgresql} user=postgres dbname=postgres"
        with psycopg.connect(self._database, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")
        (folder / "var").mkdir()
        self.gateways: dict[str, ForkedGateway] = {}
        url = f'[catalog]\nurl = "postgresql+psycopg://postgres@/postgres?host={postgresql}"\n'
        for name, asked in (("one", api), ("two", other_api or api)):
            own = folder / name
            own.mkdir()
            (own / "var").symlink_to(folder / "var")
            settings = SETTINGS + url + asked.settings(own, name, times) + mqtt_source("sas", broker.port, TOPIC)
            self.gateways[name] = ForkedGateway(own, settings)

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

    def events(self) -> dict[str, int]:
        """Return how often each attachment was finished."""
        with psycopg.connect(self._database) as connection:
            rows = connection.execute(
                "SELECT subject, count(*) FROM events WHERE type = 'attachment.finished' GROUP BY subject"
            )
            return dict(rows.fetchall())

    # --- what ends the active gateway -----------------------------------------------------------------------------

    def kill(self, name: str) -> None:
        self.gateways[name].kill()

    def terminate(self, name: str) -> None:
        process = self._process(name)
        process.terminate()
        assert process.wait(60) in (0, SUPERSEDED)  # on a busy machine its Lease may end while it stops

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
        """Cut it off from the API server, which others still reach."""
        self.api.cut(name)
        assert self._process(name).wait(60) == SUPERSEDED
        self.api.join(name)

    def away(self, name: str) -> None:
        """Have the API server fail for everybody for a while: nobody is active then."""
        self.api.cut(*self.gateways, how="failing")
        assert self._process(name).wait(60) == SUPERSEDED
        assert self.active() is None
        self.api.join(*self.gateways)

    def _process(self, name: str) -> Any:
        process = self.gateways[name].process
        assert process is not None
        return process


def _status(gateway: ForkedGateway, path: str) -> int:
    try:
        return gateway.client.get(path, timeout=2).status_code
    except Exception:  # noqa: BLE001 - it has ended, is paused, or is about to take over
        return 0


ENDS: list[Callable[[Pair, str], None]] = [Pair.pause, Pair.kill, Pair.cut, Pair.away, Pair.terminate]


@pytest.fixture
def api() -> Iterator[LeaseServer]:
    with LeaseServer().running() as running:
        yield running


def test_whatever_ends_the_active_gateway_nothing_is_lost_and_nothing_counts_twice(
    tmp_path: Path, postgresql: Path, api: LeaseServer
) -> None:
    program = Program(Random(17))
    attachments = [
        *mixed(program, 12),
        *(binary_file(program, f"{n}", program.random.randbytes(200_000)) for n in range(4 * FAIL_OVERS)),
    ]
    stream = disordered(messages(program, attachments), program.random)
    slices = [stream[at::FAIL_OVERS] for at in range(FAIL_OVERS)]
    folder = tmp_path / "broker"
    folder.mkdir()
    with Mosquitto(folder) as broker, ExitStack() as ending:
        pair = Pair(tmp_path, postgresql, api, broker)
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
            pair.await_active()
        name = pair.await_active()
        assert_received(pair.gateways[name], attachments)
        assert set(pair.events().values()) == {1}
        assert len(pair.events()) == len(attachments)
        assert len(api.holders) > FAIL_OVERS
        pair.stop()
        assert left_in_session(broker.port, "sas", TOPIC, "5") == 0


def test_a_gateway_that_still_holds_its_lease_ends_when_another_has_taken_over(
    tmp_path: Path, postgresql: Path, api: LeaseServer
) -> None:
    """Each has a Lease of its own, so that both believe that they are active."""
    program = Program(Random(18))
    attachments = mixed(program, 30)
    stream = disordered(messages(program, attachments), program.random)
    folder = tmp_path / "broker"
    folder.mkdir()
    with Mosquitto(folder) as broker, LeaseServer().running() as other_api, ExitStack() as ending:
        # A busy machine can be late by a second: neither gateway may lose its own Lease here.
        pair = Pair(tmp_path, postgresql, api, broker, other_api, 'duration = "60s"\nrenew_deadline = "50s"\n')
        ending.callback(pair.stop)
        one, two = pair.gateways.values()
        subscribe(broker.port, "sas", TOPIC, "5")
        one.start()
        until(lambda: pair.active() == "one")
        sending = Thread(target=_publish, args=(stream, broker))
        sending.start()
        two.start()
        assert one.process is not None
        assert one.process.wait(60) == SUPERSEDED
        assert "has taken over the catalog" in one.log
        one.process = None
        sending.join()
        assert api.holder  # it was never given up
        until(lambda: pair.active() == "two")
        assert_received(two, attachments)
        assert pair.events() == dict.fromkeys(pair.events(), 1)
        assert len(pair.events()) == len(attachments)
        pair.stop()
        assert left_in_session(broker.port, "sas", TOPIC, "5") == 0


def _publish(stream: Sequence[PhysicalMessage], broker: Mosquitto) -> None:
    publish(stream, broker.port, TOPIC, "5")
