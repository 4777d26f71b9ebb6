"""What receipts cost the intake: a gateway that makes them against one that makes none, with one Mosquitto.

    python -m bench.receipts
    python -m bench.receipts --files 20000 --rounds 5

large    8 MiB files in bodies of 32 KiB
small    files of 32,000 bytes, five messages each
tiny     files of 1,000 bytes, five messages each

Every round fills a persistent session of each with the same messages, as `bench.intake` does, and empties one after the
other, in alternating order. Figures are medians of the rounds: until all is acknowledged, until all is finished, and
the processor time until 20 seconds later, in which the receipts are made, too: what a gateway does besides, such as to
settle content, takes the same time with and without receipts.

Then the receipts of what the gateway without them has received are made in this process, which tells their processor
time alone: on a machine that others use, too, the rates of two runs differ by more than receipts cost.

`intake_with_receipts_over_without` is of the rate at which small files are finished, `small_alone` the processor time
of their receipts over that of receiving them.
"""

import argparse
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time, sleep
from typing import Final

from adapters.arrow_journal import ArrowJournal
from adapters.object_store import ObjectStore
from adapters.sql_catalog import SqlCatalog
from app.main import SystemClock
from app.metrics import Metrics
from app.service.context import ServiceContext
from app.service.receipts.receipt_appender import ReceiptAppender
from app.service.threads import collect_seldom
from app.settings import Settings
from app.testing.waiting import until
from bench.intake import PATIENCE, SMALL, TOPIC, Load, Spent, gateway, make_load
from tests.support.gateway import GatewayProcess
from tests.support.mosquitto import Mosquitto
from tests.support.publish import Version, publish
from tests.support.receipts import write_key
from tests.support.subscribe import subscribe

MADE_WITHIN: Final = 20.0
"""Seconds in which the last receipts are made, as a rule."""
VERSION: Final[Version] = "3.1.1"


def wait(count: int, process: GatewayProcess) -> None:
    """Wait as long as the last receipts take, also where none are made, and until so many are made."""
    sleep(MADE_WITHIN)
    until(lambda: process.samples().total("receipts_total") >= count, PATIENCE, pause=1.0)  # each question costs 10 ms


def appending(data: Path, key: Path) -> float:
    """Return the processor time in which all receipts are made of what a gateway without them has received."""
    settings = Settings.model_validate({"data": data, "receipts": {"key_file": str(key)}})
    assert settings.receipts is not None
    with closing(SqlCatalog(settings.catalog_url)) as catalog:
        context = ServiceContext(
            settings=settings,
            journal=ArrowJournal(settings.journal_folder),
            catalog=catalog,
            store=ObjectStore(data / "content"),
            clock=SystemClock(),
            metrics=Metrics(),
        )
        collect_seldom()  # as a gateway does
        began = process_time()
        appender = ReceiptAppender(context, settings.receipts)
        while appender.append():
            pass
        return process_time() - began


def measured(load: Load, key: Path, order: list[str], folder: Path) -> dict[str, Spent]:
    """Return what a gateway without and one with receipts spend on a load in one round."""
    ways = {"without": ("", 0), "with": (f'[receipts]\nkey_file = "{key}"\n', len(load.attachments))}
    found = {}
    for each in order:
        own = folder / each
        own.mkdir(parents=True)
        with Mosquitto(own) as broker:
            subscribe(broker.port, "gateway", TOPIC, VERSION)
            publish(load.messages, broker.port, TOPIC, VERSION)
            settings, receipts = ways[each]
            found[each] = gateway(broker, VERSION, load, own, settings, partial(wait, receipts))
    found["alone"] = Spent(0, 0, appending(folder / "without" / "var", key))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--total", type=int, default=512, help="MiB of large files per round (512)")
    parser.add_argument("--files", type=int, default=10_000, help="number of small and of tiny files (10,000)")
    parser.add_argument("--cases", nargs="+", choices=("large", *SMALL), default=("large", *SMALL))
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    loads = {"large": make_load(max(1, given.total // 8), 8 << 20, 4)}
    loads |= {name: make_load(given.files, size, 4, "files") for name, size in SMALL.items()}
    ratios: dict[str, float] = {}
    with TemporaryDirectory(prefix="bench-receipts-") as name:
        key = Path(name) / "key.pem"
        write_key(key, Path(name) / "pub.pem", 1)
        for case in given.cases:
            load = loads[case]
            order = ["without", "with"]
            found = [
                measured(load, key, order[:: -1 if number % 2 else 1], Path(name) / f"{case}-{number}")
                for number in range(given.rounds)
            ]
            spent = {each: Spent(*map(median, zip(*(one[each] for one in found), strict=True))) for each in found[0]}
            print(f"{case}: {len(load.attachments)} files, {len(load.messages)} messages, {load.size / 1e6:.0f} MB")
            for each, one in ((each, spent[each]) for each in order):
                print(
                    f"  {each:8} acknowledged {load.amount / one.acknowledged:.0f} {load.unit}/s  "
                    f"finished {load.amount / one.finished:.0f} {load.unit}/s  processor {one.processor:.2f} s",
                    flush=True,
                )
            alone, files = spent["alone"].processor, len(load.attachments)
            print(f"  the receipts alone: {alone / files * 1e6:.0f} us of processor each")
            ratios[f"{case}_alone"] = alone / spent["without"].processor
            ratios[f"{case}_finished"] = spent["without"].finished / spent["with"].finished
            ratios[f"{case}_processor"] = spent["with"].processor / spent["without"].processor
    if "small" in given.cases:
        ratios = {"intake_with_receipts_over_without": ratios["small_finished"], **ratios}
    print("ratios: " + " ".join(f"{name}={ratio:.3f}" for name, ratio in ratios.items()))


if __name__ == "__main__":
    main()
