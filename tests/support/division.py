"""A gateway divided among processes, which share PostgreSQL, an object store and a broker."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from app.testing.waiting import until
from tests.support.forked_gateway import ForkedGateway, Forks
from tests.support.gateway import mqtt_source
from tests.support.loads import messages, mixed
from tests.support.mosquitto import Mosquitto
from tests.support.object_server import Bucket
from tests.support.publish import publish
from tests.support.sas_client import Program, disordered

TOPIC = "sas/attachments"
SETTINGS = '[limits]\nfree_bytes = 0\n[content]\nsettle_after = "1s"\nurl = "{bucket}/content"\n'
JOURNAL = '[journal]\nsegment_age = "1s"\narchive_url = "{bucket}/archive"\n'


class Division:
    """Processes of one gateway, each with a folder of its own."""

    def __init__(
        self,
        folder: Path,
        postgresql: Path,
        bucket: Bucket,
        broker: Mosquitto,
        forks: Forks,
        more: str = "",
        *,
        first: str = "",
        http: str = "",
        shared: Callable[[str], str] | None = None,
        ack: str = "disk",
    ) -> None:
        """`more` are further settings, `first` those before all tables, and `http` those of the table [http].

        Several processes may receive if there is a function `shared`, which returns the tables of the sources for the
        process of a name, and acknowledge as `ack` says. Otherwise, one receives from the topic."""
        self._database = f"host={postgresql} user=postgres dbname=postgres"
        with psycopg.connect(self._database, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")
        self._broker = broker
        self.processes: dict[str, ForkedGateway] = {}
        url = f'[catalog]\nurl = "postgresql+psycopg://postgres@/postgres?host={postgresql}"\n'
        alone = mqtt_source("sas", broker.port, TOPIC)
        self._sources = shared or (lambda _: alone)
        journal = JOURNAL + ("" if shared is None else f'shared = true\nack = "{ack}"\n')
        self._settings = (SETTINGS + journal).format(bucket=bucket.url) + url + more
        self._folder, self._forks, self._first, self._http, self.ack = folder, forks, first, http, ack

    def begin(self, name: str, data: Path | None = None) -> None:
        """Start a process, whose name begins with its role; before the next one looks for a free port. It continues in
        the data folder of another one, if that is given."""
        own = self._folder / name
        own.mkdir()
        if data is not None:
            data.rename(own / "var")
        roles = f'roles = ["{name.partition("-")[0]}"]\n'
        settings = self._settings + self._sources(name)
        self.processes[name] = ForkedGateway(own, settings, self._forks, first=roles + self._first, http=self._http)
        self.processes[name].start()

    def __getitem__(self, name: str) -> ForkedGateway:
        return self.processes[name]

    def stop(self) -> None:
        for each in self.processes.values():
            if each.process is not None and each.process.poll() is None:
                os.kill(each.process.pid, signal.SIGCONT)
            each.stop()

    def keeper(self, besides: str = "") -> str | None:
        """Return the name of the process that is the keeper, besides one."""
        names = [name for name in self.processes if name.startswith("keep") and name != besides]
        running = [name for name in names if self[name].process is not None]
        return next((name for name in running if self[name].samples().total("keeper")), None)

    def send(self, program: Program, count: int) -> list[Any]:
        attachments = mixed(program, count)
        publish(disordered(messages(program, attachments), program.random), self._broker.port, TOPIC, "5")
        return attachments

    def await_settled(self, count: int, timeout: float = 60) -> None:
        """Return when the content of so many attachments is in the store, or raise TimeoutError when there is no more
        of it for too long."""
        settled = -1
        while settled != count:
            before = settled
            until(lambda: self._settled() != before, timeout, pause=0.1)  # noqa: B023 - used at once
            settled = self._settled()

    def _settled(self) -> int:
        """Return the number of attachments whose content is in the store."""
        asked = "SELECT count(*) FROM attachments WHERE state = 'finished' AND storage = 'store'"
        with psycopg.connect(self._database) as connection:
            ((count,),) = connection.execute(asked)
        return int(count)

    def pass_over(self, journal: str, seconds: int) -> None:
        """Have the receiver with a journal not been seen for so many seconds more."""
        later = "UPDATE receiving_journals SET seen_at = seen_at - %s WHERE id = %s"
        with psycopg.connect(self._database) as connection:
            connection.execute(later, [seconds * 1_000_000, journal])

    def finished(self) -> set[str]:
        """Return the attachments that were finished, each once."""
        found = self.events("attachment.finished")
        assert len({*found}) == len(found)
        return {*found}

    def events(self, kind: str) -> list[str]:
        """Return the subjects of all events of a kind."""
        with psycopg.connect(self._database) as connection:
            found = connection.execute("SELECT subject FROM events WHERE type = %s", [kind]).fetchall()
        return [str(subject) for (subject,) in found]
