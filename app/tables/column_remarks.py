"""The field metadata `table.*`, about the origin of a table's columns: texts, or lists of texts as JSON."""

import json
from collections.abc import Iterator

import pyarrow as pa

VARIABLE = "table.variable"
"""The variable whose values a column has, by its case-folded name; see `schema_evolution` for the others."""

WARNING = "table.warning"
"""The reason why a column has another name than its variable."""

FORMER_LABELS = "table.former_labels"
FORMER_FORMATS = "table.former_formats"
"""Other labels and formats that data sets gave the variable."""


def remarks(field: pa.Field) -> Iterator[str]:
    """Yield remarks on a table's column, for people."""
    metadata = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
    if WARNING in metadata:
        yield metadata[WARNING]
    for key, what in ((FORMER_LABELS, "labels"), (FORMER_FORMATS, "formats")):
        if key in metadata:
            yield f"other {what} in earlier data sets: {', '.join(map(repr, json.loads(metadata[key])))}"
