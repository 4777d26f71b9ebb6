"""What is read of several complete attachments at once, before each is finished.

Their first messages are read a batch at a time. Small data sets with the same definition are decoded as one table. What
cannot be read is left out: reading it again, with its attachment alone, tells why.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from app.assembly.part_places import Parts
from app.dataset.parquet import parquet_file
from app.framing.protocol import DataSetFacts, DataSetTable
from app.framing.registry import framing
from app.model.attachment import AttachmentKind
from app.model.message import UNREADABLE, PhysicalMessage, Position
from app.model.records import AttachmentRecord, PartRun
from app.service.context import Stores
from app.service.finishing.complete_content import ReceivedParts
from app.service.finishing.finished_contents import ordered_places
from app.service.finishing.stored_parts import messages_at

SMALL_BYTES = 16 << 10
"""The size in bytes up to which a data set is decoded with others."""
TABLES_BYTES = 4 << 20
"""The bytes of all data sets that are decoded at once: they are in memory until the last one is written."""


class Made(NamedTuple):
    """The Parquet file of a data set, and what was found in its messages."""

    facts: DataSetFacts
    file: bytes


class Known(NamedTuple):
    """The first message of an attachment, and its file if it is a small data set that could be read."""

    first: PhysicalMessage | None = None
    made: Made | None = None


NOTHING_KNOWN = Known()


class _Whole(NamedTuple):
    record: AttachmentRecord
    places: list[int]


def read_together(
    waiting: Iterable[tuple[AttachmentRecord, list[PartRun] | None]], stores: Stores, most: int
) -> dict[str, Known]:
    """Return what is known of attachments by identifier: of the first ones, up to `most` bytes."""
    wholes = _wholes(waiting, most)
    messages = messages_at(stores.journal, {whole.places[0] for whole in wholes})
    read = [(whole, first) for whole in wholes if (first := messages.get(whole.places[0])) is not None]
    read = [(whole, first) for whole, first in read if first.framing != UNREADABLE]
    made = _made(_tables([pair for pair in read if not stores.is_strict(pair[0].record.source)], stores))
    return {whole.record.id: Known(first, made.get(whole.record.id)) for whole, first in read}


def _wholes(waiting: Iterable[tuple[AttachmentRecord, list[PartRun] | None]], most: int) -> list[_Whole]:
    """Return the attachments with the packed positions of their parts; of large ones, only of the first part."""
    wholes: list[_Whole] = []
    size = 0
    for record, runs in waiting:
        if size >= most:
            break
        size += record.bytes_received
        if runs and (found := [*islice(_places(record, runs), None if _is_small(record) else 1)]):
            wholes.append(_Whole(record, found))
    return wholes


def _places(record: AttachmentRecord, runs: list[PartRun]) -> Iterable[int]:
    """Return the packed positions of the parts, in order. Mostly they came in order, and together."""
    first, length, position = runs[0]
    if record.group is None and len(runs) == first == 1 and length == record.parts_expected:
        return range(position, position + length)
    return ordered_places(record, Parts(runs))


def _is_small(record: AttachmentRecord) -> bool:
    return record.kind is AttachmentKind.DATA_SET and record.bytes_received <= SMALL_BYTES


def _tables(read: list[tuple[_Whole, PhysicalMessage]], stores: Stores) -> dict[str, DataSetTable]:
    """Return the tables of small data sets, by identifier."""
    by_framing: dict[str, list[tuple[_Whole, PhysicalMessage]]] = {}
    left = TABLES_BYTES
    for whole, first in read:
        if _is_small(whole.record) and whole.record.bytes_received <= left:
            left -= whole.record.bytes_received
            by_framing.setdefault(first.framing, []).append((whole, first))
    tables: dict[str, DataSetTable] = {}
    for name, several in by_framing.items():
        if len(several) > 1:
            with suppress(Exception):  # the one at fault fails when it is read alone, and costs the others nothing
                tables |= framing(name).small_data_sets(_received(several, stores))
    return tables


def _made(tables: Mapping[str, DataSetTable]) -> dict[str, Made]:
    """Return the files of tables, by identifier."""
    made: dict[str, Made] = {}
    for each, read in tables.items():
        with suppress(Exception):  # as above
            made[each] = Made(read.facts, parquet_file(read.table))
    return made


def _received(
    several: list[tuple[_Whole, PhysicalMessage]], stores: Stores
) -> dict[str, tuple[AttachmentRecord, ReceivedParts]]:
    """Return the parts of attachments, all of them read."""
    positions = [[Position.unpack(place) for place in whole.places] for whole, _ in several]
    bodies = stores.journal.bodies([each for some in positions for each in some])
    return {
        whole.record.id: (
            whole.record,
            ReceivedParts(whole.record, stores.described(first), some, stores, list(islice(bodies, len(some)))),
        )
        for (whole, first), some in zip(several, positions, strict=True)
    }
