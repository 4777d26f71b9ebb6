"""Receivers that share a journal are backed up: all that they have acknowledged is restored where it is read."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import obstore
import pytest

from adapters.arrow_journal import ArrowJournal, journal_identity
from adapters.storage_places import bucket as storage
from app.model.message import PhysicalMessage
from app.testing.waiting import until
from tests.support.division import TOPIC, Division
from tests.support.forked_command import program as command
from tests.support.forked_gateway import Forks
from tests.support.gateway import mqtt_source
from tests.support.loads import assert_received, messages, mixed
from tests.support.mosquitto import Mosquitto
from tests.support.object_server import Bucket
from tests.support.publish import publish
from tests.support.sas_client import Program, disordered

pytestmark = pytest.mark.broker

RECEIVERS = ("receive-a", "receive-b")
LATE = 10


class Backups:
    """Divisions of one gateway, one after the other, and a place of backups."""

    def __init__(self, folder: Path, postgresql: Path, bucket: Bucket, broker: Mosquitto, forks: Forks) -> None:
        self._folder, self._postgresql, self._bucket, self.broker, self._forks = (
            folder,
            postgresql,
            bucket,
            broker,
            forks,
        )
        self.place = folder / "backups"

    def division(self, name: str) -> Division:
        """Return processes with an empty database and an empty bucket. They seal no segment by themselves, and copy no
        content from the journal."""

        def source(process: str) -> str:
            return mqtt_source("sas", self.broker.port, f"$share/gateways/{TOPIC}", client_id=process)

        folder = self._folder / name
        folder.mkdir()
        made = Division(folder, self._postgresql, self._bucket, self.broker, self._forks, shared=source)
        for former, new in (
            ('"1s"', '"1h"'),
            (f"{self._bucket.url}/", f"{self._bucket.url}/{name}-"),
        ):
            made._settings = made._settings.replace(former, new)
        return made

    def run(self, settings: str, *words: object) -> tuple[int, str]:
        """Return the exit status and the output of a command."""
        path = self._folder / "gateway.toml"
        path.write_text(f'data = "{self._folder / "data"}"\n{settings}{mqtt_source("sas", self.broker.port, TOPIC)}')
        done = subprocess.run(
            [command(), *map(str, words), "--config", path], capture_output=True, text=True, timeout=300, check=False
        )
        return done.returncode, " ".join((done.stdout + done.stderr).split())


@pytest.fixture
def backups(tmp_path: Path, postgresql: Path, bucket: Bucket) -> Iterator[Backups]:
    (tmp_path / "broker").mkdir()
    forks = Forks(dict(os.environ))  # with the address of the object server
    with Mosquitto(tmp_path / "broker") as broker:
        yield Backups(tmp_path, postgresql, bucket, broker, forks)
    forks.close()


def received(division: Division) -> float:
    return sum(division[name].samples().total("messages_received_total", source="sas") for name in RECEIVERS)


def test_all_that_receivers_have_acknowledged_is_restored(backups: Backups, bucket: Bucket) -> None:
    program = Program(Random(41))
    attachments = mixed(program, 12)
    sent = disordered(messages(program, attachments), program.random)
    half, last = len(sent) // 2, len(sent) - LATE
    first = backups.division("first")
    try:
        for name in (*RECEIVERS, "keep-a"):
            first.begin(name)
        publish(sent[:half], backups.broker.port, TOPIC, "5", matched=True)
        until(lambda: received(first) >= half)
        assert not segments(bucket, "first"), "nothing is published by itself"
        code, told = backups.run(first._settings, "backup", "--to", backups.place)
        assert code == 0, told
        assert segments(bucket, "first")

        publish(sent[half:last], backups.broker.port, TOPIC, "5")
        until(lambda: received(first) >= last)
        lost = [journal_of(first, name) for name in RECEIVERS]
        first["receive-b"].kill()
        first.pass_over(lost[1], 60)
        code, told = backups.run(first._settings, "backup", "--to", backups.place)
        assert (code, f"(journal {lost[1]}) has not been seen since" in told) == (1, True), told
        assert told.count("receiver ") == 1, "the other one has published all"
        first["receive-b"].start()
        code, told = backups.run(first._settings, "backup", "--to", backups.place)
        assert code == 0, told

        alone = first._settings.replace("shared = true\n", "")
        for words in (("backup", "--to", backups.place), ("fsck",)):
            code, told = backups.run(alone, *words)
            assert (code != 0, "2 receivers share the journal of the catalog" in told) == (True, True), told
    finally:
        first.stop()

    second = backups.division("second")  # the database is lost, and so are archive and content
    try:
        restore = "restore", "--from", backups.place
        code, told = backups.run(second._settings.replace("shared = true\n", ""), *restore)
        assert (code, "receivers share the journal of this backup" in told) == (1, True), told
        code, told = backups.run(second._settings, *restore)
        assert (code, told.count("is expected back")) == (0, 2), told
        assert segments(bucket, "second") == segments(bucket, "first")
        assert backups.run(second._settings, "fsck") == (0, "no differences were found")
        for name in (*RECEIVERS, "serve-a", "keep-a"):
            second.begin(name)
        publish(sent[last:], backups.broker.port, TOPIC, "5")
        until(lambda: received(second) >= LATE)
        for each in lost:
            second.pass_over(each, 60)
        code, told = backups.run(second._settings, "backup", "--to", backups.place)  # which has them publish that
        assert (code, told.count("has not been seen since")) == (1, 2), told
        assert_received(second["serve-a"], attachments)
        assert len(second.finished()) == len(attachments)
    finally:
        second.stop()

    # The archive may be the one that was there. It is completed, and compared.
    kept, new = f"{bucket.url}/second-archive", f"{bucket.url}/third-archive"
    settings = backups.division("third")._settings.replace(new, kept)
    (backups.place.parent / "data").mkdir(exist_ok=True)
    code, told = backups.run(settings.replace("shared = true\n", ""), "rebuild", "--yes")
    assert (code, "the journal is in the data folder of the process that receives" in told) == (2, True), told
    archive = storage(kept)
    there = segments(bucket, "second")
    segment = min(there)
    data = bytes(obstore.get(archive, segment).bytes())
    obstore.put(archive, segment, data[:-1] + bytes([data[-1] ^ 1]))
    code, told = backups.run(settings, *restore)
    assert (code, f"{segment} in the archive {kept} has other bytes than in the backup" in told) == (1, True), told
    obstore.delete(archive, segment)
    code, told = backups.run(settings, *restore)
    assert (code, segments(bucket, "second")) == (0, there), told
    assert bytes(obstore.get(archive, segment).bytes()) == data

    # What a receiver has not published is nowhere else.
    with closing(ArrowJournal(backups.place.parent / "data" / "journal")) as journal:
        journal.append([PhysicalMessage("sas", "sas_queue", body=b"body" * 9000)])
        journal.seal()
    (own,) = (backups.place.parent / "data" / "journal").glob("*.arrows")
    written = own.read_bytes()
    own.write_bytes(written.replace(b"body" * 9000, b"BODY" * 9000))
    code, told = backups.run(settings, "fsck")
    assert (code, "segment-damaged 1:" in told, f"{own}: " in told) == (1, True, True), told


def segments(bucket: Bucket, division: str) -> set[str]:
    """Return the names of the segments in the archive of a division."""
    listed = obstore.list_with_delimiter(storage(f"{bucket.url}/{division}-archive"))["objects"]
    return {each["path"] for each in listed}


def journal_of(division: Division, name: str) -> str:
    """Return the journal of a receiver, by the file in its folder."""
    known = journal_identity.load(division[name].folder / "var" / "journal")
    assert known is not None
    return known.id
