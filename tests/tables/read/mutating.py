"""Damaged files of every format, made from whole ones by a seed, and what becomes of them.

A worker process runs `outcomes`, so that a library that takes too much memory, or crashes, ends that process alone.
"""

import csv
import io
import json
import zlib
from collections.abc import Callable, Generator, Mapping
from functools import cache
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from app.model.errors import InvalidInputError
from app.tables.read import file_formats
from app.tables.read.defining import Definition, define
from app.tables.read.read_request import DataSetOverrides, DataSetTarget, ReadOptions
from tests.support.tables import pupils, visits
from tests.tables.out.making import made

_NOTABLE = [
    *(b"", b"\0", b"\xff", b'"', b'""', b"'", b",", b";", b"\n", b"\r", b"\r\n", b"\\", b"\\u", b".", b"-", b"+", b" "),
    *(b"[", b"]", b"{", b"}", b"[]", b"{}", b"null", b"true", b"0", b"-0", b"1e999", b"1.5", b"NaN", b"NA", b".A"),
    *(b"9007199254740993", b"99999999999999999999", b"2024-01-31", b"0000-00-00", b"25:61:61", b"10:30:00+02:00"),
    *(b"\xff" * 4, b"\xff" * 8, b"\0" * 8, b"\x7f" * 4, b"\x01\0\0\0", b"\0\0\0\x80", b"[" * 300, b'{"a":' * 300),
    *(
        b'"records":7',
        b'"records":1',
        b'"rows":[[1]]',
        b'"dataType":"decimal"',
        b"HEADER RECORD*******",
        b"\xef\xbb\xbf",
    ),
]


def _decimals() -> bytes:
    """Return a Dataset-JSON file with every dataType, also in columns of decimals."""
    types: list[dict[str, Any]] = [
        {"name": "S", "dataType": "string", "length": 8},
        {"name": "DEC", "dataType": "decimal", "targetDataType": "decimal"},
        {"name": "I", "dataType": "integer"},
        {"name": "B", "dataType": "boolean"},
        {"name": "T", "dataType": "datetime", "targetDataType": "integer"},
    ]
    columns = [{"itemOID": f"IT.{each['name']}", "label": each["name"], **each} for each in types]
    rows = [["a", "1.10", 7, True, "2024-01-31T10:30:00"], ["b", "-3", None, False, None], ["", None, 1, None, None]]
    head = {"datasetJSONVersion": "1.1.0", "records": len(rows), "name": "DM", "label": "DM", "columns": columns}
    return json.dumps(head | {"rows": rows}).encode()


def _arrow_file(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table, max_chunksize=2)
    return sink.getvalue()


@cache
def whole_files(name: str) -> tuple[bytes, ...]:
    """Return whole files of a format, whose damaged forms are tried."""
    tables = (pupils(), visits())
    if name in {"xpt-v5", "xpt"}:
        return tuple(made(table, name) for table in tables)
    if name == "dataset-json":
        return (*(made(table, name, missing="column") for table in tables), _decimals())
    if name == "arrow":
        coded = pa.table({"c": pa.array(["a", "b", None]).dictionary_encode(), "n": pa.array([1, 2, 3])})
        return (*(made(table, name) for table in tables), _arrow_file(pupils()), _arrow_file(coded))
    return tuple(made(table, name, missing="column") for table in tables)


NAMES = ("csv", "json", "ndjson", "dataset-json", "dataset-ndjson", "dsjc", "parquet", "arrow", "xpt-v5", "xpt")
"""The formats, by the names under which the gateway writes them."""


def mutated(name: str, number: int) -> bytes:
    """Return the damaged file of this number."""
    random = Random(f"{name} {number}")
    data = random.choice(whole_files(name))
    packed = name == "dsjc" and random.random() < 0.7
    file = bytearray(zlib.decompress(data) if packed else data)
    for _ in range(random.choice([1, 1, 1, 2, 4])):
        _damage(file, random)
    return zlib.compress(file) if packed else bytes(file)


def _damage(file: bytearray, random: Random) -> None:
    at = random.randrange(len(file) + 1)
    size = random.choice([1, 1, 2, 4, 8, 40, 200])
    match random.randrange(8):
        case 0:
            del file[at:]
        case 1:
            del file[at : at + size]
        case 2:
            file[at:at] = file[at : at + size]
        case 3:
            file[at : at + size] = random.randbytes(min(size, 8))
        case 4:
            file[at:at] = random.choice(_NOTABLE)
        case 5 | 6:
            found = random.choice(_NOTABLE)
            file[at : at + len(found)] = found
        case _:
            other = random.randrange(len(file) + 1)
            file[at:at] = file[other : other + size]


def outcomes(name: str, first: int, end: int) -> Generator[bytes, None, dict[str, int]]:
    """Read the damaged files of these numbers, and count what came.

    Raises AssertionError if a file gives another error than our own, or if rows are lost without a word.
    """
    counts = {"table": 0, "faults": 0, "refused": 0}
    for number in range(first, end):
        yield b""
        data = mutated(name, number)
        try:
            found = read(name, data)
        except InvalidInputError:
            counts["refused"] += 1
            continue
        except Exception as error:
            raise AssertionError(f"{name} {number}: {type(error).__name__}: {error}") from error
        if found.errors:
            assert all(fault.why for fault in found.errors)
            counts["faults"] += 1
            continue
        rows = sum(batch.num_rows for batch in found.batches())
        told = expected_rows(name, data)
        assert rows == found.observations, number
        assert rows >= told or found.warnings, f"{name} {number}: {rows} rows of {told}, without a word"
        counts["table"] += 1
    return counts


def read(name: str, data: bytes) -> Definition:
    """Return the data set that a file becomes."""
    reading = file_formats.read(io.BytesIO(data), "xpt" if name == "xpt-v5" else name, ReadOptions())
    return define(reading, DataSetOverrides(file_stem="damaged", names="rename"), DataSetTarget())


def expected_rows(name: str, data: bytes) -> int:
    """Return the number of rows that a file has, by a count that does not use the readers under test."""
    return _COUNTS[name](data)


def _csv_rows(data: bytes) -> int:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return max(0, sum(1 for row in csv.reader(io.StringIO(text, newline="")) if row) - 1)


def _lines(data: bytes) -> int:
    return sum(1 for line in data.split(b"\n") if line.strip())


def _parquet_rows(data: bytes) -> int:
    told = pq.ParquetFile(io.BytesIO(data)).metadata
    rows: int = max(told.num_rows, sum(told.row_group(number).num_rows for number in range(told.num_row_groups)))
    return rows


def _arrow_rows(data: bytes) -> int:
    """Return the rows of as many whole messages as there are."""
    source = pa.BufferReader(data)
    if data.startswith(b"ARROW1"):
        source.seek(8)
    rows = 0
    try:
        for batch in pa.ipc.open_stream(source):
            rows += batch.num_rows
    except (pa.ArrowException, OSError):
        pass
    return rows


def _dataset_json_rows(data: bytes) -> int:
    document = json.loads(data)
    return max(len(document.get("rows") or []), int(document.get("records", 0)))


def _dataset_lines(data: bytes) -> int:
    records: int = json.loads(data.lstrip().partition(b"\n")[0]).get("records", 0)
    return max(_lines(data) - 1, records)


_COUNTS: Mapping[str, Callable[[bytes], int]] = {
    "csv": _csv_rows,
    "json": lambda data: len(json.loads(data)),
    "ndjson": _lines,
    "dataset-json": _dataset_json_rows,
    "dataset-ndjson": _dataset_lines,
    "dsjc": lambda data: _dataset_lines(zlib.decompress(data, 47)),
    "parquet": _parquet_rows,
    "arrow": _arrow_rows,
    "xpt-v5": lambda _: 0,  # a file of version 5 has no count of its rows
    "xpt": lambda _: 0,
}
