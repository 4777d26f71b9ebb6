"""A catalog of very many attachments: requests a second, the time of an answer, and the time of a start.

    python -m bench.serving
    python -m bench.serving --rows 1000000 --each
    python -m bench.serving --rows 1000000 --parts lists --databases sqlite

replicas  processes of `serve --role serve` over PostgreSQL, 1, 2 and 3 of them, each request to the next one:
            list      the newest 50 attachments
            detail    one attachment, drawn at random
            download  the content of one, 4 KiB in a folder that all replicas share
            psycopg   the statement of `list` by psycopg alone, on as many connections of one process: what a replica
                      would do if it only read rows
lists     on one replica and one connection: every list of REST, the first, a middle and the last page, in every order;
          every filter, such that match many rows, few, one and none, several at once; and the number of all (`count`)
start     a gateway in one process with a tenth as many unfinished attachments, which it has received before: from the
          start of the process until it is ready, after it was stopped and after it was killed

The client, the replicas and PostgreSQL share the machine. `cores` says how much processor time each of them took a
second: where the sum is near the number of cores, the machine is the limit. `--each` prints the times of every list and
filter. The catalog is that of tests/support/large_catalog.py.
"""

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Barrier, Thread
from time import perf_counter, process_time
from typing import NamedTuple
from urllib.parse import quote

import psycopg
from sqlalchemy import make_url

from adapters.sql_catalog import SqlCatalog
from adapters.sql_catalog.listing_pages import encode_cursor, encode_sorted
from app.model.times import to_time
from bench.memory import PATIENCE, TOPIC, incomplete, peak, without_pandas
from tests.support.gateway import GatewayProcess, mqtt_source
from tests.support.large_catalog import APART, BEGAN, HOOK, RARE_NAME, RARE_SOURCE, fill, identifier
from tests.support.mosquitto import Mosquitto
from tests.support.postgresql import binaries, new_database, running_postgresql
from tests.support.publish import publish

PARTS = ("replicas", "lists", "start")
DATABASES = ("postgresql", "sqlite")
CLIENTS = 8
LATEST = 50
"""Milliseconds."""
_TICKS = os.sysconf("SC_CLK_TCK")
FEW = 10_000
"""The number of attachments with whose memory that of very many is compared."""
STORED = 500
"""The number of attachments whose content is there."""
CONTENT = bytes(4096)
PLAIN = {"", "cursor", "sort"}
"""The parameters of a list without a filter."""
LAST = "~"
"""A text behind all identifiers."""
SETTINGS = """[catalog]
url = "{database}"
[expiry]
unfinished = "20000d"
[retention]
attachments = "20000d"
expired = "20000d"
deliveries = "20000d"
events = "20000d"
quarantine = "20000d"
quarantine_count = 1_000_000
quarantine_bytes = "1 TiB"
dead_letters = "20000d"
[content]
url = "{shared}/content"
[journal]
archive_url = "{shared}/archive"
[limits]
free_bytes = 0
[webhooks.hook]
url = "http://127.0.0.1:9/"
secrets = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]
networks = ["127.0.0.0/8"]
"""
PAGE = "SELECT * FROM attachments WHERE kind IS NOT NULL ORDER BY first_received_at DESC, id DESC LIMIT 51"


def requests(rows: int) -> dict[str, list[str]]:
    """Return the paths of every list and every filter of REST, by the name of the list."""
    last = rows - 1
    middle = quote(encode_cursor(BEGAN + rows // 2 * APART, LAST))
    end = quote(encode_cursor(BEGAN + 20 * APART, LAST))
    pages = ["", f"cursor={middle}", f"cursor={end}"]

    def at(number: float) -> str:
        """Return the time of a row as a filter has it."""
        return quote(to_time(BEGAN + int(number) * APART + 1).isoformat())

    hour = f"received_after={at(rows // 3)}&received_before={at(rows // 3 + 3600)}"
    attachments = [
        *pages,
        *(f"state={state}" for state in ("receiving", "complete", "finished", "expired", "quarantined")),
        *(f"kind={kind}" for kind in ("data-set", "text-file", "binary-file")),
        *(f"source={source}" for source in ("orders", "ledger", RARE_SOURCE, "nowhere")),
        *(
            f"name={name}"
            for name in ("invoice", "_0001_", "0007", "zz", RARE_NAME, "zagreb", "no-such-name", "%C3%BC")
        ),
        f"message={identifier('m', rows // 4)}",
        f"message={identifier('m', rows // 4)[:12]}",
        f"message={'0' * 32}",
        hour,
        f"received_before={at(50)}",
        f"received_after={at(last - 20)}",
        f"received_after={at(last * 2)}",
        *(f"min_size={size}" for size in (1, 1 << 29, (1 << 30) - 1000, 1 << 40)),
        *(f"max_size={size}" for size in (1 << 20, 70, 1)),
        "min_size=1000000&max_size=1000100",
        "announced=false",
        "announced=false&state=receiving",
        "announced=false&name=a",
        "warned=true",
        "warned=false",
        *(f"sort={sort}" for sort in ("received", "-received", "size", "-size", "name", "-name")),
        *(f"sort={sort}&cursor={quote(encode_sorted(sort, 1 << 18, LAST))}" for sort in ("size", "-size")),
        *(f"sort={sort}&cursor={quote(encode_sorted(sort, 'ledger', LAST))}" for sort in ("name", "-name")),
        f"sort=-size&cursor={quote(encode_sorted('-size', 65, LAST))}",
        f"sort=name&cursor={quote(encode_sorted('name', 'trades_zz', LAST))}",
        # Several at once.
        "state=finished&kind=data-set",
        "state=finished&source=orders&kind=text-file",
        "state=quarantined&kind=data-set&warned=true",
        "state=complete&source=ledger",
        f"state=receiving&source={RARE_SOURCE}",
        f"state=finished&source={RARE_SOURCE}&name=invoice",
        "state=receiving&name=no-such-name",
        f"state=finished&name={RARE_NAME}",
        "state=finished&name=no-such-name&kind=text-file",
        f"source=orders&name={RARE_NAME}",
        "source=orders&max_size=70",
        "source=orders&min_size=1073741000",
        "kind=data-set&max_size=1",
        "state=receiving&min_size=1",
        "warned=true&state=finished&source=ledger",
        "warned=true&name=no-such-name",
        f"{hour}&kind=data-set",
        f"{hour}&name=no-such-name",
        f"{hour}&sort=-size",
        "sort=-size&name=invoice",
        "sort=-size&source=orders&kind=data-set",
        f"sort=-size&source={RARE_SOURCE}",
        "sort=-size&state=receiving",
        "sort=name&state=receiving",
        "sort=name&name=no-such-name",
        f"sort=name&source={RARE_SOURCE}",
        "sort=-name&min_size=1073741000",
        "sort=received&state=finished&kind=data-set",
        # Numbers of all.
        *(f"count=true&{which}" for which in ("", "state=finished", "state=receiving", "kind=data-set", hour)),
        *(f"count=true&{which}" for which in ("source=orders", f"source={RARE_SOURCE}", "warned=true", "name=invoice")),
        *(f"count=true&{which}" for which in ("min_size=1000000", "name=no-such-name", "state=finished&kind=data-set")),
        "count=true&state=finished&source=orders",
    ]
    messages = [
        *pages,
        *(f"source={source}" for source in ("orders", "ledger", RARE_SOURCE, "nowhere")),
        hour,
        f"source={RARE_SOURCE}&received_before={at(rows // 2)}",
    ]
    quarantine = [
        *pages,
        *(f"source={source}" for source in ("orders", RARE_SOURCE, "nowhere")),
        *(f"state={state}" for state in ("kept", "replayed", "dismissed")),
        *(f"code={code}" for code in ("truncated", "bad-header", "no-such-code")),
        *(f"why={quote(why)}" for why in ("no count came", "byte 7 is 8", "no such reason")),
        "state=kept&code=bad-header",
        "state=dismissed&code=bad-header&source=orders",
        f"source={RARE_SOURCE}&code=bad-header&why=no%20count%20came",
    ]
    groups = ["", "state=kept", f"source={RARE_SOURCE}", "source=orders&state=dismissed", "code=bad-header"]
    between = f"created_after={at(rows // 3)}&created_before={at(rows // 3 + 3600)}"
    deliveries = [
        *pages,
        *(f"state={state}" for state in ("queued", "sending", "sent", "failed", "cancelled")),
        *(f"destination={destination}" for destination in ("partner", "rarely", "nowhere")),
        between,
        "state=failed&destination=partner",
        "state=sent&destination=rarely",
        "state=failed&destination=rarely",
        "state=sending&destination=partner",
        f"state=failed&{between}",
    ]
    letters = f"/webhooks/{HOOK}/dead-letters"
    asked = {
        "/attachments": attachments,
        "/messages": messages,
        "/quarantine": quarantine,
        "/quarantine/groups": groups,
        "/deliveries": deliveries,
        "/uploads": [""],
        letters: [""],
        "/webhooks": [""],
        "/pipeline/runs": [""],
        "/tables": [""],
        "/audit": ["", "action=sign-in", "result=refused"],
    }
    return {path: [f"/v1{path}?{query}" for query in queries] for path, queries in asked.items()}


class Measured(NamedTuple):
    """Requests a second; the milliseconds within which 99 of 100 were answered; and the processor time a second."""

    rate: float
    p99: float
    cores: dict[str, float]


def p99(seconds: Sequence[float]) -> float:
    """Return the milliseconds within which 99 of 100 requests were answered."""
    return sorted(seconds)[max(0, -(-99 * len(seconds) // 100) - 1)] * 1e3


class Client:
    """One connection to each replica; each request goes to the next one."""

    def __init__(self, ports: Sequence[int], first: int) -> None:
        self._connections = [HTTPConnection("127.0.0.1", port, timeout=60) for port in ports]
        self._next = first

    def get(self, path: str) -> bytes:
        connection = self._connections[self._next % len(self._connections)]
        self._next += 1
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == HTTPStatus.OK, (path, answer.status, body)
        return body

    def close(self) -> None:
        for each in self._connections:
            each.close()


class Server:
    """Where catalogs are: a folder for SQLite, or a PostgreSQL, whose processor time can be told."""

    def __init__(self, kind: str, folder: Path, socket: Path | None) -> None:
        self.kind, self._folder, self._socket, self._number = kind, folder, socket, 0

    def new(self) -> str:
        """Return the URL of a new catalog."""
        self._number += 1
        url = f"sqlite:///{self._folder}/catalog_{self._number}.sqlite"
        if self._socket is not None:
            url = new_database(self._socket)
        SqlCatalog(url).close()
        return url

    def connect(self, url: str) -> "psycopg.Connection[tuple[object, ...]]":
        """Return a connection to a catalog in PostgreSQL."""
        name = make_url(url).database
        return psycopg.connect(host=str(self._socket), user="postgres", dbname=name, autocommit=True)

    def processor_seconds(self) -> float:
        """Return the processor time of PostgreSQL so far. That of SQLite is its caller's."""
        if self._socket is None:
            return 0.0
        parent = int((self._socket / "data" / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        return sum(map(_processor_seconds, [parent, *map(int, children)]))


def _processor_seconds(process: int) -> float:
    """Return the processor time of a process, to the nanosecond, and of its children that have ended, to a tick."""
    folder, seconds = Path(f"/proc/{process}"), 0.0
    with suppress(FileNotFoundError, ProcessLookupError):  # it has ended: its time is that of its parent's children
        ended = (folder / "stat").read_text().rpartition(")")[2].split()[13:15]
        seconds += sum(map(int, ended)) / _TICKS
        for thread in (folder / "task").iterdir():
            seconds += int((thread / "schedstat").read_text().split()[0]) / 1e9
    return seconds


def load(act: Callable[[int], Callable[[], object]], seconds: float, spent: Callable[[], dict[str, float]]) -> Measured:
    """Measure what `CLIENTS` threads do at once. `act` returns what one of them does again and again, and `spent` the
    processor time of others so far."""
    taken: list[list[float]] = [[] for _ in range(CLIENTS)]
    begin = Barrier(CLIENTS + 1)

    def run(number: int) -> None:
        once = act(number)
        once()
        begin.wait()
        end = perf_counter() + seconds
        while (started := perf_counter()) < end:
            once()
            taken[number].append(perf_counter() - started)

    threads = [Thread(target=run, args=(number,)) for number in range(CLIENTS)]
    for each in threads:
        each.start()
    begin.wait()
    before, own = spent(), process_time()
    for each in threads:
        each.join()
    cores = {"client": process_time() - own, **{name: after - before[name] for name, after in spent().items()}}
    every = [second for own in taken for second in own]
    return Measured(len(every) / seconds, p99(every), {name: each / seconds for name, each in cores.items()})


@contextmanager
def running(folder: Path, url: str, count: int) -> Iterator[list[GatewayProcess]]:
    """Run replicas over a catalog."""
    with ExitStack() as stack:
        gateways = []
        for number in range(count):
            own = folder / f"replica-{number}"
            own.mkdir(exist_ok=True)
            gateways.append(
                stack.enter_context(
                    GatewayProcess(own, settings(folder, url), without_pandas(own), first='roles = ["serve"]\n')
                )
            )
        yield gateways


def settings(folder: Path, url: str) -> str:
    return SETTINGS.format(database=url, shared=(folder / "shared").as_uri())


def store(folder: Path, connection: "psycopg.Connection[tuple[object, ...]]", rows: int) -> list[str]:
    """Give the newest finished attachments a content; return their identifiers."""
    newest = [identifier("a", number) for number in range(max(0, rows - STORED), rows)]
    content = folder / "shared" / "content"
    found = connection.execute(
        "UPDATE attachments SET size = %s, sha256 = %s, checksums = NULL WHERE id = ANY(%s) AND state = 'finished' "
        "RETURNING id, object_name",
        [len(CONTENT), sha256(CONTENT).hexdigest(), newest],
    ).fetchall()
    for _, name in found:
        (content / str(name)).parent.mkdir(parents=True, exist_ok=True)
        (content / str(name)).write_bytes(CONTENT)
    return [str(each) for each, _ in found]


def replicas(folder: Path, server: Server, url: str, given: argparse.Namespace) -> dict[str, dict[str, Measured]]:
    """Return what 1, 2 and 3 replicas do, and psycopg."""
    with server.connect(url) as connection:
        stored = store(folder, connection, given.rows)
    paths: dict[str, Callable[[Random], str]] = {
        "list": lambda _random: "/v1/attachments",
        "detail": lambda random: f"/v1/attachments/{identifier('a', random.randrange(given.rows))}",
        "download": lambda random: f"/v1/attachments/{random.choice(stored)}/content",
    }
    found: dict[str, dict[str, Measured]] = {}
    for count in (1, 2, 3):
        with running(folder, url, count) as gateways, ExitStack() as ending:

            def asking(path: Callable[[Random], str], number: int) -> Callable[[], object]:
                client, random = Client([each.port for each in gateways], number), Random(number)
                ending.callback(client.close)
                return lambda: client.get(path(random))

            def spent() -> dict[str, float]:
                running = [each.process.pid for each in gateways if each.process is not None]
                return {"replicas": sum(map(_processor_seconds, running)), "database": server.processor_seconds()}

            rounds = {name: load(partial(asking, path), given.seconds, spent) for name, path in paths.items()}
        found[f"{count} replica{'s' * (count > 1)}"] = rounds
    with ExitStack() as ending:

        def reading(_number: int) -> Callable[[], object]:
            connection = ending.enter_context(server.connect(url))
            return lambda: connection.execute(PAGE).fetchall()

        def of_database() -> dict[str, float]:
            return {"database": server.processor_seconds()}

        found["psycopg"] = {"list": load(reading, given.seconds, of_database)}
    return found


class Answer(NamedTuple):
    """Milliseconds within which 99 of 100 requests were answered, and the processor time of one, of client, replica and
    database together."""

    p99: float
    processor: float


class Answers(NamedTuple):
    """What each request took, and the peak memory of the replica, in MiB."""

    times: dict[str, Answer]
    peak: float


def answers(folder: Path, server: Server, url: str, rows: int, times: int) -> Answers:
    """Ask for each list and filter so many times."""
    found = {}
    with running(folder, url, 1) as (gateway,):
        assert gateway.process is not None
        replica, client = gateway.process.pid, Client([gateway.port], 0)

        def spent() -> float:
            return process_time() + _processor_seconds(replica) + server.processor_seconds()

        for path in (path for paths in requests(rows).values() for path in paths):
            client.get(path)
            seconds, before = [], spent()
            for _ in range(times):
                started = perf_counter()
                client.get(path)
                seconds.append(perf_counter() - started)
            found[path] = Answer(p99(seconds), (spent() - before) / times * 1e3)
        client.close()
        return Answers(found, peak(gateway))


def starts(folder: Path, server: Server, url: str, count: int) -> dict[str, float]:
    """Have a gateway receive so many attachments of which parts are missing. Return the seconds from its next starts
    until it is ready, by how it ended before."""
    own, found = folder / "gateway", {}
    own.mkdir()
    with Mosquitto(own, persistent=True) as broker:
        source = mqtt_source("orders", broker.port, TOPIC)
        gateway = GatewayProcess(own, settings(folder, url) + source, without_pandas(own))
        gateway.start()
        gateway.await_source("orders")
        sent = [*incomplete(count)]
        publish(sent, broker.port, TOPIC, "3.1.1")
        gateway.until(lambda: gateway.samples().total("messages_received_total") >= len(sent), PATIENCE, 0.2)
        assert gateway.process is not None
        gateway.process.terminate()
        gateway.process.wait(PATIENCE)
        for before in ("stopped", "killed"):
            began = perf_counter()
            gateway.spawn()
            gateway.until(partial(_is_ready, gateway), pause=0.005)
            found[before] = perf_counter() - began
            used = _processor_seconds(gateway.process.pid)
            print(f"{server.kind}: ready {found[before]:.1f} s after it was {before}, {used:.1f} s of processor")
            gateway.kill()
        gateway.client.close()
    return found


def _is_ready(gateway: GatewayProcess) -> bool:
    return gateway.is_up() and gateway.client.get("/health/ready").status_code == HTTPStatus.OK


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000, help="number of attachments (100,000)")
    parser.add_argument("--seconds", type=float, default=4.0, help="seconds of each load (4)")
    parser.add_argument("--times", type=int, default=100, help="how often each list and filter is asked for (100)")
    parser.add_argument("--each", action="store_true", help="print the time of each list and filter")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what to measure (all)")
    parser.add_argument(
        "--databases", nargs="+", choices=DATABASES, default=DATABASES, help="where to measure it (all)"
    )
    given = parser.parse_args()
    ratios: dict[str, float] = {}
    with ExitStack() as stack:
        for kind in given.databases:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix=f"bench-serving-{kind}-")))
            (folder / "shared" / "archive").mkdir(parents=True)
            socket = None
            if kind == "postgresql":
                programs = binaries()
                assert programs is not None, "PostgreSQL's programs (initdb, postgres) are not installed"
                socket = stack.enter_context(running_postgresql(programs))
            server = Server(kind, folder, socket)
            url = server.new()
            if {"replicas", "lists"} & {*given.parts}:
                fill(url, given.rows)
            if "replicas" in given.parts and kind == "postgresql":
                ratios |= report_replicas(replicas(folder, server, url, given))
            if "lists" in given.parts:
                few = server.new()
                fill(few, FEW)
                before = answers(folder, server, few, FEW, 1)
                after = answers(folder, server, url, given.rows, given.times)
                ratios |= report_lists(kind, before, after, is_each=given.each)
            if "start" in given.parts:
                settled = server.new()
                fill(settled, given.rows, ("finished",))
                ratios[f"{kind}_start_seconds"] = max(starts(folder, server, settled, given.rows // 10).values())
    print("ratios: " + " ".join(f"{name}={ratio:.2f}" for name, ratio in ratios.items()))


def report_replicas(measured: dict[str, dict[str, Measured]]) -> dict[str, float]:
    """Print the table of replicas; return its ratios."""
    for name in ("list", "detail", "download"):
        for who, found in measured.items():
            if name in found:
                rate, slowest, cores = found[name]
                used = ", ".join(f"{each} {seconds:.2f}" for each, seconds in cores.items())
                print(f"{name:>10} {who:>12} {rate:8.0f}/s  p99 {slowest:6.1f} ms  cores: {used}")
    one, two, three, bare = (found["list"].rate for found in measured.values())
    return {
        "two_replicas_over_one": two / one,
        "three_replicas_over_one": three / one,
        "list_over_psycopg": one / bare,
    }


def report_lists(kind: str, few: Answers, many: Answers, *, is_each: bool) -> dict[str, float]:
    """Print the slowest lists and filters, or all of them; return the ratios."""
    times = many.times
    is_list = {path: set(path.partition("?")[2].replace("&", "=").split("=")[::2]) <= PLAIN for path in times}
    slowest = sorted(times, key=lambda path: -times[path].processor)
    for path in slowest if is_each else slowest[:5]:
        print(f"{times[path].p99:10.1f} ms {times[path].processor:8.1f} ms of processor  {path}")
    late = [path for path in times if times[path].p99 > LATEST]
    print(f"{kind}: {len(times)} lists and filters; {len(late)} with a p99 above {LATEST} ms")
    return {
        f"{kind}_list_p99_ms": max(times[path].p99 for path in times if is_list[path]),
        f"{kind}_filter_p99_ms": max(times[path].p99 for path in times if not is_list[path]),
        f"{kind}_processor_ms": max(each.processor for each in times.values()),
        f"{kind}_memory_growth": many.peak / few.peak,
    }


if __name__ == "__main__":
    main()
