"""The content of an attachment that is not complete: what its leading parts have, up to the first gap."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from app.assembly import groups, ranges
from app.assembly.coverage import Runs
from app.assembly.part_places import Parts, gaps
from app.framing.registry import framing
from app.model.errors import InvalidInputError, NotArchived
from app.model.message import Position
from app.model.records import AttachmentRecord
from app.service.content.archived import readable_start
from app.service.context import ServiceContext
from app.service.finishing.complete_content import ReceivedParts
from app.service.finishing.contained_files import content_pieces
from app.service.finishing.media_types import stored_type
from app.service.finishing.stored_parts import missing_ranges
from app.wire import WireError

MOST_BYTES: Final = 16 << 20
"""The most bytes of a file in one answer."""
MOST_BODIES: Final = 64 << 20
"""The most bytes of bodies whose rows are read."""
MISSING_SHOWN: Final = 100


class NothingYet(Exception):
    """No content can be read yet, for the reason that the text says."""


class Leading(NamedTuple):
    """The journal positions of the leading parts, up to the first gap, and what is missing. If it `is_cut`, they end
    before a part that is there, but that this process cannot read yet. Of byte ranges there are the parts' `keys`."""

    positions: Sequence[Position]
    missing: "Missing"
    is_cut: bool
    keys: Sequence[int] = ()


class Missing(NamedTuple):
    """Closed ranges of missing sequence numbers, at most MISSING_SHOWN. While the number of parts is not known, all
    from `onwards` on may be missing, too. So may they if another process has parts that it has not archived yet."""

    ranges: list[tuple[int, int]]
    onwards: int | None


class LeadingBytes(NamedTuple):
    """Bytes of a file from `first` on. `has_more` says that the leading parts have more bytes behind them."""

    first: int
    data: bytes
    content_type: str
    has_more: bool
    missing: Missing


class LeadingRows(NamedTuple):
    """The first rows of a data set. `has_more` says that there may be more in the parts that have come."""

    table: pa.Table
    has_more: bool
    missing: Missing


def leading_bytes(record: AttachmentRecord, context: ServiceContext, first: int, most: int) -> LeadingBytes:
    """Return at most `most` bytes of a file, from byte `first` on, as far as its leading parts have them.

    All bytes before them are read, too. Raises NothingYet, KeyError if the parts are gone, DamagedError, and
    NotArchived if this process can read none of these bytes yet.
    """
    leading = _leading(record, context)
    received = _received(record, leading.positions, context, leading.keys)
    pieces: list[bytes] = []
    at, end = 0, first + most
    for piece in _pieces(record, received, context):
        begin, behind = max(first - at, 0), min(end - at, len(piece))
        if begin < behind:
            pieces.append(bytes(piece[begin:behind]))
        at += len(piece)
        if at > end:
            break
    if not pieces and leading.is_cut:
        raise NotArchived(f"the part with byte {first} is not in the archive of the journal yet")
    content_type = stored_type(record.kind, received.first)
    return LeadingBytes(first, b"".join(pieces), content_type, at > end, leading.missing)


def leading_rows(record: AttachmentRecord, context: ServiceContext, most: int) -> LeadingRows:
    """Return at most `most` of the first rows of a data set, as far as its leading parts have them.

    Raises NothingYet, KeyError if the parts are gone, DamagedError, and NotArchived if this process can read none of
    them yet.
    """
    leading = _leading(record, context)
    sizes = accumulate(extent.length for extent in context.journal.extents(leading.positions))
    kept = sum(1 for size in sizes if size <= MOST_BODIES)
    received = _received(record, leading.positions[: max(kept, 1)], context)
    found: pa.Table | None = None
    has_more = leading.is_cut or kept < len(leading.positions)

    def store(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        nonlocal found, has_more
        taken: list[pa.RecordBatch] = []
        rows = 0
        for batch in batches:
            if rows == most:
                has_more = True
                break
            taken.append(batch.slice(0, most - rows))
            has_more = has_more or batch.num_rows > most - rows
            rows += taken[-1].num_rows
        found = pa.Table.from_batches(taken, taken[0].schema if taken else schema)
        return rows

    try:
        facts = framing(received.first.framing).leading_rows(record, received, store)
    except (InvalidInputError, WireError) as error:
        raise NothingYet(f"no rows can be read yet: {error}") from error
    if facts is None or found is None:
        raise NothingYet(f"rows of the framing {received.first.framing} can be read only when all parts have come")
    return LeadingRows(found, has_more, leading.missing)


def _leading(record: AttachmentRecord, context: ServiceContext) -> Leading:
    """Return the leading parts. Raises NothingYet if there are none."""
    if record.kind is None:
        raise NothingYet("its header has not come")
    if record.group is None:
        leading = _numbered(record, context)
    else:
        leading = (_ranged if record.group.is_of_ranges else _grouped)(record, context)
    if not leading.positions:
        raise NothingYet("its first part has not come")
    return leading


def _numbered(record: AttachmentRecord, context: ServiceContext) -> Leading:
    runs = Runs.unpack(context.catalog.packed_part_runs(record.id)).in_order()
    order = np.argsort(runs.firsts, kind="stable")
    columns = zip(*(column[order].tolist() for column in runs), strict=True)
    positions: dict[int, int] = {}
    following = 1
    for first, length, start in columns:
        if first > following:
            break
        positions.update(zip(range(first, first + length), range(start, start + length), strict=True))
        following = max(following, first + length)
    found = [Position.unpack(positions[number]) for number in range(1, following)]
    readable = readable_start(found, context)
    if len(readable) < len(found):
        return Leading(readable, Missing([], len(readable) + 1), is_cut=True)
    numbers = zip(runs.firsts[order].tolist(), runs.lengths[order].tolist(), strict=True)
    onwards = runs.highest + 1 if record.parts_expected is None else None
    missing = Missing(gaps(numbers, record.parts_expected, MISSING_SHOWN), onwards)
    return Leading(found, missing, is_cut=False)


def _grouped(record: AttachmentRecord, context: ServiceContext) -> Leading:
    parts = Parts(context.catalog.part_runs(record.id))
    places = list(groups.in_order(parts))
    readable = readable_start([Position.unpack(at) for _, at in places], context)
    message, offset = 1, 0
    positions: list[Position] = []
    for (key, at), extent in zip(places, context.journal.extents(readable), strict=False):
        place = groups.GroupPlace.of(key)
        if (place.message, place.offset) != (message, offset):
            break
        positions.append(Position.unpack(at))
        units = extent.length if place.units is None else place.units
        message, offset = (message + 1, 0) if place.is_last else (message, offset + units)
    if len(readable) < len(places):
        return Leading(positions, Missing([], message), is_cut=len(positions) == len(readable))
    is_known = record.group is not None and record.group.last is not None
    onwards = None if is_known else max((groups.GroupPlace.of(key).message for key, _ in places), default=0) + 1
    ranges = missing_ranges(record, context.catalog, context.journal, MISSING_SHOWN)
    return Leading(positions, Missing(ranges, onwards), is_cut=False)


def _ranged(record: AttachmentRecord, context: ServiceContext) -> Leading:
    found = list(ranges.leading(Parts(context.catalog.part_runs(record.id))))
    positions = readable_start([Position.unpack(at) for _, at in found], context)
    is_known = record.group is not None and record.group.last is not None
    missing = missing_ranges(record, context.catalog, context.journal, MISSING_SHOWN)
    onwards = None if is_known else record.bytes_received + 1
    keys = [key for key, _ in found[: len(positions)]]
    return Leading(positions, Missing(missing, onwards), len(positions) < len(found), keys)


def _received(
    record: AttachmentRecord, positions: Sequence[Position], context: ServiceContext, keys: Sequence[int] = ()
) -> ReceivedParts:
    first = context.described(context.journal.read(positions[0]))
    return ReceivedParts(record, first, positions, context, keys=keys)


def _pieces(record: AttachmentRecord, received: ReceivedParts, context: ServiceContext) -> Iterator[bytes | memoryview]:
    """Yield the content in the leading parts of a file. Raises NothingYet if not even its first bytes can be read."""
    first = received.first
    try:
        file = framing(first.framing).leading_file(record, received)
    except (InvalidInputError, WireError) as error:
        raise NothingYet(f"its content cannot be read yet: {error}") from error
    line_end = context.line_end(first) if file.of_lines else b""
    try:
        yield from content_pieces(file, line_end, [])
    except (InvalidInputError, WireError):
        return  # what is behind cannot be read
