"""Durable stores for physical messages, compared in one run: a raw append, the journal, SQLite.

Every store takes the same 32 KiB bodies in batches and flushes each batch to disk. Every round measures the stores in
another order, each after a sync. So other load on the machine, and unwritten data of the store before, do not affect
only one of them. Figures are medians of the rounds, ratios medians of each round's ratio.
"""

import argparse
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import count, cycle, islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, thread_time

from adapters.arrow_journal import ArrowJournal
from app.model.message import PhysicalMessage

BODY = 32 << 10
POOL = 64 << 20
Append = Callable[[Sequence[PhysicalMessage]], object]


@contextmanager
def raw(folder: Path) -> Iterator[Append]:
    """Append the bodies with one write and one flush per batch, as the upper limit of the disk."""
    descriptor = os.open(folder / "raw", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def append(messages: Sequence[PhysicalMessage]) -> None:
        wanted = sum(len(message.body) for message in messages)
        if os.writev(descriptor, [message.body for message in messages]) != wanted:
            raise OSError("short write")
        os.fdatasync(descriptor)

    try:
        yield append
    finally:
        os.close(descriptor)


@contextmanager
def journal(folder: Path) -> Iterator[Append]:
    with closing(ArrowJournal(folder / "journal")) as opened:
        yield opened.append


@contextmanager
def sqlite(folder: Path) -> Iterator[Append]:
    """Store each message as a row in SQLite, with one transaction per batch, as applications usually do."""
    with closing(sqlite3.connect(folder / "sqlite.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE message (id INTEGER PRIMARY KEY, source TEXT, correl_id BLOB, body BLOB)")

        def append(messages: Sequence[PhysicalMessage]) -> None:
            connection.execute("BEGIN")
            connection.executemany(
                "INSERT INTO message (source, correl_id, body) VALUES (?, ?, ?)",
                [(message.source, message.correl_id, message.body) for message in messages],
            )
            connection.execute("COMMIT")

        yield append


STORES = {"raw": raw, "journal": journal, "sqlite": sqlite}


def one_round(
    store: str, folder: Path, messages: Sequence[PhysicalMessage], batch: int, total: int
) -> tuple[float, float]:
    """Return MB/s, and this thread's processor time per message in µs, of writing `total` bytes in batches."""
    with TemporaryDirectory(dir=folder) as scratch, STORES[store](Path(scratch)) as append:
        append(messages[:batch])
        os.sync()
        starts = (at % len(messages) for at in count(0, batch))
        batches = total // (batch * BODY)
        began, worked = perf_counter(), thread_time()
        for _, start in zip(range(batches), starts, strict=False):
            append(messages[start : start + batch])
        seconds, work = perf_counter() - began, thread_time() - worked
        return batches * batch * BODY / 1e6 / seconds, work / (batches * batch) * 1e6


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--folder", type=Path, default=None, help="folder to write to (default: temporary)")
    arguments.add_argument("--batches", type=int, nargs="+", default=[32, 256], help="messages per batch; powers of 2")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--megabytes", type=int, default=256, help="MB written per round")
    chosen = arguments.parse_args()
    pool = os.urandom(POOL)
    messages = [
        PhysicalMessage("bench", "sas_queue", 8, os.urandom(24), pool[at : at + BODY]) for at in range(0, POOL, BODY)
    ]
    over: dict[str, list[float]] = {"raw": [], "sqlite": []}
    with TemporaryDirectory(dir=chosen.folder) as scratch:
        for batch in chosen.batches:
            results: dict[str, list[tuple[float, float]]] = {store: [] for store in STORES}
            for number in range(chosen.rounds):
                for store in islice(cycle(STORES), number % len(STORES), number % len(STORES) + len(STORES)):
                    results[store].append(one_round(store, Path(scratch), messages, batch, chosen.megabytes << 20))
                for store, ratios in over.items():
                    ratios.append(results["journal"][-1][0] / results[store][-1][0])
            for store, rounds in results.items():
                speed, work = (median(values) for values in zip(*rounds, strict=True))
                ratio = median(ours / theirs for (ours, _), (theirs, _) in zip(results["journal"], rounds, strict=True))
                print(
                    f"{store:8} batches of {batch:4}: {speed:6.0f} MB/s ({min(rounds)[0]:.0f}-{max(rounds)[0]:.0f}), "
                    f"{work:5.1f} us of processor a message, the journal is {ratio:.2f} times as fast"
                )
    print("ratios: " + " ".join(f"journal_over_{store}={median(ratios):.2f}" for store, ratios in over.items()))


if __name__ == "__main__":
    main()
