"""What the gateway gives out, it takes back: every format under every option, cell for cell."""

from datetime import timedelta
from itertools import product
from typing import Any

import pyarrow as pa

from app.dataset import side_columns
from app.tables.read.read_request import DataSetTarget
from app.tables.write import FORMATS
from tests.support.cases import for_each
from tests.support.tables import visits
from tests.tables.out.making import made
from tests.tables.read.reading import defined, opened, sent

NAMES = [name for name in FORMATS if name != "sas"]
"""All formats for downloads except the program for SAS, which is not a format for uploads."""

CHOICES: dict[str, list[Any]] = {
    "missing": ["null", "tag", "column"],
    "dates": [None, "sas"],
    "names": [None, "lower"],
    "blank": [None, "null"],
    "rename": [None, True],
}


def variants(name: str) -> list[dict[str, Any]]:
    """Every combination of the options that a format has."""
    known = FORMATS[name]
    choices = {key: values for key, values in CHOICES.items() if key in known.options}
    choices["missing"] = list(known.missing)
    return [dict(zip(choices, values, strict=True)) for values in product(*choices.values())]


def plain(column: pa.ChunkedArray) -> list[Any]:
    """Values as numbers that SAS has, or texts."""
    return [value.total_seconds() if isinstance(value, timedelta) else value for value in column.to_pylist()]


def as_sas(column: pa.ChunkedArray) -> list[Any]:
    """Dates and times as the numbers that SAS keeps."""
    scale = {pa.date32(): (1, 3653), pa.timestamp("us"): (1_000_000, 315_619_200), pa.time64("us"): (1_000_000, 0)}
    if column.type not in scale:
        return plain(column)
    unit, origin = scale[column.type]
    ticks = column.cast(pa.int32() if column.type == pa.date32() else pa.int64()).to_pylist()
    return [None if tick is None else tick / unit + origin for tick in ticks]


def cells(table: pa.Table, options: dict[str, Any], *, numbers: bool) -> list[list[Any]]:
    """The cells of a table's variables in order, and of side columns that the options keep."""
    kept = []
    for field, column in zip(table.schema, table.columns, strict=True):
        if side_columns.bytes_of(field) is None and (
            side_columns.missing_of(field) is None or options["missing"] != "null"
        ):
            kept.append(as_sas(column) if numbers else plain(column))
    return kept


@for_each("name, options", [(name, options) for name in NAMES for options in variants(name)])
def test_what_is_given_out_is_taken_back(name: str, options: dict[str, Any]) -> None:
    table = visits()
    data = made(table, name, **options)
    texts = {field.name.lower(): "character" for field in table.schema if pa.types.is_string(field.type)}
    types = {key: kind for key, kind in texts.items() if not key.endswith("__missing")}
    reading = opened(data, f"x{FORMATS[name].extension}", tags=options["missing"] == "tag", types=types)
    target = DataSetTarget("utf-8", "ibm" if name.startswith("xpt") else "ieee")
    found = sent(defined(reading, target))
    numbers = options.get("dates") == "sas"
    assert cells(found, options, numbers=numbers) == cells(table, options, numbers=numbers)
