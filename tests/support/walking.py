"""Lists of a catalog, read page by page while rows come and go.

    python -m tests.support.walking sqlite:////tmp/catalog.db --rows 1000000

Each row that is there from the beginning to the end must be on exactly one page of a list, and no row on two of them.
Many rows have the same time, size or name; new rows come anywhere in the order. The command inserts and deletes so many
attachments in an empty catalog.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from random import Random
from threading import Event, Thread
from time import perf_counter
from typing import Any, get_args

from adapters.sql_catalog import SqlCatalog
from app.model.attachment import AttachmentKind, DeliveryState
from app.model.records import Checkpoint
from app.model.uploads import UploadLimits, UploadRecord
from app.ports import AttachmentFilter, Catalog, Page, Sort
from tests.contracts.catalog.records import State, attachment, deleted, delivery, finished, message, pages, spoilt

LATEST = 1 << 40
"""When all lasting rows got their last message: those that come and go are older."""
SOURCES = ("quay", "crane", "dock")
LIMITS = UploadLimits(1 << 30, 1 << 30, 1 << 60)
Listing = Callable[[str | None], Page[Any]]


class Walked:
    """A catalog with `lasting` attachments, and a third as many of each other kind of row."""

    def __init__(self, catalog: Catalog, lasting: int) -> None:
        self._catalog, self._lasting = catalog, lasting
        self.came = 0
        """The number of attachments that have come and gone."""
        random = Random(33)
        attachments = [self._attachment(random, f"a{number}", number, State.COMPLETE) for number in range(lasting)]
        others = range(lasting // 3)
        catalog.checkpoint(
            Checkpoint(
                attachments=attachments,
                messages=[message(n, source=_source(n), received_at=self._time(random)) for n in others],
                quarantine=[spoilt(n, source=_source(n), received_at=self._time(random)) for n in others],
            )
        )
        sizes = [replace(finished(n), size=random.randrange(lasting // 4)) for n in range(0, lasting, 2)]
        for start in range(0, len(sizes), 500):
            catalog.finish(sizes[start : start + 500], [])
        for n in range(lasting // 30):
            at = self._time(random)
            catalog.add_delivery(delivery(n, destination=_source(n), created_at=at, state=DeliveryState.FAILED), [])
            catalog.add_upload(UploadRecord(f"u{n}", "key:a", created_at=at, expires_at=LATEST), LIMITS)
        self.lasting: Mapping[str, set[str]] = {name: seen(each) for name, each in self.listings(500).items()}

    def _time(self, random: Random) -> int:
        return random.randrange(self._lasting // 3)

    def _attachment(self, random: Random, identifier: str, number: int, state: State) -> Any:
        return attachment(
            number,
            state,
            id=identifier,
            source=_source(number),
            kind=random.choice(list(AttachmentKind)),
            qualifier_2=f"{random.choice('abc')}{random.randrange(self._lasting // 4)}",
            first_received_at=self._time(random),
            last_received_at=LATEST if state is State.COMPLETE else number,
        )

    def listings(self, limit: int) -> dict[str, Listing]:
        """Return the lists, some with filters, by name."""
        catalog, half = self._catalog, self._lasting // 6
        which: list[tuple[Sort, AttachmentFilter]] = [
            *((sort, AttachmentFilter()) for sort in get_args(Sort)),
            ("-received", AttachmentFilter(state=State.FINISHED, announced=True)),
            ("-received", AttachmentFilter(name="a7")),
            ("received", AttachmentFilter(source="quay", kind=AttachmentKind.TEXT_FILE)),
            ("-received", AttachmentFilter(within={"quay", "dock"}, name="b")),
            ("-received", AttachmentFilter(min_size=1, max_size=self._lasting // 8)),
            ("-size", AttachmentFilter(state=State.FINISHED, source="dock")),
            ("size", AttachmentFilter(min_size=1, name="c")),
            ("name", AttachmentFilter(received_after=half // 2, received_before=half, state=State.COMPLETE)),
        ]
        found: dict[str, Listing] = {
            f"{each}, {sort}": partial(catalog.attachments, each, limit=limit, sort=sort) for sort, each in which
        }
        return found | {
            "messages": lambda cursor: catalog.messages(None, cursor, limit, {"quay", "dock"}),
            "messages of one": lambda cursor: catalog.messages("quay", cursor, limit),
            "quarantine": lambda cursor: catalog.quarantined(None, "kept", cursor, limit, None, "cut"),
            "deliveries": lambda cursor: catalog.deliveries(
                DeliveryState.FAILED, None, cursor, limit, {"quay", "dock"}
            ),
            "uploads": lambda cursor: catalog.uploads("key:a", 0, cursor, limit),
        }

    def _failed(self, cursor: str | None, limit: int) -> Page[Any]:
        return self._catalog.deliveries(DeliveryState.FAILED, None, cursor, limit, {"quay", "dock"})

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Let rows come and go while the block runs. An error of the thread that does it is raised at the end."""
        stop, failed = Event(), list[BaseException]()

        def run() -> None:
            random = Random(34)
            try:
                while not stop.is_set():
                    self._change(random)
            except BaseException as error:  # noqa: BLE001 - raised below
                failed.append(error)

        thread = Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
        if failed:
            raise failed[0]

    def _change(self, random: Random) -> None:
        """Insert rows, and delete those of the time before."""
        catalog, first = self._catalog, self.came
        numbers = range(first, first + 300)
        others = [self._lasting + number for number in numbers[:20]]
        catalog.checkpoint(
            Checkpoint(
                attachments=[
                    self._attachment(random, f"b{number}", self._lasting + number, State.EXPIRED) for number in numbers
                ],
                messages=[message(n, source=_source(n), received_at=self._time(random)) for n in others],
                quarantine=[spoilt(n, source=_source(n), received_at=self._time(random)) for n in others],
            )
        )
        n, at = others[0], self._time(random)
        catalog.add_delivery(delivery(n, destination="quay", created_at=at, state=DeliveryState.FAILED), [])
        catalog.add_upload(UploadRecord(f"u{n}", "key:a", created_at=at, expires_at=LATEST), LIMITS)
        if first:
            catalog.drop_attachments([State.EXPIRED], self._lasting + first, len(numbers), deleted)
            gone = [number - len(numbers) for number in others]
            catalog.drop_quarantine([f"q{number}" for number in gone])
            for number in gone[:5]:
                catalog.drop_message(f"m{number}", [])
            catalog.drop_deliveries([f"d{gone[0]}"])
            catalog.drop_upload(f"u{gone[0]}")
        self.came += len(numbers)

    def faults(self, name: str, limit: int) -> list[str]:
        """Read a list to its end; return what is wrong with it."""
        counted = Counter(item.id for items in pages(self.listings(limit)[name]) for item in items)
        twice = [each for each, times in counted.items() if times > 1]
        missed = self.lasting[name] - counted.keys()
        return [f"{name}: {len(twice)} rows came twice, {len(missed)} never"] if twice or missed else []


def seen(listing: Listing) -> set[str]:
    return {item.id for items in pages(listing) for item in items}


def _source(number: int) -> str:
    return SOURCES[number % len(SOURCES)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="the URL of an empty catalog")
    parser.add_argument("--rows", type=int, default=1_000_000, help="attachments that come and go (1,000,000)")
    given = parser.parse_args()
    catalog = SqlCatalog(given.url)
    walked, began, lists, random = Walked(catalog, 20_000), perf_counter(), 0, Random(35)
    faults: list[str] = []
    with walked.changing():
        while walked.came < given.rows:
            for name in walked.lasting:
                faults += walked.faults(name, random.choice((50, 500)))
                lists += 1
    catalog.close()
    seconds = perf_counter() - began
    sys.stdout.write("".join(f"{fault}\n" for fault in faults))
    sys.stdout.write(f"{walked.came:,} came and went in {seconds:.0f} s; {lists} lists read; {len(faults)} wrong\n")


if __name__ == "__main__":
    main()
