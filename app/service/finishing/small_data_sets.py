"""What is read of several complete attachments at once, before each is finished.

Their first messages are read a batch at a time. Small data sets with the same definition are decoded as one table. What
cannot be read is left out: reading it again, with its attachment alone, gives the reason.
"""

from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from app.dataset.parquet import parquet_file
from app.framing.protocol import DataSetFacts, DataSetTable
from app.framing.registry import framing
from app.model.attachment import AttachmentKind
from app.model.message import UNREADABLE, PhysicalMessage, Position
from app.model.records import AttachmentRecord
from app.service.context import Stores
from app.service.finishing.complete_content import ReceivedParts
from app.service.finishing.stored_parts import CompleteAttachment, messages_at

SMALL_BYTES = 16 << 10
"""The size in bytes up to which a data set is decoded with others."""
TABLES_BYTES = 4 << 20
"""The bytes of all data sets that are decoded at once: they are in memory until the last one is written."""


class DataSetFile(NamedTuple):
    """A data set as a Parquet file, and what was found in its messages."""

    facts: DataSetFacts
    file: bytes


class ReadTogether(NamedTuple):
    """What was read of an attachment together with others: its first message, and its file if it is a small data set
    that could be read."""

    first: PhysicalMessage | None = None
    file: DataSetFile | None = None


NOTHING_READ = ReadTogether()


class _Located(NamedTuple):
    """An attachment with the packed positions of its parts; of a large one, only of the first part."""

    record: AttachmentRecord
    places: list[int]


def read_together(waiting: Iterable[CompleteAttachment], stores: Stores, most: int) -> dict[str, ReadTogether]:
    """Return what can be read of the first of these attachments, up to `most` bytes, by identifier."""
    located: list[_Located] = []
    size = 0
    for each in waiting:
        if size >= most:
            break
        size += each.record.bytes_received
        if each.runs and (places := [*islice(each.places(), None if _is_small(each.record) else 1)]):
            located.append(_Located(each.record, places))
    messages = messages_at(stores.journal, {found.places[0] for found in located})
    read = [
        (found, first)
        for found in located
        if (first := messages.get(found.places[0])) is not None and first.framing != UNREADABLE
    ]
    files: dict[str, DataSetFile] = {}
    lenient = [pair for pair in read if not stores.may_hold(pair[0].record)]
    for name, table in _tables(lenient, stores).items():
        with suppress(Exception):  # as in `_tables`
            files[name] = DataSetFile(table.facts, parquet_file(table.table))
    return {found.record.id: ReadTogether(first, files.get(found.record.id)) for found, first in read}


def _is_small(record: AttachmentRecord) -> bool:
    return record.kind is AttachmentKind.DATA_SET and record.bytes_received <= SMALL_BYTES


def _tables(read: list[tuple[_Located, PhysicalMessage]], stores: Stores) -> dict[str, DataSetTable]:
    by_framing: dict[str, list[tuple[_Located, PhysicalMessage]]] = {}
    left = TABLES_BYTES
    for each, first in read:
        if _is_small(each.record) and each.record.bytes_received <= left:
            left -= each.record.bytes_received
            by_framing.setdefault(first.framing, []).append((each, first))
    tables: dict[str, DataSetTable] = {}
    for name, several in by_framing.items():
        if len(several) <= 1:
            continue
        positions = [[Position.unpack(place) for place in each.places] for each, _ in several]
        with suppress(Exception):  # the one at fault fails when it is read alone, and costs the others nothing
            bodies = stores.journal.bodies([each for some in positions for each in some])
            received = {}
            for (each, first), some in zip(several, positions, strict=True):
                own = list(islice(bodies, len(some)))
                parts = ReceivedParts(each.record, stores.described(first), some, stores, own)
                received[each.record.id] = each.record, parts
            tables |= framing(name).small_data_sets(received)
    return tables
