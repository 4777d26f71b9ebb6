"""`demo`: the whole way through a broker, on this machine only."""

import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.client import connect
from app.cli.console import Failure, out
from app.model.errors import GatewayError
from app.observe import configure_logging
from app.plugins import PluginError
from app.settings import Settings

TOPIC = "attachments/demo"
_PORTS = range(8080, 8100)


def demo(
    *,
    once: Annotated[bool, typer.Option("--once", help="End after the comparison.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder for journal, catalog and content (default: temporary, deleted at the end)."),
    ] = None,
) -> None:
    """Start a broker and a gateway, send a text, a picture and a data set through both, and compare the results."""
    # These imports take a second, which other commands should not wait for, and not every installation has the broker.
    try:
        from app.cli.demo import broker, scene  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        hint = "pip install 'attachment-gateway[embedded]'"
        raise Failure(f"the demo needs the library {missing.name!r}", hint) from missing

    configure_logging("warning", "console")
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.default_int_handler)  # otherwise the folder would be left after a SIGTERM
    with tempfile.TemporaryDirectory(prefix="attachment-gateway-") as folder, broker.EmbeddedBroker() as mqtt:
        settings = _settings(data or Path(folder) / "data", mqtt.url, broker.free_port(*_PORTS))
        url = f"http://{settings.http.host}:{settings.http.port}"
        out.print(f"MQTT broker   {mqtt.url} (in this process)", highlight=False)
        out.print(f"gateway       {url}", highlight=False)
        out.print(f"data          {settings.data}\n", highlight=False, soft_wrap=True)
        with _running(settings), connect(url) as client:
            scene.eventually("the gateway to be ready", lambda: _ready(client, url))
            results = scene.play(client, Path(folder), out)
            out.print()
            scene.report(results, out)
            out.print()
            for what, path in (
                ("REST, described", "/docs"),
                ("attachments", "/v1/attachments"),
                ("metrics", "/metrics"),
            ):
                out.print(f"{what:16} {url}{path}", highlight=False)
            if not once:
                out.print(f"\nIn another terminal: {sys.argv[0]} ls --url {url}     Ctrl-C ends this.", highlight=False)
                _until_interrupted()


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
def _running(settings: Settings) -> Iterator[None]:
    """Run the gateway and its REST interface, in threads, for the block."""
    import uvicorn  # noqa: PLC0415

    from app.main import build  # noqa: PLC0415
    from app.web.api import create_app  # noqa: PLC0415
    from app.web.protocol import configuration  # noqa: PLC0415

    try:
        gateway = build(settings)
    except (PluginError, GatewayError) as error:
        raise Failure(str(error)) from error
    gateway.start()
    config = configuration(create_app(gateway), settings.http, timeout_graceful_shutdown=2)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, name="http", daemon=True)
    thread.start()
    try:
        yield
    finally:
        gateway.drain()
        server.should_exit = True
        thread.join(10)
        gateway.stop()


def _ready(client: Any, url: str) -> bool | None:
    try:
        return bool(client.request("GET", f"{url}/health/ready").is_success) or None
    except Failure:
        return None


def _until_interrupted() -> None:
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        out.print("\nending")
