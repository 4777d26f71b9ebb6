"""The Merkle tree of RFC 9162, section 2.1, with SHA-256: its root, and proofs of inclusion and of consistency.

A *node* (level, index) is the root of the complete subtree of the leaves index * 2^level to (index + 1) * 2^level - 1.
It never changes once all its leaves are there. All else is computed from nodes: the root of any tree size, and a proof
of either kind, take as many nodes as the tree is high.

Nodes are kept in *tiles*: tile (level, number) has up to 256 neighbouring nodes of the level 8 * `level`, the hashes
one behind the other. The first node of the next level of tiles is the root of the 256 nodes of a full tile. So a leaf
takes 32.1 bytes, a proof reads a tile for every eight levels of the tree, and appending changes only the last tile of
each level.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Final

HASH_BYTES: Final = 32
TILE_LEVELS: Final = 8
TILE_NODES: Final = 1 << TILE_LEVELS
MOST_LEAVES: Final = 1 << 62
"""The largest size of a tree that a proof may claim; one of these leaves a second needs 146 billion years."""

Tile = tuple[int, int]
"""The level of a tile, and its number on that level."""
Node = Callable[[int, int], bytes]
"""A function that returns the hash of a node, by its level and index."""


class ProofFailed(ValueError):
    """A proof that does not prove what it should."""


def leaf_hash(entry: bytes) -> bytes:
    """Return the hash of a leaf."""
    return sha256(b"\0" + entry).digest()


def pair_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of two neighbouring subtrees."""
    return sha256(b"\1" + left + right).digest()


# --- the tree, from its nodes -------------------------------------------------------------------------------------


def root(size: int, node: Node) -> bytes:
    """Return the root of the tree of the first `size` leaves."""
    return _subtree(0, size, node) if size else sha256().digest()


def inclusion_path(index: int, size: int, node: Node) -> list[bytes]:
    """Return the proof that a leaf is in the tree of the first `size` leaves: RFC 9162, 2.1.3.1."""
    if not 0 <= index < size:
        raise ValueError(f"leaf {index} is not in a tree of {size} leaves")
    begin, end, path = 0, size, []
    while end - begin > 1:
        middle = begin + _split(end - begin)
        if index < middle:
            path.append(_subtree(middle, end, node))
            end = middle
        else:
            path.append(_subtree(begin, middle, node))
            begin = middle
    return path[::-1]


def consistency_path(older: int, newer: int, node: Node) -> list[bytes]:
    """Return the proof that the tree of `newer` leaves continues that of `older` leaves: RFC 9162, 2.1.4.1. It is empty
    if both are the same tree, or the older one is empty."""
    if not 0 <= older <= newer:
        raise ValueError(f"a tree of {newer} leaves continues none of {older} leaves")
    if older in (0, newer):
        return []
    begin, end, path, is_known = 0, newer, [], True
    while older != end:
        middle = begin + _split(end - begin)
        if older <= middle:
            path.append(_subtree(middle, end, node))
            end = middle
        else:
            path.append(_subtree(begin, middle, node))
            begin, is_known = middle, False
    if not is_known:
        path.append(_subtree(begin, end, node))
    return path[::-1]


def _split(size: int) -> int:
    """Return the largest power of two below a size of at least 2."""
    return 1 << ((size - 1).bit_length() - 1)


def _subtree(begin: int, end: int, node: Node) -> bytes:
    """Return the hash of the subtree of these leaves: `begin` is a multiple of the power of two that is not below their
    number."""
    size = end - begin
    if size & (size - 1) == 0:
        level = size.bit_length() - 1
        return node(level, begin >> level)
    middle = begin + _split(size)
    return pair_hash(_subtree(begin, middle, node), _subtree(middle, end, node))


# --- proofs, from bytes of others -----------------------------------------------------------------------------------


def root_of_inclusion(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes:
    """Return the root that a proof of inclusion leads to: RFC 9162, 2.1.3.2. Raises ProofFailed for a path that no tree
    of this size has."""
    _check_path(path)
    if not 0 <= index < size <= MOST_LEAVES:
        raise ProofFailed(f"a proof of leaf {index} in a tree of {size} leaves")
    found = leaf
    for each, is_left in _siblings(index, size - 1, path, "inclusion"):
        found = pair_hash(each, found) if is_left else pair_hash(found, each)
    return found


def check_consistency(older: int, older_root: bytes, newer: int, newer_root: bytes, path: Sequence[bytes]) -> None:
    """Raise ProofFailed unless the proof shows that the newer tree continues the older one: RFC 9162, 2.1.4.2."""
    _check_path(path)
    if not 0 < older <= newer <= MOST_LEAVES:
        raise ProofFailed(f"a tree of {newer} leaves does not continue one of {older} leaves")
    if older == newer:
        if path or older_root != newer_root:
            raise ProofFailed(f"two trees of {older} leaves have different roots")
        return
    steps = [older_root, *path] if older & (older - 1) == 0 else [*path]
    if not steps or _roots_of_consistency(older, newer, steps) != (older_root, newer_root):
        raise ProofFailed(f"the tree of {newer} leaves does not continue the one of {older} leaves")


def _roots_of_consistency(older: int, newer: int, steps: Sequence[bytes]) -> tuple[bytes, bytes]:
    """Return the roots of both trees that a proof leads to. Raises ProofFailed for a path of another length."""
    at, last = older - 1, newer - 1
    while at & 1:
        at, last = at >> 1, last >> 1
    old = new = steps[0]
    for each, is_left in _siblings(at, last, steps[1:], "consistency"):
        if is_left:
            old, new = pair_hash(each, old), pair_hash(each, new)
        else:
            new = pair_hash(new, each)
    return old, new


def _siblings(at: int, last: int, path: Sequence[bytes], proof: str) -> Iterator[tuple[bytes, bool]]:
    """Yield the hashes of a path from a node to the root, and whether each is to the left. `last` is the last node of
    its level. Raises ProofFailed for a path of another length."""
    for each in path:
        if last == 0:
            raise ProofFailed(f"the path of the proof of {proof} is too long")
        is_left = bool(at & 1) or at == last
        yield each, is_left
        while is_left and not at & 1 and at:
            at, last = at >> 1, last >> 1
        at, last = at >> 1, last >> 1
    if last != 0:
        raise ProofFailed(f"the path of the proof of {proof} is too short")


def _check_path(path: Sequence[bytes]) -> None:
    if any(len(each) != HASH_BYTES for each in path):
        raise ProofFailed(f"a hash in a proof has not {HASH_BYTES} bytes")


# --- tiles ----------------------------------------------------------------------------------------------------------


def tiles_to_change(size: int) -> list[Tile]:
    """Return the tiles that are not full in a tree of this size, and not empty: appending needs them."""
    found, nodes, level = [], size, 0
    while nodes:
        if nodes % TILE_NODES:
            found.append((level, nodes // TILE_NODES))
        nodes, level = nodes // TILE_NODES, level + 1
    return found


def appended(size: int, leaves: Sequence[bytes], known: Mapping[Tile, bytes]) -> dict[Tile, bytes]:
    """Return the tiles that change when hashes of leaves are appended to a tree of this size, of which the tiles of
    `tiles_to_change` are `known`."""
    tiles: dict[Tile, bytes] = {}
    level, new = 0, leaves
    while new:
        number, filled = divmod(size, TILE_NODES)
        before = known[level, number] if filled else b""
        if len(before) != filled * HASH_BYTES:
            raise ValueError(f"tile {number} of level {level} has {len(before)} bytes, not {filled * HASH_BYTES}")
        hashes = before + b"".join(new)
        full: list[bytes] = []
        for start in range(0, len(hashes), TILE_NODES * HASH_BYTES):
            tile = hashes[start : start + TILE_NODES * HASH_BYTES]
            tiles[level, number + start // (TILE_NODES * HASH_BYTES)] = tile
            if len(tile) == TILE_NODES * HASH_BYTES:
                full.append(_node_in(tile, TILE_LEVELS, 0))
        level, size, new = level + 1, size // TILE_NODES, full
    return tiles


def nodes_of(tile: Callable[[int, int], bytes]) -> Node:
    """Return the function that finds nodes in tiles, which `tile` returns by their level and number."""

    def node(level: int, index: int) -> bytes:
        tile_level, height = divmod(level, TILE_LEVELS)
        number, first = divmod(index << height, TILE_NODES)
        return _node_in(tile(tile_level, number), height, first)

    return node


def _node_in(tile: bytes, height: int, first: int) -> bytes:
    """Return the root of 2^height hashes of a tile, from one of them on."""
    begin, end = first * HASH_BYTES, (first + (1 << height)) * HASH_BYTES
    if end > len(tile):
        raise ValueError(f"a tile has {len(tile)} bytes, and {end} are needed")
    hashes = [tile[at : at + HASH_BYTES] for at in range(begin, end, HASH_BYTES)]
    while len(hashes) > 1:
        hashes = [pair_hash(left, right) for left, right in zip(hashes[::2], hashes[1::2], strict=True)]
    return hashes[0]
