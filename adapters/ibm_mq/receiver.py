"""A source's queue: messages are got under syncpoint, and the unit of work is committed when the journal has them.

One thread a connection does all of it. Messages go to the intake in pieces while more are got, so that the journal
writes and the queue manager delivers at the same time; the unit ends with an empty queue or at its limit, and then only
the journal is waited for. The journal's thread does nothing but count what is durable.

A message that was backed out twice ends its unit, so that one that makes the process die takes no others along, time
after time, up to their backout threshold. Once may be any restart.

After a commit whose outcome is not known (the connection broke while it was made) the messages of that unit are
remembered until the queue has shown what it still has of them: those come again, and are in the journal already.
"""

import random
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from itertools import islice
from threading import Condition
from threading import Event as StopSignal
from typing import Any

import structlog

from adapters.ibm_mq.client import Connection, Input, Library, MqiError, MqMessage
from adapters.ibm_mq.descriptor import descriptor_to_get, received
from adapters.ibm_mq.poison import Poison
from adapters.ibm_mq.reasons import Remedy
from adapters.ibm_mq.settings import SourceSettings
from app.codecs.ibm_mq.unwrap import unwrap
from app.model.message import PhysicalMessage
from app.ports import Intake
from app.wire import WireError

_SUBMIT_MESSAGES = 64
_SUBMIT_BYTES = 2 << 20
_IDLE = 0.1
_GLANCE = 0.02
_FAREWELL = 0.5
_LONGEST_UNIT = 60.0
_TWICE = 2
_MOST_IN_DOUBT = 20_000
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 30.0
_STEADY_AFTER = 10.0

_log = structlog.get_logger(__name__)

Identity = tuple[bytes, bytes, int]
"""A message's identifiers and its body's hash."""


class MqReceiver:
    """`app.ports.Receiver` for IBM MQ."""

    def __init__(self, library: Library, name: str, framing: str, settings: SourceSettings) -> None:
        self._name, self._settings = name, settings
        in_doubt: dict[Identity, None] = {}
        self._workers = [_Worker(library, name, framing, settings, in_doubt) for _ in range(settings.connections)]

    def run(self, intake: Intake, stop: StopSignal) -> None:
        ending = StopSignal()
        with ThreadPoolExecutor(len(self._workers), thread_name_prefix=self._name) as pool:
            running = [pool.submit(worker.run, intake, ending) for worker in self._workers]
            while not stop.is_set() and not wait(running, _IDLE, FIRST_COMPLETED).done:
                pass
            ending.set()
        for each in running:
            each.result()

    def status(self) -> dict[str, Any]:
        """Connected while every one of its connections stands."""
        since = [worker.since for worker in self._workers if worker.since is not None]
        errors = [worker.error for worker in self._workers if worker.error is not None]
        connected = len(since) == len(self._workers)
        return {
            "connected": connected,
            "since": max(since) if connected else None,
            "error": errors[0] if errors else None,
            "broker": self._settings.broker,
            "queue": self._settings.queue,
            "unacknowledged": sum(worker.unacknowledged for worker in self._workers),
        }


class _Unit:
    """One unit of work: what was got in it, and how much of that is on disk."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._changed = Condition()
        self._held: list[PhysicalMessage] = []
        self._held_bytes = self._undurable = 0
        self.messages: list[PhysicalMessage] = []
        self.count = self.bytes = 0
        self._began = time.monotonic()

    @property
    def age(self) -> float:
        return time.monotonic() - self._began

    def take(self, received: PhysicalMessage, unwrapped: PhysicalMessage) -> None:
        self._held.append(unwrapped)
        self._held_bytes += len(unwrapped.body)
        self._note(received)
        if len(self._held) >= _SUBMIT_MESSAGES or self._held_bytes >= _SUBMIT_BYTES:
            self.submit()

    def submit(self) -> None:
        """Hands over what is held back; blocks while the intake does."""
        if self._held:
            held, self._held, self._held_bytes = self._held, [], 0
            self._expect()
            self._intake.submit(held, self._durable)

    def refuse(self, received: PhysicalMessage, code: str, why: str) -> None:
        self._note(received)
        self._expect()
        self._intake.refuse(received, code, why, self._durable)

    def skip(self, size: int) -> None:
        """Counts a message that needs no journal."""
        self.count += 1
        self.bytes += size

    def wait(self, timeout: float) -> bool:
        """Whether all that was submitted is durable, at the latest after `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._undurable, timeout)

    def _note(self, received: PhysicalMessage) -> None:
        self.messages.append(received)
        self.skip(len(received.body))

    def _expect(self) -> None:
        with self._changed:
            self._undurable += 1

    def _durable(self) -> None:
        with self._changed:
            self._undurable -= 1
            self._changed.notify_all()


class _Worker:
    """One connection of a source."""

    def __init__(
        self, library: Library, name: str, framing: str, settings: SourceSettings, in_doubt: dict[Identity, None]
    ) -> None:
        self._library, self._name, self._framing, self._settings = library, name, framing, settings
        self._in_doubt = in_doubt
        self._descriptor = descriptor_to_get(settings.mqmd_version)
        self._log = _log.bind(source=name, broker=settings.broker, queue=settings.queue)
        self._pause = _FIRST_PAUSE
        self.since: int | None = None
        self.error: str | None = None
        self.unacknowledged = 0

    def run(self, intake: Intake, stop: StopSignal) -> None:
        """Connects, receives and reconnects until `stop` is set."""
        try:
            while not stop.is_set():
                began = time.monotonic()
                try:
                    self._connection(intake, stop)
                except MqiError as error:
                    self._rest(error, began, stop)
        finally:
            self.since = self.error = None

    def _connection(self, intake: Intake, stop: StopSignal) -> None:
        """One connection from its start to its end. Raises MqiError when it ends before `stop` is set."""
        connection = Connection(self._library, self._settings)
        try:
            queue = connection.open_input(self._settings.queue, self._descriptor)
            poison = Poison(connection, queue, self._settings)
            while not stop.is_set():
                began = time.monotonic()
                try:
                    message = queue.get(self._settings.wait)
                    self._up()
                    if message is not None:
                        self._unit(connection, queue, poison, message, intake, stop)
                except MqiError as error:
                    if error.remedy is not Remedy.RETRY:
                        raise
                    connection.back_out()
                    self._rest(error, began, stop)
        finally:
            self.unacknowledged = 0
            connection.close()

    def _unit(
        self,
        connection: Connection,
        queue: Input,
        poison: Poison,
        first: MqMessage,
        intake: Intake,
        stop: StopSignal,
    ) -> None:
        """Gets and hands over until the queue is empty or the unit at its limit, then commits what is durable."""
        unit = _Unit(intake)
        message: MqMessage | None = first
        while not stop.is_set() and unit.age < _LONGEST_UNIT:
            if message is None:
                unit.submit()
                if unit.wait(_GLANCE):
                    break
            elif self._take(unit, poison, message) or self._is_full(unit):
                break
            self.unacknowledged = unit.count
            message = queue.get()
        unit.submit()
        if self._is_durable(unit, stop):
            self._commit(connection, unit)
        else:
            connection.back_out()
            self._outlast(unit, stop)
        self.unacknowledged = 0

    def _is_full(self, unit: "_Unit") -> bool:
        return unit.count >= self._settings.batch_messages or unit.bytes >= self._settings.batch_bytes

    def _take(self, unit: "_Unit", poison: Poison, message: MqMessage) -> bool:
        """Puts a message into the unit; true when the unit must end with it."""
        found, backed_out = received(message, self._name, self._framing)
        if poison.threshold and backed_out >= poison.threshold:
            self._set_aside(unit, poison, message, found, backed_out)
        elif self._in_doubt and _identity(found) in self._in_doubt:
            self._in_doubt.pop(_identity(found), None)
            unit.skip(len(found.body))
        else:
            try:
                unit.take(found, unwrap(found))
            except WireError as error:
                unit.refuse(found, "bad-mq-header", str(error))
        return backed_out >= _TWICE

    def _set_aside(
        self, unit: "_Unit", poison: Poison, message: MqMessage, found: PhysicalMessage, backed_out: int
    ) -> None:
        if (taken_by := poison.set_aside(message)) is not None:
            unit.skip(len(message.body))
            self._log.warning("set aside: backed out too often", backed_out=backed_out, to=taken_by)
            return
        why = f"backed out {backed_out} times, where {poison.threshold} are too many, and no queue takes it"
        unit.refuse(found, "backed-out", why)

    @staticmethod
    def _is_durable(unit: "_Unit", stop: StopSignal) -> bool:
        """Waits for the journal, but not for ever, and not long when the gateway stops."""
        while not unit.wait(_GLANCE):
            if stop.is_set():
                return unit.wait(_FAREWELL)
            if unit.age > _LONGEST_UNIT:
                return False
        return True

    def _commit(self, connection: Connection, unit: "_Unit") -> None:
        try:
            connection.commit()
        except MqiError:
            self._remember(unit)
            raise

    def _outlast(self, unit: "_Unit", stop: StopSignal) -> None:
        """Gets nothing more until the journal has what was backed out, and will come again."""
        if not stop.is_set():
            self._log.warning("backed out: the journal took too long", messages=unit.count)
        while not stop.is_set():
            if unit.wait(_FAREWELL):
                self._remember(unit)
                return

    def _remember(self, unit: "_Unit") -> None:
        self._in_doubt.update((_identity(message), None) for message in unit.messages)
        for oldest in list(islice(self._in_doubt, max(0, len(self._in_doubt) - _MOST_IN_DOUBT))):
            self._in_doubt.pop(oldest, None)

    # --- up and down ----------------------------------------------------------------------------------------------

    def _up(self) -> None:
        if self.since is None:
            self.since, self.error = _now(), None
            self._log.info("connected")

    def _rest(self, error: MqiError, began: float, stop: StopSignal) -> None:
        """Says why nothing is got, once, and waits longer each time, from the start again after a steady while."""
        if self.error != str(error):
            self._log.warning("not receiving", error=str(error))
        self.since, self.error = None, str(error)
        if time.monotonic() - began > _STEADY_AFTER:
            self._pause = _FIRST_PAUSE
        if error.remedy is Remedy.FATAL:
            self._pause = _LONGEST_PAUSE
        stop.wait(self._pause * random.uniform(0.5, 1))  # noqa: S311
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)


def _identity(message: PhysicalMessage) -> Identity:
    return message.message_id, message.correl_id, hash(bytes(message.body))


def _now() -> int:
    return time.time_ns() // 1000
