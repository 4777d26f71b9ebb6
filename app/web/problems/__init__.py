"""Problem details (RFC 9457): every error response of REST, from one table."""

from app.web.problems.problem import FieldError, Problem, field_errors, pointer_to, responses, schemas
from app.web.problems.problem_types import table

__all__ = ["FieldError", "Problem", "field_errors", "pointer_to", "responses", "schemas", "table"]
