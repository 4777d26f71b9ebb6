"""Threads of their own for uploads, downloads and health, so that none of them waits for another, and lists for none.

Lists and all other short work have the threads of anyio; conversions have their own (`app.service.conversion`), and so
has receiving.
"""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from starlette.requests import HTTPConnection
from starlette.types import Scope

from app.service.conversion import Busy
from app.settings import Limits

T = TypeVar("T")

TRANSFER_THREADS = 16
"""Threads that write uploads, and as many that read downloads, whatever their number."""
HEALTH_THREADS = 2
BATCH = 256 << 10
"""Bytes of an upload that are collected for a thread. Each open connection can hold two such batches."""


class Pools:
    """The threads, and the numbers of transfers, which take a thread only while a file or the store is at work.

    Threads end with their pool: requests that are cut when the server stops need them to remove what they have written.
    """

    def __init__(self, limits: Limits) -> None:
        self.uploads = ThreadPoolExecutor(TRANSFER_THREADS, "upload")
        self.downloads = ThreadPoolExecutor(TRANSFER_THREADS, "download")
        self.health = ThreadPoolExecutor(HEALTH_THREADS, "health")
        self._limits = {"uploads": limits.uploads, "downloads": limits.downloads}
        self._running = dict.fromkeys(self._limits, 0)

    @contextmanager
    def uploading(self) -> Iterator[None]:
        """Count an upload for the length of the block. Raises Busy."""
        with self._counted("uploads"):
            yield

    @contextmanager
    def downloading(self) -> Iterator[None]:
        """Count a download for the length of the block. Raises Busy."""
        with self._counted("downloads"):
            yield

    @contextmanager
    def _counted(self, what: str) -> Iterator[None]:
        if self._running[what] >= self._limits[what]:
            raise Busy(f"{self._limits[what]} {what} are running; try again later")
        self._running[what] += 1
        try:
            yield
        finally:
            self._running[what] -= 1


def pools_in(scope: Scope) -> Pools:
    """Return the pools of the application that a scope belongs to."""
    pools: Pools = scope["app"].state.pools
    return pools


def pools_of(connection: HTTPConnection) -> Pools:
    """Return the pools of the application that got a request."""
    return pools_in(connection.scope)


async def run_in(threads: ThreadPoolExecutor, blocking: Callable[[], T]) -> T:
    """Return what a function returns that is called in one of these threads."""
    return await asyncio.get_running_loop().run_in_executor(threads, blocking)
