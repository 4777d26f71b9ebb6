"""Data sets whose names and types get into each other's way."""

from datetime import time, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from app.dataset import side_columns

NAMES = [
    "Value",
    "VALUE",
    "value__number",
    "Value__text",
    "VALUE__MISSING",
    "value__bytes_",
    "source",
    "Row",
    "SOURCE__variable",
    "a b",
    "a_b",
    "A B_",
    "straße",
    "STRASSE",
    "x\ny",
    "dot.ted",
]
MAY_BE_MISSING = {pa.float64(): side_columns.missing_field, pa.string(): side_columns.bytes_field}
DURATIONS = st.timedeltas(timedelta(-10_000), timedelta(10_000))
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.float64(): st.none() | st.floats(allow_nan=False),
    pa.string(): st.text("aä\0 ", max_size=3),
    pa.date32(): st.none() | st.dates(),
    pa.timestamp("us"): st.none() | st.datetimes(),
    pa.time64("us"): st.none() | st.times(),
    pa.duration("us"): st.none() | DURATIONS,
    pa.binary(): st.none() | st.binary(max_size=3),
    pa.decimal128(9, 2): st.none() | st.decimals(-(10**6), 10**6, places=2),
    pa.bool_(): st.none() | st.booleans(),
}


@st.composite
def data_set_schemas(draw: st.DrawFn) -> pa.Schema:
    """A data set's schema, with side columns."""
    names = draw(st.lists(st.sampled_from(NAMES), max_size=4, unique_by=str.casefold))
    taken = {name.casefold() for name in names}
    fields = []
    for name in names:
        kind = draw(st.sampled_from([kind for kind in VALUES if kind != pa.binary()]))
        said = {
            "sas.type": "character" if kind == pa.string() else "numeric",
            "sas.length": str(draw(st.integers(2, 8))),
            "sas.label": draw(st.sampled_from(["", "A label", "Another", "A third"])),
            "sas.format": draw(st.sampled_from(["", "BEST.", "F8.2"])),
        }
        said = {key: value for key, value in said.items() if value}
        fields.append(pa.field(name, kind, nullable=kind != pa.string(), metadata=said))
        if kind in MAY_BE_MISSING and draw(st.booleans()):
            fields.append(MAY_BE_MISSING[kind](name, taken))
            taken.add(fields[-1].name.casefold())
    label = draw(st.sampled_from(["", "A data set"]))
    return pa.schema(fields, {"sas.label": label, "sas.obs_length": str(draw(st.integers(0, 2)))})


@st.composite
def data_set_tables(draw: st.DrawFn) -> pa.Table:
    """A data set with a few rows."""
    schema = draw(data_set_schemas())
    rows = draw(st.integers(0, 3))
    columns = [pa.array(draw(st.lists(VALUES[f.type], min_size=rows, max_size=rows)), f.type) for f in schema]
    return pa.table(columns, schema=schema)


def as_duration(value: Any) -> Any:
    """A time of a day as the span since midnight; anything else as it is."""
    if not isinstance(value, time):
        return value
    return timedelta(hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond)
