"""Packed references: none is lost, all of a key come to one task, and in order."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.model.event import Unsequenced
from app.model.message import PhysicalMessage
from app.pipeline.references import shuffle
from app.pipeline.references.message_references import (
    Header,
    MessageEvent,
    Reference,
    ReferenceKind,
    RepeatedHeader,
    SequencedParts,
    to_batch,
)
from app.pipeline.references.shuffle import packed, unpacked
from app.testing.reference_passes import all_references, journalled
from tests.support import mixed_journal

MADE: list[Callable[..., Reference]] = [
    lambda source, key, at: SequencedParts(source, key, at, (1,), (2,), 3),
    lambda source, key, at: MessageEvent(source, key, at, (1,), (2,), Unsequenced(b"k", (1,), 1)),
    lambda source, key, at: RepeatedHeader(source, key, at, (1,), (2,), 3),
    lambda source, key, at: Header(source, key, at, (1,), (2,), PhysicalMessage("a", "any")),
]
REFERENCES = st.builds(
    lambda source, key, position, made: made(source, key, position),
    st.sampled_from(["", "a", "é"]),
    st.sampled_from([b"", b"k", b"l" * 16, b"m" * 24]) | st.binary(max_size=24),
    st.integers(0, 1 << 50),
    st.sampled_from(MADE),
)


def by_partition(found: Sequence[pa.RecordBatch]) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
    rows = pa.Table.from_batches(found)
    for number in sorted(set(rows["position"].to_pylist())):
        yield number, rows.filter(pa.compute.equal(rows["position"], number)).to_batches()


@pytest.mark.parametrize("size", [1, 300, shuffle.PACKED_BYTES])
@given(sent=st.lists(st.lists(REFERENCES, max_size=20), max_size=6), partitions=st.integers(1, 5))
def test_any_references(size: int, sent: list[list[Reference]], partitions: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(shuffle, "PACKED_BYTES", size)
        patched.setattr(shuffle, "ROWS_AT_ONCE", 7)
        found = list(packed((to_batch(some) for some in sent), partitions))
        everything = [each for some in sent for each in some]
        headers = [each for batch in found for each in batch.to_pylist() if each["kind"] != ReferenceKind.PACKED]
        assert len(headers) == sum(isinstance(each, Header) for each in everything)
        packs = [batch.filter(pa.compute.equal(batch["kind"], int(ReferenceKind.PACKED))) for batch in found]
        keys: dict[tuple[str, bytes], int] = {}
        rows = []
        for number, some in by_partition(packs) if packs else ():
            assert 0 <= number < partitions
            read = [row for batch in unpacked(some) for row in batch.to_pylist()]
            assert read == sorted(read, key=lambda row: (row["source"], row["key"]))
            assert all(keys.setdefault((row["source"], row["key"]), number) == number for row in read if row["key"])
            rows += read
        others = [row for some in sent for row in to_batch(some).to_pylist() if row["kind"] != ReferenceKind.HEADER]
        assert sorted(rows, key=repr) == sorted(others, key=repr)


def test_references_of_a_journal(tmp_path: Path) -> None:
    archive = journalled(tmp_path, mixed_journal.traffic(Random(2), 4, 30_000))
    sent = to_batch([each for each in all_references(archive) if not isinstance(each, Header)])
    read = [row for batch in unpacked(packed(iter([sent]), 1)) for row in batch.to_pylist()]
    assert sorted(read, key=repr) == sorted(sent.to_pylist(), key=repr) != []


def test_nothing_to_unpack() -> None:
    assert sum(map(len, unpacked([]))) == 0
