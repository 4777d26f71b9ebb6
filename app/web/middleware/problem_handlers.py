"""Conversion of every error of the application to a problem."""

from collections.abc import Mapping
from http import HTTPStatus
from secrets import token_hex

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.model.errors import CatalogError, DamagedError, GatewayError, LimitExceeded, StoreFull
from app.observe import logger
from app.ports import BadCursor
from app.service.conversion import Busy
from app.tables.read.overrides import ExpansionLimit
from app.tables.write import OptionError
from app.web.http.methods import allowed
from app.web.problems.problem import Problem, field_errors, problem_response
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


def install(app: FastAPI) -> None:
    """Register handlers that convert every error of the application to a problem."""
    app.add_exception_handler(Problem, _on_problem)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(BadCursor, _on_bad_cursor)
    app.add_exception_handler(OptionError, _on_option_error)
    app.add_exception_handler(StoreFull, _on_store_full)
    app.add_exception_handler(DamagedError, _on_damaged)
    app.add_exception_handler(CatalogError, _on_catalog_error)
    app.add_exception_handler(GatewayError, _on_gateway_error)
    app.add_exception_handler(Busy, _on_busy)
    app.add_exception_handler(LimitExceeded, _on_limit_exceeded)
    app.add_exception_handler(ExpansionLimit, _on_expansion)
    app.add_middleware(IncidentMiddleware)


def _on_problem(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Problem)
    return error.response(request.url.path)


def _on_invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    errors = field_errors(error.errors())
    detail = "; ".join(f"{e.get('parameter') or e.get('pointer')}: {e['detail']}" for e in errors)
    return Problem("invalid", detail, errors=errors).response(request.url.path)


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


def _on_bad_cursor(request: Request, _error: Exception) -> JSONResponse:
    errors = [{"detail": "not a cursor of this listing", "parameter": "cursor"}]
    return Problem("invalid", f"cursor: {errors[0]['detail']}", errors=errors).response(request.url.path)


def _on_option_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, OptionError)
    errors = [{"detail": error.why, "parameter": error.option}]
    return Problem("invalid", str(error), errors=errors).response(request.url.path)


def _on_damaged(request: Request, error: Exception) -> JSONResponse:
    return Problem("damaged", f"the content is not served: {error}").response(request.url.path)


def _on_catalog_error(request: Request, _error: Exception) -> JSONResponse:
    return _unavailable(request, "the catalog")


def _on_gateway_error(request: Request, error: Exception) -> JSONResponse:
    log.error("storage_failed", method=request.method, path=request.url.path, reason=str(error))
    return _unavailable(request, "the journal or the content store")


def _unavailable(request: Request, what: str) -> JSONResponse:
    detail = f"{what} cannot be read or written at present"
    return Problem("unavailable", detail, {"Retry-After": "5"}).response(request.url.path)


def _on_store_full(request: Request, _error: Exception) -> JSONResponse:
    return Problem("storage-full", "the content store is full").response(request.url.path)


def _on_busy(request: Request, error: Exception) -> JSONResponse:
    return Problem("busy", str(error), {"Retry-After": RETRY_SECONDS}).response(request.url.path)


def _on_limit_exceeded(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, LimitExceeded)
    return Problem("conversion-limit", str(error), limit=f"limits.{error.limit}").response(request.url.path)


def _on_expansion(request: Request, error: Exception) -> JSONResponse:
    return Problem("expansion-limit", str(error), limit="limits.expansion").response(request.url.path)


class IncidentMiddleware:
    """Middleware that converts an internal error to a problem with an incident's number and without internal
    details.
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
        except Exception as error:
            incident = token_hex(8)
            log.exception("request_failed", incident=incident, method=scope["method"], path=scope["path"])
            if started:
                raise
            problem = Problem("internal", f"incident {incident} is in the gateway's log", incident=incident)
            problem.__cause__ = error
            await problem.response(scope["path"])(scope, receive, send)
