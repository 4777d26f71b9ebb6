"""Entity tags of JSON: 304 while nothing has changed, and preconditions (RFC 9110, section 13.1)."""

from hashlib import sha256
from typing import Annotated

from fastapi import Header
from pydantic import BaseModel
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.web.http.byte_ranges import is_among, names_tag
from app.web.problems import Problem

IfMatch = Annotated[str | None, Header(description="delete it only if it has this entity tag, which GET returns")]
_JSON = "application/json"


def entity_tag(view: BaseModel) -> str:
    """Return the strong entity tag of a resource, with its quotes: the SHA-256 of its JSON."""
    return _tag(view.model_dump_json().encode())


def weak_tag(view: BaseModel, *without: str) -> str:
    """Return the weak entity tag of a resource: of its JSON without these members, which change with each reading."""
    return "W/" + _tag(view.model_dump_json(exclude=set(without)).encode())


def require_match(etag: str, if_match: str | None, what: str) -> None:
    """Raise Problem if an If-Match header names other entity tags than this one of `what`."""
    if if_match is not None and not is_among(etag, if_match):
        raise Problem("precondition-failed", f"{what} is {etag}", {"ETag": etag})


class EntityTagMiddleware:
    """Middleware that adds an entity tag to each JSON response of GET that has none, and answers If-None-Match.

    The tag is a digest of the bytes. It saves the network and the client, not the query. Streamed responses pass
    unchanged.
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
            is_ok = message["type"] == "http.response.start" and message["status"] == 200
            if is_ok and Headers(raw=message["headers"]).get("content-type") == _JSON:
                start = message
            elif start is None:
                await send(message)
            else:
                begun, start = start, None
                for each in _answer(begun, message, Headers(scope=scope).get("if-none-match")):
                    await send(each)

        await self._app(scope, receive, tagged)


def _tag(octets: bytes) -> str:
    return f'"{sha256(octets).hexdigest()}"'


def _answer(start: Message, first: Message, if_none_match: str | None) -> list[Message]:
    """Return the messages for a response whose first body is here."""
    if first["type"] != "http.response.body" or first.get("more_body"):
        return [start, first]
    headers = MutableHeaders(raw=list(start["headers"]))
    etag = headers.setdefault("ETag", _tag(first.get("body", b"")))
    headers.setdefault("Cache-Control", "private, no-cache")
    if if_none_match is None or not names_tag(etag, if_none_match):
        return [{**start, "headers": headers.raw}, first]
    for name in ("content-length", "content-type"):
        del headers[name]
    return [{**start, "status": 304, "headers": headers.raw}, {**first, "body": b""}]
