"""The command server: answers programmable command format (PCF) messages on SYSTEM.ADMIN.COMMAND.QUEUE.

It knows what tests and the libraries ask: ping, inquiries about queues and the queue manager, and creating, changing,
clearing and deleting queues. Sources: IBM MQ, "Programmable command formats reference" and "Structures for commands and
responses".
"""

import operator
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.errors import Refused
from tests.queue_manager.server.inquiring import MANAGER, QUEUE, Attribute
from tests.queue_manager.server.manager import COMMAND_QUEUE, QueueManager
from tests.queue_manager.server.queue import Attributes, Message, Queue
from tests.queue_manager.server.structures import padded, set_default_place, trimmed
from tests.queue_manager.server.unit import store

_HEADER = struct.Struct("=9i")
_PARAMETER = struct.Struct("=3i")
_INTEGER, _STRING, _INTEGER_LIST = 3, 4, 5
_INTEGER_FILTER, _STRING_FILTER = 13, 14
_RESPONSE = 2
_ALL_ATTRIBUTES = 1009

_Q_TYPE, _Q_NAME, _Q_MGR_ATTRS, _Q_ATTRS, _REPLACE, _PURGE = 20, 2016, 1001, 1002, 1006, 1007

_PCF_UNKNOWN_COMMAND = 3007
_PCF_OBJECT_ALREADY_EXISTS = 4001
_PCF_OBJECT_OPEN = 4004
_PCF_FILTER_ERROR = 3150
_FILTER = -1

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


class Filter(NamedTuple):
    """What an attribute must be for its object to be told of."""

    selector: int
    operator: int
    value: int | str

    def lets_pass(self, value: int | str) -> bool:
        kept: bool = _OPERATORS[self.operator](value, self.value)
        return kept


def _like(text: Any, pattern: Any) -> bool:
    return fnmatchcase(text.rstrip(), pattern)


_OPERATORS: dict[int, Callable[[Any, Any], bool]] = {
    1: operator.lt,
    2: operator.eq,
    3: operator.le,
    4: operator.gt,
    5: operator.ne,
    6: operator.ge,
    18: _like,
    21: lambda text, pattern: not _like(text, pattern),
}
"""By MQCFOP number."""

Parameters = dict[int, Any]
Records = list[list[tuple[int, int | str]]]
"""For each object that an inquiry found, selectors and values."""


@dataclass(eq=False)
class CommandServer:
    """Takes commands off their queue as they arrive, like a program that waits there for ever."""

    manager: QueueManager
    specific: bool = False

    def __post_init__(self) -> None:
        self.queue = self.manager.queue(COMMAND_QUEUE)
        self.queue.waiters.append(self)

    def retry(self) -> None:
        for command in list(self.queue.after()):
            self.queue.remove(command)
            store(self.manager.log, (), (command,))
            self._answer(command)

    def fail(self, reason: int) -> None:
        """It waits on, whatever happens to others."""

    def _answer(self, command: Message) -> None:
        reply_to = self.manager.queues.get(trimmed(command.descriptor.reply_to_q))
        if reply_to is None:
            return
        number, parameters = _read(command.data)
        completion, reason, records = mq.MQCC_OK, mq.MQRC_NONE, Records()
        try:
            records = _COMMANDS.get(number, _unknown)(self.manager, parameters) or [[]]
        except Refused as refused:
            completion, reason, records = refused.completion, refused.reason, [[]]
        for sequence, record in enumerate(records, 1):
            last = sequence == len(records)
            head = (_RESPONSE, _HEADER.size, 1, number, sequence, int(last), completion, reason, len(record))
            body = b"".join(_written(self.manager.settings.ccsid, *attribute) for attribute in record)
            self._reply(command, reply_to, _HEADER.pack(*head) + body)
        reply_to.serve()

    def _reply(self, command: Message, to: Queue, data: bytes) -> None:
        descriptor = command.descriptor.copy()
        set_default_place(descriptor)
        descriptor.msg_type, descriptor.format = mq.MQMT_REPLY, mq.MQFMT_ADMIN
        descriptor.correl_id, descriptor.msg_id = command.descriptor.msg_id, self.manager.new_id()
        descriptor.expiry, descriptor.persistence = mq.MQEI_UNLIMITED, mq.MQPER_NOT_PERSISTENT
        to.add(Message(descriptor, data, to, self.manager.number()))


def _read(data: bytes) -> tuple[int, Parameters]:
    """The command and its parameters."""
    _, at, _, command, *_, count = _HEADER.unpack_from(data)
    parameters: Parameters = {}
    for _ in range(count):
        kind, length, name = _PARAMETER.unpack_from(data, at)
        value = _value(kind, data[at : at + length])
        # A filter may stand beside a parameter of the same name; there is one of them at most.
        parameters[_FILTER if isinstance(value, Filter) else name] = value
        at += length
    return command, parameters


def _value(kind: int, parameter: bytes) -> Any:
    if kind == _INTEGER:
        return struct.unpack_from("=i", parameter, 12)[0]
    if kind == _STRING:
        (length,) = struct.unpack_from("=i", parameter, 16)
        return trimmed(parameter[20 : 20 + length])
    if kind == _INTEGER_LIST:
        (count,) = struct.unpack_from("=i", parameter, 12)
        return struct.unpack_from(f"={count}i", parameter, 16)
    if kind == _INTEGER_FILTER:
        return Filter(*struct.unpack_from("=3i", parameter, 8))
    if kind == _STRING_FILTER:
        selector, how, _, length = struct.unpack_from("=4i", parameter, 8)
        return Filter(selector, how, trimmed(parameter[24 : 24 + length]))
    return None


def _written(ccsid: int, selector: int, value: int | str) -> bytes:
    """A parameter of a response."""
    if isinstance(value, int):
        return struct.pack("=4i", _INTEGER, 16, selector, value)
    text = padded(value, -(-len(value) // 4) * 4)
    return struct.pack("=5i", _STRING, 20 + len(text), selector, ccsid, len(value)) + text


# --- commands -----------------------------------------------------------------------------------------------------


def _ping(manager: QueueManager, parameters: Parameters) -> None:
    """There is nothing to do."""


def _unknown(manager: QueueManager, parameters: Parameters) -> None:
    raise Refused(_PCF_UNKNOWN_COMMAND)


def _create(manager: QueueManager, parameters: Parameters) -> None:
    if parameters[_Q_NAME] in manager.queues and not parameters.get(_REPLACE):
        raise Refused(_PCF_OBJECT_ALREADY_EXISTS)
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
        raise Refused(_PCF_OBJECT_OPEN)
    if queue.uncommitted or (queue.depth and not parameters.get(_PURGE)):
        raise Refused(mq.MQRC_Q_NOT_EMPTY)
    manager.delete(queue)


def _inquire_queues(manager: QueueManager, parameters: Parameters) -> Records:
    pattern, wanted = parameters[_Q_NAME], parameters.get(_Q_ATTRS)
    always = [_Q_NAME, _Q_TYPE]
    found = [queue for name, queue in manager.queues.items() if fnmatchcase(name, pattern)]
    if (filter_ := parameters.get(_FILTER)) is not None:
        found = [queue for queue in found if _passes(queue, filter_)]
        always.append(filter_.selector)
    if not found:
        raise Refused(mq.MQRC_UNKNOWN_OBJECT_NAME)
    return [
        [(selector, value) for selector, value in _attributes(queue, QUEUE, wanted, tuple(always))] for queue in found
    ]


def _passes(queue: Queue, filter_: Filter) -> bool:
    """Whether a queue has the attribute of a filter, with a value that it lets pass."""
    if filter_.selector not in QUEUE or filter_.operator not in _OPERATORS:
        raise Refused(_PCF_FILTER_ERROR)
    attribute = QUEUE[filter_.selector]
    if queue.attributes.type not in attribute.types:
        return False
    value = attribute.read(queue)
    return filter_.lets_pass(value.rstrip() if isinstance(value, str) else value)


def _inquire_manager(manager: QueueManager, parameters: Parameters) -> Records:
    return [list(_attributes(manager, MANAGER, parameters.get(_Q_MGR_ATTRS), (2015,)))]


def _attributes(
    of: Any, table: dict[int, Attribute], wanted: tuple[int, ...] | None, always: tuple[int, ...]
) -> Iterator[tuple[int, int | str]]:
    every = wanted is None or _ALL_ATTRIBUTES in wanted
    for selector, attribute in table.items():
        asked = every or selector in always or (wanted is not None and selector in wanted)
        if asked and not (isinstance(of, Queue) and of.attributes.type not in attribute.types):
            value = attribute.read(of)
            yield selector, value.ljust(attribute.length) if isinstance(value, str) else value


_COMMANDS: dict[int, Callable[[QueueManager, Parameters], Records | None]] = {
    2: _inquire_manager,
    8: _change,
    9: _clear,
    11: _create,
    12: _delete,
    13: _inquire_queues,
    40: _ping,
}
"""By MQCMD number."""
