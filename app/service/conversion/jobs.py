"""What is done in a worker process: generator functions that yield bytes and return what can be pickled."""

from collections import Counter
from collections.abc import Generator
from datetime import datetime
from enum import Enum
from typing import Any

import orjson
import pyarrow.parquet as pq

from app.framing.protocol import Framing
from app.framing.registry import framing
from app.model.errors import TheirError
from app.model.message import PhysicalMessage
from app.model.records import DeliveryRecord, FramingOptions
from app.ports import ContentStore, TableStore
from app.service.content.access import Content, ContentFile
from app.service.cutting import Cutter
from app.service.tables import open_table
from app.tables.out import FORMATS, Options, outgoing, scanned
from app.trace import TooManyFrames, explain

MOST_CELLS = 200_000
"""Cells that an explanation tells."""

_CORREL_ID = 16


class TableChanged(Exception):
    """There is a newer version of the table than the one that was wanted."""


def write_data_set(
    content: Content, format_name: str, options: Options, created: datetime, with_rows: bool
) -> Generator[bytes | memoryview, None, None]:
    """A stored data set in a format. Raises what `outgoing` and the format raise, and KeyError for lost content."""
    known = FORMATS[format_name]
    made = outgoing(pq.ParquetFile(ContentFile(content)), options, known, created)
    pieces = known.write(made, options)  # which refuses at once what the format cannot hold
    if with_rows:
        yield from pieces


def write_table(
    store: TableStore,
    name: str,
    version: int,
    format_name: str,
    options: Options,
    created: datetime,
    with_rows: bool,
) -> Generator[bytes | memoryview, None, None]:
    """A table's version in a format. Raises TableChanged, KeyError for a lost table, and as `write_data_set`."""
    known = FORMATS[format_name]
    opened = open_table(store, name)
    if opened.version.version != version:
        raise TableChanged(name)
    made = scanned.outgoing(opened.dataset, opened.schema, opened.version.rows, options, known, created)
    pieces = known.write(made, options)  # which refuses at once what the format cannot hold
    if with_rows:
        yield from pieces


def count_messages(
    how: FramingOptions, store: ContentStore, delivery: DeliveryRecord
) -> Generator[bytes, None, tuple[int, dict[bytes, int]]]:
    """How many physical messages a delivery takes, and each of its attachments by its correlid. Raises CannotSend."""
    cut = Cutter(how, store).cut(delivery)
    counts = Counter(_belongs_to(message, framing(how.framing)) for message in cut)
    yield b""
    return counts.total(), {each.correl_id: counts[each.correl_id] for each in delivery.attachments}


def _belongs_to(message: PhysicalMessage, cut_by: Framing) -> bytes:
    """Return the correlid of the attachment that a message is a part of; empty where it is a part of none."""
    try:
        return cut_by.attachment_key(message)[:_CORREL_ID]
    except TheirError:
        return b""


def explained(data: bytes, as_format: str | None) -> Generator[bytes, None, None]:
    """The structures that bytes consist of, as a JSON array. Raises NotRecognised and TooManyFrames."""
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
    """A value as JSON has it: bytes in hexadecimal, members of enumerations as their values."""
    if isinstance(value, bytes | memoryview):
        return value.hex()
    return value.value if isinstance(value, Enum) else str(value)
