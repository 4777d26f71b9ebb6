"""The steps of a batch and of a stream that read headers: what each task does with its rows.

`app.pipeline.references.header_plan` says which headers need their order. All steps but `keys_of` get the rows of
headers alone. They do not depend on Spark.
"""

from collections.abc import Collection, Iterable, Iterator
from itertools import groupby, islice
from operator import attrgetter

import pyarrow as pa
import pyarrow.compute as pc

from app.assembly.collecting import Key
from app.codecs.sas import dialect
from app.model.errors import GatewayError
from app.model.message import Position
from app.pipeline.assemble.earlier_state import EarlierState
from app.pipeline.job.job import OpenJob
from app.pipeline.references import header_plan
from app.pipeline.references.header_pass import HeaderPass, Memory, Remembered
from app.pipeline.references.header_plan import HeaderPlan
from app.pipeline.references.message_references import Header, Reference, ReferenceKind, from_batch, to_batch
from app.pipeline.references.shuffle import KEYS, packed, packed_keys, unpacked
from app.service.finishing.stored_parts import messages_at

HEADERS_AT_ONCE = 1024
"""The number of headers whose messages are fetched together, and of references that are packed together."""


def keys_of(_opened: OpenJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the keys of references, as rows of `KEYS`: packed ones, and those that headers announce."""
    for batch in batches:
        yield from packed_keys([batch])
        headers = batch.filter(pc.equal(batch.column("kind"), int(ReferenceKind.HEADER)))
        yield header_plan.keys_of_headers(headers).select(KEYS.names)


def segments_of_headers(_opened: OpenJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return what the headers in a task's segments have in common, as rows of `header_plan.SEGMENTS`."""
    return header_plan.segments_of_headers(batches)


def keys_of_headers(
    _opened: OpenJob, batches: Iterable[pa.RecordBatch], *, partitions: int
) -> Iterator[pa.RecordBatch]:
    """Return the keys that headers announce, with their positions, packed by key."""
    return packed(map(header_plan.keys_of_headers, batches), partitions)


def contested_positions(
    _opened: OpenJob, batches: Iterable[pa.RecordBatch], *, known: Collection[Key]
) -> Iterator[pa.RecordBatch]:
    """Return the positions of headers that do not announce everything alone, from packed keys."""
    return header_plan.contested_positions(unpacked(batches), known)


def read_headers(
    opened: OpenJob, batches: Iterable[pa.RecordBatch], *, plan: HeaderPlan, partitions: int
) -> Iterator[pa.RecordBatch]:
    """Yield the references, packed, to the content of the headers that need no order."""

    def read() -> Iterator[Reference]:
        begun: dict[str, tuple[int, Remembered, HeaderPass]] = {}
        for header in _headers(batches):
            source = header.source
            start, known = plan.segment(source, header.position)
            if source not in begun or begun[source][0] != start:
                memory = Remembered(known)
                begun[source] = start, memory, _header_pass(opened, source, memory)
            _, memory, header_pass = begun[source]
            if plan.is_free(source, header.position):
                yield from header_pass.read(header.position, header.message)
            else:
                memory.keep_dialects((memory.dialects() or dialect.ALL) & header.dialects)

    return packed(_in_batches(read()), partitions)


def headers_in_order(
    _opened: OpenJob, batches: Iterable[pa.RecordBatch], *, plan: HeaderPlan
) -> Iterator[pa.RecordBatch]:
    """Return the headers that are to be read in order."""
    return header_plan.in_order(batches, plan)


def read_in_order(
    opened: OpenJob, batches: Iterable[pa.RecordBatch], *, earlier: EarlierState, partitions: int
) -> Iterator[pa.RecordBatch]:
    """Yield the references, packed, to the content of headers, which are sorted by source and position."""

    def read() -> Iterator[Reference]:
        for source, headers in groupby(_headers(batches), attrgetter("source")):
            memory = earlier.remembered(source)
            header_pass = _header_pass(opened, source, memory)
            for header in headers:
                if header.dialects:
                    memory.keep_dialects(header.dialects)
                yield from header_pass.read(header.position, header.message)

    return packed(_in_batches(read()), partitions)


def fetch_headers(opened: OpenJob, source: str, positions: Iterable[int], memory: Memory) -> Iterator[Reference]:
    """Yield references to the content of a source's headers at these packed positions, which ascend.

    Raises GatewayError when a header is no longer in the journal: without it, attachments would be assembled wrongly
    and the fault would stay unknown.
    """
    header_pass = _header_pass(opened, source, memory)
    coming = iter(positions)
    while some := list(islice(coming, HEADERS_AT_ONCE)):
        fetched = messages_at(opened.archive, some)
        for position in some:
            if (message := fetched.get(position)) is None:
                segment = Position.unpack(position).segment
                raise GatewayError(f"journal segment {segment} of {opened.job.journal} is gone")
            yield from header_pass.read(position, message)


def _header_pass(opened: OpenJob, source: str, memory: Memory) -> HeaderPass:
    job = opened.job
    return HeaderPass(memory, opened.stores.described, job.limits.attachments, job.configured_dialects(source))


def _headers(batches: Iterable[pa.RecordBatch]) -> Iterator[Header]:
    return (row for batch in batches for row in from_batch(batch) if isinstance(row, Header))


def _in_batches(references: Iterator[Reference]) -> Iterator[pa.RecordBatch]:
    while some := list(islice(references, HEADERS_AT_ONCE)):
        yield to_batch(some)
