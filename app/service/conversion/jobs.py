"""The jobs of a worker process: generator functions that yield bytes and return objects that can be pickled."""

from collections.abc import Generator, Sequence
from datetime import datetime
from enum import Enum
from typing import Any

import orjson
import pyarrow.parquet as pq

from app.model.attachment import AttachmentKind
from app.ports import TableStore
from app.service.content.access import Content, ContentFile
from app.service.labels import read_catalogs
from app.service.tables import open_table
from app.tables.out import FORMATS, Options, outgoing, scanned
from app.tables.out.stored import ROWS_A_BATCH
from app.tables.profiling import Profile, profile
from app.trace import TooManyFrames, explain

MOST_CELLS = 200_000
"""The most cells of an explanation."""


class TableChanged(Exception):
    """There is a newer version of the table than the one that was asked for."""


def write_data_set(
    content: Content,
    format_name: str,
    options: Options,
    created: datetime,
    with_rows: bool,
    catalogs: Sequence[tuple[AttachmentKind, Content]] = (),
) -> Generator[bytes | memoryview, None, None]:
    """Yield a stored data set in a format; `catalogs` have value labels for it.

    Raises as `outgoing` and the format do, and KeyError for lost content.
    """
    known = FORMATS[format_name]
    made = outgoing(pq.ParquetFile(ContentFile(content)), options, known, created, read_catalogs(catalogs))
    pieces = known.write(made, options)  # it refuses at once data that the format cannot hold
    if with_rows:
        yield from pieces


def profile_data_set(content: Content, top: int) -> Generator[bytes, None, Profile]:
    """Return the profile of a stored data set. Raises KeyError for lost content."""
    yield b""
    with pq.ParquetFile(ContentFile(content)) as file:
        return profile(file.schema_arrow, file.iter_batches(ROWS_A_BATCH, use_threads=False), top)


def write_table(
    store: TableStore,
    name: str,
    version: int,
    format_name: str,
    options: Options,
    created: datetime,
    with_rows: bool,
) -> Generator[bytes | memoryview, None, None]:
    """Yield a table's version in a format. Raises TableChanged, KeyError for a lost table, and as `write_data_set`."""
    known = FORMATS[format_name]
    opened = open_table(store, name)
    if opened.version.version != version:
        raise TableChanged(name)
    made = scanned.outgoing(opened.dataset, opened.schema, opened.version.rows, options, known, created)
    pieces = known.write(made, options)  # it refuses at once data that the format cannot hold
    if with_rows:
        yield from pieces


def explained(data: bytes, as_format: str | None) -> Generator[bytes, None, None]:
    """Yield the structures in these bytes, as a JSON array. Raises NotRecognised and TooManyFrames."""
    frames = explain(data, as_format)
    if sum(len(frame.cells) for frame in frames) > MOST_CELLS:
        raise TooManyFrames(f"an explanation has at most {MOST_CELLS:,} cells")
    for number, frame in enumerate(frames):
        cells = [{"offset": cell.at, "size": cell.size, "name": cell.name, "value": cell.value} for cell in frame.cells]
        shown = {"format": frame.format, "offset": frame.offset, "note": frame.note, "cells": cells}
        shown |= {"fields": None, "decoded": None, "trace": None, **frame.decoded}
        yield (b"," if number else b"[") + orjson.dumps(shown, _plain)
    yield b"]" if frames else b"[]"


def _plain(value: Any) -> Any:
    """Return a value for JSON: bytes in hexadecimal, members of enumerations as their values."""
    if isinstance(value, bytes | memoryview):
        return value.hex()
    return value.value if isinstance(value, Enum) else str(value)
