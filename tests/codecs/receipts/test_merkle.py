"""The Merkle tree against the published vectors of RFC 6962 and 9162, and against a tree that is written anew here."""

from contextlib import suppress
from hashlib import sha256
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.codecs.receipts import merkle
from app.codecs.receipts.merkle import ProofFailed, Tile

# Of the reference implementation of Certificate Transparency (cpp/merkletree/merkle_tree_test.cc).
LEAVES = [bytes.fromhex(each) for each in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657")] + [
    bytes(range(0x60, 0x70))
]
ROOTS = (
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)
A = "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7"
B = "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e"
C = "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4"
D = "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b"
E = "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0"
F = "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a"
INCLUSIONS = {(0, 8): [A, B, C], (5, 8): [D, E, ROOTS[3]], (2, 3): [ROOTS[1]], (1, 5): [ROOTS[0], B, D]}
CONSISTENCIES = {(1, 8): [A, B, C], (6, 8): [F, E, ROOTS[3]], (2, 5): [B, D], (1, 1): []}


def naive(entries: list[bytes]) -> bytes:
    """Return MTH of RFC 9162, 2.1.1, as it stands there."""
    if len(entries) < 2:
        return sha256(b"\0" + entries[0]).digest() if entries else sha256().digest()
    k = 1
    while 2 * k < len(entries):
        k *= 2
    return sha256(b"\1" + naive(entries[:k]) + naive(entries[k:])).digest()


def naive_path(m: int, entries: list[bytes]) -> list[bytes]:
    """Return PATH of RFC 9162, 2.1.3.1."""
    if len(entries) == 1:
        return []
    k = 1
    while 2 * k < len(entries):
        k *= 2
    if m < k:
        return [*naive_path(m, entries[:k]), naive(entries[k:])]
    return [*naive_path(m - k, entries[k:]), naive(entries[:k])]


def naive_proof(m: int, entries: list[bytes], is_known: bool = True) -> list[bytes]:
    """Return SUBPROOF of RFC 9162, 2.1.4.1."""
    if m == len(entries):
        return [] if is_known else [naive(entries)]
    k = 1
    while 2 * k < len(entries):
        k *= 2
    if m <= k:
        return [*naive_proof(m, entries[:k], is_known), naive(entries[k:])]
    return [*naive_proof(m - k, entries[k:], False), naive(entries[:k])]


class Log:
    """A log that grows by batches, in tiles."""

    def __init__(self, *batches: list[bytes]) -> None:
        self.size, self.tiles = 0, dict[Tile, bytes]()
        for batch in batches:
            known = {each: self.tiles[each] for each in merkle.tiles_to_change(self.size)}
            self.tiles |= merkle.appended(self.size, [*map(merkle.leaf_hash, batch)], known)
            self.size += len(batch)
        self.node = merkle.nodes_of(lambda level, number: self.tiles[level, number])


def test_published_vectors() -> None:
    log = Log(*([each] for each in LEAVES))
    assert [merkle.root(size, log.node).hex() for size in range(1, 9)] == [*ROOTS]
    assert merkle.root(0, log.node) == sha256().digest()
    for (index, size), path in INCLUSIONS.items():
        assert [each.hex() for each in merkle.inclusion_path(index, size, log.node)] == path
    for (older, newer), path in CONSISTENCIES.items():
        assert [each.hex() for each in merkle.consistency_path(older, newer, log.node)] == path


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 300), min_size=1, max_size=6), st.data())
def test_against_a_tree_written_anew(batches: list[int], data: st.DataObject) -> None:
    """Batches of any size give the same tree, its proofs are those of the RFC, and any other proof fails."""
    total = sum(batches)
    entries = [number.to_bytes(4, "big") for number in range(total)]
    cuts = [sum(batches[:at]) for at in range(len(batches) + 1)]
    log = Log(*(entries[begin:end] for begin, end in pairwise(cuts)))
    assert merkle.root(total, log.node) == naive(entries)
    if not total:
        return
    size = data.draw(st.integers(1, total))
    index, older = data.draw(st.integers(0, size - 1)), data.draw(st.integers(1, size))
    root, before = naive(entries[:size]), naive(entries[:older])
    assert merkle.root(size, log.node) == root

    path = merkle.inclusion_path(index, size, log.node)
    assert path == naive_path(index, entries[:size])
    leaf = merkle.leaf_hash(entries[index])
    assert merkle.root_of_inclusion(leaf, index, size, path) == root
    proof = merkle.consistency_path(older, size, log.node)
    assert proof == (naive_proof(older, entries[:size]) if older < size else [])
    merkle.check_consistency(older, before, size, root, proof)

    other = sha256(root).digest()
    for wrong in _changed(path, other):
        with suppress(ProofFailed):
            assert merkle.root_of_inclusion(leaf, index, size, wrong) != root
    assert merkle.root_of_inclusion(other, index, size, path) != root
    for wrong in _changed(proof, other):
        with pytest.raises(ProofFailed):
            merkle.check_consistency(older, before, size, root, wrong)
    for roots in ((other, root), (before, other)):
        with pytest.raises(ProofFailed):
            merkle.check_consistency(older, roots[0], size, roots[1], proof)


def _changed(path: list[bytes], other: bytes) -> list[list[bytes]]:
    replaced = [[*path[:at], other, *path[at + 1 :]] for at in range(len(path))]
    return [*replaced, [*path, other], *([path[:-1]] if path else []), [*path, b"short"]]


def test_a_proof_reads_few_tiles() -> None:
    log = Log([number.to_bytes(4, "big") for number in range(70_000)])
    read: set[Tile] = set()

    def tile(level: int, number: int) -> bytes:
        read.add((level, number))
        return log.tiles[level, number]

    path = merkle.inclusion_path(12_345, 70_000, merkle.nodes_of(tile))
    assert len(path) == 17
    assert len(read) <= 6
    assert sum(map(len, log.tiles.values())) < 70_000 * 32.2
