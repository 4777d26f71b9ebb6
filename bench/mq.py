"""Receiving attachments from IBM MQ, two ways compared in one run and with one queue manager.

pymqi    a bare loop of pymqi in a separate process: gets in units of work, commits each, and keeps nothing
gateway  a separate process: durable before committed, until every attachment is finished and readable

The queue manager is the tests' double. It writes no log for the gets and uses no network. So these are not IBM MQ's
speeds; only their ratio is meaningful. Every round puts the same messages on a queue in one unit of work for each of
the two. The clock starts when that unit is committed, while the receiver waits on the empty queue. Figures are medians
of the rounds. Run it as `python -m bench.mq`.
"""

import argparse
import multiprocessing
from collections.abc import Iterable, Iterator
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import Any, NamedTuple

from app.model.message import PhysicalMessage
from bench.intake import Load, check, make_load
from tests.support.gateway import GatewayProcess
from tests.support.mq import connected, described, mq_source
from tests.support.mqi import Library, environment, load
from tests.support.queue_manager import QueueManager

QUEUE = "BENCH"
PATIENCE = 300.0
POLL_SECONDS = 0.02
LENGTH = 64 << 10


class Held:
    """Messages that were put and are not yet committed."""

    def __init__(self, manager: QueueManager, messages: Iterable[PhysicalMessage]) -> None:
        self._library = load("pymqi")
        self._connected = connected(self._library, manager)
        self._connection = self._connected.__enter__()
        constants = self._library.CMQC
        opened = self._library.Queue(self._connection, QUEUE, constants.MQOO_OUTPUT)
        for message in messages:
            descriptor, body = described(self._library, message, 2)
            descriptor.Persistence = constants.MQPER_PERSISTENT
            opened.put(body, descriptor, self._library.PMO(Options=constants.MQPMO_SYNCPOINT))
        opened.close()

    def release(self) -> float:
        """Commit the messages; return the time before."""
        started = perf_counter()
        self._connection.commit()
        self._connected.__exit__(None, None, None)
        return started


class Address(NamedTuple):
    """The fields of `Reachable`, in a form that can be passed to another process."""

    name: str
    channel: str
    connection_name: str


def bare(library: Library, manager: Address, batch: int, count: int, ready: Event, done: Event) -> None:
    """Get this number of messages and commit after every `batch` of them."""
    module = load(library)
    constants = module.CMQC
    options = constants.MQGMO_SYNCPOINT | constants.MQGMO_WAIT | constants.MQGMO_FAIL_IF_QUIESCING
    with connected(module, manager) as connection:
        queue = module.Queue(connection, QUEUE, constants.MQOO_INPUT_SHARED)
        gotten = module.GMO(Version=2, Options=options, WaitInterval=60_000, MatchOptions=constants.MQMO_NONE)
        descriptor = module.MD(Version=2)
        ready.set()
        for number in range(1, count + 1):
            queue.get(LENGTH, descriptor, gotten)
            if number % batch == 0 or number == count:
                connection.commit()
        done.set()
        queue.close()


def by_pymqi(given: argparse.Namespace, manager: QueueManager, sent: Load, _folder: Path) -> dict[str, float]:
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    address = Address(manager.name, manager.channel, manager.connection_name)
    arguments = (given.library, address, given.batch, len(sent.messages), ready, done)
    process = context.Process(target=bare, args=arguments)
    held = Held(manager, sent.messages)
    process.start()
    if not ready.wait(PATIENCE):
        raise TimeoutError("the bare loop does not start")
    started = held.release()
    if not done.wait(PATIENCE):
        raise TimeoutError("the bare loop does not end")
    seconds = perf_counter() - started
    process.join()
    return {"pymqi": len(sent.messages) / seconds}


def by_gateway(given: argparse.Namespace, manager: QueueManager, sent: Load, folder: Path) -> dict[str, float]:
    options = f"mqmd_version = {given.version}\nbatch_messages = {given.batch}\nconnections = {given.connections}\n"
    held = Held(manager, sent.messages)
    with GatewayProcess(folder, mq_source("mq", manager, QUEUE, options), environment(given.library)) as process:
        process.await_source("mq")
        started = held.release()
        received = finished = 0.0
        while not (received and finished):
            if (now := perf_counter() - started) > PATIENCE:
                raise TimeoutError(f"not done after {PATIENCE} seconds; see {process.log[-2000:]}")
            received = received or now * (manager.depth(QUEUE) == 0)
            total = process.samples().total("attachments_total", state="finished") if received else 0
            finished = finished or now * (total >= len(sent.attachments))
            sleep(POLL_SECONDS)
        check(process, sent)
    return {"gateway": len(sent.messages) / received, "finished": len(sent.messages) / finished}


def rounds(given: argparse.Namespace, sent: Load) -> Iterator[dict[str, float]]:
    """Return messages per second of both, round by round; their order alternates."""
    for number in range(given.rounds):
        speeds: dict[str, float] = {}
        with TemporaryDirectory(dir=given.folder) as name:
            folder = Path(name)
            with QueueManager(folder / "queue-manager", max_uncommitted=len(sent.messages) + 1) as manager:
                manager.define(QUEUE, maxdepth=len(sent.messages) + 1)
                for measure in (by_pymqi, by_gateway)[:: 1 if number % 2 == 0 else -1]:
                    speeds |= measure(given, manager, sent, folder)
        yield speeds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--total", type=int, default=256, help="MiB of attachments per round (256)")
    parser.add_argument("--attachment", type=int, default=8, help="MiB of one attachment (8)")
    parser.add_argument("--interleaved", type=int, default=4, help="number of interleaved attachments (4)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=200, help="messages of a unit of work, for both (200)")
    parser.add_argument("--library", choices=("pymqi", "ibmmq"), default="pymqi", help="for both (pymqi)")
    parser.add_argument("--version", type=int, choices=(1, 2), default=1, help="the gateway's MQMD (1)")
    parser.add_argument("--connections", type=int, default=1, help="the gateway's connections (1)")
    parser.add_argument("--folder", type=Path, help="folder for stored data (default: temporary)")
    given = parser.parse_args()
    sent = make_load(max(1, given.total // given.attachment), given.attachment << 20, given.interleaved)
    print(f"{len(sent.attachments)} attachments, {len(sent.messages)} messages, {sent.size / 1e6:.0f} MB")
    measured: list[dict[str, Any]] = []
    for speeds in rounds(given, sent):
        measured.append(speeds)
        print("  ".join(f"{name} {speed:,.0f}/s" for name, speed in sorted(speeds.items())), flush=True)
    middle = {name: median(speeds[name] for speeds in measured) for name in measured[0]}
    print("median: " + "  ".join(f"{name} {speed:,.0f} messages/s" for name, speed in middle.items()))
    print(f"ratios: gateway_over_pymqi={middle['gateway'] / middle['pymqi']:.2f}")


if __name__ == "__main__":
    main()
