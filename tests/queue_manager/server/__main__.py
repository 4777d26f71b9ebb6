"""`python -m tests.queue_manager.server FOLDER PORT SETTINGS`: runs a queue manager until SIGTERM, or the end of its
standard input, so that it does not outlive who started it.

FOLDER keeps what survives; SETTINGS is a JSON object of `manager.Settings`. Says "ready" when it accepts connections.
"""

import asyncio
import gc
import json
import signal
import sys
from pathlib import Path

from tests.queue_manager.server.commands import CommandServer
from tests.queue_manager.server.connection import Connection
from tests.queue_manager.server.manager import QueueManager, Settings

_ALLOCATIONS_BETWEEN_COLLECTIONS = 100_000


async def run(folder: Path, port: int, settings: Settings) -> None:
    manager = QueueManager(settings, folder)
    CommandServer(manager)
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_reader(sys.stdin, stop.set)
    # What there is most of are messages, and there are no cycles among them: collecting seldom finds anything.
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS)
    server = await loop.create_server(lambda: Connection(manager).frames, "127.0.0.1", port)
    async with server:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await stop.wait()
        server.close()
        manager.stop()


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), int(sys.argv[2]), Settings(**json.loads(sys.argv[3]))))
