"""Clients that ask for all there is, at once, keep the gateway neither from receiving nor from answering others.

In the long form (`--long`) the attack is longer and larger, and its effect is measured.
"""

import asyncio
import os
import resource
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import Any

import pytest
import yaml

from tests.support import processes
from tests.support.attackers import CUT, LEFT, MIB, Attackers, csv_rows, dataset_json_bomb, parquet_bomb
from tests.support.disk import disk_of
from tests.support.gateway import GatewayProcess, mqtt_destination, mqtt_source
from tests.support.length import IS_LONG
from tests.support.loads import messages, mixed
from tests.support.mosquitto import Mosquitto
from tests.support.publish import publish
from tests.support.sas_client import Program, binary_file

pytestmark = pytest.mark.broker

SECONDS = 120.0 if IS_LONG else 8.0
TOPIC = "attack"
CHART = Path(__file__).parents[2] / "helm/values.yaml"
FREE = (24 + 2 * int(SECONDS)) * MIB
"""Receiving needs less than 2 MiB a second. Uploads leave twice as much."""
DISK = 112 * MIB + 2 * FREE
DESCRIPTORS = 1024 if IS_LONG else 512
CONVERSIONS, READERS, HEADERS, SILENT = 100, 200, 20, 1100 if IS_LONG else 400
AGAIN_SECONDS = 5.0
"""In the long form, clients that are refused or done come again after this time."""
ASKED_EVERY = 0.1
HANG_SECONDS = 60.0
"""An answer that takes longer never comes."""
LOWER_PRIORITY = 5
"""In the long form, which measures. The attackers stand for other machines: their own work must not take the gateway's
processors."""

REFUSALS = {
    "conversion": {"200", "507 storage-full", "503 busy", "503", CUT, LEFT},
    "parquet bomb": {"422 conversion-limit", "507 storage-full", "503 busy", "503", CUT, LEFT},
    "json bomb": {"422 unsuitable", "422 conversion-limit", "507 storage-full", "503 busy", "503", CUT, LEFT},
    "trace": {"413 too-large", "503 busy", "503", CUT, LEFT},
    "silent": {"503 busy", CUT, LEFT},
    "headers": {"431 about:blank", "503 busy", CUT, LEFT},
    "not reading": {"200", "503 busy", CUT, LEFT},
    "upload": {"202", "507 storage-full", "503 busy", "503", CUT, LEFT},
}
"""What docs/sizing.md says that clients see. 503 without a problem is for a connection too many; `cut` are
connections that were closed: those that refuse a request whose body is still being sent, and those that gave way to
others before their request was read."""

ASKING = """
import http.client, sys, time
while True:
    began = time.monotonic()
    asking = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=float(sys.argv[3]))
    asking.request("GET", sys.argv[2])
    answer = asking.getresponse()
    assert answer.status == 200, answer.status
    answer.read()
    asking.close()
    print(time.monotonic() - began, flush=True)
    time.sleep(0.1)
"""


@contextmanager
def asking(port: int, path: str, times: Path) -> Iterator[None]:
    """Ask for a path again and again, in a process that has nothing else to do. Every answer must be 200."""
    with times.open("w") as file:
        command = [sys.executable, "-c", ASKING, str(port), path, str(HANG_SECONDS)]
        asker = subprocess.Popen(command, stdout=file, stderr=subprocess.PIPE)
    try:
        yield
        assert asker.poll() is None, asker.stderr and asker.stderr.read().decode()
    finally:
        asker.kill()
        asker.communicate()


def percentiles(times: Path) -> str:
    """Return the percentiles of the seconds, and their number, for people.

    They are those of someone who asks every tenth of a second, even if the last answer has not come yet.
    """
    asked = [float(line) for line in times.read_text().splitlines()]
    delayed = [each - late * ASKED_EVERY for each in asked for late in range(1, int(each / ASKED_EVERY) + 1)]
    seconds = sorted(asked + delayed)
    found = ", ".join(f"{each} %: {seconds[int(len(seconds) * each / 100)]:.3f} s" for each in (50, 90, 99))
    return f"{len(asked)} answers, {found}, longest {seconds[-1]:.3f} s"


@contextmanager
def asking_all(process: GatewayProcess, folder: Path) -> Iterator[dict[str, Path]]:
    """Ask a gateway for all that must be answered. Yield the files of times by what was asked for."""
    times = {path: folder / path.replace("/", "-") for path in ("/health/live", "/v1/attachments")}
    with ExitStack() as stack:
        for path, file in times.items():
            stack.enter_context(asking(process.port, path, file))
        yield times


@contextmanager
def asking_another(folder: Path) -> Iterator[dict[str, Path]]:
    """Ask a gateway that nobody attacks, to tell what the machine takes from what the attack takes."""
    folder.mkdir()
    with GatewayProcess(folder, "") as idle, asking_all(idle, folder) as times:
        yield times


@contextmanager
def few_descriptors() -> Iterator[None]:
    """Let processes that are started have few descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path) as broker:
        yield broker


@pytest.fixture
def process(tmp_path: Path, broker: Mosquitto) -> Iterator[GatewayProcess]:
    settings = mqtt_source("sas", broker.port, TOPIC) + mqtt_destination("away", broker.port, "elsewhere")
    http = "header_timeout = 3\nstall_timeout = 5\n"
    with disk_of(tmp_path / "disk", DISK) as disk:
        process = GatewayProcess(
            disk, f'[limits]\nfree_bytes = {FREE}\n[journal]\nsegment_bytes = "8 MiB"\n{settings}', http=http
        )
        with few_descriptors():
            process.start()
        try:
            process.await_source("sas")
            yield process
        finally:
            process.stop()


class Attack:
    """The attackers in a process of their own, whose descriptors and whose interpreter they need for themselves."""

    def __init__(self, port: int, bombs: dict[str, bytes], content: str) -> None:
        context = get_context("fork")
        self._is_over, self.is_full = context.Event(), context.Event()
        self._outcome, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=self._run, args=(Attackers(port), bombs, content, theirs), daemon=True)
        self.begin = self._process.start

    def _run(self, attackers: Attackers, bombs: dict[str, bytes], content: str, told: Connection) -> None:
        if IS_LONG:
            os.nice(LOWER_PRIORITY)
        asyncio.run(attack(attackers, bombs, content, self._is_over, self.is_full))
        told.send(attackers)

    def end(self) -> Attackers:
        """Let all clients leave; return what became of them."""
        self._is_over.set()
        assert self._outcome.poll(60), "the attackers have not ended"
        found: Attackers = self._outcome.recv()
        self._process.join()
        return found


async def again(is_over: Event, attempt: Callable[..., Awaitable[None]], *given: Any) -> None:
    """Let a client attempt something; in the long form, let it come again until the attack is over."""
    await attempt(*given)
    while IS_LONG and not is_over.is_set():
        await asyncio.sleep(AGAIN_SECONDS)
        await attempt(*given)


async def attack(attackers: Attackers, bombs: dict[str, bytes], content: str, is_over: Event, is_full: Event) -> None:
    """Do everything at once until it is over; then all clients leave. `is_full` is set when an upload was refused."""
    rows, frames = csv_rows(MIB // 2), b"\xc0\x00" * (2 * MIB)
    clients = [asyncio.create_task(again(is_over, attackers.be_silent, 10 + n % 4)) for n in range(SILENT)]
    await asyncio.sleep(0.5)
    clients += [asyncio.create_task(again(is_over, attackers.not_read, content)) for _ in range(READERS)]
    clients += [asyncio.create_task(again(is_over, attackers.headers, 20 * MIB)) for _ in range(HEADERS)]
    clients += [asyncio.create_task(again(is_over, attackers.trace, frames)) for _ in range(4)]
    for name, bomb in bombs.items():
        kind = "parquet bomb" if name.endswith("parquet") else "json bomb"
        clients += [asyncio.create_task(again(is_over, attackers.convert, kind, name, bomb)) for _ in range(2)]
    clients += [
        asyncio.create_task(again(is_over, attackers.convert, "conversion", "a.csv", rows)) for _ in range(CONVERSIONS)
    ]
    await asyncio.sleep(SECONDS / 2)  # a full disk refuses the files of the others, too
    clients += [asyncio.create_task(attackers.upload(16 * MIB, is_over.is_set)) for _ in range(4)]
    while not is_over.is_set():
        await asyncio.sleep(0.1)
        if attackers.of("upload")["507 storage-full"]:
            is_full.set()
    for client in clients:
        client.cancel()
    await asyncio.wait(clients)
    for client in clients:
        if not client.cancelled():
            client.result()


def memory(process: GatewayProcess) -> int:
    """Bytes of the gateway and of all processes it has started."""
    assert process.process is not None
    return sum(map(processes.memory, processes.family(process.process.pid)))


def processor_seconds(process: GatewayProcess) -> tuple[float, float]:
    """Processor time of the gateway, and of all processes it has started."""
    assert process.process is not None
    own, *children = processes.family(process.process.pid)
    converting = sum(processes.processor_seconds(each, with_ended=True) for each in children)
    return processes.processor_seconds(own), converting


def test_others_are_answered_and_everything_arrives_under_attack(
    process: GatewayProcess, broker: Mosquitto, tmp_path: Path
) -> None:
    program = Program(Random(1))
    large = binary_file(program, "large.bin", Random(2).randbytes(8 * MIB))
    publish(messages(program, [large]), broker.port, TOPIC, "5")
    process.until(lambda: process.listing("/v1/attachments", state="finished"))
    (first,) = process.listing("/v1/attachments")
    content = f"/v1/attachments/{first['id']}/content"
    bombs = {"b.parquet": parquet_bomb(), "b.dsjc": dataset_json_bomb()}
    assert max(map(len, bombs.values())) < 2 * MIB
    attacking = Attack(process.port, bombs, content)
    sent, peak = [large], 0
    with ExitStack() as stack:
        answered = {"attacked": stack.enter_context(asking_all(process, tmp_path))}
        if IS_LONG:
            answered["idle"] = stack.enter_context(asking_another(tmp_path / "idle"))
        attacking.begin()
        began, before = monotonic(), processor_seconds(process)
        while monotonic() - began < SECONDS or not attacking.is_full.is_set():
            assert monotonic() - began < SECONDS + HANG_SECONDS
            more = mixed(program, 6)
            publish(messages(program, more), broker.port, TOPIC, "5")
            sent += more
            peak = max(peak, memory(process))
            sleep(0.2)
        wanted = {each.definition.correl_id.hex() for each in sent}
        process.until(lambda: len(process.listing("/v1/attachments", state="finished")) >= len(wanted))
        attackers = attacking.end()
        peak = max(peak, memory(process))
        took, shares = (
            monotonic() - began,
            [now - then for now, then in zip(processor_seconds(process), before, strict=True)],
        )
    received = {item["correl_id"]: item for item in process.listing("/v1/attachments", state="finished")}
    assert received.keys() == wanted
    files = {each.definition.correl_id.hex(): each for each in sent if isinstance(each.content, bytes)}
    assert all(received[correl_id]["sha256"] == each.sha256 for correl_id, each in files.items())
    assert process.listing("/v1/quarantine") == []
    for which, times in answered.items():
        for path, file in times.items():
            print(f"{which} {path}: {percentiles(file)}")  # noqa: T201
    print(f"processors: the gateway {shares[0] / took:.2f}, its conversions {shares[1] / took:.2f}")  # noqa: T201
    print(f"{len(sent)} attachments, at most {peak / MIB:.0f} MiB of memory, {dict(attackers.outcomes)}")  # noqa: T201
    for kind, allowed in REFUSALS.items():
        assert set(attackers.of(kind)) <= allowed, kind
    assert attackers.headers_sent < attackers.of("headers").total() * 20 * MIB // 3
    assert "request_failed" not in process.log
    chart = yaml.safe_load(CHART.read_text())["resources"]["limits"]["memory"]
    assert peak < int(chart.removesuffix("Mi")) * MIB
    process.until(lambda: not computing(process), 20)


def computing(process: GatewayProcess) -> bool:
    """Whether a conversion goes on although its client has left."""
    assert process.process is not None
    return processes.is_computing(process.process.pid, 0.1)
