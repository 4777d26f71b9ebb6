"""What the gateway has acknowledged survives: killed processes, a broker's restart, a full disk."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import chain
from pathlib import Path
from random import Random
from time import sleep

import pytest

from adapters.arrow_journal import ArrowJournal
from app.model.message import PhysicalMessage
from app.testing.waiting import until
from tests.support.forked_gateway import ForkedGateway
from tests.support.gateway import GatewayProcess, mqtt_source
from tests.support.length import IS_LONG
from tests.support.loads import assert_received, messages, mixed
from tests.support.mosquitto import Mosquitto
from tests.support.publish import publish
from tests.support.sas_client import Attached, Program, binary_file, disordered
from tests.support.subscribe import left_in_session, subscribe

pytestmark = pytest.mark.broker

TOPIC = "sas/attachments"
KILLS = 60 if IS_LONG else 6
SMALL, LARGE = 32 << 20, 512 << 20
FILLING_AT_MOST = 20_000
"""The number of small attachments that surely do not fit on a full disk."""


def journal_bytes(process: GatewayProcess) -> int:
    """What the journal holds; a segment that is renamed meanwhile counts from the next look on."""
    size = 0
    for path in (process.folder / "var" / "journal").glob("*"):
        with suppress(FileNotFoundError):
            size += path.stat().st_size
    return size


def journalled(process: GatewayProcess) -> set[tuple[bytes, bytes]]:
    journal = ArrowJournal(process.folder / "var" / "journal")
    kept = {(each.correl_id, bytes(each.body)) for _, batch in journal.replay(None) for each in batch}
    journal.close()
    return kept


def distinct(stream: Sequence[PhysicalMessage]) -> set[tuple[bytes, bytes]]:
    return {(sent.correl_id, bytes(sent.body)) for sent in stream}


@pytest.mark.parametrize(
    ("storage", "kills", "count"), [("folder", KILLS, 60), ("servers", 4, 21)], indirect=["storage"]
)
@pytest.mark.usefixtures("storage")
def test_killed_in_the_middle_again_and_again_nothing_is_lost_and_nothing_comes_twice(
    tmp_path: Path, kills: int, count: int
) -> None:
    program = Program(Random(7))
    attachments = [
        *mixed(program, count),
        *(binary_file(program, f"{n}", program.random.randbytes(3 << 20)) for n in range(6)),
    ]
    stream = disordered(messages(program, attachments), program.random)
    slices = [stream[at::kills] for at in range(kills)]
    with Mosquitto(tmp_path, persistent=True) as broker, ExitStack() as ending:
        process = ForkedGateway(tmp_path, mqtt_source("sas", broker.port, TOPIC))
        ending.callback(process.stop)
        subscribe(broker.port, "sas", TOPIC, "5")
        for number, each in enumerate(slices):
            publish(each, broker.port, TOPIC, "5")
            before = journal_bytes(process)
            enough = sum(len(sent.body) for sent in each) // 2
            process.spawn()
            process.until(lambda: journal_bytes(process) > before + enough, pause=0.002)  # noqa: B023 - used at once
            process.kill()
            if number == kills // 2:
                broker.stop()
                broker.start()
        process.start()
        assert_received(process, attachments)
        process.stop()
        assert left_in_session(broker.port, "sas", TOPIC, "5") == 0
        assert journalled(process) == distinct(stream)


def test_the_gateway_comes_back_to_a_broker_that_was_away(tmp_path: Path) -> None:
    program = Program(Random(8))
    first, second = mixed(program, 20), mixed(program, 20)
    with (
        Mosquitto(tmp_path, persistent=True) as broker,
        ForkedGateway(tmp_path, mqtt_source("sas", broker.port, TOPIC)) as process,
    ):
        process.await_source("sas")
        publish(disordered(messages(program, first), program.random), broker.port, TOPIC, "5")
        broker.stop()
        until(lambda: not process.samples().total("source_connected"))
        broker.start()
        publish(disordered(messages(program, second), program.random), broker.port, TOPIC, "5")
        assert_received(process, chain(first, second))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("a small disk needs the right to mount one")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.parametrize(("limit", "killed"), [("8 MiB", False), ("0", True)])
def test_a_full_disk_stops_the_stream_and_room_lets_it_go_on(
    tmp_path: Path, small_disk: Path, limit: str, killed: bool
) -> None:
    """With a limit the gateway stops in time; without one the disk itself says no. It may be killed while it waits."""
    program = Program(Random(9))
    attachments = [binary_file(program, f"{n}", program.random.randbytes(4 << 20)) for n in range(12)] + mixed(
        program, 12
    )
    stream = disordered(messages(program, attachments), program.random)
    settings = f'[limits]\nfree_bytes = "{limit}"\n[journal]\nsegment_bytes = "8 MiB"\n'
    with (
        Mosquitto(tmp_path) as broker,
        ForkedGateway(small_disk, settings + mqtt_source("sas", broker.port, TOPIC)) as process,
    ):
        process.await_source("sas")
        publish(stream, broker.port, TOPIC, "5")
        until(lambda: not process.samples().total("taking"))
        if killed:
            process.kill()
        subprocess.run(["mount", "-o", f"remount,size={LARGE}", str(small_disk)], check=True)
        if killed:
            process.start()
        assert_received(process, attachments)
        process.stop()
        assert left_in_session(broker.port, "sas", TOPIC, "5") == 0
        assert journalled(process) == distinct(stream)


def has_paused(process: GatewayProcess) -> bool:
    """Tell whether the gateway waits for room, or did: it goes on as soon as anything gives back room.

    Its log is on the full disk, too, so that a line may be missing. Where the catalog is the first to find no room,
    receiving waits for assembly, and the journal may never find out."""
    waits = not process.client.get("/health/ready").json()["checks"]["assembly"]["ok"]
    said = any(event in process.log for event in ("receiving_paused", "assembly_failed"))
    return waits or said or not process.samples().total("taking")


@pytest.mark.parametrize("left", [0, 200 << 10])
def test_a_disk_that_is_full_for_the_catalog_too_is_waited_for(tmp_path: Path, small_disk: Path, left: int) -> None:
    """Small attachments make the catalog grow beside the journal, so that either may be the one that finds no room."""
    program = Program(Random(10))
    first = mixed(program, 9)
    second: list[Attached] = []
    settings = '[limits]\nfree_bytes = "0"\n'
    with (
        Mosquitto(tmp_path) as broker,
        ForkedGateway(small_disk, settings + mqtt_source("sas", broker.port, TOPIC)) as process,
    ):
        process.await_source("sas")
        publish(messages(program, first), broker.port, TOPIC, "5")
        assert_received(process, first)
        filler = small_disk / "filler"
        # The gateway may take or give back some room meanwhile.
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        os.truncate(filler, filler.stat().st_size - left)
        while not has_paused(process):
            if len(second) >= FILLING_AT_MOST:
                free, health = shutil.disk_usage(small_disk).free, process.client.get("/health/ready").text
                pytest.fail(f"the disk does not get full: {free} bytes are free\n{health}\n{process.log[-4000:]}")
            more = [binary_file(program, f"{len(second) + n}", b"x") for n in range(200)]
            publish(messages(program, more), broker.port, TOPIC, "5")
            second += more
            sleep(0.5)
        filler.unlink()
        assert_received(process, [*first, *second])
