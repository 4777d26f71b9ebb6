"""A private queue manager: the test double of IBM MQ, in a separate process, on a free port."""

import json
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from tests.support.mosquitto import free_port

_ROOT = Path(__file__).parents[2]
_CONTROL = 99
_REQUEST = struct.Struct("=II")
_REPLY = struct.Struct("=Iii")
_FAILED = 2


class QueueManager:
    """A queue manager that keeps its queues, persistent messages and their backout counts over `stop` and `kill`.

    The queues DEV.QUEUE.1, DEV.QUEUE.2, SYSTEM.DEAD.LETTER.QUEUE, SYSTEM.DEFAULT.MODEL.QUEUE and
    SYSTEM.ADMIN.COMMAND.QUEUE are there from the start. `options` are those of
    `tests.queue_manager.server.manager.Settings`.
    """

    channel = "DEV.APP.SVRCONN"

    def __init__(self, folder: Path, name: str = "QM1", *, ccsid: int = 1208, **options: Any) -> None:
        self.name, self.port = name, free_port()
        self._folder = folder
        self._settings = {"name": name, "ccsid": ccsid, "channel": self.channel, **options}
        self._process: subprocess.Popen[str] | None = None

    @property
    def connection_name(self) -> str:
        return f"127.0.0.1({self.port})"

    def __enter__(self) -> "QueueManager":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- the process ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Return when the queue manager accepts connections."""
        self._folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "tests.queue_manager.server", str(self._folder), str(self.port)]
        with (self._folder / "errors").open("ab") as errors:
            self._process = subprocess.Popen(
                [*command, json.dumps(self._settings)],
                cwd=_ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self._process.stdout is not None
        with self._process.stdout as output:
            if output.readline() != "ready\n":
                self.kill()
                raise RuntimeError((self._folder / "errors").read_text())

    def stop(self) -> None:
        """Stop it in order: waiting calls get MQRC_Q_MGR_STOPPING, units of work are backed out."""
        self._end(signal.SIGTERM)

    def restart(self, **options: Any) -> None:
        """Stop and start it, with some of its options changed."""
        self.stop()
        self._settings.update(options)
        self.start()

    def kill(self) -> None:
        """Kill it at once."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.send_signal(how)
            self._process.stdin.close()
            self._process.wait(30)
            self._process = None

    # --- queues ---------------------------------------------------------------------------------------------------

    def define(self, queue: str, **attributes: Any) -> None:
        """Define a queue, or define an existing one again, with its messages.

        `attributes` are those of `tests.queue_manager.server.queue.Attributes`: a local queue by default, an alias
        queue with `target`, a remote one with `rname` and `rqmname`, a model one with `model`.
        """
        self._control("define", queue=queue, attributes=attributes)

    def alter(self, queue: str, **attributes: Any) -> None:
        """Change some attributes; waiting programs are notified."""
        self._control("alter", queue=queue, attributes=attributes)

    def clear(self, queue: str) -> None:
        """Remove all committed messages."""
        self._control("clear", queue=queue)

    def depth(self, queue: str) -> int:
        """Return the number of messages on the queue, uncommitted ones included."""
        depth: int = self.status(queue)["depth"]
        return depth

    def status(self, queue: str) -> dict[str, Any]:
        """Return the state of a queue.

        The keys are `depth`, `uncommitted` of these, its CURDEPTH (`curdepth`), open `handles` (and those for `inputs`,
        for `outputs`), `waiters`, and the `attributes`.
        """
        status: dict[str, Any] = self._control("status", queue=queue)
        return status

    def run_channel(self, transmission_queue: str) -> int:
        """Deliver the messages of a transmission queue to their queues; return the number of delivered messages.

        The queues are looked up on this queue manager, which stands for the remote one. Messages that cannot be
        delivered go to the dead-letter queue.
        """
        moved: int = self._control("run_channel", transmission_queue=transmission_queue)
        return moved

    # --- faults ---------------------------------------------------------------------------------------------------

    def fault(
        self,
        verb: str,
        *,
        reason: int | None = None,
        delay: float = 0,
        lose: Literal["before", "after"] | None = None,
        skip: int = 0,
        times: int = 1,
    ) -> None:
        """Plan a fault of the next `times` calls of a verb ("MQGET") of any connection, after `skip` of them.

        The fault occurs after `delay` seconds. With `reason` the calls fail with it and have no effect (but MQCMIT with
        MQRC_BACKED_OUT backs out). With `lose` the connection breaks before, or after, they have their effect.
        """
        self._control("fault", verb=verb, reason=reason, delay=delay, lose=lose, skip=skip, times=times)

    def hold(self, queue: str, skip: int, when: Literal["before", "after"]) -> None:
        """Hold a call of the connections that have this queue open, any call after `skip` of them, until `go_on`.

        It waits before it has its effect, or its reply waits after that.
        """
        self._control(
            "fault",
            verb=None,
            queue=queue,
            hold=when,
            skip=skip,
            times=1,
            reason=None,
            delay=0,
            lose=None,
        )

    def held(self) -> list[tuple[str, int, str]]:
        """Return the calls that are held: each the queue, the number of the calling process, and the verb."""
        return [(queue, process, verb) for queue, process, verb in self._control("held")]

    def go_on(self, queue: str, process: int) -> None:
        """Let a call that is held go on."""
        self._control("go_on", queue=queue, process=process)

    def forget_faults(self) -> None:
        """Let no more of the planned faults occur; what is held stays so."""
        self._control("forget_faults")

    def break_connections(self, queue: str | None = None, process: int | None = None) -> None:
        """Break all connections, or those that have this queue open and are of this process.

        This is also what the queue manager does to a program that does not answer its heartbeats.
        """
        self._control("break_connections", queue=queue, process=process)

    def quiesce(self, on: bool = True) -> None:
        """Begin to quiesce the queue manager, or cancel that."""
        self._control("quiesce", on=on)

    def _control(self, command: str, **arguments: Any) -> Any:
        body = json.dumps({"do": command, **arguments}).encode()
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.sendall(_REQUEST.pack(4 + len(body), _CONTROL) + body)
            with connection.makefile("rb") as replies:
                length, completion, reason = _REPLY.unpack(replies.read(_REPLY.size))
                result = replies.read(length - 8)
        if completion == _FAILED:
            raise RuntimeError(f"{command}: reason {reason}")
        return json.loads(result)
