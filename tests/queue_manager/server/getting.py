"""MQGET: which message, what happens to it, and what the caller gets of it.

Sources: IBM MQ, "MQGET", "MQGMO" (Options, MatchOptions, MsgToken, GroupStatus, SegmentStatus), "The browse cursor",
and the pages of the reasons.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from time import time
from typing import TYPE_CHECKING, Any

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.availability import Whole, group_is_complete, put_together, segments
from tests.queue_manager.server.conversion import convert
from tests.queue_manager.server.errors import Refused
from tests.queue_manager.server.extension import extension_of
from tests.queue_manager.server.getoptions import BROWSES, UNDER_CURSOR, check
from tests.queue_manager.server.handle import Handle, LogicalOrder
from tests.queue_manager.server.headers import Description, description_of
from tests.queue_manager.server.matching import Accepts, accepts
from tests.queue_manager.server.messagecalls import message_handle
from tests.queue_manager.server.messagehandle import MessageHandle
from tests.queue_manager.server.propertycontrol import Where, give, where
from tests.queue_manager.server.queue import Message, Queue
from tests.queue_manager.server.reporting import report
from tests.queue_manager.server.structures import GetOptions, MessageDescriptor, is_default, padded, unpack_descriptor
from tests.queue_manager.server.unit import store
from tests.queue_manager.server.wire import Reply

if TYPE_CHECKING:
    from tests.queue_manager.server.connection import Connection

_WHOLE_MESSAGES = mq.MQGMO_COMPLETE_MSG | mq.MQGMO_ALL_SEGMENTS_AVAILABLE


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
    _timer: asyncio.TimerHandle | None = None
    _place: Where = "data"
    """Where properties go."""

    def begin(self) -> Reply | None:
        """The reply, or None when the call waits. Raises Refused."""
        check(self.handle, self.wanted, self.options, self.buffer_length)
        self._place = self._place_of_properties()
        self._check_state()
        if self.options.options & mq.MQGMO_UNLOCK:
            return self._unlock()
        if self.options.options & BROWSES:
            self._begin_browse()
        self._accepts = accepts(self.wanted, self.options, self._order)
        self.specific = self._accepts is not None
        reply = self._attempt()
        if reply is None:
            self._wait()
        return reply

    def _message_handle(self) -> MessageHandle | None:
        """The message handle of the call, None when it has none. Raises Refused for one that is not valid."""
        number = self.options.msg_handle if self.options.version > 3 else mq.MQHM_NONE
        return None if number == mq.MQHM_NONE else message_handle(self.connection, number)

    def _place_of_properties(self) -> Where:
        assert self.handle.destination is not None
        control = self.handle.destination.named.attributes.propctl
        return where(self.options.options, control, handle=self._message_handle() is not None)

    @property
    def _order(self) -> LogicalOrder:
        """How far the handle is; browsing has a place of its own."""
        return self.handle.browses if self.options.options & BROWSES else self.handle.gets

    @property
    def _logical(self) -> bool:
        return bool(self.options.options & mq.MQGMO_LOGICAL_ORDER)

    def _check_state(self) -> None:
        """Raises Refused when nothing can be got here now."""
        if self.connection.manager.quiescing and self.options.options & mq.MQGMO_FAIL_IF_QUIESCING:
            raise Refused(mq.MQRC_Q_MGR_QUIESCING)
        assert self.handle.destination is not None
        if not self.queue.attributes.get_enabled or not self.handle.destination.named.attributes.get_enabled:
            raise Refused(mq.MQRC_GET_INHIBITED)

    def _unlock(self) -> Reply:
        if self.handle.locked is None:
            raise Refused(mq.MQRC_NO_MSG_LOCKED, mq.MQCC_WARNING)
        self.handle.unlock()
        return Reply()

    def _begin_browse(self) -> None:
        flags = self.options.options
        if flags & mq.MQGMO_BROWSE_FIRST:
            self.handle.cursor = self.handle.start = None
            self.handle.browses = LogicalOrder(logical=self._logical)
            return
        moved = self.handle.cursor is not None and flags & mq.MQGMO_BROWSE_NEXT
        if moved and self.handle.browses.logical != self._logical:
            raise Refused(mq.MQRC_INCONSISTENT_BROWSE)

    # --- finding --------------------------------------------------------------------------------------------------

    def _attempt(self) -> Reply | None:
        """The reply with the message that is there, None when none is. Raises Refused."""
        found = self._under_cursor() if self.options.options & UNDER_CURSOR else self._find()
        return None if found is None else self._deliver(found)

    def _find(self) -> Whole | None:
        for message in self._candidates():
            if self._accepts is not None and not self._accepts(message):
                continue
            if (whole := self._whole(message)) is not None:
                return whole
        return None

    def _candidates(self) -> Iterator[Message]:
        after = None
        if self.options.options & mq.MQGMO_BROWSE_NEXT:
            after = self.handle.cursor
            if self._logical:
                after = None if self.handle.browses.active else self.handle.start
        for message in self.queue.after(after):
            if self._visible(message):
                yield message

    def _visible(self, message: Message) -> bool:
        return message.locked_by is None or message.locked_by is self.handle

    def _under_cursor(self) -> Whole:
        cursor = self.handle.cursor
        message = None if cursor is None else next(self.queue.after(cursor - 1), None)
        if message is None or message.key != cursor or not self._visible(message):
            raise Refused(mq.MQRC_NO_MSG_UNDER_CURSOR)
        if self.options.options & mq.MQGMO_COMPLETE_MSG and message.descriptor.offset:
            raise Refused(mq.MQRC_INVALID_MSG_UNDER_CURSOR)
        whole = self._whole(message)
        if whole is None:
            raise Refused(mq.MQRC_NO_MSG_UNDER_CURSOR)
        return whole

    def _whole(self, message: Message) -> Whole | None:
        """What the call takes with this message, None when that has to wait for others of its group."""
        flags, descriptor = self.options.options, message.descriptor
        if descriptor.group_id == mq.MQ_NO_ID:
            return put_together([message])
        begun = self._order.active and self._order.group_id == descriptor.group_id
        members = [member for member in self.queue.members[descriptor.group_id].values() if self._visible(member)]
        wants_group = flags & mq.MQGMO_ALL_MSGS_AVAILABLE and descriptor.msg_flags & mq.MQMF_GROUPED
        if wants_group and not begun and not group_is_complete(members):
            return None
        if not flags & _WHOLE_MESSAGES or (begun and self._order.in_message):
            return put_together([message])
        parts = segments(message, members)
        if parts is None or not flags & mq.MQGMO_COMPLETE_MSG:
            return None if parts is None else put_together([message])
        return put_together(parts) if parts[0] is message else None

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

    def _deliver(self, whole: Whole) -> Reply:
        descriptor, message, flags = whole.descriptor, whole.parts[0], self.options.options
        reason = self._inconsistency(message) or whole.warning
        properties, described, data = give(self._place, description_of(descriptor), whole.data)
        changes: dict[str, Any] = {"version": self.wanted.version}
        if message.expires is not None:
            changes["expiry"] = max(1, round((message.expires - time()) * 10))
        if flags & mq.MQGMO_CONVERT:
            described, data, not_converted = self._converted(described, data)
            reason = reason or not_converted
        if self.wanted.version == 1 and not is_default(descriptor):
            data = extension_of(descriptor, described) + data
            ccsid = self.connection.manager.settings.ccsid
            described = Description(mq.MQENC_NATIVE, ccsid, mq.MQFMT_MD_EXTENSION)
        changes["encoding"], changes["coded_char_set_id"], changes["format"] = described
        taken = True
        if len(data) > self.buffer_length:
            taken = bool(flags & mq.MQGMO_ACCEPT_TRUNCATED_MSG)
            reason = mq.MQRC_TRUNCATED_MSG_ACCEPTED if taken else mq.MQRC_TRUNCATED_MSG_FAILED
        if taken:
            self._take(whole)
        filled = self._message_handle()
        if filled is not None and self._place == "handle":
            filled.fill(unpack_descriptor(descriptor.packed(**changes)), properties)
        returned = memoryview(data)[: self.buffer_length]
        return Reply(
            mq.MQCC_WARNING if reason else mq.MQCC_OK,
            reason,
            (
                len(data).to_bytes(4, "little"),
                descriptor.packed(self.descriptor_length, **changes),
                self._returned_options(descriptor, message.token, len(returned)),
                returned,
            ),
        )

    def _inconsistency(self, message: Message) -> int:
        """The reason of a warning when this is not what follows. Raises Refused in logical order."""
        order = self._order
        if not order.active or not order.logical or self.options.options & BROWSES:
            return mq.MQRC_NONE
        if not self._logical:
            return order.incomplete
        if self._in_unit(message) != order.in_unit:
            raise Refused(mq.MQRC_INCONSISTENT_UOW)
        return mq.MQRC_NONE

    def _converted(self, described: Description, data: bytes) -> tuple[Description, bytes, int]:
        ccsid = self.wanted.coded_char_set_id
        if ccsid in (mq.MQCCSI_Q_MGR, mq.MQCCSI_APPL):
            ccsid = self.connection.manager.settings.ccsid
        made, converted, reason = convert(described, data, self.wanted.encoding, ccsid)
        fitted = len(data) <= self.buffer_length and not self.options.options & mq.MQGMO_ACCEPT_TRUNCATED_MSG
        if fitted and len(converted) > self.buffer_length:
            return described, data, mq.MQRC_CONVERTED_MSG_TOO_BIG
        return made, converted, reason

    def _in_unit(self, message: Message) -> bool:
        flags = self.options.options
        if_persistent = flags & mq.MQGMO_SYNCPOINT_IF_PERSISTENT
        return bool(flags & mq.MQGMO_SYNCPOINT or (if_persistent and message.descriptor.persistence))

    def _take(self, whole: Whole) -> None:
        """Does to the message what the options say, and remembers how far the handle is."""
        message, last = whole.parts[0], whole.parts[-1]
        in_unit = self._in_unit(message)
        if self.options.options & BROWSES:
            self._browse(message)
        elif in_unit:
            self.connection.unit.make_room(len(whole.parts))
            for part in whole.parts:
                self.connection.unit.get(part)
        else:
            self._remove(whole.parts)
        if not self.options.options & BROWSES:
            for part in whole.parts:
                report(self.connection.manager, part, mq.MQRO_COD, self.connection.unit if in_unit else None)
            if message is self.handle.locked:
                self.handle.unlock()
            if self.handle.options & mq.MQOO_SAVE_ALL_CONTEXT:
                self.handle.context = whole.descriptor
        self._order.remember(last.descriptor, len(last.data), logical=self._logical, in_unit=in_unit)

    def _browse(self, message: Message) -> None:
        flags = self.options.options
        self.handle.unlock()
        self.handle.cursor = message.key
        if not self.handle.browses.active:
            self.handle.start = message.key
        if flags & mq.MQGMO_LOCK:
            message.locked_by, self.handle.locked = self.handle, message

    def _remove(self, parts: list[Message]) -> None:
        unit = self.connection.unit
        if len(parts) > 1 and unit and any(part.logged for part in parts):
            raise Refused(mq.MQRC_UOW_NOT_AVAILABLE)
        for part in parts:
            self.queue.remove(part)
        store(self.connection.manager.log, (), parts)

    def _returned_options(self, descriptor: MessageDescriptor, token: bytes, length: int) -> bytes:
        flags = descriptor.msg_flags
        return self.options.packed(
            self.options_length,
            resolved_q_name=padded(self.queue.name, 48),
            group_status=_status(flags, mq.MQMF_LAST_MSG_IN_GROUP, mq.MQMF_MSG_IN_GROUP, b"G"),
            segment_status=_status(flags, mq.MQMF_LAST_SEGMENT, mq.MQMF_SEGMENT, b"S"),
            segmentation=b"A" if flags & mq.MQMF_SEGMENTATION_ALLOWED else b" ",
            msg_token=token,
            returned_length=length,
        )


def _status(flags: int, last: int, member: int, letter: bytes) -> bytes:
    """GroupStatus or SegmentStatus: the last one, one of them, or none."""
    return b"L" if flags & last else letter if flags & member else b" "
