"""MQINQ and MQSET: attributes by selector.

Sources: IBM MQ, "MQINQ", "MQSET", "Attributes for queues", "Attributes for the queue manager".
"""

from collections.abc import Callable
from time import gmtime, strftime
from typing import Any, NamedTuple

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.errors import Refused
from tests.queue_manager.server.handle import Handle
from tests.queue_manager.server.manager import AUTHENTICATION, COMMAND_QUEUE, QueueManager
from tests.queue_manager.server.queue import Queue
from tests.queue_manager.server.structures import padded

_FIRST_CHARACTER_SELECTOR = 2001
_MOST_SELECTORS = 256
_ALL = frozenset({mq.MQQT_LOCAL, mq.MQQT_MODEL, mq.MQQT_ALIAS, mq.MQQT_REMOTE})
_HELD = frozenset({mq.MQQT_LOCAL, mq.MQQT_MODEL})
_LOCAL = frozenset({mq.MQQT_LOCAL})
_DEFINITIONS = {"PREDEFINED": 1, "PERMDYN": 2, "TEMPDYN": 3}

_PROPERTY_CONTROLS = {"COMPAT": 0, "NONE": 1, "ALL": 2, "FORCE": 3, "V6COMPAT": 4}


class Attribute(NamedTuple):
    """How to read an attribute, and which types of queues have it. Characters have a length."""

    read: Callable[[Any], Any]
    types: frozenset[int] = _ALL
    length: int = 48


QUEUE: dict[int, Attribute] = {
    3: Attribute(lambda q: q.depth, _LOCAL),  # MQIA_CURRENT_Q_DEPTH
    5: Attribute(lambda q: int(q.attributes.defpsist)),  # MQIA_DEF_PERSISTENCE
    6: Attribute(lambda q: q.attributes.defprty),  # MQIA_DEF_PRIORITY
    4: Attribute(lambda q: 4 if q.attributes.defsopt == "EXCL" else 2, _HELD),  # MQIA_DEF_INPUT_OPEN_OPTION
    7: Attribute(lambda q: _DEFINITIONS[q.attributes.deftype], _HELD),  # MQIA_DEFINITION_TYPE
    8: Attribute(lambda q: int(q.attributes.hardenbo), _HELD),  # MQIA_HARDEN_GET_BACKOUT
    9: Attribute(lambda q: int(not q.attributes.get_enabled), _HELD | {mq.MQQT_ALIAS}),  # MQIA_INHIBIT_GET
    10: Attribute(lambda q: int(not q.attributes.put_enabled)),  # MQIA_INHIBIT_PUT
    12: Attribute(lambda q: int(q.attributes.usage == "XMITQ"), _HELD),  # MQIA_USAGE
    13: Attribute(lambda q: q.attributes.maxmsgl, _HELD),  # MQIA_MAX_MSG_LENGTH
    15: Attribute(lambda q: q.attributes.maxdepth, _HELD),  # MQIA_MAX_Q_DEPTH
    16: Attribute(lambda q: 0, _HELD),  # MQIA_MSG_DELIVERY_SEQUENCE: by priority
    17: Attribute(lambda q: q.inputs, _LOCAL),  # MQIA_OPEN_INPUT_COUNT
    18: Attribute(lambda q: q.outputs, _LOCAL),  # MQIA_OPEN_OUTPUT_COUNT
    20: Attribute(lambda q: q.attributes.type),  # MQIA_Q_TYPE
    22: Attribute(lambda q: q.attributes.bothresh, _HELD),  # MQIA_BACKOUT_THRESHOLD
    23: Attribute(lambda q: int(q.attributes.share), _HELD),  # MQIA_SHAREABILITY
    190: Attribute(
        lambda q: _PROPERTY_CONTROLS[q.attributes.propctl], _HELD | {mq.MQQT_ALIAS}
    ),  # MQIA_PROPERTY_CONTROL
    # What this queue manager does nothing with has the value that SYSTEM.DEFAULT.LOCAL.QUEUE gives it.
    21: Attribute(lambda q: 999_999_999, _HELD),  # MQIA_RETENTION_INTERVAL
    24: Attribute(lambda q: 0, _HELD),  # MQIA_TRIGGER_CONTROL: off
    26: Attribute(lambda q: 0, _HELD),  # MQIA_TRIGGER_MSG_PRIORITY
    28: Attribute(lambda q: 1, _HELD),  # MQIA_TRIGGER_TYPE: first
    29: Attribute(lambda q: 1, _HELD),  # MQIA_TRIGGER_DEPTH
    34: Attribute(lambda q: 0, _HELD),  # MQIA_DIST_LISTS: not supported
    40: Attribute(lambda q: 80, _HELD),  # MQIA_Q_DEPTH_HIGH_LIMIT
    41: Attribute(lambda q: 20, _HELD),  # MQIA_Q_DEPTH_LOW_LIMIT
    42: Attribute(lambda q: 1, _HELD),  # MQIA_Q_DEPTH_MAX_EVENT: enabled
    43: Attribute(lambda q: 0, _HELD),  # MQIA_Q_DEPTH_HIGH_EVENT
    44: Attribute(lambda q: 0, _HELD),  # MQIA_Q_DEPTH_LOW_EVENT
    45: Attribute(lambda q: 1),  # MQIA_SCOPE: queue manager
    46: Attribute(lambda q: 0, _HELD),  # MQIA_Q_SERVICE_INTERVAL_EVENT
    54: Attribute(lambda q: 999_999_999, _HELD),  # MQIA_Q_SERVICE_INTERVAL
    61: Attribute(lambda q: 0),  # MQIA_DEF_BIND: on open
    78: Attribute(lambda q: 0, _HELD),  # MQIA_NPM_CLASS: normal
    2008: Attribute(lambda q: "", _HELD),  # MQCA_INITIATION_Q_NAME
    2012: Attribute(lambda q: "", _HELD),  # MQCA_PROCESS_NAME
    2023: Attribute(lambda q: "", _HELD, 64),  # MQCA_TRIGGER_DATA
    2029: Attribute(lambda q: ""),  # MQCA_CLUSTER_NAME
    2030: Attribute(lambda q: ""),  # MQCA_CLUSTER_NAMELIST
    2002: Attribute(lambda q: q.attributes.target or "", frozenset({mq.MQQT_ALIAS})),  # MQCA_BASE_Q_NAME
    2004: Attribute(lambda q: strftime("%Y-%m-%d", gmtime(q.attributes.created)), _HELD, 12),  # MQCA_CREATION_DATE
    2005: Attribute(lambda q: strftime("%H.%M.%S", gmtime(q.attributes.created)), _HELD, 8),  # MQCA_CREATION_TIME
    2013: Attribute(lambda q: q.attributes.descr, length=64),  # MQCA_Q_DESC
    2016: Attribute(lambda q: q.name),  # MQCA_Q_NAME
    2017: Attribute(lambda q: q.attributes.rqmname or "", frozenset({mq.MQQT_REMOTE})),  # MQCA_REMOTE_Q_MGR_NAME
    2018: Attribute(lambda q: q.attributes.rname or "", frozenset({mq.MQQT_REMOTE})),  # MQCA_REMOTE_Q_NAME
    2019: Attribute(lambda q: q.attributes.boqname, _HELD),  # MQCA_BACKOUT_REQ_Q_NAME
    2024: Attribute(lambda q: q.attributes.xmitq, frozenset({mq.MQQT_REMOTE})),  # MQCA_XMIT_Q_NAME
}

MANAGER: dict[int, Attribute] = {
    2: Attribute(lambda m: m.settings.ccsid),  # MQIA_CODED_CHAR_SET_ID
    13: Attribute(lambda m: m.settings.max_message_length),  # MQIA_MAX_MSG_LENGTH
    14: Attribute(lambda m: mq.MQPRI_MAXIMUM),  # MQIA_MAX_PRIORITY
    11: Attribute(lambda m: m.settings.max_handles),  # MQIA_MAX_HANDLES
    25: Attribute(lambda m: 999_999_999),  # MQIA_TRIGGER_INTERVAL
    30: Attribute(lambda m: 1),  # MQIA_SYNCPOINT: available
    34: Attribute(lambda m: 0),  # MQIA_DIST_LISTS: not supported
    47: Attribute(lambda m: 0),  # MQIA_AUTHORITY_EVENT
    48: Attribute(lambda m: 0),  # MQIA_INHIBIT_EVENT
    49: Attribute(lambda m: 0),  # MQIA_LOCAL_EVENT
    50: Attribute(lambda m: 0),  # MQIA_REMOTE_EVENT
    52: Attribute(lambda m: 1),  # MQIA_START_STOP_EVENT
    53: Attribute(lambda m: 1),  # MQIA_PERFORMANCE_EVENT
    55: Attribute(lambda m: 0),  # MQIA_CHANNEL_AUTO_DEF
    56: Attribute(lambda m: 1),  # MQIA_CHANNEL_AUTO_DEF_EVENT
    31: Attribute(lambda m: 940),  # MQIA_COMMAND_LEVEL
    32: Attribute(lambda m: 3),  # MQIA_PLATFORM: UNIX
    33: Attribute(lambda m: m.settings.max_uncommitted),  # MQIA_MAX_UNCOMMITTED_MSGS
    2003: Attribute(lambda m: COMMAND_QUEUE),  # MQCA_COMMAND_INPUT_Q_NAME
    2006: Attribute(lambda m: m.settings.dead_letter_queue),  # MQCA_DEAD_LETTER_Q_NAME
    2014: Attribute(lambda m: "", length=64),  # MQCA_Q_MGR_DESC
    2015: Attribute(lambda m: m.settings.name),  # MQCA_Q_MGR_NAME
    2025: Attribute(lambda m: "", length=20),  # MQCA_DEF_XMIT_Q_NAME
    2032: Attribute(lambda m: f"{m.settings.name}_test"),  # MQCA_Q_MGR_IDENTIFIER
    2120: Attribute(lambda m: "09040000", length=8),  # MQCA_VERSION
    2125: Attribute(lambda m: AUTHENTICATION),  # MQCA_CONN_AUTH
}


def inquire(
    manager: QueueManager, handle: Handle, selectors: tuple[int, ...], numbers: int, length: int
) -> tuple[list[int], bytes, int]:
    """The values of these selectors: numbers, characters, and the reason of a warning. Raises Refused."""
    if not handle.options & mq.MQOO_INQUIRE:
        raise Refused(mq.MQRC_NOT_OPEN_FOR_INQUIRE)
    thing, known = (manager, MANAGER) if handle.destination is None else (_inquired(handle), QUEUE)
    integers: list[int] = []
    characters = b""
    warning = mq.MQRC_NONE
    for selector in selectors:
        if selector not in known:
            raise Refused(mq.MQRC_SELECTOR_ERROR)
        attribute = known[selector]
        text = selector >= _FIRST_CHARACTER_SELECTOR
        if isinstance(thing, Queue) and thing.attributes.type not in attribute.types:
            warning = mq.MQRC_SELECTOR_NOT_FOR_TYPE
            value: int | str = "*" * attribute.length if text else -1  # MQIAV_NOT_APPLICABLE
        else:
            value = attribute.read(thing)
        if isinstance(value, str):
            characters += padded(value, attribute.length)
        else:
            integers.append(value)
    if len(integers) > numbers:
        warning = warning or mq.MQRC_INT_ATTR_COUNT_TOO_SMALL
    if len(characters) > length:
        warning = warning or mq.MQRC_CHAR_ATTRS_TOO_SHORT
    return (integers + [0] * numbers)[:numbers], characters[:length], warning


def _inquired(handle: Handle) -> Queue:
    assert handle.destination is not None
    return handle.destination.named


def check_counts(selectors: int, numbers: int, length: int) -> None:
    """Raises Refused for counts that cannot be."""
    if selectors < 0:
        raise Refused(mq.MQRC_SELECTOR_COUNT_ERROR)
    if selectors > _MOST_SELECTORS:
        raise Refused(mq.MQRC_SELECTOR_LIMIT_EXCEEDED)
    if numbers < 0:
        raise Refused(mq.MQRC_INT_ATTR_COUNT_ERROR)
    if length < 0:
        raise Refused(mq.MQRC_CHAR_ATTR_LENGTH_ERROR)


_SETTABLE = {9: "get_enabled", 10: "put_enabled"}


def set_attributes(manager: QueueManager, handle: Handle, selectors: tuple[int, ...], values: tuple[int, ...]) -> None:
    """Inhibits or allows MQGET and MQPUT. Raises Refused."""
    if not handle.options & mq.MQOO_SET:
        raise Refused(mq.MQRC_NOT_OPEN_FOR_SET)
    if len(values) < len(selectors):
        raise Refused(mq.MQRC_INT_ATTR_COUNT_ERROR)
    if not set(selectors) <= set(_SETTABLE):
        raise Refused(mq.MQRC_SELECTOR_ERROR)
    if not set(values[: len(selectors)]) <= {0, 1}:
        raise Refused(mq.MQRC_INHIBIT_VALUE_ERROR)
    changes = {_SETTABLE[selector]: not value for selector, value in zip(selectors, values, strict=False)}
    manager.alter(_inquired(handle), **changes)
