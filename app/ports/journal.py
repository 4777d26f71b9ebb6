"""The journal: every physical message as received, written once and read back."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from app.model.message import NO_PROPERTIES, UNREADABLE, PhysicalMessage, Position
from app.model.records import (
    DAMAGED_MESSAGE,
    CombinedArchives,
    Damage,
    Extent,
    JournalIdentity,
    Publication,
)
from app.ports.clock import Clock

Prepared = Sequence[Any]
"""Messages as `Journal.prepare` encodes them. Only that journal knows what the entries are."""

Order = Callable[[int], CombinedArchives | None]
"""A function that returns archives with one order, and their segments behind a number; None if there is no order."""
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
"""The columns of a journal's record batches: one physical message a row, with the CRC-32C of its body. An unknown put
time is null. A journal may add columns of its own."""


class Segment(NamedTuple):
    """One journal segment; times in µs. `sealed_at` is None while the segment is being written."""

    number: int
    size: int
    created_at: int
    sealed_at: int | None


class OpenSegment(NamedTuple):
    """The durable part of the segment that is being written, up to the position `end`, as if it had been sealed
    there."""

    number: int
    end: Position
    pieces: Iterator[memoryview]


class PlacedBodies(NamedTuple):
    """Bodies of a record batch, and the byte of its segment's file at which each begins. `framings` and `properties`
    are columns of the whole batch."""

    framings: pa.StringArray
    properties: pa.MapArray
    bodies: Sequence[memoryview]
    offsets: Sequence[int]


class JournalReader(Protocol):
    """Read access to journalled messages.

    Everything read from disk is compared with its checksums before it is returned. DamagedError means that bytes have
    changed since they were written, or cannot be read.
    """

    def read(self, position: Position) -> PhysicalMessage:
        """Return the message at a position. Raises KeyError if its segment is gone, and DamagedError."""

    def messages(self, segment: int, batch: int, rows: Sequence[int]) -> list[PhysicalMessage]:
        """Return the messages in these rows of a record batch, without reading the bodies of others.

        A message whose body is damaged comes without it, as `unreadable("damaged-message", why)`. Raises KeyError if
        there is no such batch or row, and DamagedError if the batch is lost.
        """

    def descriptors(self, segment: int, batch: int) -> pa.RecordBatch:
        """Return the columns of a durable record batch: the columns of JOURNAL_SCHEMA without `body`, and `size`, the
        bytes of each body (int64). No body is read. Raises KeyError if there is no such batch, and DamagedError."""

    def bodies(self, positions: Iterable[Position]) -> Iterator[memoryview]:
        """Return the bodies at these positions, in the given order. Raises KeyError and DamagedError as `read`."""

    def extents(self, positions: Iterable[Position]) -> Iterator[Extent]:
        """Return where these bodies lie in their segments' files, in the given order. Raises KeyError as `read`, and
        DamagedError if a place is lost."""

    def views(self, extents: Iterable[Extent]) -> Iterator[memoryview]:
        """Return the bytes of these extents, reading ahead; each extent lies within one body.

        A view stays readable as long as it is referenced, even after its segment is retired. Raises KeyError if a
        segment is gone, and DamagedError if the whole body that holds an extent fails its checksum.
        """

    def segment_bytes(self, segment: int) -> Iterator[memoryview]:
        """Return the file of a sealed segment as it is, damaged or not, in pieces of at most 1 MiB. Unreadable blocks
        are returned as zeros. Raises KeyError if the segment is gone."""

    def verify(self, segment: int) -> list[Damage]:
        """Compare all of a segment with its checksums; return [] if it is undamaged. Raises KeyError if the segment is
        gone."""

    def segments(self) -> list[Segment]:
        """Return all segments, by number."""

    def has(self, segment: int) -> bool:
        """Tell whether there is a segment. An archive need not look again for one that it has found before.

        Raises NotArchived for a number after the newest one of an archive that grows.
        """


class ReplayReader(JournalReader, Protocol):
    """Read access that also follows the journal's order."""

    def replay(self, after: Position | None) -> Iterator[tuple[list[Position], list[PhysicalMessage]]]:
        """Return, batch by batch and in order, everything after a position (None: everything) that was durable when
        this was called; of an archive, everything in it.

        A message whose body is damaged comes without it, as `unreadable("damaged-message", why)`. A lost batch comes as
        one such message without a source, in its first row. Never raises DamagedError.
        """


class JournalArchive(ReplayReader, Protocol):
    """Sealed segments in a folder or an object store. Many processes may read an archive while the journal writes it.
    Segments that appear after opening are found when they are requested.

    Segments that receivers have published use each number: `replay` and `behind` raise GatewayError where one before
    them is missing.
    """

    def behind(self, segment: int) -> list[Segment]:
        """Return the present segments behind a number; behind 0 from the first one that is present."""

    def sequences(self) -> list[list[int]]:
        """Return the numbers of all segments in sequences, each with segments of one journal: within a sequence,
        messages are in the order in which they were received."""

    def begun_at(self, segment: int) -> int | None:
        """Return when a segment was begun (µs), as its header says; None if that cannot be read. Raises KeyError if the
        segment is gone."""

    def path(self, segment: int) -> str:
        """Return the path or URL of a segment, for people."""

    def batch_sizes(self, segment: int) -> list[int]:
        """Return the size in bytes of each record batch of a segment, in order. Raises KeyError if the segment is
        gone."""

    def record_batch(self, segment: int, batch: int) -> pa.RecordBatch:
        """Return a record batch as written, with the columns of JOURNAL_SCHEMA. Raises KeyError if there is none, and
        DamagedError."""

    def placed_bodies(self, segment: int, batch: int, rows: Sequence[int]) -> PlacedBodies:
        """Return the bodies in these rows of a record batch, which ascend. Raises KeyError if there is no such batch or
        row, and DamagedError if one of the bodies, or the batch, is damaged."""

    def open_segment(self) -> OpenSegment | None:
        """Return the segment that a journal in this folder is writing, or None if it has no durable message."""

    def add(self, segment: int, pieces: Iterable[bytes | bytearray | memoryview]) -> bool:
        """Add a segment durably, unless there is one of this number: then return False, and change nothing.

        Of several processes that add the same number, one succeeds. When its answer is lost, GatewayError is raised,
        and the segment may be there.
        """

    def give_up(self, segment: int) -> bool:
        """Take the number of a published segment that is missing for a segment without messages. Return False if no
        published one is missing there."""

    def published(
        self, segments: Sequence[int], number: int, shared: JournalIdentity
    ) -> tuple[Publication, Iterator[bytes | bytearray | memoryview]]:
        """Return what `WritableJournal.published` does, of the segments of one receiver."""

    def fence(self, after: int) -> bool:
        """Take the number behind number `after`, so that the receiver whose segments these are can acknowledge nothing
        any more. Return False if it has just added a segment there. A fence that is there already counts."""

    def remove(self, *segments: int) -> None:
        """Remove segments that are there. If that fails, some of them may be left."""

    def origin(self, segment: int) -> Publication | None:
        """Return where the messages of a published segment come from; None if it was not published. Raises KeyError if
        the segment is gone, and GatewayError if its header cannot be read."""

    def identity(self) -> JournalIdentity | None:
        """Return the journal that the segments belong to, with the highest epoch among them.

        None means that there are no segments. Raises GatewayError if segments belong to several journals.
        """


class WritableJournal(ReplayReader, Protocol):
    """Physical messages as received, in order. One writer."""

    @property
    def most_appends(self) -> int:
        """How many appends may be under way at once."""

    def identity(self) -> JournalIdentity:
        """Return the identity of this journal, with the epoch of this opening."""

    def end(self) -> Position | None:
        """Return the last durable position, even if its segment was retired since; None if the journal never had a
        message."""

    def batch_count(self, segment: int) -> int:
        """Return the number of durable record batches of a segment, lost ones included. Raises KeyError if the segment
        is gone, and DamagedError."""

    def reserve(self, segment: int) -> None:
        """Give all later segments numbers above this one, durably. Used after segments were lost. Ends the segment
        being written."""

    def prepare(self, messages: Sequence[PhysicalMessage]) -> Prepared:
        """Encode messages for `begin_append`, as far as that needs no position. Other threads may write meanwhile."""

    def begin_append(
        self, messages: Sequence[PhysicalMessage], prepared: Prepared | None = None
    ) -> Callable[[], list[Position]]:
        """Give messages their place behind all that was begun before. One thread at a time calls it.

        The function that it returns waits until they are durable, and returns their positions. At most `most_appends`
        of these functions run at once, and end in any order. Messages may be acknowledged once all that were begun
        before are durable, too. A function that raises GatewayError must be called again until it succeeds; else
        nothing that was begun later may be acknowledged.

        `prepared` is what `prepare` has made of the same messages.
        Raises JournalFull if there is no space; nothing was written then, and the same call may be repeated later.
        It and the function raise JournalTaken if another process has opened the journal with a later epoch: the
        messages may be lost, and must not be acknowledged.
        """

    def published(
        self, segments: Sequence[int], number: int, shared: JournalIdentity
    ) -> tuple[Publication, Iterator[bytes | bytearray | memoryview]]:
        """Return the file of segment `number` of a shared journal, with all messages of these sealed segments in order,
        and what it says of their origin.

        Bodies are not changed. A message that is damaged comes without its body, as `unreadable("damaged-message",
        why)`, and a lost batch as one such message without a source. Raises KeyError if a segment is gone.
        """

    def seal(self, age: float = 0.0) -> None:
        """End the segment being written, if it is not empty and was begun `age` seconds ago, and any earlier one that
        could not be ended before. The next messages begin a new segment.

        An earlier segment that cannot be ended leaves the one being written as it is.
        """

    def retire(self, *segments: int) -> None:
        """Remove sealed segments, unless they are gone already. Raises JournalTaken as `begin_append` does.

        One that cannot be removed does not stop the others; the first error is raised after them.
        """

    def free_bytes(self) -> int:
        """Return the free space, in bytes, of the file system that holds the journal."""

    def close(self) -> None:
        """Close the journal's files."""


class Journal(WritableJournal, Protocol):
    """The journal in a folder: what a gateway that receives alone needs, and its repair."""

    def append(self, messages: Sequence[PhysicalMessage], prepared: Prepared | None = None) -> list[Position]:
        """Write messages and flush them to disk: `begin_append` and its function in one call."""

    def set_aside(self, segment: int) -> None:
        """Stop reading a sealed segment, but keep its file."""


class JournalPlugin(Protocol):
    """The object that an entry point of the group `attachment_gateway.journals` refers to."""

    def __call__(
        self,
        folder: Path,
        /,
        *,
        segment_bytes: int = ...,
        segment_age: float = ...,
        clock: Clock | None = None,
        epoch: int | None = None,
        durable: Callable[[str], Position | None] = ...,
    ) -> Journal:
        """Open the journal in a folder as its one writer; seal segments at this size or age (in seconds).

        `durable` returns, for a journal's id, the last position in it that the caller knows to have been durable. If
        messages up to there are missing, they count as damaged and keep their places.

        With an `epoch`, processes of earlier epochs may have it open: they can write no more. Raises JournalTaken if
        this epoch is not later than all before.
        """

    def last_epoch(self, folder: Path) -> int:
        """Return the epoch of the process that opened the journal in a folder last; 0 if there is no journal."""

    def begin(self, folder: Path, journal: JournalIdentity, following: int) -> None:
        """Make a folder belong to a journal, or to a later epoch of it; its next segment is numbered `following` or
        higher. The journal must not be open."""


class ObjectJournalPlugin(Protocol):
    """The object that an entry point of the group `attachment_gateway.object_journals` refers to."""

    def __call__(self, place: str, /, cache: Path) -> WritableJournal:
        """Open a new journal within a place, the URL of an archive. What it reads again is kept in a folder `cache`.

        Writing raises JournalTaken once another process has fenced it (`JournalArchive.fence`).
        """

    def place(self, archive: str, journal: str, /) -> str:
        """Return where the segments of such a journal, by its id, are within the place of an archive."""


class ArchivePlugin(Protocol):
    """The object that an entry point of the group `attachment_gateway.archives` refers to."""

    def __call__(
        self, place: str | Path, /, cache: Path | None = None, cache_bytes: int = ..., *, is_growing: bool = ...
    ) -> JournalArchive:
        """Open the archive in a folder or at a URL. Segments of an object store are kept in the folder `cache`, at most
        `cache_bytes` of them.

        For readers of an archive that `is_growing`, a segment after the newest one is not gone: what asks for it raises
        NotArchived, not KeyError.
        """

    def combined(self, order: Order, /, cache: Path | None = None, cache_bytes: int = ...) -> JournalArchive:
        """Open archives of several journals as one, whose segments have the numbers of an order. It is only read.

        The order is asked for again when segments are listed, or one is asked for that is not known.
        """


def messages_of(rows: pa.RecordBatch, bodies: Sequence[memoryview]) -> list[PhysicalMessage]:
    """Return the messages of these rows, which have the columns of JOURNAL_SCHEMA. Column `body` is not read."""
    values: dict[str, Sequence[Any]] = {"body": bodies}
    for name in PhysicalMessage._fields:
        if name not in ("body", "properties"):
            column = rows.column(name)
            if pa.types.is_timestamp(column.type):
                column = column.view(pa.int64()).fill_null(0)
            values[name] = column.to_numpy(zero_copy_only=False).tolist()
    properties = rows.column("properties")
    values["properties"] = (
        [dict(pairs) if pairs else NO_PROPERTIES for pairs in properties.to_pylist()]
        if len(properties.keys)
        else [NO_PROPERTIES] * len(properties)
    )
    return list(map(PhysicalMessage._make, zip(*(values[name] for name in PhysicalMessage._fields), strict=True)))


def is_damaged(message: PhysicalMessage) -> bool:
    """Tell whether the journal could not read the body of a message back."""
    return message.framing == UNREADABLE and message.properties.get("refused-code") == DAMAGED_MESSAGE
