"""Parts of many small attachments, read from the journal at once.

Reading the parts of one small attachment is more preparation than reading. Those of attachments that lie beside each
other are read together.
"""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from app.model.errors import DamagedError
from app.model.message import PhysicalMessage, Position
from app.model.records import Damage, Extent
from app.ports import JournalReader, Segment


class PartsAhead:
    """A `JournalReader` that holds the bodies of some messages."""

    def __init__(self, journal: JournalReader) -> None:
        self._journal = journal
        self._held: dict[Position, memoryview] = {}

    def hold(self, positions: Iterable[Position]) -> None:
        """Read these bodies and hold them, in place of those before.

        If one of them cannot be read, none is held. Who asks for a body then gets it, or the error, from the journal.
        """
        self._held = {}
        wanted = sorted(positions)
        try:
            self._held = dict(zip(wanted, self._journal.bodies(wanted), strict=True))
        except (KeyError, DamagedError):
            return

    def bodies(self, positions: Iterable[Position]) -> Iterator[memoryview]:
        wanted = list(positions)
        if all(position in self._held for position in wanted):
            return iter([self._held[position] for position in wanted])
        return self._journal.bodies(wanted)

    def read(self, position: Position) -> PhysicalMessage:
        return self._journal.read(position)

    def messages(self, segment: int, batch: int, rows: Sequence[int]) -> list[PhysicalMessage]:
        return self._journal.messages(segment, batch, rows)

    def descriptors(self, segment: int, batch: int) -> pa.RecordBatch:
        return self._journal.descriptors(segment, batch)

    def extents(self, positions: Iterable[Position]) -> Iterator[Extent]:
        return self._journal.extents(positions)

    def views(self, extents: Iterable[Extent]) -> Iterator[memoryview]:
        return self._journal.views(extents)

    def segment_bytes(self, segment: int) -> Iterator[memoryview]:
        return self._journal.segment_bytes(segment)

    def verify(self, segment: int) -> list[Damage]:
        return self._journal.verify(segment)

    def segments(self) -> list[Segment]:
        return self._journal.segments()

    def has(self, segment: int) -> bool:
        return self._journal.has(segment)
