"""Explain captured bytes field by field.

A format explains bytes from the first to the last, or raises WireError at the byte where they stop matching.
Recognition tries the formats of `FORMATS` in order: first those that begin with an identifier, then those that must
match every byte, last those that match almost any bytes. A header's values determine how the bytes after it are
explained: a descriptor's message type, correlid, Encoding and CodedCharSetId.
"""

from app.trace import ibm_mq, mqtt, rendezvous, sapdb, sas
from app.trace.frames import NO_HINTS, Formats, Frame, Hints, NotRecognised, TooManyFrames, Tried, first_that_fits
from app.wire.kinds import Buffer

__all__ = ["FORMATS", "Frame", "Hints", "NotRecognised", "TooManyFrames", "Tried", "explain"]

_EXACT = ["sas-data-set-definition", "sas-variables", "sas-indexes", "sas-attachment-header"]

FORMATS: Formats = {
    "mqmd": ibm_mq.descriptor,
    "mqmde": ibm_mq.extension,
    "tibrvmsg": rendezvous.messages,
    "rendezvous-agreement": rendezvous.agreements,
    "order-packet": sapdb.packets,
    **{name: sas.FORMATS[name] for name in _EXACT},
    "mqtt": mqtt.packets,
    **sas.FORMATS,
}
"""The formats that bytes can be explained as, in the order of recognition."""


def explain(data: Buffer, as_format: str | None = None, hints: Hints = NO_HINTS) -> list[Frame]:
    """Return the structures that bytes consist of, in order and without gaps.

    `as_format` is one of `FORMATS`, for bytes that match several; without it they are recognised. `hints` has the facts
    known from elsewhere. Raises NotRecognised, TooManyFrames for more packets than are explained at once, and KeyError
    for an unknown format.
    """
    formats = {as_format: FORMATS[as_format]} if as_format else FORMATS
    return first_that_fits(memoryview(data), formats, hints)
