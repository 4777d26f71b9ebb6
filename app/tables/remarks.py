"""What the fields of a table say of how its columns came to be, beside `sas.*`; texts, or lists of texts as JSON."""

import json
from collections.abc import Iterator

import pyarrow as pa

VARIABLE = "table.variable"
"""The variable whose values a column has, by its case-folded column name in data sets."""

WARNING = "table.warning"
"""Why a column is not named like its variable."""

FORMER_LABELS = "table.former_labels"
FORMER_FORMATS = "table.former_formats"
"""What else data sets gave the variable."""


def remarks(field: pa.Field) -> Iterator[str]:
    """What people should know of a table's column."""
    said = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
    if WARNING in said:
        yield said[WARNING]
    for key, what in ((FORMER_LABELS, "labels"), (FORMER_FORMATS, "formats")):
        if key in said:
            yield f"other {what} in earlier data sets: {', '.join(map(repr, json.loads(said[key])))}"
