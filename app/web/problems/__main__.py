"""Command that prints the table of problems."""

import sys

from app.web.problems.problem_types import table

sys.stdout.write(table())
