"""MQOPEN and MQCLOSE: from names to queues.

Sources: IBM MQ, "MQOPEN", "MQCLOSE", "MQOD", and the pages of the reasons.
"""

from dataclasses import replace

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.authority import check_authority, open_authorities
from tests.queue_manager.server.errors import Refused
from tests.queue_manager.server.handle import Destination, Handle
from tests.queue_manager.server.manager import QueueManager
from tests.queue_manager.server.queue import Queue
from tests.queue_manager.server.structures import ObjectDescriptor, padded, trimmed

_ACCESSES = mq.MQOO_INPUT | mq.MQOO_BROWSE | mq.MQOO_OUTPUT | mq.MQOO_INQUIRE | mq.MQOO_SET
_PASSES = mq.MQOO_PASS_IDENTITY_CONTEXT | mq.MQOO_PASS_ALL_CONTEXT
_SETS = mq.MQOO_SET_IDENTITY_CONTEXT | mq.MQOO_SET_ALL_CONTEXT
_LOCAL_ONLY = mq.MQOO_INPUT | mq.MQOO_BROWSE | mq.MQOO_SAVE_ALL_CONTEXT
_OD_VERSIONS = range(1, 5)


def open_object(manager: QueueManager, descriptor: ObjectDescriptor, options: int, user: str) -> Handle:
    """Opens what the descriptor names; the descriptor gets the resolved names. Raises Refused."""
    if descriptor.version not in _OD_VERSIONS:
        raise Refused(mq.MQRC_OD_ERROR)
    if manager.quiescing and options & mq.MQOO_FAIL_IF_QUIESCING:
        raise Refused(mq.MQRC_Q_MGR_QUIESCING)
    if descriptor.object_type == mq.MQOT_Q_MGR:
        check_authority(manager, user, "", *open_authorities(options))
        return _open_manager(manager, descriptor, options)
    if descriptor.object_type != mq.MQOT_Q:
        raise Refused(mq.MQRC_OBJECT_TYPE_ERROR)
    _check_options(options)
    wanted = trimmed(descriptor.object_name)
    check_authority(manager, user, wanted, *open_authorities(options))
    destination = resolve(manager, descriptor)
    made_now = trimmed(descriptor.object_name) != wanted
    handle = Handle(destination, options, creator=made_now and destination.queue.temporary)
    _check_type(handle)
    _check_use(handle)
    _take(handle)
    if descriptor.version >= 3:
        descriptor.resolved_q_name, descriptor.resolved_q_mgr_name = resolved_names(manager, destination)
    return handle


def _open_manager(manager: QueueManager, descriptor: ObjectDescriptor, options: int) -> Handle:
    own = ("", manager.settings.name)
    if trimmed(descriptor.object_name) not in own:
        raise Refused(mq.MQRC_UNKNOWN_OBJECT_NAME)
    if trimmed(descriptor.object_q_mgr_name) not in own:
        raise Refused(mq.MQRC_OBJECT_Q_MGR_NAME_ERROR)
    if options & (_ACCESSES & ~mq.MQOO_INQUIRE):
        raise Refused(mq.MQRC_OPTION_NOT_VALID_FOR_TYPE)
    if not options & mq.MQOO_INQUIRE:
        raise Refused(mq.MQRC_OPTIONS_ERROR)
    return Handle(None, options)


def _check_options(options: int) -> None:
    inputs = options & mq.MQOO_INPUT
    if not options & _ACCESSES or inputs & (inputs - 1):
        raise Refused(mq.MQRC_OPTIONS_ERROR)
    if options & (_PASSES | _SETS) and not options & mq.MQOO_OUTPUT:
        raise Refused(mq.MQRC_OPTIONS_ERROR)
    if options & mq.MQOO_SAVE_ALL_CONTEXT and not inputs:
        raise Refused(mq.MQRC_OPTIONS_ERROR)


def _check_type(handle: Handle) -> None:
    assert handle.destination is not None
    if handle.destination.remote and handle.options & (_LOCAL_ONLY | mq.MQOO_INQUIRE | mq.MQOO_SET):
        # A local definition of a remote queue can be inquired, and nothing but that and output.
        inquiring = handle.destination.named.attributes.type == mq.MQQT_REMOTE
        if handle.options & _LOCAL_ONLY or not inquiring:
            raise Refused(mq.MQRC_OPTION_NOT_VALID_FOR_TYPE)


def _check_use(handle: Handle) -> None:
    assert handle.destination is not None
    queue = handle.destination.queue
    if not handle.options & mq.MQOO_INPUT:
        return
    if queue.exclusive or (queue.inputs and _exclusive(handle)):
        raise Refused(mq.MQRC_OBJECT_IN_USE)


def _exclusive(handle: Handle) -> bool:
    assert handle.destination is not None
    attributes = handle.destination.queue.attributes
    by_default = handle.options & mq.MQOO_INPUT_AS_Q_DEF and attributes.defsopt == "EXCL"
    return bool(handle.options & mq.MQOO_INPUT_EXCLUSIVE or by_default or not attributes.share)


def _take(handle: Handle) -> None:
    assert handle.destination is not None
    handle.count(+1)
    if handle.options & mq.MQOO_INPUT and _exclusive(handle):
        handle.destination.queue.exclusive = True


def resolve(manager: QueueManager, descriptor: ObjectDescriptor, *, dynamic: bool = True) -> Destination:
    """Where the name in a descriptor leads; a model queue is made a dynamic one only where that is allowed.

    Raises Refused.

    Source: IBM MQ, "Resolving names".
    """
    name = trimmed(descriptor.object_name)
    at = trimmed(descriptor.object_q_mgr_name)
    if at not in ("", manager.settings.name):
        return _elsewhere(manager, name, at)
    queue = manager.queue(name)
    match queue.attributes.type:
        case kind if kind == mq.MQQT_ALIAS:
            return _target(manager, queue)
        case kind if kind == mq.MQQT_MODEL:
            if not dynamic:
                raise Refused(mq.MQRC_Q_TYPE_ERROR)
            made = _make_dynamic(manager, queue, descriptor)
            return Destination(made, made)
        case kind if kind == mq.MQQT_REMOTE:
            return _remote(manager, queue, queue)
    return Destination(queue, queue)


def _target(manager: QueueManager, alias: Queue) -> Destination:
    queue = manager.queues.get(alias.attributes.target or "")
    if queue is None:
        raise Refused(mq.MQRC_UNKNOWN_ALIAS_BASE_Q)
    if queue.attributes.type == mq.MQQT_REMOTE:
        return _remote(manager, queue, alias)
    if queue.attributes.type != mq.MQQT_LOCAL:
        raise Refused(mq.MQRC_ALIAS_BASE_Q_TYPE_ERROR)
    return Destination(queue, alias)


def _remote(manager: QueueManager, definition: Queue, named: Queue) -> Destination:
    attributes = definition.attributes
    over = attributes.rqmname or ""
    return Destination(
        _transmission_queue(manager, attributes.xmitq or over, given=bool(attributes.xmitq)),
        named,
        attributes.rname or "",
        over,
    )


def _elsewhere(manager: QueueManager, name: str, at: str) -> Destination:
    queue = _transmission_queue(manager, at, given=False)
    return Destination(queue, queue, name, at)


def _transmission_queue(manager: QueueManager, name: str, *, given: bool) -> Queue:
    queue = manager.queues.get(name)
    if queue is None:
        raise Refused(mq.MQRC_UNKNOWN_XMIT_Q if given else mq.MQRC_UNKNOWN_REMOTE_Q_MGR)
    if queue.attributes.type != mq.MQQT_LOCAL:
        raise Refused(mq.MQRC_XMIT_Q_TYPE_ERROR)
    if queue.attributes.usage != "XMITQ":
        raise Refused(mq.MQRC_XMIT_Q_USAGE_ERROR)
    return queue


def _make_dynamic(manager: QueueManager, model: Queue, descriptor: ObjectDescriptor) -> Queue:
    pattern = trimmed(descriptor.dynamic_q_name)
    if not pattern or pattern == "*" * len(pattern):
        pattern = "AMQ.*"
    name = pattern[:-1] + f"{manager.unique():016X}" if pattern.endswith("*") else pattern
    if len(name) > len(descriptor.object_name) or "*" in name or " " in name:
        raise Refused(mq.MQRC_DYNAMIC_Q_NAME_ERROR)
    if name in manager.queues:
        raise Refused(mq.MQRC_OBJECT_ALREADY_EXISTS)
    permanent = model.attributes.deftype == "PERMDYN"
    descriptor.object_name = padded(name, 48)
    descriptor.object_q_mgr_name = padded(manager.settings.name, 48)
    return manager.define(name, replace(model.attributes, model=False, deftype="PERMDYN" if permanent else "TEMPDYN"))


def resolved_names(manager: QueueManager, destination: Destination) -> tuple[bytes, bytes]:
    """ResolvedQName and ResolvedQMgrName."""
    if destination.remote_queue is not None:
        return padded(destination.remote_queue, 48), padded(destination.remote_manager, 48)
    return padded(destination.queue.name, 48), padded(manager.settings.name, 48)


def close_object(manager: QueueManager, handle: Handle, options: int = 0) -> int:
    """Closes a handle; a temporary dynamic queue goes with the one that made it.

    Returns the reason of a warning, where a group or a message is left incomplete. Raises Refused where the options
    ask for a deletion that cannot be.
    """
    handle.unlock()
    if handle.destination is None:
        return mq.MQRC_NONE
    queue = handle.destination.queue
    deleting = options & (mq.MQCO_DELETE | mq.MQCO_DELETE_PURGE)
    if deleting and not handle.destination.named.dynamic:
        raise Refused(mq.MQRC_OPTION_NOT_VALID_FOR_TYPE)
    in_use = queue.held if options & mq.MQCO_DELETE else queue.uncommitted
    if deleting and not queue.temporary and in_use:
        raise Refused(mq.MQRC_Q_NOT_EMPTY)
    handle.count(-1)
    if handle.options & mq.MQOO_INPUT and not queue.inputs:
        queue.exclusive = False
    if not queue.deleted and (deleting or handle.creator):
        manager.delete(queue)
    return handle.puts.incomplete_in_logical_order or handle.gets.incomplete_in_logical_order
