"""The tests' own door to the queue manager: JSON in, JSON out."""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.channelagent import run_channel
from tests.queue_manager.server.faults import Fault
from tests.queue_manager.server.queue import Attributes
from tests.queue_manager.server.wire import Reply, Verb

if TYPE_CHECKING:
    from tests.queue_manager.server.connection import Connection


def control(connection: "Connection", body: bytes) -> Reply:
    """Does what `{"do": name, ...}` says; the reply is JSON too."""
    request = json.loads(body)
    try:
        result = _COMMANDS[request.pop("do")](connection, **request)
    except KeyError:
        return Reply(mq.MQCC_FAILED, mq.MQRC_UNKNOWN_OBJECT_NAME)
    return Reply(parts=(json.dumps(result).encode(),))


def _define(connection: "Connection", queue: str, attributes: dict[str, Any]) -> None:
    connection.manager.define(queue, Attributes(**attributes))


def _alter(connection: "Connection", queue: str, attributes: dict[str, Any]) -> None:
    connection.manager.alter(connection.manager.queues[queue], **attributes)


def _clear(connection: "Connection", queue: str) -> None:
    connection.manager.clear(connection.manager.queues[queue])


def _status(connection: "Connection", queue: str) -> dict[str, Any]:
    found = connection.manager.queues[queue]
    return {
        "depth": found.held,
        "curdepth": found.depth,
        "uncommitted": found.uncommitted,
        "inputs": found.inputs,
        "outputs": found.outputs,
        "handles": found.handles,
        "waiters": len(found.waiters),
        "attributes": asdict(found.attributes),
    }


def _run_channel(connection: "Connection", transmission_queue: str) -> int:
    return run_channel(connection.manager, connection.manager.queues[transmission_queue])


def _fault(connection: "Connection", verb: str | None, **how: Any) -> None:
    connection.manager.faults.plan(Fault(None if verb is None else Verb[verb], **how))


def _forget_faults(connection: "Connection") -> None:
    connection.manager.faults.forget()


def _held(connection: "Connection") -> list[tuple[str | None, int, str]]:
    return [(each.queue, each.process, each.verb.name) for each in connection.manager.faults.held]


def _go_on(connection: "Connection", queue: str, process: int) -> None:
    faults = connection.manager.faults
    going = [each for each in faults.held if (each.queue, each.process) == (queue, process)]
    faults.held = [each for each in faults.held if each not in going]
    for each in going:
        each.go_on()


def _break_connections(connection: "Connection", queue: str | None = None, process: int | None = None) -> None:
    for other in connection.manager.connections - {connection}:
        if (queue is None or queue in other.queues) and process in (None, other.process):
            other.frames.abort()


def _quiesce(connection: "Connection", on: bool) -> None:
    connection.manager.quiesce(on)


_COMMANDS: dict[str, Callable[..., Any]] = {
    "define": _define,
    "alter": _alter,
    "clear": _clear,
    "status": _status,
    "run_channel": _run_channel,
    "fault": _fault,
    "forget_faults": _forget_faults,
    "held": _held,
    "go_on": _go_on,
    "break_connections": _break_connections,
    "quiesce": _quiesce,
}
