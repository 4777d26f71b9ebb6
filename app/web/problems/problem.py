"""The exception that becomes a problem response, and its members (RFC 9457)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fastapi.responses import JSONResponse

from app.model.errors import DamagedError
from app.model.masking import masked
from app.model.validation import sentence
from app.web.problems.problem_types import PROBLEMS, ProblemType

MEDIA_TYPE = "application/problem+json"


class Problem(Exception):
    """An exception that is answered as a problem. `extensions` are further members, `headers` further header fields."""

    def __init__(self, word: str, detail: str, headers: Mapping[str, str] | None = None, **extensions: Any) -> None:
        super().__init__(detail)
        self.kind, self.detail, self.headers, self.extensions = PROBLEMS[word], detail, headers, extensions

    def response(self, instance: str) -> JSONResponse:
        return problem_response(self.kind, self.detail, instance, self.headers, self.extensions)


def problem_response(
    kind: ProblemType,
    detail: str,
    instance: str,
    headers: Mapping[str, str] | None,
    extensions: Mapping[str, Any],
) -> JSONResponse:
    body = {
        "type": kind.uri,
        "title": kind.title,
        "status": kind.status,
        "detail": masked(detail),
        "instance": instance,
    }
    return JSONResponse(
        body | dict(extensions), kind.status, {"Cache-Control": "no-store"} | dict(headers or {}), MEDIA_TYPE
    )


def damaged(error: DamagedError) -> Problem:
    """Return the problem for content that differs from what was received."""
    return Problem("damaged", f"the content is not served: {error}")


def field_errors(errors: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return errors of pydantic in the form of RFC 9457: with a JSON pointer into the body, or a parameter's name."""
    return [_field_error(error["loc"], sentence(error, of_request=True)) for error in errors]


def pointer_to(location: Sequence[int | str]) -> str:
    """Return a JSON pointer (RFC 6901) as a URI fragment."""
    return "#" + "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in location)


def _field_error(location: Sequence[int | str], why: str) -> dict[str, str]:
    if location and location[0] in ("query", "path", "header"):
        return {"detail": why, "parameter": str(location[-1])}
    return {"detail": why, "pointer": pointer_to(location[1:] if location[:1] == ("body",) else location)}
