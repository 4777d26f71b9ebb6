"""Record batches of a journal whose bodies are read when they are asked for.

References need few bodies: of headers, of counts and of small application messages. The bodies of parts are read
once, when their attachment is finished.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from app.model.message import PhysicalMessage, Position
from app.ports import JournalArchive, messages_of

Numbers = npt.NDArray[np.int64]


class JournalBatch:
    """The physical messages of a record batch: `columns` has everything but bodies, `sizes` their sizes in bytes."""

    def __init__(
        self, columns: pa.RecordBatch, sizes: Numbers, read: Callable[[Sequence[int]], Sequence[memoryview]]
    ) -> None:
        """Take a function that reads the bodies of rows, which ascend."""
        self.columns, self.sizes, self._read = columns, sizes, read

    @classmethod
    def whole(cls, batch: pa.RecordBatch) -> "JournalBatch":
        """Return a batch whose bodies are in memory."""
        column = batch.column("body")
        _, offsets, data = column.buffers()
        ends = np.frombuffer(offsets, "<i8", len(column) + 1, 8 * column.offset)
        bodies, places = memoryview(data or b""), ends.tolist()

        def read(rows: Sequence[int]) -> list[memoryview]:
            return [bodies[places[row] : places[row + 1]] for row in rows]

        columns = batch.select([name for name in batch.schema.names if name != "body"])
        return cls(columns, np.diff(ends), read)

    @classmethod
    def unread(cls, archive: JournalArchive, place: Position) -> "JournalBatch":
        """Return the batch at a place. Raises KeyError if there is none, and DamagedError, also later for a body."""
        segment, number, _ = place
        columns = archive.descriptors(segment, number)
        sizes = columns.column("size").to_numpy()
        return cls(columns, sizes, lambda rows: archive.placed_bodies(segment, number, rows).bodies)

    def bodies(self, rows: Numbers) -> Sequence[memoryview]:
        """Return the bodies in these rows, which ascend."""
        return self._read(rows.tolist()) if len(rows) else []

    def messages(self, rows: Numbers) -> list[PhysicalMessage]:
        """Return the messages in these rows, which ascend."""
        return messages_of(self.columns.take(pa.array(rows, pa.int64())), self.bodies(rows))
