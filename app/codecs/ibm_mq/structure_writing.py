"""How a structure is written: its byte order, and ASCII or EBCDIC.

The header or descriptor before a structure announces this as an Encoding and a CodedCharSetId. Either may be missing,
or be an unknown number. The structure's own first eight bytes, its identifier and its version, show both.
"""

from collections.abc import Iterable
from functools import lru_cache
from itertools import product
from typing import Final, Generic, TypeVar

from app.codecs.ibm_mq.constants import MQ_NO_ID
from app.codecs.ibm_mq.encodings import EBCDIC, integer_order, is_ebcdic
from app.wire import Context, Layout
from app.wire.kinds import PADDING, Buffer, Order

ASCII: Final = "latin-1"
"""Like EBCDIC a charset for a header's own names: the characters allowed in them are the same in every ASCII code page,
and in every EBCDIC code page."""

ORDERS: Final[tuple[Order, ...]] = (">", "<")


def written(encoding: int, ccsid: int) -> Context:
    """Return how a program with this Encoding and CodedCharSetId writes structures.

    The default is big-endian and ASCII.
    """
    return Context(integer_order(encoding) or ">", family(ccsid) or ASCII)


def identifier(given: bytes) -> bytes:
    """Return a message, correlation or group identifier in its 24 bytes: a shorter one is padded with zeros."""
    return given.ljust(len(MQ_NO_ID), b"\0")


@lru_cache(maxsize=256)
def family(ccsid: int) -> str | None:
    """Return `ASCII` or `EBCDIC`; None for a CodedCharSetId that is not known to be either."""
    known = is_ebcdic(ccsid)
    return None if known is None else EBCDIC if known else ASCII


@lru_cache(maxsize=256)
def trimmed(raw: bytes, charset: str) -> str:
    """Return a name in a field of fixed size, without its padding."""
    return str(raw, charset).rstrip(PADDING)


L = TypeVar("L", bound=Layout)


class Heads(Generic[L]):
    """Recognition of structures by their first eight bytes."""

    def __init__(self, initial: Iterable[L]) -> None:
        self._heads = {
            layout.encode(Context(order, name))[:8]: (layout, Context(order, name))
            for layout, order, name in product(initial, ORDERS, (ASCII, EBCDIC))
        }

    def at(self, buffer: Buffer, at: int) -> tuple[L, Context] | None:
        """Return the initial values of the structure at a byte, and how it is written; None for none of these."""
        return self._heads.get(bytes(buffer[at : at + 8]))

    def find(self, buffer: Buffer, at: int, encoding: int, ccsid: int) -> tuple[L, Context] | None:
        """Return the initial values of the structure at byte `at`, and how it is written.

        Return None when it is none of these structures, or not written as the Encoding and CodedCharSetId announce it.
        """
        found = self.at(buffer, at)
        if found is None:
            return None
        _, context = found
        is_announced = integer_order(encoding) in (None, context.order) and family(ccsid) in (None, context.charset)
        return found if is_announced else None
