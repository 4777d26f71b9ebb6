"""HTTP/1.1 connections with limits: uvicorn's protocol limits nothing that clients send before a request is complete.

- If there are too many connections, in all or from one address, the one of them that has been idle longest is closed;
  if all are busy, a new one gets 503.
- A request's head and other data that is not content have a maximum size (431, or 414 for the request line) and a time
  limit (408).
- A request of HTTP/1.1 must name its host, once (400).
- A client is disconnected if it sends content that is due, or reads what waits for it, slower than `stall_bytes` in
  every `stall_timeout`, even if the response has ended and the connection is being closed.

The limits apply before memory is used: received bytes are parsed in slices, and refused bytes are not kept.
"""

import asyncio
import resource
import sys
from contextlib import suppress
from email.utils import formatdate
from fcntl import ioctl
from http import HTTPStatus
from termios import TIOCOUTQ
from typing import Any

import orjson
import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.observe import logger
from app.settings import Http
from app.web.certificate import Certificate
from app.web.connections import Connections

log = logger(__name__)

SLICE = 16 << 10
CERTIFICATE_SECONDS = 10
"""How often the files of the certificate are looked at."""
OTHER_DESCRIPTORS = 200
"""Descriptors reserved for files, brokers and databases."""

LONGEST_TARGET = 0xFFFF - 1
"""The longest request target, in bytes, that the parser of targets can read."""

_REFUSALS = {
    400: "the request is not valid HTTP, or does not have exactly one header field Host",
    408: "the head of the request did not come in time",
    414: "the request line is too long",
    431: "the header fields are too large",
    503: "there are too many connections",
}


class _Refused(Exception):
    """A request that is refused while its head is parsed. The parser reports it as an invalid request."""


def configuration(app: FastAPI, http: Http, **more: Any) -> uvicorn.Config:
    """Return uvicorn's configuration for the application, with limited connections."""
    limits = http.model_copy(update={"connections": min(http.connections, _descriptors() - OTHER_DESCRIPTORS)})

    opened = Connections()

    class Limited(LimitedProtocol):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            self.limits, self.opened = limits, opened

    return uvicorn.Config(
        dated(app),
        http.host,
        http.port,
        http=Limited,
        ws="none",
        log_config=None,
        access_log=False,
        date_header=False,
        **_tls(http),
        **more,
    )


def dated(app: ASGIApp) -> ASGIApp:
    """Return an application whose responses have the time of their beginning as `Date`.

    That of uvicorn is up to a second old. It could be before a `Last-Modified`, which RFC 9110 forbids (8.8.2.1).
    """

    async def with_date(scope: Scope, receive: Receive, send: Send) -> None:
        async def add_date(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [(b"date", formatdate(usegmt=True).encode()), *message.get("headers", ())]
            await send(message)

        await app(scope, receive, add_date)

    return with_date


def _tls(http: Http) -> dict[str, Any]:
    """Return uvicorn's options for TLS, if there is a certificate. Raises GatewayError for one that cannot be used."""
    if http.cert_file is None:
        return {}
    certificate = Certificate(http)

    async def refresh() -> None:
        certificate.refresh()

    return {
        "ssl_context_factory": lambda _config, _default: certificate.context,
        "callback_notify": refresh,
        "timeout_notify": CERTIFICATE_SECONDS,
    }


def _descriptors() -> int:
    """Return how many descriptors this process may have.

    The limit is not raised: clients of brokers use `select`, which does not work with descriptors above 1023.
    """
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if most == resource.RLIM_INFINITY else max(most, OTHER_DESCRIPTORS + 1)


class LimitedProtocol(HttpToolsProtocol):
    """One connection.

    It is idle from its beginning, or the end of a response, to the end of the next request's head.
    """

    limits: Http
    opened: Connections

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.address: str | None = None
        """The address at the other end of the connection: that of a proxy, if there is one."""
        self._is_whole = True
        """Whether no request is incomplete."""
        self._in_head = True
        self._overhead = 0
        """Bytes received since the last content that are not content."""
        self._content = 0
        """Bytes of content since the last check."""
        self._refusal = 400
        """The status with which a request is refused that cannot be parsed."""
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None

    # --- life -----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = self.client[0] if self.client else None
        self.opened.add(self)
        limits = self.limits
        if self._has_room(limits.connections_a_client, of_its_address=True) and self._has_room(limits.connections):
            self._await_head()
        else:
            self._refuse(503)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._stop_write_timer()
        self.opened.remove(self)
        super().connection_lost(exc)

    def _has_room(self, limit: int, *, of_its_address: bool = False) -> bool:
        """Return whether this new connection may stay. Where there are too many, the idlest one is closed for it."""
        if not self.opened.beyond(self, limit, of_its_address=of_its_address):
            return True
        idlest = self.opened.idlest(self, of_its_address=of_its_address)
        if idlest is None:
            log.warning("connection_refused", connections=limit, address=self.address)
            return False
        idlest.abort()
        return True

    @property
    def is_idle(self) -> bool:
        return self.opened.is_idle(self) and not self.is_closing()

    def is_closing(self) -> bool:
        return self.transport.is_closing()

    def abort(self) -> None:
        """Close the connection at once."""
        self._forget()
        self.transport.abort()

    def _forget(self) -> None:
        """Give the connection's place to others."""
        self.connections.discard(self)
        self.opened.remove(self)

    # --- receiving ------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            if self.transport.is_closing() or self.parser is None:
                return
            size = min(SLICE, self.limits.header_bytes - self._overhead)
            if size <= 0:
                self._refuse(414 if self._in_head and not self.headers else 431)
                return
            piece, view = view[:size], view[size:]
            self._overhead += size
            super().data_received(piece)  # type: ignore[arg-type]
            if self._is_whole:
                self._overhead = 0

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_whole, self._in_head = False, True
        if self._timer is None:
            self._await_head()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > LONGEST_TARGET:
            self._refusal = 414
            raise _Refused

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # otherwise it belongs to a trailer, which is not used
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (hosts == 0 and self.parser.get_http_version() == "1.1"):
            raise _Refused  # RFC 9112, section 3.2
        self.opened.busy(self)
        self._in_head = False
        self._overhead = 0
        self._stop_timer()
        super().on_headers_complete()
        self._await_content()

    def on_body(self, body: bytes) -> None:
        self._overhead = 0
        self._content += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._is_whole = True
        self._stop_timer()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._stop_write_timer()
        self._await_reader()
        if not self.pipeline and not self.transport.is_closing():
            self.opened.idle(self)

    # --- time -----------------------------------------------------------------------------------------------------

    def _await_head(self) -> None:
        self._timer = self.loop.call_later(self.limits.header_timeout.total_seconds(), self._on_late_head)

    def _on_late_head(self) -> None:
        self._timer = None
        if self._is_whole:
            self.abort()
        else:
            self._refuse(408)

    def _await_content(self) -> None:
        self._content = 0
        self._timer = self.loop.call_later(self.limits.stall_timeout.total_seconds(), self._on_late_content)

    def _on_late_content(self) -> None:
        self._timer = None
        if self._content < self.limits.stall_bytes and not self.flow.read_paused:
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
        if self._write_timer is None and self.transport.get_write_buffer_size():
            seconds = self.limits.stall_timeout.total_seconds()
            self._write_timer = self.loop.call_later(seconds, self._on_late_reader, self._unread())

    def _on_late_reader(self, before: int) -> None:
        self._write_timer = None
        if self.transport.get_write_buffer_size() and before - self._unread() < self.limits.stall_bytes:
            self.abort()
        else:
            self._await_reader()

    def _unread(self) -> int:
        """Return the bytes that were sent and that the client has not received, with those in the system's buffer."""
        size = self.transport.get_write_buffer_size()
        with suppress(AttributeError, OSError, ValueError):
            descriptor = self.transport.get_extra_info("socket").fileno()
            size += int.from_bytes(ioctl(descriptor, TIOCOUTQ, bytes(4)), sys.byteorder)
        return size

    def send_400_response(self, msg: str) -> None:
        del msg
        self._refuse(self._refusal)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _is_answering(self) -> bool:
        """Tell whether an earlier request, or this one, has no whole response yet, so that no other can be sent."""
        if self.cycle is None or self.cycle.response_complete:
            return False
        return self._is_whole or self._in_head or self.cycle.response_started or bool(self.pipeline)

    def _refuse(self, status: int) -> None:
        if self._is_answering():
            self.abort()
            return
        self._stop_timer()
        self._forget()
        self.transport.write(_refusal(status))
        self.transport.close()
        self._await_reader()


def _refusal(status: int) -> bytes:
    """Return a whole response with a problem that only has a status (RFC 9457, section 4.2.1)."""
    title = HTTPStatus(status).phrase
    body = orjson.dumps({"type": "about:blank", "title": title, "status": status, "detail": _REFUSALS[status]})
    fields = [
        f"HTTP/1.1 {status} {title}",
        f"date: {formatdate(usegmt=True)}",
        "content-type: application/problem+json",
        f"content-length: {len(body)}",
        "connection: close",
        *(["retry-after: 5"] if status == 503 else []),
    ]
    return "\r\n".join([*fields, "", ""]).encode() + body
