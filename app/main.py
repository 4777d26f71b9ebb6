"""The composition root: settings -> adapters -> service -> web."""

import gc
from time import time_ns
from types import FrameType

import uvicorn

from app import plugins
from app.observe import Metrics
from app.ports import Clock
from app.service.gateway import Gateway
from app.service.surroundings import Surroundings
from app.settings import Settings
from app.web.api import create_app

GRACE_SECONDS = 10
GC_THRESHOLDS = (50_000, 20, 50)
"""Messages make many short-lived objects and no cycles: collecting seldom is worth a tenth of the processor."""


class SystemClock:
    """The machine's clock, as `app.ports.Clock`."""

    def now(self) -> int:
        return time_ns() // 1000


def build(settings: Settings) -> Gateway:
    """A gateway with the adapters that the settings name; nothing runs yet. Raises OurError and PluginError."""
    settings.data.mkdir(parents=True, exist_ok=True)
    clock: Clock = SystemClock()
    journal = plugins.load("journal", "arrow")(
        settings.journal_folder,
        segment_bytes=settings.journal.segment_bytes,
        segment_age=settings.journal.segment_age.total_seconds(),
        clock=clock,
    )
    receivers = {
        name: plugins.transport(source.transport).receiver(name, source.framing, source.options)
        for name, source in settings.sources.items()
    }
    senders = {
        name: plugins.transport(destination.transport).sender(name, destination.options)
        for name, destination in settings.destinations.items()
    }
    catalog = plugins.load("catalog", "sql")(settings.catalog_url)
    store = plugins.load("content store", "object_store")(settings.content_url)
    return Gateway(Surroundings(settings, journal, catalog, store, clock, Metrics()), receivers, senders)


def serve(settings: Settings) -> None:
    """Runs the gateway and its REST interface until a signal ends it."""
    gateway = build(settings)
    # What is there now stays for good: the collector need not look through it again and again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    gateway.start()
    try:
        _Server(gateway).run()
    finally:
        gateway.stop()


class _Server(uvicorn.Server):
    """uvicorn, which tells the gateway of the end before it waits for its clients."""

    def __init__(self, gateway: Gateway) -> None:
        http = gateway.settings.http
        app = create_app(gateway)
        super().__init__(
            uvicorn.Config(
                app, http.host, http.port, log_config=None, access_log=False, timeout_graceful_shutdown=GRACE_SECONDS
            )
        )
        self._gateway = gateway

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._gateway.drain()
        super().handle_exit(sig, frame)
