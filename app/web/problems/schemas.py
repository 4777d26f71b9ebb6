"""The JSON of problems, and their description for OpenAPI."""

from typing import Any

from pydantic import BaseModel, Field

from app.web.problems.problem import MEDIA_TYPE
from app.web.problems.problem_types import PROBLEMS, ProblemType

_SCHEMA = {"$ref": "#/components/schemas/ProblemView"}


class FieldError(BaseModel):
    """One error in a request.

    `pointer` is a JSON pointer into the body, `parameter` names a parameter. With /problems/unsuitable, `variable` is a
    variable of a data set, `row` an observation counted from 1, and `code` an identifier for programs.
    """

    detail: str
    pointer: str | None = None
    parameter: str | None = None
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
    """Return OpenAPI's description of the responses of an endpoint with these problems, with examples."""
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
    """Return the JSON schemas that `responses` refers to, for OpenAPI's components."""
    whole = ProblemView.model_json_schema(ref_template="#/components/schemas/{model}")
    return {**whole.pop("$defs"), "ProblemView": whole}
