"""An MQTT broker inside this process, for the demo only: it stores nothing on disk, and supports only MQTT 3.1.1."""

import asyncio
import logging
import socket
from contextlib import AbstractContextManager
from threading import Thread
from types import TracebackType

from amqtt.broker import Broker
from amqtt.errors import AMQTTError

from app.cli.terminal import Failure

_START_SECONDS = 10


class EmbeddedBroker(AbstractContextManager["EmbeddedBroker"]):
    """A broker that runs for the block, in a thread and an event loop of its own; `url` is its address."""

    def __init__(self) -> None:
        self.url = f"mqtt://127.0.0.1:{free_port()}"
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


def free_port() -> int:
    """Return a free TCP port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        found: int = probe.getsockname()[1]
        return found
