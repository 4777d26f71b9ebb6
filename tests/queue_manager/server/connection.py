"""One client's connection: its state, and how each of its calls is taken apart and answered.

Sources: IBM MQ, the pages of the calls.
"""

import asyncio
import itertools
import struct
from collections.abc import Callable
from functools import partial

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server import messagecalls
from tests.queue_manager.server.authority import check_authority, context_authorities
from tests.queue_manager.server.control import control
from tests.queue_manager.server.errors import Refused
from tests.queue_manager.server.faults import Fault, Held
from tests.queue_manager.server.getting import Get
from tests.queue_manager.server.handle import Handle
from tests.queue_manager.server.inquiring import check_counts, inquire, set_attributes
from tests.queue_manager.server.manager import QueueManager
from tests.queue_manager.server.messagehandle import MessageHandle
from tests.queue_manager.server.objects import SERVER_CONNECTION
from tests.queue_manager.server.opening import close_object, open_object, resolve, resolved_names
from tests.queue_manager.server.putting import put
from tests.queue_manager.server.queue import Queue
from tests.queue_manager.server.structures import (
    Buffer,
    ConnectRequest,
    GetOptions,
    ObjectDescriptor,
    PutOptions,
    trimmed,
    unpack_descriptor,
)
from tests.queue_manager.server.unit import UnitOfWork
from tests.queue_manager.server.wire import Frames, Reply, Verb

_LONG = struct.Struct("=i")
_TWO_LONGS = struct.Struct("=2i")
_FOUR_LONGS = struct.Struct("=4i")
_FIRST_HANDLE = 2
_ANYONE = "app"


class Connection:
    """A connection from its first byte to its end."""

    def __init__(self, manager: QueueManager) -> None:
        self.manager = manager
        self.frames = Frames(self._request, self._lost)
        self.unit = UnitOfWork(manager.log, manager.settings.max_uncommitted)
        self.user = _ANYONE
        self.application = b" " * 28
        self.channel = ""
        """The channel that it came by; empty until it is connected."""
        self.process = 0
        self.identifier = manager.new_id()
        self.ccsid = manager.settings.ccsid
        self.max_message_length = 0
        self.waiting: Get | None = None
        self.handles: dict[int, Handle] = {}
        self.message_handles: dict[int, MessageHandle] = {}
        self._numbers = itertools.count(_FIRST_HANDLE)
        self._ended = False
        manager.connections.add(self)

    # --- requests and replies -------------------------------------------------------------------------------------

    def _request(self, number: int, body: memoryview) -> None:
        verb = Verb(number)
        fault = self.manager.faults.next(verb, self.queues) if self.manager.faults else None
        if fault is None:
            reply = self._call(verb, body)
            if reply is not None:
                self.answer(reply)
        elif fault.delay:
            asyncio.get_running_loop().call_later(fault.delay, self._fail, fault, verb, memoryview(bytes(body)))
        else:
            self._fail(fault, verb, body)

    def answer(self, reply: Reply) -> None:
        self.frames.send(reply)
        self.manager.tidy()

    def _call(self, verb: Verb, body: memoryview) -> Reply | None:
        try:
            return _CALLS[verb](self, body)
        except Refused as refused:
            return Reply(refused.completion, refused.reason)

    def _fail(self, fault: Fault, verb: Verb, body: memoryview) -> None:
        """Makes a call end as a test wants it."""
        if self._ended:
            return
        if fault.lose == "before":
            self.frames.abort()
            return
        if fault.hold == "before":
            self._hold(fault, verb, partial(self._go_on, verb, memoryview(bytes(body))))
            return
        if fault.reason is not None:
            if verb == Verb.MQCMIT and fault.reason == mq.MQRC_BACKED_OUT:
                self.unit.back_out()
            self.answer(Reply(mq.MQCC_FAILED, fault.reason))
            return
        reply = self._call(verb, body)
        if fault.lose == "after":
            self.frames.abort()
        elif reply is not None and fault.hold == "after":
            self._hold(fault, verb, partial(self.answer, reply))
        elif reply is not None:
            self.answer(reply)

    def _hold(self, fault: Fault, verb: Verb, go_on: Callable[[], None]) -> None:
        self.manager.faults.held.append(Held(fault.queue, self.process, verb, go_on))

    def _go_on(self, verb: Verb, body: memoryview) -> None:
        reply = None if self._ended else self._call(verb, body)
        if reply is not None:
            self.answer(reply)

    def _lost(self) -> None:
        """The client is gone. What it had not committed is backed out, at once or when the queue manager notices."""
        self._ended = True
        if self.waiting is not None:
            self.waiting.give_up()
        if self.manager.settings.heartbeat and self.unit:
            asyncio.get_running_loop().call_later(self.manager.settings.heartbeat, self.end)
        else:
            self.end()

    def end(self) -> None:
        """Backs out what is not committed and closes everything."""
        self._ended = True
        self.unit.back_out()
        self._close_all()
        self.manager.connections.discard(self)
        self.frames.close()

    def _close_all(self) -> None:
        for handle in self.handles.values():
            close_object(self.manager, handle)
        self.handles.clear()

    # --- connecting -----------------------------------------------------------------------------------------------

    def connect(self, body: memoryview) -> Reply:
        request = ConnectRequest.unpack(body[: ConnectRequest.SIZE])
        credentials = bytes(body[ConnectRequest.SIZE :])
        at = 0
        lengths = (request.user_length, request.password_length, request.token_length, request.peer_length)
        user, password, token, peer = (credentials[at : (at := at + length)].decode() for length in lengths)
        settings = self.manager.settings
        if self.manager.quiescing:
            raise Refused(mq.MQRC_Q_MGR_QUIESCING)
        channel = self.manager.channels.get(trimmed(request.channel))
        if channel is None or channel.chltype != SERVER_CONNECTION:
            raise Refused(mq.MQRC_UNKNOWN_CHANNEL_NAME)
        if trimmed(request.cipher) != channel.sslciph:
            raise Refused(mq.MQRC_SSL_INITIALIZATION_ERROR)
        if trimmed(request.queue_manager).removeprefix("*") not in ("", settings.name):
            raise Refused(mq.MQRC_Q_MGR_NAME_ERROR)
        if peer and peer != settings.certificate_name:
            raise Refused(mq.MQRC_SSL_PEER_NAME_MISMATCH)
        if token:
            user = settings.tokens.get(token, "")
            if not user:
                raise Refused(mq.MQRC_NOT_AUTHORIZED)
        elif settings.users and settings.users.get(user) != password:
            raise Refused(mq.MQRC_NOT_AUTHORIZED)
        self.user = user or _ANYONE
        self.ccsid = request.ccsid
        check_authority(self.manager, self.user, "", "connect")
        self.application, self.process = request.application, request.process
        self.channel = trimmed(request.channel)
        self.max_message_length = min(request.max_message_length or channel.maxmsgl, channel.maxmsgl)
        return Reply(parts=(_LONG.pack(settings.one_handle_per_thread),))

    def disconnect(self, body: memoryview) -> Reply:
        """Ends the connection in order, which commits."""
        self.unit.commit()
        self._close_all()
        return Reply()

    @property
    def queues(self) -> set[str]:
        """The names of the queues that it has open."""
        return {each.destination.queue.name for each in self.handles.values() if each.destination is not None}

    @property
    def address(self) -> str:
        """Where it came from."""
        return self.frames.address

    # --- objects --------------------------------------------------------------------------------------------------

    def handle(self, number: int) -> Handle:
        """Raises Refused for a number that is no handle, or the handle of a queue that is gone."""
        try:
            handle = self.handles[number]
        except KeyError:
            raise Refused(mq.MQRC_HOBJ_ERROR) from None
        if handle.destination is not None and handle.destination.queue.deleted:
            raise Refused(mq.MQRC_Q_DELETED)
        return handle

    def open(self, body: memoryview) -> Reply:
        (options,) = _LONG.unpack_from(body)
        length = len(body) - _LONG.size
        rest = bytes(body[_LONG.size + ObjectDescriptor.SIZE :])
        if len(self.handles) >= self.manager.settings.max_handles:
            raise Refused(mq.MQRC_HANDLE_NOT_AVAILABLE)
        descriptor = ObjectDescriptor.unpack(body[_LONG.size :])
        handle = open_object(self.manager, descriptor, options, self.user)
        number = next(self._numbers)
        self.handles[number] = handle
        return Reply(parts=(_LONG.pack(number), descriptor.packed(length), rest))

    def close(self, body: memoryview) -> Reply:
        number, options = _TWO_LONGS.unpack(body)
        if number not in self.handles:
            raise Refused(mq.MQRC_HOBJ_ERROR)
        reason = close_object(self.manager, self.handles[number], options)
        del self.handles[number]
        return _completed(reason)

    def _queue(self, handle: Handle) -> Queue:
        if handle.destination is None:
            raise Refused(mq.MQRC_HOBJ_ERROR)
        return handle.destination.queue

    # --- messages -------------------------------------------------------------------------------------------------

    def put(self, body: memoryview) -> Reply:
        """MQPUT, and MQPUT1, which has an object descriptor in the place of a handle."""
        number, od_length, md_length, pmo_length = _FOUR_LONGS.unpack_from(body)
        at = _FOUR_LONGS.size
        od_bytes = body[at : (at := at + od_length)]
        md_bytes = body[at : (at := at + md_length)]
        pmo_bytes = body[at : (at := at + pmo_length)]
        od = ObjectDescriptor.unpack(od_bytes)
        md, pmo = unpack_descriptor(md_bytes), PutOptions.unpack(pmo_bytes)
        handle = None
        if od_length:
            destination = resolve(self.manager, od, dynamic=False)
            check_authority(self.manager, self.user, trimmed(od.object_name), "put", *context_authorities(pmo.options))
            if od.version >= 3:
                od.resolved_q_name, od.resolved_q_mgr_name = resolved_names(self.manager, destination)
        else:
            handle = self.handle(number)
            self._queue(handle)
            if not handle.options & mq.MQOO_OUTPUT:
                raise Refused(mq.MQRC_NOT_OPEN_FOR_OUTPUT)
            assert handle.destination is not None
            destination = handle.destination
        reason = put(self, destination, handle, md, pmo, bytes(body[at:]))
        od_rest = bytes(od_bytes[ObjectDescriptor.SIZE :])
        parts = (od.packed(od_length), od_rest, md.packed(md_length), pmo.packed(pmo_length))
        return _completed(reason, *parts)

    def get(self, body: memoryview) -> Reply | None:
        number, buffer_length, md_length, gmo_length = _FOUR_LONGS.unpack_from(body)
        at = _FOUR_LONGS.size
        md = unpack_descriptor(body[at : (at := at + md_length)])
        gmo = GetOptions.unpack(body[at : at + gmo_length])
        handle = self.handle(number)
        if buffer_length > self.max_message_length:
            raise Refused(mq.MQRC_DATA_LENGTH_ERROR)
        return Get(self, handle, self._queue(handle), md, gmo, md_length, gmo_length, buffer_length).begin()

    # --- units of work --------------------------------------------------------------------------------------------

    def commit(self, body: memoryview) -> Reply:
        self.unit.commit()
        return Reply()

    def back_out(self, body: memoryview) -> Reply:
        self.unit.back_out()
        return Reply()

    def begin(self, body: memoryview) -> Reply:
        """There is no database that could take part."""
        raise Refused(mq.MQRC_NO_EXTERNAL_PARTICIPANTS, mq.MQCC_WARNING)

    # --- attributes -----------------------------------------------------------------------------------------------

    def inquire(self, body: memoryview) -> Reply:
        number, count, numbers, length = _FOUR_LONGS.unpack_from(body)
        check_counts(count, numbers, length)
        selectors = struct.unpack_from(f"={count}i", body, _FOUR_LONGS.size)
        integers, characters, reason = inquire(self.manager, self.handle(number), selectors, numbers, length)
        parts = (struct.pack(f"={numbers}i", *integers), characters)
        return _completed(reason, *parts)

    def set(self, body: memoryview) -> Reply:
        number, count, numbers, length = _FOUR_LONGS.unpack_from(body)
        check_counts(count, numbers, length)
        longs = struct.unpack_from(f"={count + numbers}i", body, _FOUR_LONGS.size)
        set_attributes(self.manager, self.handle(number), longs[:count], longs[count:])
        return Reply()

    def control(self, body: memoryview) -> Reply:
        return control(self, bytes(body))


def _completed(reason: int, *parts: Buffer) -> Reply:
    """The reply of a call that did what it should, with a warning if there is a reason for one."""
    return Reply(mq.MQCC_WARNING if reason else mq.MQCC_OK, reason, parts)


_CALLS: dict[Verb, Callable[[Connection, memoryview], Reply | None]] = {
    Verb.MQCONN: Connection.connect,
    Verb.MQDISC: Connection.disconnect,
    Verb.MQOPEN: Connection.open,
    Verb.MQCLOSE: Connection.close,
    Verb.MQPUT: Connection.put,
    Verb.MQPUT1: Connection.put,
    Verb.MQGET: Connection.get,
    Verb.MQCMIT: Connection.commit,
    Verb.MQBACK: Connection.back_out,
    Verb.MQBEGIN: Connection.begin,
    Verb.MQINQ: Connection.inquire,
    Verb.MQSET: Connection.set,
    Verb.MQCRTMH: messagecalls.create,
    Verb.MQDLTMH: messagecalls.delete,
    Verb.MQSETMP: messagecalls.set_property,
    Verb.MQINQMP: messagecalls.inquire_property,
    Verb.MQDLTMP: messagecalls.delete_property,
    Verb.MQBUFMH: messagecalls.from_buffer,
    Verb.MQMHBUF: messagecalls.to_buffer,
    Verb.CONTROL: Connection.control,
}
