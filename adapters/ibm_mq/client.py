"""The interface to the client library: pymqi, or ibmmq, which has the same classes.

The libraries pack and unpack some thirty fields one by one for every message. This module avoids that cost: it passes
packed descriptors. MQGET writes into the very bytes that it is given, so each call gets fresh ones.

A connection and everything opened with it belong to one thread at a time. MQDISC commits, so `Connection.close` backs
out first, and only `Connection.commit` ever commits.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import structlog

from adapters.connections import LogIn
from adapters.ibm_mq.connect_options import connect_options
from adapters.ibm_mq.constants import (
    MQCC_WARNING,
    MQGMO_ACCEPT_TRUNCATED_MSG,
    MQGMO_BROWSE_FIRST,
    MQGMO_FAIL_IF_QUIESCING,
    MQGMO_NO_SYNCPOINT,
    MQGMO_VERSION_2,
    MQMO_MATCH_CORREL_ID,
    MQMO_NONE,
    MQOO_BIND_ON_OPEN,
    MQOO_BROWSE,
    MQOO_FAIL_IF_QUIESCING,
    MQOO_INQUIRE,
    MQOO_OUTPUT,
    MQOT_Q_MGR,
    MQPMO_FAIL_IF_QUIESCING,
    MQPMO_NO_SYNCPOINT,
    MQPMO_PASS_ALL_CONTEXT,
    MQPMO_SYNCPOINT,
)
from adapters.ibm_mq.reason_codes import (
    BROKEN,
    MQRC_NO_MSG_AVAILABLE,
    MQRC_NOT_AUTHORIZED,
    QUIESCING,
    Remedy,
    remedy,
    spoken,
)
from adapters.ibm_mq.settings import ConnectionSettings
from app.codecs.ibm_mq.headers import MQMD2, put_time_in

Library = Any
"""The module `pymqi` or `ibmmq`; neither has type hints."""

_log = structlog.get_logger(__name__)

_LIBRARIES = ("pymqi", "ibmmq")
_NO_TRACING = "MQIPY_NOOTEL"
"""The environment variable that turns off ibmmq's OpenTelemetry. It is read when ibmmq is imported."""


def import_library(name: str) -> Library:
    """Import a client library without its own tracing. Raises ImportError.

    Where OpenTelemetry is installed, ibmmq adds properties to messages. Its MQDISC then holds a lock for which it may
    wait itself, when another connection is collected meanwhile.
    """
    os.environ.setdefault(_NO_TRACING, "1")
    return import_module(name)


def find_library() -> Library:
    """Return the client library that is installed. Raises ImportError, which says what to install."""
    refusals = []
    for name in _LIBRARIES:
        try:
            return import_library(name)
        except ImportError as refusal:
            refusals.append(f"{name}: {refusal}")
    raise ImportError(
        "it needs IBM MQ's client and its Python library. Install the IBM MQ redistributable client, then "
        f"pip install pymqi (the extra 'mq') or ibmmq (the extra 'mq-ibmmq'): {'; '.join(refusals)}"
    )


class MqiError(Exception):
    """A failed call of the MQI: the verb, its object and the reason code."""

    def __init__(self, verb: str, what: str, reason: int, *, took_message: bool = False) -> None:
        super().__init__(f"{verb} {what}: {spoken(reason)}" if what else f"{verb}: {spoken(reason)}")
        self.reason = reason
        self.took_message = took_message
        """Whether an MQGET got a message in the unit of work without all of its data."""

    @property
    def remedy(self) -> Remedy:
        return remedy(self.reason)

    @property
    def may_pass(self) -> bool:
        """Tell whether the same call may succeed later, although nobody changes it or the configuration."""
        return self.remedy is Remedy.RETRY or self.reason in QUIESCING

    @property
    def is_broken(self) -> bool:
        """Tell whether the connection has failed, and not only this call."""
        return self.reason in BROKEN


class MqMessage(NamedTuple):
    """A message in the form of the MQI: the MQMD of 324 or 364 bytes in this machine's encoding, and the data."""

    descriptor: bytes
    body: bytes


class Connection:
    """A connection to a queue manager, opened by the constructor, which raises MqiError as all methods do."""

    def __init__(self, library: Library, settings: ConnectionSettings, log_in: LogIn) -> None:
        self.library = library
        self._manager = library.QueueManager(None)
        options = connect_options(library, settings)
        try:
            with self.calling("MQCONNX", settings.broker):
                self._manager.connect_with_options(settings.queue_manager, **options)
        except MqiError as error:
            if error.reason == MQRC_NOT_AUTHORIZED:
                log_in.refused()
            raise
        log_in.accepted()

    def open_output(self, queue: str, queue_manager: str = "") -> "OutputQueue":
        """Open a queue to put to. If it is a cluster queue, all messages go to one instance as long as it is open."""
        object_descriptor = self.library.OD(ObjectName=queue.encode(), ObjectQMgrName=queue_manager.encode())
        opened = self.open(object_descriptor, MQOO_OUTPUT | MQOO_BIND_ON_OPEN | MQOO_FAIL_IF_QUIESCING, queue)
        return OutputQueue(self, opened, queue)

    def attribute(self, selector: int, queue: str | None = None) -> Any:
        """Return an attribute of a queue, or of the queue manager, as MQINQ gives it: an integer, or a name without
        trailing blanks."""
        # pymqi inquires the queue manager by the name that was connected to, which may be a group's.
        target = queue or self.library.OD(ObjectType=MQOT_Q_MGR)
        with self.calling("MQINQ", queue or "queue manager"):
            opened = self.library.Queue(self._manager, target, MQOO_INQUIRE)
            value = opened.inquire(selector)
            opened.close()
        text = value.decode("latin-1") if isinstance(value, bytes) else value
        return text.rstrip("\0 ") if isinstance(text, str) else text

    def readable_attribute(self, selector: int, queue: str | None = None) -> Any:
        """Return what `attribute` returns. Return None without authority, or if an alias or remote queue has no such
        attribute."""
        try:
            return self.attribute(selector, queue)
        except MqiError as error:
            if error.is_broken:
                raise
            _log.info("inquiry_failed", reason=str(error), selector=selector)
            return None

    def first_put_time(self, queue: str) -> int:
        """Return when the first message that a queue offers was put, in microseconds since 1970.

        Return 0 if the queue offers none, or if the descriptor has no valid time. The message stays on the queue.
        """
        descriptor = self.library.MD()
        options = self.library.GMO(
            Version=MQGMO_VERSION_2,
            Options=MQGMO_BROWSE_FIRST | MQGMO_NO_SYNCPOINT | MQGMO_ACCEPT_TRUNCATED_MSG | MQGMO_FAIL_IF_QUIESCING,
            MatchOptions=MQMO_NONE,
        )
        described = self.library.OD(ObjectName=queue.encode())
        opened = self.open(described, MQOO_BROWSE | MQOO_FAIL_IF_QUIESCING, queue)
        try:
            with self.calling("MQGET", queue, warnings=False):
                opened.get(0, descriptor, options)
        except MqiError as error:
            if error.reason != MQRC_NO_MSG_AVAILABLE:
                raise
            return 0
        finally:
            with suppress(MqiError):
                self.close_queue(opened, queue)
        return put_time_in((descriptor.PutDate + descriptor.PutTime).decode("latin-1"))

    def get_short(self, queue: Any, name: str, most: int, options: int, correl_id: bytes | None = None) -> bytes | None:
        """Get a message from an open queue, with this CorrelId or with any, and return its data; None when there is
        none. Of one that is longer than `most` bytes, nothing is returned."""
        descriptor = self.library.MD(Version=2, **({} if correl_id is None else {"CorrelId": correl_id}))
        get_options = self.library.GMO(
            Version=MQGMO_VERSION_2,
            Options=options | MQGMO_ACCEPT_TRUNCATED_MSG | MQGMO_FAIL_IF_QUIESCING,
            MatchOptions=MQMO_NONE if correl_id is None else MQMO_MATCH_CORREL_ID,
        )
        body: bytes = b""
        try:
            with self.calling("MQGET", name, warnings=False):
                body = queue.get(most, descriptor, get_options)
        except MqiError as error:
            if error.reason != MQRC_NO_MSG_AVAILABLE:
                raise
            return None
        return body

    def put_aside(self, queue: str, message: MqMessage, context: int) -> None:
        """Put a message to another queue, in the same unit of work and with the context of the message.

        `context` is the handle of the queue that the message was got from. A queue manager that quiesces accepts it:
        the unit of work can end.
        """
        options = self.library.PMO(Options=MQPMO_SYNCPOINT | MQPMO_PASS_ALL_CONTEXT, Context=context)
        descriptor = packed(self.library.MD, padded(message.descriptor))
        with self.calling("MQPUT1", queue, warnings=False):
            self._manager.put1(self.library.OD(ObjectName=queue.encode()), message.body, descriptor, options)

    def put_alone(self, queue: str, queue_manager: str, message: MqMessage) -> None:
        """Put a message to a queue, in no unit of work."""
        described = self.library.OD(ObjectName=queue.encode(), ObjectQMgrName=queue_manager.encode())
        options = self.library.PMO(Options=MQPMO_NO_SYNCPOINT | MQPMO_FAIL_IF_QUIESCING)
        with self.calling("MQPUT1", queue, warnings=False):
            self._manager.put1(described, message.body, packed(self.library.MD, padded(message.descriptor)), options)

    def commit(self) -> None:
        with self.calling("MQCMIT", ""):
            self._manager.commit()

    def back_out(self) -> None:
        with self.calling("MQBACK", ""):
            self._manager.backout()

    def close(self) -> None:
        """Back out and disconnect. Ignore errors of a connection that is already broken."""
        with suppress(MqiError):
            self.back_out()
        with suppress(self.library.Error):
            self._manager.disconnect()

    @contextmanager
    def calling(self, verb: str, what: str, *, warnings: bool = True) -> Iterator[None]:
        """Turn the library's error into MqiError.

        The libraries raise errors for warnings too. After a warning from MQPUT the message was put, and after one of
        truncated data it was got: `warnings` False ignores them.
        """
        try:
            yield
        except self.library.MQMIError as error:
            if warnings or error.comp != MQCC_WARNING:
                raise MqiError(verb, what, error.reason) from error

    def open(self, described: Any, options: int, queue: str) -> Any:
        """Open the queue that an MQOD describes. The MQOD receives the resolved names."""
        with self.calling("MQOPEN", queue):
            return self.library.Queue(self._manager, described, options)

    def close_queue(self, opened: Any, queue: str) -> None:
        with self.calling("MQCLOSE", queue):
            opened.close()


class OutputQueue:
    """A queue to put to, under syncpoint."""

    def __init__(self, connection: Connection, queue: Any, name: str) -> None:
        library = connection.library
        self._connection, self._queue, self._name = connection, queue, name
        self._descriptor = packed(library.MD)
        self._options = packed(library.PMO, library.PMO(Options=MQPMO_SYNCPOINT | MQPMO_FAIL_IF_QUIESCING).pack())

    def put(self, message: MqMessage) -> None:
        self._descriptor.template = padded(message.descriptor)
        with self._connection.calling("MQPUT", self._name, warnings=False):
            self._queue.put(message.body, self._descriptor, self._options)


def packed(structure: type, template: bytes | bytearray = b"") -> Any:
    """Return one of the library's structures without its fields: it packs as `template`, and `returned` holds the bytes
    that a call wrote."""
    made = _packed_class(structure)()
    made.template, made.returned = bytearray(template), b""
    return made


@cache
def _packed_class(structure: type) -> type:
    def pack(self: Any) -> bytes:
        return bytes(self.template)

    def unpack(self: Any, buffer: bytes) -> Any:
        self.returned = buffer
        return self

    return type(f"Packed{structure.__name__}", (structure,), {"pack": pack, "unpack": unpack})


def padded(descriptor: bytes) -> bytearray:
    """Return a descriptor padded to the size of the newest version, which the libraries need for every version."""
    return bytearray(descriptor.ljust(MQMD2.SIZE, b"\0"))
