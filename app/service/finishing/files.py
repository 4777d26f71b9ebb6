"""The content of a complete file or group, from its parts in the journal."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import NamedTuple

from app.assembly import groups
from app.codecs.ibm_mq.encodings import in_charset
from app.codecs.sas import dialect, files
from app.codecs.sas.dialect import Dialect
from app.model.attachment import AttachmentKind
from app.model.errors import TheirError
from app.model.message import PhysicalMessage, Position
from app.model.records import AttachmentRecord, Extent, Finished
from app.ports import JournalReader
from app.service.content.access import object_name
from app.service.finishing.early import EXTENTS_A_PART
from app.service.finishing.measured import BINARY_TYPE, Measured, announced, text_type
from app.service.surroundings import Stores

WRITE_BYTES = 256 << 10


# --- files --------------------------------------------------------------------------------------------------------


def file_content(
    record: AttachmentRecord, first: PhysicalMessage, positions: list[Position], stores: Stores
) -> Finished:
    """A file attachment's content. Text records become lines of their source, binary records are joined as they are.

    Raises TheirError and WireError for what breaks the specification.
    """
    journal, store = stores.journal, stores.store
    description, dialects = files.read_file_description(first.body, record.dialects or dialect.ALL)
    parts = positions[1:]
    is_text = record.kind is AttachmentKind.TEXT_FILE
    line_end = in_charset(stores.settings.line_end(record.source), first.ccsid, first.encoding)
    has_bytes_as_characters = len(in_charset("\n", first.ccsid, first.encoding)) == 1
    chosen = files.detect(lambda: journal.bodies(parts), dialects, text=is_text and has_bytes_as_characters)
    content_type = BINARY_TYPE
    if is_text:
        content_type = text_type(first)
    elif stores.in_place and (found := _extents(parts, chosen, journal)) is not None:
        return Finished(
            record.id,
            found.tally.size,
            found.sha256,
            content_type,
            storage="journal",
            finished_at=0,
            extents=found.extents,
            dialects=dialects,
            **announced(description, found.tally),
        )
    tally = files.Tally()
    with store.create(object_name(record.id)) as target:
        measured = Measured(target)
        records = tally.of(files.records(journal.bodies(parts), chosen))
        if is_text:
            _write_lines(records, line_end, description.filesize, measured)
        else:
            _write_joined(records, measured)
    return replace(measured.stored(record, content_type, dialects), **announced(description, tally))


class _Extents(NamedTuple):
    tally: files.Tally
    sha256: str
    extents: tuple[Extent, ...]


def _extents(parts: Sequence[Position], chosen: Dialect, journal: JournalReader) -> _Extents | None:
    """Where a binary file's bytes lie in the journal; None when its records are too small for that."""
    located = list(journal.extents(parts))
    digest, tally = sha256(), files.Tally()
    extents: list[Extent] = []
    body = memoryview(b"")

    def walked() -> Iterator[memoryview]:
        nonlocal body
        for fetched in journal.bodies(parts):
            body = fetched
            yield fetched

    record_size = 0
    for part, start, length, ends in files.spans(walked(), chosen):
        record_size += length
        if ends:
            tally.add(record_size)
            record_size = 0
        if not length:
            continue
        segment, offset, _ = located[part]
        digest.update(body[start : start + length])
        extents.append(Extent(segment, offset + start, length))
        if len(extents) > EXTENTS_A_PART * (part + 1):
            return None
    return _Extents(tally, digest.hexdigest(), tuple(extents))


def _write_joined(records: Iterator[bytes | memoryview], target: Measured) -> None:
    held: list[bytes | memoryview] = []
    size = 0
    for each in records:
        held.append(each)
        size += len(each)
        if size >= WRITE_BYTES:
            target.write(b"".join(held))
            held, size = [], 0
    target.write(b"".join(held))


def _write_lines(records: Iterator[bytes | memoryview], line_end: bytes, filesize: int, target: Measured) -> None:
    """Records as lines. Whether the last one is ended too, the file size tells where it counts line ends (it is
    compared modulo 2^32, as a 4-byte one must be); otherwise it is."""
    held: list[bytes | memoryview] = []
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
    if lines and (target.size - filesize) % (1 << 32):
        target.write(line_end)


# --- groups -------------------------------------------------------------------------------------------------------


def group_content(
    keys: Sequence[int],
    record: AttachmentRecord,
    first: PhysicalMessage,
    positions: list[Position],
    stores: Stores,
) -> Finished:
    """An IBM MQ group's content: the bodies at these positions, as they are. `keys` are those of
    `app.assembly.groups`, in the same order.

    Raises TheirError when they do not lie side by side.
    """
    extents = tuple(stores.journal.extents(positions))
    if (why := groups.misfit(keys, (extent.length for extent in extents))) is not None:
        raise TheirError("bad-group", "offset", -1, why)
    content_type = text_type(first) if record.kind is AttachmentKind.TEXT_FILE else BINARY_TYPE
    bodies = stores.journal.bodies(positions)
    if not stores.in_place:
        with stores.store.create(object_name(record.id)) as target:
            measured = Measured(target)
            _write_joined(bodies, measured)
        return measured.stored(record, content_type)
    digest = sha256()
    for body in bodies:
        digest.update(body)
    return Finished(
        record.id,
        size=sum(extent.length for extent in extents),
        sha256=digest.hexdigest(),
        content_type=content_type,
        storage="journal",
        finished_at=0,
        extents=tuple(extent for extent in extents if extent.length),
    )
