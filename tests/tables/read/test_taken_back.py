"""What the gateway gives out, it takes back: every format under every option, cell for cell."""

import re
import zipfile
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from io import BytesIO
from itertools import product
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from app.codecs.sapdb.constants import DataType
from app.codecs.sapdb.packet_records import ParameterInfo
from app.dataset import side_columns
from app.dataset.sapdb import column_types
from app.tables.read.read_request import DataSetTarget
from app.tables.write import FORMATS
from tests.support.cases import for_each
from tests.support.tables import visits
from tests.tables.out.making import made
from tests.tables.read.reading import defined, opened, sent, whole

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


OF_PACKETS: dict[str, tuple[ParameterInfo, list[Any]]] = {
    "COUNT": (ParameterInfo(0, 0, DataType.INTEGER, 0, 10, 7, 1), [Decimal(7), None]),
    "PRICE": (ParameterInfo(0, 0, DataType.FIXED, 2, 38, 21, 1), [Decimal("123456789012345678.25"), None]),
    "SHARE": (ParameterInfo(0, 0, DataType.FLOAT, 255, 38, 21, 1), [0.1, None]),
    "SINCE": (ParameterInfo(0, 0, DataType.DATE, 0, 10, 11, 1), [date(1, 1, 1), None]),
    "AT": (ParameterInfo(0, 0, DataType.TIME, 0, 8, 9, 1), [time(23, 59, 59), None]),
    "LAST": (
        ParameterInfo(0, 0, DataType.TIMESTAMP, 0, 26, 27, 1),
        [datetime(9999, 12, 31, 23, 59, 59, 999_999), None],
    ),
    "FLAG": (ParameterInfo(0, 0, DataType.BOOLEAN, 0, 1, 2, 1), [True, None]),
    "KEY": (ParameterInfo(0, 0, DataType.CHAR_BYTE, 0, 4, 5, 1), [b"\0\1\2\3", None]),
    "NOTE": (ParameterInfo(0, 0, DataType.VARCHAR_UNICODE, 0, 9, 19, 1), ["漢字", None]),
}
TYPED = ("parquet", "arrow", "arrow-file")
KEEPS_TYPES = DataSetTarget(keeps_types=True)


@for_each("name, dates, times", list(product(TYPED, [None, "sas"], [None, "duration"])))
def test_columns_of_order_packets_are_taken_back_as_what_they_were(
    name: str, dates: str | None, times: str | None
) -> None:
    schema = column_types.schema(list(OF_PACKETS), [info for info, _ in OF_PACKETS.values()], {})
    rows = [values for _, values in OF_PACKETS.values()]
    table = pa.table([pa.array(each, f.type) for each, f in zip(rows, schema, strict=True)], schema=schema)
    # A double of seconds does not hold the last microsecond of time.
    given = dict(zip(OF_PACKETS, rows, strict=True))
    if dates:
        given["LAST"] = [datetime(9999, 12, 31, 23, 59, 59), None]
        table = table.set_column(5, schema.field(5), pa.array(given["LAST"], schema.field(5).type))
    definition = defined(
        opened(made(table, name, dates=dates, times=times), f"x{FORMATS[name].extension}"), KEEPS_TYPES
    )
    assert definition.warnings == ()
    back = sent(definition)
    kept = column_types.parameters(back.schema, column_types.needs(back.to_batches()))
    assert [(each.data_type, each.length, each.frac) for each in kept] == [
        (info.data_type, info.length, info.frac) for info, _ in OF_PACKETS.values()
    ]
    assert back["AT"].cast(pa.int64()).to_pylist() == [(86_400 - 1) * 1_000_000, None]
    assert {key: back[key].to_pylist() for key in given if key != "AT"} == {k: v for k, v in given.items() if k != "AT"}


def test_numbers_of_dates_that_no_file_says_the_type_of_are_told() -> None:
    schema = column_types.schema(list(OF_PACKETS), [info for info, _ in OF_PACKETS.values()], {})
    table = pa.table([pa.array(each, f.type) for (_, each), f in zip(OF_PACKETS.values(), schema, strict=True)], schema)
    table = table.select(["SINCE", "AT", "LAST"])
    reading = opened(made(table, "dataset-json", dates="sas"), "x.json")
    warnings = [
        (each.variable, each.code, each.why.rpartition(" ")[2]) for each in defined(reading, KEEPS_TYPES).warnings
    ]
    assert warnings == [("SINCE", "format", "dates"), ("AT", "format", "times"), ("LAST", "format", "datetimes")]
    assert defined(reading).warnings == ()


def test_numbers_that_are_no_dates_are_not_taken_for_dates() -> None:
    day = column_types.schema(["D"], [OF_PACKETS["SINCE"][0]], {}).field(0).with_type(pa.float64())
    table = pa.table([pa.array([1.0, None, 1.5])], schema=pa.schema([day]))
    (error,) = defined(whole(table), KEEPS_TYPES).errors
    assert (error.variable, error.row) == ("D", 3)
    assert "this is a DATE, but 1.5 is not SAS's number of one" in error.why


@for_each("values", [[2**53 + 1, None], [Decimal("0.1"), None], [True, None], [b"\0", None], [date(2024, 1, 31), None]])
def test_dictionaries_and_views_are_kept_as_what_they_hold(values: list[Any]) -> None:
    plain = pa.array(values)
    forms = [
        plain,
        plain.dictionary_encode(),
        *([plain.cast(pa.binary_view())] if isinstance(values[0], bytes) else []),
    ]
    for form in forms:
        definition = defined(whole(pa.table({"a": form})), KEEPS_TYPES)
        assert definition.warnings == ()
        back = sent(definition)
        assert (back["a"].type, back["a"].to_pylist()) == (plain.type, values)


@for_each("kind", [pa.timestamp("ns"), pa.time64("ns"), pa.duration("ns")])
def test_a_fraction_of_a_microsecond_is_refused_where_types_are_kept(kind: pa.DataType) -> None:
    last = 253_402_300_799_999_999 * (1000 if kind != pa.timestamp("ns") else 1) % (86_400 * 10**9)
    assert defined(whole(pa.table({"t": pa.array([None, 5000, last // 1000 * 1000], kind)})), KEEPS_TYPES).errors == ()
    (error,) = defined(whole(pa.table({"t": pa.array([None, 5000, 1], kind)})), KEEPS_TYPES).errors
    assert (error.variable, error.row) == ("t", 3)


@for_each("name", ["parquet", "sas"])
def test_dates_of_order_packets_that_become_numbers_have_a_format(name: str) -> None:
    schema = column_types.schema(list(OF_PACKETS), [info for info, _ in OF_PACKETS.values()], {})
    table = pa.table([pa.array(each, f.type) for (_, each), f in zip(OF_PACKETS.values(), schema, strict=True)], schema)
    formats = {"SINCE": "DATE9.", "AT": "TIME8.", "LAST": "DATETIME20."}
    if name == "sas":
        program = zipfile.ZipFile(BytesIO(made(table, name))).read("data.sas").decode()
        assert re.findall(r"^ +(\w+) (\w+[.])$", program.partition("   format")[2].partition(";")[0], re.MULTILINE) == [
            *formats.items()
        ]
    else:
        stated = pq.read_schema(BytesIO(made(table, name, dates="sas")))
        assert {f.name: f.metadata[b"sas.format"].decode() for f in stated if b"sas.format" in f.metadata} == formats
