"""Who may do what: reason 2035 on MQCONN, MQOPEN and MQPUT1.

An authority belongs to the object that was named: of an alias queue its own counts, not its target's. Source: IBM MQ,
"Authorizations for MQI calls" and "2035 (07F3) MQRC_NOT_AUTHORIZED".
"""

from typing import TYPE_CHECKING

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.errors import Refused

if TYPE_CHECKING:
    from tests.queue_manager.server.manager import QueueManager

_OF_OPEN = {
    mq.MQOO_INPUT: "get",
    mq.MQOO_BROWSE: "browse",
    mq.MQOO_OUTPUT: "put",
    mq.MQOO_INQUIRE: "inq",
    mq.MQOO_SET: "set",
    mq.MQOO_PASS_IDENTITY_CONTEXT: "passid",
    mq.MQOO_PASS_ALL_CONTEXT: "passall",
    mq.MQOO_SET_IDENTITY_CONTEXT: "setid",
    mq.MQOO_SET_ALL_CONTEXT: "setall",
}
_OF_PUT = {
    mq.MQPMO_PASS_IDENTITY_CONTEXT: "passid",
    mq.MQPMO_PASS_ALL_CONTEXT: "passall",
    mq.MQPMO_SET_IDENTITY_CONTEXT: "setid",
    mq.MQPMO_SET_ALL_CONTEXT: "setall",
}

WORDS = {
    2: "browse",
    5: "connect",
    6: "crt",
    3: "chg",
    4: "clr",
    7: "dlt",
    8: "dsp",
    9: "get",
    10: "inq",
    11: "put",
    12: "passall",
    13: "passid",
    14: "set",
    15: "setall",
    16: "setid",
}
"""By MQAUTH number, the word of setmqaut."""


def check_authority(manager: "QueueManager", user: str, name: str, *wanted: str) -> None:
    """Raises Refused for a user who may not do all of this to the object of this name."""
    if user not in manager.settings.authorities:
        return
    if not set(wanted) <= set(manager.authorities[user].get(name, ())):
        raise Refused(mq.MQRC_NOT_AUTHORIZED)


def open_authorities(options: int) -> list[str]:
    """What MQOPEN with these options needs."""
    return [authority for option, authority in _OF_OPEN.items() if options & option]


def context_authorities(options: int) -> list[str]:
    """What MQPUT1 with these options needs beside the authority to put."""
    return [authority for option, authority in _OF_PUT.items() if options & option]
