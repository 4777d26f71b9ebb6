"""Bodies of JSON that are read by the endpoint: FastAPI reads a declared body before it asks who calls."""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from app.web.problems import Problem, invalid_request

LARGEST: Final = 16 << 10
"""The maximum number of bytes of a body."""

M = TypeVar("M", bound=BaseModel)


def request_body(model: type[BaseModel]) -> dict[str, Any]:
    """Return the description of such a body for OpenAPI."""
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})
    content = {"application/json": {"schema": inlined(schema, definitions)}}
    return {"requestBody": {"required": True, "content": content}}


def inlined(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """Return a schema with its definitions in place: from an operation, references point into the whole document."""
    if isinstance(schema, list):
        return [inlined(each, definitions) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return inlined(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    return {name: inlined(each, definitions) for name, each in schema.items()}


async def read_json(request: Request, model: type[M]) -> M:
    """Return the body of a request. Raises Problem for one that is too large, or is not as `model` describes it."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > LARGEST:
            raise Problem("too-large", f"the body may have {LARGEST} bytes", limit=LARGEST)
    try:
        return model.model_validate_json(bytes(body), strict=True)
    except ValidationError as error:
        raise invalid_request(error.errors(include_url=False), is_body=True) from None
