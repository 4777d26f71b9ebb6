"""Other programs that read SAS's files, and files that they wrote; cells in one form, so that they can be compared.

A cell is a number (dates and times as SAS counts them), a special missing value as `.A`, None for `.`, or a text.
"""

import json
import zlib
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import polars_readstat
import pyarrow as pa
import pyreadstat

from app.dataset import sas_columns, side_columns
from app.tables.read import file_formats
from app.tables.read.read_request import ReadOptions
from tests.support.readstat import Rows, Written, write_sas7bdat

Cell = float | str | None
Cells = dict[str, list[Cell]]
Read = Callable[[Path], Cells]

_DAYS, _SECONDS = date(1960, 1, 1), datetime(1960, 1, 1)

# --- readers ----------------------------------------------------------------------------------------------------------


def our_cells(path: Path) -> Cells:
    """Return what this program reads in a file of any format."""
    with path.open("rb") as file:
        reading = file_formats.read(file, file_formats.format_of(file, path.name, ""), ReadOptions())
        return arrow_cells(pa.Table.from_batches(reading.batches(), reading.schema))


def arrow_cells(table: pa.Table) -> Cells:
    """Return the cells of a table with side columns."""
    found: Cells = {}
    for field in table.schema:
        if side_columns.is_side(field):
            continue
        column = table[field.name].combine_chunks()
        if sas_columns.is_text(field.type):
            found[field.name] = column.to_pylist()
            continue
        values = [None if value != value else value for value in sas_columns.doubles(column).tolist()]
        found[field.name] = values
    for field in table.schema:
        if of := side_columns.missing_of(field):
            tags = table[field.name].to_pylist()
            found[of] = [tag or value for tag, value in zip(tags, found[of], strict=True)]
    return found


def pyreadstat_cells(path: Path) -> Cells:
    """Return what pyreadstat reads in a sas7bdat or XPT file. Of XPT files it does not tell special missing values."""
    if path.suffix == ".sas7bdat":
        found, about = pyreadstat.read_sas7bdat(
            path, output_format="dict", user_missing=True, disable_datetime_conversion=True
        )
    else:
        found, about = pyreadstat.read_xport(path, output_format="dict", disable_datetime_conversion=True)
    return {
        name: list(values)
        if about.readstat_variable_types[name] == "string"
        else [f".{value}" if isinstance(value, str) else value for value in values]
        for name, values in found.items()
    }


def polars_readstat_cells(path: Path) -> Cells:
    """Return what polars-readstat reads in an XPT or sas7bdat file."""
    tags = polars_readstat.InformativeNullOpts()
    frame = polars_readstat.ScanReadstat(str(path), informative_nulls=tags).df.collect().to_dict(as_series=False)
    names = [name for name in frame if not (name.endswith("_null") and name.removesuffix("_null") in frame)]
    return {
        name: [
            tag or _number(value)
            for value, tag in zip(frame[name], frame.get(f"{name}_null") or [None] * len(frame[name]), strict=True)
        ]
        for name in names
    }


def _number(value: Any) -> Cell:
    if isinstance(value, datetime):
        return (value.replace(tzinfo=None) - _SECONDS) / timedelta(seconds=1)
    if isinstance(value, date):
        return float((value - _DAYS).days)
    if isinstance(value, time):
        return timedelta(
            hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond
        ) / timedelta(seconds=1)
    if isinstance(value, timedelta):
        return value / timedelta(seconds=1)
    return value  # type: ignore[no-any-return]


PEERS: Mapping[str, Read] = {
    "pyreadstat": pyreadstat_cells,
    "polars-readstat": polars_readstat_cells,
}
"""The readers of XPT and sas7bdat files in Python, by name. R's haven is the third."""

# --- files ------------------------------------------------------------------------------------------------------------

_NUMBERS = [1.5, -2.0, 1e10, None, 0.1]
_DAY = [date(1960, 1, 1), date(2026, 11, 22), None, date(1959, 12, 31), date(2000, 2, 29)]
_STAMP = [
    datetime(1960, 1, 1),
    datetime(2026, 11, 22, 8, 30),
    None,
    datetime(1999, 12, 31, 23, 59, 59),
    datetime(2000, 1, 1),
]
_CITY = ["Malmö", "", "x", " lead", "last"]
_FORMATS = {"DAY": "YYMMDD10.", "STAMP": "DATETIME20."}


def write_files(folder: Path) -> list[Path]:
    """Write files with every peer in Python, and Dataset-JSON by CDISC's rules; return them."""
    labels = {"NUMBER": "A number", "CITY": "A city"}
    plain = {"NUMBER": _NUMBERS, "DAY": _DAY, "STAMP": _STAMP, "CITY": _CITY}
    for version in (5, 8):
        pyreadstat.write_xport(
            pd.DataFrame(plain),
            folder / f"pyread{version}.xpt",
            file_format_version=version,
            table_name="PYREAD",
            column_labels=dict(labels),
            variable_format={name: each.removesuffix(".") for name, each in _FORMATS.items()},
        )
        polars_readstat.write_xpt(
            pl.DataFrame(plain),
            str(folder / f"polars{version}.xpt"),
            version=version,
            table_name="POLARS",
            variable_labels=labels,
            variable_format=_FORMATS,
        )
    variables = [
        Written("NUMBER", label="A number", format="BEST12."),
        Written("TAGGED", label="With reasons"),
        Written("DAY", format="DATE9."),
        Written("STAMP", format="DATETIME20."),
        Written("CLOCK", format="TIME8."),
        Written("CITY", 12, "A city", "$CHAR12."),
        Written("SEX", 1, format="$SEX."),
    ]
    rows: Rows = [
        (1.5, ".A", 0.0, 0.0, 0.0, "Malmö", "F"),
        (-2.0, 2.0, 24432.0, 2.0e9, 86399.0, "", "M"),
        (1e10, "._", None, None, None, "x", ""),
        (None, ".Z", -1.0, 1.0, 30600.0, " lead", "F"),
        (0.1, 5.0, 14669.0, -1.0, 1.0, "last", "M"),
    ]
    write_sas7bdat(folder / "readstat.sas7bdat", variables, rows, table="READSTAT")
    _write_dataset_json(folder)
    return sorted(folder.iterdir())


def _write_dataset_json(folder: Path) -> None:
    """Write a Dataset-JSON file as CDISC's specification of version 1.1 has it: plain, as lines, and compressed."""
    head = {
        "datasetJSONCreationDateTime": "2026-11-22T08:30:00",
        "datasetJSONVersion": "1.1.0",
        "fileOID": "www.example.org/define",
        "itemGroupOID": "IG.CDISC",
        "records": 3,
        "name": "CDISC",
        "label": "By hand",
        "columns": [
            {"itemOID": "IT.NUMBER", "name": "NUMBER", "label": "A number", "dataType": "double"},
            {"itemOID": "IT.AGE", "name": "AGE", "label": "Age", "dataType": "integer"},
            {
                "itemOID": "IT.DAY",
                "name": "DAY",
                "label": "A day",
                "dataType": "date",
                "targetDataType": "integer",
                "displayFormat": "DATE9.",
            },
            {"itemOID": "IT.CITY", "name": "CITY", "label": "A city", "dataType": "string", "length": 12},
        ],
    }
    rows = [[1.5, 14, "2012-02-29", "Malmö"], [None, None, None, ""], [0.1, -1, "1959-12-31", 'a "quote", é']]
    lines = "\n".join(json.dumps(each, ensure_ascii=False) for each in [head, *rows]).encode()
    (folder / "cdisc.json").write_text(json.dumps({**head, "rows": rows}))
    (folder / "cdisc.ndjson").write_bytes(lines)
    (folder / "zlib.dsjc").write_bytes(zlib.compress(lines))


DATASET_JSON: Cells = {
    "NUMBER": [1.5, None, 0.1],
    "AGE": [14.0, None, -1.0],
    "DAY": [19052.0, None, -1.0],
    "CITY": ["Malmö", "", 'a "quote", é'],
}
"""The cells of the Dataset-JSON files."""


def peers_of(path: Path) -> dict[str, Cells]:
    """Return what each peer in Python reads in an XPT or sas7bdat file."""
    return {name: read(path) for name, read in PEERS.items()}


def is_of_sas(path: Path) -> bool:
    """Tell whether the peers read such files."""
    return path.suffix in {".xpt", ".sas7bdat"}


def without_tags(cells: Cells) -> Cells:
    """Return cells with `.` in place of special missing values."""
    return {
        name: [None if isinstance(cell, str) and is_tag(cell) else cell for cell in column]
        for name, column in cells.items()
    }


def is_tag(cell: str) -> bool:
    """Tell whether a text is a special missing value. No text of these files is like one."""
    return len(cell) == 2 and cell[0] == "."


def differences(ours: Cells, theirs: Cells) -> list[str]:
    """Return where two readers disagree, as sentences."""
    if list(ours) != list(theirs):
        return [f"variables {list(ours)} and {list(theirs)}"]
    found = []
    for name, cells in ours.items():
        others = theirs[name]
        if len(cells) != len(others):
            found.append(f"{name} has {len(cells)} and {len(others)} rows")
            continue
        unequal = [(row, a, b) for row, (a, b) in enumerate(zip(cells, others, strict=True), 1) if not _same(a, b)]
        found += [f"{name} in row {row} is {a!r} and {b!r}" for row, a, b in unequal[:3]]
    return found


def _same(one: Cell, other: Cell) -> bool:
    # Some readers have no texts that are missing, others none that are empty.
    return one == other or (one in (None, "") and other in (None, ""))
