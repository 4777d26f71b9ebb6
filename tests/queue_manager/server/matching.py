"""Which messages an MQGET accepts, by what its descriptor and options name.

Source: IBM MQ, "MQGMO", MatchOptions. Version 1 of MQGMO stands for matching by MsgId and CorrelId.
"""

from collections.abc import Callable
from operator import attrgetter

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.queue import Message
from tests.queue_manager.server.structures import GetOptions, MessageDescriptor

Accepts = Callable[[Message], bool]

_BY_FIELD = {
    mq.MQMO_MATCH_MSG_ID: ("msg_id", mq.MQ_NO_ID),
    mq.MQMO_MATCH_CORREL_ID: ("correl_id", mq.MQ_NO_ID),
    mq.MQMO_MATCH_GROUP_ID: ("group_id", mq.MQ_NO_ID),
    mq.MQMO_MATCH_MSG_SEQ_NUMBER: ("msg_seq_number", None),
    mq.MQMO_MATCH_OFFSET: ("offset", None),
}
"""By match option, the descriptor's field and the value of it that stands for any."""


def match_options(options: GetOptions) -> int:
    return options.match_options if options.version > 1 else mq.MQMO_MATCH_MSG_ID | mq.MQMO_MATCH_CORREL_ID


def accepts(wanted: MessageDescriptor, options: GetOptions) -> Accepts | None:
    """A test of messages; None when any message will do."""
    chosen = match_options(options)
    wants = {
        name: value
        for option, (name, any_value) in _BY_FIELD.items()
        if chosen & option and (value := getattr(wanted, name)) != any_value
    }
    token = options.msg_token if chosen & mq.MQMO_MATCH_MSG_TOKEN else None
    if not wants and token is None:
        return None
    if not wants:
        return lambda message: message.token == token
    fields = attrgetter(*wants)
    values = next(iter(wants.values())) if len(wants) == 1 else tuple(wants.values())
    return lambda message: fields(message.descriptor) == values and (token is None or message.token == token)
