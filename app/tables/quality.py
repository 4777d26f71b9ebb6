"""The quality table: facts about receiving, by source and hour.

The table holds increments: each transaction adds one for every hour that it has facts about, and `summed` adds them up.
An increment counts in the hour in which the first physical message of its attachment was received. Messages without an
attachment count in their own hour. An increment may be negative if it corrects an earlier one, for a missing range that
was received later.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

QUALITY = "quality"
"""The table's name."""

HOUR = 3_600_000_000
"""An hour in microseconds."""

_MICROS = 1e6


class Increment(NamedTuple):
    """The facts that one source adds to one hour (µs, a multiple of `HOUR`).

    `messages` are physical messages, including duplicates and conflicts. `missing_ranges` are gaps in the sequence
    numbers of attachments. `seconds_to_complete` is the sum, over completed attachments, of the time between their
    first and last physical message; `longest_seconds` is the longest such time.
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

_HOUR = SCHEMA.field("hour").type
KEY = ("source", "hour")
"""The columns for whose values increments are added up."""
_GREATEST = ("longest_seconds",)
_SUMMED_AT_ONCE = 10_000


def hour_of(time: int) -> int:
    """Return the hour that contains a time, both in µs."""
    return time - time % HOUR


def quality_rows(increments: Iterable[Increment]) -> pa.Table:
    """Return a row for each source and hour that increments add to. Few of the increments are held at a time."""
    rows = summed([])
    coming = iter(increments)
    while some := list(islice(coming, _SUMMED_AT_ONCE)):
        columns = dict(zip(SCHEMA.names, zip(*some, strict=True), strict=True))
        rows = summed([*rows.to_batches(), pa.RecordBatch.from_pydict(columns, SCHEMA)])
    return rows


def increments(rows: pa.Table) -> Iterator[Increment]:
    """Yield the increments in rows of the table."""
    for row in rows.to_pylist():
        yield Increment(**{**row, "hour": pa.scalar(row["hour"], _HOUR).value})


def summed(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Return the rows of the table summed to one row for each source and hour, in this order."""
    rows = pa.Table.from_batches(batches, SCHEMA)
    how = [(name, "max" if name in _GREATEST else "sum") for name in SCHEMA.names if name not in KEY]
    grouped = rows.group_by(list(KEY)).aggregate(how).rename_columns({f"{name}_{word}": name for name, word in how})
    micros = pc.round(pc.multiply(grouped["seconds_to_complete"], _MICROS))
    seconds = pc.divide(micros, _MICROS)  # rounded, so that the order of the additions does not matter
    at = grouped.schema.get_field_index("seconds_to_complete")
    whole = grouped.set_column(at, "seconds_to_complete", seconds).select(SCHEMA.names).cast(SCHEMA)
    return whole.sort_by([(name, "ascending") for name in KEY])
