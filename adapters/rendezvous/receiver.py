"""A source's connection to its daemon: it listens to subjects and submits what arrives.

The thread that calls `run` only reads. Another thread submits to the intake, which may wait for the disk. Rendezvous
has no acknowledgements, and a daemon keeps nothing for a client that is not connected: what is published meanwhile is
lost, and so is what the buffer has no room for. Both are logged, and attachments that were being received are not
continued.
"""

import logging
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from threading import Condition, Thread
from threading import Event as StopSignal
from typing import Any

import structlog

from adapters.connections import Backoff, ConnectionState, now
from adapters.rendezvous.client import DaemonClient, DaemonError, Oversized
from adapters.rendezvous.settings import SourceSettings
from app.codecs.rendezvous import daemon, rendezvous_envelope
from app.codecs.rendezvous.daemon import DaemonFrame, DaemonMessageKind
from app.codecs.rendezvous.subjects import ADVISORY, INBOX
from app.model.errors import InvalidInputError
from app.model.framing_facts import FramingTraits
from app.model.message import GAP, MAX_ROWS_A_BATCH, NO_PROPERTIES, PhysicalMessage, footprint
from app.ports import Intake
from app.wire import WireError
from app.wire.kinds import Buffer

_MESSAGE_BYTES = 2048
"""The memory that a message takes in addition to its body and its properties."""
_BATCH_BYTES = 4 << 20


_IDLE = 0.1
_STEADY_AFTER = 10.0
_ADVISORIES = ("_RV.ERROR.SYSTEM.>", "_RV.WARN.SYSTEM.>")
_LEVELS = {"ERROR": logging.ERROR, "WARN": logging.WARNING}
_FRAME_BYTES = 1 << 16
"""The most bytes that a frame has in addition to the message in it."""
_log = structlog.get_logger(__name__)


class ReceiveBuffer:
    """Received messages that wait for the journal, in memory and bounded. One thread puts, one thread takes.

    A daemon stops sending to every client when one of them does not read. So the thread that reads never waits: what
    the buffer has no room for is dropped and counted. The lock of `_changed` guards all fields.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: deque[tuple[PhysicalMessage, InvalidInputError | None, int]] = deque()
        self._changed = Condition()
        self._closed = False
        self.bytes = 0
        self.dropped = 0

    def put(self, message: PhysicalMessage, refusal: InvalidInputError | None = None) -> bool:
        """Add a message. Return False when there is no room for it."""
        size = footprint(message) + _MESSAGE_BYTES
        with self._changed:
            if self._held and self.bytes + size > self._limit:
                self.dropped += 1
                return False
            self._held.append((message, refusal, size))
            self.bytes += size
            self._changed.notify_all()
        return True

    def take(self) -> tuple[list[PhysicalMessage], InvalidInputError | None] | None:
        """Return messages to submit at once, or one that was refused; None once the buffer is closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._held or self._closed)
            if not self._held:
                return None
            messages: list[PhysicalMessage] = []
            taken = 0
            while self._held and len(messages) < MAX_ROWS_A_BATCH and taken < _BATCH_BYTES:
                _, refusal, _ = self._held[0]
                if refusal is not None and messages:
                    break
                message, _, size = self._held.popleft()
                messages.append(message)
                taken += size
                self.bytes -= size
                if refusal is not None:
                    return messages, refusal
            return messages, None

    def close(self) -> None:
        """Accept no more messages."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


class RendezvousReceiver:
    """`app.ports.Receiver` for TIB/Rendezvous."""

    def __init__(self, name: str, framing: FramingTraits, settings: SourceSettings) -> None:
        self._name, self._framing, self._settings = name, framing, settings
        self._address = f"{settings.host}:{settings.port}"
        self._log = _log.bind(source=name, daemon=self._address)
        self._state = ConnectionState(self._log)
        self._buffer = ReceiveBuffer(settings.buffer)
        self._advisories: Counter[str] = Counter(dict.fromkeys(_LEVELS, 0))
        self._was_connected = False
        self._is_dropping = False
        self._gap: str | None = "the source begins to receive"
        """Why messages may be missing before the next one."""
        self._failure: BaseException | None = None
        """Why nothing more can be handed over."""

    def status(self) -> dict[str, Any]:
        status = {
            **self._state.status,
            "broker": self._address,
            "buffered_bytes": self._buffer.bytes,
            "dropped": self._buffer.dropped,
            "advisories": dict(self._advisories),
        }
        if self._buffer.dropped:
            status["warning"] = (
                f"{self._buffer.dropped} messages were dropped: they came faster than they could be written to disk"
            )
        return status

    def resume(self, newest: Iterator[PhysicalMessage]) -> bool:
        """Return False: a daemon keeps nothing for a client that is away."""
        del newest
        return False

    def session(self, name: str | None = None) -> None:
        """Return None: a daemon keeps nothing."""
        del name

    def run(self, intake: Intake, stop: StopSignal) -> None:
        self._buffer = ReceiveBuffer(self._settings.buffer)
        handing = Thread(target=self._hand_over, args=(intake,), name=f"{self._name}-hand-over", daemon=True)
        handing.start()
        backoff = Backoff()
        try:
            while not stop.is_set():
                try:
                    self._connection(stop)
                except DaemonError as error:
                    if self._state.has_lasted(_STEADY_AFTER):
                        backoff.reset()
                    self._state.failed(str(error))
                    backoff.wait(stop)
        finally:
            self._buffer.close()
            handing.join()
            self._state.closed()

    def _connection(self, stop: StopSignal) -> None:
        """Hold one connection from its start to its end. Raises DaemonError when it ends before `stop` is set."""
        self._state.attempt()
        client = DaemonClient(self._settings, self._settings.max_message + _FRAME_BYTES)
        try:
            for subject in (*_ADVISORIES, *self._settings.subject):
                client.listen(subject)
            if self._was_connected:
                self._gap = "the connection to the daemon was broken"
            client.confirm(self._settings.connect_timeout, self._take)
            self._state.opened(session=client.session)
            self._log.info("connection_opened", session=client.session, subjects=self._settings.subject)
            if self._was_connected:
                reason = "what was published without a connection does not come"
                self._log.warning("messages_possibly_lost", reason=reason)
            self._was_connected = True

            while not stop.is_set():
                if self._failure is not None:
                    raise self._failure
                for frame in client.frames(_IDLE):
                    self._take(frame)
                if self._state.has_failed and self._state.has_lasted(_STEADY_AFTER):
                    self._state.recovered()
        finally:
            client.close()

    def _take(self, frame: bytes | Oversized) -> None:
        """Buffer a message of a source, quarantine what cannot be read, and log an advisory."""
        at = now()
        if isinstance(frame, Oversized):
            why = f"a frame of {frame.length:,} bytes; max_message allows {self._settings.max_message:,}"
            self._refuse(frame.head, InvalidInputError("message-too-large", "", -1, why), at)
            return
        try:
            read = daemon.read_frame(frame)
        except WireError as error:
            self._refuse(frame, InvalidInputError("bad-rendezvous-frame", error.row, error.at, error.why), at)
            return
        if read.kind == DaemonMessageKind.ADVISORY or read.subject.startswith(ADVISORY):
            self._on_advisory(read)
        elif read.kind == DaemonMessageKind.DATA and not read.subject.startswith(f"{INBOX}."):
            try:
                message = rendezvous_envelope.read(read, self._name, self._framing, at)
            except InvalidInputError as error:
                self._refuse(read.data, error, at, rendezvous_envelope.subjects(read))
                return
            if self._gap is not None:
                message = message._replace(properties={**message.properties, GAP: self._gap})
            if self._buffer.put(message):
                self._gap = None
            else:
                self._drop()

    def _refuse(
        self, data: Buffer, error: InvalidInputError, received_at: int, subjects: Mapping[str, str] = NO_PROPERTIES
    ) -> None:
        message = PhysicalMessage(
            self._name, self._framing.name, body=data, received_at=received_at, properties=subjects
        )
        if not self._buffer.put(message, error):
            self._drop()

    def _drop(self) -> None:
        """Log that messages are dropped, once until the buffer has room again."""
        self._gap = "messages were dropped that there was no room for"
        if not self._is_dropping:
            self._is_dropping = True
            self._log.error("messages_dropped", buffer=self._settings.buffer, total=self._buffer.dropped)

    def _hand_over(self, intake: Intake) -> None:
        """Submit the buffered messages to the intake, until the buffer is closed and empty."""
        try:
            while (taken := self._buffer.take()) is not None:
                messages, refusal = taken
                if refusal is not None:
                    intake.refuse(messages[0], refusal, _acknowledge_nothing)
                else:
                    intake.submit(messages, _acknowledge_nothing)
                self._is_dropping = self._is_dropping and self._buffer.bytes > self._settings.buffer // 2
        except BaseException as error:  # noqa: BLE001 - the thread that reads raises it
            self._failure = error

    def _on_advisory(self, frame: DaemonFrame) -> None:
        """Log and count an advisory."""
        try:
            fields = daemon.advisory(frame)
        except WireError as error:
            fields = {"unreadable": str(error)}
        level = daemon.advisory_class(frame.subject)
        if daemon.is_loss(frame.subject):
            self._gap = f"the daemon advises {frame.subject}"
        self._advisories[level] += 1
        named = {f"advisory_{name.lower().removeprefix('adv_')}"[:80]: text[:500] for name, text in fields.items()}
        shown = dict(list(named.items())[:20])
        self._log.log(_LEVELS.get(level, logging.INFO), "advisory_received", subject=frame.subject, **shown)


def _acknowledge_nothing() -> None:
    """Do nothing: Rendezvous has no acknowledgements."""
