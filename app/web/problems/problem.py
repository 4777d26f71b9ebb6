"""The exception that becomes a problem response, its members (RFC 9457), and their description."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from app.model.masking import masked
from app.model.validation import sentence
from app.web.problems.problem_types import PROBLEMS, ProblemType

MEDIA_TYPE = "application/problem+json"


_IN_A_PATH = "/:@!$&'()*+,;=~%"
"""The characters that a path has as they are (RFC 3986, section 3.3), and those that are percent-encoded already."""


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
        "instance": quote(instance, safe=_IN_A_PATH),
    }
    return JSONResponse(
        body | dict(extensions), kind.status, {"Cache-Control": "no-store"} | dict(headers or {}), MEDIA_TYPE
    )


def invalid_parameter(name: str, why: str) -> Problem:
    """Return the problem of one wrong parameter."""
    return Problem("invalid", f"{name}: {why}", errors=[{"detail": why, "parameter": name}])


def invalid_content(pointer: str, why: str) -> Problem:
    """Return the problem of one wrong place in a body."""
    return Problem("invalid", why, errors=[{"pointer": pointer, "detail": why}])


def invalid_request(errors: Iterable[Mapping[str, Any]], *, is_body: bool = False) -> Problem:
    """Return the problem of these errors of pydantic: each with a JSON pointer into the body, or a parameter's name.

    Errors of FastAPI begin with the place of a parameter, or `body`; those of a model for a body do not.
    """
    found, said = [], []
    for error in errors:
        location, why = error["loc"], sentence(error, of_request=True)
        if error["type"] == "json_invalid":
            return Problem("malformed", why)
        if not is_body and location and location[0] in ("query", "path", "header"):
            # A repeated parameter's location ends with the number of the value.
            name = location[1] if len(location) > 1 else location[0]
            kind, place = "header_field" if location[0] == "header" else "parameter", str(name)
        else:
            in_body = location[1:] if location[:1] == ("body",) else location
            in_body = in_body[:-1] if in_body[-1:] == ("[key]",) else in_body  # pydantic's word for a member's name
            kind, place = "pointer", pointer_to(in_body)
        found.append({"detail": why, kind: place})
        said.append(f"{place}: {why}")
    return Problem("invalid", "; ".join(said), errors=found)


def pointer_to(location: Sequence[int | str]) -> str:
    """Return a JSON pointer (RFC 6901) as a URI fragment."""
    return "#" + "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in location)


_SCHEMA = {"$ref": "#/components/schemas/ProblemView"}


class FieldError(BaseModel):
    """One error in a request.

    `pointer` is a JSON pointer into the body, `parameter` names a parameter, `header_field` a header field. With
    /problems/unsuitable, `variable` is a variable of a data set, `row` an observation counted from 1, and `code` an
    identifier for programs.
    """

    detail: str
    pointer: str | None = None
    parameter: str | None = None
    header_field: str | None = None
    variable: str | None = None
    row: int | None = None
    code: str | None = None


class ProblemView(BaseModel, extra="allow"):
    """Problem details (RFC 9457)."""

    type: str = Field(description="the type of problem; stable", examples=["/problems/not-found"])
    title: str = Field(examples=["Not found"])
    status: int = Field(examples=[404])
    detail: str = Field(description="explanation of this occurrence")
    instance: str = Field(description="the path of the request")
    errors: list[FieldError] | None = Field(default=None, description="with /problems/invalid: every wrong field")


class ProblemTypeView(BaseModel):
    """One type of problem."""

    type: str = Field(examples=["/problems/not-found"])
    status: int
    title: str
    meaning: str

    @classmethod
    def of(cls, kind: ProblemType) -> "ProblemTypeView":
        return cls(type=kind.uri, status=kind.status, title=kind.title, meaning=kind.meaning)


def responses(*words: str) -> dict[int | str, dict[str, Any]]:
    """Return OpenAPI's description of the responses of an endpoint with these problems, with examples, and with those
    that every endpoint has."""
    described: dict[int | str, dict[str, Any]] = {}
    for kind in (PROBLEMS[word] for word in (*words, "invalid", "internal")):
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
    """Return the JSON schemas that `responses` refers to, for OpenAPI's components."""
    whole = ProblemView.model_json_schema(ref_template="#/components/schemas/{model}")
    return {**whole.pop("$defs"), "ProblemView": whole}
