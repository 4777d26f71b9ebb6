"""Which properties an MQGET gives back, and where: in a message handle, in an MQRFH2, or not at all.

Sources: IBM MQ, "MQGMO", property options and MsgHandle, and "PropertyControl". MQPROP_V6COMPAT leaves the data as they
are.
"""

from typing import Literal

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.errors import Refused
from tests.queue_manager.server.folders import COMPATIBLE, may_hold_properties, parse, without_properties
from tests.queue_manager.server.getoptions import PROPERTIES
from tests.queue_manager.server.headers import Description
from tests.queue_manager.server.properties import Property

Where = Literal["handle", "data", "data or nowhere", "nowhere"]

_BY_OPTION: dict[int, Where] = {
    mq.MQGMO_PROPERTIES_IN_HANDLE: "handle",
    mq.MQGMO_PROPERTIES_FORCE_MQRFH2: "data",
    mq.MQGMO_PROPERTIES_COMPATIBILITY: "data or nowhere",
    mq.MQGMO_NO_PROPERTIES: "nowhere",
}
_BY_QUEUE: dict[str, Where] = {
    "COMPAT": "data or nowhere",
    "NONE": "nowhere",
    "ALL": "data",
    "FORCE": "data",
    "V6COMPAT": "data",
}


def where(flags: int, property_control: str, *, handle: bool) -> Where:
    """Where an MQGET with these options wants properties. Raises Refused when it names a handle and gives none."""
    chosen = flags & PROPERTIES
    if not chosen and handle and property_control != "FORCE":
        return "handle"
    if chosen == mq.MQGMO_PROPERTIES_IN_HANDLE and not handle:
        raise Refused(mq.MQRC_HMSG_ERROR)
    return _BY_OPTION[chosen] if chosen else _BY_QUEUE[property_control]


def give(place: Where, description: Description, data: bytes) -> tuple[list[Property], Description, bytes]:
    """The properties for the handle, and the message as it goes into the buffer."""
    if place == "data" or not may_hold_properties(description.format):
        return [], description, data
    parsed = parse(description, data)
    found = parsed.properties
    if place == "data or nowhere" and (not found or any(each.path[0] in COMPATIBLE for each in found)):
        return [], description, data
    return found if place == "handle" else [], *without_properties(parsed)
