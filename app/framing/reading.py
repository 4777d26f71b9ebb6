"""The framings by name, as the assembler reads them."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from app.framing import mq_group, sas_queue
from app.model.errors import TheirError
from app.model.event import Event
from app.model.message import UNREADABLE, PhysicalMessage


class Reading(NamedTuple):
    """How a framing is read: what a message means, given the dialects its source has used, and the key of the
    attachment that it is a part of. Both raise TheirError."""

    read: Callable[[PhysicalMessage, int], Event]
    attachment_key: Callable[[PhysicalMessage], bytes]


READINGS: Mapping[str, Reading] = {
    "sas_queue": Reading(sas_queue.read, sas_queue.attachment_key),
    "mq_group": Reading(lambda message, _: mq_group.read(message), mq_group.attachment_key),
}


def read_event(message: PhysicalMessage, known: int) -> Event:
    """What a message of any framing means, given the dialects its source has used. Raises TheirError, also for one that
    no transport could read."""
    reading = READINGS.get(message.framing)
    if reading is not None:
        return reading.read(message, known)
    if message.framing == UNREADABLE:
        properties = message.properties
        raise TheirError(properties.get("refused-code", "unreadable"), "", -1, properties.get("refused-why", ""))
    raise TheirError("unknown-framing", "framing", -1, f"nothing here reads the framing {message.framing!r}")
