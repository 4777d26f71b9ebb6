"""The stages of a gateway in a folder of a test's own, with the clock of the test."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import time_ns
from typing import Any

from app import plugins
from app.metrics import Metrics
from app.service.context import ReceiverContext
from app.service.receiving.catalog_claim import assembled
from app.settings import Settings


class ManualClock:
    """A clock that starts at the real time, which brokers use, and moves only when the test advances it."""

    def __init__(self) -> None:
        self.time = time_ns() // 1000
        self.passed = 0.0

    def now(self) -> int:
        return self.time

    def monotonic(self) -> float:
        return self.passed

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.passed += seconds
        self.leap(seconds)

    def leap(self, seconds: float) -> None:
        """Set the clock forward or back."""
        self.time += int(seconds * 1e6)


@contextmanager
def service_context(
    folder: Path, clock: ManualClock | None = None, *, segment_bytes: int = 1 << 20, **settings: Any
) -> Iterator[ReceiverContext]:
    """Return a ReceiverContext on real adapters; `settings` are tables of the configuration."""
    clock = clock or ManualClock()
    catalog = plugins.catalog()(migrated(folder / "catalog.sqlite"))
    journal = plugins.journal()(
        folder / "journal",
        segment_bytes=segment_bytes,
        segment_age=3600.0,
        clock=clock,
        durable=partial(assembled, catalog),
    )
    store = plugins.content_store()(folder / "content")
    try:
        yield ReceiverContext(
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


def migrated(path: Path) -> str:
    """Return the URL of a catalog in a file, which is made, as empty as the migrations leave it, if it is missing."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_empty())
    return _url(path)


@cache
def _empty() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "catalog.sqlite"
        plugins.catalog()(_url(path)).close()
        return path.read_bytes()


def _url(path: Path) -> str:
    return f"sqlite:///{path}"
