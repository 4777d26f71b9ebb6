"""Reading of one segment: finding batches, decoding them, and checking bodies against their checksums."""

from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import zip_longest
from threading import Lock
from typing import TypeVar

import pyarrow as pa

from adapters.arrow_journal import arrow_ipc
from adapters.arrow_journal.batch_columns import SCHEMA, BodyLayout, Head, encode, read_head
from adapters.arrow_journal.body_pieces import BODY_DAMAGED, BodyPiece, are_whole, fetch, read_rows, readable
from adapters.arrow_journal.segment_files import SegmentState
from adapters.arrow_journal.segment_scan import find_batches
from adapters.disk import READ_FAILURES, ReadFile, ReadWindow, UnreadableError
from app.model.errors import DamagedError, GatewayError
from app.model.message import PhysicalMessage, Position
from app.model.records import DAMAGED_MESSAGE, Damage
from app.ports import PlacedBodies, messages_of

T = TypeVar("T")

OpenFile = Callable[[SegmentState], ReadFile]
"""A function that opens the file of a segment and sets its `seed`. Raises KeyError when it is gone, and OSError."""

LAYOUTS_A_SEGMENT = 64
HEADS_A_SEGMENT = 2
CHECKED_A_SEGMENT = 1024

HEAD_DAMAGED = "the batch's head fails its checksum"
BATCH_LOST = "the batch is lost"
_EMPTY = memoryview(b"")


class SegmentFile:
    """A segment whose file stays open for reading as long as this object exists.

    Any thread may read. The lock guards changes of `_layouts`, `_heads`, `_columns` and `_checked`, and the search for
    the batches of `state`.
    """

    def __init__(self, state: SegmentState, open_file: OpenFile) -> None:
        self.state = state
        self.number = state.number
        self._open_file = open_file
        self._file: ReadFile | None = None
        self._layouts: OrderedDict[int, BodyLayout] = OrderedDict()
        self._heads: OrderedDict[int, Head] = OrderedDict()
        self._columns: OrderedDict[int, pa.RecordBatch] = OrderedDict()
        self._checked: OrderedDict[int, None] = OrderedDict()
        self._lock = Lock()

    @property
    def seed(self) -> int:
        """Return the seed of the checksums in the open file."""
        assert self.state.seed is not None
        return self.state.seed

    def file(self) -> ReadFile:
        """Open the file. Raises KeyError when the segment is gone, DamagedError and GatewayError when its file cannot
        be opened."""
        if self._file is None:
            try:
                self._file = self._open_file(self.state)
            except OSError as error:
                why = f"its file cannot be opened: {error.strerror}"
                if error.errno in READ_FAILURES:
                    raise self._damaged(None, why) from error
                raise GatewayError(f"journal segment {self.state.number}: {why}") from error
        return self._file

    def batch_count(self) -> int:
        """Return the number of durable batches, lost ones included.

        It opens the file, which stays open, and raises the same errors as `file`.
        """
        with self._lock:
            self.file()
            return len(self._batches())

    def batch_sizes(self) -> list[int]:
        """Return the size of every batch of a sealed segment in bytes. Of batches lost together, the last has all the
        bytes. If batches may have been lost at the end, they are one batch of 0 bytes."""
        with self._lock:
            starts = [max(start, ~start) for start in self._batches()]
        ends = [*starts[1:], self.state.size - self.state.size % arrow_ipc.BLOCK]
        sizes = [end - start for start, end in zip(starts, ends, strict=False)]
        return [*sizes, 0] if self.state.open_ended else sizes

    def has_lost_batches(self) -> bool:
        """Return whether some batch of the open file is lost."""
        with self._lock:
            return self.state.open_ended or any(start < 0 for start in self._batches())

    def last_position(self) -> Position | None:
        """Return the position of the last message; None without one. If that is damaged, assume the highest that it may
        have had. Raises KeyError when the segment is gone."""
        number = self.number
        try:
            count = self.batch_count()
            if self.state.open_ended:
                return Position.end_of(number)
            return Position(number, count - 1, self.head(count - 1).rows - 1) if count else None
        except DamagedError:
            return Position.end_of(number)

    def layout(self, batch: int) -> BodyLayout:
        """Return the place of a batch's bodies. Raises KeyError when there is no such batch, and DamagedError."""
        layout = self._layouts.get(batch)
        return self.head(batch).layout if layout is None else layout

    def head(self, batch: int) -> Head:
        """Return the head of a batch. Raises the same errors as `layout`."""
        with self._lock:
            head = self._heads.get(batch) or self._read_head(batch)
            keep(self._heads, batch, head, HEADS_A_SEGMENT)
            keep(self._layouts, batch, head.layout, LAYOUTS_A_SEGMENT)
            return head

    def columns(self, head: Head) -> pa.RecordBatch:
        """Return the columns of a batch. The values of `body` are invalid and must not be read."""
        columns = self._columns.get(head.number)
        if columns is None:
            columns = head.record_batch()
            with self._lock:
                keep(self._columns, head.number, columns, HEADS_A_SEGMENT)
        return columns

    def batch_at(self, offset: int) -> int:
        """Return the batch that contains a byte of the file. Raises KeyError if none does."""
        with self._lock:
            batches = self._batches()
        found = bisect_right(batches, offset, key=lambda start: max(start, ~start)) - 1
        if found < 0 or offset >= self.state.size:
            raise KeyError((self.state.number, offset))
        return found

    def piece(self, batch: int, row: int, layout: BodyLayout) -> BodyPiece:
        """Return the whole body of a row as a piece."""
        start, offsets, crcs = layout
        begin, end = start + offsets[row], start + offsets[row + 1]
        return BodyPiece(self, batch, row, begin, end, crcs[row], begin, end)

    def messages(
        self, batch: int, rows: Sequence[int] | None = None, held: Sequence[memoryview | None] = ()
    ) -> list[PhysicalMessage]:
        """Return the messages of a batch, or of these rows of it. A message with a damaged body has no body and is
        marked unreadable.

        `held` are the bodies of these rows, as far as they need not be read. Raises the same errors as `layout`, and
        KeyError for a row that the batch does not have.
        """
        head = self.head(batch)
        columns = self.columns(head)
        if rows is not None:
            if not all(0 <= row < head.rows for row in rows):
                raise KeyError((self.state.number, batch, rows))
            columns = columns.drop_columns(["body"]).take(pa.array(rows, pa.int64()))  # its bodies are invalid
        wanted = zip_longest(range(head.rows) if rows is None else rows, held)
        found = list(fetch(self.piece(batch, row, head.layout) if body is None else body for row, body in wanted))
        bodies = [_EMPTY if isinstance(each, Damage) else each for each in found]
        messages = messages_of(columns, bodies)
        for at, each in enumerate(found):
            if isinstance(each, Damage):
                messages[at] = messages[at].unreadable(DAMAGED_MESSAGE, str(each))
        return messages

    def placed_bodies(self, batch: int, rows: Sequence[int]) -> PlacedBodies:
        """Return the bodies in these rows, which ascend. Raises KeyError for a row that the batch does not have, and
        the same errors as `layout`; DamagedError also for a damaged body."""
        head = self.head(batch)
        layout = head.layout
        if not 0 <= rows[0] <= rows[-1] < head.rows:
            raise KeyError((self.state.number, batch, rows))
        bodies = read_rows(self.file(), layout.start, layout.offsets, layout.crcs, rows)
        if bodies is None:
            raise self._damaged(batch, BODY_DAMAGED)
        offsets = [layout.start + layout.offsets[row] for row in rows]
        columns = self.columns(head)
        return PlacedBodies(columns.column("framing"), columns.column("properties"), bodies, offsets)

    def message(self, batch: int, row: int) -> PhysicalMessage:
        """Return one message of a batch. Raises KeyError when there is none, and DamagedError."""
        head = self.head(batch)
        if not 0 <= row < head.rows:
            raise KeyError((self.state.number, batch, row))
        (body,) = readable(fetch([self.piece(batch, row, head.layout)]))
        (message,) = messages_of(self.columns(head).slice(row, 1), [body])
        return message

    def record_batch(self, batch: int) -> pa.RecordBatch:
        """Return a batch with its bodies. Messages with a damaged body are as `messages` returns them.

        Raises the same errors as `layout`.
        """
        found = self.undamaged_record_batch(batch)
        if found is not None:
            return found
        mended = encode(self.messages(batch), Position(self.state.number, batch, 0), 0)
        data = memoryview(b"".join([mended.head, *mended.bodies, bytes(mended.fill)]))
        return _batch_of(data)

    def undamaged_record_batch(self, batch: int) -> pa.RecordBatch | None:
        """Return a batch with its bodies; None if one of them is damaged. Raises the same errors as `layout`."""
        data = self.undamaged_bytes(batch)
        return None if data is None else _batch_of(data)

    def undamaged_bytes(self, batch: int) -> memoryview | None:
        """Return the bytes of a batch; None if a body is damaged. Raises the same errors as `layout`."""
        head = self.head(batch)
        try:
            data = memoryview(self.file().read(head.start, head.end))
        except UnreadableError:
            return None
        start, offsets, crcs = head.layout
        if data[: len(head.data)] != head.data or not are_whole(data[start - head.start :], offsets, crcs):
            return None
        return data

    def is_checked(self, piece: BodyPiece) -> bool:
        """Tell whether the large body that a piece belongs to has been checked."""
        return piece.start in self._checked

    def set_checked(self, piece: BodyPiece) -> None:
        with self._lock:
            keep(self._checked, piece.start, None, CHECKED_A_SEGMENT)

    def _batches(self) -> "array[int]":
        if self.state.batches is None:
            file = self.file()
            find_batches(file, self.state, self.seed)
        assert self.state.batches is not None
        return self.state.batches

    def _read_head(self, batch: int) -> Head:
        batches = self._batches()
        if not 0 <= batch < len(batches):
            if batch >= 0 and self.state.open_ended:
                raise self._damaged(batch, BATCH_LOST)
            raise KeyError((self.state.number, batch))
        if batches[batch] < 0:
            raise self._damaged(batch, BATCH_LOST)
        window = ReadWindow(self.file(), self.state.size)
        try:
            head = read_head(window.get, batches[batch], self.state.own_number, self.seed)
        except UnreadableError as error:
            raise self._damaged(batch, str(error)) from error
        if head is None or head.number != batch:
            raise self._damaged(batch, HEAD_DAMAGED)
        return head

    def _damaged(self, batch: int | None, why: str) -> DamagedError:
        return DamagedError.of(Damage(self.state.number, batch, None, why))


def keep(cache: "OrderedDict[int, T]", key: int, value: T, limit: int) -> None:
    """Keep a value as the most recently used, and drop the least recently used above `limit`."""
    cache[key] = value
    cache.move_to_end(key)
    if len(cache) > limit:
        cache.popitem(last=False)


def _batch_of(message: memoryview) -> pa.RecordBatch:
    return pa.ipc.read_record_batch(pa.ipc.read_message(pa.py_buffer(message)), SCHEMA)
