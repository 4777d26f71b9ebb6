"""The catalog's rows. Times are microseconds since 1970-01-01 UTC; positions are packed (`Position.pack`)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar

from app.model.attachment import AttachmentDefinition, AttachmentKind, AttachmentState, DeliveryState
from app.model.evidence import Choice

if TYPE_CHECKING:
    from dataclasses import dataclass as record
else:

    def record(*, frozen: bool, slots: bool) -> Any:  # noqa: ARG001
        """Return the decorator of a dataclass that only type checkers hold frozen.

        Assembly makes several of them for an attachment. One of forty fields takes eight times as long if it is frozen
        at run time.
        """
        return dataclass(slots=slots, unsafe_hash=True)


Storage = Literal["journal", "store"]
QuarantineState = Literal["kept", "replayed", "dismissed"]
Subscribers = Literal["none", "unknown"]
"""What a broker reported of subscribers when it confirmed messages. `none`: it had none for at least one message and
discarded it. `unknown`: the protocol does not report it. Elsewhere None stands for a broker that reported no lack, or
that keeps messages until somebody takes them."""
GroupedAs = Literal["messages", "segments"]

DEFAULT_FRAMING = "sas_queue"
"""The framing of sources and destinations that name none."""

DAMAGED_MESSAGE = "damaged-message"
"""Reason code of a message, or of a batch of messages, that the journal cannot read back."""
DAMAGED_PART, DAMAGED_CONTENT = "damaged-part", "damaged-content"
"""Reason codes of an attachment: its parts could not be read back and finished; its finished content cannot be."""
DOUBTFUL_COUNT, DOUBTFUL_SIZE = "doubtful-count", "doubtful-size"
"""Reason codes of an attachment of which bytes could be missing: by the number of its messages, or by its size."""
DOUBTFUL_CONTENT = "doubtful-content"
"""Reason code of an attachment with a warning, of a source that holds all attachments in doubt."""
ABORTED = "aborted"
"""Reason code of an attachment that was deleted because its sender gave it up."""
PARTS_GONE, CONTENT_LOST = "parts-gone", "content-lost"
LOST_CODES = frozenset((PARTS_GONE, CONTENT_LOST))
"""Reason codes of an attachment that cannot be recovered: the journal has lost its parts, or the store its finished
content. If it is sent again, it begins anew."""


class JournalIdentity(NamedTuple):
    """Which journal this is: `id`, 32 hexadecimal digits, is made once; `epoch` grows by one each time a writer opens
    the journal. Positions never repeat within an `id`."""

    id: str
    epoch: int


class Publication(NamedTuple):
    """Where the messages of a shared journal's segment come from: the own journal of a receiver, by its id, up to one
    of its segments. `end` is the packed position of the last of them in the shared journal."""

    journal: str
    segment: int
    end: int


class CombinedSegment(NamedTuple):
    """A segment of one of several archives: its number in their one order, and where it comes from, which is a journal,
    by its id, and its number there."""

    number: int
    journal: str
    segment: int


class CombinedArchives(NamedTuple):
    """Archives of several journals whose segments have one order.

    `journal` identifies this order, whose numbers positions have. `places` has the id of each journal and the place of
    its archive.
    """

    journal: JournalIdentity
    places: tuple[tuple[str, str], ...]
    segments: tuple[CombinedSegment, ...]

    def behind(self, number: int) -> "CombinedArchives":
        """Return the same with only the segments behind a number."""
        return self._replace(segments=tuple(each for each in self.segments if each.number > number))


class Damage(NamedTuple):
    """A damaged place of the journal: a row, a whole batch (`row` None), or bytes outside batches (`batch` None).

    `why` is a sentence for people."""

    segment: int
    batch: int | None
    row: int | None
    why: str

    def __str__(self) -> str:
        place = [f"segment {self.segment}"]
        if self.batch is not None:
            place.append(f"batch {self.batch}")
        if self.row is not None:
            place.append(f"row {self.row}")
        return f"journal {', '.join(place)}: {self.why}"


class GroupProgress(NamedTuple):
    """The received share of an IBM MQ group.

    `last` is the MsgSeqNumber of its last logical message, None until that is known. `ended` is the number of logical
    messages whose end was received, and `size` their bytes by the offsets of these ends. Where offsets count other
    units than bytes, `size` also has the bytes that received parts have in excess of their units. So the group is
    complete when `size` bytes were received.

    A file that comes in byte ranges has `ended` of `OF_RANGES`. Then `last` is its last byte, counted from 1, once its
    end is known.
    """

    last: int | None = None
    ended: int = 0
    size: int = 0

    @property
    def is_of_ranges(self) -> bool:
        return self.ended == OF_RANGES


OF_RANGES: Final = -1


class ContainedFile(NamedTuple):
    """One of several files in an attachment: the place of its bytes in the content, and its sender's facts about it."""

    offset: int
    size: int
    record_length: int
    announced_size: int


@record(frozen=True, slots=True)
class AttachmentRecord:
    """The facts about one attachment, announced or not.

    `kind` and the names are None or empty until its header was received. Until then it is not known to be an
    attachment: it may be the application message of a message. `parts_expected` is None until its count was received;
    of an IBM MQ group (`group` is not None), until the group is complete.
    `record_length` and `announced_size` are the sender's facts about a file, known once it is finished; `files` has
    them, and the places of the files, where the content is several files. `warnings` are sentences about contradictions
    and doubts, and `evidence` the choices between readings.
    `storage` is the place of finished content: "journal" (by extents) or "store" (the object `object_name`, whose
    blocks may have `checksums`). `settled_at` is the time when it was copied from the journal to the store.
    `pending_*` hold an unsequenced message that no header has explained yet. `trace_parent` is the `traceparent` of the
    message that announced it, or the first of its group (`app.model.trace_context`).
    """

    id: str
    source: str
    correl_id: bytes
    state: AttachmentState = AttachmentState.RECEIVING
    message_id: str | None = None
    ordinal: int = 0
    kind: AttachmentKind | None = None
    qualifier_1: str = ""
    qualifier_2: str = ""
    description: str = ""
    minor_version: int = 0
    major_version: int = 0
    dialects: int = 0
    parts_expected: int | None = None
    parts_received: int = 0
    bytes_received: int = 0
    duplicates: int = 0
    pending_counts: tuple[int, ...] = ()
    pending_position: int | None = None
    group: GroupProgress | None = None
    first_position: int = 0
    last_position: int = 0
    first_received_at: int = 0
    last_received_at: int = 0
    completed_at: int | None = None
    finished_at: int | None = None
    size: int | None = None
    sha256: str | None = None
    content_type: str | None = None
    storage: Storage | None = None
    object_name: str | None = None
    checksums: bytes | None = None
    observations: int | None = None
    variables: int | None = None
    record_length: int | None = None
    announced_size: int | None = None
    files: tuple[ContainedFile, ...] = ()
    warnings: tuple[str, ...] = ()
    evidence: tuple[Choice, ...] = ()
    reason_code: str | None = None
    reason: str | None = None
    settled_at: int | None = None
    trace_parent: str | None = None

    def __reduce__(self) -> tuple[type["AttachmentRecord"], tuple[Any, ...]]:
        """Return the values alone: a pipeline's tasks send very many records, and dataclasses ask for their names."""
        return AttachmentRecord, _VALUES(self)


NOTHING_CAME: Mapping[str, Any] = MappingProxyType(
    {
        "parts_expected": None,
        "parts_received": 0,
        "bytes_received": 0,
        "pending_counts": (),
        "pending_position": None,
        "group": None,
        "completed_at": None,
        "finished_at": None,
        "size": None,
        "sha256": None,
        "content_type": None,
        "storage": None,
        "object_name": None,
        "checksums": None,
        "observations": None,
        "variables": None,
        "record_length": None,
        "announced_size": None,
        "files": (),
        "warnings": (),
        "evidence": (),
        "reason_code": None,
        "reason": None,
        "settled_at": None,
    }
)
"""The fields of an `AttachmentRecord` of which only the header is known."""


_VALUES = attrgetter(*(each.name for each in fields(AttachmentRecord)))


@record(frozen=True, slots=True)
class MessageRecord:
    """One application message with its header's fields.

    `complete_at` is set once every attachment is finished and the application message, if one is announced, was
    received. `application_position` is the packed position of the application message. `waited_as` is the identifier of
    the unannounced attachment as which it waited, if it came before the header.
    """

    id: str
    source: str
    header_correl_id: bytes
    message_correl_id: bytes
    original_msg_type: int
    original_correl_id: bytes
    attachments: tuple[str, ...]
    header_position: int
    received_at: int
    application_body: bytes | None = None
    application_format: str = ""
    application_ccsid: int = 0
    application_position: int | None = None
    complete_at: int | None = None
    waited_as: str | None = None

    def __reduce__(self) -> tuple[type["MessageRecord"], tuple[Any, ...]]:
        """Return the values alone, like `AttachmentRecord.__reduce__`."""
        return MessageRecord, _MESSAGE_VALUES(self)


_MESSAGE_VALUES = attrgetter(*(each.name for each in fields(MessageRecord)))


@dataclass(frozen=True, slots=True)
class QuarantineRecord:
    """A physical message that could not be understood: `code` for programs, `row`, `at` (byte) and `why` for people.

    If it is `in_journal`, its bytes are in the journal only, which keeps their segment. Otherwise they have been copied
    to the catalog, or to the object `object_name` of the content store.
    """

    id: str
    source: str
    position: int
    code: str
    row: str
    at: int
    why: str
    msg_type: int
    correl_id: bytes
    size: int
    received_at: int
    state: QuarantineState = "kept"
    object_name: str | None = None
    in_journal: bool = True


@dataclass(frozen=True, slots=True)
class OutgoingAttachment:
    """One attachment of a delivery: the fields of its header entry, and the object that holds its bytes."""

    correl_id: bytes
    kind: AttachmentKind
    qualifier_1: str
    qualifier_2: str
    description: str
    minor_version: int
    major_version: int
    object_name: str
    size: int
    sha256: str

    @property
    def definition(self) -> AttachmentDefinition:
        return AttachmentDefinition(
            self.kind,
            self.correl_id,
            self.qualifier_1,
            self.qualifier_2,
            self.description,
            self.minor_version,
            self.major_version,
        )


class FramingOptions(NamedTuple):
    """A destination's options for splitting deliveries into physical messages; each framing uses some of them.

    Bodies have at most `body_limit` bytes. The dialect has its name, the character set and the encoding the numbers
    that IBM MQ gives them. `record_length` is the length of a file's records (None: as a body allows). With `group`, a
    file becomes the messages of a group or the segments of one message, where the framing has groups."""

    body_limit: int
    dialect: str
    ccsid: int
    encoding: int
    record_length: int | None = None
    framing: str = DEFAULT_FRAMING
    group: GroupedAs = "messages"


@dataclass(frozen=True, slots=True)
class DeliveryRecord:
    """One outgoing message.

    `messages_sent` of `messages_total` physical messages are confirmed by the broker (the total is None until all are).
    `cut` has the options of the first attempt, which all others use, too: parts that were split by different options
    do not fit together. `cancel_requested` is set while it is open and a client has cancelled it.
    `trace_parent` is the `traceparent` of the request that queued it. `claim` counts the attempts to send it, of any
    process: who has an older number may not change it any more. `first_claim` is the one under which `cut` was set, or
    is to be set."""

    id: str
    destination: str
    header_correl_id: bytes
    message_correl_id: bytes
    attachments: tuple[OutgoingAttachment, ...]
    created_at: int
    updated_at: int
    state: DeliveryState = DeliveryState.QUEUED
    original_msg_type: int = 0
    original_correl_id: bytes = bytes(24)
    application_body: bytes | None = None
    application_format: str = ""
    application_ccsid: int = 0
    cut: FramingOptions | None = None
    messages_sent: int = 0
    messages_total: int | None = None
    attempts: int = 0
    next_attempt_at: int = 0
    reason: str | None = None
    idempotency_key: str | None = None
    fingerprint: str | None = None
    subscribers: Subscribers | None = None
    cancel_requested: bool = False
    trace_parent: str | None = None
    claim: int = 0
    first_claim: int = 0

    @property
    def sending_name(self) -> str:
        """The name of the delivery in what its sender records at the broker.

        Each process that may be the first to send it makes a record of its own. All go on with that of the process that
        was the first. So a record that a paused process makes too late is never taken for it.
        """
        return f"{self.id}.{self.first_claim}"


class EventRecord(NamedTuple):
    """One entry of the event log: `number` grows by one, `type` is a word such as `attachment.finished`, `subject` an
    identifier, `data` a JSON object. `trace_parent` is the subject's."""

    number: int
    type: str
    subject: str
    time: int
    data: dict[str, object]
    trace_parent: str | None = None


class NewEvent(NamedTuple):
    """An event about to be logged."""

    type: str
    subject: str
    time: int
    data: dict[str, object]
    trace_parent: str | None = None


class QuarantineCopy(NamedTuple):
    """The copy of a quarantined message: its fields but the body in JSON, and the body, None where the content store
    has it as an object. `checksum` is the CRC-32C of both."""

    id: str
    descriptor: bytes
    body: bytes | None
    checksum: int


ALONE: Final = ""
"""In place of the own journal of a receiver, where one process receives alone."""


class ReceivingMark(NamedTuple):
    """The packed `position` up to which the journal went when a source had been able to receive for `counted`
    microseconds. `journal` is the own journal of the receiver that counts; ALONE if there is no other."""

    source: str
    counted: int
    position: int
    journal: str = ALONE


class Kept(NamedTuple):
    """The number of objects under retention, and their bytes (0 where they are not counted)."""

    number: int
    size: int = 0


class PartRun(NamedTuple):
    """`length` parts from sequence number `first` on, in consecutive rows of one journal batch, from packed `position`
    on. Of an IBM MQ group the sequence numbers are the keys of `app.assembly.groups`."""

    first: int
    length: int
    position: int


class Extent(NamedTuple):
    """A piece of finished content that lies in a journal segment: byte `offset` of the segment's file."""

    segment: int
    offset: int
    length: int


@dataclass(slots=True)
class Checkpoint:
    """All changes of one step of assembly, which the catalog applies in one transaction.

    `progress` is the packed position of the last physical message that these changes include. The catalog first resets
    the attachments in `reopened`, which were quarantined, and in `reprocessed`, which have any state but deleted. Then
    it upserts `attachments` and `messages`. It adds `part_runs` to the runs of their attachment, or replaces these if
    `without_parts` names it. At last complete attachments become finished or quarantined by `finished` and `refused`,
    if a host has read their content already.

    An event in `identified`, which is about something that waited for its header, is logged only if the catalog had
    its subject as unannounced. Finished attachments get the warnings of the events in `warned`, which are logged only
    for a new warning. `restarts` is the number of attachments that were begun anew, as far as assembly knows; None
    for a host that holds none in memory. `saved_before` names those of `attachments` and `messages` that came from the
    catalog or an earlier checkpoint: with `restarts`, they are not added again if they were deleted meanwhile. `log` is
    the newest log of events when such a host read what it holds.
    """

    progress: int | None = None
    restarts: int | None = None
    log: str | None = None
    saved_before: set[str] = field(default_factory=set)
    reopened: list[str] = field(default_factory=list)
    reprocessed: list[str] = field(default_factory=list)
    attachments: list[AttachmentRecord] = field(default_factory=list)
    part_runs: dict[str, list[PartRun]] = field(default_factory=dict)
    without_parts: list[str] = field(default_factory=list)
    removed_attachments: list[str] = field(default_factory=list)
    messages: list[MessageRecord] = field(default_factory=list)
    quarantine: list[QuarantineRecord] = field(default_factory=list)
    quarantine_copies: list[QuarantineCopy] = field(default_factory=list)
    source_dialects: dict[str, int] = field(default_factory=dict)
    events: list[NewEvent] = field(default_factory=list)
    identified: list[NewEvent] = field(default_factory=list)
    finished: list["Finished"] = field(default_factory=list)
    refused: list["RefusedContent"] = field(default_factory=list)
    warned: list[NewEvent] = field(default_factory=list)


class RefusedContent(NamedTuple):
    """A complete attachment whose content breaks its specification: a word for programs, a sentence for people."""

    id: str
    code: str
    reason: str


class StoredObject(NamedTuple):
    """The object of the content store that holds an attachment's content, and the checksums of its blocks, if known."""

    name: str
    checksums: bytes | None = None


@record(frozen=True, slots=True)
class Finished:
    """The facts that finishing has found about an attachment's content."""

    id: str
    size: int
    sha256: str
    content_type: str
    storage: Storage
    finished_at: int
    object_name: str | None = None
    checksums: bytes | None = None
    extents: tuple[Extent, ...] = ()
    dialects: int | None = None
    observations: int | None = None
    variables: int | None = None
    record_length: int | None = None
    announced_size: int | None = None
    files: tuple[ContainedFile, ...] = ()
    warnings: tuple[str, ...] = ()
    evidence: tuple[Choice, ...] = ()

    def __reduce__(self) -> tuple[type["Finished"], tuple[Any, ...]]:
        """Return the values alone, like `AttachmentRecord.__reduce__`."""
        return Finished, _FINISHED_VALUES(self)


_FINISHED_VALUES = attrgetter(*(each.name for each in fields(Finished)))

_Changing = TypeVar("_Changing", AttachmentRecord, MessageRecord, Finished)
_READ: Mapping[type, Callable[[Any], tuple[Any, ...]]] = {
    AttachmentRecord: _VALUES,
    MessageRecord: _MESSAGE_VALUES,
    Finished: _FINISHED_VALUES,
}


def changed(record: _Changing, **changes: Any) -> _Changing:
    """Return a changed copy, as `dataclasses.replace` in a fifth of the time: assembly needs several an attachment."""
    made = type(record)(*_READ[type(record)](record))
    for name, value in changes.items():
        setattr(made, name, value)
    return made
