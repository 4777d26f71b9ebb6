"""The real storage adapters in a folder of the test's own."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event
from time import time_ns
from typing import Any

import pytest

from adapters.arrow_journal import ArrowJournal
from adapters.object_store import ObjectStore
from adapters.sql_catalog import SqlCatalog
from app.metrics import Metrics
from app.model.message import PhysicalMessage
from app.ports import Intake
from app.service.belonging import assembled
from app.service.context import ServiceContext
from app.service.retention import receiving_time
from app.service.retention.receiving_time import ReceivingTime
from app.settings import Settings
from tests.support.migrated import migrated


class ManualClock:
    """A clock that starts at the real time, which brokers use, and moves only when it is told to."""

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


class Connected:
    """A receiver with a status only."""

    def __init__(self) -> None:
        self.connected, self.since = True, 1

    def resume(self, newest: Iterator[PhysicalMessage]) -> bool:
        """Prove nothing."""
        del newest
        return False

    def run(self, intake: Intake, stop: Event) -> None:
        """Receive nothing."""

    def status(self) -> dict[str, Any]:
        return {"connected": self.connected, "since": self.since, "error": None}


def receive_for(times: ReceivingTime, clock: ManualClock, days: float) -> None:
    """Let time pass in which sources can receive; the gateway looks at its clock every hour."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(receiving_time, "LONGEST_STEP", 3600.0)
        for _ in range(int(days * 24)):
            clock.advance(3600.0)
            times.step()


@contextmanager
def service_context(
    folder: Path, clock: ManualClock | None = None, *, segment_bytes: int = 1 << 20, **settings: Any
) -> Iterator[ServiceContext]:
    """Return a ServiceContext on real adapters; `settings` are tables of the configuration."""
    clock = clock or ManualClock()
    catalog = SqlCatalog(migrated(folder / "catalog.sqlite"))
    journal = ArrowJournal(
        folder / "journal",
        segment_bytes=segment_bytes,
        segment_age=3600.0,
        clock=clock,
        durable=partial(assembled, catalog),
    )
    store = ObjectStore(folder / "content")
    try:
        yield ServiceContext(
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
