"""A journal batch -> references: what its physical messages mean to assembly, and where they are; never their bodies.

Sequenced parts of one attachment that lie in consecutive rows with consecutive numbers are one reference, found with
NumPy over the whole batch. All other messages (a header, a count, a part of a group, what breaks its framing) are read
one by one. Of a header there is only its place: headers of a source are read in order, later.
"""

import pickle
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from app.codecs.sas import correlid, dialect
from app.codecs.sas.words import HEADER_MSG_TYPE, SUBORDINATE_MSG_TYPE
from app.framing.reading import read_event
from app.model.errors import TheirError
from app.model.event import Announced
from app.model.message import PhysicalMessage

Numbers = npt.NDArray[np.int64]

_BLANK_SEQUENCE = int.from_bytes(b"    ", "big")

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
"""References by column. `key` is the correlid of an attachment or group, or empty; `position` the packed place of the
first message. `sizes` (int32) and `received_at` (int64, µs) hold a number a message, in the byte order of the machine;
`first` is the sequence number of the first of them. `detail` is what else there is to say, by `what`, pickled: it is
read by the same job that wrote it."""


class What(IntEnum):
    """What a reference refers to, and what its `detail` is."""

    PARTS = 1
    """sequenced parts; nothing"""
    EVENT = 2
    """another message of an attachment or group; its event"""
    HEADER = 3
    """an attachment header; nothing"""
    REFUSED = 4
    """a message that means nothing; code, row, byte and why"""
    ADDRESS = 5
    """a message that an accepted header begins; its record"""
    CLAIM = 6
    """an entry of an accepted header, behind its message's; `app.assembly.headers.Claim`"""
    REPEATED = 7
    """a header that came again; the packed place of the first"""
    DIALECTS = 8
    """the dialects that the headers of a source have in common; their mask"""


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
    """References as rows."""
    columns: dict[str, Sequence[Any]] = (
        dict(zip(Reference._fields, zip(*references, strict=True), strict=True))
        if references
        else dict.fromkeys(Reference._fields, ())
    )
    packed = {
        **columns,
        "sizes": [np.asarray(sizes, "<i4").tobytes() for sizes in columns["sizes"]],
        "received_at": [np.asarray(times, "<i8").tobytes() for times in columns["received_at"]],
        "detail": [b"" if detail is None else pickle.dumps(detail) for detail in columns["detail"]],
    }
    return pa.RecordBatch.from_arrays([pa.array(packed[field.name], field.type) for field in SCHEMA], schema=SCHEMA)


def from_batch(batch: pa.RecordBatch) -> Iterator[Reference]:
    """The references of rows."""
    return map(from_row, zip(*(batch.column(name).to_pylist() for name in SCHEMA.names), strict=True))


def from_row(row: Iterable[Any]) -> Reference:
    """The reference of one row, its values in the order of `SCHEMA`."""
    source, key, position, what, first, sizes, received_at, detail = row
    return Reference(
        source,
        key,
        position,
        what,
        first,
        memoryview(sizes).cast("i").tolist(),
        memoryview(received_at).cast("q").tolist(),
        pickle.loads(detail) if detail else None,  # noqa: S301 - written by the same job
    )


# --- journal batches --------------------------------------------------------------------------------------------------


def references(batch: pa.RecordBatch, first_position: int) -> pa.RecordBatch:
    """What the messages of a journal batch mean, as rows of `SCHEMA`; `first_position` is the packed place of the first
    of them."""
    parts, are_parts = _parts(batch, first_position)
    others = np.flatnonzero(~are_parts).tolist()
    if not others:
        return parts
    read = [_read(first_position + row, message) for row, message in zip(others, messages(batch, others), strict=True)]
    return pa.concat_batches([parts, to_batch(read)])


def header_references(batch: pa.RecordBatch, first_position: int) -> pa.RecordBatch:
    """The headers among the messages of a journal batch, as rows of `SCHEMA`."""
    rows = np.flatnonzero(_is_of(batch, HEADER_MSG_TYPE)).tolist()
    return to_batch(
        [_read(first_position + row, message) for row, message in zip(rows, messages(batch, rows), strict=True)]
    )


def other_references(batch: pa.RecordBatch, first_position: int) -> pa.RecordBatch:
    """As `references`, of all messages but headers."""
    read = references(batch, first_position)
    return read.filter(pc.not_equal(read.column("what"), int(What.HEADER)))


def messages(batch: pa.RecordBatch, rows: Sequence[int]) -> list[PhysicalMessage]:
    """The messages in these rows of a journal batch; their bodies are views of it."""
    offsets, bodies = _bodies(batch)
    values: dict[str, Sequence[Any]] = {"body": [bodies[offsets[row] : offsets[row + 1]] for row in rows]}
    wanted = pa.array(rows, pa.int64())
    for name in PhysicalMessage._fields:
        if name != "body":
            values[name] = _plain(batch.column(name).take(wanted))
    return list(map(PhysicalMessage._make, zip(*(values[name] for name in PhysicalMessage._fields), strict=True)))


def _read(position: int, message: PhysicalMessage) -> Reference:
    sizes, received_at = (len(message.body),), (message.received_at,)
    source = message.source
    if message.framing == "sas_queue" and message.msg_type == HEADER_MSG_TYPE:
        return Reference(source, b"", position, What.HEADER, 0, sizes, received_at)
    try:
        event = read_event(message, dialect.ALL)
    except TheirError as error:
        refusal = (error.code, error.row, error.at, error.why)
        return Reference(source, b"", position, What.REFUSED, 0, sizes, received_at, refusal)
    assert not isinstance(event, Announced)
    return Reference(source, event.correl_id, position, What.EVENT, 0, sizes, received_at, event)


def _parts(batch: pa.RecordBatch, first_position: int) -> tuple[pa.RecordBatch, npt.NDArray[np.bool_]]:
    """References to sequenced parts, and which rows those are."""
    starts, lengths = _places(batch.column("correl_id"))
    are_parts = _is_of(batch, SUBORDINATE_MSG_TYPE) & (lengths >= correlid.COMPARED_SIZE)
    rows = np.flatnonzero(are_parts)
    correl_ids = _correl_ids(batch.column("correl_id"), starts[rows])
    sequences = correl_ids[:, correlid.KEY_SIZE :].copy().view(">u4")[:, 0].astype(np.int64)
    numbered = (sequences != 0) & (sequences != _BLANK_SEQUENCE)
    are_parts[rows[~numbered]] = False
    rows, correl_ids, sequences = rows[numbered], correl_ids[numbered], sequences[numbered]
    keys = correl_ids[:, : correlid.KEY_SIZE].copy()
    begins = _run_starts(rows, sequences, keys, _numbered_sources(batch)[rows])
    ends = np.append(begins, len(rows))
    offsets, _ = _bodies(batch)
    sizes = np.diff(offsets)[rows].astype("<i4")
    received_at = batch.column("received_at").cast(pa.int64()).to_numpy()[rows].astype("<i8", copy=False)
    firsts = rows[begins]
    count = len(begins)
    columns = [
        batch.column("source").take(pa.array(firsts)),
        _binary(keys[begins], np.arange(count + 1) * correlid.KEY_SIZE),
        pa.array(first_position + firsts),
        pa.array(np.full(count, What.PARTS, np.int8)),
        pa.array(sequences[begins]),
        _binary(sizes, ends * sizes.itemsize),
        _binary(received_at, ends * received_at.itemsize),
        _binary(np.zeros(0, np.uint8), np.zeros(count + 1, np.int64)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA), are_parts


def _is_of(batch: pa.RecordBatch, msg_type: int) -> npt.NDArray[np.bool_]:
    """Which messages are of the framing `sas_queue` and of this type."""
    framed: npt.NDArray[np.bool_] = pc.equal(batch.column("framing"), "sas_queue").to_numpy(zero_copy_only=False)
    typed: npt.NDArray[np.bool_] = batch.column("msg_type").to_numpy() == msg_type
    return framed & typed


def _run_starts(rows: Numbers, sequences: Numbers, keys: npt.NDArray[np.uint8], sources: Numbers) -> Numbers:
    """Which parts do not continue the part before them."""
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


def _places(column: pa.Array) -> tuple[Numbers, Numbers]:
    """Where each value of a binary column begins in its data, and how long it is."""
    offsets = np.frombuffer(column.buffers()[1], "<i4", len(column) + 1, 4 * column.offset).astype(np.int64)
    return offsets[:-1], np.diff(offsets)


def _correl_ids(column: pa.Array, starts: Numbers) -> npt.NDArray[np.uint8]:
    """The first 20 bytes of the values that begin there, a row each."""
    data = column.buffers()[2]
    if data is None or not len(starts):
        return np.zeros((0, correlid.COMPARED_SIZE), np.uint8)
    picked: npt.NDArray[np.uint8] = np.frombuffer(data, np.uint8)[starts[:, None] + np.arange(correlid.COMPARED_SIZE)]
    return picked


def _bodies(batch: pa.RecordBatch) -> tuple[Numbers, memoryview]:
    """The offsets of the bodies, one more than there are, and the bytes that they count in."""
    column = batch.column("body")
    _, offsets, data = column.buffers()
    return np.frombuffer(offsets, "<i8", len(column) + 1, 8 * column.offset), memoryview(data or b"")


def _binary(values: npt.NDArray[Any], offsets: Numbers) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def _plain(column: pa.Array) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64()).fill_null(0)
    if pa.types.is_map(column.type):
        return [dict(pairs or ()) for pairs in column.to_pylist()]
    values: list[Any] = column.to_pylist()
    return values
