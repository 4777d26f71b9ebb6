"""The content of a complete attachment, as its framing finds it in the parts in the journal."""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

import pyarrow as pa

from app.assembly.arrangement import arrangement_of
from app.codecs.sas import file_messages
from app.dataset.parquet import write_parquet
from app.framing.protocol import Body, DataSetFacts, FileContent, Framing, PartReader
from app.framing.registry import framing
from app.framing.sas_evidence import Evidence
from app.model.attachment import AttachmentKind
from app.model.errors import InvalidInputError
from app.model.evidence import kept_warnings
from app.model.message import PhysicalMessage, Position
from app.model.records import AttachmentRecord, Extent, Finished
from app.ports import JournalReader
from app.service.content.hashing_writer import Measured
from app.service.content.stored_content import object_name
from app.service.context import Stores
from app.service.finishing.content_evidence import LINE_END, charset_of_file, last_line_end
from app.service.finishing.incremental import EXTENTS_A_PART
from app.service.finishing.media_types import PARQUET_TYPE, announced, stored_type

WRITE_BYTES = 256 << 10
HELD_BYTES = 256 << 10
"""The bodies of an attachment of up to this number of bytes are read once and held until it is finished: most contents
are looked at twice, to recognise their dialect and to read them."""


def content_of(
    record: AttachmentRecord, first: PhysicalMessage, keys: Sequence[int], positions: list[Position], stores: Stores
) -> Finished:
    """Return the content of a complete attachment. `first` is its first message.

    `keys` are the keys of its parts in assembly, in the order of their `positions`. Raises InvalidInputError and
    WireError for content that breaks the specification.
    """
    read_by = framing(first.framing)
    received = ReceivedParts(record, first, positions, stores)
    if record.kind is AttachmentKind.DATA_SET:
        return _data_set_content(record, received, read_by, stores)
    sizes = (extent.length for extent in stores.journal.extents(positions))
    if (why := arrangement_of(record).misfit(keys, sizes)) is not None:
        raise InvalidInputError("bad-group", "offset", -1, why)
    if received.is_small and not stores.in_place and (found := _part_by_part(record, received, read_by)) is not None:
        content_type = stored_type(record.kind, received.first)
        return stored_at_once(record, content_type, found.reader, found.tally, found.data, stores)
    return _file_content(record, received, read_by.file(record, received), stores)


class ReceivedParts:
    """The parts of an attachment at these positions of the journal; see `app.framing.protocol.Received`."""

    def __init__(
        self,
        record: AttachmentRecord,
        first: PhysicalMessage,
        positions: Sequence[Position],
        stores: Stores,
        held: list[memoryview] | None = None,
    ) -> None:
        source = stores.settings.sources.get(record.source)
        self.first, self.encoding = first, (source and source.encoding) or 0
        self.positions, self._journal = positions, stores.journal
        self.is_small = record.bytes_received <= HELD_BYTES
        self._held = held

    def __len__(self) -> int:
        return len(self.positions)

    def bodies(self, numbers: Sequence[int] | None = None) -> Iterator[memoryview]:
        if self.is_small:
            if self._held is None:
                self._held = list(self._journal.bodies(self.positions))
            return iter(self._held if numbers is None else [self._held[number] for number in numbers])
        wanted = self.positions if numbers is None else [self.positions[number] for number in numbers]
        return self._journal.bodies(wanted)


# --- data sets ----------------------------------------------------------------------------------------------------


def _data_set_content(record: AttachmentRecord, received: ReceivedParts, read_by: Framing, stores: Stores) -> Finished:
    """Return a data set's content, which is one Parquet object."""
    written: Measured | None = None

    def store(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        nonlocal written
        with stores.store.create(object_name(record.id)) as target:
            written = Measured(target)
            return write_parquet(schema, batches, written)

    facts = read_by.data_set(record, received, store)
    assert written is not None
    return _described(written, record, facts)


def table_content(record: AttachmentRecord, facts: DataSetFacts, file: bytes, stores: Stores) -> Finished:
    """Return the content of a data set that is this Parquet file."""
    with stores.store.create(object_name(record.id)) as target:
        written = Measured(target)
        written.write(file)
    return _described(written, record, facts)


def _described(written: Measured, record: AttachmentRecord, facts: DataSetFacts) -> Finished:
    return written.stored(
        record,
        PARQUET_TYPE,
        facts.dialects,
        observations=facts.observations,
        variables=facts.variables,
        warnings=kept_warnings(facts.warnings),
        evidence=facts.evidence,
    )


# --- files --------------------------------------------------------------------------------------------------------


def _file_content(record: AttachmentRecord, received: ReceivedParts, file: FileContent, stores: Stores) -> Finished:
    """Return a file's content. It stays in the journal if it may and can."""
    content_type = stored_type(record.kind, received.first)
    charset = charset_of_file(record.kind, received.first)
    if not file.of_lines and stores.in_place and (found := _extents(received, file, stores.journal)) is not None:
        return Finished(
            record.id,
            found.tally.size,
            found.sha256,
            content_type,
            storage="journal",
            finished_at=0,
            extents=found.extents,
            dialects=file.dialects,
            evidence=(*file.evidence(), *charset),
            **announced(file.description, found.tally, stores.on_doubt(record.source)),
        )
    tally = file_messages.RecordTotals()
    line_ends: Evidence = ()
    with stores.store.create(object_name(record.id)) as target:
        measured = Measured(target)
        records = tally.of(_records(file))
        if file.of_lines:
            line_end, filesize = stores.line_end(received.first), file.description and file.description.filesize
            line_ends = _write_lines(records, line_end, filesize, measured)
        else:
            _write_joined(records, measured)
    said = announced(file.description, tally, stores.on_doubt(record.source), of_lines=file.of_lines)
    evidence = (*file.evidence(), *charset, *line_ends)
    return measured.stored(record, content_type, file.dialects, evidence=evidence, **said)


class _Records(NamedTuple):
    """The records of a small file, the reader that found them, and their totals."""

    data: list[Body]
    reader: PartReader
    tally: file_messages.RecordTotals


def _part_by_part(record: AttachmentRecord, received: ReceivedParts, read_by: Framing) -> _Records | None:
    """Return the records of a small binary file, each of whose parts has only whole ones. None leaves it to
    `Framing.file`, which gives the same in more time."""
    reader = read_by.begin_file(record, received.first.body)
    if reader is None:
        return None
    found = _Records([], reader, file_messages.RecordTotals())
    bodies = received.bodies()
    next(bodies)
    for body in bodies:
        if (spans := reader.spans(body)) is None:
            return None
        for start, length in spans:
            found.data.append(body[start : start + length])
            found.tally.add(length)
    return found


def stored_at_once(
    record: AttachmentRecord,
    content_type: str,
    reader: PartReader,
    tally: file_messages.RecordTotals,
    data: Iterable[Body],
    stores: Stores,
) -> Finished:
    """Return the content of a small file, all of whose bytes are `data`, after writing it to the store at once."""
    said = announced(reader.description, tally, stores.on_doubt(record.source))
    with stores.store.create(object_name(record.id)) as target:
        measured = Measured(target)
        measured.write(b"".join(data))
    return measured.stored(record, content_type, reader.dialects, evidence=reader.evidence, **said)


class _Extents(NamedTuple):
    tally: file_messages.RecordTotals
    sha256: str
    extents: tuple[Extent, ...]


def _extents(received: ReceivedParts, file: FileContent, journal: JournalReader) -> _Extents | None:
    """Return the extents of a file's bytes in the journal; None when its records are too small for that."""
    located = list(journal.extents(received.positions))
    digest, tally = sha256(), file_messages.RecordTotals()
    extents: list[Extent] = []
    record_size = 0
    for part, start, data, ends in file.spans():
        record_size += len(data)
        if ends:
            tally.add(record_size)
            record_size = 0
        if not data:
            continue
        segment, offset, _ = located[part]
        digest.update(data)
        extents.append(Extent(segment, offset + start, len(data)))
        if len(extents) > EXTENTS_A_PART * (part + 1 - file.begins_at):
            return None
    return _Extents(tally, digest.hexdigest(), tuple(extents))


def _records(file: FileContent) -> Iterator[Body]:
    """Yield the records of a file, each a slice of its part. Only a record that spans parts is joined."""
    pieces: list[Body] = []
    for _, _, data, ends in file.spans():
        if ends and not pieces:
            yield data
            continue
        pieces.append(data)
        if ends:
            yield b"".join(pieces)
            pieces = []


def _write_joined(records: Iterator[Body], target: Measured) -> None:
    held: list[Body] = []
    size = 0
    for each in records:
        held.append(each)
        size += len(each)
        if size >= WRITE_BYTES:
            target.write(b"".join(held))
            held, size = [], 0
    target.write(b"".join(held))


def _write_lines(records: Iterator[Body], line_end: bytes, filesize: int | None, target: Measured) -> Evidence:
    """Write records as lines; return the choice of the last line end, if there is a line.

    The last line gets a line end, unless the bytes without it have the announced size.
    """
    held: list[Body] = []
    size = lines = 0
    for each in records:
        if lines:
            held.append(line_end)
        held.append(each)
        size += len(each) + len(line_end)
        lines += 1
        if size >= WRITE_BYTES:
            target.write(b"".join(held))
            held, size = [], 0
    target.write(b"".join(held))
    if not lines:
        return ()
    choice = last_line_end(target.size, len(line_end), filesize)
    if choice.reading == LINE_END:
        target.write(line_end)
    return (choice,)
