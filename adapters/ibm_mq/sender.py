"""A destination's queue: messages are put under syncpoint, and are sent when the unit of work is committed.

A commit whose outcome is not known counts as failed: the messages are sent again, with the same identifiers.
"""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import structlog

from adapters.ibm_mq.client import Connection, Library, MqiError, Output
from adapters.ibm_mq.descriptor import EXTENSION_SIZE, to_put
from adapters.ibm_mq.reasons import Remedy
from adapters.ibm_mq.settings import DestinationSettings
from adapters.ibm_mq.words import (
    MQIA_CODED_CHAR_SET_ID,
    MQIA_MAX_MSG_LENGTH,
    MQIA_MAX_UNCOMMITTED_MSGS,
)
from app.codecs.ibm_mq.encodings import LATIN_1_CCSID
from app.model.message import PhysicalMessage
from app.ports import SendFailed
from app.wire import WireError

_DEFAULT_MAX_MSG_LENGTH = 4 << 20
_DEFAULT_MAX_UNCOMMITTED = 10_000
_BARE_RFH2 = 64
"""Bytes of an MQRFH2 with a folder `usr`, its properties apart."""

_log = structlog.get_logger(__name__)


class _Link(NamedTuple):
    """A connection with its queue, and what the queue manager allows: bytes of a message, messages of a unit of work.
    `ccsid` is its own character set."""

    connection: Connection
    queue: Output
    max_length: int
    max_uncommitted: int
    ccsid: int


class MqSender:
    """`app.ports.Sender` for IBM MQ."""

    def __init__(self, library: Library, name: str, settings: DestinationSettings) -> None:
        self._library, self._settings = library, settings
        self._log = _log.bind(destination=name, broker=settings.broker, queue=settings.queue)
        self._link: _Link | None = None
        self._status: dict[str, Any] = {"connected": False, "since": None, "error": None}

    def status(self) -> dict[str, Any]:
        return {**self._status, "broker": self._settings.broker, "queue": self._settings.queue}

    def max_body(self) -> int:
        return self._largest(self._open())

    def send(self, messages: Sequence[PhysicalMessage]) -> None:
        link = self._open()
        for message in messages:
            if len(message.body) > self._largest(link):
                why = f"a body of {len(message.body):,} bytes, where the queue manager takes {self._largest(link):,}"
                raise SendFailed(why, permanent=True)
        unit = min(self._settings.batch_messages, link.max_uncommitted)
        try:
            for start in range(0, len(messages), unit):
                for message in messages[start : start + unit]:
                    link.queue.put(to_put(message, self._settings, link.ccsid))
                link.connection.commit()
        except MqiError as error:
            self._fail(link, error)
            raise SendFailed(str(error), permanent=error.remedy is Remedy.FATAL) from error
        except WireError as error:
            self._back_out(link)
            raise SendFailed(str(error), permanent=True) from error

    def close(self) -> None:
        if self._link is not None:
            self._link.connection.close()
            self._link = None
        self._status = {"connected": False, "since": None, "error": None}

    def _largest(self, link: _Link) -> int:
        extension = EXTENSION_SIZE if self._settings.mqmd_version == 1 else 0
        return link.max_length - extension - (_BARE_RFH2 if self._settings.properties == "mqrfh2" else 0)

    def _open(self) -> _Link:
        """The connection, a new one if there is none. One that has died meanwhile shows at the next call."""
        if self._link is None:
            try:
                self._link = self._connect()
            except MqiError as error:
                self._down(error)
                raise SendFailed(str(error)) from error
            self._status = {"connected": True, "since": time.time_ns() // 1000, "error": None}
        return self._link

    def _connect(self) -> _Link:
        settings = self._settings
        connection = Connection(self._library, settings)
        try:
            queue = connection.open_output(settings.queue, settings.remote_queue_manager or "")
            lengths = [connection.readable_attribute(MQIA_MAX_MSG_LENGTH)]
            if settings.remote_queue_manager is None:
                lengths.append(connection.readable_attribute(MQIA_MAX_MSG_LENGTH, settings.queue))
            known = [length for length in lengths if length is not None]
            ccsid: int | None = connection.readable_attribute(MQIA_CODED_CHAR_SET_ID)
            if ccsid is None and settings.mqmd_version == 1:
                self._log.warning("the queue manager's character set is not known, so that an MQMDE may be data to it")
            return _Link(
                connection,
                queue,
                min(known, default=_DEFAULT_MAX_MSG_LENGTH),
                connection.readable_attribute(MQIA_MAX_UNCOMMITTED_MSGS) or _DEFAULT_MAX_UNCOMMITTED,
                ccsid or LATIN_1_CCSID,
            )
        except MqiError:
            connection.close()
            raise

    def _fail(self, link: _Link, error: MqiError) -> None:
        """Backs out what was put since the last commit, and lets go of a connection that is of no use any more."""
        if error.remedy is Remedy.RECONNECT:
            self._down(error)
        else:
            self._back_out(link)

    def _back_out(self, link: _Link) -> None:
        try:
            link.connection.back_out()
        except MqiError as gone:
            self._down(gone)

    def _down(self, error: MqiError) -> None:
        self.close()
        self._log.warning("not connected", error=str(error))
        self._status = {"connected": False, "since": None, "error": str(error)}
