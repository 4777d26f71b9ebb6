"""The framings by name: the gateway's own, and those of other packages, by entry point."""

from functools import cache
from importlib.metadata import EntryPoint, entry_points

from app.framing.file_transfer import FILE_TRANSFER
from app.framing.mq_group import MQ_GROUP
from app.framing.order_packet import ORDER_PACKET
from app.framing.protocol import Framing
from app.framing.sas_queue import SAS_QUEUE
from app.framing.sas_rendezvous import SAS_RENDEZVOUS
from app.model.framing_facts import FramingTraits

GROUP = "attachment_gateway.framings"
"""The group of the entry points by which other packages declare framings."""

FRAMINGS: dict[str, Framing] = {
    framing.traits.name: framing for framing in (SAS_QUEUE, MQ_GROUP, SAS_RENDEZVOUS, ORDER_PACKET, FILE_TRANSFER)
}
"""The framings of the gateway, in the order of the documentation; after them, framings of other packages that
have been asked for. Nothing else of other packages is loaded."""


class UnknownFraming(KeyError):
    """A name that no framing has, or whose framing cannot be loaded."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(name)
        self._why = why

    def __str__(self) -> str:
        return self._why


def framing_names() -> list[str]:
    """Return the names of all framings; loads none."""
    return [*dict.fromkeys((*FRAMINGS, *sorted(_declared())))]


def framing(name: str) -> Framing:
    """Return the framing of this name. Raises UnknownFraming, which is a KeyError."""
    known = FRAMINGS.get(name)
    if known is None:
        entry_point = _declared().get(name)
        if entry_point is None:
            *others, last = map(repr, framing_names())
            raise UnknownFraming(name, f"unknown framing {name!r}: use {', '.join(others)} or {last}")
        where = f"framing {name!r} ({entry_point.value})"
        try:
            loaded: Framing = entry_point.load()
            own_name = loaded.traits.name
        except Exception as error:  # what a module of another package raises may be anything
            raise UnknownFraming(name, f"{where} cannot be loaded: {error}") from error
        if own_name != name:
            why = f"{where} has the name {own_name!r} in its traits; declare the entry point with that name"
            raise UnknownFraming(name, why)
        known = FRAMINGS[name] = loaded
    return known


def find_framing(name: str) -> Framing | None:
    """Return the framing of this name; None if there is none, or if it cannot be loaded."""
    return FRAMINGS.get(name) or _find_elsewhere(name)


def traits(name: str) -> FramingTraits:
    """Return what transports and captures know of a framing. Raises UnknownFraming."""
    return framing(name).traits


def default_framing(capture_format: str) -> str:
    """Return the framing of captures in a format where nobody names one."""
    return next(name for name in FRAMINGS if capture_format in traits(name).captures.default_of)


@cache
def _declared() -> dict[str, EntryPoint]:
    return {found.name: found for found in entry_points(group=GROUP)}


@cache
def _find_elsewhere(name: str) -> Framing | None:
    try:
        return framing(name)
    except UnknownFraming:
        return None
