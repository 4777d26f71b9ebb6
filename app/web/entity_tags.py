"""Entity tags of JSON, and preconditions with them (RFC 9110, section 13.1.1)."""

from hashlib import sha256
from typing import Annotated

from fastapi import Header
from pydantic import BaseModel

from app.web.problems import Problem
from app.web.ranges import is_among

IfMatch = Annotated[str | None, Header(description="delete it only if it has this entity tag, which GET returns")]


def entity_tag(view: BaseModel) -> str:
    """Return the strong entity tag of a resource, with its quotes: the SHA-256 of its JSON."""
    return f'"{sha256(view.model_dump_json().encode()).hexdigest()}"'


def require_match(etag: str, if_match: str | None, what: str) -> None:
    """Raise Problem if an If-Match header names other entity tags than this one of `what`."""
    if if_match is not None and not is_among(etag, if_match):
        raise Problem("precondition-failed", f"{what} is {etag}", {"ETag": etag})
