"""A queue to get from, under syncpoint.

The longest buffer that a channel allows is unknown before it is tried: a channel refuses a longer one (2010,
MQRC_DATA_LENGTH_ERROR). The buffer begins at 64 KiB, is halved while it is refused, and grows to the length of each
longer message (2080, MQRC_TRUNCATED_MSG_FAILED).

No message longer than the channel allows can be got through it. Such a message stays on the queue, and the messages
after it are got separately: they are browsed with an empty buffer, and each that fits is got under the cursor. This
mode ends after a pass over the queue that finds no message that is too long.
"""

from typing import Any, Final

import structlog

from adapters.ibm_mq.client import Connection, MqiError, MqMessage, packed, padded
from adapters.ibm_mq.constants import (
    MAX_MSG_LENGTH,
    MQCC_WARNING,
    MQGMO_ACCEPT_TRUNCATED_MSG,
    MQGMO_BROWSE_FIRST,
    MQGMO_BROWSE_NEXT,
    MQGMO_COMPLETE_MSG,
    MQGMO_FAIL_IF_QUIESCING,
    MQGMO_MSG_UNDER_CURSOR,
    MQGMO_PROPERTIES_FORCE_MQRFH2,
    MQGMO_SYNCPOINT,
    MQGMO_VERSION_2,
    MQGMO_WAIT,
    MQMO_NONE,
    MQOD_VERSION_3,
    MQOO_BROWSE,
    MQOO_FAIL_IF_QUIESCING,
    MQOO_INPUT_EXCLUSIVE,
    MQOO_INPUT_SHARED,
    MQOO_SAVE_ALL_CONTEXT,
)
from adapters.ibm_mq.reason_codes import (
    MQRC_DATA_LENGTH_ERROR,
    MQRC_NO_MSG_AVAILABLE,
    MQRC_NO_MSG_UNDER_CURSOR,
    MQRC_NOT_AUTHORIZED,
    MQRC_OBJECT_IN_USE,
    MQRC_TRUNCATED_MSG_ACCEPTED,
    MQRC_TRUNCATED_MSG_FAILED,
)
from app.codecs.ibm_mq.field_positions import place
from app.codecs.ibm_mq.headers import MQMD1

_FIRST_LENGTH: Final = 64 << 10
_SHORTEST_LENGTH: Final = 1 << 10
"""The shortest buffer that is tried; no usable channel allows less."""
_MSG_ID: Final = place(MQMD1, "msg_id")

_log = structlog.get_logger(__name__)


class _TooLong(Exception):
    """A message is longer than the channel allows; `length` is its number of bytes."""

    def __init__(self, length: int) -> None:
        self.length = length


class InputQueue:
    """A queue opened to get from.

    `name` is the queue in the settings. `resolved` is the local queue behind it, which differs for an alias queue. All
    methods raise MqiError.
    """

    def __init__(
        self, connection: Connection, name: str, descriptor: bytes, wait: float, *, exclusive: bool, complete: bool
    ) -> None:
        """Open the queue.

        `descriptor` is the form in which MQGET describes messages. `wait` is in seconds. `complete` reassembles the
        segments of a message, and needs a version-2 descriptor.
        """
        library = connection.library
        self._connection, self._name, self._wait = connection, name, round(wait * 1000)
        self._gmo, self._error = library.GMO, library.MQMIError
        self._descriptor = packed(library.MD, padded(descriptor))
        self._flags = MQGMO_FAIL_IF_QUIESCING | MQGMO_PROPERTIES_FORCE_MQRFH2
        self._flags |= MQGMO_COMPLETE_MSG if complete else 0
        self._waiting = self._options(MQGMO_SYNCPOINT | MQGMO_WAIT)
        self._at_once = self._options(MQGMO_SYNCPOINT)
        self._open_options = MQOO_INPUT_EXCLUSIVE if exclusive else MQOO_INPUT_SHARED
        self._open_options |= MQOO_SAVE_ALL_CONTEXT | MQOO_FAIL_IF_QUIESCING
        self._length = _FIRST_LENGTH
        self._allowed = 0
        """The longest buffer that was not refused."""
        self._refused = MAX_MSG_LENGTH + 1
        """The shortest buffer that was refused."""
        self._browsing = self._in_pass = False
        self._skipped: dict[bytes, int] = {}
        self.too_long: dict[bytes, int] = {}
        """By MsgId, the lengths of the messages that cannot be got, as of the last pass over the queue."""
        self._queue, self.resolved = self._open()

    @property
    def handle(self) -> int:
        handle: int = self._queue.get_handle()
        return handle

    def get(self, *, wait: bool = False) -> MqMessage | None:
        """Return the next message. Return None if the queue is empty, or, with `wait`, if none comes within the waiting
        time.

        A message that is longer than all before takes two calls of MQGET: the first only returns its length.
        """
        if not self._browsing:
            try:
                return self._get(self._waiting if wait else self._at_once)
            except _TooLong as found:
                self._begin_browsing(found)
        return self._get_browsing(wait=wait)

    # --- opening --------------------------------------------------------------------------------------------------

    def _open(self, more: int = 0) -> tuple[Any, str]:
        library = self._connection.library
        described = library.OD(Version=MQOD_VERSION_3, ObjectName=self._name.encode())
        try:
            queue = self._connection.open(described, self._open_options | more, self._name)
        except MqiError as error:
            if error.reason != MQRC_OBJECT_IN_USE:
                raise
            why = f"{self._name}, which another program has open to get from"
            raise MqiError("MQOPEN", why, error.reason) from error
        return queue, described.ResolvedQName.decode("latin-1").rstrip("\0 ") or self._name

    def _begin_browsing(self, found: _TooLong) -> None:
        """Open the queue again, for browsing too. Raises MqiError when the user has no authority to browse."""
        self._connection.close_queue(self._queue, self._name)
        try:
            self._queue, _ = self._open(MQOO_BROWSE)
        except MqiError as error:
            if error.reason != MQRC_NOT_AUTHORIZED:
                raise
            self._queue, _ = self._open()
            why = f"{self._name}: the first message has {found.length:,} bytes, more than the channel allows"
            raise MqiError(
                "MQGET", f"{why}; without authority to browse, no message after it can be got", MQRC_DATA_LENGTH_ERROR
            ) from error
        self._browsing, self._in_pass = True, False

    # --- getting --------------------------------------------------------------------------------------------------

    def _get(self, options: Any) -> MqMessage | None:
        """Get a message. Raises _TooLong for one that the channel does not allow."""
        wanted = 0
        while True:
            try:
                body: bytes = self._queue.get(self._length, self._descriptor, options)
            except self._error as error:
                if error.reason == MQRC_DATA_LENGTH_ERROR and self._length > _SHORTEST_LENGTH:
                    self._shorten(wanted)
                    continue
                self._allowed = max(self._allowed, self._length)
                if error.reason in (MQRC_NO_MSG_AVAILABLE, MQRC_NO_MSG_UNDER_CURSOR):
                    return None
                if error.reason == MQRC_TRUNCATED_MSG_FAILED and error.original_length > self._length:
                    wanted = error.original_length
                    if wanted >= self._refused:
                        raise _TooLong(wanted) from error
                    self._length = wanted
                    continue
                body = self._truncated_or_warned(error)
            self._allowed = max(self._allowed, self._length)
            return MqMessage(self._descriptor.returned, body)

    def _shorten(self, wanted: int) -> None:
        """Record that the buffer was refused, and choose a shorter one. Raises _TooLong when it was for a message of
        `wanted` bytes."""
        self._refused = min(self._refused, self._length)
        if self._allowed >= self._refused:
            self._allowed = 0
        self._length = self._allowed or max(self._length // 2, _SHORTEST_LENGTH)
        if wanted >= self._refused and self._allowed:
            raise _TooLong(wanted)

    def _truncated_or_warned(self, error: Any) -> bytes:
        """Return the data of a message that came with a warning. Raises MqiError for a failure, and for truncated
        data."""
        if error.comp == MQCC_WARNING and error.reason == MQRC_TRUNCATED_MSG_ACCEPTED:
            self._length = min(max(self._length, error.original_length), self._refused - 1)
            raise MqiError("MQGET", self._name, error.reason, took_message=True) from error
        if error.comp != MQCC_WARNING or error.reason == MQRC_TRUNCATED_MSG_FAILED:
            raise MqiError("MQGET", self._name, error.reason) from error
        body: bytes = error.message
        return body

    # --- getting messages after one that is too long --------------------------------------------------------------

    def _get_browsing(self, *, wait: bool) -> MqMessage | None:
        while (length := self._browse(wait=wait)) is not None:
            if length < self._refused:
                try:
                    if (message := self._get(self._options(MQGMO_SYNCPOINT | MQGMO_MSG_UNDER_CURSOR))) is not None:
                        return message
                except _TooLong:
                    pass
                else:
                    continue
            self._skipped[bytes(self._descriptor.returned[_MSG_ID])] = length
        for msg_id, length in self._skipped.items():
            if msg_id not in self.too_long:
                fields = {"queue": self._name, "msg_id": msg_id.hex(), "bytes": length}
                _log.warning("message_skipped", **fields, reason="longer than the channel's MAXMSGL")
        self.too_long, self._skipped = self._skipped, {}
        self._refused = MAX_MSG_LENGTH + 1
        self._browsing, self._in_pass = bool(self.too_long), False
        return None

    def _browse(self, *, wait: bool) -> int | None:
        """Return the length of the next message of this pass, or of the first of a new one; None at the end of the
        queue."""
        step = MQGMO_BROWSE_NEXT if self._in_pass else MQGMO_BROWSE_FIRST
        self._in_pass = True
        options = self._options(step | MQGMO_ACCEPT_TRUNCATED_MSG | (MQGMO_WAIT if wait else 0))
        try:
            body: bytes = self._queue.get(0, self._descriptor, options)
        except self._error as error:
            if error.reason == MQRC_NO_MSG_AVAILABLE:
                return None
            if error.comp != MQCC_WARNING:
                raise MqiError("MQGET", self._name, error.reason) from error
            length: int = error.original_length
            return length
        return len(body)

    def _options(self, options: int) -> Any:
        """Return get options that match any message and return its properties in an MQRFH2."""
        made = self._gmo(
            Version=MQGMO_VERSION_2,
            Options=self._flags | options,
            WaitInterval=self._wait if options & MQGMO_WAIT else 0,
            MatchOptions=MQMO_NONE,
        )
        return packed(self._gmo, made.pack())
