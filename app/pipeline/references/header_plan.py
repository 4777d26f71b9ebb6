"""Which headers of a batch can be read side by side, and which need their order.

A header depends on those before it in two ways: its dialect on the dialects that its source has used
(`app.codecs.sas.dialect.narrow`), and its acceptance on what they have announced (`app.assembly.header_checks`). Both
can be known in advance for nearly all headers:

- The task that reads a segment reads its headers as well, each in the dialects that the ones before it in this segment
  have in common. If none of them could be read in two ways or contradicts the others, all of them are read in the same
  way whatever their source has used before, as long as it agrees in one dialect. So a mask for each source and segment
  is enough to tell the dialects with which each segment begins.
- A header that announces what no other header of the batch announces, and nothing that the catalog has, contradicts
  none.

All others are read in the order of their source: those that share a key with another header, and all headers of a
source whose dialects do not agree.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from operator import and_, itemgetter
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.assembly.collecting import Key
from app.assembly.machine import Assembly
from app.codecs.sas import dialect
from app.codecs.sas.correlid import KEY_SIZE
from app.framing.message_events import read_event
from app.model.errors import InvalidInputError
from app.model.event import Announced
from app.model.message import PhysicalMessage, Position
from app.pipeline.references.message_references import (
    SCHEMA,
    Header,
    ReferenceKind,
    from_batch,
)

SEGMENTS = pa.schema(
    [
        pa.field("source", pa.string(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("dialects", pa.int64(), nullable=False),
    ]
)
"""The headers of a source in a segment, or in a piece of it: the packed position of the first one, and the dialects
that all of them have in common, 0 if they need their order."""

POSITIONS = pa.schema([pa.field("position", pa.int64(), nullable=False)])


_KEYS = pa.schema([SCHEMA.field(name) for name in ("source", "key", "position")])


class HeaderPlan(NamedTuple):
    """For each source, the packed positions of the first headers of its segments, and the dialects before each of them.

    The headers at `contested` positions, and all of the `ordered` sources, are read in order.
    """

    starts: Mapping[str, Sequence[int]]
    dialects: Mapping[str, Sequence[int]]
    ordered: frozenset[str]
    contested: frozenset[int] = frozenset()

    @classmethod
    def of(cls, segments: pa.Table, known: Mapping[str, int], contested: frozenset[int]) -> "HeaderPlan":
        """Make a plan from rows of `SEGMENTS`, and from the dialects that are `known` of the sources."""
        starts: dict[str, Sequence[int]] = {}
        before: dict[str, Sequence[int]] = {}
        rows = sorted(zip(*(segments.column(name).to_pylist() for name in SEGMENTS.names), strict=True))
        ordered: set[str] = set()
        for source, some in groupby(rows, itemgetter(0)):
            _, positions, found = zip(*some, strict=True)
            starts[source] = positions
            *before[source], common = accumulate(found, and_, initial=known.get(source) or dialect.ALL)
            if not common:
                ordered.add(source)
        return cls(starts, before, frozenset(ordered), contested)

    @property
    def needs_order(self) -> bool:
        return bool(self.ordered or self.contested)

    def is_free(self, source: str, position: int) -> bool:
        """Tell whether a header can be read by itself."""
        return position not in self.contested and source not in self.ordered

    def segment(self, source: str, position: int) -> tuple[int, int]:
        """Return the position of the first header of a header's segment, and the dialects before it."""
        at = bisect_right(self.starts[source], position) - 1
        return self.starts[source][at], self.dialects[source][at]


Described = Callable[[PhysicalMessage], PhysicalMessage]
Configured = Callable[[str], int | None]


def with_keys(
    batches: Iterable[pa.RecordBatch], described: Described, configured: Configured
) -> Iterator[pa.RecordBatch]:
    """Yield the same references, the headers among them with what they announce, and with their dialects.

    `described` adds a source's configured values to a message, `configured` returns its configured dialects.
    """
    common: dict[tuple[str, int], int] = {}
    for batch in batches:
        is_header = pc.equal(batch.column("kind"), int(ReferenceKind.HEADER))
        if not is_header.true_count:
            yield batch
            continue
        yield batch.filter(pc.invert(is_header))
        headers = batch.filter(is_header)
        keys: list[bytes] = []
        dialects: list[int] = []
        for header in from_batch(headers):
            assert isinstance(header, Header)
            chosen, place = configured(header.source), (header.source, Position.unpack(header.position).segment)
            known = chosen or common.get(place, dialect.ALL)
            message = described(header.message)
            try:
                event = read_event(message, known)
            except InvalidInputError:  # it tells nothing of the dialects, and is refused by itself
                keys.append(b"")
                dialects.append(dialect.ALL)
                continue
            assert isinstance(event, Announced)
            keys.append(b"".join(key for _, key in Assembly.keys(header.source, event)))
            is_sure = chosen is not None or _is_sure(message, event, known)
            dialects.append((dialect.ALL if chosen is not None else event.dialects) if is_sure else 0)
            common[place] = dialect.narrow(known, event.dialects)
        for name, values in (("key", keys), ("first", dialects)):
            at = SCHEMA.get_field_index(name)
            headers = headers.set_column(at, SCHEMA.field(at), pa.array(values, SCHEMA.field(at).type))
        yield headers


def _is_sure(message: PhysicalMessage, event: Announced, known: int) -> bool:
    """Tell whether a header that was read in the `known` dialects agrees with them, and has no other meaning in one."""
    others = known & ~event.dialects
    if not event.dialects & known or not others:
        return bool(event.dialects & known)
    other = read_event(message, others)
    assert isinstance(other, Announced)
    return not other.dialects & others


def segments_of_headers(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `SEGMENTS` of headers, which come in the order of each segment."""
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in ("source", "position", "first"))
        for source, position, dialects in zip(*columns, strict=True):
            place = source, Position.unpack(position).segment
            first, common = found.get(place, (position, dialect.ALL))
            found[place] = first, common & dialects
    rows = [(source, first, common) for (source, _), (first, common) in found.items()]
    if rows:
        columns_of_rows = zip(*rows, strict=True)
        yield pa.RecordBatch.from_pydict(dict(zip(SEGMENTS.names, columns_of_rows, strict=True)), SEGMENTS)


def keys_of_headers(headers: pa.RecordBatch) -> pa.RecordBatch:
    """Return a row of the kind HEADER_KEY for each key that headers announce."""
    found = headers.column("key").to_pylist()
    rows = pa.array(np.repeat(np.arange(len(found)), [len(keys) // KEY_SIZE for keys in found]))
    joined = b"".join(found)
    columns = {name: headers.column(name).take(rows) for name in ("source", "position")}
    columns["key"] = pa.array([joined[at : at + KEY_SIZE] for at in range(0, len(joined), KEY_SIZE)], pa.binary())
    columns["kind"] = pa.repeat(pa.scalar(int(ReferenceKind.HEADER_KEY), pa.int8()), len(rows))
    columns["first"] = pa.repeat(pa.scalar(0, pa.int64()), len(rows))
    nothing = pa.repeat(pa.scalar(b"", pa.binary()), len(rows))
    return pa.RecordBatch.from_arrays([columns.get(name, nothing) for name in SCHEMA.names], schema=SCHEMA)


def contested_positions(batches: Iterable[pa.RecordBatch], known: Collection[Key]) -> Iterator[pa.RecordBatch]:
    """Yield the positions of headers that announce what others announce, or what is known, as rows of `POSITIONS`.

    The rows of one key come together.
    """
    place = ["source", "key"]
    rows = pa.Table.from_batches((batch.select([*place, "position"]) for batch in batches), _KEYS)
    groups = rows.group_by(place).aggregate([("position", "min"), ("position", "max")])
    several = groups.filter(pc.less(groups.column("position_min"), groups.column("position_max")))
    contested = rows.join(several.select(place), place, join_type="left semi").column("position")
    yield from pa.table([contested.unique()], schema=POSITIONS).to_batches()
    if known:
        keys = zip(rows.column("source").to_pylist(), rows.column("key").to_pylist(), strict=True)
        is_known = np.fromiter((key in known for key in keys), np.bool_, len(rows))
        yield from pa.table(
            [rows.column("position").filter(pa.array(is_known)).unique()], schema=POSITIONS
        ).to_batches()


def in_order(batches: Iterable[pa.RecordBatch], plan: HeaderPlan) -> Iterator[pa.RecordBatch]:
    """Yield the headers that are to be read in order, each with the dialects before it, or 0 if all headers of its
    source are read in order."""
    common: dict[tuple[str, int], int] = {}
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in ("source", "position", "first"))
        chosen: list[int] = []
        before: list[int] = []
        for row, (source, position, dialects) in enumerate(zip(*columns, strict=True)):
            start, known = plan.segment(source, position)
            known = common.get((source, start), known)
            common[source, start] = known & dialects
            if not plan.is_free(source, position):
                chosen.append(row)
                before.append(0 if source in plan.ordered else known)
        if chosen:
            rows = batch.take(pa.array(chosen))
            at = rows.schema.get_field_index("first")
            yield rows.set_column(at, rows.schema.field(at), pa.array(before, pa.int64()))
