"""The physical messages of an attachment, found in the journal between its first and its last one.

The catalog forgets where parts lie once content is in the store, and it never knew repeated messages. So the columns of
the journal's batches are read, without bodies. One call reads a limited number of batches, and says where to continue.
"""

from contextlib import suppress
from functools import cached_property
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

    `next` is where to continue; None at the end. `gone` says that some of the attachment's messages are not in the
    journal: their segments are retired, or damaged.
    """

    items: list[FoundMessage]
    next: Position | None
    gone: bool


class PhysicalMessages:
    """The physical messages of one attachment. Raises Gone if the journal has none of its segments."""

    def __init__(self, record: AttachmentRecord, context: ServiceContext) -> None:
        self._record, self._journal = record, context.journal
        message = None if record.message_id is None else context.catalog.message(record.message_id)
        header = None if message is None else message.header_position
        self._header = None if header is None else Position.unpack(header)
        self._first, self._last = Position.unpack(record.first_position), Position.unpack(record.last_position)
        here = range(self._first.segment, self._last.segment + 1)
        numbers = [each.number for each in self._journal.segments()]
        self._segments = [number for number in numbers if number in here]
        if isinstance(context, ArchiveContext):  # more of them will come
            self._segments.extend(here[max(0, max(numbers, default=-1) + 1 - here.start) :])
        if not self._segments:
            raise MessagesGone
        self._some_gone = self._first.segment not in self._segments or self._last.segment not in self._segments

    @cached_property
    def _stem(self) -> bytes:
        """The key without the padding that a broker may have changed."""
        return self._record.correl_id.rstrip(b"\0 ")

    def page(self, after: Position | None, limit: int, batches: int = BATCHES_A_PAGE) -> FoundMessages:
        """Return at most `limit` messages from a position on (None: the first). A page may be empty and not the last:
        it ends after this number of batches, or before a segment that this process cannot read yet. Raises NotArchived
        if it would begin there."""
        begin = self._first if after is None else max(after, self._first)
        items: list[FoundMessage] = []
        gone, read = self._some_gone, 0
        for segment in (each for each in self._segments if each >= begin.segment):
            batch = begin.batch if segment == begin.segment else 0
            while (segment, batch) <= self._last[:2]:
                if read == batches:
                    return FoundMessages(items, Position(segment, batch, 0), gone)
                found: list[FoundMessage] | None = None
                try:
                    with suppress(DamagedError):
                        found = self._in_batch(segment, batch)
                except KeyError:
                    break
                except NotArchived:
                    if not items:
                        raise
                    return FoundMessages(items, Position(segment, batch, 0), gone)
                gone = gone or found is None
                for each in found or ():
                    if each.position < begin:
                        continue
                    if len(items) == limit:
                        return FoundMessages(items, each.position, gone)
                    items.append(each)
                read, batch = read + 1, batch + 1
        return FoundMessages(items, None, gone)

    def ends(self, batches: int) -> list[FoundMessage]:
        """Return the messages in the first and in the last batches, which have most often what is not a part."""
        found = self.page(None, batches * MAX_ROWS_A_BATCH, batches)
        if found.next is None:
            return found.items
        begin = max(found.next, self._last._replace(batch=max(0, self._last.batch - batches + 1), row=0))
        return found.items + self.page(begin, batches * MAX_ROWS_A_BATCH, batches).items

    def at(self, position: Position) -> FoundMessage:
        """Return the message at a position, with its body. Raises KeyError if it is gone or of another attachment,
        NotArchived and DamagedError."""
        if not self._first <= position <= self._last:
            raise KeyError(position)
        for each in self._in_batch(position.segment, position.batch):
            if each.position == position:
                return each._replace(message=self._journal.read(position))
        raise KeyError(position)

    def _in_batch(self, segment: int, batch: int) -> list[FoundMessage]:
        """Return the messages in a batch. Raises KeyError, NotArchived and DamagedError."""
        descriptors = self._journal.descriptors(segment, batch)
        # The columns tell which rows may be of the attachment.
        is_here = pc.equal(descriptors.column("source"), self._record.source)
        may_be = pc.starts_with(descriptors.column("correl_id"), self._stem)
        for name in ("group_id", "message_id"):
            may_be = pc.or_(may_be, pc.starts_with(descriptors.column(name), self._stem))
        for name in pc.unique(descriptors.column("framing")).to_pylist():
            framing = find_framing(name)
            if framing is not None and (framing.key_in_body or framing.traits.told_by_topic):
                may_be = pc.or_(may_be, pc.equal(descriptors.column("framing"), name))
        rows = set(pc.indices_nonzero(pc.and_(is_here, may_be)).to_pylist())
        if self._header is not None and self._header[:2] == (segment, batch) and self._header.row < len(descriptors):
            rows.add(self._header.row)
        ordered = sorted(rows)
        chosen = descriptors.take(pa.array(ordered, pa.int64()))
        messages = messages_of(chosen, [_EMPTY] * len(chosen))
        found = zip(ordered, chosen.column("size").to_pylist(), messages, strict=True)
        made = (self._physical(Position(segment, batch, row), size, message) for row, size, message in found)
        return [each for each in made if each is not None]

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
        if framing.arrangement == "ranged":
            return FoundMessage(position, "part", None, size, message)
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
