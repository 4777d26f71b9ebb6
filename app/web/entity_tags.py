"""Entity tags of JSON, so that a client that asks again and again gets 304 while nothing has changed."""

from hashlib import sha256

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.web.ranges import names_tag

_JSON = "application/json"


class EntityTagMiddleware:
    """Middleware that adds an entity tag to each JSON response of GET, and answers If-None-Match.

    The tag is that of the bytes. It saves the network and the client, not the query. Streamed responses, and those that
    have a tag of their own, pass unchanged.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        start: Message | None = None

        async def tagged(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and _is_json(message):
                start = message
            elif start is None:
                await send(message)
            else:
                begun, start = start, None
                for each in _answer(begun, message, Headers(scope=scope).get("if-none-match")):
                    await send(each)

        await self._app(scope, receive, tagged)


def _is_json(start: Message) -> bool:
    headers = Headers(raw=start["headers"])
    return start["status"] == 200 and headers.get("content-type") == _JSON and "etag" not in headers


def _answer(start: Message, first: Message, if_none_match: str | None) -> list[Message]:
    """Return the messages for a response whose first body is here."""
    if first["type"] != "http.response.body" or first.get("more_body"):
        return [start, first]
    body = first.get("body", b"")
    etag = f'"{sha256(body).hexdigest()[:32]}"'
    headers = MutableHeaders(raw=list(start["headers"]))
    headers["ETag"] = etag
    headers.setdefault("Cache-Control", "private, no-cache")
    if if_none_match is None or not names_tag(etag, if_none_match):
        return [{**start, "headers": headers.raw}, first]
    for name in ("content-length", "content-type"):
        del headers[name]
    return [{**start, "status": 304, "headers": headers.raw}, {**first, "body": b""}]
