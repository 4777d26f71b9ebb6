"""MQGET: which message, what happens to it, and what the caller gets of it.

Sources: IBM MQ, "MQGET", "MQGMO" (Options, MatchOptions, MsgToken), and the pages of the reasons.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from time import time
from typing import TYPE_CHECKING, Any

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.conversion import convert
from tests.queue_manager.server.errors import Refused
from tests.queue_manager.server.extension import extension_of
from tests.queue_manager.server.handle import Handle
from tests.queue_manager.server.matching import Accepts, accepts
from tests.queue_manager.server.queue import Message, Queue
from tests.queue_manager.server.structures import GetOptions, MessageDescriptor, is_default, padded
from tests.queue_manager.server.unit import store
from tests.queue_manager.server.wire import Reply

if TYPE_CHECKING:
    from tests.queue_manager.server.connection import Connection

_SYNCPOINTS = mq.MQGMO_SYNCPOINT | mq.MQGMO_NO_SYNCPOINT | mq.MQGMO_SYNCPOINT_IF_PERSISTENT
_BROWSES = mq.MQGMO_BROWSE_FIRST | mq.MQGMO_BROWSE_NEXT | mq.MQGMO_BROWSE_MSG_UNDER_CURSOR
_UNDER_CURSOR = mq.MQGMO_MSG_UNDER_CURSOR | mq.MQGMO_BROWSE_MSG_UNDER_CURSOR


@dataclass(slots=True, eq=False)
class Get:
    """One MQGET, from its arrival to its reply."""

    connection: "Connection"
    handle: Handle
    queue: Queue
    wanted: MessageDescriptor
    options: GetOptions
    descriptor_length: int
    options_length: int
    buffer_length: int
    specific: bool = False
    _accepts: Accepts | None = None
    _timer: asyncio.TimerHandle | None = field(default=None)

    def begin(self) -> Reply | None:
        """The reply, or None when the call waits. Raises Refused."""
        self._check()
        if self.options.options & mq.MQGMO_UNLOCK:
            return self._unlock()
        self._accepts = accepts(self.wanted, self.options)
        self.specific = self._accepts is not None
        if self.options.options & mq.MQGMO_BROWSE_FIRST:
            self.handle.cursor = None
        reply = self._attempt()
        if reply is None:
            self._wait()
        return reply

    # --- checks ---------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        flags = self.options.options
        if self.options.version not in (1, 2, 3, 4):
            raise Refused(mq.MQRC_GMO_ERROR)
        if self.wanted.version not in (1, 2):
            raise Refused(mq.MQRC_MD_ERROR)
        if self.buffer_length < 0:
            raise Refused(mq.MQRC_BUFFER_LENGTH_ERROR)
        self._check_combinations(flags)
        if flags & (_BROWSES | mq.MQGMO_UNLOCK):
            if not self.handle.options & mq.MQOO_BROWSE:
                raise Refused(mq.MQRC_NOT_OPEN_FOR_BROWSE)
        elif not self.handle.options & mq.MQOO_INPUT:
            raise Refused(mq.MQRC_NOT_OPEN_FOR_INPUT)
        if flags & mq.MQGMO_MSG_UNDER_CURSOR and not self.handle.options & mq.MQOO_BROWSE:
            raise Refused(mq.MQRC_NOT_OPEN_FOR_BROWSE)
        if flags & mq.MQGMO_WAIT and self.options.wait_interval < mq.MQWI_UNLIMITED:
            raise Refused(mq.MQRC_WAIT_INTERVAL_ERROR)
        self._check_state()

    def _check_combinations(self, flags: int) -> None:
        """Raises Refused for options that exclude each other."""
        for exclusive in (_SYNCPOINTS, _BROWSES | mq.MQGMO_MSG_UNDER_CURSOR):
            chosen = flags & exclusive
            if chosen & (chosen - 1):
                raise Refused(mq.MQRC_OPTIONS_ERROR)
        if flags & _BROWSES and flags & (mq.MQGMO_SYNCPOINT | mq.MQGMO_SYNCPOINT_IF_PERSISTENT):
            raise Refused(mq.MQRC_OPTIONS_ERROR)
        if flags & mq.MQGMO_LOCK and not flags & _BROWSES:
            raise Refused(mq.MQRC_OPTIONS_ERROR)

    def _check_state(self) -> None:
        """Raises Refused when nothing can be got here now."""
        if self.connection.manager.quiescing and self.options.options & mq.MQGMO_FAIL_IF_QUIESCING:
            raise Refused(mq.MQRC_Q_MGR_QUIESCING)
        opened = self.handle.opened
        if not self.queue.attributes.get_enabled or (opened is not None and not opened.attributes.get_enabled):
            raise Refused(mq.MQRC_GET_INHIBITED)

    def _unlock(self) -> Reply:
        if self.handle.locked is None:
            raise Refused(mq.MQRC_NO_MSG_LOCKED, mq.MQCC_WARNING)
        self.handle.unlock()
        return Reply()

    # --- finding --------------------------------------------------------------------------------------------------

    def _attempt(self) -> Reply | None:
        """The reply with the message that is there, None when none is. Raises Refused."""
        message = self._find()
        return None if message is None else self._deliver(message)

    def _candidates(self) -> Iterator[Message]:
        after = self.handle.cursor if self.options.options & mq.MQGMO_BROWSE_NEXT else None
        for message in self.queue.after(after):
            if message.locked_by in (None, self.handle):
                yield message

    def _find(self) -> Message | None:
        if self.options.options & _UNDER_CURSOR:
            return self._under_cursor()
        for message in self._candidates():
            if self._accepts is None or self._accepts(message):
                return message
        return None

    def _under_cursor(self) -> Message:
        cursor = self.handle.cursor
        if cursor is not None:
            message = next(self.queue.after(cursor - 1), None)
            if message is not None and message.key == cursor and message.locked_by in (None, self.handle):
                return message
        raise Refused(mq.MQRC_NO_MSG_UNDER_CURSOR)

    # --- waiting --------------------------------------------------------------------------------------------------

    def _wait(self) -> None:
        """Raises Refused when the call does not want to."""
        interval = self.options.wait_interval
        if not self.options.options & mq.MQGMO_WAIT or interval == 0:
            raise Refused(mq.MQRC_NO_MSG_AVAILABLE)
        if interval != mq.MQWI_UNLIMITED:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(interval / 1000, self.fail, mq.MQRC_NO_MSG_AVAILABLE)
        self.queue.waiters.append(self)
        self.connection.waiting = self

    def retry(self) -> None:
        """Looks again; answers if there is an answer now."""
        try:
            self._check_state()
            reply = self._attempt()
        except Refused as refused:
            reply = Reply(refused.completion, refused.reason)
        if reply is not None:
            self.give_up()
            self.connection.answer(reply)

    def fail(self, reason: int) -> None:
        self.give_up()
        self.connection.answer(Reply(mq.MQCC_FAILED, reason))

    def give_up(self) -> None:
        """Waits no more."""
        self.queue.waiters.remove(self)
        self.connection.waiting = None
        if self._timer is not None:
            self._timer.cancel()

    # --- delivering -----------------------------------------------------------------------------------------------

    def _deliver(self, message: Message) -> Reply:
        descriptor, flags = message.descriptor, self.options.options
        reason = mq.MQRC_NONE
        data = message.data
        changes: dict[str, Any] = {"version": self.wanted.version}
        if descriptor.expiry != mq.MQEI_UNLIMITED and message.expires is not None:
            changes["expiry"] = max(1, round((message.expires - time()) * 10))
        if flags & mq.MQGMO_CONVERT:
            data, reason = self._converted(message, changes)
        if self.wanted.version == 1 and not is_default(descriptor):
            data = extension_of(descriptor, changes.get("encoding"), changes.get("coded_char_set_id")) + data
            changes |= {
                "format": mq.MQFMT_MD_EXTENSION,
                "encoding": mq.MQENC_NATIVE,
                "coded_char_set_id": self.connection.manager.settings.ccsid,
            }
        taken = True
        if len(data) > self.buffer_length:
            taken = bool(flags & mq.MQGMO_ACCEPT_TRUNCATED_MSG)
            reason = mq.MQRC_TRUNCATED_MSG_ACCEPTED if taken else mq.MQRC_TRUNCATED_MSG_FAILED
        if taken:
            self._take(message)
        returned = memoryview(data)[: self.buffer_length]
        return Reply(
            mq.MQCC_WARNING if reason else mq.MQCC_OK,
            reason,
            (
                len(data).to_bytes(4, "little"),
                descriptor.packed(self.descriptor_length, **changes),
                self._returned_options(message, len(returned)),
                returned,
            ),
        )

    def _converted(self, message: Message, changes: dict[str, Any]) -> tuple[bytes, int]:
        ccsid = self.wanted.coded_char_set_id
        if ccsid in (mq.MQCCSI_Q_MGR, mq.MQCCSI_APPL):
            ccsid = self.connection.manager.settings.ccsid
        try:
            data, changes["encoding"], changes["coded_char_set_id"] = convert(
                message.descriptor, message.data, self.wanted.encoding, ccsid
            )
        except Refused as refused:
            return message.data, refused.reason
        return data, mq.MQRC_NONE

    def _take(self, message: Message) -> None:
        flags = self.options.options
        if flags & _BROWSES:
            self.handle.cursor = message.key
            if flags & mq.MQGMO_LOCK:
                self.handle.unlock()
                message.locked_by, self.handle.locked = self.handle, message
            return
        if_persistent = flags & mq.MQGMO_SYNCPOINT_IF_PERSISTENT
        if flags & mq.MQGMO_SYNCPOINT or (if_persistent and message.descriptor.persistence):
            self.connection.unit.make_room()
            self.connection.unit.get(message)
        else:
            self.queue.remove(message)
            store(self.connection.manager.log, (), (message,))
        if message.locked_by is not None:
            self.handle.unlock()
        if self.handle.options & mq.MQOO_SAVE_ALL_CONTEXT:
            self.handle.context = message.descriptor

    def _returned_options(self, message: Message, length: int) -> bytes:
        flags = message.descriptor.msg_flags
        last_in_group, in_group = flags & mq.MQMF_LAST_MSG_IN_GROUP, flags & mq.MQMF_MSG_IN_GROUP
        last_segment, segment = flags & mq.MQMF_LAST_SEGMENT, flags & mq.MQMF_SEGMENT
        return self.options.packed(
            self.options_length,
            resolved_q_name=padded(self.queue.name, 48),
            group_status=b"L" if last_in_group else b"G" if in_group else b" ",
            segment_status=b"L" if last_segment else b"S" if segment else b" ",
            segmentation=b"A" if flags & mq.MQMF_SEGMENTATION_ALLOWED else b" ",
            msg_token=message.token,
            returned_length=length,
        )
