"""The physical messages of an attachment, found in the journal between its first and its last one.

The catalog forgets where parts lie once content is in the store, and it never knew repeated messages. So the columns of
the journal's batches are read, without bodies. One call reads a limited number of batches, and says where to continue.
"""

from functools import cached_property
from math import inf
from typing import Final, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from app.codecs.sas import correlid
from app.framing.protocol import Framing
from app.framing.registry import find_framing
from app.model.errors import DamagedError, InvalidInputError, NotArchived
from app.model.event import GroupPart, Pieces
from app.model.message import MAX_ROWS_A_BATCH, PhysicalMessage, Position
from app.model.records import AttachmentRecord
from app.ports import messages_of
from app.service.context import ArchiveContext, ServiceContext
from app.wire import WireError

BATCHES_A_PAGE: Final = 256

Kind = Literal["header", "part", "count"]
_EMPTY: Final = memoryview(b"")


class MessagesGone(Exception):
    """The journal has none of the attachment's physical messages any more."""


class FoundMessage(NamedTuple):
    """A physical message without its body, which has `size` bytes, its meaning and its sequence number, if any."""

    position: Position
    kind: Kind
    sequence: int | None
    size: int
    message: PhysicalMessage


class FoundMessages(NamedTuple):
    """Some physical messages in the order of the journal.

    `next` is where to continue; None at the end. It may be in a segment that this process cannot read yet. `gone` says
    that some of the attachment's messages are not in the journal any more: their segments are retired, or damaged.
    """

    items: list[FoundMessage]
    next: Position | None
    gone: bool


class PhysicalMessages:
    """The physical messages of one attachment. Raises MessagesGone if the journal has none of its segments any more."""

    def __init__(self, record: AttachmentRecord, context: ServiceContext) -> None:
        self._record, self._journal = record, context.journal
        message = None if record.message_id is None else context.catalog.message(record.message_id)
        header = None if message is None else message.header_position
        self._header = None if header is None else Position.unpack(header)
        self._first, self._last = Position.unpack(record.first_position), Position.unpack(record.last_position)
        here = range(self._first.segment, self._last.segment + 1)
        present = [each.number for each in self._journal.segments()]
        self._segments = [number for number in present if number in here]
        self._newest = max(present, default=-1) if isinstance(context, ArchiveContext) else inf
        if not self._segments and self._last.segment <= self._newest:
            raise MessagesGone
        ends = {self._first.segment, self._last.segment} - {*self._segments}
        self._some_gone = any(number <= self._newest for number in ends)

    @cached_property
    def _stem(self) -> bytes:
        """The key without the padding that a broker may have changed."""
        return self._record.correl_id.rstrip(b"\0 ")

    def page(self, after: Position | None, limit: int, batches: int = BATCHES_A_PAGE) -> FoundMessages:
        """Return at most `limit` messages from a position on (None: the first). A page may be empty and not the last:
        it ends after this number of batches. Raises NotArchived if all that follow are in segments that this process
        cannot read yet."""
        found = self._readable(self._first if after is None else max(after, self._first), limit, batches)
        if found.next is not None or self._last.segment <= self._newest:
            return found
        following = int(self._newest) + 1
        if not found.items:
            raise NotArchived(f"segment {following} of the journal is not archived yet (journal.archive_url)")
        return found._replace(next=Position(following, 0, 0))

    def _readable(self, begin: Position, limit: int, batches: int) -> FoundMessages:
        """Return a page of the segments that this process can read."""
        items: list[FoundMessage] = []
        gone, read = self._some_gone, 0
        for segment in (each for each in self._segments if each >= begin.segment):
            batch = begin.batch if segment == begin.segment else 0
            while (segment, batch) <= self._last[:2]:
                if read == batches:
                    return FoundMessages(items, Position(segment, batch, 0), gone)
                try:
                    found = self._in_batch(segment, batch)
                except KeyError:
                    break
                except DamagedError:
                    found, gone = [], True
                for each in found:
                    if each.position < begin:
                        continue
                    if len(items) == limit:
                        return FoundMessages(items, each.position, gone)
                    items.append(each)
                read, batch = read + 1, batch + 1
        return FoundMessages(items, None, gone)

    def ends(self, batches: int) -> list[FoundMessage]:
        """Return the messages in the first and in the last batches, which have most often what is not a part. Raises
        NotArchived."""
        found = self.page(None, batches * MAX_ROWS_A_BATCH, batches)
        if found.next is None:
            return found.items
        begin = max(found.next, self._last._replace(batch=max(0, self._last.batch - batches + 1), row=0))
        return found.items + self.page(begin, batches * MAX_ROWS_A_BATCH, batches).items

    def at(self, position: Position) -> FoundMessage:
        """Return the message at a position, with its body. Raises KeyError if it is gone or of another attachment, and
        DamagedError and NotArchived."""
        if not self._first <= position <= self._last:
            raise KeyError(position)
        for each in self._in_batch(position.segment, position.batch):
            if each.position == position:
                return each._replace(message=self._journal.read(position))
        raise KeyError(position)

    def _in_batch(self, segment: int, batch: int) -> list[FoundMessage]:
        """Return the messages in a batch. Raises KeyError and DamagedError."""
        descriptors = self._journal.descriptors(segment, batch)
        rows = set(pc.indices_nonzero(self._may_be(descriptors)).to_pylist())
        if self._header is not None and self._header[:2] == (segment, batch) and self._header.row < len(descriptors):
            rows.add(self._header.row)
        ordered = sorted(rows)
        chosen = descriptors.take(pa.array(ordered, pa.int64()))
        messages = messages_of(chosen, [_EMPTY] * len(chosen))
        found = zip(ordered, chosen.column("size").to_pylist(), messages, strict=True)
        made = (self._physical(Position(segment, batch, row), size, message) for row, size, message in found)
        return [each for each in made if each is not None]

    def _may_be(self, descriptors: pa.RecordBatch) -> pa.BooleanArray:
        """Return which rows of a batch may be of the attachment, by their columns."""
        is_here = pc.equal(descriptors.column("source"), self._record.source)
        may_be = pc.starts_with(descriptors.column("correl_id"), self._stem)
        for name in ("group_id", "message_id"):
            may_be = pc.or_(may_be, pc.starts_with(descriptors.column(name), self._stem))
        for name in pc.unique(descriptors.column("framing")).to_pylist():
            if (framing := find_framing(name)) is not None and framing.key_in_body:
                may_be = pc.or_(may_be, pc.equal(descriptors.column("framing"), name))
        return pc.and_(is_here, may_be)

    def _physical(self, position: Position, size: int, message: PhysicalMessage) -> FoundMessage | None:
        """Return a message of the attachment; None for one that is of another."""
        if position == self._header:
            return FoundMessage(position, "header", None, size, message)
        framing = find_framing(message.framing)
        if framing is None or framing.is_header(message):
            return None
        if not self._is_own(framing, position, message):
            return None
        if framing.arrangement == "grouped":
            return FoundMessage(position, "part", message.msg_seq_number, size, message)
        _, sequence = correlid.split(message.correl_id)
        return FoundMessage(position, "part" if sequence else "count", sequence or None, size, message)

    def _is_own(self, framing: Framing, position: Position, message: PhysicalMessage) -> bool:
        """Tell whether a message brings a part, or the count, of the attachment."""
        own = self._record.correl_id
        try:
            if not framing.key_in_body:
                return framing.attachment_key(message) == own
            brought = framing.read(self._journal.read(position), 0)
        except (InvalidInputError, WireError, KeyError, DamagedError):
            return False
        parts = brought.parts if isinstance(brought, Pieces) else (brought,)
        return any(isinstance(part, GroupPart) and part.correl_id == own for part in parts)
