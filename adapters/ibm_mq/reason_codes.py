"""Reason codes and the remedy for each.

Source: IBM MQ, "API completion and reason codes". After a code that is not listed here, a new connection is made.
"""

from enum import Enum, auto


class Remedy(Enum):
    """The action that may help after a call has failed."""

    RETRY = auto()
    """Try again later, on this connection."""
    RECONNECT = auto()
    """Make a new connection."""
    FATAL = auto()
    """Fail: the queue manager, the configuration or the message has to be changed."""


MQRC_DATA_LENGTH_ERROR = 2010
MQRC_SYNCPOINT_LIMIT_REACHED = 2024
MQRC_MSG_TOO_BIG_FOR_Q = 2030
MQRC_MSG_TOO_BIG_FOR_Q_MGR = 2031
MQRC_NO_MSG_AVAILABLE = 2033
MQRC_NO_MSG_UNDER_CURSOR = 2034
MQRC_NOT_AUTHORIZED = 2035
MQRC_OBJECT_IN_USE = 2042
MQRC_PUT_INHIBITED = 2051
MQRC_Q_FULL = 2053
MQRC_Q_SPACE_NOT_AVAILABLE = 2056
MQRC_TRUNCATED_MSG_ACCEPTED = 2079
MQRC_TRUNCATED_MSG_FAILED = 2080
MQRC_STORAGE_MEDIUM_FULL = 2192
MQRC_MSG_TOO_BIG_FOR_CHANNEL = 2218
MQRC_BACKOUT_THRESHOLD_REACHED = 2362

NO_ROOM = frozenset(
    {
        MQRC_SYNCPOINT_LIMIT_REACHED,
        MQRC_PUT_INHIBITED,
        MQRC_Q_FULL,
        MQRC_Q_SPACE_NOT_AVAILABLE,
        MQRC_STORAGE_MEDIUM_FULL,
    }
)
"""The reasons for which an MQPUT may find no room after others of its unit of work, which can be committed."""

TOO_LONG = frozenset(
    {
        MQRC_DATA_LENGTH_ERROR,
        MQRC_MSG_TOO_BIG_FOR_Q,
        MQRC_MSG_TOO_BIG_FOR_Q_MGR,
        MQRC_MSG_TOO_BIG_FOR_CHANNEL,
    }
)
"""The reasons for which an MQPUT refuses a message for its length. A client returns 2010 for a message that is longer
than its channel allows."""

_RETRY = {
    2003: "MQRC_BACKED_OUT",
    2016: "MQRC_GET_INHIBITED",
    2017: "MQRC_HANDLE_NOT_AVAILABLE",
    2024: "MQRC_SYNCPOINT_LIMIT_REACHED",
    2042: "MQRC_OBJECT_IN_USE",
    2051: "MQRC_PUT_INHIBITED",
    2053: "MQRC_Q_FULL",
    2056: "MQRC_Q_SPACE_NOT_AVAILABLE",
    2071: "MQRC_STORAGE_NOT_AVAILABLE",
    2079: "MQRC_TRUNCATED_MSG_ACCEPTED",
    2080: "MQRC_TRUNCATED_MSG_FAILED",
    2101: "MQRC_OBJECT_DAMAGED",
    2102: "MQRC_RESOURCE_PROBLEM",
    2109: "MQRC_SUPPRESSED_BY_EXIT",
    2189: "MQRC_CLUSTER_RESOLUTION_ERROR",
    2192: "MQRC_STORAGE_MEDIUM_FULL",
    2268: "MQRC_CLUSTER_PUT_INHIBITED",
    2269: "MQRC_CLUSTER_RESOURCE_ERROR",
}

_RECONNECT = {
    2009: "MQRC_CONNECTION_BROKEN",
    2018: "MQRC_HCONN_ERROR",
    2019: "MQRC_HOBJ_ERROR",
    2025: "MQRC_MAX_CONNS_LIMIT_REACHED",
    2041: "MQRC_OBJECT_CHANGED",
    2052: "MQRC_Q_DELETED",
    2059: "MQRC_Q_MGR_NOT_AVAILABLE",
    2161: "MQRC_Q_MGR_QUIESCING",
    2162: "MQRC_Q_MGR_STOPPING",
    2195: "MQRC_UNEXPECTED_ERROR",
    2202: "MQRC_CONNECTION_QUIESCING",
    2203: "MQRC_CONNECTION_STOPPING",
    2219: "MQRC_CALL_IN_PROGRESS",
    2223: "MQRC_Q_MGR_NOT_ACTIVE",
    2273: "MQRC_CONNECTION_ERROR",
    2537: "MQRC_CHANNEL_NOT_AVAILABLE",
    2538: "MQRC_HOST_NOT_AVAILABLE",
    2539: "MQRC_CHANNEL_CONFIG_ERROR",
    2548: "MQRC_RECONNECT_FAILED",
    2549: "MQRC_CALL_INTERRUPTED",
}

_FATAL = {
    2002: "MQRC_ALREADY_CONNECTED",
    2010: "MQRC_DATA_LENGTH_ERROR",
    2026: "MQRC_MD_ERROR",
    2027: "MQRC_MISSING_REPLY_TO_Q",
    2029: "MQRC_MSG_TYPE_ERROR",
    2030: "MQRC_MSG_TOO_BIG_FOR_Q",
    2031: "MQRC_MSG_TOO_BIG_FOR_Q_MGR",
    2035: "MQRC_NOT_AUTHORIZED",
    2043: "MQRC_OBJECT_TYPE_ERROR",
    2045: "MQRC_OPTION_NOT_VALID_FOR_TYPE",
    2046: "MQRC_OPTIONS_ERROR",
    2047: "MQRC_PERSISTENCE_ERROR",
    2048: "MQRC_PERSISTENT_NOT_ALLOWED",
    2050: "MQRC_PRIORITY_ERROR",
    2058: "MQRC_Q_MGR_NAME_ERROR",
    2063: "MQRC_SECURITY_ERROR",
    2067: "MQRC_SELECTOR_ERROR",
    2068: "MQRC_SELECTOR_NOT_FOR_TYPE",
    2082: "MQRC_UNKNOWN_ALIAS_BASE_Q",
    2085: "MQRC_UNKNOWN_OBJECT_NAME",
    2086: "MQRC_UNKNOWN_OBJECT_Q_MGR",
    2087: "MQRC_UNKNOWN_REMOTE_Q_MGR",
    2092: "MQRC_XMIT_Q_USAGE_ERROR",
    2152: "MQRC_OBJECT_NAME_ERROR",
    2196: "MQRC_UNKNOWN_XMIT_Q",
    2218: "MQRC_MSG_TOO_BIG_FOR_CHANNEL",
    2247: "MQRC_MATCH_OPTIONS_ERROR",
    2248: "MQRC_MDE_ERROR",
    2249: "MQRC_MSG_FLAGS_ERROR",
    2250: "MQRC_MSG_SEQ_NUMBER_ERROR",
    2251: "MQRC_OFFSET_ERROR",
    2252: "MQRC_ORIGINAL_LENGTH_ERROR",
    2258: "MQRC_GROUP_ID_ERROR",
    2277: "MQRC_CD_ERROR",
    2278: "MQRC_CLIENT_CONN_ERROR",
    2298: "MQRC_FUNCTION_NOT_SUPPORTED",
    2381: "MQRC_KEY_REPOSITORY_ERROR",
    2393: "MQRC_SSL_INITIALIZATION_ERROR",
    2396: "MQRC_SSL_NOT_ALLOWED",
    2398: "MQRC_SSL_PEER_NAME_MISMATCH",
    2540: "MQRC_UNKNOWN_CHANNEL_NAME",
}

REMEDIES: dict[int, Remedy] = {
    **dict.fromkeys(_RETRY, Remedy.RETRY),
    **dict.fromkeys(_RECONNECT, Remedy.RECONNECT),
    **dict.fromkeys(_FATAL, Remedy.FATAL),
}

NAMES: dict[int, str] = {
    **_RETRY,
    **_RECONNECT,
    **_FATAL,
    2033: "MQRC_NO_MSG_AVAILABLE",
    2362: "MQRC_BACKOUT_THRESHOLD_REACHED",
}


QUIESCING = frozenset({2161, 2202})
"""The reasons why no more calls should begin, although the unit of work can still be committed. One that stops (2162,
2203) backs it out."""

BROKEN = frozenset(_RECONNECT) - QUIESCING
"""The reasons after which a connection is unusable."""


def remedy(reason: int) -> Remedy:
    """Return the remedy for a reason code."""
    return REMEDIES.get(reason, Remedy.RECONNECT)


def spoken(reason: int) -> str:
    """Return a reason code with its name, if it is listed here: "2085 MQRC_UNKNOWN_OBJECT_NAME"."""
    return f"{reason} {NAMES[reason]}" if reason in NAMES else str(reason)
