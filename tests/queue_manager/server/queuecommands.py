"""Commands about queues and the queue manager: inquiring, and creating, changing, clearing and deleting queues.

Source: IBM MQ, "Programmable command formats reference", the pages of the commands.
"""

from collections.abc import Callable
from typing import Any

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.errors import Refused
from tests.queue_manager.server.inquiring import MANAGER, QUEUE
from tests.queue_manager.server.manager import QueueManager
from tests.queue_manager.server.pcf import FILTER, Parameters, Record
from tests.queue_manager.server.queue import Attributes
from tests.queue_manager.server.selecting import attributes_of, select

_Q_TYPE, _Q_NAME, _Q_MGR_ATTRS, _Q_ATTRS, _REPLACE, _PURGE = 20, 2016, 1001, 1002, 1006, 1007
_Q_MGR_NAME = 2015

_OBJECT_ALREADY_EXISTS = 4001
_OBJECT_OPEN = 4004

_SETTINGS: dict[int, tuple[str, Callable[[Any], Any]]] = {
    5: ("defpsist", bool),
    6: ("defprty", int),
    9: ("get_enabled", lambda inhibited: not inhibited),
    10: ("put_enabled", lambda inhibited: not inhibited),
    12: ("usage", lambda transmission: "XMITQ" if transmission else "NORMAL"),
    13: ("maxmsgl", int),
    15: ("maxdepth", int),
    22: ("bothresh", int),
    2002: ("target", str),
    2013: ("descr", str),
    2017: ("rqmname", str),
    2018: ("rname", str),
    2019: ("boqname", str),
    2024: ("xmitq", str),
}
"""By parameter, the attribute that it sets and how to read its value."""


def _create(manager: QueueManager, parameters: Parameters) -> None:
    if parameters[_Q_NAME] in manager.queues and not parameters.get(_REPLACE):
        raise Refused(_OBJECT_ALREADY_EXISTS)
    model = parameters.get(_Q_TYPE) == mq.MQQT_MODEL
    manager.define(parameters[_Q_NAME], Attributes(**_settings(parameters), model=model))


def _change(manager: QueueManager, parameters: Parameters) -> None:
    manager.alter(manager.queue(parameters[_Q_NAME]), **_settings(parameters))


def _settings(parameters: Parameters) -> dict[str, Any]:
    return {name: read(parameters[selector]) for selector, (name, read) in _SETTINGS.items() if selector in parameters}


def _clear(manager: QueueManager, parameters: Parameters) -> None:
    queue = manager.queue(parameters[_Q_NAME])
    if queue.handles:
        raise Refused(mq.MQRC_OBJECT_IN_USE)
    if queue.uncommitted:
        raise Refused(mq.MQRC_Q_NOT_EMPTY)
    manager.clear(queue)


def _delete(manager: QueueManager, parameters: Parameters) -> None:
    queue = manager.queue(parameters[_Q_NAME])
    if queue.handles:
        raise Refused(_OBJECT_OPEN)
    if queue.uncommitted or (queue.depth and not parameters.get(_PURGE)):
        raise Refused(mq.MQRC_Q_NOT_EMPTY)
    manager.delete(queue)


def _inquire_queues(manager: QueueManager, parameters: Parameters) -> list[Record]:
    always = (_Q_NAME, _Q_TYPE)
    found = select(manager.queues.items(), parameters[_Q_NAME], QUEUE, parameters.get(FILTER))
    if not found:
        raise Refused(mq.MQRC_UNKNOWN_OBJECT_NAME)
    return [attributes_of(queue, QUEUE, parameters.get(_Q_ATTRS), always, parameters.get(FILTER)) for queue in found]


def _inquire_manager(manager: QueueManager, parameters: Parameters) -> list[Record]:
    return [attributes_of(manager, MANAGER, parameters.get(_Q_MGR_ATTRS), (_Q_MGR_NAME,))]


QUEUE_COMMANDS: dict[int, Callable[[QueueManager, Parameters], list[Record] | None]] = {
    2: _inquire_manager,
    8: _change,
    9: _clear,
    11: _create,
    12: _delete,
    13: _inquire_queues,
}
"""By MQCMD number."""
