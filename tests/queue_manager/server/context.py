"""Message context: who put a message, when and for whom.

Source: IBM MQ, "Message context", and the context options of "MQPMO" and "MQOPEN".
"""

import os
from functools import lru_cache
from time import gmtime, strftime, time

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.errors import Refused
from tests.queue_manager.server.handle import Handle
from tests.queue_manager.server.structures import MessageDescriptor, blanked, padded

IDENTITY = ("user_identifier", "accounting_token", "appl_identity_data")
ORIGIN = ("put_appl_type", "put_appl_name", "put_date", "put_time", "appl_origin_data")

_CHARACTER_FIELDS = (
    "user_identifier",
    "appl_identity_data",
    "put_appl_name",
    "put_date",
    "put_time",
    "appl_origin_data",
)

_CHOICES = {
    mq.MQPMO_NO_CONTEXT: (0, 0),
    mq.MQPMO_DEFAULT_CONTEXT: (0, 0),
    mq.MQPMO_PASS_IDENTITY_CONTEXT: (mq.MQOO_PASS_IDENTITY_CONTEXT, mq.MQRC_NOT_OPEN_FOR_PASS_IDENT),
    mq.MQPMO_PASS_ALL_CONTEXT: (mq.MQOO_PASS_ALL_CONTEXT, mq.MQRC_NOT_OPEN_FOR_PASS_ALL),
    mq.MQPMO_SET_IDENTITY_CONTEXT: (mq.MQOO_SET_IDENTITY_CONTEXT, mq.MQRC_NOT_OPEN_FOR_SET_IDENT),
    mq.MQPMO_SET_ALL_CONTEXT: (mq.MQOO_SET_ALL_CONTEXT, mq.MQRC_NOT_OPEN_FOR_SET_ALL),
}
"""By put option, the open option that it needs and the reason when that was not given."""
_ANY_CHOICE = sum(_CHOICES)
_SETTING = mq.MQPMO_SET_IDENTITY_CONTEXT | mq.MQPMO_SET_ALL_CONTEXT
_PASSING = mq.MQPMO_PASS_IDENTITY_CONTEXT | mq.MQPMO_PASS_ALL_CONTEXT

_NONE = {
    "user_identifier": b" " * 12,
    "accounting_token": bytes(32),
    "appl_identity_data": b" " * 32,
    "put_appl_type": mq.MQAT_NO_CONTEXT,
    "put_appl_name": b" " * 28,
    "put_date": b" " * 8,
    "put_time": b" " * 8,
    "appl_origin_data": b" " * 4,
}
_USER_NUMBER = str(os.getuid()).encode()
_ACCOUNTING_TOKEN = bytes([len(_USER_NUMBER)]) + _USER_NUMBER.ljust(30, b"\0") + b"\x06"
"""The length of a user number, the number, and in the last byte what it is: a number of a UNIX user."""


def check_context(options: int, handle: Handle | None) -> None:
    """Raises Refused where a put's context options do not fit together or the object was not opened for them.

    MQPUT1 opens its object for whatever it says, and has no handle.
    """
    chosen = options & _ANY_CHOICE
    if chosen & (chosen - 1):
        raise Refused(mq.MQRC_OPTIONS_ERROR)
    needed, reason = _CHOICES[chosen or mq.MQPMO_DEFAULT_CONTEXT]
    if needed and handle is not None and not handle.options & needed:
        raise Refused(reason)


def saved_context(options: int, source: Handle | None) -> MessageDescriptor | None:
    """The context that a put passes on, None when it passes none. Raises Refused when there is nothing to pass."""
    if not options & _PASSING:
        return None
    if source is None or not source.options & mq.MQOO_SAVE_ALL_CONTEXT:
        raise Refused(mq.MQRC_CONTEXT_HANDLE_ERROR)
    if source.context is None:
        raise Refused(mq.MQRC_CONTEXT_NOT_AVAILABLE)
    return source.context


def set_context(
    descriptor: MessageDescriptor,
    options: int,
    passed: MessageDescriptor | None,
    user: str,
    application: bytes,
) -> None:
    """Fills in the descriptor's context as the put options say."""
    for name in _CHARACTER_FIELDS if options & _SETTING else ():
        setattr(descriptor, name, blanked(getattr(descriptor, name)))
    if options & mq.MQPMO_SET_ALL_CONTEXT:
        return
    if options & mq.MQPMO_NO_CONTEXT:
        for name, value in _NONE.items():
            setattr(descriptor, name, value)
        return
    if passed is not None:
        taken = IDENTITY + ORIGIN if options & mq.MQPMO_PASS_ALL_CONTEXT else IDENTITY
        for name in taken:
            setattr(descriptor, name, getattr(passed, name))
    elif not options & mq.MQPMO_SET_IDENTITY_CONTEXT:
        descriptor.user_identifier = padded(user, 12)
        descriptor.accounting_token = _ACCOUNTING_TOKEN
        descriptor.appl_identity_data = b" " * 32
    if not options & mq.MQPMO_PASS_ALL_CONTEXT:
        descriptor.put_appl_type = mq.MQAT_UNIX
        descriptor.put_appl_name = application
        descriptor.put_date, descriptor.put_time = now()
        descriptor.appl_origin_data = b" " * 4


def now() -> tuple[bytes, bytes]:
    """PutDate, YYYYMMDD, and PutTime, HHMMSSTH with tenths and hundredths of a second, in GMT."""
    hundredths = int(time() * 100)
    date_and_time = _to_the_second(hundredths // 100)
    return date_and_time[:8], b"%b%02d" % (date_and_time[8:], hundredths % 100)


@lru_cache(maxsize=1)
def _to_the_second(second: int) -> bytes:
    return strftime("%Y%m%d%H%M%S", gmtime(second)).encode()
