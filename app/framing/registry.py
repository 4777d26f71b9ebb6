"""The framings by name. A new framing is its module and its line in `FRAMINGS`."""

from collections.abc import Iterable

from app.framing.mq_group import MQ_GROUP
from app.framing.order_packet import ORDER_PACKET
from app.framing.protocol import Framing
from app.framing.sas_queue import SAS_QUEUE
from app.framing.sas_rendezvous import SAS_RENDEZVOUS
from app.model.framing import FramingTraits

FRAMINGS: dict[str, Framing] = {
    framing.traits.name: framing for framing in (SAS_QUEUE, MQ_GROUP, SAS_RENDEZVOUS, ORDER_PACKET)
}
"""The framings, in the order in which people read of them."""


class UnknownFraming(KeyError):
    """A name that no framing has."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(name)
        *others, last = map(repr, known)
        self._why = f"unknown framing {name!r}: use {', '.join(others)} or {last}"

    def __str__(self) -> str:
        return self._why


def framing(name: str) -> Framing:
    """Return the framing of this name. Raises UnknownFraming, which is a KeyError."""
    try:
        return FRAMINGS[name]
    except KeyError:
        raise UnknownFraming(name, FRAMINGS) from None


def traits(name: str) -> FramingTraits:
    """Return what transports and captures know of a framing. Raises UnknownFraming."""
    return framing(name).traits


def default_framing(capture_format: str) -> str:
    """Return the framing of captures in a format where nobody names one."""
    return next(name for name in FRAMINGS if capture_format in traits(name).captures.default_of)
