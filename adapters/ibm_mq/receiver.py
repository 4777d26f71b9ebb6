"""A source's queue: as many connections as the configuration says, each kept up by a thread of its own."""

import random
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from threading import Event as StopSignal
from typing import Any

import structlog

from adapters.ibm_mq.client import Library, MqiError
from adapters.ibm_mq.doubt import InDoubt
from adapters.ibm_mq.reasons import Remedy
from adapters.ibm_mq.session import Session
from adapters.ibm_mq.settings import SourceSettings
from app.ports import Intake

_IDLE = 0.1
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 30.0
_STEADY_AFTER = 10_000_000

_log = structlog.get_logger(__name__)


class MqReceiver:
    """`app.ports.Receiver` for IBM MQ."""

    def __init__(self, library: Library, name: str, framing: str, settings: SourceSettings) -> None:
        self._name, self._settings = name, settings
        in_doubt = InDoubt()
        self._workers = [_Worker(library, name, framing, settings, in_doubt) for _ in range(settings.connections)]

    def run(self, intake: Intake, stop: StopSignal) -> None:
        ending = StopSignal()
        with ThreadPoolExecutor(len(self._workers), thread_name_prefix=f"receive {self._name}") as pool:
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


class _Worker:
    """Keeps one connection up: what may pass is waited out on it, after anything else it is made anew."""

    def __init__(self, library: Library, name: str, framing: str, settings: SourceSettings, in_doubt: InDoubt) -> None:
        self._library, self._name, self._framing, self._settings = library, name, framing, settings
        self._in_doubt = in_doubt
        self._log = _log.bind(source=name, broker=settings.broker, queue=settings.queue)
        self._session: Session | None = None
        self._pause = _FIRST_PAUSE
        self._said: str | None = None
        self.since: int | None = None
        self.error: str | None = None

    @property
    def unacknowledged(self) -> int:
        session = self._session
        return 0 if session is None else session.unacknowledged

    def run(self, intake: Intake, stop: StopSignal) -> None:
        """Connects, receives and reconnects until `stop` is set."""
        try:
            while not stop.is_set():
                try:
                    self._connection(intake, stop)
                except MqiError as error:
                    self._rest(error, stop)
        finally:
            self.since = self.error = None

    def _connection(self, intake: Intake, stop: StopSignal) -> None:
        """One connection from its start to its end. Raises MqiError when it ends before `stop` is set."""
        session = self._session = Session(
            self._library, self._name, self._framing, self._settings, self._in_doubt, intake, stop
        )
        try:
            while not stop.is_set():
                try:
                    message = session.wait()
                    self._up()
                    if message is not None:
                        session.carry(message)
                    self._said = None
                except MqiError as error:
                    if error.remedy is not Remedy.RETRY:
                        raise
                    session.back_out()
                    self._rest(error, stop)
        finally:
            self._session = None
            session.close()

    def _up(self) -> None:
        if self.since is None:
            self.since, self.error = _now(), None
            if self._said is None:
                self._log.info("connected")

    def _rest(self, error: MqiError, stop: StopSignal) -> None:
        """Says why nothing is got, once, and waits longer each time, from the start again after a steady while."""
        if self._said != str(error):
            self._said = str(error)
            self._log.warning("not receiving", error=self._said)
        if self.since is not None and _now() - self.since > _STEADY_AFTER:
            self._pause = _FIRST_PAUSE
        self.since, self.error = None, str(error)
        if error.remedy is Remedy.FATAL:
            self._pause = _LONGEST_PAUSE
        stop.wait(self._pause * random.uniform(0.5, 1))  # noqa: S311
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)


def _now() -> int:
    return time.time_ns() // 1000
