"""Reading binary files while their parts are still in memory.

A file whose parts come in order is measured part by part, as they are assembled, so that nothing of it has to be read
again when it is complete. Whatever does not go that way (parts out of order, small records, records that span parts, a
start in the middle after a restart) is left to finishing, which reads the parts from the journal and comes to the same
result.
"""

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from app.codecs.sas import dialect, files
from app.codecs.sas.dialect import Dialect
from app.model.attachment import AttachmentKind
from app.model.message import Position
from app.model.records import AttachmentRecord, Extent, Finished
from app.ports import Journal
from app.wire import WireError

AT_ONCE = 256
"""Files that are read at the same time; of more, the one begun longest ago is left to finishing."""

EXTENTS_A_PART = 4
"""A file with more records a part than this is copied to the store: reading it in many small pieces does not pay."""

EXTENTS_HELD = 100_000
"""Extents of all files together; a file that needs more is left to finishing."""

BATCHES_BEHIND = 2
"""Batches that may wait to be hashed."""

BINARY_TYPE = "application/octet-stream"


@dataclass(slots=True)
class _Reading:
    """A file whose parts 1..`following - 1` have been read."""

    dialects: int
    chosen: Dialect | None = None
    following: int = 2
    size: int = 0
    digest: Any = field(default_factory=sha256)
    held: list[memoryview] = field(default_factory=list)
    extents: list[Extent] = field(default_factory=list)

    def to_hash(self) -> tuple[Any, list[memoryview]]:
        """The digest and what it has not seen yet, which is no longer held here."""
        held, self.held = self.held, []
        return self.digest, held


class EarlyReader:
    """The files that are being read as they come. Hashing has a thread of its own, a few batches behind."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._reading: dict[str, _Reading] = {}
        self._holding: dict[int, _Reading] = {}
        self._extents = 0
        self._hasher = ThreadPoolExecutor(1, "hash")
        self._hashing: deque[Future[None]] = deque()

    def part(self, record: AttachmentRecord, sequence: int, body: bytes | memoryview, position: Position) -> None:
        """Reads a part that has come for the first time."""
        if sequence == 1:
            self._begin(record, body)
            return
        reading = self._reading.get(record.id)
        if reading is None:
            return
        if sequence != reading.following or not self._read(reading, body, position):
            self._leave(record.id)

    def let_go(self) -> None:
        """Has what is held hashed, so that no body is kept much longer than its batch."""
        if self._holding:
            work = [reading.to_hash() for reading in self._holding.values()]
            self._hashing.append(self._hasher.submit(_hash, work))
            self._holding.clear()
        if len(self._hashing) > BATCHES_BEHIND:
            self._hashing.popleft().result()

    def forget(self) -> None:
        """Leaves everything to finishing."""
        self._reading.clear()
        self._holding.clear()
        self._extents = 0

    def close(self) -> None:
        """Ends the thread; nothing may be read any more."""
        self._hasher.shutdown()

    def take(self, attachment_id: str, parts_expected: int | None) -> Finished | None:
        """What is known of a file that is complete; None when it was not read to its end."""
        reading = self._leave(attachment_id)
        if reading is None or reading.following - 1 != parts_expected:
            return None
        self._await_hashing()
        _hash([reading.to_hash()])
        return Finished(
            attachment_id,
            size=reading.size,
            sha256=reading.digest.hexdigest(),
            content_type=BINARY_TYPE,
            storage="journal",
            finished_at=0,
            extents=tuple(reading.extents),
            dialects=reading.dialects,
        )

    def _leave(self, attachment_id: str) -> _Reading | None:
        reading = self._reading.pop(attachment_id, None)
        if reading is not None:
            self._extents -= len(reading.extents)
        return reading

    def _await_hashing(self) -> None:
        if self._hashing:
            self._hashing[-1].result()
            self._hashing.clear()

    def _begin(self, record: AttachmentRecord, body: bytes | memoryview) -> None:
        if record.kind is not AttachmentKind.BINARY_FILE:
            return
        try:
            _, dialects = files.read_file_description(body, record.dialects or dialect.ALL)
        except WireError:
            return
        if len(self._reading) >= AT_ONCE:
            self._leave(next(iter(self._reading)))
        self._reading[record.id] = _Reading(dialects)

    def _read(self, reading: _Reading, body: bytes | memoryview, position: Position) -> bool:
        """False when the part is not made of a few whole records."""
        try:
            reading.chosen = reading.chosen or files.detect(lambda: [body], reading.dialects)
            spans = list(files.spans([body], reading.chosen))
        except WireError:
            return False
        if len(spans) > EXTENTS_A_PART or self._extents + len(spans) > EXTENTS_HELD:
            return False
        segment, offset, _ = next(self._journal.extents([position]))
        view = memoryview(body)
        for _, start, length, _ in spans:
            if length:
                reading.held.append(view[start : start + length])
                reading.extents.append(Extent(segment, offset + start, length))
                reading.size += length
                self._extents += 1
        reading.following += 1
        self._holding[id(reading)] = reading
        return True


def _hash(work: list[tuple[Any, list[memoryview]]]) -> None:
    for digest, pieces in work:
        for piece in pieces:
            digest.update(piece)
