"""References on their way to the task that assembles their keys: for Spark, very many of them are one row.

Spark moves rows of references at the cost of more processor time than assembly itself takes. So a task divides its
references by key into partitions and packs each partition's (`PackedReferences`). The task of a partition unpacks and
sorts them, all in memory. There are as many partitions as that allows.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.pipeline.references.message_references import SCHEMA, PackedReferences, ReferenceKind, to_batch

PACKED_BYTES = 64 << 10
"""The largest size of packed references, in bytes, unless one reference is larger: a thousand of them come to a task
together."""

HELD_BYTES = 16 << 20
"""The largest size of the references, in bytes, that a task holds before it packs them."""

KEYS = pa.schema([SCHEMA.field(name) for name in ("source", "key")])

ROWS_AT_ONCE = 16_384
"""The number of sorted references in a record batch."""


def packed(batches: Iterable[pa.RecordBatch], partitions: int) -> Iterator[pa.RecordBatch]:
    """Yield packed references by partition. Headers stay as they are: they are still to be read, and go elsewhere."""
    most = min(PACKED_BYTES * partitions, HELD_BYTES)
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        is_header = pc.equal(batch.column("kind"), int(ReferenceKind.HEADER))
        if headers := is_header.true_count:
            yield batch.filter(is_header)
        others = batch.filter(pc.invert(is_header)) if headers else batch
        held.append(others)
        size += others.nbytes
        if size >= most:
            yield _packed(held, partitions)
            held, size = [], 0
    if held:
        yield _packed(held, partitions)


def packed_keys(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the sources and keys of packed references, each of them once a batch; references without a key have
    none."""
    for batch in batches:
        packs = batch.filter(pc.equal(batch.column("kind"), int(ReferenceKind.PACKED))).column("detail")
        found = [pa.ipc.read_record_batch(pack.as_buffer(), SCHEMA).select(KEYS.names) for pack in packs]
        rows = pa.Table.from_batches(found, KEYS).group_by(KEYS.names).aggregate([])
        yield from rows.filter(pc.not_equal(rows.column("key"), b"")).combine_chunks().to_batches()


def unpacked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield all references in packed ones, sorted by source and key."""
    packs = (pack.as_buffer() for batch in batches for pack in batch.column("detail"))
    found = pa.Table.from_batches((pa.ipc.read_record_batch(pack, SCHEMA) for pack in packs), SCHEMA).combine_chunks()
    order = pc.sort_indices(found, [("source", "ascending"), ("key", "ascending")])
    yield from found.take(order).combine_chunks().to_batches(ROWS_AT_ONCE)


def _packed(batches: Sequence[pa.RecordBatch], partitions: int) -> pa.RecordBatch:
    rows = pa.concat_batches(batches)
    positions, keys = rows.column("position").to_pylist(), rows.column("key").to_pylist()
    # References without a key may go anywhere.
    hashes = [crc32(key) if key else at for key, at in zip(keys, positions, strict=True)]
    numbers = np.array(hashes, np.int64) % partitions
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(np.bincount(numbers, minlength=partitions)).tolist()
    rows = rows.take(pa.array(order))
    found = []
    for number, (begin, end) in enumerate(pairwise([0, *ends])):
        some = rows.slice(begin, end - begin)
        pieces = -(-some.nbytes // PACKED_BYTES) or 1
        step = -(-len(some) // pieces) or 1
        packs = [some.slice(at, step).serialize().to_pybytes() for at in range(0, len(some), step)]
        found += [PackedReferences("", b"", number, (), (), pack) for pack in packs]
    return to_batch(found)
