"""Dialects: the choices that the specification leaves to the sender, and their detection.

A dialect is one of 2 byte orders, 2 widths of a C long, 4 NUL rules and packed or aligned numbers: 32 in all. Two more
choices are not part of the dialect, since each message shows them. An absent collating sequence has length 0 or, in the
layout for TIB/Rendezvous, length 1 (`app.wire.Text.or_one`). A "numeric integer" has 4 or 8 bytes (by the size of its
message).

No message states its dialect. A message is read in every dialect that is still possible. A reading counts only if it
consumes every byte, has no control characters in its texts, and its numbers are in range. The readings that remain
nearly always agree; if they do not, preference decides (`preferred`).

A set of dialects is a bit mask: bit n stands for `DIALECTS[n]`. Byte order, width and alignment (together a *frame*)
are the same in everything a sender writes. But a header and a data set may have different NUL rules. So a set
that was detected from one type of message is widened by its frames for the next (`frames`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar, cast

from app.wire import Context, WireError
from app.wire.kinds import NUL_RULES, Long, Nul, Order

T = TypeVar("T")

_ORDER_WORDS: dict[Order, str] = {">": "big", "<": "little"}
_NULS_A_FRAME = len(NUL_RULES)
_FRAME = (1 << _NULS_A_FRAME) - 1


@dataclass(frozen=True, slots=True)
class Dialect:
    """A sender's way to write numbers and to end strings; the fields have the same names in `app.wire.Context`."""

    order: Order = ">"
    long: Long = 4
    nul: Nul = "excluded"
    aligned: bool = False

    @property
    def name(self) -> str:
        """The name, such as `big-4-excluded-packed`."""
        return f"{_ORDER_WORDS[self.order]}-{self.long}-{self.nul}-{'aligned' if self.aligned else 'packed'}"

    @classmethod
    def parse(cls, name: str) -> "Dialect":
        """Return the dialect of a name. Raises ValueError."""
        try:
            return _BY_NAME[name]
        except KeyError:
            raise ValueError(
                f"unknown dialect {name!r}; write {{big|little}}-{{4|8}}-{{{'|'.join(NUL_RULES)}}}-{{packed|aligned}}"
            ) from None

    def context(self, charset: str = "latin-1") -> Context:
        """Return the dialect together with a character set, as a context for the layouts."""
        return _context(self, charset)


@lru_cache(maxsize=256)
def _context(dialect: Dialect, charset: str) -> Context:
    return Context(dialect.order, charset, dialect.long, dialect.nul, dialect.aligned)


DIALECTS: tuple[Dialect, ...] = tuple(
    Dialect(order, long, nul, aligned)
    for aligned in (False, True)
    for long in cast("tuple[Long, ...]", (4, 8))
    for order in cast("tuple[Order, ...]", (">", "<"))
    for nul in NUL_RULES
)
"""All dialects, the most likely first: packed, a long of 4 bytes, big-endian, a NUL that the length does not count."""

ALL: int = (1 << len(DIALECTS)) - 1
"""The set of all dialects."""

_BY_NAME = {dialect.name: dialect for dialect in DIALECTS}
_BITS = {dialect: 1 << index for index, dialect in enumerate(DIALECTS)}
_BY_ORDER = {order: sum(bit for d, bit in _BITS.items() if d.order == order) for order in _ORDER_WORDS}
_BY_NUL = {nul: sum(bit for d, bit in _BITS.items() if d.nul == nul) for nul in NUL_RULES}
_ENCODING_ORDERS: dict[int, Order] = {1: ">", 2: "<"}


def members(mask: int) -> Iterator[Dialect]:
    """Yield the dialects of a set, the most likely first."""
    while mask:
        bit = mask & -mask
        yield DIALECTS[bit.bit_length() - 1]
        mask ^= bit


@lru_cache(maxsize=1024)
def orders(mask: int) -> frozenset[Order]:
    """Return the byte orders of a set of dialects."""
    return frozenset(dialect.order for dialect in members(mask))


def mask_of(*dialects: Dialect) -> int:
    """Return the set of these dialects."""
    return sum({_BITS[dialect] for dialect in dialects})


def with_order(mask: int, order: Order) -> int:
    """Return the dialects of a set that have this byte order."""
    return mask & _BY_ORDER[order]


def with_nul(mask: int, nul: Nul) -> int:
    """Return the dialects of a set that have this NUL rule."""
    return mask & _BY_NUL[nul]


def frames(mask: int) -> int:
    """Return all dialects that agree with one of a set in byte order, width and alignment, with any NUL rule."""
    widened = 0
    for shift in range(0, len(DIALECTS), _NULS_A_FRAME):
        if mask >> shift & _FRAME:
            widened |= _FRAME << shift
    return widened


def narrow(known: int, found: int) -> int:
    """Return the dialects of a source after one more message: the intersection of both sets, or the newer set if it
    is empty.
    """
    return known & found or found


def preferred(mask: int, encoding: int = 0, known: int = 0) -> Dialect:
    """Return the preferred dialect of a set.

    The criteria are, in this order: the byte order that the message's descriptor gives for integers (`encoding`, the
    MQMD's: 1 in its lowest four bits is big-endian, 2 little-endian), the dialects `known` of this source, and the
    order of `DIALECTS`. Raises ValueError for the empty set.
    """
    if not mask & ALL:
        raise ValueError("no dialect to choose from")
    return next(members(_believed(mask, encoding, known)))


def _believed(mask: int, encoding: int, known: int) -> int:
    """Return the dialects of a set that agree with the descriptor and with those known of the source, where any do."""
    order = _ENCODING_ORDERS.get(encoding & 0xF)
    for preference in (_BY_ORDER[order] if order else 0, known):
        mask = mask & preference or mask
    return mask


def survey(
    read: Callable[[Dialect], T | None],
    mask: int,
    *,
    encoding: int = 0,
    known: int = 0,
    oddity: Callable[[T], Any] = lambda _meaning: 0,
) -> tuple[T, int] | None:
    """Return the meaning of a message, and the dialects of a set in which it has this meaning.

    Return None if it cannot be read in any.

    If neither `encoding` nor `known` decides between several meanings, the meaning with the least `oddity` is returned;
    among equals, the one in the most likely dialect.
    """
    meanings: list[tuple[T, int]] = []
    for dialect in members(mask):
        meaning = read(dialect)
        if meaning is None:
            continue
        for index, (other, dialects) in enumerate(meanings):
            if other == meaning:
                meanings[index] = other, dialects | _BITS[dialect]
                break
        else:
            meanings.append((meaning, _BITS[dialect]))
    if len(meanings) < 2:
        return meanings[0] if meanings else None
    believed = _believed(sum(dialects for _, dialects in meanings), encoding, known)
    candidates = [found for found in meanings if found[1] & believed]
    return min(candidates, key=lambda found: (oddity(found[0]), found[1] & believed & -(found[1] & believed)))


def furthest(
    explain: Callable[[Dialect], tuple[int, WireError]], mask: int, *, encoding: int = 0, known: int = 0
) -> WireError:
    """Return the error for a message that cannot be read in any dialect of a set.

    It is the error in the dialect in which the most bytes could be read, the preferred one among equals. `explain`
    returns for a dialect how far the message could be read, and the error.
    """
    refusals = {dialect: explain(dialect) for dialect in members(mask)}
    reach = max(refusal[0] for refusal in refusals.values())
    best = preferred(mask_of(*(d for d, refusal in refusals.items() if refusal[0] == reach)), encoding, known)
    return refusals[best][1]
