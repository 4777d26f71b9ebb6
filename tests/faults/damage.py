"""Damage to files: changed, cut and deleted bytes, and the attachments that it may affect.

Arrow's own reader finds batches and bodies in a journal segment, since a segment is an Arrow stream.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import pyarrow as pa

from tests.faults.ledger import Ledger

BLOCK = 4096
Range = tuple[int, int]


class Row(NamedTuple):
    """A message in a segment: the place of its batch, the end of the batch's head, and the bytes of its body."""

    correl_id: bytes
    batch: Range
    head_end: int
    body: Range


WrittenRows = dict[tuple[int, int], Row]
"""The messages of a segment, by the start of their batch and by their row."""


def read(segment: Path, written: WrittenRows) -> None:
    """Enter the messages of a segment that can be read; entries from when it was intact stay."""
    file = pa.py_buffer(segment.read_bytes())
    source = pa.BufferReader(file)
    try:
        messages = pa.ipc.MessageReader.open_stream(source)
        schema = pa.ipc.read_schema(messages.read_next_message())
        start = source.tell()
        while True:
            batch = pa.ipc.read_record_batch(messages.read_next_message(), schema)
            for number, row in enumerate(_rows(batch, (start, source.tell()), file.address)):
                written.setdefault((start, number), row)
            start = source.tell()
    except (StopIteration, pa.ArrowException, OSError, ValueError):
        return


def _rows(batch: pa.RecordBatch, place: Range, address: int) -> Iterator[Row]:
    column = batch.column("body")
    _, offsets, data = column.buffers()
    ends = memoryview(offsets).cast("q")[: len(batch) + 1]
    begin = data.address - address if data is not None and data.size else place[1]
    for number, correl_id in enumerate(batch.column("correl_id").to_pylist()):
        yield Row(correl_id, place, begin, (begin + ends[number], begin + ends[number + 1]))


def exposed(written: WrittenRows, damaged: list[Range], ledger: Ledger) -> set[bytes]:
    """Return the attachments that damage to these bytes of a segment may cost.

    Damage to a body costs its message, damage to a batch's head all its messages.
    """
    found: set[bytes] = set()
    for row in written.values():
        for first, end in damaged:
            by_head = row.batch[0] < end and first < row.head_end
            if by_head or (row.body[0] < end and first < row.body[1]):
                found |= ledger.about(row.correl_id)
    return found


# --- kinds of damage: each returns the bytes that it will change, and a function that does it ------------------------

Plan = tuple[list[Range], Callable[[], None]]


def flipped_bits(path: Path, random: Random) -> Plan:
    places = [random.randrange(path.stat().st_size) for _ in range(random.randint(1, 3))]

    def flip() -> None:
        with path.open("r+b") as file:
            for at in places:
                file.seek(at)
                byte = file.read(1)[0]
                file.seek(at)
                file.write(bytes([byte ^ 1 << random.randrange(8)]))

    return [(at, at + 1) for at in places], flip


def zeroed_block(path: Path, random: Random) -> Plan:
    size = path.stat().st_size
    first = random.randrange((size + BLOCK - 1) // BLOCK) * BLOCK
    end = min(size, first + BLOCK)

    def zero() -> None:
        with path.open("r+b") as file:
            file.seek(first)
            file.write(bytes(end - first))

    return [(first, end)], zero


def cut_off(path: Path, random: Random) -> Plan:
    size = path.stat().st_size
    kept = random.randrange(size)

    def cut() -> None:
        with path.open("r+b") as file:
            file.truncate(kept)

    return [(kept, size)], cut


def deleted(path: Path, random: Random) -> Plan:
    return [(0, path.stat().st_size)], path.unlink


DAMAGE = {"flipped": flipped_bits, "zeroed": zeroed_block, "cut": cut_off, "deleted": deleted}
