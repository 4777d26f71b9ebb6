"""Incremental reading of binary files and groups, while their parts are still in memory.

A file whose parts come in order is measured part by part as they are assembled. So nothing has to be read again when it
is complete. Other files are left to finishing, which reads the parts from the journal and gets the same result. They
are those with parts out of order, small records or records that span parts, and those begun before a restart.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple

from app.codecs.sas import file_messages
from app.framing.protocol import Body, PartReader
from app.framing.registry import find_framing
from app.framing.sas_evidence import Evidence
from app.model.event import GroupPart
from app.model.message import PhysicalMessage, Position
from app.model.records import AttachmentRecord, Extent, Finished
from app.observe import logger
from app.service.content.stored_content import joined
from app.service.context import Stores
from app.service.finishing.content_evidence import charset_of_file, concluded, is_certain
from app.service.finishing.media_types import BINARY_TYPE, announced, stored_type

log = logger(__name__)

AT_ONCE = 256
"""The most files that are read at the same time. Beyond that the one begun longest ago is left to finishing."""

EXTENTS_A_PART = 4
"""The most extents a part. A file with more records a part is copied to the store, since many small reads are slow."""

EXTENTS_HELD = 100_000
"""The most extents of all files together. A file that needs more is left to finishing."""

BATCHES_BEHIND = 2
"""The most batches that may wait to be hashed."""

EarlyContent = Callable[[int], Finished]
"""The content of a file, given the time at which it is finished. Call it after `IncrementalReader.let_go`."""


@dataclass(slots=True)
class _Reading:
    """A file of which `parts` parts have been read, all before `following`.

    `following` is a sequence number, or the place of a group's part; `first` is the first message, without its body.
    """

    following: int
    parts: int
    first: PhysicalMessage
    content_type: str = BINARY_TYPE
    evidence: Evidence = ()
    reader: PartReader | None = None
    tally: file_messages.RecordTotals = field(default_factory=file_messages.RecordTotals)
    size: int = 0
    digest: Any = field(default_factory=sha256)
    held: list[memoryview] = field(default_factory=list)
    extents: list[Extent] = field(default_factory=list)

    @property
    def is_certain(self) -> bool:
        """Whether the file has the size that its sender announced, if it announced one, and no other reading."""
        return self.reader is None or is_certain(self.reader, self.tally)

    def to_hash(self) -> tuple[Any, list[memoryview]]:
        """Return the digest and the bytes that it lacks. They are no longer held here."""
        held, self.held = self.held, []
        return self.digest, held


class IncrementalReader:
    """Reads files as their parts come. Hashing has a thread of its own, a few batches later."""

    def __init__(self, stores: Stores) -> None:
        self._stores, self._journal = stores, stores.journal
        self._reading: dict[str, _Reading] = {}
        self._holding: dict[int, _Reading] = {}
        self._extents = 0
        self._hasher = ThreadPoolExecutor(1, "hash")
        self._hashing: deque[Future[None]] = deque()

    def parts(
        self, record: AttachmentRecord, first: int, messages: Sequence[PhysicalMessage], positions: Sequence[Position]
    ) -> None:
        """Read parts that have come for the first time, with sequence numbers from `first` on."""
        behind = 0
        if first == 1:
            message, framing = messages[0], find_framing(messages[0].framing)
            try:
                reader = None if framing is None else framing.begin_file(record, message.body)
            except Exception:
                log.exception("early_reading_failed", attachment=record.id)
                reader = None
            if reader is not None:
                self._enter(record.id, _Reading(2, 1, message._replace(body=b""), reader=reader))
            behind = 1
        reading = self._reading.get(record.id)
        if reading is None or behind == len(messages):
            return
        bodies = [message.body for message in messages[behind:]]
        if first + behind != reading.following or not self._read(reading, bodies, positions[behind:]):
            self.leave(record.id)

    def group_part(self, attachment_id: str, event: GroupPart, message: PhysicalMessage, position: Position) -> None:
        """Read a part of a group that has come for the first time. Pieces of bodies are left to finishing."""
        if event.units is not None:
            return
        if event.begins_group:
            kind, described = event.definition.kind, self._stores.described(message)
            content_type, evidence = stored_type(kind, described), charset_of_file(kind, described)
            first = message._replace(body=b"")
            self._enter(attachment_id, _Reading(_place(1, 0), 0, first, content_type, evidence))
        reading = self._reading.get(attachment_id)
        if reading is None:
            return
        if _place(event.message, event.offset) != reading.following or self._extents >= EXTENTS_HELD:
            self.leave(attachment_id)
            return
        segment, offset, _ = next(iter(self._journal.extents([position])))
        if event.size:
            reading.held.append(memoryview(message.body)[: event.size])
            reading.extents.append(Extent(segment, offset, event.size))
            reading.size += event.size
            self._extents += 1
        reading.parts += 1
        self._holding[id(reading)] = reading
        reading.following = (
            _place(event.message + 1, 0) if event.ends_message else _place(event.message, event.offset + event.size)
        )

    def let_go(self) -> None:
        """Have the held bytes hashed, so that no body is kept much longer than its batch."""
        if self._holding:
            work = [reading.to_hash() for reading in self._holding.values()]
            self._hashing.append(self._hasher.submit(_hash, work))
            self._holding.clear()
        if len(self._hashing) > BATCHES_BEHIND:
            self._hashing.popleft().result()

    def forget(self) -> None:
        """Leave all files to finishing."""
        self._reading.clear()
        self._holding.clear()
        self._extents = 0

    def close(self) -> None:
        """End the thread. Nothing may be read after that."""
        self._hasher.shutdown()

    def take(self, attachment_id: str, parts_expected: int | None) -> "EarlyContent | None":
        """Return the content of a complete file; None when the file was not read to its end, or has another reading:
        finishing decides then."""
        reading = self.leave(attachment_id)
        if reading is None or reading.parts != parts_expected or not reading.is_certain:
            return None
        return partial(self._content, attachment_id, reading)

    def _content(self, attachment_id: str, reading: _Reading, finished_at: int) -> Finished:
        if self._hashing:
            self._hashing[-1].result()
            self._hashing.clear()
        description: dict[str, Any] = {"evidence": reading.evidence}
        if (reader := reading.reader) is not None:
            description = {"dialects": reader.dialects, "evidence": reader.evidence}
            description |= announced(reader.description, reading.tally, "hold")
        found = Finished(
            attachment_id,
            size=reading.size,
            sha256=reading.digest.hexdigest(),
            content_type=reading.content_type,
            storage="journal",
            finished_at=finished_at,
            extents=tuple(reading.extents),
            **description,
        )
        return concluded(found, reading.first, self._stores)

    def leave(self, attachment_id: str) -> _Reading | None:
        """Leave one file to finishing. Return how far it was read."""
        reading = self._reading.pop(attachment_id, None)
        if reading is not None:
            self._extents -= len(reading.extents)
        return reading

    def _enter(self, attachment_id: str, reading: _Reading) -> None:
        if len(self._reading) >= AT_ONCE:
            self.leave(next(iter(self._reading)))
        self._reading[attachment_id] = reading

    def _read(self, reading: _Reading, bodies: Sequence[Body], positions: Iterable[Position]) -> bool:
        """Read parts that follow. Return False when one of them does not consist of a few whole records."""
        if reading.reader is None:
            return False
        located = list(self._journal.extents(positions))
        try:
            found = whole_records(reading.reader, bodies, located)
        except Exception:
            log.exception("early_reading_failed")
            return False
        if found is None or self._extents + len(found.extents) > EXTENTS_HELD:
            return False
        lengths = [extent.length for extent in found.extents]
        extents = [extent for extent in found.extents if extent.length]
        reading.tally.add_all(lengths)
        reading.held += filter(len, found.data)
        reading.extents += extents
        reading.size += sum(lengths)
        self._extents += len(extents)
        reading.following += len(bodies)
        reading.parts += len(bodies)
        self._holding[id(reading)] = reading
        return True


class WholeRecords(NamedTuple):
    """Records of a file, and where the journal has them. They may be empty."""

    data: list[memoryview]
    extents: list[Extent]


def whole_records(
    reader: PartReader, bodies: Sequence[Body], located: Sequence[Extent], most: int | None = EXTENTS_A_PART
) -> WholeRecords | None:
    """Return the records of parts, which the journal has at `located`; None if one of them does not consist of whole
    records, or of more than `most`."""
    if bodies and (start := reader.record_start(bodies)) is not None:
        data = [memoryview(body)[start:] for body in bodies]
        return WholeRecords(data, [Extent(segment, at + start, length - start) for segment, at, length in located])
    found = WholeRecords([], [])
    for body, (segment, at, _) in zip(bodies, located, strict=True):
        spans = reader.spans(body)
        if spans is None or (most is not None and len(spans) > most):
            return None
        found.data.extend(memoryview(body)[start : start + length] for start, length in spans)
        found.extents.extend(Extent(segment, at + start, length) for start, length in spans)
    return found


def _place(message: int, offset: int) -> int:
    return message << 32 | offset


def _hash(work: list[tuple[Any, list[memoryview]]]) -> None:
    """Hash the pieces of each file, many at a time. Each call gives up Python's lock, and under load waits for it
    longer than joining takes."""
    for digest, pieces in work:
        for piece in joined(pieces):
            digest.update(piece)
