"""Statistics of a file in a Delta table, by which readers skip files without matching rows.

They are numbers of nulls, and the least and the greatest value, of the first 32 columns (Delta's own choice), from the
Parquet file's row groups. Bounds may be too wide and never too narrow. Long texts are cut, and a cut greatest text gets
the last character of Unicode appended. Columns with NaN, or with bounds that JSON cannot represent, have none.

Source: Delta transaction log protocol, "Per-file Statistics".
"""

import json
import math
from collections.abc import Collection, Iterator
from datetime import date, datetime
from typing import Any

import pyarrow.parquet as pq

COLUMNS = 32
LONGEST_TEXT = 32
_LAST_CHARACTER = "\U0010ffff"


def statistics(metadata: pq.FileMetaData, without_bounds: Collection[str]) -> str:
    """Return the statistics as Delta's JSON text. The columns `without_bounds` get only a number of nulls."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for at in range(min(metadata.num_columns, COLUMNS)):
        name = metadata.schema.column(at).name
        groups = [metadata.row_group(n).column(at).statistics for n in range(metadata.num_row_groups)]
        if any(group is None or not group.has_null_count for group in groups):
            continue
        nulls[name] = sum(group.null_count for group in groups)
        bounds = None if name in without_bounds else _bounds(groups)
        if bounds is not None:
            least[name], greatest[name] = bounds
    return json.dumps(
        {"numRecords": metadata.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls},
        ensure_ascii=False,
        allow_nan=False,
    )


def _bounds(groups: list[pq.Statistics]) -> tuple[Any, Any] | None:
    held = [group for group in groups if group.num_values]
    if not held or not all(group.has_min_max for group in held):
        return None
    try:
        least, greatest = min(group.min for group in held), max(group.max for group in held)
    except (ValueError, OverflowError):  # a time outside Python's range
        return None
    bounds = (*_json_values(least), *_json_values(greatest, is_greatest=True))
    return (bounds[0], bounds[1]) if len(bounds) == 2 else None


def _json_values(value: Any, *, is_greatest: bool = False) -> Iterator[Any]:
    """Yield the value in its JSON form; yield nothing if JSON cannot represent it."""
    if isinstance(value, float):
        if math.isfinite(value):
            yield value
    elif isinstance(value, str):
        text = value[:LONGEST_TEXT]
        if len(value) == len(text) or not is_greatest:
            yield text
        elif value[LONGEST_TEXT] != _LAST_CHARACTER:
            yield text + _LAST_CHARACTER
    elif isinstance(value, datetime):
        yield value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    elif isinstance(value, date):
        yield value.isoformat()
    elif isinstance(value, int):
        yield value
