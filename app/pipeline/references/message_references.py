"""References: the meaning of a journal batch's physical messages for assembly, and their positions, without bodies.

Sequenced parts of one attachment that lie in consecutive rows with consecutive numbers are one reference. Their framing
finds them in the columns of the whole batch. All other messages (a header, a count, a part of a group, a message with a
wrong framing) are read one by one. A header is only carried along: the headers of a source are read later, in order. So
are small application messages, whose bodies would otherwise be read once more.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from enum import IntEnum
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from app.assembly.collecting import TrackedAttachment
from app.assembly.header_checks import Claim
from app.codecs.sas import dialect
from app.codecs.sas.attachment_messages import read_counts
from app.framing.message_events import is_header, read_event
from app.framing.part_runs import columns_of
from app.framing.protocol import KEY_SIZE, NO_COLUMNS, Columns, descriptors_of_batch
from app.model.attachment import AttachmentDefinition, AttachmentKind
from app.model.errors import DamagedError, InvalidInputError
from app.model.event import Announced, Event, Pieces, Unsequenced
from app.model.message import PhysicalMessage, Position
from app.model.records import DAMAGED_MESSAGE, MessageRecord
from app.pipeline.references.lazy_bodies import LAST, JournalBatch, Numbers
from app.ports import JournalArchive

LONGEST_COUNT = 8
"""The size of the largest message that may be a count, in bytes."""

WORTH_BYTES = 8 << 10
"""The size, in bytes, of the bodies that take as long to read as one body that is read by itself."""

LONGEST_ANSWER = 1024
"""The size of the largest application message that its reference holds, in bytes. Larger ones are fetched later."""

_KINDS = {int(kind): kind for kind in AttachmentKind}
_DEFINITION = attrgetter(*(each.name for each in fields(AttachmentDefinition) if each.name != "kind"))

SCHEMA = pa.schema(
    [
        pa.field("source", pa.string(), nullable=False),
        pa.field("key", pa.binary(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("kind", pa.int8(), nullable=False),
        pa.field("first", pa.int64(), nullable=False),
        pa.field("sizes", pa.binary(), nullable=False),
        pa.field("received_at", pa.binary(), nullable=False),
        pa.field("detail", pa.binary(), nullable=False),
    ]
)
"""References by column. `sizes` (int32) and `received_at` (int64, µs) hold a number for each message, in the machine's
byte order. `first` is the sequence number of the first of `SequencedParts`, and the dialects of a `Header`. `detail`
has the other fields of a kind, pickled: the job that reads them has written them."""


class ReferenceKind(IntEnum):
    """The kinds of references."""

    PARTS = 1
    EVENT = 2
    HEADER = 3
    REFUSED = 4
    MESSAGE = 5
    CLAIM = 6
    REPEATED = 7
    DIALECTS = 8
    COUNT = 9
    """An unsequenced message; its body, not pickled, if that is small enough for a count. It is read as a
    `MessageEvent`."""
    ANSWER = 10
    """An unsequenced message that is too large for a count, and not larger than `LONGEST_ANSWER`; its body, its format
    and its CCSID. It is read as a `MessageEvent`."""
    PACKED = 11
    HELD = 12
    HEADER_KEY = 13
    """A key under which the header at a position announces something. It has no other fields."""


@dataclass(slots=True)
class Reference:
    """The meaning of messages of one source.

    `key` is the correlid of an attachment or group, or empty. `position` is the packed position of the first message.
    `sizes` and `received_at` (µs) have a number for each message that counts as received.
    """

    kind: ClassVar[ReferenceKind]

    source: str
    key: bytes
    position: int
    sizes: Sequence[int]
    received_at: Sequence[int]

    @property
    def first(self) -> int:
        """Return the value of its column."""
        return 0

    def detail(self) -> bytes:
        """Return the fields of its kind for their column."""
        return b""


@dataclass(slots=True)
class SequencedParts(Reference):
    """Sequenced parts in a row, with numbers from `number` on."""

    kind = ReferenceKind.PARTS

    number: int

    @property
    def first(self) -> int:
        return self.number


@dataclass(slots=True)
class MessageEvent(Reference):
    """Another message of an attachment or group."""

    kind = ReferenceKind.EVENT

    event: Event

    def detail(self) -> bytes:
        return pickle.dumps(self.event)


@dataclass(slots=True)
class Header(Reference):
    """An attachment header, which is still to be read; its message, whose body is small.

    In a batch its `key` is all keys under which it announces something, one behind the other, and it has `dialects`
    (`app.pipeline.references.header_plan`).
    """

    kind = ReferenceKind.HEADER

    message: PhysicalMessage
    dialects: int = 0

    @property
    def first(self) -> int:
        return self.dialects

    def detail(self) -> bytes:
        return pickle.dumps(self.message)


@dataclass(slots=True)
class RefusedMessage(Reference):
    """A message without a valid meaning, with code, row, byte and reason as in `InvalidInputError`."""

    kind = ReferenceKind.REFUSED

    code: str
    row: str
    at: int
    why: str

    def detail(self) -> bytes:
        return pickle.dumps((self.code, self.row, self.at, self.why))


@dataclass(slots=True)
class MessageBegun(Reference):
    """A message that an accepted header begins."""

    kind = ReferenceKind.MESSAGE

    record: MessageRecord

    def detail(self) -> bytes:
        return pickle.dumps(self.record)


@dataclass(slots=True)
class AttachmentClaim(Reference):
    """An entry of an accepted header. It comes after its `MessageBegun`.

    There are as many claims as attachments. A tuple of plain values is pickled and read in an eighth of the time of
    their classes.
    """

    kind = ReferenceKind.CLAIM

    claim: Claim

    def detail(self) -> bytes:
        message, ordinal, definition, dialects, trace_parent = self.claim
        return pickle.dumps((message, ordinal, dialects, trace_parent, int(definition.kind), *_DEFINITION(definition)))


@dataclass(slots=True)
class RepeatedHeader(Reference):
    """A repeated header, with the packed position of the first one."""

    kind = ReferenceKind.REPEATED

    first_position: int | None

    def detail(self) -> bytes:
        return pickle.dumps(self.first_position)


@dataclass(slots=True)
class CommonDialects(Reference):
    """The dialects that the headers of a source have in common, as a mask (`app.codecs.sas.dialect`)."""

    kind = ReferenceKind.DIALECTS

    dialects: int

    def detail(self) -> bytes:
        return pickle.dumps(self.dialects)


@dataclass(slots=True)
class HeldState(Reference):
    """What the catalog has under a key from earlier messages (`app.pipeline.assemble.earlier_state`)."""

    kind = ReferenceKind.HELD

    attachment: TrackedAttachment | None
    messages: tuple[MessageRecord, ...]

    def detail(self) -> bytes:
        return pickle.dumps((self.attachment, self.messages))


@dataclass(slots=True)
class PackedReferences(Reference):
    """Many references (`app.pipeline.references.shuffle`): a record batch of them in Arrow's IPC format, without its
    schema. `position` is the number of their partition."""

    kind = ReferenceKind.PACKED

    rows: bytes

    def detail(self) -> bytes:
        return self.rows


# --- rows -------------------------------------------------------------------------------------------------------------


def to_batch(references: Sequence[Reference]) -> pa.RecordBatch:
    """Return references as rows."""
    columns: Sequence[list[Any]] = (
        [each.source for each in references],
        [each.key for each in references],
        [each.position for each in references],
        [each.kind for each in references],
        [each.first for each in references],
        [np.asarray(each.sizes, "<i4").tobytes() for each in references],
        [np.asarray(each.received_at, "<i8").tobytes() for each in references],
        [each.detail() for each in references],
    )
    return pa.RecordBatch.from_pydict(dict(zip(SCHEMA.names, columns, strict=True)), SCHEMA)


def from_batch(batch: pa.RecordBatch) -> Iterator[Reference]:
    """Return the references of rows."""
    return map(from_row, zip(*(batch.column(name).to_pylist() for name in SCHEMA.names), strict=True))


def from_row(row: Iterable[Any]) -> Reference:
    """Return the reference of one row, its values in the order of `SCHEMA`."""
    source, key, position, kind, first, sizes, received_at, detail = row
    lengths, times = memoryview(sizes).cast("i").tolist(), memoryview(received_at).cast("q").tolist()
    place = source, key, position, lengths, times
    if kind == ReferenceKind.PARTS:
        return SequencedParts(*place, first)
    if kind in UNSEQUENCED:
        counts = read_counts(detail) if kind == ReferenceKind.COUNT else ()
        return MessageEvent(*place, Unsequenced(key, counts, lengths[0]))
    if kind == ReferenceKind.CLAIM:
        message, ordinal, dialects, trace_parent, *definition = unpacked_claim(detail)
        return AttachmentClaim(
            *place, Claim(message, ordinal, AttachmentDefinition(*definition), dialects, trace_parent)
        )
    if kind == ReferenceKind.HEADER:
        return Header(*place, _unpacked(detail), first)
    if kind in _OF_MANY_VALUES:
        return _OF_MANY_VALUES[kind](*place, *_unpacked(detail))
    return _OF_ONE_VALUE[kind](*place, _unpacked(detail))


UNSEQUENCED = (ReferenceKind.COUNT, ReferenceKind.ANSWER)
"""The kinds of the rows that are found by columns for unsequenced messages."""

_OF_ONE_VALUE: Mapping[int, Callable[..., Reference]] = {
    each.kind: each for each in (MessageEvent, MessageBegun, RepeatedHeader, CommonDialects)
}

_OF_MANY_VALUES: Mapping[int, Callable[..., Reference]] = {each.kind: each for each in (RefusedMessage, HeldState)}


def _unpacked(detail: bytes) -> Any:
    return pickle.loads(detail)  # noqa: S301 - written by the same job


def unpacked_claim(detail: bytes) -> tuple[Any, ...]:
    """Return the fields of a claim: message, ordinal, dialects, trace parent, then those of its definition."""
    message, ordinal, dialects, trace_parent, kind, *more = _unpacked(detail)
    return message, ordinal, dialects, trace_parent, _KINDS[kind], *more


def unpacked_message(detail: bytes) -> MessageRecord:
    """Return the message of a `MessageBegun`."""
    record: MessageRecord = _unpacked(detail)
    return record


def unpacked_answer(detail: bytes) -> tuple[bytes, str, int]:
    """Return the body, the format and the CCSID of a row of the kind `ANSWER`."""
    body, format_, ccsid = _unpacked(detail)
    return body, format_, ccsid


# --- journal batches --------------------------------------------------------------------------------------------------


def references(batch: JournalBatch) -> pa.RecordBatch:
    """Return references to messages of the journal, as rows of `SCHEMA`."""
    return _references(batch, _columns(batch.columns))


def references_between(
    archive: JournalArchive, places: Sequence[Position], after: int = -1, until: int = LAST, *, checked: bool = True
) -> pa.RecordBatch | None:
    """Return references to those messages of the record batches at some places that are after one packed position, and
    not after another; None if there are none.

    All bodies are read and compared with their checksums if they are `checked`. Otherwise those of the sequenced parts
    of a batch that comes alone are not read; the references are the same unless one of these bodies is damaged. Raises
    KeyError and DamagedError as `JournalArchive.record_batch`.
    """
    first, last = (Position.unpack(bound)[:2] for bound in (after, until))
    if not (places := [place for place in places if first <= place[:2] <= last]):
        return None
    if len(places) == 1 and not checked and first < places[0][:2] < last:
        with suppress(DamagedError):
            batch = JournalBatch.unread(archive, places[0])
            columns = _columns(batch.columns)
            if batch.sizes.sum() > WORTH_BYTES * (len(batch.sizes) - len(columns.parts)):
                return _references(batch, columns)
    batch = JournalBatch.at(archive, places, after, until)
    return references(batch) if len(batch.sizes) else None


def _references(batch: JournalBatch, columns: Columns) -> pa.RecordBatch:
    found = [_parts(batch, columns)]
    if len(columns.bare):
        found += _unsequenced(batch, columns.bare, columns.bare_keys)
    is_other = np.ones(len(batch.sizes), np.bool_)
    is_other[columns.parts] = is_other[columns.bare] = False
    others = np.flatnonzero(is_other)
    if len(others):
        messages = zip(batch.positions[others].tolist(), batch.messages(others), strict=True)
        found.append(to_batch([reference for position, message in messages for reference in _read(position, message)]))
    return pa.concat_batches(found)


def lost_batch(first_position: int, error: DamagedError) -> pa.RecordBatch:
    """Return the reference, for quarantine, to a journal batch whose messages cannot be read back. Nobody knows their
    sources."""
    return to_batch([RefusedMessage("", b"", first_position, (), (), DAMAGED_MESSAGE, "", -1, str(error))])


def _read(position: int, message: PhysicalMessage) -> list[Reference]:
    """Return references to the parts, the header or the fault in a message; there is usually one."""
    source, sizes, received_at = message.source, (len(message.body),), (message.received_at,)
    without_key = source, b"", position, sizes, received_at
    if is_header(message):
        return [Header(*without_key, message._replace(body=bytes(message.body)))]
    try:
        event = read_event(message, dialect.ALL)
    except InvalidInputError as error:
        return [RefusedMessage(*without_key, error.code, error.row, error.at, error.why)]
    assert not isinstance(event, Announced)
    if not isinstance(event, Pieces):
        return [MessageEvent(source, event.correl_id, position, sizes, received_at, event)]
    refused = [] if event.refused is None else [RefusedMessage(*without_key, *event.refused)]
    return [
        *(MessageEvent(source, each.correl_id, position, sizes, received_at, each) for each in event.parts),
        *refused,
    ]


# --- by columns -------------------------------------------------------------------------------------------------------


def _columns(batch: pa.RecordBatch) -> Columns:
    """Return the columns that each framing finds for its messages, merged by row."""
    names = batch.column("framing").dictionary_encode()
    indices, descriptors = names.indices.to_numpy(), descriptors_of_batch(batch)
    found = [columns_of(descriptors, indices == index, name) for index, name in enumerate(names.dictionary.to_pylist())]
    if len(found) == 1:
        return found[0]
    if not found:
        return NO_COLUMNS
    parts, keys, sequences, bare, bare_keys = map(np.concatenate, zip(*found, strict=True))
    order, of_bare = np.argsort(parts), np.argsort(bare)
    return Columns(parts[order], keys[order], sequences[order], bare[of_bare], bare_keys[of_bare])


def _unsequenced(batch: JournalBatch, rows: Numbers, keys: npt.NDArray[np.uint8]) -> Iterator[pa.RecordBatch]:
    sizes = batch.sizes[rows].astype("<i4")
    are_answers = (sizes > LONGEST_COUNT) & (sizes <= LONGEST_ANSWER)
    for kind, some in ((ReferenceKind.COUNT, ~are_answers), (ReferenceKind.ANSWER, are_answers)):
        taken, count = rows[some], int(some.sum())
        if not count:
            continue
        each = np.arange(count + 1)
        received_at = _received_at(batch, taken)
        details: list[bytes | memoryview]
        if kind is ReferenceKind.ANSWER:
            formats, ccsids = (batch.columns.column(name).take(pa.array(taken)) for name in ("format", "ccsid"))
            answers = zip(map(bytes, batch.bodies(taken)), formats.to_pylist(), ccsids.to_pylist(), strict=True)
            details = [*map(pickle.dumps, answers)]
        else:
            may_be_counts = batch.sizes[taken] <= LONGEST_COUNT
            bodies = iter(batch.bodies(taken[may_be_counts]))
            details = [next(bodies) if may_be else b"" for may_be in may_be_counts.tolist()]
        made = [
            batch.columns.column("source").take(pa.array(taken)),
            _binary(keys[some], each * KEY_SIZE),
            pa.array(batch.positions[taken]),
            pa.array(np.full(count, kind, np.int8)),
            pa.array(np.zeros(count, np.int64)),
            _binary(sizes[some], each * sizes.itemsize),
            _binary(received_at, each * received_at.itemsize),
            pa.array(details, pa.binary()),
        ]
        yield pa.RecordBatch.from_arrays(made, schema=SCHEMA)


def _parts(batch: JournalBatch, columns: Columns) -> pa.RecordBatch:
    """Return references to sequenced parts, one for each run of them."""
    rows, sequences, keys = columns.parts, columns.sequences, np.ascontiguousarray(columns.keys)
    sources = batch.columns.column("source").dictionary_encode().indices.to_numpy()
    halves = keys.view(np.uint64)
    # A run begins with each part that does not continue the part before it.
    continues = (
        (np.diff(batch.positions[rows]) == 1)
        & (np.diff(sequences) == 1)
        & (np.diff(sources[rows].astype(np.int64)) == 0)
        & (halves[1:] == halves[:-1]).all(axis=1)
    )
    begins = np.flatnonzero(np.concatenate(([True], ~continues))[: len(rows)])
    ends = np.append(begins, len(rows))
    sizes, received_at = batch.sizes[rows].astype("<i4"), _received_at(batch, rows)
    firsts = rows[begins]
    count = len(begins)
    made = [
        batch.columns.column("source").take(pa.array(firsts)),
        _binary(keys[begins], np.arange(count + 1) * KEY_SIZE),
        pa.array(batch.positions[firsts]),
        pa.array(np.full(count, ReferenceKind.PARTS, np.int8)),
        pa.array(sequences[begins]),
        _binary(sizes, ends * sizes.itemsize),
        _binary(received_at, ends * received_at.itemsize),
        _binary(np.zeros(0, np.uint8), np.zeros(count + 1, np.int64)),
    ]
    return pa.RecordBatch.from_arrays(made, schema=SCHEMA)


def _received_at(batch: JournalBatch, rows: Numbers) -> Numbers:
    times: Numbers = batch.columns.column("received_at").cast(pa.int64()).to_numpy()[rows]
    return times.astype("<i8", copy=False)


def _binary(values: npt.NDArray[Any], offsets: Numbers) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)
