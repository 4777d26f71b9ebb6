"""`demo`: the whole way through a broker, on this machine only."""

import asyncio
import logging
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from shutil import disk_usage
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING, Annotated

import typer
from amqtt.broker import Broker
from amqtt.errors import AMQTTError

from app.cli import demo_steps, interrupt
from app.cli.rest_client import Client
from app.cli.terminal import Failure, out, size
from app.model.errors import GatewayError
from app.observe import configure_logging
from app.settings import Http, Settings

if TYPE_CHECKING:
    from app.service.gateway import Gateway

TOPIC = "attachments/demo"
_PORTS = (*range(8080, 8100), 0)
"""Ports to try, in this order; the last is any free one."""

_START_SECONDS = 10

_NEEDED = 64 << 20
"""Bytes that the demo writes at most, in addition to `limits.free_bytes`."""


def demo(
    *,
    once: Annotated[bool, typer.Option("--once", help="End after the comparison.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder for journal, catalog and content (default: temporary, deleted at the end)."),
    ] = None,
) -> None:
    """Start a broker and a gateway, send a text, a picture and a data set through both, and compare the results.

    Nothing of the gateway's configuration is used: neither its file nor ATTACHMENT_GATEWAY_… of the environment.
    """
    configure_logging("warning", "console")
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, interrupt)  # otherwise the folder would be left after a SIGTERM
    with _folder() as folder, EmbeddedBroker() as mqtt, closing(_listener()) as listener:
        host, port = listener.getsockname()
        settings = _settings(data or folder / "data", mqtt.url, port)
        for place in (folder, settings.data):
            _require_space(place, settings.limits.free_bytes + _NEEDED)
        url = f"http://{host}:{port}"
        out.print(f"MQTT broker   {mqtt.url} (in this process)", highlight=False)
        out.print(f"gateway       {url}", highlight=False)
        out.print(f"data          {settings.data}\n", highlight=False, soft_wrap=True)
        with _running(settings, listener) as gateway, Client(url) as client:
            stage = demo_steps.DemoContext(client, gateway, folder, out)
            results = demo_steps.run_steps(stage)
            out.print()
            demo_steps.report(results, out)
            out.print()
            for what, path in (
                ("console", "/console/"),
                ("REST, described", "/docs"),
                ("attachments", "/v1/attachments"),
                ("metrics", "/metrics"),
            ):
                out.print(f"{what:16} {url}{path}", highlight=False)
            if not once:
                out.print(f"\nIn another terminal: {sys.argv[0]} ls --url {url}     Ctrl-C ends this.", highlight=False)
                with suppress(KeyboardInterrupt):
                    while True:
                        time.sleep(3600)
                out.print("\nending")


@contextmanager
def _folder() -> Iterator[Path]:
    """Provide a temporary folder for the block. Errors of the disk become a Failure."""
    hint = "free some space, or set TMPDIR to a folder on another disk"
    try:
        with tempfile.TemporaryDirectory(prefix="attachment-gateway-") as folder:
            yield Path(folder)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise Failure(f"the demo cannot write its files: {error.strerror or error}{where}", hint) from error


def _require_space(folder: Path, needed: int) -> None:
    """Raise Failure where the gateway would pause at once, since the disk is nearly full."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    free = disk_usage(there).free
    if free < needed:
        hint = "free some space, or set TMPDIR or --data to a folder on another disk"
        raise Failure(f"{there} has {size(free)} free; the demo needs {size(needed)}", hint)


def _listener() -> socket.socket:
    """Return a socket that listens on the first free port. Raises Failure."""
    from app.main import bound  # noqa: PLC0415

    refusals = []
    for port in _PORTS:
        try:
            listener = bound(Http(port=port))
            listener.listen()
        except (GatewayError, OSError) as error:
            refusals.append(str(error))
        else:
            return listener
    raise Failure(f"the demo found no free port: {refusals[-1]}")


def _settings(data: Path, broker: str, port: int) -> Settings:
    endpoint = {"transport": "mqtt", "url": broker, "version": "3.1.1", "topic": TOPIC}
    return Settings.model_validate(
        {
            "data": data,
            "http": {"port": port},
            "log": {"level": "warning"},
            "sources": {"demo": endpoint},
            "destinations": {"demo": endpoint},
        }
    )


@contextmanager
def _running(settings: Settings, listener: socket.socket) -> Iterator["Gateway"]:
    """Run the gateway and its REST interface, in threads, for the block."""
    import uvicorn  # noqa: PLC0415

    from app.main import build  # noqa: PLC0415
    from app.web.app import create_app  # noqa: PLC0415
    from app.web.server.uvicorn_configuration import configuration  # noqa: PLC0415

    try:
        gateway = build(settings)
    except GatewayError as error:
        raise Failure(str(error)) from error
    gateway.start()
    config = configuration(create_app(gateway), settings.http, timeout_graceful_shutdown=2)
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, args=([listener],), name="http", daemon=True)
    thread.start()
    try:
        yield gateway
    finally:
        gateway.drain()
        server.should_exit = True
        thread.join(10)
        gateway.stop()


class EmbeddedBroker(AbstractContextManager["EmbeddedBroker"]):
    """An MQTT broker that runs for the block, in a thread and an event loop of its own; `url` is its address.

    It stores nothing on disk, and supports only MQTT 3.1.1.
    """

    def __init__(self) -> None:
        with socket.socket() as probe:  # any free port
            probe.bind(("127.0.0.1", 0))
            self.url = f"mqtt://127.0.0.1:{probe.getsockname()[1]}"
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="broker", daemon=True)
        self._broker: Broker | None = None

    def __enter__(self) -> "EmbeddedBroker":
        for name in ("amqtt", "transitions"):
            logging.getLogger(name).setLevel(logging.ERROR)

        async def start() -> None:
            self._broker = Broker(
                {
                    "listeners": {"default": {"type": "tcp", "bind": self.url.removeprefix("mqtt://")}},
                    "plugins": {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}},
                }
            )
            await self._broker.start()

        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(start(), self._loop).result(_START_SECONDS)
        except (OSError, TimeoutError, AMQTTError) as error:
            self._end_loop()
            raise Failure(f"the demo's broker cannot listen at {self.url}: {error}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        async def shutdown() -> None:
            if self._broker is not None:
                await self._broker.shutdown()
            left = asyncio.all_tasks() - {asyncio.current_task()}
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(shutdown(), self._loop).result(_START_SECONDS)
        self._end_loop()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_START_SECONDS)
        self._loop.close()
