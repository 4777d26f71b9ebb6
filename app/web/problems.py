"""Problem details (RFC 9457): every error that REST answers with, from one table.

`python -m app.web.problems` prints the table as docs/problems.md.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from secrets import token_hex
from typing import Any, NamedTuple

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.model.errors import CatalogError, DamagedError, StoreFull
from app.observe import logger
from app.ports import BadCursor
from app.service.conversion import Busy, LimitExceeded
from app.web.methods import allowed

_SCHEMA = {"$ref": "#/components/schemas/ProblemView"}
MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = "5"
"""When a client may try again that a full pool refused."""
log = logger(__name__)


class ProblemType(NamedTuple):
    """One row: the last word of its `type` URI, its status, and what it tells people."""

    word: str
    status: int
    title: str
    meaning: str

    @property
    def uri(self) -> str:
        return f"/problems/{self.word}" if self.word else "about:blank"


_TABLE = (
    ProblemType(
        "malformed", 400, "The request cannot be read", "The request's framing is broken; `detail` says where."
    ),
    ProblemType(
        "unauthorized", 401, "A bearer token is needed", "No token was given, or none that this gateway knows."
    ),
    ProblemType("not-found", 404, "There is no such thing", "Nothing has this identifier or this path."),
    ProblemType(
        "table-not-found",
        404,
        "There is no such table",
        "`/v1/tables` lists those there are.",
    ),
    ProblemType("method-not-allowed", 405, "This method does not apply", "`Allow` lists the methods that do."),
    ProblemType(
        "not-acceptable", 406, "No such representation", "`available` lists the formats that this content comes in."
    ),
    ProblemType(
        "not-ready",
        409,
        "The attachment is not finished",
        "Its content can be read once it is; `progress` says how far it is.",
    ),
    ProblemType(
        "unreadable",
        409,
        "The attachment could not be understood",
        "Everything arrived, but it breaks its layout; `reason` says where.",
    ),
    ProblemType(
        "in-flight", 409, "The same key is being used", "Another request with this idempotency key is running."
    ),
    ProblemType("not-a-data-set", 409, "Only data sets have this", "The attachment is a file."),
    ProblemType(
        "gone", 410, "It is gone", "It was deleted, or expired before it was complete, or was retained no longer."
    ),
    ProblemType(
        "precondition-failed", 412, "A precondition is false", "The content is not the one that If-Match names."
    ),
    ProblemType("too-large", 413, "The request is too large", "`limit` is what the gateway takes."),
    ProblemType("unsupported-media-type", 415, "This media type is not taken", "`accepted` lists those that are."),
    ProblemType(
        "range-not-satisfiable", 416, "The range lies outside", "Content-Range tells the size of the whole content."
    ),
    ProblemType("invalid", 422, "The request is not valid", "`errors` lists every field that is wrong."),
    ProblemType(
        "not-representable",
        422,
        "The format cannot hold this data set",
        "`misfits` lists of each variable what the format cannot hold, and what `rename=true` would make of it.",
    ),
    ProblemType(
        "not-recognised", 422, "The bytes are of no known format", "`tried` tells for each format how far it came."
    ),
    ProblemType(
        "unsuitable",
        422,
        "The file makes no data set that can be sent",
        "`errors` lists everything that SAS or the destination cannot take, with its variable and its row.",
    ),
    ProblemType(
        "unknown-destination", 422, "There is no such destination", "`known` lists the destinations of this gateway."
    ),
    ProblemType(
        "key-reused",
        422,
        "The idempotency key stands for another request",
        "Send the very same request again, or take a new key.",
    ),
    ProblemType(
        "conversion-limit",
        422,
        "The conversion takes too much memory or time",
        "`limit` names the limit of the gateway's configuration; a smaller file, or fewer rows, may stay below it.",
    ),
    ProblemType(
        "damaged",
        500,
        "The content is damaged",
        "Its bytes on disk are not those that were received, or cannot be read. Once repaired, it is served again.",
    ),
    ProblemType("internal", 500, "The gateway failed", "The fault is logged under `incident`."),
    ProblemType(
        "unavailable",
        503,
        "The gateway is not taking requests",
        "It is starting or stopping, or its catalog cannot be read or written; try again.",
    ),
    ProblemType(
        "busy", 503, "The gateway has too much to do", "As many conversions run and wait as may; see `Retry-After`."
    ),
    ProblemType(
        "tables-unavailable",
        503,
        "The gateway cannot read tables",
        "`detail` says which library to install.",
    ),
    ProblemType("storage-full", 507, "There is no room", "The gateway's disk or store is full; try again later."),
)
PROBLEMS: Mapping[str, ProblemType] = {problem.word: problem for problem in _TABLE}
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


class Problem(Exception):
    """An answer that is a problem. `extensions` are further members, `headers` further header fields."""

    def __init__(self, word: str, detail: str, headers: Mapping[str, str] | None = None, **extensions: Any) -> None:
        super().__init__(detail)
        self.kind, self.detail, self.headers, self.extensions = PROBLEMS[word], detail, headers, extensions

    def response(self, instance: str) -> JSONResponse:
        return _response(self.kind, self.detail, instance, self.headers, self.extensions)


class FieldError(BaseModel):
    """One thing wrong with a request: `pointer` is a JSON pointer into the body, `parameter` names a parameter. With
    /problems/unsuitable, `variable` is one of a data set, `row` an observation from 1, `code` a word for programs."""

    detail: str
    pointer: str | None = None
    parameter: str | None = None
    variable: str | None = None
    row: int | None = None
    code: str | None = None


class ProblemView(BaseModel, extra="allow"):
    """Problem details (RFC 9457)."""

    type: str = Field(description="which problem it is; stable", examples=["/problems/not-found"])
    title: str = Field(examples=["There is no such thing"])
    status: int = Field(examples=[404])
    detail: str = Field(description="what happened this time")
    instance: str = Field(description="the path that was asked for")
    errors: list[FieldError] | None = Field(default=None, description="with /problems/invalid: every wrong field")


def field_errors(errors: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """pydantic's errors as RFC 9457 shows them: a JSON pointer into the body, or the parameter's name."""
    return [_field_error(error["loc"], error["msg"].removeprefix("Value error, ")) for error in errors]


def pointer_to(location: Sequence[int | str]) -> str:
    """A JSON pointer (RFC 6901) as a URI fragment."""
    return "#" + "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in location)


def _field_error(location: Sequence[int | str], why: str) -> dict[str, str]:
    if location and location[0] in ("query", "path", "header"):
        return {"detail": why, "parameter": str(location[-1])}
    return {"detail": why, "pointer": pointer_to(location[1:] if location[:1] == ("body",) else location)}


def responses(*words: str) -> dict[int | str, dict[str, Any]]:
    """OpenAPI's responses for an endpoint that may answer with these problems, examples included."""
    described: dict[int | str, dict[str, Any]] = {}
    for kind in (PROBLEMS[word] for word in (*words, "internal")):
        entry = described.setdefault(
            kind.status, {"description": kind.title, "content": {MEDIA_TYPE: {"schema": _SCHEMA, "examples": {}}}}
        )
        entry["content"][MEDIA_TYPE]["examples"][kind.word] = {
            "summary": kind.title,
            "value": {
                "type": kind.uri,
                "title": kind.title,
                "status": kind.status,
                "detail": kind.meaning,
                "instance": "/v1/…",
            },
        }
    return described


def schemas() -> dict[str, Any]:
    """What `responses` refers to, for OpenAPI's components."""
    whole = ProblemView.model_json_schema(ref_template="#/components/schemas/{model}")
    return {**whole.pop("$defs"), "ProblemView": whole}


router = APIRouter(prefix="/problems", tags=["operations"])


class ProblemTypeView(BaseModel):
    """One type of problem."""

    type: str = Field(examples=["/problems/not-found"])
    status: int
    title: str
    meaning: str

    @classmethod
    def of(cls, kind: ProblemType) -> "ProblemTypeView":
        return cls(type=kind.uri, status=kind.status, title=kind.title, meaning=kind.meaning)


@router.get("", operation_id="list_problems")
def list_problems() -> list[ProblemTypeView]:
    """Every type of problem that REST answers with."""
    return [ProblemTypeView.of(kind) for kind in _TABLE]


@router.get("/{word}", operation_id="get_problem", responses=responses("not-found"))
def get_problem(word: str) -> ProblemTypeView:
    """What a problem's `type` refers to."""
    if word not in PROBLEMS:
        raise Problem("not-found", "there is no such type of problem")
    return ProblemTypeView.of(PROBLEMS[word])


def install(app: FastAPI) -> None:
    """Makes every error of the application a problem."""
    app.add_exception_handler(Problem, _on_problem)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(BadCursor, _on_bad_cursor)
    app.add_exception_handler(StoreFull, _on_store_full)
    app.add_exception_handler(DamagedError, _on_damaged)
    app.add_exception_handler(CatalogError, _on_catalog_error)
    app.add_exception_handler(Busy, _on_busy)
    app.add_exception_handler(LimitExceeded, _on_limit_exceeded)
    app.add_middleware(IncidentMiddleware)


def _response(
    kind: ProblemType,
    detail: str,
    instance: str,
    headers: Mapping[str, str] | None,
    extensions: Mapping[str, Any],
) -> JSONResponse:
    body = {"type": kind.uri, "title": kind.title, "status": kind.status, "detail": detail, "instance": instance}
    return JSONResponse(
        body | dict(extensions), kind.status, {"Cache-Control": "no-store"} | dict(headers or {}), MEDIA_TYPE
    )


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
    return _response(kind, detail, request.url.path, headers, {})


def _on_bad_cursor(request: Request, _error: Exception) -> JSONResponse:
    errors = [{"detail": "not a cursor of this listing", "parameter": "cursor"}]
    return Problem("invalid", f"cursor: {errors[0]['detail']}", errors=errors).response(request.url.path)


def damaged(error: DamagedError) -> Problem:
    """What is answered when content is not as it was received, before anything of it was answered."""
    return Problem("damaged", f"the content is not served: {error}")


def _on_damaged(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, DamagedError)
    return damaged(error).response(request.url.path)


def _on_catalog_error(request: Request, _error: Exception) -> JSONResponse:
    problem = Problem("unavailable", "the catalog cannot be read or written at present", {"Retry-After": "5"})
    return problem.response(request.url.path)


def _on_store_full(request: Request, _error: Exception) -> JSONResponse:
    return Problem("storage-full", "the content store takes nothing more at present").response(request.url.path)


def _on_busy(request: Request, error: Exception) -> JSONResponse:
    return Problem("busy", str(error), {"Retry-After": RETRY_SECONDS}).response(request.url.path)


def _on_limit_exceeded(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, LimitExceeded)
    return Problem("conversion-limit", str(error), limit=f"limits.{error.limit}").response(request.url.path)


class IncidentMiddleware:
    """Turns a fault of ours into a problem that tells an incident's number and nothing of the inside."""

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
            log.exception("request failed", incident=incident, method=scope["method"], path=scope["path"])
            if started:
                raise
            problem = Problem("internal", f"incident {incident} is in the gateway's log", incident=incident)
            problem.__cause__ = error
            await problem.response(scope["path"])(scope, receive, send)


def table() -> str:
    """The table as Markdown, for docs/problems.md."""
    head = (
        "# Problems\n\n"
        "Every error of REST is `application/problem+json` (RFC 9457). `type` is stable: programs may rely on it;\n"
        "`detail` is for people. The table is printed by `python -m app.web.problems`.\n\n"
        "| type | status | title | meaning |\n|---|---|---|---|\n"
    )
    return head + "".join(f"| `{p.uri}` | {p.status} | {p.title} | {p.meaning} |\n" for p in _TABLE)


if __name__ == "__main__":
    sys.stdout.write(table())
