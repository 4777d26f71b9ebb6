"""Conversion of every error of the application to a problem."""

import asyncio
from collections.abc import Callable, Mapping
from http import HTTPStatus
from secrets import token_hex
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.model.errors import (
    CatalogDamaged,
    CatalogError,
    DamagedError,
    GatewayError,
    LimitExceeded,
    NotArchived,
    StoreFull,
)
from app.model.uploads import QuotaExceeded, TooManyUploads, UploadLimitReached, UploadSuperseded
from app.observe import logger
from app.ports import BadCursor
from app.service.conversion import Busy
from app.tables.read.read_request import ExpansionLimit
from app.tables.write import OptionError
from app.web.http.methods import allowed
from app.web.problems.problem import Problem, invalid_parameter, invalid_request, problem_response
from app.web.problems.problem_types import PROBLEMS, ProblemType

RETRY_SECONDS = "5"
"""Seconds until a client that a full pool refused may try again."""

_BY_STATUS: Mapping[int, str] = {
    400: "malformed",
    401: "unauthorized",
    404: "not-found",
    405: "method-not-allowed",
    406: "not-acceptable",
    413: "too-large",
    415: "unsupported-media-type",
    503: "unavailable",
}

log = logger(__name__)


def _unavailable(what: str) -> Problem:
    return Problem("unavailable", f"{what} cannot be read or written at present", {"Retry-After": RETRY_SECONDS})


_HANDLED: Mapping[type[Exception], Callable[[Any], Problem]] = {
    Problem: lambda problem: problem,
    RequestValidationError: lambda error: invalid_request(error.errors()),
    BadCursor: lambda _: invalid_parameter("cursor", "not a cursor of this listing"),
    OptionError: lambda error: invalid_parameter(error.option, error.why),
    StoreFull: lambda _: Problem("storage-full", "the content store is full"),
    DamagedError: lambda error: Problem("damaged", f"the content is not served: {error}"),
    CatalogError: lambda _: _unavailable("the catalog"),
    NotArchived: lambda error: Problem("unavailable", str(error), {"Retry-After": RETRY_SECONDS}),
    GatewayError: lambda _: _unavailable("the journal or the content store"),
    Busy: lambda error: Problem("busy", str(error), {"Retry-After": RETRY_SECONDS}),
    TooManyUploads: lambda error: _uploads_limited("too-many-uploads", error),
    UploadSuperseded: lambda error: Problem("superseded", str(error)),
    QuotaExceeded: lambda error: _uploads_limited("upload-quota", error),
    LimitExceeded: lambda error: Problem("conversion-limit", str(error), limit=f"limits.{error.limit}"),
    ExpansionLimit: lambda error: Problem("expansion-limit", str(error), limit="limits.expansion"),
}
"""The problem for each error that an endpoint may raise."""


def _uploads_limited(word: str, error: UploadLimitReached) -> Problem:
    return Problem(word, str(error), {"Retry-After": "60"}, limit=error.limit, used=error.used)


def install(app: FastAPI) -> None:
    """Register handlers that convert every error of the application to a problem."""
    app.add_exception_handler(HTTPException, _on_http)
    for kind in _HANDLED:
        app.add_exception_handler(kind, _on_error)
    app.add_middleware(IncidentMiddleware)


def _on_error(request: Request, error: Exception) -> JSONResponse:
    kind = next(each for each in type(error).__mro__ if each in _HANDLED)
    if kind is GatewayError:
        log.error("storage_failed", method=request.method, path=request.url.path, reason=str(error))
    if isinstance(error, CatalogDamaged):
        log.error("catalog_damaged", reason=str(error))
    return _HANDLED[kind](error).response(request.url.path)


def _on_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    phrase = HTTPStatus(error.status_code).phrase
    word = _BY_STATUS.get(error.status_code)
    kind = PROBLEMS[word] if word else ProblemType("", error.status_code, phrase, phrase)
    detail = kind.meaning if error.detail == phrase else str(error.detail)
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = ", ".join(allowed(request.scope))
    return problem_response(kind, detail, request.url.path, headers, {})


class IncidentMiddleware:
    """Middleware that converts an internal error to a problem with an incident's number and without internal
    details, and a request that the server cuts because it stops to a problem for which the client tries again.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def watching(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self.app(scope, receive, watching)
        except asyncio.CancelledError:
            log.warning("request_cancelled", method=scope["method"], path=scope["path"])
            if not started:
                why = "the gateway stops, and this request was not finished"
                problem = Problem("unavailable", why, {"Retry-After": RETRY_SECONDS, "Connection": "close"})
                await problem.response(scope["path"])(scope, receive, send)
        except Exception as error:
            incident = token_hex(8)
            log.exception("request_failed", incident=incident, method=scope["method"], path=scope["path"])
            if started:
                raise
            problem = Problem("internal", f"incident {incident} is in the gateway's log", incident=incident)
            problem.__cause__ = error
            await problem.response(scope["path"])(scope, receive, send)
