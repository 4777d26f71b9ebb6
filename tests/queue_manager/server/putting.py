"""MQPUT and MQPUT1: what is checked, what is filled in, and where the message goes.

Sources: IBM MQ, "MQPUT", "MQPUT1", "MQPMO", "MQMD", and the pages of the reasons. In which order a call is checked, and
that the properties of a handle do not count for the length of a message, is believed.
"""

from time import time
from typing import TYPE_CHECKING

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.context import check_context, now, saved_context, set_context
from tests.queue_manager.server.errors import Refused
from tests.queue_manager.server.extension import extension_of, fold, move_behind_dead_letter_header
from tests.queue_manager.server.folders import check as check_folders
from tests.queue_manager.server.folders import holds_defined_properties, with_properties
from tests.queue_manager.server.grouping import place
from tests.queue_manager.server.handle import Destination, Handle
from tests.queue_manager.server.headers import check_headers, description_of
from tests.queue_manager.server.manager import QueueManager
from tests.queue_manager.server.messagecalls import message_handle
from tests.queue_manager.server.messagehandle import MessageHandle, put_properties
from tests.queue_manager.server.opening import resolved_names
from tests.queue_manager.server.queue import Message
from tests.queue_manager.server.reporting import check_report_options, report
from tests.queue_manager.server.structures import (
    MQMD_LENGTH_1,
    MessageDescriptor,
    PutOptions,
    TransmissionHeader,
    blanked,
    is_default,
    padded,
    set_default_place,
)
from tests.queue_manager.server.unit import UnitOfWork, store

if TYPE_CHECKING:
    from tests.queue_manager.server.connection import Connection

_SMALLEST_SEGMENT = 16
_SEGMENTS = mq.MQMF_SEGMENTED | mq.MQMF_SEGMENTATION_ALLOWED
_SYNCPOINTS = mq.MQPMO_SYNCPOINT | mq.MQPMO_NO_SYNCPOINT
_UNDEFINED_OPTIONS = 0x1 | 0x8 | 0x10
_MESSAGE_TYPES = {
    mq.MQMT_REQUEST,
    mq.MQMT_REPLY,
    mq.MQMT_REPORT,
    mq.MQMT_DATAGRAM,
    mq.MQMT_MQE_FIELDS_FROM_MQE,
    mq.MQMT_MQE_FIELDS,
}


def put(
    connection: "Connection",
    destination: Destination,
    handle: Handle | None,
    descriptor: MessageDescriptor,
    options: PutOptions,
    data: bytes,
) -> int:
    """Puts a message; the descriptor and the options get what the call returns in them.

    MQPUT1 has no handle. Returns the reason of a warning, or none. Raises Refused.
    """
    manager = connection.manager
    _check_options(manager, options)
    original, new = _message_handles(connection, options)
    if handle is None and options.options & mq.MQPMO_LOGICAL_ORDER:
        raise Refused(mq.MQRC_OPTIONS_ERROR)
    check_context(options.options, handle)
    passed = saved_context(options.options, connection.handles.get(options.context))
    if not destination.queue.attributes.put_enabled or not destination.named.attributes.put_enabled:
        raise Refused(mq.MQRC_PUT_INHIBITED)
    warning = _check_descriptor(descriptor) or check_report_options(descriptor, remote=destination.remote)
    syncpoint = bool(options.options & mq.MQPMO_SYNCPOINT)
    _fill_in(manager, destination, descriptor, options.options, connection.ccsid)
    set_context(descriptor, options.options, passed, connection.user, connection.application)
    kept = descriptor.copy()
    if kept.format == mq.MQFMT_MD_EXTENSION:
        data = fold(kept, data, manager.settings.ccsid)
    if descriptor.version > 1:
        check_headers(kept, data)
    _check_size(connection, destination, kept, data)
    if kept.msg_flags & _SEGMENTS and holds_defined_properties(description_of(kept), data):
        raise Refused(mq.MQRC_SEGMENTATION_NOT_ALLOWED)
    if syncpoint:
        connection.unit.make_room()
    warning = warning or place(manager, handle, kept, len(data), options.options)
    data = _add_properties(kept, data, original, new, options.action)
    pieces = [_made(manager, destination, *piece) for piece in _segments(manager, destination, kept, data)]
    if new is not None:
        new.descriptor = kept.copy()
    _store(manager, pieces, connection.unit if syncpoint else None, remote=destination.remote)
    _return(manager, destination, descriptor, kept, options)
    return warning


def _store(manager: QueueManager, pieces: list[Message], unit: UnitOfWork | None, *, remote: bool) -> None:
    """Puts the message, or its segments, on its queue, and what reports are asked for of its arrival there."""
    if unit is None:
        store(manager.log, pieces, ())
    for message in pieces:
        if unit is None:
            message.queue.add(message)
        else:
            unit.put(message)
    if unit is None:
        pieces[0].queue.serve()
    if not remote:
        for message in pieces:
            report(manager, message, mq.MQRO_COA, unit)


def _check_options(manager: QueueManager, options: PutOptions) -> None:
    if options.version not in (1, 2, 3):
        raise Refused(mq.MQRC_PMO_ERROR)
    flags = options.options
    if flags & _SYNCPOINTS == _SYNCPOINTS or flags & _UNDEFINED_OPTIONS:
        raise Refused(mq.MQRC_OPTIONS_ERROR)
    if manager.quiescing and flags & mq.MQPMO_FAIL_IF_QUIESCING:
        raise Refused(mq.MQRC_Q_MGR_QUIESCING)


def _message_handles(
    connection: "Connection", options: PutOptions
) -> tuple[MessageHandle | None, MessageHandle | None]:
    """The original and the new message handle, as far as they are given. Raises Refused for one that is not valid."""
    numbers = (options.original_msg_handle, options.new_msg_handle) if options.version > 2 else (0, 0)
    original, new = (None if not number else message_handle(connection, number) for number in numbers)
    return original, new


def _add_properties(
    kept: MessageDescriptor, data: bytes, original: MessageHandle | None, new: MessageHandle | None, action: int
) -> bytes:
    """The data with the properties of the handles in an MQRFH2, which the descriptor then announces."""
    if original is None and new is None:
        return data
    check_folders(description_of(kept), data)
    properties = put_properties(original, new, action)
    if new is not None:
        new.properties = properties
    description, data = with_properties(description_of(kept), data, properties)
    kept.encoding, kept.coded_char_set_id, kept.format = description
    return data


def _check_descriptor(descriptor: MessageDescriptor) -> int:
    """Raises Refused for the first field that is wrong; returns the reason of a warning."""
    if descriptor.version not in (1, 2):
        raise Refused(mq.MQRC_MD_ERROR)
    kind = descriptor.msg_type
    if kind not in _MESSAGE_TYPES and not mq.MQMT_APPL_FIRST <= kind <= mq.MQMT_APPL_LAST:
        raise Refused(mq.MQRC_MSG_TYPE_ERROR)
    if kind == mq.MQMT_REQUEST and not descriptor.reply_to_q.strip(b" \0"):
        raise Refused(mq.MQRC_MISSING_REPLY_TO_Q)
    if descriptor.expiry < 1 and descriptor.expiry != mq.MQEI_UNLIMITED:
        raise Refused(mq.MQRC_EXPIRY_ERROR)
    if descriptor.persistence not in (0, 1, 2):
        raise Refused(mq.MQRC_PERSISTENCE_ERROR)
    if descriptor.priority < mq.MQPRI_PRIORITY_AS_Q_DEF:
        raise Refused(mq.MQRC_PRIORITY_ERROR)
    return mq.MQRC_PRIORITY_EXCEEDS_MAXIMUM if descriptor.priority > mq.MQPRI_MAXIMUM else mq.MQRC_NONE


def _check_size(connection: "Connection", destination: Destination, descriptor: MessageDescriptor, data: bytes) -> None:
    queue, settings = destination.queue, connection.manager.settings
    may_cut = descriptor.msg_flags & mq.MQMF_SEGMENTATION_ALLOWED
    for limit, reason in (
        (queue.attributes.maxmsgl, mq.MQRC_MSG_TOO_BIG_FOR_Q),
        (settings.max_message_length, mq.MQRC_MSG_TOO_BIG_FOR_Q_MGR),
    ):
        if len(data) > limit and not (may_cut and limit >= _SMALLEST_SEGMENT):
            raise Refused(reason)
    if len(data) > connection.max_message_length:
        raise Refused(mq.MQRC_DATA_LENGTH_ERROR)
    if queue.depth >= queue.attributes.maxdepth:
        raise Refused(mq.MQRC_Q_FULL)


def _segments(
    manager: QueueManager, destination: Destination, descriptor: MessageDescriptor, data: bytes
) -> list[tuple[MessageDescriptor, bytes]]:
    """The message, or the segments that the queue manager makes of one that is too long and allows it.

    Source: IBM MQ, "MsgFlags", MQMF_SEGMENTATION_ALLOWED. That they end at multiples of 16 bytes and that all but the
    first get a MsgId of their own is believed.
    """
    most = min(destination.queue.attributes.maxmsgl, manager.settings.max_message_length)
    if len(data) <= most:
        return [(descriptor, data)]
    size = most // _SMALLEST_SEGMENT * _SMALLEST_SEGMENT
    was_last = descriptor.msg_flags & mq.MQMF_LAST_SEGMENT or not descriptor.msg_flags & mq.MQMF_SEGMENTED
    if descriptor.group_id == mq.MQ_NO_ID:
        descriptor.group_id = manager.new_id()
    found = []
    for start in range(0, len(data), size):
        piece, each = data[start : start + size], descriptor.copy()
        each.msg_id = manager.new_id() if start else descriptor.msg_id
        each.msg_flags = each.msg_flags & ~mq.MQMF_LAST_SEGMENT | mq.MQMF_SEGMENT
        if start + size >= len(data) and was_last:
            each.msg_flags |= mq.MQMF_LAST_SEGMENT
        each.offset, each.original_length = descriptor.offset + start, len(piece)
        found.append((each, piece))
    return found


def _fill_in(
    manager: QueueManager,
    destination: Destination,
    descriptor: MessageDescriptor,
    options: int,
    client_ccsid: int,
) -> None:
    """Puts values in the place of what stands for them, and blanks in the place of NULs."""
    # Of an alias or a remote queue it is its own definition that says the defaults.
    named = destination.named
    if descriptor.msg_id == mq.MQ_NO_ID or options & mq.MQPMO_NEW_MSG_ID:
        descriptor.msg_id = manager.new_id()
    if options & mq.MQPMO_NEW_CORREL_ID:
        descriptor.correl_id = manager.new_id()
    if descriptor.priority == mq.MQPRI_PRIORITY_AS_Q_DEF:
        descriptor.priority = named.attributes.defprty
    if descriptor.persistence == mq.MQPER_PERSISTENCE_AS_Q_DEF:
        descriptor.persistence = int(named.attributes.defpsist)
    if descriptor.persistence == mq.MQPER_PERSISTENT and destination.queue.temporary:
        raise Refused(mq.MQRC_PERSISTENT_NOT_ALLOWED)
    if descriptor.coded_char_set_id in (mq.MQCCSI_Q_MGR, mq.MQCCSI_INHERIT):
        descriptor.coded_char_set_id = client_ccsid
    descriptor.backout_count = 0
    descriptor.format = blanked(descriptor.format)
    descriptor.reply_to_q = blanked(descriptor.reply_to_q)
    descriptor.reply_to_q_mgr = blanked(descriptor.reply_to_q_mgr)
    if not descriptor.reply_to_q_mgr.strip() and descriptor.reply_to_q.strip():
        descriptor.reply_to_q_mgr = padded(manager.settings.name, 48)


def _made(manager: QueueManager, destination: Destination, descriptor: MessageDescriptor, data: bytes) -> Message:
    """The message as it goes to its queue."""
    expires = None if descriptor.expiry == mq.MQEI_UNLIMITED else time() + descriptor.expiry / 10
    if descriptor.format == mq.MQFMT_DEAD_LETTER_HEADER and descriptor.msg_flags & mq.MQMF_SEGMENTED:
        data = move_behind_dead_letter_header(descriptor, data)
    if destination.remote_queue is not None:
        descriptor, data = _for_transmission(manager, destination, descriptor, data)
    logged = descriptor.persistence == mq.MQPER_PERSISTENT
    return Message(descriptor, data, destination.queue, manager.number(), expires, logged)


def _for_transmission(
    manager: QueueManager, destination: Destination, descriptor: MessageDescriptor, data: bytes
) -> tuple[MessageDescriptor, bytes]:
    """A descriptor of the queue manager's own, and data that begin with the message's: MQXQH, with an MQMDE behind it
    where version 1 of MQMD cannot say everything.

    Source: IBM MQ, "MQXQH - Transmission-queue header".
    """
    embedded = descriptor.copy()
    if not is_default(descriptor):
        data = extension_of(descriptor, description_of(descriptor)) + data
        embedded.format = mq.MQFMT_MD_EXTENSION
        embedded.encoding, embedded.coded_char_set_id = mq.MQENC_NATIVE, manager.settings.ccsid
    header = TransmissionHeader(
        b"XQH ", 1, padded(destination.remote_queue or "", 48), padded(destination.remote_manager, 48)
    )
    outer = descriptor.copy()
    set_default_place(outer)
    outer.report &= ~mq.MQRO_ACCEPT_UNSUP_IF_XMIT_MASK
    outer.format = mq.MQFMT_XMIT_Q_HEADER
    outer.encoding, outer.coded_char_set_id = mq.MQENC_NATIVE, manager.settings.ccsid
    outer.correl_id, outer.msg_id = descriptor.msg_id, manager.new_id()
    outer.put_appl_type, outer.put_appl_name = mq.MQAT_QMGR, padded(manager.settings.name, 28)
    outer.put_date, outer.put_time = now()
    outer.appl_origin_data = b" " * 4
    return outer, header.packed() + embedded.packed(MQMD_LENGTH_1, version=1) + data


def _return(
    manager: QueueManager,
    destination: Destination,
    descriptor: MessageDescriptor,
    kept: MessageDescriptor,
    options: PutOptions,
) -> None:
    """Fills in the output fields of the structures."""
    options.resolved_q_name, options.resolved_q_mgr_name = resolved_names(manager, destination)
    if descriptor.version > 1 and descriptor.format != mq.MQFMT_MD_EXTENSION:
        descriptor.group_id, descriptor.msg_seq_number = kept.group_id, kept.msg_seq_number
        descriptor.offset, descriptor.original_length = kept.offset, kept.original_length
