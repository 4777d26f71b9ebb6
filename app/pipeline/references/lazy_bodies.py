"""Record batches of a journal whose bodies are read when they are asked for.

References need few bodies: of headers, of counts and of small application messages. The bodies of parts are read
once, when their attachment is finished.
"""

from collections.abc import Callable, Sequence
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from app.model.message import PhysicalMessage, Position
from app.ports import JournalArchive, messages_of

Numbers = npt.NDArray[np.int64]
LAST = (1 << 63) - 1
"""The last packed position that there can be."""


class JournalBatch:
    """Physical messages of the journal: `columns` has everything but bodies, `sizes` their sizes in bytes, `positions`
    their packed positions."""

    def __init__(
        self,
        columns: pa.RecordBatch,
        sizes: Numbers,
        positions: Numbers,
        read: Callable[[Sequence[int]], Sequence[memoryview]],
    ) -> None:
        """Take a function that reads the bodies of rows, which ascend."""
        self.columns, self.sizes, self.positions, self._read = columns, sizes, positions, read

    @classmethod
    def at(cls, archive: JournalArchive, places: Sequence[Position], after: int = -1, until: int = LAST) -> Self:
        """Return the messages of the record batches at these places that are after one packed position, and not after
        another, with their bodies in memory. Raises KeyError and DamagedError as `JournalArchive.record_batch`."""
        batch, positions = record_batches(archive, places)
        begin, end = np.searchsorted(positions, (after, until), "right").tolist()
        return cls.whole(batch.slice(begin, end - begin), positions[begin:end])

    @classmethod
    def whole(cls, batch: pa.RecordBatch, positions: Numbers) -> Self:
        """Return the messages of a batch, with these packed positions, whose bodies are in memory."""
        column = batch.column("body")
        _, offsets, data = column.buffers()
        ends = np.frombuffer(offsets, "<i8", len(column) + 1, 8 * column.offset)
        bodies, places = memoryview(data or b""), ends.tolist()

        def read(rows: Sequence[int]) -> list[memoryview]:
            return [bodies[places[row] : places[row + 1]] for row in rows]

        columns = batch.select([name for name in batch.schema.names if name != "body"])
        return cls(columns, np.diff(ends), positions, read)

    @classmethod
    def unread(cls, archive: JournalArchive, place: Position) -> Self:
        """Return the batch at a place. Raises KeyError if there is none, and DamagedError, also later for a body."""
        segment, number, _ = place
        columns = archive.descriptors(segment, number)
        sizes = columns.column("size").to_numpy()
        positions = place.pack() + np.arange(len(columns))
        return cls(columns, sizes, positions, lambda rows: archive.placed_bodies(segment, number, rows).bodies)

    def bodies(self, rows: Numbers) -> Sequence[memoryview]:
        """Return the bodies in these rows, which ascend."""
        return self._read(rows.tolist()) if len(rows) else []

    def messages(self, rows: Numbers) -> list[PhysicalMessage]:
        """Return the messages in these rows, which ascend."""
        return messages_of(self.columns.take(pa.array(rows, pa.int64())), self.bodies(rows))


def record_batches(archive: JournalArchive, places: Sequence[Position]) -> tuple[pa.RecordBatch, Numbers]:
    """Return the record batches at these places as one, and the packed positions of its messages. Raises KeyError and
    DamagedError as `JournalArchive.record_batch`."""
    found = [archive.record_batch(place.segment, place.batch) for place in places]
    starts = zip(places, found, strict=True)
    positions = np.concatenate([place.pack() + np.arange(len(batch)) for place, batch in starts])
    return (found[0] if len(found) == 1 else pa.concat_batches(found)), positions
