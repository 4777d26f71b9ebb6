"""The file formats that are read, and their recognition."""

import codecs
import re
import zlib
from collections.abc import Callable, Mapping
from typing import BinaryIO, NamedTuple

from app.tables.read import columnar, csv, dataset_json, inflation, ndjson, sas7bdat, transport
from app.tables.read.lines import GZIP_MAGIC, ZLIB_OR_GZIP
from app.tables.read.request import Options, Reading, unreadable

_LOOKED_AT = 1 << 20
_DATASET_JSON = re.compile(rb'"datasetJSONVersion"\s*:')
_ARRAY_OF_OBJECTS = re.compile(rb"\s*\[\s*(?:\{|\]\s*\Z)")
_ZLIB_FIRST = b"\x78"
_WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class Format(NamedTuple):
    """One file format: its file extensions, its media types, a test of its first bytes, and its reader."""

    extensions: tuple[str, ...]
    media_types: tuple[str, ...]
    is_begun_by: Callable[[bytes], bool]
    read: Callable[[BinaryIO, Options], Reading]


def _is_dsjc(head: bytes) -> bool:
    if not head.startswith((_ZLIB_FIRST, GZIP_MAGIC)):
        return False
    try:
        return zlib.decompressobj(ZLIB_OR_GZIP).decompress(head, 1) == b"{"
    except zlib.error:
        return False


def _is_dataset_json(head: bytes) -> bool:
    return head.lstrip().startswith(b"{") and bool(_DATASET_JSON.search(head)) and not _is_dataset_ndjson(head)


def _is_dataset_ndjson(head: bytes) -> bool:
    """Tell whether the metadata is a line of its own, followed by rows."""
    line, _, rest = head.lstrip().partition(b"\n")
    return bool(_DATASET_JSON.search(line)) and line.rstrip().endswith(b"}") and rest.lstrip().startswith(b"[")


FORMATS: Mapping[str, Format] = {
    "parquet": Format(
        ("parquet", "pq"),
        ("application/vnd.apache.parquet",),
        lambda head: head.startswith(b"PAR1"),
        columnar.read_parquet,
    ),
    "arrow": Format(
        ("arrow", "arrows", "feather", "ipc"),
        ("application/vnd.apache.arrow.stream", "application/vnd.apache.arrow.file"),
        lambda head: head.startswith((inflation.ARROW_MAGIC, b"\xff\xff\xff\xff")),
        columnar.read_arrow,
    ),
    "xpt": Format(
        ("xpt", "xport", "v5xpt", "v8xpt"),
        ("application/x-sas-xport",),
        lambda head: head.startswith(b"HEADER RECORD*******LIB"),
        transport.read,
    ),
    "sas7bdat": Format(
        ("sas7bdat",),
        ("application/x-sas-data",),
        lambda head: head.startswith(sas7bdat.MAGIC),
        sas7bdat.read,
    ),
    "dsjc": Format(
        ("dsjc",), ("application/vnd.cdisc.dataset-json.compressed",), _is_dsjc, dataset_json.read_compressed
    ),
    "dataset-ndjson": Format((), (), _is_dataset_ndjson, dataset_json.read_lines),
    "dataset-json": Format(("json",), ("application/json",), _is_dataset_json, dataset_json.read),
    "ndjson": Format(
        ("ndjson", "jsonl"), ("application/x-ndjson",), lambda head: head.lstrip().startswith(b"{"), ndjson.read
    ),
    "json": Format((), (), lambda head: bool(_ARRAY_OF_OBJECTS.match(head)), ndjson.read_array),
    "csv": Format(("csv", "tsv", "tab", "txt"), ("text/csv", "text/tab-separated-values"), bool, csv.read),
}
"""The formats by name, the most certain to recognise first."""


def format_of(file: BinaryIO, file_name: str, media_type: str) -> str:
    """Return the name of a file's format.

    The first bytes determine it. If they only show that it may be text, the file name or media type does.
    """
    file.seek(0)
    head = file.read(_LOOKED_AT)
    found = next((name for name, known in FORMATS.items() if known.is_begun_by(head)), "csv")
    if found != "csv":
        return found
    if b"\0" in head and not head.startswith(_WIDE_MARKS):
        raise unreadable(f"unknown file format; supported are {', '.join(FORMATS)}")
    extension = file_name.rpartition(".")[2].casefold()
    plain_type = media_type.partition(";")[0].strip()
    return next(
        (name for name, known in FORMATS.items() if extension in known.extensions or plain_type in known.media_types),
        found,
    )


def read(file: BinaryIO, name: str, options: Options) -> Reading:
    """Read a seekable file of the format of this name. Raises InvalidInputError if it is not such a file."""
    if name not in FORMATS:
        raise unreadable(f"unknown format {name!r}; supported are {', '.join(FORMATS)}")
    return FORMATS[name].read(file, options)
