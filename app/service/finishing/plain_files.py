"""Binary files whose parts came in order and hold only whole records: many are read from an archive at once.

Their bodies are read a record batch at a time, each once. `app.service.finishing.finished_contents.read_content` gives
the same for each of them, in more time. All other attachments are left to it, and so is everything that cannot be read:
it tells why.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import accumulate, chain
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from app.codecs.sas.file_messages import RecordTotals
from app.framing.protocol import PartReader
from app.framing.registry import find_framing
from app.model.attachment import AttachmentKind
from app.model.errors import DamagedError
from app.model.message import EVIDENCE
from app.model.records import AttachmentRecord, Extent, Finished, PartRun
from app.ports import JournalArchive
from app.service.context import Stores
from app.service.finishing.complete_content import stored_at_once
from app.service.finishing.content_evidence import concluded_in, is_certain, with_earlier
from app.service.finishing.incremental import EXTENTS_A_PART
from app.service.finishing.media_types import BINARY_TYPE, announced
from app.service.finishing.stored_parts import Places, by_batch, places_of

LARGEST = 8 << 20
"""The size in bytes of the largest file that is read with others: all of it is in memory."""

AT_ONCE_BYTES, AT_ONCE_PARTS = 1 << 20, 2048
"""The size and the number of the parts from which on no more files are read at the same time."""


class WholeFile(NamedTuple):
    """A complete attachment with the runs of its parts, by sequence number."""

    record: AttachmentRecord
    runs: Sequence[PartRun]


class _Part(NamedTuple):
    """A part of a file: its row in a record batch, its body, and where that begins in the file of its segment.
    `doubts` are what the transport said of rows of the batch."""

    framings: pa.StringArray
    doubts: Mapping[int, str]
    row: int
    body: memoryview
    segment: int
    offset: int

    @property
    def framing(self) -> str:
        name: str = self.framings[self.row].as_py()
        return name


def plain_files(wholes: Iterable[WholeFile], archive: JournalArchive, stores: Stores) -> dict[str, Finished]:
    """Return the content of those of these attachments that are plain files, by identifier.

    Neighbours in the journal should be neighbours here. `finished_at` is not set.
    """
    found: dict[str, Finished] = {}
    allowed = (whole for whole in wholes if not stores.is_strict(whole.record.source))
    for some in _near(filter(_may_be_plain, allowed)):
        counts = [whole.record.parts_received for whole in some]
        parts = _parts(archive, places_of(chain.from_iterable(whole.runs for whole in some)))
        for whole, end, count in zip(some, accumulate(counts), counts, strict=True):
            own = parts[end - count : end]
            if None not in own and (finished := _content(whole.record, own, stores)) is not None:  # type: ignore[arg-type]
                found[whole.record.id] = finished
    return found


def _may_be_plain(whole: WholeFile) -> bool:
    record = whole.record
    if record.kind is not AttachmentKind.BINARY_FILE or record.group is not None or record.bytes_received > LARGEST:
        return False
    following = 1
    for first, length, _ in whole.runs:
        if first != following:
            return False
        following += length
    return following - 1 == record.parts_expected == record.parts_received > 0


def _near(wholes: Iterable[WholeFile]) -> Iterator[list[WholeFile]]:
    """Yield files in pieces that are read together."""
    gathered: list[WholeFile] = []
    size = parts = 0
    for whole in wholes:
        gathered.append(whole)
        size += whole.record.bytes_received
        parts += whole.record.parts_received
        if size >= AT_ONCE_BYTES or parts >= AT_ONCE_PARTS:
            yield gathered
            gathered, size, parts = [], 0, 0
    if gathered:
        yield gathered


# --- parts ------------------------------------------------------------------------------------------------------------


def _parts(archive: JournalArchive, places: Places) -> list[_Part | None]:
    """Return the parts at these places. None stands for the parts of a record batch that cannot be read."""
    found: list[_Part | None] = [None] * len(places)
    for segment, batch, rows, numbers in by_batch(places):
        try:
            read = archive.placed_bodies(segment, batch, rows)
        except (KeyError, DamagedError):
            continue
        doubts = _doubts(read.properties)
        for number, row, body, offset in zip(numbers, rows, read.bodies, read.offsets, strict=True):
            found[number] = _Part(read.framings, doubts, row, body, segment, offset)
    return found


def _doubts(properties: pa.MapArray) -> Mapping[int, str]:
    """Return what the transport said of the messages of a batch that are not as they were announced, by row."""
    if not len(properties.keys) or not pc.any(pc.equal(properties.keys, EVIDENCE)).as_py():
        return {}
    said = (dict(each) for each in properties.to_pylist())
    return {row: each[EVIDENCE] for row, each in enumerate(said) if EVIDENCE in each}


# --- content ----------------------------------------------------------------------------------------------------------


def _content(record: AttachmentRecord, parts: Sequence[_Part], stores: Stores) -> Finished | None:
    """Return the content of a file, in the journal or in the store; None if it is not plain."""
    described = parts[0]
    framing = find_framing(described.framing)
    reader = None if framing is None else framing.begin_file(record, described.body)
    if reader is None:
        return None
    tally = RecordTotals()
    pieces: list[memoryview] = []
    extents: list[Extent] = []
    for part in parts[1:]:
        if (spans := reader.spans(part.body)) is None or (stores.in_place and len(spans) > EXTENTS_A_PART):
            return None
        for start, length in spans:
            tally.add(length)
            if length:
                pieces.append(part.body[start : start + length])
                extents.append(Extent(part.segment, part.offset + start, length))
    if not is_certain(reader, tally):
        return None
    if stores.in_place:
        found = _in_journal(record, reader, tally, pieces, extents)
    else:
        found = stored_at_once(record, BINARY_TYPE, reader, tally, pieces, stores)
    return with_earlier(concluded_in(found, described.doubts.get(described.row), record.source, stores), record)


def _in_journal(
    record: AttachmentRecord,
    reader: PartReader,
    tally: RecordTotals,
    pieces: Iterable[memoryview],
    extents: Iterable[Extent],
) -> Finished:
    digest = sha256()
    for piece in pieces:
        digest.update(piece)
    return Finished(
        record.id,
        tally.size,
        digest.hexdigest(),
        BINARY_TYPE,
        storage="journal",
        finished_at=0,
        extents=tuple(extents),
        dialects=reader.dialects,
        evidence=reader.evidence,
        **announced(reader.description, tally, "hold"),
    )
