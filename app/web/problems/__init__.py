"""Problem details (RFC 9457): every error response of REST, from one table.

`python -m app.web.problems` prints the table as docs/problems.md.
"""

from app.web.problems.problem import Problem, field_errors, pointer_to
from app.web.problems.problem_types import table
from app.web.problems.schemas import FieldError, responses, schemas

__all__ = ["FieldError", "Problem", "field_errors", "pointer_to", "responses", "schemas", "table"]
