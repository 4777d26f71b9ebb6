"""Binary files whose parts came in order and hold only whole records: many are read from an archive at once.

Their bodies are read a record batch at a time, each once. `app.service.finishing.finished_contents.read_content` gives
the same for each of them, in more time. All other attachments are left to it, and so is everything that cannot be read:
it gives the reason.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import accumulate, chain
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from app.codecs.sas.file_messages import RecordTotals
from app.framing.registry import find_framing
from app.model.attachment import AttachmentKind
from app.model.errors import DamagedError
from app.model.message import EVIDENCE
from app.model.records import AttachmentRecord, Extent, Finished
from app.ports import JournalArchive
from app.service.context import Stores
from app.service.finishing.complete_content import stored_at_once
from app.service.finishing.content_evidence import concluded_binary, is_certain, with_earlier
from app.service.finishing.incremental import EXTENTS_A_PART, whole_records
from app.service.finishing.media_types import BINARY_TYPE, announced
from app.service.finishing.stored_parts import CompleteAttachment, Places, by_batch, neighbours, places_of

LARGEST = 8 << 20
"""The size in bytes of the largest file that is read with others: all of it is in memory."""

AT_ONCE_BYTES, AT_ONCE_PARTS = 1 << 20, 2048
"""The size and the number of the parts from which on no more files are read at the same time."""


class _Part(NamedTuple):
    """A part of a file: its row in a record batch, its body, and where that begins in the file of its segment.
    `warnings` are what the transport warned of, by row of the batch."""

    framings: pa.StringArray
    warnings: Mapping[int, str]
    row: int
    body: memoryview
    segment: int
    offset: int

    @property
    def framing(self) -> str:
        name: str = self.framings[self.row].as_py()
        return name


def plain_files(complete: Iterable[CompleteAttachment], archive: JournalArchive, stores: Stores) -> dict[str, Finished]:
    """Return the content of the plain files among these attachments, by identifier.

    Neighbours in the journal should be neighbours here. `finished_at` is not set.
    """
    found: dict[str, Finished] = {}
    allowed = (each for each in complete if not stores.may_hold(each.record) and _may_be_plain(each))
    for some in neighbours(allowed, AT_ONCE_BYTES, AT_ONCE_PARTS, LARGEST):
        counts = [each.record.parts_received for each in some]
        parts = _parts(archive, places_of(chain.from_iterable(each.runs or () for each in some)))
        for each, end, count in zip(some, accumulate(counts), counts, strict=True):
            own = parts[end - count : end]
            if None not in own and (finished := _content(each.record, own, stores)) is not None:  # type: ignore[arg-type]
                found[each.record.id] = finished
    return found


def _may_be_plain(complete: CompleteAttachment) -> bool:
    record = complete.record
    if record.kind is not AttachmentKind.BINARY_FILE or record.group is not None or record.bytes_received > LARGEST:
        return False
    following = 1
    for first, length, _ in complete.runs or ():
        if first != following:
            return False
        following += length
    return following - 1 == record.parts_expected == record.parts_received > 0


# --- parts ------------------------------------------------------------------------------------------------------------


def _parts(archive: JournalArchive, places: Places) -> list[_Part | None]:
    """Return the parts at these places. None stands for the parts of a record batch that cannot be read."""
    found: list[_Part | None] = [None] * len(places)
    for segment, batch, rows, numbers in by_batch(places):
        try:
            read = archive.placed_bodies(segment, batch, rows)
        except (KeyError, DamagedError):
            continue
        warnings: Mapping[int, str] = {}
        if len(read.properties.keys) and pc.any(pc.equal(read.properties.keys, EVIDENCE)).as_py():
            properties = (dict(each) for each in read.properties.to_pylist())
            warnings = {row: each[EVIDENCE] for row, each in enumerate(properties) if EVIDENCE in each}
        for number, row, body, offset in zip(numbers, rows, read.bodies, read.offsets, strict=True):
            found[number] = _Part(read.framings, warnings, row, body, segment, offset)
    return found


# --- content ----------------------------------------------------------------------------------------------------------


def _content(record: AttachmentRecord, parts: Sequence[_Part], stores: Stores) -> Finished | None:
    """Return the content of a file, in the journal or in the store; None if it is not plain."""
    first = parts[0]
    framing = find_framing(first.framing)
    reader = None if framing is None else framing.begin_file(record, first.body)
    if reader is None:
        return None
    located = [Extent(part.segment, part.offset, len(part.body)) for part in parts[1:]]
    most = EXTENTS_A_PART if stores.in_place else None
    if (records := whole_records(reader, [part.body for part in parts[1:]], located, most)) is None:
        return None
    tally = RecordTotals()
    tally.add_all([extent.length for extent in records.extents])
    if not is_certain(reader, tally):
        return None
    if stores.in_place:
        digest = sha256()
        for piece in records.data:
            digest.update(piece)
        found = Finished(
            record.id,
            tally.size,
            digest.hexdigest(),
            BINARY_TYPE,
            storage="journal",
            finished_at=0,
            extents=tuple(extent for extent in records.extents if extent.length),
            dialects=reader.dialects,
            evidence=reader.evidence,
            **announced(reader.description, tally, "hold"),
        )
    else:
        found = stored_at_once(record, BINARY_TYPE, reader, tally, records.data, stores)
    return with_earlier(concluded_binary(found, first.warnings.get(first.row), record.source, stores), record)
