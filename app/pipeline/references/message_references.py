"""References: the meaning of a journal batch's physical messages for assembly, and their positions, without bodies.

Sequenced parts of one attachment that lie in consecutive rows with consecutive numbers are one reference. Their framing
finds them in the columns of the whole batch. All other messages (a header, a count, a part of a group, a message with a
wrong framing) are read one by one. A header is only carried along: the headers of a source are read later, in order. So
are small application messages, whose bodies would otherwise be read once more.
"""

import pickle
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import fields
from enum import IntEnum
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from app.assembly.header_checks import Claim
from app.codecs.sas import dialect
from app.codecs.sas.attachment_messages import read_counts
from app.framing.descriptors import descriptors_of_batch
from app.framing.message_events import is_header, read_event
from app.framing.part_runs import columns_of
from app.framing.protocol import KEY_SIZE, NO_COLUMNS, Columns
from app.model.attachment import AttachmentDefinition, AttachmentKind
from app.model.errors import DamagedError, InvalidInputError
from app.model.event import Announced, Pieces, Unsequenced
from app.model.message import PhysicalMessage, Position
from app.model.records import DAMAGED_MESSAGE
from app.pipeline.references.lazy_bodies import JournalBatch, Numbers
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
        pa.field("what", pa.int8(), nullable=False),
        pa.field("first", pa.int64(), nullable=False),
        pa.field("sizes", pa.binary(), nullable=False),
        pa.field("received_at", pa.binary(), nullable=False),
        pa.field("detail", pa.binary(), nullable=False),
    ]
)
"""References by column. `key` is the correlid of an attachment or group, or empty. `position` is the packed position of
the first message. `sizes` (int32) and `received_at` (int64, µs) hold a number for each message, in the machine's byte
order. `first` is the sequence number of the first of them. `detail` is a pickled object that depends on `what`: the job
that reads it has written it."""


class What(IntEnum):
    """The kind of a reference, with the content of its `detail`."""

    PARTS = 1
    """Sequenced parts; without detail."""
    EVENT = 2
    """Another message of an attachment or group; its event."""
    HEADER = 3
    """An attachment header; its message, whose body is small."""
    REFUSED = 4
    """A message without a valid meaning; code, row, byte and reason."""
    ADDRESS = 5
    """A message that an accepted header begins; its record."""
    CLAIM = 6
    """An entry of an accepted header, after its message's; `app.assembly.header_checks.Claim`."""
    REPEATED = 7
    """A repeated header; the packed position of the first."""
    DIALECTS = 8
    """The dialects that the headers of a source have in common; their mask."""
    COUNT = 9
    """An unsequenced message; its body, not pickled, if that is small enough for a count. `from_row` makes it an
    `EVENT`."""
    ANSWER = 10
    """An unsequenced message that is too large for a count, and not larger than `LONGEST_ANSWER`; its body, its format
    and its CCSID. `from_row` makes it an `EVENT`."""
    PACKED = 11
    """Many references (`app.pipeline.references.shuffle`); a record batch of them in Arrow's IPC format, without its
    schema and not pickled. `position` is the number of their partition."""


class Reference(NamedTuple):
    """One row of `SCHEMA`, its detail as an object."""

    source: str
    key: bytes
    position: int
    what: int
    first: int = 0
    sizes: Sequence[int] = ()
    received_at: Sequence[int] = ()
    detail: Any = None


# --- rows -------------------------------------------------------------------------------------------------------------


def to_batch(references: Sequence[Reference]) -> pa.RecordBatch:
    """Return references as rows."""
    columns: dict[str, Sequence[Any]] = (
        dict(zip(Reference._fields, zip(*references, strict=True), strict=True))
        if references
        else dict.fromkeys(Reference._fields, ())
    )
    packed = {
        **columns,
        "sizes": [np.asarray(sizes, "<i4").tobytes() for sizes in columns["sizes"]],
        "received_at": [np.asarray(times, "<i8").tobytes() for times in columns["received_at"]],
        "detail": [*map(_packed, columns["what"], columns["detail"])],
    }
    return pa.RecordBatch.from_arrays([pa.array(packed[field.name], field.type) for field in SCHEMA], schema=SCHEMA)


def from_batch(batch: pa.RecordBatch) -> Iterator[Reference]:
    """Return the references of rows."""
    return map(from_row, zip(*(batch.column(name).to_pylist() for name in SCHEMA.names), strict=True))


def from_row(row: Iterable[Any]) -> Reference:
    """Return the reference of one row, its values in the order of `SCHEMA`."""
    source, key, position, what, first, sizes, received_at, detail = row
    lengths, times = memoryview(sizes).cast("i").tolist(), memoryview(received_at).cast("q").tolist()
    if what in (What.COUNT, What.ANSWER):
        event = Unsequenced(key, read_counts(detail) if what == What.COUNT else (), lengths[0])
        return Reference(source, key, position, What.EVENT, first, lengths, times, event)
    return Reference(source, key, position, what, first, lengths, times, _unpacked(what, detail))


def _packed(what: int, detail: Any) -> bytes:
    """Return a detail for its row. There are as many claims as attachments, and a tuple of plain values is packed and
    unpacked in an eighth of the time of their classes."""
    if detail is None:
        return b""
    if what == What.PACKED:
        packed: bytes = detail
        return packed
    if what == What.CLAIM:
        message, ordinal, definition, dialects, trace_parent = detail
        detail = (message, ordinal, dialects, trace_parent, int(definition.kind), *_DEFINITION(definition))
    return pickle.dumps(detail)


def _unpacked(what: int, packed: bytes) -> Any:
    if not packed:
        return None
    if what != What.CLAIM:
        return unpacked_detail(packed)
    message, ordinal, dialects, trace_parent, *definition = unpacked_claim(packed)
    return Claim(message, ordinal, AttachmentDefinition(*definition), dialects, trace_parent)


def unpacked_detail(packed: bytes) -> Any:
    """Return the detail of a row that has one, unless it is a claim or a count."""
    return pickle.loads(packed)  # noqa: S301 - written by the same job


def unpacked_claim(packed: bytes) -> tuple[Any, ...]:
    """Return the fields of a claim: message, ordinal, dialects, trace parent, then those of its definition."""
    message, ordinal, dialects, trace_parent, kind, *more = unpacked_detail(packed)
    return message, ordinal, dialects, trace_parent, _KINDS[kind], *more


# --- journal batches --------------------------------------------------------------------------------------------------


def references(batch: pa.RecordBatch, first_position: int) -> pa.RecordBatch:
    """Return references to the messages of a journal batch, as rows of `SCHEMA`.

    `first_position` is the packed position of the first message.
    """
    whole = JournalBatch.whole(batch)
    return _references(whole, first_position, _columns(whole.columns))


def checked_references_at(archive: JournalArchive, place: Position) -> pa.RecordBatch:
    """Return references to the messages of the batch at a place, of which all bodies are read. Raises KeyError and
    DamagedError as `JournalArchive.record_batch`."""
    return references(archive.record_batch(place.segment, place.batch), place.pack())


def references_at(archive: JournalArchive, place: Position) -> pa.RecordBatch:
    """Return references to the messages of the batch at a place, without reading the bodies of sequenced parts.

    They are those of `checked_references_at`, unless one of these bodies is damaged. Raises the same errors.
    """
    with suppress(DamagedError):
        batch = JournalBatch.unread(archive, place)
        columns = _columns(batch.columns)
        if batch.sizes.sum() > WORTH_BYTES * (len(batch.sizes) - len(columns.parts)):
            return _references(batch, place.pack(), columns)
    return checked_references_at(archive, place)


def _references(batch: JournalBatch, first_position: int, columns: Columns) -> pa.RecordBatch:
    found = [_parts(batch, first_position, columns)]
    if len(columns.bare):
        found += _unsequenced(batch, first_position, columns.bare, columns.bare_keys)
    others = np.flatnonzero(~_marked(len(batch.sizes), columns.parts, columns.bare))
    if len(others):
        found.append(_read_rows(batch, first_position, others))
    return pa.concat_batches(found)


def lost_batch(first_position: int, why: str) -> Reference:
    """Return the reference to a journal batch whose messages cannot be read back; nobody knows their sources."""
    return Reference("", b"", first_position, What.REFUSED, detail=(DAMAGED_MESSAGE, "", -1, why))


def _read_rows(batch: JournalBatch, first_position: int, rows: Numbers) -> pa.RecordBatch:
    messages = zip((first_position + rows).tolist(), batch.messages(rows), strict=True)
    return to_batch([reference for position, message in messages for reference in _read(position, message)])


def _read(position: int, message: PhysicalMessage) -> list[Reference]:
    """Return references to the parts, the header or the fault in a message; there is usually one."""
    sizes, received_at = (len(message.body),), (message.received_at,)
    source = message.source
    if is_header(message):
        whole = message._replace(body=bytes(message.body))
        return [Reference(source, b"", position, What.HEADER, 0, sizes, received_at, whole)]
    try:
        event = read_event(message, dialect.ALL)
    except InvalidInputError as error:
        refusal = (error.code, error.row, error.at, error.why)
        return [Reference(source, b"", position, What.REFUSED, 0, sizes, received_at, refusal)]
    assert not isinstance(event, Announced)
    refused = event.refused if isinstance(event, Pieces) else None
    parts = event.parts if isinstance(event, Pieces) else (event,)
    return [
        *(Reference(source, part.correl_id, position, What.EVENT, 0, sizes, received_at, part) for part in parts),
        *([] if refused is None else [Reference(source, b"", position, What.REFUSED, 0, sizes, received_at, refused)]),
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


def _marked(count: int, *rows: Numbers) -> npt.NDArray[np.bool_]:
    marked = np.zeros(count, np.bool_)
    for some in rows:
        marked[some] = True
    return marked


def _unsequenced(
    batch: JournalBatch, first_position: int, rows: Numbers, keys: npt.NDArray[np.uint8]
) -> Iterator[pa.RecordBatch]:
    """Yield references to unsequenced messages."""
    sizes = batch.sizes[rows].astype("<i4")
    are_answers = (sizes > LONGEST_COUNT) & (sizes <= LONGEST_ANSWER)
    for what, some in ((What.COUNT, ~are_answers), (What.ANSWER, are_answers)):
        taken, count = rows[some], int(some.sum())
        if not count:
            continue
        each = np.arange(count + 1)
        received_at = _received_at(batch, taken)
        made = [
            batch.columns.column("source").take(pa.array(taken)),
            _binary(keys[some], each * KEY_SIZE),
            pa.array(first_position + taken),
            pa.array(np.full(count, what, np.int8)),
            pa.array(np.zeros(count, np.int64)),
            _binary(sizes[some], each * sizes.itemsize),
            _binary(received_at, each * received_at.itemsize),
            pa.array(_counts(batch, taken) if what is What.COUNT else _answers(batch, taken), pa.binary()),
        ]
        yield pa.RecordBatch.from_arrays(made, schema=SCHEMA)


def _counts(batch: JournalBatch, rows: Numbers) -> list[bytes | memoryview]:
    """Return the bodies of messages that may be counts; nothing for larger ones."""
    small = batch.sizes[rows] <= LONGEST_COUNT
    bodies = iter(batch.bodies(rows[small]))
    return [next(bodies) if is_small else b"" for is_small in small.tolist()]


def _answers(batch: JournalBatch, rows: Numbers) -> list[bytes]:
    formats, ccsids = (batch.columns.column(name).take(pa.array(rows)).to_pylist() for name in ("format", "ccsid"))
    bodies = map(bytes, batch.bodies(rows))
    return [pickle.dumps(answer) for answer in zip(bodies, formats, ccsids, strict=True)]


def _parts(batch: JournalBatch, first_position: int, columns: Columns) -> pa.RecordBatch:
    """Return references to sequenced parts, one for each run of them."""
    rows, sequences, keys = columns.parts, columns.sequences, np.ascontiguousarray(columns.keys)
    begins = _run_starts(rows, sequences, keys, _numbered_sources(batch.columns)[rows])
    ends = np.append(begins, len(rows))
    sizes, received_at = batch.sizes[rows].astype("<i4"), _received_at(batch, rows)
    firsts = rows[begins]
    count = len(begins)
    made = [
        batch.columns.column("source").take(pa.array(firsts)),
        _binary(keys[begins], np.arange(count + 1) * KEY_SIZE),
        pa.array(first_position + firsts),
        pa.array(np.full(count, What.PARTS, np.int8)),
        pa.array(sequences[begins]),
        _binary(sizes, ends * sizes.itemsize),
        _binary(received_at, ends * received_at.itemsize),
        _binary(np.zeros(0, np.uint8), np.zeros(count + 1, np.int64)),
    ]
    return pa.RecordBatch.from_arrays(made, schema=SCHEMA)


def _run_starts(rows: Numbers, sequences: Numbers, keys: npt.NDArray[np.uint8], sources: Numbers) -> Numbers:
    """Return the indices of the parts that do not continue the part before them."""
    if not len(rows):
        return np.zeros(0, np.int64)
    halves = keys.view(np.uint64)
    continues = (
        (np.diff(rows) == 1)
        & (np.diff(sequences) == 1)
        & (np.diff(sources) == 0)
        & (halves[1:] == halves[:-1]).all(axis=1)
    )
    return np.flatnonzero(np.concatenate(([True], ~continues)))


def _numbered_sources(batch: pa.RecordBatch) -> Numbers:
    numbers: Numbers = batch.column("source").dictionary_encode().indices.to_numpy().astype(np.int64)
    return numbers


def _received_at(batch: JournalBatch, rows: Numbers) -> Numbers:
    times: Numbers = batch.columns.column("received_at").cast(pa.int64()).to_numpy()[rows]
    return times.astype("<i8", copy=False)


def _binary(values: npt.NDArray[Any], offsets: Numbers) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)
