"""Tables in the form of stored data sets, and helpers to examine them."""

from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq

TEXT = {"sas.type": "character", "sas.length": "24", "sas.format": "$24."}
NAME = {"sas.type": "character", "sas.length": "8", "sas.label": "First name", "sas.nsort": "1"}
NUMBER = {"sas.type": "numeric", "sas.length": "8"}


def field(name: str, data_type: pa.DataType, **said: str) -> pa.Field:
    """Return a variable's field; `said` is its metadata under `sas.*`."""
    basic = TEXT if pa.types.is_string(data_type) else NUMBER
    metadata = basic | {f"sas.{key}": value for key, value in said.items()}
    return pa.field(name, data_type, nullable=not pa.types.is_string(data_type), metadata=metadata)


def visits() -> pa.Table:
    """Return every kind of column: text, numbers, dates and times, and both kinds of side columns."""
    schema = pa.schema(
        [
            field("Name", pa.string(), label="First name", nsort="1"),
            field("Age", pa.float64(), label="Age, in years", format="BEST5.1", informat="F."),
            pa.field("Age__missing", pa.string(), metadata={"sas.missing_of": "Age"}),
            field("Seen", pa.date32(), format="DATE9.", kind="date"),
            field("Stamp", pa.timestamp("us"), format="DATETIME22.3", kind="datetime"),
            field("Clock", pa.time64("us"), format="TIME8.", kind="time"),
            field("Stay", pa.duration("us"), format="TIME12.", kind="time"),
            field("City", pa.string()),
            pa.field("City__bytes", pa.binary(), metadata={"sas.bytes_of": "City"}),
        ],
        {"sas.library": "CLINIC", "sas.member": "VISITS", "sas.label": "Who came", "sas.encoding": "utf-8"},
    )
    columns = [
        ['Åsa, "the" 1st', "", " lead", "tab\there\nline\r\nend", "😀 雪 \\ \x1f"],
        [14.0, None, None, -0.125, 1e70],
        [None, ".A", None, None, None],
        [date(1959, 12, 31), None, date(2026, 11, 21), date(9999, 12, 31), date(1582, 10, 15)],
        [datetime(2026, 11, 21, 8, 30), datetime(1960, 1, 1, 0, 0, 0, 500000), None, None, datetime(1, 1, 1)],
        [time(0), time(23, 59, 59, 999999), None, time(8, 30), None],
        [timedelta(hours=30, seconds=1.5), timedelta(seconds=-45), None, timedelta(0), timedelta(days=100)],
        ["Malmö", "Ki\ufffdl", "", "x", "y"],
        [None, b"Ki\xffl".ljust(24), None, None, None],
    ]
    return pa.table([pa.array(values, kind.type) for values, kind in zip(columns, schema, strict=True)], schema=schema)


def wide(columns: int = 300, rows: int = 50) -> pa.Table:
    """Return a table with more columns than are usually shown."""
    schema = pa.schema(
        [field(f"V{n}", pa.string() if n % 3 == 0 else pa.float64()) for n in range(columns)], {"sas.member": "WIDE"}
    )
    arrays = [
        pa.array([f"text {n}.{row}" if n % 3 == 0 else n + row / 8 for row in range(rows)], schema.field(n).type)
        for n in range(columns)
    ]
    return pa.table(arrays, schema=schema)


def long(rows: int = 200_000) -> pa.Table:
    """Return a table with more rows than are held in memory at once."""
    schema = pa.schema(
        [
            field("N", pa.float64()),
            field("Half", pa.float64()),
            field("When", pa.date32()),
            field("Text", pa.string(), length="160"),
        ],
        {"sas.member": "LONG"},
    )
    numbers = range(rows)
    columns: Mapping[str, pa.Array] = {
        "N": pa.array(numbers).cast(pa.float64()),
        "Half": pa.array([n / 2 for n in numbers]),
        "When": pa.array([n % 20_000 for n in numbers], pa.int32()).cast(pa.date32()),
        "Text": pa.array([f"row {n:>150}" + ('",\\\n!' if n % 1000 == 7 else "") for n in numbers]),
    }
    return pa.table(list(columns.values()), schema=schema)


def parquet(table: pa.Table, rows_a_group: int = 2) -> bytes:
    """Return a table as the Parquet file that is stored of it."""
    sink = BytesIO()
    pq.write_table(table, sink, row_group_size=rows_a_group)
    return sink.getvalue()


def pupils() -> pa.Table:
    """Return the example of docs/formats.md."""
    schema = pa.schema(
        [
            pa.field("Name", pa.string(), nullable=False, metadata=NAME),
            field("Age", pa.float64(), label="Age in years"),
            pa.field("Age__missing", pa.string(), metadata={"sas.missing_of": "Age"}),
            field("Born", pa.date32(), format="DATE9.", informat="DATE9."),
            field("Seen", pa.timestamp("us"), format="DATETIME20."),
        ],
        {"sas.library": "WORK", "sas.member": "PUPILS", "sas.label": "Pupils", "sas.encoding": "utf-8"},
    )
    columns = [
        ["Åsa", "Bo, jr.", ""],
        [14.0, None, 12.5],
        [None, ".A", None],
        [date(2012, 2, 29), None, date(1959, 12, 31)],
        [datetime(2026, 11, 21, 8, 30), datetime(2026, 11, 21, 8, 30, 0, 250000), None],
    ]
    return pa.table([pa.array(values, kind.type) for values, kind in zip(columns, schema, strict=True)], schema=schema)
