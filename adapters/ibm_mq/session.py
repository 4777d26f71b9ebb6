"""One connection of a source, from its start to its end.

Messages are got under syncpoint and go to the intake while more are got, so that the journal writes and the queue
manager delivers at the same time. A unit of work ends with an empty queue or at its limit; then the journal is waited
for, and what is durable is committed.

A message that was backed out twice ends its unit, so that one that makes the process die takes no others along, time
after time, up to their backout threshold. Once may be any restart.
"""

from threading import Event as StopSignal

import structlog

from adapters.ibm_mq.client import Connection, Library, MqiError, MqMessage
from adapters.ibm_mq.descriptor import descriptor_to_get, received
from adapters.ibm_mq.doubt import InDoubt
from adapters.ibm_mq.poison import Poison
from adapters.ibm_mq.settings import SourceSettings
from adapters.ibm_mq.unit import Unit
from adapters.ibm_mq.words import MQIA_MAX_UNCOMMITTED_MSGS
from app.codecs.ibm_mq.unwrap import unwrap
from app.model.message import PhysicalMessage
from app.ports import Intake
from app.wire import WireError

_GLANCE = 0.02
_FAREWELL = 0.5
_LONGEST_UNIT = 60.0
_TWICE = 2

_log = structlog.get_logger(__name__)


class Session:
    """Opened when this is made. All methods raise MqiError when a call fails."""

    def __init__(
        self,
        library: Library,
        name: str,
        framing: str,
        settings: SourceSettings,
        in_doubt: InDoubt,
        intake: Intake,
        stop: StopSignal,
    ) -> None:
        self._name, self._framing, self._settings = name, framing, settings
        self._in_doubt, self._intake, self._stop = in_doubt, intake, stop
        self._log = _log.bind(source=name, broker=settings.broker, queue=settings.queue)
        self._connection = Connection(library, settings)
        self.unacknowledged = 0
        try:
            descriptor = descriptor_to_get(settings.mqmd_version)
            self._queue = self._connection.open_input(settings.queue, descriptor, settings.wait)
            self._poison = Poison(self._connection, self._queue, settings)
            allowed: int = self._connection.readable_attribute(MQIA_MAX_UNCOMMITTED_MSGS) or settings.batch_messages
            self._most = min(settings.batch_messages, max(1, allowed - 1))  # one is left for a message set aside
        except MqiError:
            self._connection.close()
            raise

    def wait(self) -> MqMessage | None:
        """A message, if one comes within the time that the settings give."""
        return self._queue.get(wait=True)

    def carry(self, message: MqMessage) -> None:
        """One unit of work, from its first message to its end."""
        unit = Unit(self._intake)
        try:
            self._fill(unit, message)
            if self._is_durable(unit):
                self._connection.commit()
            else:
                self._give_back(unit)
        except MqiError:
            unit.submit()
            if unit.wait(_FAREWELL):
                self._in_doubt.remember(unit.journalled)
            raise
        finally:
            self.unacknowledged = 0

    def back_out(self) -> None:
        self._connection.back_out()

    def close(self) -> None:
        self._connection.close()

    def _fill(self, unit: Unit, first: MqMessage) -> None:
        """Gets and hands over until all of it is durable with the queue empty, or until the unit is at its limit."""
        message: MqMessage | None = first
        while True:
            if message is None:
                unit.submit()
                if unit.wait(_GLANCE):
                    break
            elif self._take(unit, message) or self._is_full(unit):
                break
            # Whatever is got from here on is in the unit of work, and has to be taken before the loop may end.
            if self._stop.is_set() or unit.age > _LONGEST_UNIT:
                break
            self.unacknowledged = unit.count
            message = self._queue.get()
        unit.submit()

    def _is_full(self, unit: Unit) -> bool:
        return unit.count >= self._most or unit.bytes >= self._settings.batch_bytes

    def _take(self, unit: Unit, message: MqMessage) -> bool:
        """Puts a message into the unit; true when the unit must end with it."""
        if self._in_doubt.recall(message):
            unit.note(message)
            return False
        found, backed_out = received(message, self._name, self._framing)
        if self._poison.threshold and backed_out >= self._poison.threshold:
            self._set_aside(unit, message, found, backed_out)
            return True
        unit.note(message)
        try:
            unit.take(unwrap(found))
        except WireError as error:
            unit.refuse(found, "bad-mq-header", str(error))
        return backed_out >= _TWICE

    def _set_aside(self, unit: Unit, message: MqMessage, found: PhysicalMessage, backed_out: int) -> None:
        if (taken_by := self._poison.set_aside(message)) is not None:
            self._log.warning("set aside: backed out too often", backed_out=backed_out, to=taken_by)
            return
        why = f"backed out {backed_out} times, where {self._poison.threshold} are too many, and no queue takes it"
        unit.note(message)
        unit.refuse(found, "backed-out", why)

    def _is_durable(self, unit: Unit) -> bool:
        """Waits for the journal, but not for ever, and not long when the gateway stops."""
        while not unit.wait(_GLANCE):
            if self._stop.is_set():
                return unit.wait(_FAREWELL)
            if unit.age > _LONGEST_UNIT:
                return False
        return True

    def _give_back(self, unit: Unit) -> None:
        """Backs out, and gets nothing more until the journal has what will come again."""
        self._connection.back_out()
        if not self._stop.is_set():
            self._log.warning("backed out: the journal takes too long", messages=unit.count)
        while not self._stop.is_set():
            if unit.wait(_FAREWELL):
                self._in_doubt.remember(unit.journalled)
                return
