"""Captured bytes, explained field by field.

A format explains bytes from the first to the last, or raises WireError at the byte where they stop being that.
Recognition tries the formats of `FORMATS` in order: first those that begin with an identifier, then those that must
take every byte, last those that nearly anything could be. What follows a header is explained by what the header says
of it: a descriptor's message type, correlid, Encoding and CodedCharSetId.
"""

from app.trace import ibm_mq, mqtt, rendezvous, sapdb, sas
from app.trace.frames import Formats, Frame, NotRecognised, Said, TooManyFrames, Tried, first_that_fits
from app.wire.kinds import Buffer

__all__ = ["FORMATS", "Frame", "NotRecognised", "Said", "TooManyFrames", "Tried", "explain"]

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
"""What bytes can be explained as, in the order of recognition."""


_NOTHING_SAID = Said()


def explain(data: Buffer, as_format: str | None = None, said: Said = _NOTHING_SAID) -> list[Frame]:
    """The structures that bytes consist of, in order and without gaps.

    `as_format` is one of `FORMATS`, for bytes that could be several things; without it they are recognised. `said` is
    what is known of them from elsewhere. Raises NotRecognised, TooManyFrames for more packets than are explained at
    once, and KeyError for an unknown format.
    """
    formats = {as_format: FORMATS[as_format]} if as_format else FORMATS
    return first_that_fits(memoryview(data), formats, said)
