"""The jobs of a worker process: generator functions that yield bytes and return objects that can be pickled."""

from collections.abc import Generator, Iterator, Sequence
from datetime import datetime
from enum import Enum
from io import BytesIO
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from app.codecs.sas.constants import HEADER_MSG_TYPE, SUBORDINATE_MSG_TYPE
from app.model.attachment import AttachmentKind
from app.model.message import PhysicalMessage
from app.ports import TableStore
from app.service.content.message_labels import read_catalogs
from app.service.content.stored_content import Content, ContentFile
from app.service.tables.sql_queries import FilesScanned, confined
from app.service.tables.table_reader import open_table
from app.tables.profiles import Profile, profile
from app.tables.write import FORMATS, OutputOptions, outgoing
from app.tables.write.query_result import QUERY_WRITERS, QueryFormat
from app.tables.write.rows_page import PageRequest, page_of_file, page_of_table, write_page
from app.tables.write.stored_table import ROWS_A_BATCH, outgoing_of_files
from app.trace import Frame, Hints, NotRecognised, TooManyFrames, explain, ibm_mq
from app.trace.frames import raw

MOST_CELLS = 200_000
"""The most cells of an explanation."""


class TableChanged(Exception):
    """There is a newer version of the table than the one that was asked for."""


def write_data_set(
    content: Content,
    format_name: str,
    options: OutputOptions,
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


def write_rows(
    table: pa.Table, format_name: str, options: OutputOptions, created: datetime, with_rows: bool
) -> Generator[bytes | memoryview, None, None]:
    """Yield rows in memory in a format, as `write_data_set` yields the rows of a stored data set."""
    stored = BytesIO()
    pq.write_table(table, stored)
    known = FORMATS[format_name]
    made = outgoing(pq.ParquetFile(stored), options, known, created)
    pieces = known.write(made, options)
    if with_rows:
        yield from pieces


def page_of_rows(content: Content | pa.Table, asked: PageRequest) -> Generator[bytes | memoryview, None, None]:
    """Yield a page of the rows of a stored data set, or of these rows, as JSON. Raises OptionError and KeyError."""
    if isinstance(content, pa.Table):
        yield from write_page(page_of_table(content, asked))
        return
    with pq.ParquetFile(ContentFile(content)) as file:
        page = page_of_file(file, asked)
    yield from write_page(page)


def query_tables(
    store: TableStore, names: Sequence[str], sql: str, limit: int, word: QueryFormat, memory: int
) -> Generator[bytes | memoryview, None, tuple[bool, FilesScanned]]:
    """Yield the first rows of a query's result in a format. Return whether there are more, and the files that were
    scanned.

    DuckDB gets `memory` bytes, one thread and no folder. Raises QueryFailed.
    """
    settings = {"memory_limit": f"{memory}B", "threads": "1", "temp_directory": ""}
    with confined(store, names, sql, settings, as_text=word != "arrow") as answer:
        batches: list[pa.RecordBatch] = []
        rows = 0
        for batch in answer.batches:
            batches.append(batch.slice(0, limit + 1 - rows))
            rows += batches[-1].num_rows
            if rows > limit:
                break
        found = pa.Table.from_batches(batches, answer.written).slice(0, limit)
    yield from QUERY_WRITERS[word](found, answer.schema, rows > limit)
    return rows > limit, answer.scanned()


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
    options: OutputOptions,
    created: datetime,
    with_rows: bool,
) -> Generator[bytes | memoryview, None, None]:
    """Yield a table's version in a format. Raises TableChanged, KeyError for a lost table, and as `write_data_set`."""
    known = FORMATS[format_name]
    opened = open_table(store, name)
    if opened.version.version != version:
        raise TableChanged(name)
    made = outgoing_of_files(opened.dataset, opened.schema, opened.version.rows, options, known, created)
    pieces = known.write(made, options)  # it refuses at once data that the format cannot hold
    if with_rows:
        yield from pieces


def explained(data: bytes, as_format: str | None) -> Generator[bytes, None, None]:
    """Yield the structures in these bytes, as a JSON array. Raises NotRecognised and TooManyFrames."""
    yield from _as_json(explain(data, as_format))


def explained_message(message: PhysicalMessage) -> Generator[bytes, None, None]:
    """Yield the structures in a physical message's body, as a JSON array; its descriptor tells how to read them. What
    is not recognised is one structure. Raises TooManyFrames."""
    if message.msg_type in (HEADER_MSG_TYPE, SUBORDINATE_MSG_TYPE):
        frames = ibm_mq.body(message)
    else:
        try:
            frames = explain(message.body, None, Hints(message.encoding, message.ccsid))
        except NotRecognised:
            frames = [raw(memoryview(message.body))]
    yield from _as_json(frames)


def _as_json(frames: Sequence[Frame]) -> Iterator[bytes]:
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
