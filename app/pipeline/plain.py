"""Assembly by columns of attachments and messages that came as most do: exactly once, and whole.

A plain attachment has three references: its claim, one run of all its parts, and its count. A plain message has two:
its header and then its application message. Their outcomes follow from the columns, without the assembly machine, and
are equal to the machine's. Every other key goes to the machine (`app.pipeline.core`).
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from app.assembly.headers import address_of, message_address
from app.assembly.interpretation import answered
from app.assembly.machine import Limits, plausible_counts
from app.codecs.sas.attachment import read_counts
from app.model.attachment import AttachmentState
from app.model.identity import attachment_id
from app.model.records import AttachmentRecord, PartRun
from app.pipeline.core import NOT_FETCHED, Outcome, assemble_news, by_key
from app.pipeline.references import SCHEMA, What, from_batch, unpacked_claim, unpacked_detail
from app.tables.quality import Increment, hour_of

_ATTACHMENT = np.array([What.PARTS, What.CLAIM, What.COUNT])
_MESSAGE = np.array([What.ADDRESS, What.COUNT])
"""The kinds of the references under a plain key, ascending."""

Rows = npt.NDArray[np.int64]


def outcomes(batches: Iterable[pa.RecordBatch], known: int | None, limits: Limits) -> Iterator[Outcome]:
    """Yield the outcomes of references, which are sorted by source and key. They are those of `assemble_news` for each
    key."""
    for rows in whole_keys(batches):
        rest = np.ones(len(rows), np.bool_)
        for outcome, taken in _plain_outcomes(rows, known, limits):
            rest[taken] = False
            yield outcome
        others = rows if rest.all() else rows.filter(pa.array(rest))
        for key, some in by_key(from_batch(others)):
            yield from assemble_news(key, some, known, limits)


def whole_keys(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield rows that are sorted by source and key so that no key is in two batches. Rows without a key are not
    gathered: a source may have any number of them."""
    held: list[pa.RecordBatch] = []
    for batch in filter(len, batches):
        if held and _key(batch, 0) != _key(held[0], 0):
            yield _joined(held)
            held = []
        begin = int(_starts(batch)[-1]) if _key(batch, len(batch) - 1)[1] else len(batch)
        if begin:
            yield _joined([*held, batch.slice(0, begin)])
            held = []
        if begin < len(batch):
            held.append(batch.slice(begin))
    if held:
        yield _joined(held)


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.concat_batches([batch.cast(SCHEMA) for batch in batches])


def _key(batch: pa.RecordBatch, row: int) -> tuple[str, bytes]:
    return batch.column("source")[row].as_py(), batch.column("key")[row].as_py()


def _starts(rows: pa.RecordBatch) -> Rows:
    """Return the first row of each key."""
    changes = np.zeros(len(rows) - 1, np.bool_)
    for name in ("source", "key"):
        column = rows.column(name)
        changes |= pc.not_equal(column.slice(1), column.slice(0, len(column) - 1)).to_numpy(zero_copy_only=False)
    return np.flatnonzero(np.concatenate(([True], changes)))


def _plain_outcomes(rows: pa.RecordBatch, known: int | None, limits: Limits) -> Iterator[tuple[Outcome, list[int]]]:
    """Yield the outcomes of plain attachments and messages, each with the rows that it includes."""
    starts = _starts(rows)
    yield from _attachments(rows, _keys_of(rows, starts, _ATTACHMENT, known), limits)
    yield from _messages(rows, _keys_of(rows, starts, _MESSAGE, known))


def _keys_of(rows: pa.RecordBatch, starts: Rows, kinds: npt.NDArray[Any], known: int | None) -> Rows:
    """Return the rows of the keys that have exactly these kinds of references, all of them after the position `known`:
    a line for each key, in the order of `kinds`."""
    what, positions = rows.column("what").to_numpy(), rows.column("position").to_numpy()
    sizes = np.diff(np.append(starts, len(rows)))
    lines = starts[sizes == len(kinds), None] + np.arange(len(kinds))
    lines = np.take_along_axis(lines, np.argsort(what[lines], axis=1), axis=1)
    is_plain = (what[lines] == kinds).all(axis=1)
    if known is not None:
        is_plain &= (positions[lines] > known).all(axis=1)
    found: Rows = lines[is_plain]
    return found


# --- attachments ------------------------------------------------------------------------------------------------------


def _attachments(rows: pa.RecordBatch, lines: Rows, limits: Limits) -> Iterator[tuple[Outcome, list[int]]]:
    lines = lines[rows.column("first").to_numpy()[lines[:, 0]] == 1]
    if not len(lines):
        return
    parts, claims, counts = lines.T
    sizes, ends = _numbers(rows, "sizes", "<i4", parts)
    times, _ = _numbers(rows, "received_at", "<i8", parts)
    begins = np.append(0, ends[:-1])
    lengths = ends - begins
    positions = rows.column("position").to_numpy()[lines]
    one_time = np.stack([times[begins], *(_numbers(rows, "received_at", "<i8", each)[0] for each in (claims, counts))])
    first = positions.argmin(axis=1)
    columns = (
        lines.tolist(),
        _values(rows, "source", claims),
        _values(rows, "key", claims),
        _values(rows, "detail", claims),
        _values(rows, "detail", counts),
        lengths.tolist(),
        np.add.reduceat(sizes, begins, dtype=np.int64).tolist(),
        positions[:, 0].tolist(),
        positions.min(axis=1).tolist(),
        np.maximum(positions.max(axis=1), positions[:, 0] + lengths - 1).tolist(),
        one_time[first, np.arange(len(first))].tolist(),
        np.maximum(one_time[1:].max(axis=0), np.maximum.reduceat(times, begins)).tolist(),
    )
    for taken, source, key, claim, count, length, size, position, begin, end, begun_at, ended_at in zip(
        *columns, strict=True
    ):
        message, ordinal, dialects, trace_parent, kind, *definition = unpacked_claim(claim)
        if _least_count(count, dialects, limits.parts) != length:
            continue
        qualifier_1, qualifier_2, description, minor_version, major_version = definition[1:]
        run = (PartRun(1, length, position),)
        record = AttachmentRecord(
            id=attachment_id(source, key),
            source=source,
            correl_id=key,
            state=AttachmentState.COMPLETE,
            message_id=message,
            ordinal=ordinal,
            kind=kind,
            qualifier_1=qualifier_1,
            qualifier_2=qualifier_2,
            description=description,
            minor_version=minor_version,
            major_version=major_version,
            dialects=dialects,
            parts_expected=length,
            parts_received=length,
            bytes_received=size,
            first_position=begin,
            last_position=end,
            first_received_at=begun_at,
            last_received_at=ended_at,
            completed_at=ended_at,
            trace_parent=trace_parent,
        )
        took = (ended_at - begun_at) / 1e6
        quality = Increment(source, hour_of(begun_at), length + 1, 0, 0, 1, 1, 0, 0, took, took)
        yield Outcome(begin, end, quality, record, run, run), taken


@lru_cache(maxsize=1024)
def _least_count(body: bytes, dialects: int, most: int) -> int | None:
    """Return the smallest number that a body can have as a count; None if it is none. If this is the number of parts,
    the machine takes it, in whatever order the messages came."""
    return next(iter(plausible_counts(read_counts(body), dialects, most)), None)


# --- messages ---------------------------------------------------------------------------------------------------------


def _messages(rows: pa.RecordBatch, lines: Rows) -> Iterator[tuple[Outcome, list[int]]]:
    headers = lines[:, 0]
    positions = rows.column("position").to_numpy()[lines]
    columns = (
        lines.tolist(),
        _values(rows, "key", headers),
        _values(rows, "detail", headers),
        positions.tolist(),
        _numbers(rows, "received_at", "<i8", headers)[0].tolist(),
    )
    for taken, key, detail, (begin, end), received_at in zip(*columns, strict=True):
        message = unpacked_detail(detail)
        if begin > end or message_address(message) != address_of((message.source, key)):
            continue
        quality = Increment(message.source, hour_of(received_at), 2)
        found = (answered(message, NOT_FETCHED),)
        yield Outcome(begin, end, quality, messages=found, applications=((message.id, end),)), taken


# --- columns ----------------------------------------------------------------------------------------------------------


def _values(rows: pa.RecordBatch, name: str, wanted: Rows) -> list[Any]:
    values: list[Any] = rows.column(name).take(pa.array(wanted)).to_pylist()
    return values


def _numbers(rows: pa.RecordBatch, name: str, kind: str, wanted: Rows) -> tuple[npt.NDArray[Any], Rows]:
    """Return the numbers that these rows have in a column, and where those of each row end."""
    column = rows.column(name).take(pa.array(wanted))
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, "<i4", len(column), 4) // np.dtype(kind).itemsize
    return np.frombuffer(data or b"", kind), ends.astype(np.int64)
