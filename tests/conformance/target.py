"""The queue manager under test: the test double, or the one that the environment names."""

import importlib.util
import os
from dataclasses import dataclass, field
from itertools import count
from types import ModuleType
from typing import Any, Protocol

import pytest

from app.testing.waiting import until
from tests.conformance.calls import Session
from tests.support.mqi import Library
from tests.support.queue_manager import QueueManager

CONNECT = """
import importlib, sys
library, name, channel, connection_name, user, password, *queues = sys.argv[1:]
mq = importlib.import_module(library)
connection = mq.QueueManager(None)
connection.connect_tcp_client(name, mq.CD(), channel, connection_name, user or None, password or None)
"""
"""The beginning of a program for a process of its own."""

MODEL = "SYSTEM.DEFAULT.MODEL.QUEUE"


class Queues(Protocol):
    """Where a test's queues come from."""

    def new(self, mq: ModuleType, connection: Any, attributes: dict[str, Any]) -> str:
        """An empty local queue's name."""


class Defined:
    """Queues defined on the double, with attributes."""

    def __init__(self, double: QueueManager) -> None:
        self._double = double
        self._numbers = count(1)

    def new(self, mq: ModuleType, connection: Any, attributes: dict[str, Any]) -> str:
        name = f"QUEUE.{next(self._numbers)}"
        self._double.define(name, **attributes)
        return name


class Lent:
    """Queues that exist already, one after the other; a test finds them empty."""

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self._taken = count()

    def new(self, mq: ModuleType, connection: Any, attributes: dict[str, Any]) -> str:
        _refuse(attributes)
        name = self._names[next(self._taken) % len(self._names)]
        session = Session(mq, connection)
        session.bodies(session.source(name))
        return name


class Dynamic:
    """Queues made from a model queue. A temporary one lives as long as the handle that made it, so this keeps it."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._made: list[Any] = []

    def new(self, mq: ModuleType, connection: Any, attributes: dict[str, Any]) -> str:
        _refuse(attributes)
        od = mq.OD(ObjectName=self._model.encode(), DynamicQName=b"CONFORMANCE.*")
        made = mq.Queue(connection, od, mq.CMQC.MQOO_INQUIRE)
        self._made.append(made)
        if made.inquire(mq.CMQC.MQIA_SHAREABILITY) != mq.CMQC.MQQA_SHAREABLE:
            pytest.fail(f"{self._model} makes queues that only one may get from: it needs SHARE", pytrace=False)
        name: str = od.ObjectName.decode().strip(" \0")
        return name

    def drop(self, mq: ModuleType) -> None:
        for queue in self._made:
            queue.close(mq.CMQC.MQCO_DELETE_PURGE)
        self._made.clear()


def _refuse(attributes: dict[str, Any]) -> None:
    if attributes:
        pytest.skip(f"needs a queue defined with {', '.join(attributes)}")


@dataclass
class Target:
    """A queue manager, the library that reaches it, and what it lets a test do."""

    library: Library
    mq: ModuleType
    name: str
    channel: str
    connection_name: str
    user: str | None = None
    password: str | None = None
    double: QueueManager | None = None
    environment: dict[str, str] = field(default_factory=dict)

    def connect(self, options: int | None = None, **changes: Any) -> Any:
        """MQCONNX as a client, with a handle that threads share unless `options` says otherwise.

        `changes` replace name, channel, connection_name, user or password.
        """
        c = self.mq.CMQC
        to = {**vars(self), **changes}
        cd = self.mq.CD(
            ChannelName=to["channel"].encode(),
            ConnectionName=to["connection_name"].encode(),
            ChannelType=self.mq.CMQXC.MQCHT_CLNTCONN,
            TransportType=self.mq.CMQXC.MQXPT_TCP,
        )
        connection = self.mq.QueueManager(None)
        connection.connect_with_options(
            to["name"],
            user=to["user"],
            password=to["password"],
            cd=cd,
            opts=c.MQCNO_HANDLE_SHARE_BLOCK if options is None else options,
        )
        return connection

    def arguments(self) -> list[str]:
        """How another process gets here: the arguments of a program that begins with CONNECT."""
        return [self.library, self.name, self.channel, self.connection_name, self.user or "", self.password or ""]

    def waits(self, session: Session, queue: str, count: int = 1) -> None:
        """Returns when so many wait in MQGET for the queue; a real queue manager tells only that it is open."""
        c = self.mq.CMQC
        if self.double is not None:
            double = self.double
            until(lambda: double.status(queue)["waiters"] == count)
        else:
            inquiry = session.open(queue, c.MQOO_INQUIRE)
            until(lambda: inquiry.inquire(c.MQIA_OPEN_INPUT_COUNT) == count)


def libraries() -> list[Library]:
    """The libraries to test with: on a real queue manager those that are installed, on the double both."""
    names: list[Library] = ["pymqi", "ibmmq"]
    if "MQ_QUEUE_MANAGER" not in os.environ:
        return names
    return [name for name in names if importlib.util.find_spec(name)] or names
