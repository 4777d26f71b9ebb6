"""Appending of a request's body to an upload, and the digests of the whole content.

A newer request to an upload ends an older one, whose client is gone or has given up; what the older one received is
kept. So a client that resumes gets an offset that does not change any more.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any

from starlette.requests import ClientDisconnect, Request

from app.model.errors import StoreFull
from app.service.sending.upload_space import SpaceReservation
from app.service.threads import uncancelled
from app.service.uploads import PieceWriter, Upload, Uploads
from app.web.http.digests import Digests
from app.web.problems import Problem
from app.web.resources.uploads.tus import Checksum
from app.web.server.thread_pools import BATCH, pools_of


class Receivers:
    """The requests that append to uploads, one for each upload."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def end(self, upload_id: str) -> None:
        """End the request that appends to an upload, and wait until it has kept what it received."""
        while (task := self._tasks.get(upload_id)) is not None:
            task.cancel()
            await _settled(task)
            # The task's own callback may not have been called yet, and nothing here would let it be called.
            self._forget(upload_id, task)

    async def end_all(self) -> None:
        """End all of them."""
        for upload_id in list(self._tasks):
            await self.end(upload_id)

    async def run(self, upload_id: str, receiving: Any) -> None:
        """Run the coroutine that appends to an upload; there must be no other. Raises Problem when a newer request
        ends it."""
        task = self._tasks[upload_id] = asyncio.create_task(receiving)
        task.add_done_callback(lambda done: self._forget(upload_id, done))
        try:
            await asyncio.wait([task])
        finally:
            if not task.done():
                task.cancel()
                await _settled(task)
        if task.cancelled():
            raise Problem("superseded", "a newer request continues this upload")
        task.result()

    def _forget(self, upload_id: str, task: "asyncio.Task[None]") -> None:
        if self._tasks.get(upload_id) is task:
            del self._tasks[upload_id]


async def receive(
    request: Request,
    writer: PieceWriter,
    allow: Callable[[int], Awaitable[None]],
    checksum: Checksum | None,
    reservation: SpaceReservation,
) -> None:
    """Append a request's body. What arrives before the connection breaks is kept, unless `checksum` is there to judge
    the whole. `reservation` keeps the space for what is announced. `allow` raises for a size that the body may not
    have.

    Raises Problem, ClientDisconnect, UnknownUpload and what storing raises.
    """
    body = _Body(writer, checksum, reservation, pools_of(request).uploads)
    total = 0
    try:
        async for chunk in request.stream():
            total += len(chunk)
            await allow(total)
            await body.add(chunk)
        await body.finish()
    except (ClientDisconnect, asyncio.CancelledError):
        await body.salvage()
        raise
    except BaseException:
        await body.drop()
        raise


class _Body:
    """A body that worker threads write: one batch of bytes while the next is collected."""

    def __init__(
        self, writer: PieceWriter, checksum: Checksum | None, reservation: SpaceReservation, threads: ThreadPoolExecutor
    ) -> None:
        self._writer, self._checksum, self._reservation, self._threads = writer, checksum, reservation, threads
        self._working: asyncio.Future[None] | None = None
        self._batch: list[bytes] = []
        self._gathered = self._writing = 0

    async def add(self, chunk: bytes) -> None:
        """Take the next bytes, and have a full batch written. Raises what writing the batch before raised."""
        self._batch.append(chunk)
        self._gathered += len(chunk)
        if self._gathered >= BATCH:
            await self._begin_batch(self._write)

    async def finish(self) -> None:
        """Write the rest and make it durable. Raises Problem if the bytes differ from the client's checksum."""
        await self._begin_batch(self._finish)
        await self._written()

    async def _begin_batch(self, work: Callable[[list[bytes]], None]) -> None:
        """Give the batch to a thread, when there is space for it, and when the one before is written."""
        self._reservation.grow_to(self._gathered + self._writing)
        await self._written()
        self._reservation.written(self._writing)
        batch, self._batch = self._batch, []
        self._writing, self._gathered = self._gathered, 0
        self._begin(work, batch)

    async def salvage(self) -> None:
        """Keep what has arrived, if it needs no check and was written until now."""
        failed = self._working is not None and await _settled(self._working)
        if self._checksum is not None or failed or not self._has_space():
            await self.drop()
        else:
            self._begin(self._finish, self._batch)
            await self._settle()

    def _has_space(self) -> bool:
        """Tell whether what has arrived last may still be written."""
        with suppress(StoreFull):
            self._reservation.grow_to(self._gathered)
            return True
        return False

    async def drop(self) -> None:
        """Remove what is not durable yet."""
        await self._settle()
        self._begin(self._writer.drop)
        await self._settle()

    def _begin(self, work: Callable[..., None], *given: Any) -> None:
        self._working = asyncio.get_running_loop().run_in_executor(self._threads, work, *given)

    async def _written(self) -> None:
        if self._working is not None:
            # A thread cannot be cancelled: what it writes must have ended before anything else is done.
            await uncancelled(self._working)

    async def _settle(self) -> None:
        if self._working is not None:
            await _settled(self._working)

    def _write(self, chunks: list[bytes]) -> None:
        for chunk in chunks:
            if self._checksum is not None:
                self._checksum.update(chunk)
            self._writer.write(chunk)

    def _finish(self, chunks: list[bytes]) -> None:
        self._write(chunks)
        if self._checksum is not None:
            self._checksum.check()
        self._writer.keep()


async def _settled(work: "asyncio.Future[Any]") -> bool:
    """Wait until work has ended, and return whether it failed. A cancellation of the waiting changes nothing."""
    while not work.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([work])
    return work.cancelled() or work.exception() is not None


def note_digest(uploads: Uploads, upload: Upload, given: str) -> None:
    """Note digests of the whole content, before any byte of the request that brings them is kept. Blocks.

    Raises Problem for digests that cannot be read.
    """
    known = upload.record.repr_digest
    if known is None or given not in known:
        together = given if known is None else f"{known}, {given}"
        Digests({"repr-digest": together})
        uploads.note(upload, replace(upload.record, repr_digest=together))


def check_whole(uploads: Uploads, upload: Upload) -> None:
    """Compare a complete upload with the digests that the client gave of it, unless that was done. Delete it if they
    differ. Blocks.

    Raises Problem, UnknownUpload and UploadSuperseded.
    """
    if upload.record.repr_digest is None or upload.record.is_checked:
        return
    digests = Digests({"repr-digest": upload.record.repr_digest})
    for piece in uploads.read(upload):
        digests.update(piece)
    try:
        digests.check("the content")
    except Problem:
        uploads.delete(upload)
        raise
    uploads.note(upload, replace(upload.record, is_checked=True))
