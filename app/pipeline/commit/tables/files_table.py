"""The rows of the table of all file attachments."""

import json
from collections.abc import Iterable
from functools import lru_cache

import pyarrow as pa

from app.model.evidence import Choice
from app.model.records import AttachmentRecord, Finished

_TIME = pa.timestamp("us", "UTC")

SCHEMA = pa.schema(
    [
        pa.field("message", pa.string()),
        pa.field("attachment", pa.string()),
        pa.field("source", pa.string()),
        pa.field("received_at", _TIME),
        pa.field("finished_at", _TIME),
        pa.field("kind", pa.string()),
        pa.field("name", pa.string()),
        pa.field("qualifier_1", pa.string()),
        pa.field("description", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("sha256", pa.string()),
        pa.field("content_type", pa.string()),
        pa.field("warnings_count", pa.int64()),
        pa.field("warnings", pa.string()),
        pa.field("evidence", pa.string()),
    ]
)
"""`received_at` is when the first physical message of the attachment was received; `name` is its qualifier 2.

`warnings` and `evidence` are JSON, a list of texts and a list of objects as in REST: columns are of plain types, which
every reader of tables takes.
"""


def file_rows(files: Iterable[tuple[AttachmentRecord, Finished]]) -> pa.Table:
    """Return a row for each of these file attachments."""
    rows = [
        (
            record.message_id,
            record.id,
            record.source,
            record.first_received_at,
            finished.finished_at,
            None if record.kind is None else record.kind.word,
            record.qualifier_2,
            record.qualifier_1,
            record.description,
            finished.size,
            finished.sha256,
            finished.content_type,
            len(finished.warnings),
            _json(finished.warnings),
            _json(finished.evidence),
        )
        for record, finished in files
    ]
    columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMA)
    return pa.Table.from_pydict(dict(zip(SCHEMA.names, columns, strict=True)), SCHEMA)


def with_finished_at(rows: pa.Table, time: int) -> pa.Table:
    """Return the rows with this time (µs) of finishing."""
    at = SCHEMA.get_field_index("finished_at")
    return rows.set_column(at, SCHEMA.field(at), pa.repeat(pa.scalar(time, _TIME), rows.num_rows))


@lru_cache(maxsize=256)
def _json(values: tuple[str | Choice, ...]) -> str:
    """Return warnings or choices as JSON. Those of many files are the same."""
    return json.dumps([value._asdict() if isinstance(value, Choice) else value for value in values])
