"""Receivers that share a journal: processor time of receiving a message, by 1, 2 and 4 of them.

    python -m bench.receivers
    python -m bench.receivers --files 4000 --rounds 3

Files of 32,000 bytes, five messages each, come by a `$share` group of Mosquitto with MQTT 5. Each process is a gateway
with the role `receive` and a journal on disk; another one keeps. All share PostgreSQL and a folder as archive. The
receivers are paused while the broker gets the messages, so that each has a full queue when the clock starts. It stops
when the archive has as many bytes as all bodies.

receiving  processor time (user and system) of all receivers a message, without what idle receivers take
with idle  the same with it: the time in which messages wait for the age of their segment counts, too
idle       processor time of one receiver in a second in which nothing comes
share      the least and the largest part of the messages that one receiver has received
keeper     processor time of the keeper a file, until all files are finished, without what an idle keeper takes
database   the same of PostgreSQL's server, for receivers and keeper

Two cores cannot show how much faster several receivers are, but what sharing costs. Figures are medians of the rounds.
The first messages that each receiver gets are not counted: a process takes its memory from the system meanwhile.
"""

import argparse
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import NamedTuple

import psycopg

from adapters.sql_catalog import SqlCatalog
from app.testing.waiting import until
from bench.intake import SMALL, Load, make_load
from tests.support.gateway import GatewayProcess, mqtt_source
from tests.support.mosquitto import Mosquitto
from tests.support.postgresql import Cluster, binaries, running_cluster
from tests.support.processes import family, processor_seconds
from tests.support.publish import publish

COUNTS = (1, 2, 4)
TOPIC, GROUP = "receivers", "$share/gateways/receivers"
INTERLEAVED = 8
IDLE_SECONDS = 4.0
PATIENCE = 300.0
LOOK_SECONDS = 0.1
SETTINGS = """[catalog]
url = "{database}"
[content]
url = "{shared}/content"
settle_after = "1h"
[journal]
shared = true
segment_age = "2s"
archive_url = "{shared}/archive"
[limits]
free_bytes = 0
"""


class Measured(NamedTuple):
    """Processor seconds: of receivers a message, of an idle receiver a second, of keeper and database a file. `least`
    and `most` are the shares of the receivers."""

    receiving: float
    with_idle: float
    idle: float
    least: float
    most: float
    keeper: float
    database: float


class Spent(NamedTuple):
    """Processor seconds of all receivers, of the keeper, and of PostgreSQL's server."""

    receivers: float
    keeper: float
    database: float

    def __sub__(self, earlier: "Spent") -> "Spent":
        return Spent(*(now - then for now, then in zip(self, earlier, strict=True)))

    def a_second(self, seconds: float) -> "Spent":
        return Spent(*(each / seconds for each in self))


class Receivers:
    """Receivers and a keeper that run, and the places that they share."""

    def __init__(self, folder: Path, database: str, broker: Mosquitto, cluster: Cluster) -> None:
        self._folder, self._broker, self._cluster = folder, broker, cluster
        self._settings = SETTINGS.format(database=database, shared=(folder / "shared").as_uri())
        self.receivers: list[GatewayProcess] = []
        self.keeper = self._process("keep-0", "keep")

    def begin(self, count: int) -> None:
        """Start so many receivers, one after the other, and return when all are subscribed."""
        self.keeper.start()
        for number in range(count):
            self.receivers.append(self._process(f"receive-{number}", "receive"))
            self.receivers[-1].start()
        for each in self.receivers:
            each.await_source("load")

    def stop(self) -> None:
        for each in (*self.receivers, self.keeper):
            if each.process is not None and each.process.poll() is None:
                os.kill(each.process.pid, signal.SIGCONT)
            each.stop()

    def queue(self, load: Load) -> None:
        """Have the broker get messages while the receivers are paused."""
        for each in self.receivers:
            os.kill(_pid(each), signal.SIGSTOP)
        publish(load.messages, self._broker.port, TOPIC, "5")

    def resume(self) -> None:
        for each in self.receivers:
            os.kill(_pid(each), signal.SIGCONT)

    def archived(self) -> int:
        """Return the bytes that the archive has. It asks no gateway, which would take processor time."""
        return sum(each.stat().st_size for each in (self._folder / "shared" / "archive").glob("*.arrows"))

    def received(self) -> list[float]:
        """Return how many messages each receiver has received."""
        return [each.samples().total("messages_received_total", source="load") for each in self.receivers]

    def spent(self) -> "Spent":
        """Return the processor seconds until now; connections to the database that have ended count."""
        server = int((self._cluster.folder / "data" / "postmaster.pid").read_text().partition("\n")[0])
        return Spent(
            sum(processor_seconds(_pid(each)) for each in self.receivers),
            processor_seconds(_pid(self.keeper)),
            sum(processor_seconds(each, with_ended=True) for each in family(server)),
        )

    def _process(self, name: str, role: str) -> GatewayProcess:
        own = self._folder / name
        own.mkdir()
        source = mqtt_source("load", self._broker.port, GROUP, client_id=name)
        return GatewayProcess(own, self._settings + source, first=f'roles = ["{role}"]\n')


def _pid(gateway: GatewayProcess) -> int:
    assert gateway.process is not None
    return gateway.process.pid


def measured(gateway: Receivers, finished: Callable[[], int], warm_up: Load, load: Load) -> Measured:
    """Measure the receivers over the messages of `load`."""
    gateway.queue(warm_up)
    gateway.resume()
    until(lambda: finished() == len(warm_up.attachments), PATIENCE, pause=LOOK_SECONDS)
    began, before = perf_counter(), gateway.spent()
    sleep(IDLE_SECONDS)
    idle = (gateway.spent() - before).a_second(perf_counter() - began)
    size, earlier = gateway.archived(), gateway.received()
    gateway.queue(load)
    began, before = perf_counter(), gateway.spent()
    gateway.resume()
    until(lambda: gateway.archived() - size > load.size, PATIENCE, pause=LOOK_SECONDS)
    spent, seconds = gateway.spent() - before, perf_counter() - began
    files, messages = len(load.attachments), len(load.messages)
    until(lambda: finished() == len(warm_up.attachments) + files, PATIENCE, pause=LOOK_SECONDS)
    whole, lasted = gateway.spent() - before, perf_counter() - began
    received = [now - then for now, then in zip(gateway.received(), earlier, strict=True)]
    assert sum(received) == messages, received
    return Measured(
        receiving=(spent.receivers - idle.receivers * seconds) / messages,
        with_idle=spent.receivers / messages,
        idle=idle.receivers / len(gateway.receivers),
        least=min(received) / messages,
        most=max(received) / messages,
        keeper=(whole.keeper - idle.keeper * lasted) / files,
        database=(whole.database - idle.database * lasted) / files,
    )


def loads(before: int, files: int) -> tuple[Load, Load]:
    """Return the files for the warm-up, and those that count."""
    whole = make_load(before + files, SMALL["small"], INTERLEAVED, "files")
    end = before * len(whole.messages) // len(whole.attachments)
    return (
        Load(whole.attachments[:before], whole.messages[:end]),
        Load(whole.attachments[before:], whole.messages[end:]),
    )


@contextmanager
def running(folder: Path, broker: Mosquitto, cluster: Cluster, count: int) -> Iterator[tuple[Receivers, str]]:
    """Run a gateway of so many receivers with an empty catalog; yield it and how to connect to its database."""
    connection, url = f"host={cluster.folder} user=postgres dbname=postgres", "postgresql+psycopg://postgres@/postgres"
    with psycopg.connect(connection, autocommit=True) as database:
        database.execute("DROP SCHEMA public CASCADE")
        database.execute("CREATE SCHEMA public")
    url = f"{url}?host={cluster.folder}"
    SqlCatalog(url).close()
    (folder / "shared" / "archive").mkdir(parents=True)
    found = Receivers(folder, url, broker, cluster)
    try:
        found.begin(count)
        yield found, connection
    finally:
        found.stop()


def once(folder: Path, cluster: Cluster, count: int, given: argparse.Namespace) -> Measured:
    """Measure so many receivers once."""
    folder.mkdir()
    asked = "SELECT count(*) FROM attachments WHERE state = 'finished'"
    with ExitStack() as stack:
        broker = stack.enter_context(Mosquitto(folder))
        gateway, connection = stack.enter_context(running(folder, broker, cluster, count))
        database = stack.enter_context(psycopg.connect(connection, autocommit=True))

        def finished() -> int:
            (number,) = database.execute(asked).fetchone() or (0,)
            return int(number)

        return measured(gateway, finished, *loads(given.warm_up * count, given.files))


def _files(text: str) -> int:
    """Return a number of files. Raises ArgumentTypeError where the messages of the last ones would be cut apart."""
    number = int(text)
    if number < 1 or number % INTERLEAVED:
        raise argparse.ArgumentTypeError(f"{number} is not a multiple of {INTERLEAVED}, as many are sent together")
    return number


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=_files, default=8000, help="files whose messages are counted (8,000)")
    parser.add_argument("--warm-up", type=_files, default=2000, help="files before, for each receiver (2,000)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each number of receivers is measured (3)")
    given = parser.parse_args()
    programs = binaries()
    assert programs is not None, "PostgreSQL's programs (initdb, postgres) are not installed"
    found: dict[int, list[Measured]] = {count: [] for count in COUNTS}
    with TemporaryDirectory(prefix="bench-receivers-") as name, running_cluster(programs) as cluster:
        for number in range(given.rounds):
            for count in COUNTS[:: -1 if number % 2 else 1]:
                found[count].append(once(Path(name) / f"{number}-{count}", cluster, count, given))
                print(f"round {number + 1}: {row(count, found[count][-1])}", flush=True)
    report({count: medians(each) for count, each in found.items()})


def medians(rounds: Sequence[Measured]) -> Measured:
    return Measured(*(median(values) for values in zip(*rounds, strict=True)))


def row(count: int, each: Measured) -> str:
    return (
        f"{count:9} {each.receiving * 1e6:8.0f} us {each.with_idle * 1e6:8.0f} us {each.idle * 1e3:5.1f} ms/s "
        f"{each.least:5.0%} to {each.most:4.0%} {each.keeper * 1e6:6.0f} us {each.database * 1e6:6.0f} us"
    )


def report(found: dict[int, Measured]) -> None:
    """Print the table and the line of ratios."""
    print(
        f"{'receivers':>9} {'receiving':>11} {'with idle':>11} {'idle':>10} {'share':>13} {'keeper':>9} {'database':>9}"
    )
    for count, each in found.items():
        print(row(count, each))
    one, *others = COUNTS
    ratios = [f"cost_of_{count}_over_1={found[count].receiving / found[one].receiving:.2f}" for count in others]
    ratios += [f"with_idle_{count}_over_1={found[count].with_idle / found[one].with_idle:.2f}" for count in others]
    print("ratios: " + " ".join(ratios))


if __name__ == "__main__":
    main()
