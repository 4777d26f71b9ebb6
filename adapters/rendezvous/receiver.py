"""A source's connection to its daemon: listens, reads all that comes, and hands it over.

Two threads: the one that calls `run` reads, and does nothing that could take long; another one hands over to the
intake, which may wait for the disk. Rendezvous has no acknowledgements, and a daemon keeps nothing for a client that is
away: what is published while there is no connection is lost, and so is what the buffer has no room for. Both are told
of, and what was being received then is not continued.
"""

import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from threading import Event as StopSignal
from threading import Thread
from typing import Any

import structlog

from adapters.connections import Backoff, connected, not_connected, now
from adapters.rendezvous.client import DaemonClient, DaemonError, Oversized
from adapters.rendezvous.receive_buffer import Buffer
from adapters.rendezvous.settings import SourceSettings
from app.codecs.rendezvous import daemon, rendezvous_envelope
from app.codecs.rendezvous.daemon import DaemonFrame, DaemonMessageKind
from app.codecs.rendezvous.subjects import ADVISORY, INBOX
from app.model.errors import InvalidInputError
from app.model.framing_facts import FramingTraits
from app.model.message import GAP, NO_PROPERTIES, PhysicalMessage
from app.observe import Recurring
from app.ports import Intake
from app.wire import WireError

_IDLE = 0.1
_STEADY_AFTER = 10.0
_ADVISORIES = ("_RV.ERROR.SYSTEM.>", "_RV.WARN.SYSTEM.>")
_LEVELS = {"ERROR": logging.ERROR, "WARN": logging.WARNING}
_FRAME_BYTES = 1 << 16
"""What a frame may have beside the message in it."""

_log = structlog.get_logger(__name__)


class RendezvousReceiver:
    """`app.ports.Receiver` for TIB/Rendezvous."""

    def __init__(self, name: str, framing: FramingTraits, settings: SourceSettings) -> None:
        self._name, self._framing, self._settings = name, framing, settings
        self._address = f"{settings.host}:{settings.port}"
        self._log = _log.bind(source=name, daemon=self._address)
        self._outage = Recurring(self._log, "connection", logging.WARNING)
        self._status = not_connected()
        self._buffer = Buffer(settings.buffer)
        self._advisories: Counter[str] = Counter(dict.fromkeys(_LEVELS, 0))
        self._connected_at: float | None = None
        self._was_connected = False
        self._is_dropping = False
        self._gap: str | None = "the source begins to receive"
        """What the next message is to say of those before it, which may be missing."""
        self._failure: BaseException | None = None
        """Why nothing more can be handed over."""

    def status(self) -> dict[str, Any]:
        status = {
            **self._status,
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

    def run(self, intake: Intake, stop: StopSignal) -> None:
        self._buffer = Buffer(self._settings.buffer)
        handing = Thread(target=self._hand_over, args=(intake,), name=f"{self._name}-hand-over", daemon=True)
        handing.start()
        backoff = Backoff()
        try:
            while not stop.is_set():
                try:
                    self._connection(stop)
                except DaemonError as error:
                    if self._is_steady():
                        backoff.reset()
                    self._down(str(error))
                    backoff.wait(stop)
        finally:
            self._buffer.close()
            handing.join()
            self._status = not_connected()

    def _connection(self, stop: StopSignal) -> None:
        """Hold one connection from its start to its end. Raises DaemonError when it ends before `stop` is set."""
        self._connected_at = None
        client = DaemonClient(self._settings, self._settings.max_message + _FRAME_BYTES)
        try:
            for subject in (*_ADVISORIES, *self._settings.subject):
                client.listen(subject)
            self._mark_gap()
            client.confirm(self._settings.connect_timeout, self._take)
            self._up(client)
            while not stop.is_set():
                if self._failure is not None:
                    raise self._failure
                for frame in client.frames(_IDLE):
                    self._take(frame)
                if self._outage.failures and self._is_steady():
                    self._outage.worked()
        finally:
            client.close()

    def _take(self, frame: bytes | Oversized) -> None:
        """Take a frame in, whatever it is."""
        at = now()
        if isinstance(frame, Oversized):
            why = f"a frame of {frame.length:,} bytes; max_message allows {self._settings.max_message:,}"
            self._refuse(frame.head, "message-too-large", why, at)
            return
        try:
            read = daemon.read_frame(frame)
        except WireError as error:
            self._refuse(frame, "bad-rendezvous-frame", str(error), at)
            return
        if read.kind == DaemonMessageKind.ADVISORY or read.subject.startswith(ADVISORY):
            self._advised(read)
        elif read.kind == DaemonMessageKind.DATA and not read.subject.startswith(f"{INBOX}."):
            try:
                self._put(rendezvous_envelope.read(read, self._name, self._framing, at))
            except InvalidInputError as error:
                self._refuse(frame, error.code, str(error), at, rendezvous_envelope.subjects(read))

    def _put(self, message: PhysicalMessage) -> None:
        if self._gap is not None:
            message = message._replace(properties={**message.properties, GAP: self._gap})
        if self._buffer.put(message):
            self._gap = None
        else:
            self._drop()

    def _refuse(
        self, data: bytes, code: str, why: str, received_at: int, subjects: Mapping[str, str] = NO_PROPERTIES
    ) -> None:
        message = PhysicalMessage(
            self._name, self._framing.name, body=data, received_at=received_at, properties=subjects
        )
        if not self._buffer.put(message, (code, why)):
            self._drop()

    def _drop(self) -> None:
        """Say, once for each time that it begins, that messages are dropped."""
        self._gap = "messages were dropped that there was no room for"
        if not self._is_dropping:
            self._is_dropping = True
            self._log.error("messages_dropped", buffer=self._settings.buffer, total=self._buffer.dropped)

    def _hand_over(self, intake: Intake) -> None:
        """Give the intake what has come, until the buffer is closed and empty."""
        try:
            self._give(intake)
        except BaseException as error:  # noqa: BLE001 - the thread that reads raises it
            self._failure = error

    def _give(self, intake: Intake) -> None:
        while (taken := self._buffer.take()) is not None:
            messages, refusal = taken
            if refusal is not None:
                intake.refuse(messages[0], *refusal, _nothing)
            else:
                intake.submit(messages, _nothing)
            self._is_dropping = self._is_dropping and self._buffer.bytes > self._settings.buffer // 2

    def _advised(self, frame: DaemonFrame) -> None:
        """Log and count an advisory."""
        try:
            told = daemon.advisory(frame)
        except WireError as error:
            told = {"unreadable": str(error)}
        level = daemon.advisory_class(frame.subject)
        if daemon.is_loss(frame.subject):
            self._gap = f"the daemon advises {frame.subject}"
        self._advisories[level] += 1
        self._log.log(_LEVELS.get(level, logging.INFO), "advisory_received", subject=frame.subject, **_facts(told))

    def _mark_gap(self) -> None:
        """Have the next message say that others may be missing before it."""
        if self._was_connected:
            self._gap = "the connection to the daemon was broken"

    def _up(self, client: DaemonClient) -> None:
        self._connected_at = time.monotonic()
        self._status = connected(session=client.session)
        self._log.info("connection_opened", session=client.session, subjects=self._settings.subject)
        if self._was_connected:
            self._log.warning("messages_possibly_lost", reason="what was published without a connection does not come")
        self._was_connected = True

    def _down(self, why: str) -> None:
        self._outage.failed(why)
        self._status = not_connected(why)

    def _is_steady(self) -> bool:
        return self._connected_at is not None and time.monotonic() - self._connected_at > _STEADY_AFTER


def _facts(told: dict[str, str]) -> dict[str, str]:
    """Return what an advisory says, as fields of a log event."""
    return {f"advisory_{name.lower().removeprefix('adv_')}"[:80]: text[:500] for name, text in list(told.items())[:20]}


def _nothing() -> None:
    """Acknowledge nothing: there is nobody who waits for it."""
