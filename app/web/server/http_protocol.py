"""HTTP/1.1 connections with limits: uvicorn's protocol limits nothing that clients send before a request is complete.

- If there are too many connections, in all or from one address, one of them is closed
(`app.web.server.open_connections`). If all
  are busy for somebody who is known, a new one may only ask for health; it gets 503 for anything else.
- A request's head and other data that is not content have a maximum size (431, or 414 for the request line) and a time
  limit (408).
- The content of a request has the same time limit until the application knows who sends it, and calls what the scope
  has as `PROVED`. Responses to others are read in that time, too.
- After that, a client is disconnected if it sends content that is due, or reads what waits for it, slower than
  `stall_bytes` in every `stall_timeout`, even if the response has ended and the connection is being closed.
- A client that says that it sends no more is answered before its connection is closed.
- Heads with which nothing can be done are refused (`app.web.server.refusals`). An offer to change the protocol is
ignored.

The limits apply before memory is used: received bytes are parsed in slices of at most `header_bytes`, and refused bytes
are not kept.
"""

import asyncio
import sys
from contextlib import suppress
from fcntl import ioctl
from functools import partial
from termios import TIOCOUTQ
from typing import Any

import httptools
from starlette.types import Message
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from app.observe import logger
from app.settings import Http
from app.web.server import refusals
from app.web.server.file_sending import ZERO_COPY_SEND, FileSending
from app.web.server.open_connections import ConnectionPlaces
from app.web.server.refusals import LONGEST_TARGET, RequestRefused

log = logger(__name__)

_LF = ord("\n")
HEALTH = b"/health/"
"""What the paths of all checks of health begin with."""
HEALTH_PLACES = 16
"""Connections beyond the limits that may ask for health and nothing else."""
HEALTH_PLACES_A_CLIENT = 4

PROVED = "app.proved"
"""The key in the scope of the function to be called when it is known who sends the request."""
ENDLESS = "app.endless"
"""The key of the function to be called when the response is an event stream."""

SEND_FILE = "app.send_file"
"""The key of the function that takes messages of the type `ZERO_COPY_SEND`."""

PROBE_SECONDS = 0.25
"""The time until a client that sends no more is asked whether it still waits, and until it is asked again."""
LONGEST_PROBE_SECONDS = 15.0
LINGER_SECONDS = 2.0
"""How long a client whose request was refused may take to notice that."""
LINGER_BYTES = 64 << 10
"""How much a client whose request was refused may still send."""


class LimitedProtocol(HttpToolsProtocol):
    """One connection.

    It is idle from its beginning, or the end of a response, to the end of the next request's head.
    """

    limits: Http
    places: ConnectionPlaces
    health_places: ConnectionPlaces

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.address: str | None = None
        """The address at the other end of the connection: the proxy's, if there is one."""
        self._place: ConnectionPlaces | None = None
        """Where the connection has its place."""
        self._is_whole = True
        """Whether no request is incomplete."""
        self._in_head = True
        self._overhead = 0
        """Bytes received since the last content that are not content."""
        self._content = 0
        """Bytes of content since the last check."""
        self._all_content = 0
        """Bytes of content of this request."""
        self._is_proved = False
        """Whether it is known who sends the request that is answered."""
        self._offers_upgrade = False
        """Whether the head that was read offers another protocol: then it is read again without that."""
        self._is_endless = False
        self._is_half_closed = False
        self._lingers = False
        """Whether the client has its last response, and what it still sends is ignored."""
        self._lingered = 0
        """Bytes received since then."""
        self._last_words: RequestRefused | None = None
        """The refusal that is sent when the requests before it have their responses."""
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._probe_timer: asyncio.TimerHandle | None = None
        self._files: FileSending | None = None
        self.url, self.headers = b"", []

    # --- life -----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._files = FileSending(self.loop, transport, self.flow, self._await_reader)
        self.address = self.client[0] if self.client else None
        if self._takes_place(self.places) or self._takes_place(self.health_places):
            self._await_head()
        else:
            self._refuse(self._too_many())

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._timer, self._write_timer, self._probe_timer):
            if timer is not None:
                timer.cancel()
        self._leave_place()
        if self._files is not None:
            self._files.stop()
        super().connection_lost(exc)

    @property
    def is_idle(self) -> bool:
        return self._place is not None and self._place.is_idle(self) and not self.is_closing()

    def is_closing(self) -> bool:
        return self.transport.is_closing()

    def abort(self) -> None:
        """Close the connection at once."""
        self._forget()
        self.transport.abort()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer the requests received so far, then close: the client sends no more. Return whether to stay open.

        TLS cannot be closed one way only here, and an event stream would never end.
        """
        if self._lingers:
            return False
        if self._last_words is not None:
            self._probe_later(PROBE_SECONDS)
            return True
        if self.parser is None or self.scheme == "https" or self._is_endless:
            return False
        self._is_half_closed = True
        if not self._is_whole:
            part = "its head" if self._in_head else f"its content ({self._all_content} bytes had come)"
            self._refuse(RequestRefused(400, f"the connection was closed before the request had all of {part}"))
            return True
        if self.cycle is None or self.cycle.response_complete:
            return False
        self.cycle.keep_alive = False
        self._probe_later(PROBE_SECONDS)
        return True

    def _probe_later(self, seconds: float) -> None:
        self._probe_timer = self.loop.call_later(seconds, self._probe, seconds)

    def _probe(self, seconds: float) -> None:
        """Find out whether a client that sends no more still waits: what reaches one that has left is answered by a
        reset, and the next write fails."""
        cycle = self.cycle
        if self.transport.is_closing() or cycle.response_complete:
            return
        if not (self.pipeline or cycle.response_started or cycle.scope["http_version"] == "1.0"):
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._probe_later(min(2 * seconds, LONGEST_PROBE_SECONDS))

    def _takes_place(self, places: ConnectionPlaces) -> bool:
        if not places.admit(self):
            return False
        self._place = places
        return True

    def _leave_place(self) -> None:
        if self._place is not None:
            self._place.remove(self)
            self._place = None

    def _forget(self) -> None:
        """Give the connection's place to others."""
        self.connections.discard(self)
        self._leave_place()

    def _too_many(self) -> RequestRefused:
        log.warning("connection_refused", connections=len(self.connections), address=self.address)
        return RequestRefused(
            503, "as many connections are busy as http.connections or http.connections_a_client allows"
        )

    # --- receiving ------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        if self._lingers:
            self._lingered += len(data)
            if self._lingered > LINGER_BYTES:
                self.abort()
            return
        view = memoryview(data)
        while view:
            if self._is_refused():
                return
            size = self.limits.header_bytes - self._overhead
            if size <= 0:
                self._refuse(refusals.too_large(414 if self._in_head and not self.headers else 431))
                return
            piece, view = view[:size], view[size:]
            self._overhead += len(piece)
            self._feed(piece)
            if self._is_whole:
                self._overhead = 0
                if self._timer is None and self.is_idle:
                    self._await_head()  # only empty lines before a request have been received

    def _feed(self, piece: memoryview) -> None:
        try:
            self.parser.feed_data(piece)
            if self._in_head and not self._is_whole:
                version = self.parser.get_http_version()
                ends_early = version == "0.0" and self.url and piece[-1] == _LF
                refusals.check_version("0.9" if ends_early else version)
        except httptools.HttpParserUpgrade as upgrade:
            (end_of_head,) = upgrade.args
            self._read_head_again()
            if not self._is_refused():
                self._feed(piece[end_of_head:])
        except httptools.HttpParserError as error:
            refusal = error.__context__
            if not isinstance(refusal, RequestRefused):
                where = refusals.where(self.url, self.headers, in_head=self._in_head, content=self._all_content)
                refusal = refusals.refused(error, where)
            self._refuse(refusal)
        except RequestRefused as refusal:
            self._refuse(refusal)

    def _read_head_again(self) -> None:
        """Read a head that offers another protocol without the offer: the parser takes what follows it for that
        protocol, and not for the content of the request."""
        self._offers_upgrade = False
        head = [self.parser.get_method(), b" ", self.url, b" HTTP/", self.parser.get_http_version().encode(), b"\r\n"]
        for name, value in self.headers:
            if name != b"upgrade":
                head += [name, b": ", value, b"\r\n"]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._feed(memoryview(b"".join([*head, b"\r\n"])))

    def _is_refused(self) -> bool:
        return self.transport.is_closing() or self.parser is None or self._lingers or self._last_words is not None

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_whole, self._in_head = False, True
        if self._timer is None:
            self._await_head()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > LONGEST_TARGET:
            raise refusals.too_large(414)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # otherwise it belongs to a trailer, which is not used
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        refusals.check_head(self.parser.get_http_version(), self.url, self.headers)
        if self.parser.should_upgrade():
            self._offers_upgrade = True
            return
        if self._place is self.health_places and not refusals.path_of(self.url).startswith(HEALTH):
            self._leave_place()
            if not self._takes_place(self.places):
                raise self._too_many()
        self.headers[:] = refusals.combined(self.url, self.headers)
        self._in_head = False
        self._overhead = self._all_content = 0
        self._stop_timer()
        super().on_headers_complete()
        self._await_content()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._is_proved = self._is_endless = False
        if self._place is not None:
            self._place.unproved(self)
        self._await_content_again(cycle)
        scope: dict[str, Any] = cycle.scope  # type: ignore[assignment]
        scope[PROVED] = partial(self._on_proved, cycle)
        scope[ENDLESS] = partial(self._on_endless, cycle)
        if self.scheme == "http":
            scope["extensions"] = {ZERO_COPY_SEND: {}}
            scope[SEND_FILE] = partial(self._send_file, cycle)
        super()._start_asgi_task(cycle, app)

    def _on_proved(self, cycle: RequestResponseCycle) -> None:
        """Give the request that is answered the time and the place of somebody who is known."""
        if self._is_proved or cycle.response_complete or self._lingers or self.transport.is_closing():
            return
        self._is_proved = True
        if self._place is not None:
            self._place.busy(self)
        self._await_content_again(cycle)

    def _on_endless(self, cycle: RequestResponseCycle) -> None:
        self._is_endless = cycle is self.cycle
        if self._is_endless and self._is_half_closed:
            self.loop.call_soon(self.transport.close)  # behind the head of the response

    def on_body(self, body: bytes) -> None:
        self._overhead = 0
        self._content += len(body)
        self._all_content += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self._offers_upgrade:
            return
        self._is_whole = True
        self._stop_timer()
        super().on_message_complete()

    async def _send_file(self, cycle: RequestResponseCycle, message: Message) -> None:
        cycle.expected_content_length -= message["count"]
        if self._files is not None:
            await self._files.send(message)
            self._stop_write_timer()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._stop_write_timer()
        self._await_reader()
        if self.transport.is_closing() or not self.cycle.response_complete:
            return
        if self._place is not None:
            self._place.idle(self)
        if self._last_words is not None:
            last_words, self._last_words = self._last_words, None
            self._refuse(last_words)

    # --- time -----------------------------------------------------------------------------------------------------

    def _await_head(self) -> None:
        self._timer = self.loop.call_later(self.limits.header_timeout.total_seconds(), self._on_late_head)

    def _on_late_head(self) -> None:
        self._timer = None
        if self._is_whole:
            self.abort()
        else:
            self._refuse(RequestRefused(408, "the head of the request did not come within http.header_timeout"))

    def _await_content(self) -> None:
        self._content = 0
        self._timer = self.loop.call_later(self._patience(), self._on_late_content)

    def _await_content_again(self, cycle: RequestResponseCycle) -> None:
        """Restart the time limit for the content of a request, if some of it is missing."""
        if self._timer is not None and cycle is self.cycle and not (self._in_head or self._is_refused()):
            self._stop_timer()
            self._await_content()

    def _patience(self) -> float:
        """Return how many seconds a client has for content, or for a part of it once it is known."""
        known, unknown = self.limits.stall_timeout.total_seconds(), self.limits.header_timeout.total_seconds()
        return known if self._is_proved else min(known, unknown)

    def _on_late_content(self) -> None:
        self._timer = None
        if self.flow.read_paused:
            self._await_content()
        elif not self._is_proved:
            self._refuse(
                RequestRefused(
                    408, "nobody knows yet who sends the request, and its content took longer than http.header_timeout"
                )
            )
        elif self._content < self.limits.stall_bytes:
            self.abort()
        else:
            self._await_content()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stop_write_timer()
        self._await_reader()

    def resume_writing(self) -> None:
        self._stop_write_timer()
        super().resume_writing()

    def _await_reader(self) -> None:
        """Disconnect the client, unless it reads what waits for it, fast enough."""
        if self._write_timer is None and self._unread_here():
            self._write_timer = self.loop.call_later(self._patience(), self._on_late_reader, self._unread())

    def _on_late_reader(self, before: int) -> None:
        self._write_timer = None
        if self._unread_here() and before - self._unread() < self.limits.stall_bytes:
            self.abort()
        else:
            self._await_reader()

    def _unread_here(self) -> int:
        """Return the bytes that were to be sent and that the system has not taken."""
        return self.transport.get_write_buffer_size() + (self._files.left if self._files is not None else 0)

    def _unread(self) -> int:
        """Return the bytes that were sent and that the client has not received, with those in the system's buffer."""
        size = self._unread_here()
        with suppress(AttributeError, OSError, ValueError):
            descriptor = self.transport.get_extra_info("socket").fileno()
            size += int.from_bytes(ioctl(descriptor, TIOCOUTQ, bytes(4)), sys.byteorder)
        return size

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    # --- refusing -------------------------------------------------------------------------------------------------

    def _refuse(self, refusal: RequestRefused) -> None:
        """Answer the request that is being received by a refusal, after those before it, and close the connection."""
        self._stop_timer()
        running = None if self.cycle is None or self.cycle.response_complete else self.cycle
        if not (self._is_whole or self._in_head):  # the refused request is one that the application knows
            if running is None:
                self._forget()
                self.transport.close()  # it has its response
                return
            if running.response_started:
                self.abort()
                return
            if not self.pipeline:
                running.disconnected = True
                running.message_event.set()
                running = None
        if running is not None and self._is_endless:
            self.abort()
            return
        if running is not None:
            self._last_words = refusal
            return
        self.transport.write(refusals.response(refusal))
        if self._place is None or self._is_half_closed or not self.transport.can_write_eof():
            self._forget()
            self.transport.close()
        else:
            # Closed at once, the connection would be reset by what still comes, and the response be lost.
            self._lingers = True
            self._place.idle(self)
            self.transport.write_eof()
            self.flow.resume_reading()
            self._timer = self.loop.call_later(LINGER_SECONDS, self.abort)
        self._await_reader()
