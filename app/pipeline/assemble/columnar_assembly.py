"""Assembly by columns of attachments and messages that came as most do: exactly once, and whole.

A plain attachment has its claim, its count, and runs of parts that came in the order of their sequence numbers. A
plain message has two references: its header and then its application message. Their outcomes follow from the columns,
without the assembly machine, and are equal to the machine's. Every other key goes to the machine
(`app.pipeline.assemble.assemble_key`).
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from app.assembly.collecting import Identification
from app.assembly.header_checks import address_of, message_address
from app.assembly.interpretation import answered
from app.assembly.machine import AssemblyLimits, plausible_counts
from app.codecs.sas.attachment_messages import read_counts
from app.model.attachment import AttachmentState
from app.model.identity import attachment_id
from app.model.records import AttachmentRecord, PartRun
from app.pipeline.assemble.assemble_key import NOT_FETCHED, KeyOutcome, assemble_news, by_key
from app.pipeline.references.message_references import (
    SCHEMA,
    UNSEQUENCED,
    ReferenceKind,
    from_batch,
    unpacked_answer,
    unpacked_claim,
    unpacked_message,
)
from app.tables.quality import Increment, hour_of

Rows = npt.NDArray[np.int64]


def outcomes(batches: Iterable[pa.RecordBatch], known: int | None, limits: AssemblyLimits) -> Iterator[KeyOutcome]:
    """Yield the outcomes of references, which are sorted by source and key. They equal the outcomes of `assemble_news`
    for each key."""
    for rows in whole_keys(batches):
        rest, starts = np.ones(len(rows), np.bool_), _starts(rows)
        attachments = _Attachments.of(rows, starts, known)
        plain = () if attachments is None else _attachments(rows, attachments, limits)
        for outcome, taken in chain(plain, _messages(rows, starts, known)):
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


# --- attachments ------------------------------------------------------------------------------------------------------


class _Attachments(NamedTuple):
    """The rows of plain attachments: the rows of all `parts`, in order, of the `claims` and of the `counts`.

    The parts of attachment n begin at index `begins[n]` of `parts`. `firsts`, `lengths` and `positions` have a number
    for each row of parts, `ends` where its numbers in `sizes` and `times` end.
    """

    parts: Rows
    begins: Rows
    claims: Rows
    counts: Rows
    firsts: Rows
    lengths: Rows
    positions: Rows
    ends: Rows
    sizes: npt.NDArray[np.int32]
    times: Rows

    @classmethod
    def of(cls, rows: pa.RecordBatch, starts: Rows, known: int | None) -> "_Attachments | None":
        """Find the attachments of which all rows are after the position `known`; None if there are none."""
        kinds, positions = rows.column("kind").to_numpy(), rows.column("position").to_numpy()
        firsts, ends = rows.column("first").to_numpy(), _ends(rows.column("sizes"), 4)
        lengths = np.diff(ends, prepend=0)
        heights = np.diff(np.append(starts, len(rows)))
        group = np.repeat(np.arange(len(starts)), heights)
        order = np.lexsort((positions, kinds, group))  # parts by position, then the claim, then the count
        is_part = kinds[order] == ReferenceKind.PARTS
        parts_in_row = np.where(is_part, lengths[order], 0)
        earlier = np.cumsum(parts_in_row) - parts_in_row
        continues = firsts[order] == earlier - np.repeat(earlier[starts], heights) + 1
        is_plain = (heights > 2) & np.logical_and.reduceat(continues | ~is_part, starts)
        for kind, number in ((ReferenceKind.PARTS, heights - 2), (ReferenceKind.CLAIM, 1), (ReferenceKind.COUNT, 1)):
            is_plain &= np.add.reduceat(kinds == kind, starts, dtype=np.int64) == number
        if known is not None:
            is_plain &= np.minimum.reduceat(positions, starts) > known
        if not is_plain.any():
            return None
        behind_last = (starts + heights)[is_plain]
        runs = heights[is_plain] - 2
        parts = order[is_part & np.repeat(is_plain, heights)]
        sizes, own_ends = _numbers(rows, "sizes", "<i4", parts)
        return cls(
            parts,
            np.cumsum(runs) - runs,
            order[behind_last - 2],
            order[behind_last - 1],
            firsts[parts],
            lengths[parts],
            positions[parts],
            own_ends,
            sizes,
            _numbers(rows, "received_at", "<i8", parts)[0],
        )


def _attachments(
    rows: pa.RecordBatch, found: _Attachments, limits: AssemblyLimits
) -> Iterator[tuple[KeyOutcome, list[int]]]:
    positions = rows.column("position").to_numpy()
    begins, claims, counts = found.begins, found.claims, found.counts
    last_rows = np.append(begins[1:], len(found.parts)) - 1
    first_numbers = (found.ends - found.lengths)[begins]
    times = [_numbers(rows, "received_at", "<i8", each)[0] for each in (claims, counts)]
    starts = np.stack([found.positions[begins], positions[claims], positions[counts]])
    started_at = np.stack([found.times[first_numbers], *times])
    last_parts = found.positions[last_rows] + found.lengths[last_rows] - 1
    columns = (
        np.stack([claims, counts], axis=1).tolist(),
        begins.tolist(),
        (last_rows + 1).tolist(),
        _values(rows, "source", claims),
        _values(rows, "key", claims),
        _values(rows, "detail", claims),
        _values(rows, "detail", counts),
        np.add.reduceat(found.lengths, begins).tolist(),
        np.add.reduceat(found.sizes, first_numbers, dtype=np.int64).tolist(),
        starts.min(axis=0).tolist(),
        (starts.min(axis=0) < starts[1]).tolist(),
        np.maximum(starts[1:].max(axis=0), last_parts).tolist(),
        started_at[starts.argmin(axis=0), np.arange(len(begins))].tolist(),
        np.maximum(started_at[1:].max(axis=0), np.maximum.reduceat(found.times, first_numbers)).tolist(),
    )
    all_parts = found.parts.tolist()
    all_runs = [*map(PartRun, found.firsts.tolist(), found.lengths.tolist(), found.positions.tolist())]
    for each in zip(*columns, strict=True):
        ends, at, behind, source, key, claim, count, length, size, begin, has_waited, end, begun_at, ended_at = each
        message, ordinal, dialects, trace_parent, kind, *definition = unpacked_claim(claim)
        if _least_count(count, dialects, limits.parts) != length:
            continue
        qualifier_1, qualifier_2, description, minor_version, major_version, warnings = definition[1:]
        runs = tuple(all_runs[at:behind])
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
            warnings=warnings,
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
        identified = (Identification(record.id, message, False),) if has_waited else ()
        yield KeyOutcome(begin, end, quality, record, runs, runs, identified=identified), ends + all_parts[at:behind]


@lru_cache(maxsize=1024)
def _least_count(body: bytes, dialects: int, most: int) -> int | None:
    """Return the smallest number that a body can have as a count; None if it is none. If this is the number of parts,
    the machine takes it, in whatever order the messages came."""
    return next(iter(plausible_counts(read_counts(body), dialects, most)), None)


# --- messages ---------------------------------------------------------------------------------------------------------


def _messages(rows: pa.RecordBatch, starts: Rows, known: int | None) -> Iterator[tuple[KeyOutcome, list[int]]]:
    """Yield the outcomes of plain messages, each with its two rows, which are after the position `known`."""
    kinds, positions = rows.column("kind").to_numpy(), rows.column("position").to_numpy()
    heights = np.diff(np.append(starts, len(rows)))
    lines = starts[heights == 2, None] + np.arange(2)
    lines = np.take_along_axis(lines, np.argsort(kinds[lines], axis=1), axis=1)
    addresses, others = kinds[lines].T
    is_plain = (addresses == ReferenceKind.MESSAGE) & np.isin(others, UNSEQUENCED)
    if known is not None:
        is_plain &= (positions[lines] > known).all(axis=1)
    lines = lines[is_plain]
    headers, applications = lines.T
    columns = (
        lines.tolist(),
        _values(rows, "key", headers),
        _values(rows, "detail", headers),
        (kinds[applications] == ReferenceKind.ANSWER).tolist(),
        _values(rows, "detail", applications),
        positions[lines].tolist(),
        _numbers(rows, "received_at", "<i8", headers)[0].tolist(),
    )
    for taken, key, detail, is_held, answer, (begin, end), received_at in zip(*columns, strict=True):
        message = unpacked_message(detail)
        if begin > end or message_address(message) != address_of((message.source, key)):
            continue
        quality = Increment(message.source, hour_of(received_at), 2)
        if is_held:
            body, format_, ccsid = unpacked_answer(answer)
            found = answered(message, NOT_FETCHED._replace(body=body, format=format_, ccsid=ccsid), end)
            yield KeyOutcome(begin, end, quality, messages=(found,)), taken
        else:
            to_fetch = ((message.id, end),)
            yield (
                KeyOutcome(begin, end, quality, messages=(answered(message, NOT_FETCHED, end),), applications=to_fetch),
                taken,
            )


# --- columns ----------------------------------------------------------------------------------------------------------


def _values(rows: pa.RecordBatch, name: str, wanted: Rows) -> list[Any]:
    values: list[Any] = rows.column(name).take(pa.array(wanted)).to_pylist()
    return values


def _numbers(rows: pa.RecordBatch, name: str, kind: str, wanted: Rows) -> tuple[npt.NDArray[Any], Rows]:
    """Return the numbers that these rows have in a column, and where the numbers of each row end."""
    column = rows.column(name).take(pa.array(wanted))
    return np.frombuffer(column.buffers()[2] or b"", kind), _ends(column, np.dtype(kind).itemsize)


def _ends(column: pa.Array, size: int) -> Rows:
    """Return where the values of each row end in a column of numbers of `size` bytes."""
    offsets = np.frombuffer(column.buffers()[1], "<i4", len(column) + 1, 4 * column.offset)
    ends: Rows = (offsets[1:] - offsets[0]).astype(np.int64) // size
    return ends
