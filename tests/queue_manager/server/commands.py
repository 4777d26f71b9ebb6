"""The command server: answers programmable command format (PCF) messages on SYSTEM.ADMIN.COMMAND.QUEUE.

It knows what tests and the libraries ask: commands about queues and the queue manager (`queuecommands`), about
channels, namelists and connections (`objectcommands`), and about authority (`authoritycommands`). Source: IBM MQ,
"Programmable command formats reference".
"""

from collections.abc import Callable
from dataclasses import dataclass

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server import pcf
from tests.queue_manager.server.authoritycommands import AUTHORITY_COMMANDS
from tests.queue_manager.server.errors import Refused
from tests.queue_manager.server.manager import COMMAND_QUEUE, QueueManager
from tests.queue_manager.server.objectcommands import OBJECT_COMMANDS
from tests.queue_manager.server.queue import Message, Queue
from tests.queue_manager.server.queuecommands import QUEUE_COMMANDS
from tests.queue_manager.server.structures import set_default_place, trimmed
from tests.queue_manager.server.unit import store

_UNKNOWN_COMMAND = 3007

_Command = Callable[[QueueManager, pcf.Parameters], list[pcf.Record] | None]


def _ping(manager: QueueManager, parameters: pcf.Parameters) -> None:
    """There is nothing to do."""


def _unknown(manager: QueueManager, parameters: pcf.Parameters) -> None:
    raise Refused(_UNKNOWN_COMMAND)


_COMMANDS: dict[int, _Command] = {40: _ping, **QUEUE_COMMANDS, **OBJECT_COMMANDS, **AUTHORITY_COMMANDS}
"""By MQCMD number."""


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
        completion, reason, number = mq.MQCC_OK, mq.MQRC_NONE, 0
        records: list[pcf.Record] = [[]]
        try:
            number, parameters = pcf.read(command.data)
            records = _COMMANDS.get(number, _unknown)(self.manager, parameters) or [[]]
        except Refused as refused:
            completion, reason = refused.completion, refused.reason
        outcome, ccsid = pcf.Outcome(number, completion, reason), self.manager.settings.ccsid
        for sequence, record in enumerate(records, 1):
            data = pcf.response(outcome, sequence, record, ccsid, last=sequence == len(records))
            self._reply(command, reply_to, data)
        reply_to.serve()

    def _reply(self, command: Message, to: Queue, data: bytes) -> None:
        descriptor = command.descriptor.copy()
        set_default_place(descriptor)
        descriptor.msg_type, descriptor.format = mq.MQMT_REPLY, mq.MQFMT_ADMIN
        descriptor.correl_id, descriptor.msg_id = command.descriptor.msg_id, self.manager.new_id()
        descriptor.expiry, descriptor.persistence = mq.MQEI_UNLIMITED, mq.MQPER_NOT_PERSISTENT
        to.add(Message(descriptor, data, to, self.manager.number()))
