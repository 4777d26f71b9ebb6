"""The real storing adapters in a folder of the test's own."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import time_ns
from typing import Any

from adapters.arrow_journal import ArrowJournal
from adapters.object_store import ObjectStore
from adapters.sql_catalog import SqlCatalog
from app.observe import Metrics
from app.service.surroundings import Surroundings
from app.settings import Settings


class ManualClock:
    """A clock that starts at the real time, since brokers go by that, and stands still until it is told."""

    def __init__(self) -> None:
        self.time = time_ns() // 1000

    def now(self) -> int:
        return self.time

    def advance(self, seconds: float) -> None:
        self.time += int(seconds * 1e6)


@contextmanager
def surroundings(folder: Path, clock: ManualClock | None = None, **settings: Any) -> Iterator[Surroundings]:
    """Surroundings on real adapters; `settings` are tables of the configuration."""
    clock = clock or ManualClock()
    journal = ArrowJournal(folder / "journal", segment_bytes=1 << 20, segment_age=3600.0, clock=clock)
    catalog = SqlCatalog(f"sqlite:///{folder / 'catalog.sqlite'}")
    store = ObjectStore(folder / "content")
    try:
        yield Surroundings(
            settings=Settings(data=folder, **settings),
            journal=journal,
            catalog=catalog,
            store=store,
            clock=clock,
            metrics=Metrics(),
        )
    finally:
        journal.close()
        catalog.close()
