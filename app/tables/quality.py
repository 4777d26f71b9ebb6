"""The table that tells what receiving was like, by source and hour.

The table holds increments, as many for an hour as transactions had something to say of it, and `summed` adds them up.
An hour is that in which the first physical message of an attachment was received; what is no attachment's counts in its
own hour. An increment may be negative where it takes back what one before it said, of a missing range that has come.
"""

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

QUALITY = "quality"
"""The table's name."""

HOUR = 3_600_000_000
"""In microseconds."""

_MICROS = 1e6


class Increment(NamedTuple):
    """What one source has to add to one hour (µs, a multiple of `HOUR`).

    `messages` are physical messages, duplicates and conflicts among them; `missing_ranges` are gaps in the sequence
    numbers of attachments. `seconds_to_complete` is the sum over completed attachments of the time between their first
    physical message and their last, and `longest_seconds` the longest of them.
    """

    source: str
    hour: int
    messages: int = 0
    duplicates: int = 0
    conflicts: int = 0
    attachments_begun: int = 0
    attachments_completed: int = 0
    attachments_quarantined: int = 0
    missing_ranges: int = 0
    seconds_to_complete: float = 0.0
    longest_seconds: float = 0.0


SCHEMA = pa.schema(
    [
        pa.field("source", pa.string()),
        pa.field("hour", pa.timestamp("us", "UTC")),
        pa.field("messages", pa.int64()),
        pa.field("duplicates", pa.int64()),
        pa.field("conflicts", pa.int64()),
        pa.field("attachments_begun", pa.int64()),
        pa.field("attachments_completed", pa.int64()),
        pa.field("attachments_quarantined", pa.int64()),
        pa.field("missing_ranges", pa.int64()),
        pa.field("seconds_to_complete", pa.float64()),
        pa.field("longest_seconds", pa.float64()),
    ]
)

_KEY = ("source", "hour")
_GREATEST = ("longest_seconds",)


def hour_of(time: int) -> int:
    """The hour that a time lies in, both in µs."""
    return time - time % HOUR


def quality_rows(increments: Iterable[Increment]) -> pa.Table:
    """A row for each source and hour that increments add something to."""
    return summed(pa.Table.from_pylist([each._asdict() for each in increments], SCHEMA).to_batches())


def summed(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """A row for each source and hour, in this order, of the rows of the table."""
    rows = pa.Table.from_batches(batches, SCHEMA)
    how = [(name, "max" if name in _GREATEST else "sum") for name in SCHEMA.names if name not in _KEY]
    grouped = rows.group_by(list(_KEY)).aggregate(how).rename_columns({f"{name}_{word}": name for name, word in how})
    micros = pc.round(pc.multiply(grouped["seconds_to_complete"], _MICROS))
    seconds = pc.divide(micros, _MICROS)  # the same in whatever order they were added up
    at = grouped.schema.get_field_index("seconds_to_complete")
    whole = grouped.set_column(at, "seconds_to_complete", seconds).select(SCHEMA.names).cast(SCHEMA)
    return whole.sort_by([(name, "ascending") for name in _KEY])
