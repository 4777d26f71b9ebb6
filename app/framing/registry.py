"""The framings by name. A new framing is its module and its line in `FRAMINGS`."""

from collections.abc import Iterable

from app.framing.mq_group import MQ_GROUP
from app.framing.protocol import Framing
from app.framing.sas_queue import SAS_QUEUE
from app.model.framing import Captures, FramingTraits

_RENDEZVOUS = frozenset({"rendezvous", "mqtt"})

FRAMINGS: dict[str, Framing] = {framing.traits.name: framing for framing in (SAS_QUEUE, MQ_GROUP)}
"""The framings that can be read and written."""

KEPT_ONLY: dict[str, FramingTraits] = {
    traits.name: traits
    for traits in (
        FramingTraits(
            "sas_rendezvous",
            needs_descriptor=False,
            captures=Captures(_RENDEZVOUS, default_of=frozenset({"rendezvous"})),
        ),
        FramingTraits("order_packet", needs_descriptor=False, captures=Captures(_RENDEZVOUS, undescribed="rendezvous")),
    )
}
"""Framings whose messages are kept in the journal and cannot be read yet."""


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
    """Return the traits of a framing whose messages can at least be kept. Raises UnknownFraming."""
    if name in FRAMINGS:
        return FRAMINGS[name].traits
    try:
        return KEPT_ONLY[name]
    except KeyError:
        raise UnknownFraming(name, carried()) from None


def carried() -> list[str]:
    """Return the names of all framings whose messages can be kept."""
    return [*FRAMINGS, *KEPT_ONLY]


def default_framing(capture_format: str) -> str:
    """Return the default framing of captures in a format."""
    return next(name for name in carried() if capture_format in traits(name).captures.default_of)
