"""The header of a segment: an Arrow schema in whole blocks, whose metadata identify the journal.

`attachment_gateway.journal` is the format, and `.created_at` the time when the segment was begun (µs). `.journal_id`
and `.epoch` are the journal's identity. `.header_crc32` is the CRC-32C of these blocks, computed with dashes in place
of its own digits. A segment that a receiver has published also has `.origin_id`, `.origin_segment` and `.origin_end`:
the receiver's own journal, the last of its segments whose messages it has, and the packed position of the last message.
"""

import re
from typing import NamedTuple

from crc32c import crc32c

from adapters.arrow_journal import arrow_ipc
from adapters.arrow_journal.batch_columns import SCHEMA
from adapters.disk import ReadFile, UnreadableError
from app.model.data_formats import JOURNAL
from app.model.records import JournalIdentity, Publication

MAX_HEADER = 64 << 10

_PREFIX = b"attachment_gateway."
_VERSION, _CREATED, _ID, _EPOCH, _CHECKSUM = (
    _PREFIX + name for name in (b"journal", b"created_at", b"journal_id", b"epoch", b"header_crc32")
)
_ORIGIN = tuple(_PREFIX + name for name in (b"origin_id", b"origin_segment", b"origin_end"))
_AN_ID = re.compile(rb"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")
_MARK, _DASHES = b"crc32c:", b"-" * 8


def seed_of(journal_id: str, segment: int) -> int:
    """Return the seed of the checksums of a segment's batches.

    No other segment has the same seed, so a body's content can never be mistaken for a batch.
    """
    return crc32c(f"{journal_id}/{segment}".encode())


class JournalSegmentHeader(NamedTuple):
    """The content of a segment's header. `end` is the beginning of the first batch. `origin` is where the messages of a
    published segment come from."""

    created_at: int
    journal: JournalIdentity
    end: int
    origin: Publication | None = None


class BadHeader(ValueError):
    """A file does not begin with a segment's header. With `foreign` it is an Arrow stream of another program or
    version."""

    def __init__(self, why: str, *, foreign: bool = False) -> None:
        super().__init__(why)
        self.foreign = foreign


def header_bytes(created_at: int, journal: JournalIdentity, origin: Publication | None = None) -> bytes:
    """Return the header of a segment of this journal that was begun at this time (µs), with the origin of its
    messages if it is published."""
    values = {
        _VERSION: str(JOURNAL.number),
        _CREATED: str(created_at),
        _ID: journal.id,
        _EPOCH: str(journal.epoch),
        _CHECKSUM: _MARK + _DASHES,
    }
    if origin is not None:
        values |= dict(zip(_ORIGIN, map(str, origin), strict=True))
    data = arrow_ipc.in_blocks(SCHEMA.with_metadata(values).serialize().to_pybytes())
    return data.replace(_MARK + _DASHES, _MARK + _checksum(data))


def read_header(start: bytes, place: object) -> JournalSegmentHeader:
    """Return the header of a file that begins with `start`, which may be cut at MAX_HEADER bytes. Raises BadHeader, and
    NewerFormat, which names the file's `place`."""
    end = arrow_ipc.metadata_end(start)
    try:
        schema = arrow_ipc.schema_of(start[:end] if end else start)
    except (*arrow_ipc.READ_ERRORS, EOFError, ValueError) as error:
        raise BadHeader(f"it does not begin with an Arrow schema: {error}") from error
    metadata = schema.metadata or {}
    version = metadata.get(_VERSION, b"none").decode("utf-8", "replace")
    checksum = metadata.get(_CHECKSUM)
    if end and (checksum is not None or version == str(JOURNAL.number)):
        if checksum is None or start.count(checksum, 0, end) != 1 or not checksum.startswith(_MARK):
            raise BadHeader("its checksum is damaged")
        if checksum != _MARK + _checksum(start[:end].replace(checksum, _MARK + _DASHES)):
            raise BadHeader("its checksum does not match")
    JOURNAL.require_known(version, str(place))
    if version != str(JOURNAL.number):
        raise BadHeader(f"journal format {version}, expected {JOURNAL.number}", foreign=True)
    if not end or end % arrow_ipc.BLOCK or not schema.equals(SCHEMA):
        raise BadHeader(f"journal format {version} with unknown columns", foreign=True)
    try:
        created_at = int(metadata[_CREATED])
        journal = JournalIdentity(metadata[_ID].decode(), int(metadata[_EPOCH]))
        origin = None
        if _ORIGIN[0] in metadata:
            own, *places = (metadata[name] for name in _ORIGIN)
            origin = Publication(own.decode(), *map(int, places))
    except (KeyError, ValueError) as error:
        raise BadHeader(f"its metadata are damaged: {error}") from error
    return JournalSegmentHeader(created_at, journal, end, origin)


def header_of(file: ReadFile, size: int, place: object) -> JournalSegmentHeader:
    """Return the header of a file of this size in bytes. Raises BadHeader, and NewerFormat, which names its `place`."""
    try:
        start = file.read(0, min(size, arrow_ipc.BLOCK))
        end = arrow_ipc.metadata_end(start) or 0
        return read_header(file.read(0, min(size, end, MAX_HEADER)) if end > len(start) else start, place)
    except UnreadableError as error:
        raise BadHeader(str(error)) from error


def told_journals(file: ReadFile) -> list[str]:
    """Return what may be the id of the journal in a damaged header. It is right if it finds batches."""
    return [found.decode() for found in _AN_ID.findall(file.read_as_is(0, arrow_ipc.BLOCK))]


def _checksum(data: bytes) -> bytes:
    return b"%08x" % crc32c(data)
