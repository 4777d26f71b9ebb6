"""Which messages an MQGET accepts, by what its descriptor and options name and by where its handle is.

Sources: IBM MQ, "MQGMO", MatchOptions and MQGMO_LOGICAL_ORDER. Version 1 of MQGMO stands for matching by MsgId and
CorrelId. In logical order GroupId, MsgSeqNumber and Offset are the queue manager's to say, but for the GroupId of a
group that is to begin.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.handle import LogicalOrder
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


def accepts(wanted: MessageDescriptor, options: GetOptions, order: LogicalOrder) -> Accepts | None:
    """A test of messages; None when any message will do."""
    chosen = options.match_options if options.version > 1 else mq.MQMO_MATCH_MSG_ID | mq.MQMO_MATCH_CORREL_ID
    wants = {
        name: value
        for option, (name, any_value) in _BY_FIELD.items()
        if chosen & option and (value := getattr(wanted, name)) != any_value
    }
    if options.options & mq.MQGMO_LOGICAL_ORDER:
        wants |= _next(order)
    token = options.msg_token if chosen & mq.MQMO_MATCH_MSG_TOKEN else None
    if not wants and token is None:
        return None
    if not wants:
        return lambda message: message.token == token
    fields = attrgetter(*wants)
    values = next(iter(wants.values())) if len(wants) == 1 else tuple(wants.values())
    return lambda message: fields(message.descriptor) == values and (token is None or message.token == token)


def _next(order: LogicalOrder) -> dict[str, Any]:
    """What follows in logical order; when nothing is begun, whatever begins something."""
    wants = {"msg_seq_number": order.next_sequence, "offset": order.next_offset}
    return {"group_id": order.group_id, **wants} if order.active else wants
