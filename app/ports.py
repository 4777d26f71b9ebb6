"""What the service needs of the world, as Protocols. Adapters implement them and are found by entry point.

Every method may be called from any thread unless it says otherwise.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from threading import Event as StopSignal
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

import pyarrow as pa
from pydantic import BaseModel

from app.model.attachment import AttachmentKind, AttachmentState, DeliveryState
from app.model.framing import FramingTraits
from app.model.message import PhysicalMessage, Position
from app.model.records import (
    AttachmentRecord,
    Checkpoint,
    Damage,
    DeliveryRecord,
    EventRecord,
    Extent,
    Finished,
    JournalIdentity,
    Kept,
    MessageRecord,
    NewEvent,
    PartRun,
    QuarantineCopy,
    QuarantineRecord,
    QuarantineState,
    ReceivingMark,
)

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset  # which takes a quarter of a second to load

T = TypeVar("T")

# --- brokers ------------------------------------------------------------------------------------------------------


class Intake(Protocol):
    """Where a receiver hands over what the broker delivered."""

    def submit(self, messages: Sequence[PhysicalMessage], on_durable: Callable[[], None]) -> None:
        """Takes messages for the journal; blocks while the backlog is at its limit.

        `on_durable` is called once, from the journal's thread, when all of them are on disk, and only then may the
        broker hear an acknowledgement. It is never called if the gateway stops before: the broker delivers again.
        It must not block.
        """

    def refuse(self, message: PhysicalMessage, code: str, why: str, on_durable: Callable[[], None]) -> None:
        """Like `submit`, for one message whose envelope the transport could not read: it goes to the journal and to
        quarantine, and never to assembly."""


class Receiver(Protocol):
    """One source's connection to its broker."""

    def run(self, intake: Intake, stop: StopSignal) -> None:
        """Connects, receives and reconnects with back-off until `stop` is set, in the caller's thread."""

    def status(self) -> dict[str, Any]:
        """For health and people: at least `connected` (bool), `since` (µs or None) and `error` (text or None). A
        `warning` (text) tells what is wrong although messages come."""


class SendFailed(Exception):
    """A broker did not take messages. `permanent` means that trying again cannot help. The broker has confirmed the
    first `confirmed` of the messages nevertheless; of those behind, any number may have arrived."""

    def __init__(self, why: str, *, permanent: bool = False, confirmed: int = 0) -> None:
        super().__init__(why)
        self.permanent, self.confirmed = permanent, confirmed


class Progress(NamedTuple):
    """How far a delivery is when messages of it are sent: the broker has confirmed its first `messages_sent`, and this
    is attempt number `attempt`. `in_doubt` says that an earlier attempt may have sent those right behind already."""

    delivery: str
    messages_sent: int
    attempt: int
    in_doubt: bool = False


class Sender(Protocol):
    """One destination's connection to its broker. Used by one thread at a time, `status` and `repeats` by any.

    A sender may keep a record of its own, with the broker, of how many messages of a delivery the broker has. Where it
    does, `resume` tells what that record says, so that nothing is sent twice; `forget` and `tidy` remove it.
    """

    def max_body(self, wanted: int | None = None) -> int:
        """The largest body, in bytes, that a physical message to this destination can carry; connects if it must. One
        of `wanted` bytes is enough to know of.

        Raises SendFailed.
        """

    def max_batch(self) -> int:
        """How many messages one `send` may take. No more than these come again after a crash, where any do. Raises
        SendFailed."""

    def resume(self, delivery: str, known: int | None) -> int:
        """How many messages of a delivery the broker has: what the sender's own record says, otherwise `known`. None
        stands for a delivery that is sent for the first time. Called before each attempt. Raises SendFailed."""

    def send(self, messages: Sequence[PhysicalMessage], progress: Progress | None = None) -> None:
        """Returns when the broker has confirmed every one of them; `progress` is how far their delivery was before.

        Raises SendFailed, after which any number of them may have arrived behind those that it says are confirmed.
        """

    def forget(self, delivery: str) -> None:
        """A delivery has ended, and the catalog says so. Raises SendFailed."""

    def tidy(self, is_open: Callable[[str], bool]) -> None:
        """Removes records of deliveries to this destination that are not open any more. Raises SendFailed."""

    def repeats(self) -> str | None:
        """One sentence that says which messages may arrive twice; None if none can."""

    def close(self) -> None: ...

    def status(self) -> dict[str, Any]:
        """As `Receiver.status`."""


class TransportPlugin(Protocol):
    """What an entry point of the group `attachment_gateway.transports` names.

    `source_settings` and `destination_settings` validate what the configuration says of such a source or destination
    beyond the gateway's own keys (transport, framing, dialect ...).
    """

    source_settings: type[BaseModel]
    destination_settings: type[BaseModel]

    def receiver(self, name: str, framing: FramingTraits, settings: BaseModel) -> Receiver: ...

    def sender(self, name: str, settings: BaseModel) -> Sender: ...


# --- the journal --------------------------------------------------------------------------------------------------


class Segment(NamedTuple):
    """One journal segment; times in µs, `sealed_at` None while it is being written."""

    number: int
    size: int
    created_at: int
    sealed_at: int | None


_JOURNAL_TYPES: dict[str, pa.DataType] = {
    "source": pa.string(),
    "framing": pa.string(),
    "message_id": pa.binary(),
    "msg_type": pa.int64(),
    "correl_id": pa.binary(),
    "group_id": pa.binary(),
    "msg_seq_number": pa.int64(),
    "offset": pa.int64(),
    "msg_flags": pa.int64(),
    "original_length": pa.int64(),
    "encoding": pa.int64(),
    "ccsid": pa.int64(),
    "format": pa.string(),
    "put_time": pa.timestamp("us", "UTC"),
    "received_at": pa.timestamp("us", "UTC"),
    "properties": pa.map_(pa.string(), pa.string()),
    "body_crc32": pa.uint32(),
    "body": pa.large_binary(),
}
JOURNAL_SCHEMA = pa.schema([pa.field(name, kind, nullable=name == "put_time") for name, kind in _JOURNAL_TYPES.items()])
"""The columns of a journal's record batches: a physical message a row, and the CRC-32C of its body. A put time that is
not known is null. A journal may have columns of its own beside these."""


class JournalReader(Protocol):
    """What was journalled, to be read back.

    What is read from disk is checked against its checksums before it is handed out. DamagedError says that bytes are
    not as they were written, or cannot be read.
    """

    def read(self, position: Position) -> PhysicalMessage:
        """One message again. Raises KeyError when its segment is gone, and DamagedError."""

    def bodies(self, positions: Iterable[Position]) -> Iterator[memoryview]:
        """The bodies at these positions, in the order asked for. Raises KeyError and DamagedError as `read` does."""

    def extents(self, positions: Iterable[Position]) -> Iterator[Extent]:
        """Where in their segments' files these bodies lie, in the order asked for. Raises KeyError as `read` does, and
        DamagedError where the place itself is lost."""

    def views(self, extents: Iterable[Extent]) -> Iterator[memoryview]:
        """The bytes of these extents, each within one body, read ahead; a view stays readable while it lives, even when
        its segment is retired. Raises KeyError when a segment is gone, and DamagedError where the whole body that an
        extent belongs to fails its checksum."""

    def segment_bytes(self, segment: int) -> Iterator[memoryview]:
        """A sealed segment's file as it is, damaged or not, in pieces of at most 1 MiB; blocks that cannot be read are
        zeros. Raises KeyError when the segment is gone."""

    def verify(self, segment: int) -> list[Damage]:
        """Reads all of a segment against its checksums; [] when it is as it was written. Raises KeyError when the
        segment is gone."""

    def segments(self) -> list[Segment]:
        """By number."""


class OpenSegment(NamedTuple):
    """The segment being written, as far as it is durable, as if it had been sealed there."""

    number: int
    pieces: Iterator[memoryview]


class JournalArchive(JournalReader, Protocol):
    """Sealed segments in a folder or an object store. Many processes may read one at the same time, beside the journal
    that writes it; segments that were not there when it was opened are found when they are asked for."""

    def batch_sizes(self, segment: int) -> list[int]:
        """The bytes of each record batch of a segment, in order. Raises KeyError when the segment is gone."""

    def record_batch(self, segment: int, batch: int) -> pa.RecordBatch:
        """A record batch as it was written, with the columns of JOURNAL_SCHEMA. Raises KeyError when there is none, and
        DamagedError."""

    def open_segment(self) -> OpenSegment | None:
        """The segment that a journal in this folder is writing; None where there is none with a durable message."""

    def identity(self) -> JournalIdentity | None:
        """The journal that the archive's segments belong to, with the highest epoch among them; None where there are
        none, or only segments without an identity. Raises OurError when they belong to several journals."""


class Journal(JournalReader, Protocol):
    """Every physical message as received, in order. One writer."""

    def identity(self) -> JournalIdentity: ...

    def end(self) -> Position | None:
        """The last position that was written durably, even when its segment was retired since; None for a journal that
        has never had a message."""

    def reserve(self, segment: int) -> None:
        """Durably gives all later segments numbers above this one: for segments that were lost. The segment being
        written is ended."""

    def append(self, messages: Sequence[PhysicalMessage]) -> list[Position]:
        """Writes and flushes messages to disk; they are durable on return. Called by one thread.

        Raises JournalFull when nothing was taken, for want of space; the same call may be repeated later.
        """

    def replay(self, after: Position | None) -> Iterator[tuple[list[Position], list[PhysicalMessage]]]:
        """Batch by batch all that was written behind a position (all there is, for None), in order, as far as it was
        durable when the call was made. A message whose body is damaged comes without it, as
        `unreadable("damaged-message", why)`; batches that are lost are left out. Never raises DamagedError."""

    def seal(self) -> None:
        """Ends the segment being written, if it holds anything, and any before it that could not be ended in its time;
        the next append begins a new one."""

    def retire(self, segment: int) -> None:
        """Removes a sealed segment."""

    def set_aside(self, segment: int) -> None:
        """As `retire`; the segment's file is kept, and not read any more."""

    def free_bytes(self) -> int:
        """Room left where the journal lies."""

    def close(self) -> None: ...


# --- the content store --------------------------------------------------------------------------------------------


class ObjectWriter(Protocol):
    """An object being written."""

    def write(self, data: bytes | bytearray | memoryview) -> None: ...


class ContentStore(Protocol):
    """Objects by name: words of letters, digits, `-`, `_`, `=`, `.` and `/` that the gateway makes up itself.

    An object is written whole and then named: no half object is ever seen, and it is on disk when named.
    """

    def create(self, name: str) -> AbstractContextManager[ObjectWriter]:
        """Names the object when the block ends well and forgets it when the block raises. An object of that name is
        replaced."""

    def size(self, name: str) -> int:
        """Raises KeyError when there is no such object."""

    def read(self, name: str, offset: int = 0, length: int | None = None) -> Iterator[memoryview]:
        """The bytes from `offset` on, in pieces of about 1 MiB. Raises KeyError when there is no such object, and
        DamagedError where bytes cannot be read or an object has become shorter than it was when this was called."""

    def local_path(self, name: str) -> str | None:
        """The object's file where the store is a local folder, else None."""

    def delete(self, name: str) -> None:
        """Forgets an object; no error if there is none."""

    def delete_all(self, names: Sequence[str]) -> None:
        """Forgets objects, as far as there are such."""

    def names(self, prefix: str = "") -> Iterator[str]: ...


# --- the catalog --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AttachmentFilter:
    """Which attachments a listing wants; None is any. Times in µs; `name` is part of a name, ignoring case."""

    state: AttachmentState | None = None
    kind: AttachmentKind | None = None
    source: str | None = None
    name: str | None = None
    message: str | None = None
    received_after: int | None = None
    received_before: int | None = None


class Page(NamedTuple, Generic[T]):
    """One page of a listing, newest first; `next` continues it and is None at its end."""

    items: list[T]
    next: str | None


class IdempotencyConflict(Exception):
    """An idempotency key was used before with another request (`same_request` False) or stands for `delivery`."""

    def __init__(self, delivery: DeliveryRecord, *, same_request: bool) -> None:
        super().__init__(delivery.id)
        self.delivery, self.same_request = delivery, same_request


class BadCursor(ValueError):
    """A page cursor that this catalog did not make."""


class Catalog(Protocol):
    """What is known of messages, attachments and deliveries; the receiving side can be rebuilt from the journal.

    Raises CatalogError when it cannot be read or written at present.
    """

    # belonging
    def lock(self) -> None:
        """Makes this process the one gateway of the catalog, until `close`; called again, sees that it still is, and
        takes a lock again that was lost. Raises CatalogTaken when another gateway has it. Whoever only reads, and a job
        that assembles beside the gateway, need no lock."""

    def journal_identity(self) -> JournalIdentity | None:
        """The journal that this catalog was bound to, with the epoch that bound it last; None for a new catalog."""

    def bind(self, journal: JournalIdentity) -> None:
        """Says that the catalog is of this journal. From now on all writes of this process need the catalog to be
        bound to just this: they raise CatalogTaken when a later epoch has bound it since. Raises OurError for an older
        epoch of the same journal."""

    # assembly
    def progress(self) -> int | None:
        """The packed position that the last checkpoint included, None before the first."""

    def source_dialects(self) -> dict[str, int]: ...

    def attachments_by_key(self, source: str, correl_ids: Sequence[bytes]) -> dict[bytes, AttachmentRecord]:
        """The attachments of a source with these correlids, as far as they are known, deleted ones included."""

    def messages_by_correl_id(self, source: str, correl_ids: Sequence[bytes]) -> dict[bytes, MessageRecord]:
        """The messages of a source whose message correlid has one of these as the 20 bytes that are compared
        (`app.codecs.sas.correlid`), by those 20 bytes."""

    def part_runs(self, attachment_id: str) -> list[PartRun]:
        """What checkpoints said of an attachment's parts, in the order they said it."""

    def checkpoint(self, checkpoint: Checkpoint) -> set[str]:
        """Takes all of it or nothing. Returns the identifiers of those `finished` and `refused` attachments that were
        not complete when it came to them (deleted meanwhile); no event with one of them as its subject is logged, nor
        with one that is said to have expired and was no longer being received.

        Assembly may still say receiving or complete of an attachment that was finished, quarantined or deleted
        meanwhile: such a row keeps its state, and every row keeps what finishing wrote (size, sha256, content type,
        storage, object name, finished_at, observations, variables). Only an expired one is revived. `progress` never
        goes back; a quarantine entry that is there already takes the new reason and is kept again.
        """

    # finishing
    def complete_attachments(
        self, limit: int | None = None, after: AttachmentRecord | None = None
    ) -> list[AttachmentRecord]:
        """Those whose parts are all there and whose content is not finished, oldest first; the first `limit` of them,
        or those behind one of them."""

    def finish(self, finished: Finished, events: Sequence[NewEvent]) -> bool:
        """complete -> finished; False, and nothing is done, when it is not complete any more (deleted meanwhile)."""

    def settle(self, objects: Mapping[str, str]) -> set[str]:
        """Content is now in the store, in the object named for each attachment: forgets extents and part runs. Returns
        the attachments of which this holds; the others were deleted meanwhile."""

    def unsettled_attachments(
        self, finished_before: int, limit: int, after: AttachmentRecord | None = None
    ) -> list[AttachmentRecord]:
        """Finished attachments whose content is still read from the journal, oldest first; those behind one of them."""

    def mark_damaged(self, attachment_id: str, reason: str | None, events: Sequence[NewEvent] = ()) -> bool:
        """Says of a finished attachment that its content cannot be served as it was received (reason code
        `damaged-content`), or, without a reason, that it can again. False, and nothing is done, when it is not
        finished, or when that was said before."""

    def extents(self, attachment_id: str) -> tuple[Extent, ...]: ...

    def complete_messages(self, attachment_ids: Sequence[str], now: int) -> list[str]:
        """Marks the messages of these attachments complete whose every attachment is finished and whose application
        message, where announced, is there; returns their identifiers."""

    def set_state(
        self,
        attachment_ids: Sequence[str],
        state: AttachmentState,
        *,
        reason_code: str | None = None,
        reason: str | None = None,
        events: Sequence[NewEvent] = (),
    ) -> None:
        """What may not follow the state that an attachment has by now is left out, and so are the events whose subject
        it is: deleted stays deleted, only what is being received expires, only what is quarantined gets another try."""

    def stale_attachments(self, last_received_before: int, limit: int) -> list[AttachmentRecord]:
        """Receiving attachments that have had nothing since, oldest first."""

    def needed_segments(self, among: Collection[int] | None = None) -> set[int]:
        """Segments, of all or `among` some, that hold a part of what is unfinished, unsettled, refused or expired and
        not yet let go, a message that waits for its header, or the only copy of what is in quarantine."""

    # receiving time
    def receiving_time(self) -> dict[str, int]:
        """For how many microseconds each source could receive, as far as that was saved."""

    def receiving_marks(self) -> list[ReceivingMark]:
        """By source and count."""

    def save_receiving_time(
        self, counted: Mapping[str, int], marks: Sequence[ReceivingMark], forget_before: Mapping[str, int]
    ) -> None:
        """Keeps the counts of sources, and marks; forgets the marks of sources below a count."""

    def silent_attachments(self, source: str, last_position: int, limit: int) -> list[AttachmentRecord]:
        """Receiving attachments of a source of which nothing was journalled behind a packed position, stalest first."""

    def expire(
        self, records: Sequence[AttachmentRecord], counted: int, reasons: Sequence[str], events: Sequence[NewEvent]
    ) -> set[str]:
        """receiving -> expired, when the receiving time of their source was `counted`; a reason each. Returns the
        identifiers of those that were still received, and had nothing more come since; events of others are left
        out."""

    def expired_before(self, source: str, counted: int, limit: int) -> list[AttachmentRecord]:
        """Attachments of a source that expired up to this count, and whose parts have not been let go since; such as
        were revived meanwhile are among them."""

    def restart(self, attachment_ids: Sequence[str], state: AttachmentState, reason: str | None) -> list[str]:
        """Forgets all that came of attachments in this state but what their headers said, and so lets go of their
        parts: what is sent again begins anew. Complete ones are being received again, all others keep their state.
        Returns the identifiers of those that were in the state; of all others nothing is kept that says that they
        expired."""

    # reading
    def attachments(self, which: AttachmentFilter, cursor: str | None, limit: int) -> Page[AttachmentRecord]: ...

    def attachment(self, attachment_id: str) -> AttachmentRecord | None: ...

    def attachments_by_id(self, attachment_ids: Sequence[str]) -> list[AttachmentRecord]:
        """Those of them that there are, in no particular order."""

    def messages(self, source: str | None, cursor: str | None, limit: int) -> Page[MessageRecord]: ...

    def messages_by_id(self, message_ids: Sequence[str]) -> list[MessageRecord]:
        """Those of them that there are, in no particular order."""

    def message(self, message_id: str) -> MessageRecord | None: ...

    def counts(self) -> dict[str, dict[str, int]]:
        """How many there are: {"attachments": {state: n}, "deliveries": {state: n}, "quarantine": {state: n}}."""

    # quarantine
    def quarantined(
        self, source: str | None, state: QuarantineState | None, cursor: str | None, limit: int
    ) -> Page[QuarantineRecord]: ...

    def quarantine_entry(self, quarantine_id: str) -> QuarantineRecord | None: ...

    def set_quarantine_state(self, quarantine_id: str, state: QuarantineState) -> bool: ...

    def quarantine_copy(self, quarantine_id: str) -> QuarantineCopy | None: ...

    def uncopied_quarantine(self, position_below: int, largest: int, limit: int) -> list[QuarantineRecord]:
        """Entries that are not dismissed, of at most `largest` bytes, whose bytes are in the journal only, below a
        packed position; in the journal's order."""

    def copied_quarantine(
        self, copies: Sequence[QuarantineCopy], objects: Mapping[str, str], gone: Sequence[str]
    ) -> None:
        """Takes copies of entries, with the names of those `objects` that hold bodies; the journal no longer has
        the bytes of those that are `gone`."""

    # deliveries
    def add_delivery(self, delivery: DeliveryRecord, events: Sequence[NewEvent]) -> None:
        """Raises IdempotencyConflict when the delivery's key is taken."""

    def delivery_by_idempotency_key(self, key: str) -> DeliveryRecord | None: ...

    def due_deliveries(self, destination: str, now: int, limit: int, latest: int | None = None) -> list[DeliveryRecord]:
        """Queued or sending ones to a destination whose next attempt is due, oldest first. One that is to be tried
        later than `latest` was put off by a clock that was ahead, and is due, too."""

    def update_delivery(self, delivery: DeliveryRecord, events: Sequence[NewEvent] = ()) -> None: ...

    def deliveries(
        self, state: DeliveryState | None, destination: str | None, cursor: str | None, limit: int
    ) -> Page[DeliveryRecord]: ...

    def delivery(self, delivery_id: str) -> DeliveryRecord | None: ...

    def ended_deliveries(self, updated_before: int, limit: int) -> list[DeliveryRecord]:
        """Sent or failed ones, oldest first."""

    # events
    def events_after(self, number: int, limit: int) -> list[EventRecord]: ...

    def last_event(self) -> int:
        """The number of the newest event, 0 when there is none."""

    def add_events(self, events: Sequence[NewEvent]) -> None: ...

    # retention
    def kept(self) -> dict[str, Kept]:
        """What there is of "content", "attachments" (ended ones), "messages", "deliveries", "quarantine" and
        "events"."""

    def oldest_content(self, finished_before: int, limit: int) -> list[AttachmentRecord]:
        """Finished attachments whose content is in the store, oldest first."""

    def refused_attachments(self, last_received_before: int, limit: int) -> list[AttachmentRecord]:
        """Quarantined attachments that nothing came of since and that still hold parts, oldest first."""

    def drop_attachments(
        self, states: Collection[AttachmentState], last_received_before: int, limit: int
    ) -> tuple[int, int]:
        """Forgets attachments in these ended states that nothing came of since and that hold no parts, the oldest
        first, and messages of which no attachment is left; returns how many of each."""

    def drop_messages(self, received_before: int, limit: int) -> int:
        """Forgets messages that never had attachments, the oldest first; returns how many."""

    def drop_deliveries(self, delivery_ids: Sequence[str]) -> None: ...

    def quarantine_by_source(self) -> dict[str, Kept]: ...

    def oldest_quarantine(self, source: str, received_before: int, limit: int) -> list[QuarantineRecord]:
        """Oldest first, in whatever state."""

    def drop_quarantine(self, quarantine_ids: Sequence[str]) -> None: ...

    def prune_events(self, before: int, keep: int | None = None, limit: int | None = None) -> int:
        """Forgets events logged before a time, and all but the newest `keep`; at most `limit`, the oldest first.
        Returns how many."""

    # repairing
    def flush(self) -> None:
        """Takes to disk all that was written before."""

    def set_progress(self, position: int | None) -> None:
        """Says where the journal is to be replayed from, which may be further back: what was behind it is lost."""

    def close(self) -> None: ...


class CatalogDatabase(Protocol):
    """What a catalog is kept in, as a whole. Nothing else may have it open, unless it says so."""

    place: str
    """For people."""

    def exists(self) -> bool: ...

    def is_empty(self) -> bool: ...

    def problems(self) -> list[str]:
        """What the database itself finds damaged; may be asked beside a running gateway."""

    def set_aside(self) -> str:
        """Makes room for a new catalog; returns where the old one is, or what became of it."""

    def snapshot(self, target: Path) -> None:
        """Writes all of it, as it is at one moment, into a new file; may be called beside a running gateway."""

    def load(self, source: Path) -> None:
        """Fills an empty database from such a file. Raises OurError when it is not empty."""


# --- tables -------------------------------------------------------------------------------------------------------


class TableFile(NamedTuple):
    """A file of rows that belongs to a table once it is committed: `path` within the table, `size` in bytes, and
    `statistics` as the table format wants them, in JSON."""

    path: str
    size: int
    rows: int
    statistics: str


class TableVersion(NamedTuple):
    """A table as it is: `version` grows by one with every commit; `size` in bytes and `modified_at` (µs)."""

    name: str
    version: int
    rows: int
    files: int
    size: int
    modified_at: int


class TableStore(Protocol):
    """Tables by name, in a folder or an object store, each with versions that appear whole.

    A name is any text: what it makes of it as a path is the store's affair.
    """

    def names(self) -> list[str]: ...

    def schema(self, name: str) -> pa.Schema:
        """The columns with their metadata as they were committed. Raises KeyError when there is no such table."""

    def describe(self, name: str) -> TableVersion:
        """Raises KeyError when there is no such table."""

    def reached(self, name: str, application: str) -> int | None:
        """The transaction number that `application` last committed to a table; None for none, or for no table."""

    def write(self, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> TableFile:
        """Writes a file that no reader sees before it is committed. May be called in any process."""

    def commit(
        self, name: str, schema: pa.Schema, files: Sequence[TableFile], application: str, transaction: int
    ) -> bool:
        """Adds files, makes the table where there is none, and widens it to `schema`, which has all its columns. False,
        and nothing is done, when `application` has reached this transaction before."""

    def rows(self, name: str, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of the newest version. Raises KeyError when there is no such table or column."""

    def dataset(self, name: str) -> "Dataset":
        """The newest version, to be scanned with what a reader pushes down of columns and filters; it stays with its
        version as long as that is not vacuumed. What the table format has no type for comes as what it has: times of
        day and durations as int64, in microseconds. Raises KeyError when there is no such table."""

    def location(self, name: str) -> str:
        """Where a table lies, for programs that read its format themselves. Raises KeyError when there is none."""

    def compact(self, name: str) -> int:
        """Joins small files; returns how many went."""

    def retain(self, name: str, received_from: int) -> int:
        """Removes rows received before a time (µs); returns how many."""

    def vacuum(self, name: str, older_than: float) -> int:
        """Removes files that no version of the last `older_than` seconds has; returns how many."""


# --- time ---------------------------------------------------------------------------------------------------------


class Clock(Protocol):
    def now(self) -> int:
        """Microseconds since 1970-01-01 UTC. It may be set, forward and back."""

    def monotonic(self) -> float:
        """Seconds that only pass, since no particular time."""
