"""The checksums of stored content's blocks."""

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from time import sleep

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.object_store.local_objects import LocalObjects
from app.codecs.block_checksums import BLOCK, BlockChecksums, are_complete, checked
from app.model.errors import DamagedError
from app.service.content import compared_blocks
from app.service.content.compared_blocks import ComparedBlocks
from app.service.content.stored_content import FilePiece, StoredContent
from app.testing.waiting import until
from tests.support.length import examples

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


class SentContent:
    """The object `sent` as a client would get it: pieces of its file are read when they would be sent."""

    def __init__(self, store: LocalObjects) -> None:
        self.store, self.compared = store, ComparedBlocks()
        with store.create("sent") as target:
            target.write(DATA)
        self.path = Path(store.local_path("sent") or "")
        sleep(0.05)  # a file is compared each time while it may be changed in the same moment

    def read(self, first: int, end: int) -> tuple[bytes, int]:
        """Return bytes [first, end), and how many of them are pieces of the file."""
        content = StoredContent(self.store, "sent", len(DATA), checksums(DATA, BLOCK))
        found, from_file = [], 0
        for piece in content.sendable(self.compared, first, end - first):
            if isinstance(piece, FilePiece):
                found.append(os.pread(piece.file.fileno(), len(piece), piece.start))
                from_file += len(piece)
            else:
                found.append(bytes(piece))
        return b"".join(found), from_file

    def is_piece(self, first: int, end: int) -> bool:
        """Tell whether all these bytes are pieces of the file. They may be not, if it has left memory meanwhile."""
        data, from_file = self.read(first, end)
        assert data == DATA[first:end]
        return from_file == end - first


@pytest.fixture
def sent(tmp_path: Path) -> SentContent:
    return SentContent(LocalObjects(tmp_path))


def test_what_was_compared_need_not_be_read_to_be_sent(sent: SentContent) -> None:
    edge = st.one_of(st.integers(0, len(DATA)), st.sampled_from([BLOCK, 2 * BLOCK, 3 * BLOCK]))

    @settings(max_examples=examples(30), deadline=None)
    @given(edges=st.tuples(edge, edge))
    def check(edges: tuple[int, int]) -> None:
        first, end = sorted(edges)
        assert sent.read(first, end)[0] == DATA[first:end]
        if end - first >= 256 << 10:
            until(lambda: sent.is_piece(first, end))
        else:
            assert sent.read(first, end) == (DATA[first:end], 0)

    check()


def test_pieces_of_a_file_stay_small_enough_to_be_looked_at_again(tmp_path: Path) -> None:
    store, data = LocalObjects(tmp_path), bytes(10 * BLOCK)
    with store.create("large") as target:
        target.write(data)
    sleep(0.05)
    content, compared = StoredContent(store, "large", len(data), checksums(data, BLOCK)), ComparedBlocks()

    def sizes() -> list[int]:
        pieces = content.sendable(compared, 0, len(data) - 5)
        return [len(piece) for piece in pieces if isinstance(piece, FilePiece)]

    until(lambda: sizes() == [4 * BLOCK, 4 * BLOCK, 2 * BLOCK - 5])


@pytest.mark.parametrize("at", [0, BLOCK - 1, 2 * BLOCK, len(DATA) - 1])
def test_a_file_that_was_changed_is_compared_again(sent: SentContent, at: int) -> None:
    for _ in range(2):
        sent.read(0, len(DATA))
    with sent.path.open("r+b") as file:
        file.seek(at)
        file.write(bytes([DATA[at] ^ 1]))
    with pytest.raises(DamagedError, match="do not match their checksum") as raised:
        sent.read(0, len(DATA))
    assert raised.value.name == "sent"
    block = at // BLOCK
    for number in {0, 1, 2} - {block}:
        first = number * BLOCK
        assert sent.read(first, first + BLOCK) == (DATA[first : first + BLOCK], 0)


def test_a_file_that_is_changed_while_it_is_sent_is_compared_again(sent: SentContent) -> None:
    until(lambda: sent.is_piece(0, BLOCK))
    content = StoredContent(sent.store, "sent", len(DATA), checksums(DATA, BLOCK))
    pieces = content.sendable(sent.compared, 0, len(DATA))
    assert isinstance(next(pieces), FilePiece)
    assert memoryview(DATA)[BLOCK : 2 * BLOCK] == next(pieces)
    with sent.path.open("r+b") as file:
        file.seek(3 * BLOCK)
        file.write(bytes([DATA[3 * BLOCK] ^ 1]))
    with pytest.raises(DamagedError):
        list(pieces)


def test_another_object_of_the_name_is_compared(sent: SentContent) -> None:
    for _ in range(2):
        sent.read(0, len(DATA))
    with sent.store.create("sent") as target:
        target.write(DATA)
    assert sent.read(0, len(DATA)) == (DATA, 0)


def test_what_has_left_memory_is_compared_again(sent: SentContent) -> None:
    for _ in range(2):
        sent.read(0, len(DATA))
    with sent.path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    data, from_file = sent.read(0, len(DATA))  # the system reads ahead, so that later blocks are in memory again
    assert data == DATA
    assert from_file <= len(DATA) - BLOCK


def test_blocks_are_compared_again_after_a_while(sent: SentContent, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(compared_blocks, "monotonic", lambda: now)
    sent.read(0, BLOCK)
    now = 599.0
    until(lambda: sent.is_piece(0, len(DATA)))
    now = 600.0
    assert sent.read(0, len(DATA)) == (DATA, 0)
    until(lambda: sent.is_piece(0, len(DATA)))


def test_the_blocks_of_the_files_used_last_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compared_blocks, "FILES", 2)
    compared = ComparedBlocks()
    for version in ((1,), (2,), (1,), (3,)):
        compared.add(version, 7)
    assert [compared.has((each,), 7) for each in (1, 2, 3)] == [True, False, True]
    assert not compared.has((1,), 6)
    assert not compared.has((), 7)
