"""The checksums of stored content's blocks."""

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.object_store.local_objects import LocalObjects
from app.model.errors import DamagedError
from app.service.content.block_checksums import BLOCK, BlockChecksums, are_complete, checked
from app.service.content.stored_content import StoredContent

DATA = Random(1).randbytes(3 * BLOCK + 12_345)


def cut(data: bytes, *pieces: int) -> Iterator[memoryview]:
    at = 0
    while at < len(data):
        for piece in pieces:
            yield memoryview(data)[at : at + piece]
            at += piece


def checksums(data: bytes, *pieces: int) -> bytes:
    found = BlockChecksums()
    for piece in cut(data, *pieces):
        found.update(piece)
    return found.packed()


def test_a_checksum_is_the_known_one() -> None:
    assert checksums(b"123456789", 4) == 0xE3069283.to_bytes(4, "little")  # the check value of CRC-32C (RFC 3720)
    assert checksums(b"", 1) == b""


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, len(DATA)])
def test_there_is_one_a_block(size: int) -> None:
    found = checksums(DATA[:size], 100_000, 1 << 21)
    assert len(found) == 4 * -(-size // BLOCK)
    assert found == b"".join(checksums(DATA[at : min(at + BLOCK, size)], BLOCK) for at in range(0, size, BLOCK))
    assert are_complete(found, size)
    assert not are_complete(found + b"....", size)
    assert not are_complete(None, size)


@given(pieces=st.lists(st.integers(60_000, 3 << 20), min_size=1, max_size=4))
def test_pieces_of_any_size_become_blocks(pieces: list[int]) -> None:
    blocks = [*checked(cut(DATA, *pieces), 0, checksums(DATA, *pieces))]
    assert b"".join(blocks) == DATA
    assert [len(block) for block in blocks] == [BLOCK, BLOCK, BLOCK, 12_345]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> LocalObjects:
    store = LocalObjects(tmp_path_factory.mktemp("objects"))
    with store.create("sound") as target:
        target.write(DATA)
    for block in range(4):
        rotten = bytearray(DATA)
        rotten[block * BLOCK + 77] ^= 0x20
        with store.create(f"rotten{block}") as target:
            target.write(rotten)
    return store


@given(first=st.integers(0, len(DATA)), length=st.integers(0, len(DATA)), rotten=st.integers(0, 3))
def test_a_range_is_as_written_or_damaged(first: int, length: int, rotten: int, store: LocalObjects) -> None:
    length = min(length, len(DATA) - first)
    expected = DATA[first : first + length]
    sums = checksums(DATA, BLOCK)
    assert b"".join(StoredContent(store, "sound", len(DATA), sums).read(first, length)) == expected
    damaged = StoredContent(store, f"rotten{rotten}", len(DATA), sums).read(first, length)
    if length and first // BLOCK <= rotten < -(-(first + length) // BLOCK):
        with pytest.raises(DamagedError, match=f"from byte {rotten * BLOCK:,} on"):
            b"".join(damaged)
    else:
        assert b"".join(damaged) == expected
