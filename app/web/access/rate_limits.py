"""Limits of requests and bytes a second: counting them, and telling clients by header fields."""

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.model.principals import Principal
from app.service.access.token_buckets import RateExceeded, Rates, client_of
from app.web.problems import Problem
from app.web.server.file_sending import ZERO_COPY_SEND

_METER = "app.rates"
_UNITS = {"requests": "requests", "bytes": "bytes of content"}


class Meter:
    """Counts the bytes of one request and its response, from the time when it is known who sends it.

    Announced bytes (`Content-Length`) count at once, so that many transfers cannot begin before one of them counts.
    What did not come or go in the end is given back.
    """

    def __init__(self, rates: Rates, scope: Scope) -> None:
        self._rates, self._scope = rates, scope
        self._client: str | None = None
        self._ahead = [0, 0]
        """Announced bytes that have not been received or sent yet."""

    def begin(self, principal: Principal | None) -> None:
        """Count the request of a principal, or of an address. Raises Problem if it is one too many."""
        address = self._scope["client"][0] if self._scope.get("client") else None
        self._client = client_of(principal, address)
        try:
            self._rates.begin(self._client)
        except RateExceeded as error:
            detail = f"too many {_UNITS[error.policy]} a second; try again in {error.seconds} s"
            headers = {"Retry-After": str(error.seconds)}
            raise Problem("rate-limited", detail, headers, **{"violated-policies": [error.policy]}) from None
        self._announce(0, Headers(scope=self._scope))

    def note_received(self, message: Message) -> None:
        """Count bytes of the request's content."""
        self._count(0, len(message.get("body", b"")))

    def note_sent(self, message: Message) -> None:
        """Count bytes of the response's content; add the fields to its head."""
        if message["type"] == "http.response.body":
            self._count(1, len(message.get("body", b"")))
        elif message["type"] == ZERO_COPY_SEND:
            self._count(1, message["count"])
        elif message["type"] == "http.response.start" and self._client is not None:
            headers = MutableHeaders(scope=message)
            self._announce(1, headers)
            for name, value in self._rates.fields(self._client):
                headers[name] = value

    def end(self) -> None:
        """Give back what was announced but neither received nor sent."""
        if self._client is not None:
            self._rates.add_bytes(self._client, -sum(self._ahead))

    def _announce(self, way: int, headers: Headers) -> None:
        assert self._client is not None
        text = headers.get("content-length", "")
        self._ahead[way] = int(text) if text.isdecimal() else 0
        self._rates.add_bytes(self._client, self._ahead[way])

    def _count(self, way: int, size: int) -> None:
        if self._client is None:
            return
        announced = min(size, self._ahead[way])
        self._ahead[way] -= announced
        self._rates.add_bytes(self._client, size - announced)


class RatingMiddleware:
    """Middleware that gives each request its meter."""

    def __init__(self, app: ASGIApp, rates: Rates) -> None:
        self._app, self._rates = app, rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        meter = scope[_METER] = Meter(self._rates, scope)

        async def receiving() -> Message:
            message = await receive()
            meter.note_received(message)
            return message

        async def sending(message: Message) -> None:
            meter.note_sent(message)
            await send(message)

        try:
            await self._app(scope, receiving, sending)
        finally:
            meter.end()


def count_request(connection: HTTPConnection, principal: Principal | None) -> None:
    """Count a request of a principal, or of the address of a caller that is not known. Raises Problem if there are too
    many."""
    meter: Meter | None = connection.scope.get(_METER)
    if meter is not None:
        meter.begin(principal)
