"""The content of a complete attachment, as its framing finds it in the parts in the journal.

Each kind has the ways in which its content can be read, in the order in which they are tried (`_WAYS`). Both hosts use
them, for each attachment that was not read with others.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import sha256

import pyarrow as pa

from app.assembly.arrangement import arrangement_of
from app.codecs.sas import file_messages
from app.dataset.parquet import write_parquet
from app.framing.protocol import Body, DataSetFacts, FileContent, PartReader
from app.framing.registry import framing
from app.framing.sas_evidence import Evidence
from app.model.attachment import AttachmentKind
from app.model.errors import InvalidInputError
from app.model.evidence import kept_warnings
from app.model.message import PhysicalMessage, Position
from app.model.records import AttachmentRecord, Extent, Finished
from app.service.content.stored_content import Measured, object_name
from app.service.context import Stores
from app.service.finishing.contained_files import FoundFile, content_pieces, described_files, last_line_ends
from app.service.finishing.content_evidence import charset_of_file, require_certain
from app.service.finishing.incremental import EXTENTS_A_PART, whole_records
from app.service.finishing.media_types import PARQUET_TYPE, announced, stored_type

WRITE_BYTES = 256 << 10
HELD_BYTES = 256 << 10
"""The bodies of an attachment of up to this number of bytes are read once and held until it is finished: most contents
are looked at twice, to recognise their dialect and to read them."""


class ReceivedParts:
    """The parts of an attachment at these positions of the journal; see `app.framing.protocol.Received`."""

    def __init__(
        self,
        record: AttachmentRecord,
        first: PhysicalMessage,
        positions: Sequence[Position],
        stores: Stores,
        held: list[memoryview] | None = None,
        keys: Sequence[int] = (),
    ) -> None:
        source = stores.settings.sources.get(record.source)
        self.first, self.encoding = first, (source and source.encoding) or 0
        self.positions, self.keys, self._journal = positions, keys, stores.journal
        self.is_small = record.bytes_received <= HELD_BYTES
        self._held = held

    def __len__(self) -> int:
        return len(self.positions)

    def message(self, number: int) -> PhysicalMessage:
        return self._journal.read(self.positions[number])

    def bodies(self, numbers: Sequence[int] | None = None) -> Iterator[memoryview]:
        if self.is_small:
            if self._held is None:
                self._held = list(self._journal.bodies(self.positions))
            return iter(self._held if numbers is None else [self._held[number] for number in numbers])
        wanted = self.positions if numbers is None else [self.positions[number] for number in numbers]
        return self._journal.bodies(wanted)


class _Reading:
    """A complete attachment whose content is being read."""

    def __init__(self, record: AttachmentRecord, received: ReceivedParts, stores: Stores) -> None:
        self.record, self.received, self.stores = record, received, stores
        self.framing = framing(received.first.framing)

    @cached_property
    def file(self) -> FileContent:
        """The places of a file's bytes in the parts."""
        return self.framing.file(self.record, self.received)

    @property
    def content_type(self) -> str:
        """The media type of a file."""
        return stored_type(self.record.kind, self.received.first)

    def evidence(self, line_ends: Evidence = ()) -> Evidence:
        """Return the choices between readings of a file, once all of it has been read."""
        return (*self.file.evidence(), *charset_of_file(self.record.kind, self.received.first), *line_ends)


def content_of(
    record: AttachmentRecord, first: PhysicalMessage, keys: Sequence[int], positions: list[Position], stores: Stores
) -> Finished:
    """Return the content of a complete attachment. `first` is its first message.

    `keys` are the keys of its parts in assembly, in the order of their `positions`. Raises InvalidInputError and
    WireError for content that breaks the specification.
    """
    reading = _Reading(record, ReceivedParts(record, first, positions, stores, keys=keys), stores)
    if record.kind is not AttachmentKind.DATA_SET:
        sizes = (extent.length for extent in stores.journal.extents(positions))
        if (why := arrangement_of(record).misfit(keys, sizes)) is not None:
            raise InvalidInputError("bad-group", "offset", -1, why)
    return next(found for way in _WAYS[record.kind] if (found := way(reading)) is not None)


# --- data sets ----------------------------------------------------------------------------------------------------


def _data_set(reading: _Reading) -> Finished:
    """Return a data set's content, which is one Parquet object."""
    record, written = reading.record, None

    def store(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        nonlocal written
        with reading.stores.store.create(object_name(record.id)) as target:
            written = Measured(target)
            return write_parquet(schema, batches, written)

    facts = reading.framing.data_set(record, reading.received, store)
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


def _small_file(reading: _Reading) -> Finished | None:
    """Return the content of a small file that is copied to the store, if each of its parts has only whole records. The
    other ways give the same in more time."""
    received, record = reading.received, reading.record
    if reading.stores.in_place or not received.is_small:
        return None
    if (reader := reading.framing.begin_file(record, received.first.body)) is None:
        return None
    bodies = [*received.bodies()][1:]
    if (records := whole_records(reader, bodies, [Extent(0, 0, len(body)) for body in bodies], None)) is None:
        return None
    tally = file_messages.RecordTotals()
    tally.add_all([len(data) for data in records.data])
    return stored_at_once(record, reading.content_type, reader, tally, records.data, reading.stores)


def stored_at_once(
    record: AttachmentRecord,
    content_type: str,
    reader: PartReader,
    tally: file_messages.RecordTotals,
    data: Iterable[Body],
    stores: Stores,
) -> Finished:
    """Return the content of a small file, all of whose bytes are `data`, after writing it to the store at once."""
    description = announced(reader.description, tally, stores.on_doubt(record.source))
    with stores.store.create(object_name(record.id)) as target:
        measured = Measured(target)
        measured.write(b"".join(data))
    return measured.stored(record, content_type, reader.dialects, evidence=reader.evidence, **description)


def _file_in_journal(reading: _Reading) -> Finished | None:
    """Return the content of a file that may stay in the journal, if its records are not too small for that."""
    record, file, stores = reading.record, reading.file, reading.stores
    if file.of_lines or not stores.in_place:
        return None
    located = list(stores.journal.extents(reading.received.positions))
    digest, found = sha256(), list[FoundFile]()
    extents: list[Extent] = []
    for description, spans in file.described():
        tally, record_size = file_messages.RecordTotals(), 0
        for part, start, data, ends in spans:
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
        found.append(FoundFile(description, tally, tally.size))
    return Finished(
        record.id,
        sum(each.size for each in found),
        digest.hexdigest(),
        reading.content_type,
        storage="journal",
        finished_at=0,
        extents=tuple(extents),
        dialects=file.dialects,
        evidence=reading.evidence(),
        **described_files(found, stores.on_doubt(record.source)),
    )


def _stored_file(reading: _Reading) -> Finished:
    """Return the content of a file as an object of the store: its records as lines, or joined."""
    record, file, stores = reading.record, reading.file, reading.stores
    found: list[FoundFile] = []
    with stores.store.create(object_name(record.id)) as target:
        measured = Measured(target)
        line_end = stores.line_end(reading.received.first) if file.of_lines else b""
        held: list[Body] = []
        size = 0
        for piece in content_pieces(file, line_end, found):
            held.append(piece)
            size += len(piece)
            if size >= WRITE_BYTES:
                measured.write(b"".join(held))
                held, size = [], 0
        measured.write(b"".join(held))
        # What is in doubt is not kept.
        described = described_files(found, stores.on_doubt(record.source), of_lines=file.of_lines)
        evidence = reading.evidence(last_line_ends(found))
        require_certain(record, evidence, stores)
    return measured.stored(record, reading.content_type, file.dialects, evidence=evidence, **described)


_WAYS: Mapping[AttachmentKind | None, Sequence[Callable[[_Reading], Finished | None]]] = {
    AttachmentKind.DATA_SET: (_data_set,),
    AttachmentKind.TEXT_FILE: (_file_in_journal, _stored_file),
    AttachmentKind.BINARY_FILE: (_small_file, _file_in_journal, _stored_file),
}
"""The ways to read each kind, in the order in which they are tried. The last one always applies."""
