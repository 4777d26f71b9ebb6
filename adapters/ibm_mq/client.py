"""The seam to the client library: pymqi, or ibmmq, which has the same classes.

What the libraries' own structures would cost on every message (packing and unpacking some thirty fields one by one) is
spared by giving them descriptors that are packed already. MQGET writes into the very bytes that it is given, so each
call gets fresh ones.

A connection and what is opened with it belong to one thread at a time. MQDISC commits: `Connection.close` backs out
first, and nothing but `Connection.commit` ever commits.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import structlog

from adapters.ibm_mq.reasons import (
    BROKEN,
    MQRC_NO_MSG_AVAILABLE,
    MQRC_TRUNCATED_MSG_FAILED,
    Remedy,
    remedy,
    spoken,
)
from adapters.ibm_mq.settings import ConnectionSettings
from adapters.ibm_mq.words import (
    MAX_MSG_LENGTH,
    MQCC_WARNING,
    MQCNO_HANDLE_SHARE_BLOCK,
    MQCNO_RECONNECT_DISABLED,
    MQGMO_ACCEPT_TRUNCATED_MSG,
    MQGMO_BROWSE_FIRST,
    MQGMO_BROWSE_NEXT,
    MQGMO_FAIL_IF_QUIESCING,
    MQGMO_NO_SYNCPOINT,
    MQGMO_PROPERTIES_FORCE_MQRFH2,
    MQGMO_SYNCPOINT,
    MQGMO_VERSION_2,
    MQGMO_WAIT,
    MQMO_MATCH_CORREL_ID,
    MQMO_NONE,
    MQOO_BIND_ON_OPEN,
    MQOO_BROWSE,
    MQOO_FAIL_IF_QUIESCING,
    MQOO_INPUT_SHARED,
    MQOO_INQUIRE,
    MQOO_OUTPUT,
    MQOO_SAVE_ALL_CONTEXT,
    MQOT_Q_MGR,
    MQPMO_FAIL_IF_QUIESCING,
    MQPMO_PASS_ALL_CONTEXT,
    MQPMO_SYNCPOINT,
)
from app.codecs.ibm_mq.headers import MQMD2

Library = Any
"""The module `pymqi` or `ibmmq`; neither says its types."""

_log = structlog.get_logger(__name__)

_LIBRARIES = ("pymqi", "ibmmq")
_FIRST_LENGTH = 64 << 10
_SHORT_LENGTH = 4096


def find_library() -> Library:
    """The client library that is installed. Raises ImportError, which says what to install."""
    refusals = []
    for name in _LIBRARIES:
        try:
            return import_module(name)
        except ImportError as refusal:
            refusals.append(f"{name}: {refusal}")
    raise ImportError(
        "it needs IBM MQ's client and its Python library. Install the IBM MQ redistributable client, then "
        f"pip install 'attachment-gateway[mq]', or ibmmq instead ({'; '.join(refusals)})"
    )


class MqiError(Exception):
    """A call of the MQI failed: which one, on what, and the reason code."""

    def __init__(self, verb: str, what: str, reason: int) -> None:
        super().__init__(f"{verb} {what}: {spoken(reason)}" if what else f"{verb}: {spoken(reason)}")
        self.reason = reason

    @property
    def remedy(self) -> Remedy:
        return remedy(self.reason)

    @property
    def is_broken(self) -> bool:
        """Whether it is the connection that has failed, and not only this call."""
        return self.reason in BROKEN


class MqMessage(NamedTuple):
    """A message as the MQI has it: the MQMD of 324 or 364 bytes in this machine's encoding, and the data."""

    descriptor: bytes
    body: bytes


class Connection:
    """A connection to a queue manager, opened when this is made. Raises MqiError, as all its methods do."""

    def __init__(self, library: Library, settings: ConnectionSettings) -> None:
        self._library = library
        self._manager = library.QueueManager(None)
        with self.calling("MQCONNX", settings.broker):
            self._manager.connect_with_options(settings.queue_manager, **_options(library, settings))

    def open_input(self, queue: str, descriptor: bytes, wait: float) -> "Input":
        """A queue to get from, each time with a descriptor like this; `wait` is in seconds."""
        options = MQOO_INPUT_SHARED | MQOO_SAVE_ALL_CONTEXT | MQOO_FAIL_IF_QUIESCING
        return Input(self._library, self._open(queue, options), queue, descriptor, wait)

    def open_output(self, queue: str, queue_manager: str = "") -> "Output":
        """A queue to put to. Of a cluster's queues of that name, all messages go to one as long as it is open."""
        opened = self._open(queue, MQOO_OUTPUT | MQOO_BIND_ON_OPEN | MQOO_FAIL_IF_QUIESCING, queue_manager)
        return Output(self, self._library, opened, queue)

    def open_keyed(self, queue: str) -> "Keyed":
        """A queue whose messages are told apart by CorrelId."""
        options = MQOO_INPUT_SHARED | MQOO_BROWSE | MQOO_OUTPUT | MQOO_FAIL_IF_QUIESCING
        opened = self._open(queue, options)
        return Keyed(self._library, opened, queue, Output(self, self._library, opened, queue))

    def attribute(self, selector: int, queue: str | None = None) -> Any:
        """What MQINQ says of a queue, or of the queue manager: an integer, or a name without its blanks."""
        # pymqi's own way to ask the queue manager opens it by the name that was connected to, which may be a group's.
        asked = queue or self._library.OD(ObjectType=MQOT_Q_MGR)
        with self.calling("MQINQ", queue or "queue manager"):
            opened = self._library.Queue(self._manager, asked, MQOO_INQUIRE)
            value = opened.inquire(selector)
            opened.close()
        text = value.decode("latin-1") if isinstance(value, bytes) else value
        return text.rstrip("\0 ") if isinstance(text, str) else text

    def readable_attribute(self, selector: int, queue: str | None = None) -> Any:
        """As `attribute`; None where it may not be read, or where the queue, an alias or a remote one, has none."""
        try:
            return self.attribute(selector, queue)
        except MqiError as error:
            if error.is_broken:
                raise
            _log.info("attribute not readable", error=str(error), selector=selector)
            return None

    def put_aside(self, queue: str, message: MqMessage, context: "Input") -> None:
        """Puts a message that `context` got to another queue, in the same unit of work and with the same context."""
        options = self._library.PMO(
            Options=MQPMO_SYNCPOINT | MQPMO_PASS_ALL_CONTEXT | MQPMO_FAIL_IF_QUIESCING, Context=context.handle
        )
        descriptor = _packed(self._library.MD, _padded(message.descriptor))
        with self.calling("MQPUT1", queue, warnings=False):
            self._manager.put1(self._library.OD(ObjectName=queue.encode()), message.body, descriptor, options)

    def commit(self) -> None:
        with self.calling("MQCMIT", ""):
            self._manager.commit()

    def back_out(self) -> None:
        with self.calling("MQBACK", ""):
            self._manager.backout()

    def close(self) -> None:
        """Backs out and disconnects; a connection that is broken already is let go of."""
        with suppress(MqiError):
            self.back_out()
        with suppress(self._library.Error):
            self._manager.disconnect()

    @contextmanager
    def calling(self, verb: str, what: str, *, warnings: bool = True) -> Iterator[None]:
        """Turns the library's error into ours. The libraries raise for warnings too, after which a message was put."""
        try:
            yield
        except self._library.MQMIError as error:
            if warnings or error.comp != MQCC_WARNING:
                raise MqiError(verb, what, error.reason) from error

    def _open(self, queue: str, options: int, queue_manager: str = "") -> Any:
        described = self._library.OD(ObjectName=queue.encode(), ObjectQMgrName=queue_manager.encode())
        with self.calling("MQOPEN", queue):
            return self._library.Queue(self._manager, described, options)


class Input:
    """A queue to get from, under syncpoint."""

    def __init__(self, library: Library, queue: Any, name: str, descriptor: bytes, wait: float) -> None:
        self._queue, self._name = queue, name
        self._error = library.MQMIError
        self._descriptor = _packed(library.MD, _padded(descriptor))
        self._waiting = _packed(library.GMO, _get_options(library, wait))
        self._at_once = _packed(library.GMO, _get_options(library, 0))
        self._length = _FIRST_LENGTH

    @property
    def handle(self) -> int:
        handle: int = self._queue.get_handle()
        return handle

    def get(self, *, wait: bool = False) -> MqMessage | None:
        """The next message; None when there is none, or, with `wait`, when none comes for so long.

        One that is larger than all before is met twice: the first time it only says its length.
        """
        options = self._waiting if wait else self._at_once
        while True:
            try:
                body: bytes = self._queue.get(self._length, self._descriptor, options)
            except self._error as error:
                if error.reason == MQRC_NO_MSG_AVAILABLE:
                    return None
                if error.reason == MQRC_TRUNCATED_MSG_FAILED and self._length < error.original_length <= MAX_MSG_LENGTH:
                    self._length = error.original_length
                    continue
                if error.comp != MQCC_WARNING or error.reason == MQRC_TRUNCATED_MSG_FAILED:
                    raise MqiError("MQGET", self._name, error.reason) from error
                body = error.message
            return MqMessage(self._descriptor.returned, body)


class Output:
    """A queue to put to, under syncpoint."""

    def __init__(self, connection: Connection, library: Library, queue: Any, name: str) -> None:
        self._connection, self._queue, self._name = connection, queue, name
        self._descriptor = _packed(library.MD)
        self._options = _packed(library.PMO, library.PMO(Options=MQPMO_SYNCPOINT | MQPMO_FAIL_IF_QUIESCING).pack())

    def put(self, message: MqMessage) -> None:
        self._descriptor.template = _padded(message.descriptor)
        with self._connection.calling("MQPUT", self._name, warnings=False):
            self._queue.put(message.body, self._descriptor, self._options)


class Keyed:
    """A queue of few and short messages, told apart by their CorrelId."""

    def __init__(self, library: Library, queue: Any, name: str, output: Output) -> None:
        self._library, self._queue, self._name = library, queue, name
        self.put = output.put

    def get(self, correl_id: bytes) -> bytes | None:
        """The data of the first message with this CorrelId, got under syncpoint; None when there is none."""
        return self._call(correl_id, MQGMO_SYNCPOINT)

    def browse(self, correl_id: bytes | None = None) -> Iterator[bytes]:
        """The data of all messages with this CorrelId, or of all; they stay where they are."""
        where = MQGMO_BROWSE_FIRST
        while (body := self._call(correl_id, where | MQGMO_NO_SYNCPOINT)) is not None:
            yield body
            where = MQGMO_BROWSE_NEXT

    def _call(self, correl_id: bytes | None, options: int) -> bytes | None:
        described = self._library.MD(Version=2, **({} if correl_id is None else {"CorrelId": correl_id}))
        asked = self._library.GMO(
            Version=MQGMO_VERSION_2,
            Options=options | MQGMO_ACCEPT_TRUNCATED_MSG | MQGMO_FAIL_IF_QUIESCING,
            MatchOptions=MQMO_NONE if correl_id is None else MQMO_MATCH_CORREL_ID,
        )
        try:
            body: bytes = self._queue.get(_SHORT_LENGTH, described, asked)
        except self._library.MQMIError as error:
            if error.reason == MQRC_NO_MSG_AVAILABLE:
                return None
            if error.comp != MQCC_WARNING:
                raise MqiError("MQGET", self._name, error.reason) from error
            return b""  # longer than any of ours
        return body


def _options(library: Library, settings: ConnectionSettings) -> dict[str, Any]:
    """The arguments of MQCONNX, as far as the settings say any; the rest is up to the client library's environment."""
    options: dict[str, Any] = {"opts": MQCNO_HANDLE_SHARE_BLOCK | MQCNO_RECONNECT_DISABLED}
    if settings.user is not None and settings.password is not None:
        options |= {"user": settings.user, "password": settings.password.get_secret_value()}
    if settings.channel is not None and settings.connection is not None:
        options["cd"] = library.CD(
            ChannelName=settings.channel.encode(),
            ConnectionName=settings.connection.encode(),
            MaxMsgLength=MAX_MSG_LENGTH,
            HeartbeatInterval=settings.heartbeat_interval,
            SSLCipherSpec=(settings.cipher_spec or "").encode(),
        )
    if settings.cipher_spec is not None:
        secured = library.SCO()
        secured.KeyRepository = str(settings.key_repository or "").encode()
        secured.CertificateLabel = (settings.certificate_label or "").encode()
        options["sco"] = secured
    return options


def _get_options(library: Library, wait: float) -> bytes:
    """Any message there is, with its properties in an MQRFH2."""
    options = MQGMO_SYNCPOINT | MQGMO_FAIL_IF_QUIESCING | MQGMO_PROPERTIES_FORCE_MQRFH2
    packed: bytes = library.GMO(
        Version=MQGMO_VERSION_2,
        Options=options | (MQGMO_WAIT if wait else 0),
        WaitInterval=round(wait * 1000),
        MatchOptions=MQMO_NONE,
    ).pack()
    return packed


def _packed(structure: type, template: bytes | bytearray = b"") -> Any:
    """One of the library's structures whose fields are never looked at: it is packed as `template`, and `returned` is
    what a call made of it."""
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


def _padded(descriptor: bytes) -> bytearray:
    """A descriptor in the size of the newest version, which the libraries want of any."""
    return bytearray(descriptor.ljust(MQMD2.SIZE, b"\0"))
