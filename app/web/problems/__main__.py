"""Command that prints the table of problems."""

import sys

from app.web.problems.types import table

sys.stdout.write(table())
