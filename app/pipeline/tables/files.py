"""The rows of the table of all file attachments."""

from collections.abc import Iterable

import pyarrow as pa

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
    ]
)
"""`received_at` is when the first physical message of the attachment was received; `name` is its qualifier 2."""


def file_rows(files: Iterable[tuple[AttachmentRecord, Finished]]) -> pa.Table:
    """Return a row for each of these file attachments."""
    return pa.Table.from_pylist([_row(record, finished) for record, finished in files], SCHEMA)


def _row(record: AttachmentRecord, finished: Finished) -> dict[str, object]:
    return {
        "message": record.message_id,
        "attachment": record.id,
        "source": record.source,
        "received_at": record.first_received_at,
        "finished_at": finished.finished_at,
        "kind": None if record.kind is None else record.kind.word,
        "name": record.qualifier_2,
        "qualifier_1": record.qualifier_1,
        "description": record.description,
        "size": finished.size,
        "sha256": finished.sha256,
        "content_type": finished.content_type,
    }
