"""The file formats that are read, and their recognition."""

import codecs
import json
import re
import zlib
from collections.abc import Callable, Mapping
from typing import BinaryIO, NamedTuple

from app.tables.read import (
    arrow_inflation,
    columnar,
    csv_reader,
    dataset_json_reader,
    ndjson,
    sas7bdat,
    transport_reader,
)
from app.tables.read.json_lines import GZIP_MAGIC, ZLIB_OR_GZIP
from app.tables.read.read_request import FileTable, ReadOptions, unreadable

_LOOKED_AT = 1 << 20
_DATASET_JSON = re.compile(rb'"datasetJSONVersion"\s*:')
_DATASET_JSON_1_0 = re.compile(rb'"(?:clinicalData|referenceData)"\s*:\s*\{')
_WIDE_JSON = re.compile(rb"(?:\xff\xfe|\xfe\xff)[\s\0]*(?:\{[\s\0]*\"|\[[\s\0]*\{)")
_ARRAY_OF_OBJECTS = re.compile(rb"\s*\[\s*(?:\{|\]\s*\Z)")
_ZLIB_FIRST = b"\x78"
_ANY_COMPRESSION = zlib.MAX_WBITS | 32
_MOST_RECORD_BYTES = 1 << 16
_WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class FileFormat(NamedTuple):
    """One file format: its file extensions, its media types, two tests of a file's first bytes, and its reader.

    `is_begun_by` chooses the reader of a file that is known to be a table. `is_surely` is stricter: a file that passes
    it is a table, and no other text or binary file.
    """

    extensions: tuple[str, ...]
    media_types: tuple[str, ...]
    is_begun_by: Callable[[bytes], bool]
    is_surely: Callable[[bytes], bool]
    read: Callable[[BinaryIO, ReadOptions], FileTable]


def _never(_head: bytes) -> bool:
    return False


def _begins_with(magic: bytes) -> Callable[[bytes], bool]:
    return lambda head: head.startswith(magic)


def _is_object(head: bytes) -> bool:
    return head.lstrip().startswith(b"{")


def _is_dsjc(head: bytes) -> bool:
    if not head.startswith((_ZLIB_FIRST, GZIP_MAGIC)):
        return False
    try:
        return zlib.decompressobj(ZLIB_OR_GZIP).decompress(head, 1) == b"{"
    except zlib.error:
        return False


def _is_surely_dsjc(head: bytes) -> bool:
    """Tell whether compressed JSON names the version of Dataset-JSON near its beginning."""
    try:
        return _is_dsjc(head) and bool(
            _DATASET_JSON.search(zlib.decompressobj(_ANY_COMPRESSION).decompress(head, _MOST_RECORD_BYTES))
        )
    except zlib.error:
        return False


def _is_dataset_json(head: bytes) -> bool:
    return _is_object(head) and bool(_DATASET_JSON.search(head)) and not _is_dataset_ndjson(head)


def _is_begun_dataset_json(head: bytes) -> bool:
    """Tell whether it is Dataset-JSON of any version: only its reader says that version 1.0 is not supported."""
    return _is_dataset_json(head) or (_is_object(head) and bool(_DATASET_JSON_1_0.search(head)))


def _is_dataset_ndjson(head: bytes) -> bool:
    """Tell whether the metadata is a line of its own, followed by rows."""
    line, _, rest = head.lstrip().partition(b"\n")
    return bool(_DATASET_JSON.search(line)) and line.rstrip().endswith(b"}") and rest.lstrip().startswith(b"[")


def _is_surely_ndjson(head: bytes) -> bool:
    """Tell whether the first two lines are rows: JSON objects with the same members, none of which is nested."""
    members = []
    for line in head[:_MOST_RECORD_BYTES].lstrip().split(b"\n", 2)[:2]:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            return False
        if not isinstance(row, dict) or any(isinstance(cell, dict | list) for cell in row.values()):
            return False
        members.append(row.keys())
    return len(members) == 2 and bool(members[0]) and members[0] == members[1]


FORMATS: Mapping[str, FileFormat] = {
    "parquet": FileFormat(
        ("parquet", "pq"),
        ("application/vnd.apache.parquet",),
        _begins_with(b"PAR1"),
        # The structures of a Parquet file end with a zero byte, which no text has.
        lambda head: head.startswith(b"PAR1") and b"\0" in head,
        columnar.read_parquet,
    ),
    "arrow": FileFormat(
        ("arrows",),
        ("application/vnd.apache.arrow.stream",),
        _begins_with(b"\xff\xff\xff\xff"),
        arrow_inflation.is_stream,
        columnar.read_arrow,
    ),
    "arrow-file": FileFormat(
        ("arrow", "feather", "ipc"),
        ("application/vnd.apache.arrow.file",),
        _begins_with(arrow_inflation.ARROW_MAGIC),
        _begins_with(arrow_inflation.ARROW_MAGIC + b"\0\0"),
        columnar.read_arrow,
    ),
    "xpt": FileFormat(
        ("xpt", "xport", "v5xpt", "v8xpt"),
        ("application/x-sas-xport",),
        _begins_with(b"HEADER RECORD*******LIB"),
        _begins_with(b"HEADER RECORD*******LIB"),
        transport_reader.read,
    ),
    "sas7bdat": FileFormat(
        ("sas7bdat",),
        ("application/x-sas-data",),
        _begins_with(sas7bdat.MAGIC),
        _begins_with(sas7bdat.MAGIC),
        sas7bdat.read,
    ),
    "dsjc": FileFormat(
        ("dsjc",),
        ("application/vnd.cdisc.dataset-json.compressed",),
        _is_dsjc,
        _is_surely_dsjc,
        dataset_json_reader.read_compressed,
    ),
    "dataset-ndjson": FileFormat((), (), _is_dataset_ndjson, _is_dataset_ndjson, dataset_json_reader.read_lines),
    "dataset-json": FileFormat(
        ("json",), ("application/json",), _is_begun_dataset_json, _is_dataset_json, dataset_json_reader.read
    ),
    "ndjson": FileFormat(("ndjson", "jsonl"), ("application/x-ndjson",), _is_object, _is_surely_ndjson, ndjson.read),
    "json": FileFormat((), (), lambda head: bool(_ARRAY_OF_OBJECTS.match(head)), _never, ndjson.read_array),
    "csv": FileFormat(
        ("csv", "tsv", "tab", "txt"), ("text/csv", "text/tab-separated-values"), bool, _never, csv_reader.read
    ),
}
"""The formats by name, the most certain to recognise first."""


def format_of(file: BinaryIO, file_name: str, media_type: str) -> str:
    """Return the name of a file's format.

    The first bytes determine it. If they only show that it may be text, the file name or media type does.
    """
    file.seek(0)
    head = file.read(_LOOKED_AT).removeprefix(codecs.BOM_UTF8)
    found = next((name for name, known in FORMATS.items() if known.is_begun_by(head)), "csv")
    if found != "csv":
        return found
    extension = file_name.rpartition(".")[2].casefold()
    plain_type = media_type.partition(";")[0].strip()
    named = next(
        (name for name, known in FORMATS.items() if extension in known.extensions or plain_type in known.media_types),
        None,
    )
    if named is None and _WIDE_JSON.match(head):
        return "ndjson"  # its reader says that JSON is not exchanged in UTF-16
    # The reader of CSV tells where a NUL is, or reads UTF-16 without a mark.
    if named != "csv" and b"\0" in head and not head.startswith(_WIDE_MARKS):
        raise unreadable(f"unknown file format; supported are {', '.join(FORMATS)}")
    return named or found


def table_format(head: bytes) -> str | None:
    """Return the name of the format that a file's first bytes show, None if the file may be other text or bytes.

    CSV is never recognised: any text could be CSV.
    """
    head = head.removeprefix(codecs.BOM_UTF8)
    return next((name for name, known in FORMATS.items() if known.is_surely(head)), None)


def read(file: BinaryIO, name: str, options: ReadOptions) -> FileTable:
    """Read a seekable file of the format of this name. Raises InvalidInputError if it is not such a file."""
    if name not in FORMATS:
        raise unreadable(f"unknown format {name!r}; supported are {', '.join(FORMATS)}")
    return FORMATS[name].read(file, options)
