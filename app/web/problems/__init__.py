"""Problem details (RFC 9457): every error response of REST, from one table."""

from app.web.problems.problem import (
    FieldError,
    Problem,
    invalid_content,
    invalid_parameter,
    invalid_request,
    pointer_to,
    responses,
    schemas,
)
from app.web.problems.problem_types import table

__all__ = [
    "FieldError",
    "Problem",
    "invalid_content",
    "invalid_parameter",
    "invalid_request",
    "pointer_to",
    "responses",
    "schemas",
    "table",
]
