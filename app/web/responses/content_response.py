"""Streamed responses with content: whole, by one range or several, or converted on the way.

The first piece is read in the endpoint's worker thread. The next is read while the system takes the one before, and is
sent once that is taken. So a client that does not read costs two pieces of memory. While reads are fast (page cache),
the event loop reads itself: handing a piece over from a thread costs a third of the speed. After a slow read (cold
disk, remote store), or an empty piece (`app.service.content.stored_content.MAY_WAIT`), a thread reads a window while
the client takes what is in the system's buffer, until a read is fast again. Converted content is always made in a
thread, a window ahead.

What is read is sent as the copy that was compared with its checksum. What was compared lately, and is in memory, is a
piece of its file, which the system sends without a copy.
"""

import asyncio
import base64
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from math import inf
from secrets import token_hex
from time import perf_counter, time

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from app.model.errors import DamagedError, InvalidInputError
from app.model.times import http_date
from app.observe import logger
from app.service.content.content_damage import WatchedContent
from app.service.content.stored_content import FilePiece
from app.service.conversion import Slot, SlotUse
from app.web.http.byte_ranges import ByteRange, parse_ranges, precondition, range_applies
from app.web.http.disposition import content_disposition
from app.web.http.negotiation import chosen_coding, compressed, is_text, not_representable
from app.web.problems import Problem
from app.web.responses.disconnection import ClientLeft, converting, disconnected
from app.web.server.file_sending import ZERO_COPY_SEND
from app.web.server.thread_pools import pools_in, run_in

_SAFE_MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(; *[A-Za-z0-9-]+=[A-Za-z0-9_.:+-]+)*")
_WINDOW = 1 << 20
"""Bytes that are read ahead. A client must take so much of what a conversion makes in every `http.stall_timeout`."""
_QUICK_SECONDS = 0.01
_OPAQUE = "application/octet-stream"

Piece = bytes | memoryview
Sent = Piece | FilePiece

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class ContentRepresentation:
    """The data for the header fields of content.

    `tag` is its entity tag. `modified` has whole seconds; the current time is sent instead if it is in the future.
    Stored content (not converted on the way) has a digest: `sha256`, hexadecimal. `coding` is the content coding in
    which it is sent.
    """

    tag: str
    content_type: str | None
    file_name: str
    modified: datetime
    sha256: str | None = None
    coding: str | None = None

    @property
    def etag(self) -> str:
        return f'"{self.tag}"'

    @property
    def media_type(self) -> str:
        """The content type; `application/octet-stream` if the recorded one is not a valid media type."""
        given = self.content_type or _OPAQUE
        return given if _SAFE_MEDIA_TYPE.fullmatch(given) else _OPAQUE

    def headers(self) -> dict[str, str]:
        by_bytes = {"Accept-Ranges": "none"}
        if self.sha256 is not None:
            digest = base64.b64encode(bytes.fromhex(self.sha256)).decode()
            by_bytes = {"Repr-Digest": f"sha-256=:{digest}:", "Accept-Ranges": "bytes"}
        if self.coding is not None:
            by_bytes["Content-Encoding"] = self.coding
        return {
            "ETag": self.etag,
            "Last-Modified": http_date(int(min(self.modified.timestamp(), time()))),
            **by_bytes,
            "Cache-Control": "private, no-cache",
            "Content-Disposition": content_disposition(self.file_name),
            "Content-Security-Policy": "default-src 'none'; sandbox",
            "X-Content-Type-Options": "nosniff",
        }


def stored_response(request: Request, content: WatchedContent, what: ContentRepresentation) -> Response:
    """Answer GET or HEAD of content. Blocks while the first piece is read. Raises Problem for 412 and 416."""
    headers, takes_files = request.headers, ZERO_COPY_SEND in request.scope.get("extensions", {})
    read = content.sendable if takes_files else content.read
    about = what.headers() | {"Content-Type": what.media_type}
    if _is_known(headers, what):
        return _not_modified(about)
    ranges = None
    if request.method == "GET" and "range" in headers and range_applies(headers, what.etag, what.modified):
        ranges = parse_ranges(headers["range"], content.size)
    if ranges is None:
        return ContentResponse(200, about, [read(0, content.size)], content.size)
    if not ranges:
        raise Problem(
            "range-not-satisfiable",
            f"the content has {content.size} bytes",
            {"Content-Range": f"bytes */{content.size}"},
        )
    if len(ranges) == 1:
        (chosen,) = ranges
        about["Content-Range"] = _content_range(chosen, content.size)
        return ContentResponse(206, about, [read(chosen.first, chosen.size)], chosen.size)
    return _multipart(read, content.size, ranges, about)


def converted_response(
    request: Request, make: Callable[[Slot], Iterator[Piece]], what: ContentRepresentation
) -> Response:
    """Answer GET or HEAD of content that a conversion makes piece by piece; its size is not known in advance.

    Text is sent in the coding that Accept-Encoding prefers, and has an entity tag for each. Raises Problem for 412.
    """
    is_coded = is_text(what.media_type)
    coding = chosen_coding(request.headers.get("accept-encoding")) if is_coded else None
    if coding is not None:
        what = replace(what, tag=f"{what.tag}-{coding}", coding=coding)
    about = what.headers() | {"Content-Type": what.media_type}
    response: Response
    if _is_known(request.headers, what):
        response = _not_modified(about)
    elif coding is None:
        response = ConvertedResponse(about, make)
    else:
        response = ConvertedResponse(about, lambda slot: compressed(make(slot), coding))
    if is_coded:
        response.headers.add_vary_header("Accept-Encoding")
    return response


def _is_known(headers: Headers, what: ContentRepresentation) -> bool:
    """Tell whether the client already has the content. Raises Problem when its precondition fails."""
    status = precondition(headers, what.etag, what.modified)
    if status == 412:
        raise Problem("precondition-failed", f"the content is {what.etag}", {"ETag": what.etag})
    return status == 304


def _not_modified(about: dict[str, str]) -> Response:
    return Response(status_code=304, headers={name: about[name] for name in ("ETag", "Cache-Control")})


def _content_range(chosen: ByteRange, size: int) -> str:
    return f"bytes {chosen.first}-{chosen.last}/{size}"


def _multipart(
    read: Callable[[int, int], Iterator[Sent]], whole: int, ranges: list[ByteRange], about: dict[str, str]
) -> "ContentResponse":
    """Return a response in multipart/byteranges (RFC 9110, section 14.6)."""
    boundary = token_hex(16)
    heads = [
        (
            f"\r\n--{boundary}\r\nContent-Type: {about['Content-Type']}\r\n"
            f"Content-Range: {_content_range(chosen, whole)}\r\n\r\n"
        ).encode()
        for chosen in ranges
    ]
    tail = f"\r\n--{boundary}--\r\n".encode()
    about["Content-Type"] = f"multipart/byteranges; boundary={boundary}"
    pieces: list[Iterator[Sent]] = []
    for head, chosen in zip(heads, ranges, strict=True):
        pieces += [iter((memoryview(head),)), read(chosen.first, chosen.size)]
    pieces.append(iter((memoryview(tail),)))
    size = sum(map(len, heads)) + sum(chosen.size for chosen in ranges) + len(tail)
    return ContentResponse(206, about, pieces, size)


class ContentResponse(Response):
    """A response that streams pieces and stops reading when the client disconnects.

    `size` is their total size, or None if they are still to be converted, in a conversion slot. Slots are few: the
    client must take each window in `patience` seconds. Otherwise the response ends with TimeoutError.
    """

    def __init__(
        self,
        status: int,
        headers: dict[str, str],
        sources: Sequence[Iterator[Sent]],
        size: int | None,
        slot: Slot | None = None,
        patience: float = inf,
    ) -> None:
        super().__init__(None, status, headers | {"Content-Length": str(size)})
        if size is None:
            del self.headers["Content-Length"]
        self._pieces = chain.from_iterable(sources)
        self._is_made = size is None
        self._slot, self._patience = slot, patience
        self._unread = inf if size is None else size
        self._first = self._read(_WINDOW if self._is_made else 1)

    def _read(self, wanted: int, *, in_loop: bool = False) -> list[Sent]:
        """Return the next pieces, with at least `wanted` bytes together, or all that are left.

        `in_loop` says that the event loop reads: it stops before a step that may wait.
        """
        window: list[Sent] = []
        size = 0
        may_wait = False
        started = perf_counter()
        for piece in self._pieces:
            window.append(piece)
            size += len(piece)
            may_wait = in_loop and not piece
            if size >= wanted or may_wait:
                break
        self._unread -= size
        self._is_quick = not (self._is_made or may_wait) and perf_counter() - started < _QUICK_SECONDS
        return window

    async def _sent(self, window: list[Sent], threads: ThreadPoolExecutor, send: Send) -> list[Sent]:
        """Send these pieces, each once the system has taken the one before. Return the next ones."""
        while window:
            await send(self._message(window.pop(0)))
        if self._unread <= 0:
            return []
        if self._is_quick:
            return self._read(1, in_loop=True)
        return await run_in(threads, lambda: self._read(_WINDOW))

    @staticmethod
    def _message(piece: Sent) -> Message:
        """Return the message that sends a piece of content that is not the last."""
        if not isinstance(piece, FilePiece):
            return {"type": "http.response.body", "body": piece, "more_body": True}
        return {
            "type": ZERO_COPY_SEND,
            "file": piece.file,
            "offset": piece.start,
            "count": len(piece),
            "more_body": True,
        }

    async def _converted(self, slot: Slot, window: list[Sent], send: Send) -> list[Sent]:
        """Send these pieces in time. Return the next ones, which are made meanwhile."""
        ahead = None
        if self._unread > 0:
            ahead = asyncio.create_task(slot.within_time(lambda: self._read(_WINDOW)))
        try:
            async with asyncio.timeout(self._patience):
                while window:
                    await send(self._message(window.pop(0)))
        except BaseException:
            if ahead is not None:
                slot.kill()
                await asyncio.wait([ahead])
                if not ahead.cancelled():
                    ahead.exception()
            raise
        return [] if ahead is None else await ahead

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_body = scope["method"] != "HEAD"
        read = [piece for piece in self._first if not isinstance(piece, FilePiece)]
        is_read = self._slot is None and self._unread <= 0 and len(read) == len(self._first)
        is_long = has_body and self._slot is None and not is_read
        with pools_in(scope).downloading() if is_long else nullcontext():
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            if has_body and not is_read:
                try:
                    await self._stream(pools_in(scope).downloads, receive, send)
                except (DamagedError, KeyError):
                    return  # an incomplete response makes the server close the connection; the error is logged
            # What has been read as a whole needs nobody who watches the connection: nothing could be stopped.
            await send({"type": "http.response.body", "body": b"".join(read) if has_body and is_read else b""})

    async def _stream(self, threads: ThreadPoolExecutor, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(disconnected(receive))
        window, self._first = self._first, []
        try:
            while window and not gone.done():
                if self._slot is None:
                    window = await self._sent(window, threads, send)
                else:
                    window = await self._converted(self._slot, window, send)
        finally:
            gone.cancel()
            with suppress(asyncio.CancelledError):
                await gone


class ConvertedResponse(Response):
    """A response that a conversion makes. It begins when a slot is free and ends when the client disconnects."""

    def __init__(self, headers: Mapping[str, str], make: Callable[[Slot], Iterator[Piece]]) -> None:
        super().__init__(None, 200, headers)
        del self.headers["Content-Length"]
        self._make = make

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        patience = scope["app"].state.gateway.settings.http.stall_timeout.total_seconds()
        try:
            async with converting(HTTPConnection(scope), receive, SlotUse.DOWNLOAD) as slot:
                made = await self._begun(slot, patience, with_body=scope["method"] != "HEAD")
                made.raw_headers = self.raw_headers
                await made(scope, _never, send)
        except ClientLeft:
            return
        except TimeoutError:  # an incomplete response makes the server close the connection
            log.warning("slow_reader_disconnected", path=scope["path"], seconds=patience)

    async def _begun(self, slot: Slot, patience: float, *, with_body: bool) -> "ContentResponse":
        def begin() -> ContentResponse:
            pieces = self._make(slot)
            if not with_body:
                pieces = iter(list(pieces))
            return ContentResponse(200, {}, [pieces], None, slot, patience)

        try:
            return await slot.within_time(begin)
        except InvalidInputError as error:
            raise not_representable(error) from None
        except KeyError:
            raise Problem("gone", "the content has been deleted") from None


async def _never() -> Message:
    """Wait forever; used as `receive` while another task waits for the client to disconnect."""
    await asyncio.Event().wait()
    raise AssertionError("the event is never set")
