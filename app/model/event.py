"""The events of physical messages, which framings produce and the assembly machine consumes."""

from collections.abc import Sequence
from typing import NamedTuple

from app.model.attachment import AttachmentDefinition, MessageHeader
from app.model.evidence import Choice


class Announced(NamedTuple):
    """An attachment header: a message and its list of attachments.

    `dialects` is the set of dialects under which the header reads as this (a bit mask, see `app.codecs.sas.dialect`).
    `trace_parent` is the `traceparent` of the physical message (`app.model.trace_context`).
    """

    header: MessageHeader
    dialects: int
    trace_parent: str | None = None


class PartArrived(NamedTuple):
    """A sequenced part. `sequence` is read big-endian from the four bytes after the correlid; a sender that writes
    them little-endian is recognised by the machine, over the whole set."""

    correl_id: bytes
    sequence: int
    size: int


class PartsArrived(NamedTuple):
    """Sequenced parts of one attachment with numbers from `first` on: their sizes, and when each was received (µs).

    It stands for one `PartArrived` each."""

    correl_id: bytes
    first: int
    sizes: Sequence[int]
    received_at: Sequence[int]


class Unsequenced(NamedTuple):
    """A subordinate message with a bare correlid: an attachment's count, or a message's application message.

    Only the header decides which of the two. `counts` holds the body as one integer, read big-endian and
    little-endian; it is empty when the body cannot be a count.

    `doubt` is a sentence why a count is unknown (without `counts`) or may be wrong (with them). `choice` is the choice
    of what the count counts.
    """

    correl_id: bytes
    counts: tuple[int, ...]
    size: int
    doubt: str = ""
    choice: Choice | None = None


class Refuted(NamedTuple):
    """An earlier count has turned out to be wrong, for the reason `why`: messages may be missing."""

    correl_id: bytes
    why: str
    size: int


class OtherHeader(NamedTuple):
    """A header that was refused has announced the attachment differently."""

    correl_id: bytes


class GroupPart(NamedTuple):
    """A logical message of an IBM MQ group, or a segment of one, or a message that is a whole group by itself.

    `message` is its MsgSeqNumber and `offset` its place in the logical message, in bytes. A part that `ends_message` is
    the last segment, or the only one; `ends_group` is said by any part of the group's last logical message.

    Parts of packets of the order interface are assembled in the same way. Their places may count other units than
    bytes: then `units` says how many of these the part has. Only the first part of a group has its `trace_parent`."""

    definition: AttachmentDefinition
    message: int
    offset: int
    size: int
    ends_message: bool
    ends_group: bool
    units: int | None = None
    trace_parent: str | None = None

    @property
    def correl_id(self) -> bytes:
        return self.definition.correl_id

    @property
    def begins_group(self) -> bool:
        return self.message == 1 and not self.offset


class RangePart(NamedTuple):
    """What one message says of a file that comes in byte ranges: its beginning, a range, or its end.

    Only the beginning has the `definition`. Only a range has `size` bytes, from the byte `offset` on; the `offset` of
    the end is the size of the file. The `statement`, less than 2**31, is of what else a beginning or an end says: those
    that say the same have the same one, whatever their bytes. It is 0 for an end that says nothing but the size."""

    correl_id: bytes
    offset: int
    size: int = 0
    definition: AttachmentDefinition | None = None
    statement: int = 0
    trace_parent: str | None = None


class Aborted(NamedTuple):
    """The sender of a file that is not complete gives it up."""

    correl_id: bytes


Event = Announced | PartArrived | Unsequenced | GroupPart | RangePart | Refuted | OtherHeader | Aborted


class Pieces(NamedTuple):
    """A physical message with any number of parts, of one attachment or of several.

    Hosts apply each part as an event. If something else in the message belongs in quarantine, `refused` has the
    arguments of its `InvalidInputError`.
    """

    parts: tuple[GroupPart, ...] = ()
    refused: tuple[str, str, int, str] | None = None
