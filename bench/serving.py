"""Replicas of `serve --role serve` over one catalog in PostgreSQL: requests a second, and the time of an answer.

    python -m bench.serving
    python -m bench.serving --rows 1000000 --each

list      the newest 50 attachments, by 1, 2 and 3 replicas
detail    one attachment, drawn at random
download  the content of one, 4 KiB in a folder that all replicas share
psycopg   the statement of `list` by psycopg alone, on as many connections of one process: what a replica would do if it
          only read rows
lists     every list of REST on one replica and one connection: the first, a middle and the last page, in every order
filters   every filter: such that match many rows, few, one and none, several at once, and the number of all (`count`)

Each request goes to the next replica. The client, the replicas and PostgreSQL share the machine: with two cores,
several replicas cannot be much faster than one. `--each` prints the times of every list and filter. The catalog is that
of tests/support/large_catalog.py: a million attachments take about three minutes to write.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Barrier, Thread
from time import perf_counter
from typing import NamedTuple
from urllib.parse import quote

import psycopg

from adapters.sql_catalog import SqlCatalog
from adapters.sql_catalog.listing_pages import encode_cursor, encode_sorted
from app.model.times import to_time
from tests.support.gateway import GatewayProcess
from tests.support.large_catalog import APART, BEGAN, HOOK, RARE_NAME, RARE_SOURCE, fill, identifier
from tests.support.postgresql import binaries, running_postgresql

CLIENTS = 8
STORED = 500
"""The number of attachments whose content is there."""
CONTENT = bytes(4096)
PLAIN = {"", "cursor", "sort"}
"""The parameters of a list without a filter."""
LAST = "~"
"""A text behind all identifiers."""
SETTINGS = """[catalog]
url = "{database}"
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
    """Requests a second, and the milliseconds within which 99 of 100 were answered."""

    rate: float
    p99: float


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


def load(act: Callable[[int], Callable[[], object]], seconds: float) -> Measured:
    """Measure what `CLIENTS` threads do at once. `act` returns what one of them does again and again."""
    taken: list[list[float]] = [[] for _ in range(CLIENTS)]
    begin = Barrier(CLIENTS)

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
    for each in threads:
        each.join()
    every = [second for own in taken for second in own]
    return Measured(len(every) / seconds, p99(every))


@contextmanager
def running(folder: Path, database: str, count: int) -> Iterator[list[int]]:
    """Run replicas; yield their ports."""
    settings = SETTINGS.format(database=database, shared=(folder / "shared").as_uri())
    with ExitStack() as stack:
        ports = []
        for number in range(count):
            own = folder / f"replica-{number}"
            own.mkdir(exist_ok=True)
            gateway = stack.enter_context(GatewayProcess(own, settings, first='roles = ["serve"]\n'))
            ports.append(gateway.port)
        yield ports


def store(folder: Path, database: str, rows: int) -> list[str]:
    """Give the newest finished attachments a content; return their identifiers."""
    newest = [identifier("a", number) for number in range(max(0, rows - STORED), rows)]
    content = folder / "shared" / "content"
    with psycopg.connect(database) as connection:
        found = connection.execute(
            "UPDATE attachments SET size = %s, sha256 = %s, checksums = NULL WHERE id = ANY(%s) AND state = 'finished' "
            "RETURNING id, object_name",
            [len(CONTENT), sha256(CONTENT).hexdigest(), newest],
        ).fetchall()
    for _, name in found:
        (content / name).parent.mkdir(parents=True, exist_ok=True)
        (content / name).write_bytes(CONTENT)
    return [str(each) for each, _ in found]


def replicas(folder: Path, url: str, database: str, given: argparse.Namespace) -> dict[str, dict[str, Measured]]:
    """Return what 1, 2 and 3 replicas do, and psycopg."""
    stored = store(folder, database, given.rows)
    paths: dict[str, Callable[[Random], str]] = {
        "list": lambda _random: "/v1/attachments",
        "detail": lambda random: f"/v1/attachments/{identifier('a', random.randrange(given.rows))}",
        "download": lambda random: f"/v1/attachments/{random.choice(stored)}/content",
    }
    found: dict[str, dict[str, Measured]] = {}
    for count in (1, 2, 3):
        with running(folder, url, count) as ports, ExitStack() as ending:

            def asking(path: Callable[[Random], str], number: int) -> Callable[[], object]:
                client, random = Client(ports, number), Random(number)
                ending.callback(client.close)
                return lambda: client.get(path(random))

            rounds = {name: load(partial(asking, path), given.seconds) for name, path in paths.items()}
        found[f"{count} replica{'s' * (count > 1)}"] = rounds
    with ExitStack() as ending:

        def reading(_number: int) -> Callable[[], object]:
            connection = ending.enter_context(psycopg.connect(database, autocommit=True))
            return lambda: connection.execute(PAGE).fetchall()

        found["psycopg"] = {"list": load(reading, given.seconds)}
    return found


def answers(folder: Path, url: str, given: argparse.Namespace) -> dict[str, float]:
    """Return the p99 of each request, in milliseconds."""
    found = {}
    with running(folder, url, 1) as ports:
        client = Client(ports, 0)
        for path in (path for paths in requests(given.rows).values() for path in paths):
            client.get(path)
            seconds = []
            for _ in range(given.times):
                started = perf_counter()
                client.get(path)
                seconds.append(perf_counter() - started)
            found[path] = p99(seconds)
        client.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000, help="number of attachments (100,000)")
    parser.add_argument("--seconds", type=float, default=4.0, help="seconds of each load (4)")
    parser.add_argument("--times", type=int, default=100, help="how often each list and filter is asked for (100)")
    parser.add_argument("--each", action="store_true", help="print the time of each list and filter")
    given = parser.parse_args()
    programs = binaries()
    assert programs is not None, "PostgreSQL's programs (initdb, postgres) are not installed"
    with TemporaryDirectory(prefix="bench-serving-") as name, running_postgresql(programs) as socket:
        folder = Path(name)
        (folder / "shared" / "archive").mkdir(parents=True)
        url, database = f"postgresql+psycopg://postgres@/postgres?host={socket}", f"host={socket} user=postgres"
        SqlCatalog(url).close()
        began = perf_counter()
        fill(url, given.rows)
        print(f"{given.rows:,} attachments were written in {perf_counter() - began:.0f} s")
        measured = replicas(folder, url, database, given)
        times = answers(folder, url, given)
    report(measured, times, is_each=given.each)


def report(measured: dict[str, dict[str, Measured]], times: dict[str, float], *, is_each: bool) -> None:
    """Print the tables and the line of ratios."""
    names = ("list", "detail", "download")
    print(f"{'':>12}" + "".join(f" {name + '/s':>11} {'p99 ms':>7}" for name in names))
    for who, found in measured.items():
        cells = (f" {found[name].rate:11.0f} {found[name].p99:7.1f}" if name in found else "" for name in names)
        print(f"{who:>12}" + "".join(cells))
    is_list = {path: set(path.partition("?")[2].replace("&", "=").split("=")[::2]) <= PLAIN for path in times}
    slowest = sorted(times, key=lambda path: -times[path])
    for path in slowest if is_each else slowest[:5]:
        print(f"{times[path]:12.1f} ms  {path}")
    lists = max(times[path] for path in times if is_list[path])
    filters = max(times[path] for path in times if not is_list[path])
    print(f"{len(times)} lists and filters; {sum(each > 50 for each in times.values())} with a p99 above 50 ms")
    one, two, three, bare = measured.values()
    print(
        f"ratios: two_replicas_over_one={two['list'].rate / one['list'].rate:.2f} "
        f"three_replicas_over_one={three['list'].rate / one['list'].rate:.2f} "
        f"list_over_psycopg={one['list'].rate / bare['list'].rate:.2f} "
        f"list_p99_ms={lists:.1f} filter_p99_ms={filters:.1f}"
    )


if __name__ == "__main__":
    main()
