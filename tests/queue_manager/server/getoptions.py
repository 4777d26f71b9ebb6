"""Which options of MQGET go together.

Sources: IBM MQ, "MQGMO" (Options, MatchOptions), and the pages of reasons 2036, 2037, 2046, 2090, 2247, 2256 and 2257.
That all grouping options need version 2 of MQMD is believed: the pages say only that some do.
"""

from functools import lru_cache

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.errors import Refused
from tests.queue_manager.server.handle import Handle
from tests.queue_manager.server.structures import GetOptions, MessageDescriptor

BROWSES = mq.MQGMO_BROWSE_FIRST | mq.MQGMO_BROWSE_NEXT | mq.MQGMO_BROWSE_MSG_UNDER_CURSOR
UNDER_CURSOR = mq.MQGMO_MSG_UNDER_CURSOR | mq.MQGMO_BROWSE_MSG_UNDER_CURSOR

_SYNCPOINTS = mq.MQGMO_SYNCPOINT | mq.MQGMO_NO_SYNCPOINT | mq.MQGMO_SYNCPOINT_IF_PERSISTENT
_UNITS_OF_WORK = mq.MQGMO_SYNCPOINT | mq.MQGMO_SYNCPOINT_IF_PERSISTENT
_GROUPING = (
    mq.MQGMO_LOGICAL_ORDER | mq.MQGMO_COMPLETE_MSG | mq.MQGMO_ALL_MSGS_AVAILABLE | mq.MQGMO_ALL_SEGMENTS_AVAILABLE
)
PROPERTIES = (
    mq.MQGMO_PROPERTIES_FORCE_MQRFH2
    | mq.MQGMO_NO_PROPERTIES
    | mq.MQGMO_PROPERTIES_IN_HANDLE
    | mq.MQGMO_PROPERTIES_COMPATIBILITY
)
_AT_MOST_ONE = (_SYNCPOINTS, BROWSES | mq.MQGMO_MSG_UNDER_CURSOR, mq.MQGMO_LOCK | mq.MQGMO_UNLOCK, PROPERTIES)
_NOT_TOGETHER = (
    (BROWSES, _UNITS_OF_WORK),
    (mq.MQGMO_UNLOCK, ~(mq.MQGMO_UNLOCK | mq.MQGMO_FAIL_IF_QUIESCING | mq.MQGMO_NO_SYNCPOINT)),
    (mq.MQGMO_WAIT, mq.MQGMO_SET_SIGNAL),
)
_NEEDS = ((mq.MQGMO_LOCK, BROWSES),)
_KNOWN_MATCHES = 0x3F
_GROUP_MATCHES = mq.MQMO_MATCH_GROUP_ID | mq.MQMO_MATCH_MSG_SEQ_NUMBER | mq.MQMO_MATCH_OFFSET


def check(handle: Handle, wanted: MessageDescriptor, options: GetOptions, buffer_length: int) -> None:
    """Raises Refused for a call that cannot be, whatever is on the queue."""
    flags = options.options
    _check_versions(wanted, options)
    if buffer_length < 0:
        raise Refused(mq.MQRC_BUFFER_LENGTH_ERROR)
    if not _go_together(flags):
        raise Refused(mq.MQRC_OPTIONS_ERROR)
    _check_opened(handle, flags)
    if flags & mq.MQGMO_WAIT and options.wait_interval < mq.MQWI_UNLIMITED:
        raise Refused(mq.MQRC_WAIT_INTERVAL_ERROR)


@lru_cache
def _go_together(flags: int) -> bool:
    several = any((chosen := flags & exclusive) & (chosen - 1) for exclusive in _AT_MOST_ONE)
    contradicting = any(flags & one and flags & other for one, other in _NOT_TOGETHER)
    incomplete = any(flags & one and not flags & needed for one, needed in _NEEDS)
    return not (several or contradicting or incomplete)


def _check_versions(wanted: MessageDescriptor, options: GetOptions) -> None:
    flags = options.options
    if options.version not in (1, 2, 3, 4):
        raise Refused(mq.MQRC_GMO_ERROR)
    if wanted.version not in (1, 2):
        raise Refused(mq.MQRC_MD_ERROR)
    if flags & _GROUPING and options.version < 2:
        raise Refused(mq.MQRC_WRONG_GMO_VERSION)
    if flags & _GROUPING and wanted.version < 2:
        raise Refused(mq.MQRC_WRONG_MD_VERSION)
    if options.version < 2:
        return
    if options.match_options & ~_KNOWN_MATCHES:
        raise Refused(mq.MQRC_MATCH_OPTIONS_ERROR)
    if options.match_options & _GROUP_MATCHES and wanted.version < 2:
        raise Refused(mq.MQRC_WRONG_MD_VERSION)


def _check_opened(handle: Handle, flags: int) -> None:
    if flags & (BROWSES | mq.MQGMO_UNLOCK | mq.MQGMO_MSG_UNDER_CURSOR) and not handle.options & mq.MQOO_BROWSE:
        raise Refused(mq.MQRC_NOT_OPEN_FOR_BROWSE)
    if not flags & (BROWSES | mq.MQGMO_UNLOCK) and not handle.options & mq.MQOO_INPUT:
        raise Refused(mq.MQRC_NOT_OPEN_FOR_INPUT)
