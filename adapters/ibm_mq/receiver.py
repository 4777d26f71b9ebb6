"""A source's queues: as many connections as the configuration says, each served by its own thread."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from functools import partial
from threading import Event as StopSignal
from typing import Any, TypeVar

import structlog

from adapters.connections import LONGEST_PAUSE, Backoff, LogIn, now
from adapters.ibm_mq.client import Library, MqiError
from adapters.ibm_mq.connect_options import log_in
from adapters.ibm_mq.queue_watch import QueueWatch
from adapters.ibm_mq.reason_codes import Remedy
from adapters.ibm_mq.reply_queues import ReplyQueue, reply_address, reply_to_put
from adapters.ibm_mq.settings import SourceSettings
from adapters.ibm_mq.source_session import SourceSession, UnitLimit
from adapters.ibm_mq.unit_of_work import InDoubt
from app.model.framing_facts import FramingTraits
from app.model.message import PhysicalMessage
from app.ports import Intake, Reply

_IDLE = 0.1
_STEADY_AFTER = 10_000_000

T = TypeVar("T", int, float, str)

_log = structlog.get_logger(__name__)


class MqReceiver:
    """`app.ports.Receiver` for IBM MQ."""

    def __init__(self, library: Library, name: str, framing: FramingTraits, settings: SourceSettings) -> None:
        self._name = name
        self._settings = settings
        self._replies = ReplyQueue()
        places = settings.places()
        self._own_queues = {place.queue for place in places}
        self._queues = [_SourceQueue(library, name, framing, place, self._replies) for place in places]
        self._workers = [worker for queue in self._queues for worker in queue.workers]

    def resume(self, newest: Iterator[PhysicalMessage]) -> bool:
        """Return False: messages of a unit of work that was not committed are delivered again, and nothing
        distinguishes them."""
        del newest
        return False

    def session(self, name: str | None = None) -> None:
        """Return None: the queue keeps the messages, for whoever gets them."""
        del name

    def reply_address(self, message: PhysicalMessage) -> str | None:
        return reply_address(message.properties, self._settings.request_missing_to, self._own_queues)

    def reply(self, reply: Reply) -> None:
        self._replies.add(reply_to_put(reply))

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
        """Return the status: connected while every connection is open. With several queue managers, list each of
        them."""
        statuses = [queue.status() for queue in self._queues]
        if len(statuses) == 1:
            return statuses[0]
        since = [each["since"] for each in statuses]
        return {
            "connected": all(each["connected"] for each in statuses),
            "since": None if None in since else max(since),
            "error": _first_known(each["error"] and f"{each['broker']}: {each['error']}" for each in statuses),
            "warning": _first_known(each["warning"] and f"{each['broker']}: {each['warning']}" for each in statuses),
            "broker": ", ".join(each["broker"] for each in statuses),
            "queue": ", ".join(dict.fromkeys(each["queue"] for each in statuses)),
            "unacknowledged": sum(each["unacknowledged"] for each in statuses),
            "credential": statuses[0]["credential"],
            "refused_since": min((each["refused_since"] for each in statuses if each["refused_since"]), default=None),
            "queue_depth": _combined(sum, (each["queue_depth"] for each in statuses)),
            "queue_filled": _combined(max, (each["queue_filled"] for each in statuses)),
            "oldest_message_seconds": _combined(max, (each["oldest_message_seconds"] for each in statuses)),
            "queue_managers": statuses,
        }


class _SourceQueue:
    """One queue of one queue manager, with its connections."""

    def __init__(
        self,
        library: Library,
        name: str,
        framing: FramingTraits,
        settings: SourceSettings,
        replies: ReplyQueue,
    ) -> None:
        self._settings = settings
        in_doubt = InDoubt()
        self._log_in = log_in(settings)
        self.workers = [
            _Worker(library, name, framing, settings, in_doubt, self._log_in, replies)
            for _ in range(settings.connections)
        ]

    def status(self) -> dict[str, Any]:
        since = [worker.since for worker in self.workers if worker.since is not None]
        connected = len(since) == len(self.workers)
        watches = [worker.watch for worker in self.workers if worker.is_open]
        return {
            "connected": connected,
            "since": max(since) if connected else None,
            "error": _first_known(worker.error for worker in self.workers),
            "warning": _first_known(worker.warning for worker in self.workers),
            "broker": self._settings.broker,
            "queue": self._settings.queue,
            "unacknowledged": sum(worker.unacknowledged for worker in self.workers),
            **self._log_in.status(),
            "queue_depth": _first_known(watch.depth for watch in watches),
            "queue_filled": _first_known(watch.filled for watch in watches),
            "oldest_message_seconds": _first_known(watch.oldest_message_seconds for watch in watches),
        }


def _first_known(each: Iterable[T | None]) -> T | None:
    return next((one for one in each if one is not None), None)


def _combined(combine: Callable[[list[T]], T], each: Iterable[T | None]) -> T | None:
    """Return what is known of several queues together; None if nothing is."""
    known = [one for one in each if one is not None]
    return combine(known) if known else None


class _Worker:
    """Keeps one connection open. Temporary errors are waited out on it; after any other error it is opened again."""

    def __init__(
        self,
        library: Library,
        name: str,
        framing: FramingTraits,
        settings: SourceSettings,
        in_doubt: InDoubt,
        credentials: LogIn,
        replies: ReplyQueue,
    ) -> None:
        self._library, self._name, self._framing, self._settings = library, name, framing, settings
        self._in_doubt, self._log_in, self._replies = in_doubt, credentials, replies
        self._log = _log.bind(source=name, broker=settings.broker, queue=settings.queue)
        self._session: SourceSession | None = None
        self._unit_limit = UnitLimit(settings.batch_messages)
        self._backoff = Backoff(credentials)
        self._last_reason: str | None = None
        self.watch = QueueWatch(settings, self._log)
        self.since: int | None = None
        self.error: str | None = None

    @property
    def is_open(self) -> bool:
        return self._session is not None

    @property
    def unacknowledged(self) -> int:
        session = self._session
        return 0 if session is None else session.unacknowledged

    @property
    def warning(self) -> str | None:
        """Return the fault of a source that receives messages nevertheless."""
        return self.watch.warning if self.is_open else None

    def run(self, intake: Intake, stop: StopSignal) -> None:
        """Connect, receive and reconnect until `stop` is set."""
        self.watch.may_have_others |= intake.has_others
        try:
            while not stop.is_set():
                try:
                    self._connection(intake, stop)
                except MqiError as error:
                    self._wait_after(error, stop)
        finally:
            self.since = self.error = None

    def _connection(self, intake: Intake, stop: StopSignal) -> None:
        """Run one connection from start to end. Raises MqiError when it ends before `stop` is set."""
        session = self._session = SourceSession(
            self._library,
            self._name,
            self._framing,
            self._settings,
            self._in_doubt,
            self._unit_limit,
            intake,
            stop,
            self._log_in,
            self._backoff.reset,
        )
        session.on_waiting = partial(self.watch.inquire_while_paused, session)
        try:
            while not stop.is_set():
                try:
                    message = session.wait()
                    if self.since is None:
                        self.since, self.error = now(), None
                        if self._last_reason is None:
                            self._log.info("connection_opened")
                    if message is not None:
                        session.run_unit(message)
                    session.put_replies(self._replies)
                    self._last_reason = None
                    self.watch.inquire(session, idle=message is None)
                except MqiError as error:
                    if error.remedy is not Remedy.RETRY:
                        raise
                    session.back_out()
                    self._wait_after(error, stop)
        finally:
            self._session = None
            session.close()

    def _wait_after(self, error: MqiError, stop: StopSignal) -> None:
        """Log the reason once and wait, longer each time. Begin with the shortest pause again after a commit, and after
        a connection that lasted."""
        if self._last_reason != str(error):
            self._last_reason = str(error)
            self._log.warning("receiving_failed", reason=self._last_reason)
        if self.since is not None and now() - self.since > _STEADY_AFTER:
            self._backoff.reset()
        self.since, self.error = None, str(error)
        self._backoff.wait(stop, least=LONGEST_PAUSE if error.remedy is Remedy.FATAL else 0.0)
