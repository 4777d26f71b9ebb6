"""Programs that put to and get from a queue with the client library itself, and the gateway's settings for a queue."""

import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Literal, Protocol
from xml.sax.saxutils import escape

from app.model.message import PhysicalMessage
from tests.support.queue_manager import QueueManager

PERSISTENT = 1
_UNIT = 200
_LONGEST = 4 << 20
_CCSID = 1208
_INITIAL = (b"", 1, 0, 0, -1)
_NO_MSG_AVAILABLE = 2033


class Reachable(Protocol):
    """The data needed to connect to a queue manager."""

    @property
    def name(self) -> str: ...

    @property
    def channel(self) -> str: ...

    @property
    def connection_name(self) -> str: ...


@contextmanager
def connected(library: ModuleType, manager: Reachable) -> Iterator[Any]:
    """Return a new connection."""
    connection = library.QueueManager(None)
    connection.connect_tcp_client(manager.name, library.CD(), manager.channel, manager.connection_name)
    try:
        yield connection
    finally:
        connection.disconnect()


def put(
    library: ModuleType,
    manager: QueueManager,
    queue: str,
    messages: Iterable[PhysicalMessage],
    *,
    version: Literal[1, 2] = 2,
    persistence: int = PERSISTENT,
) -> None:
    """Put messages, persistent and under syncpoint.

    With version 1 their group fields are in an MQMDE. Properties are in an MQRFH2. The queue manager counts the length
    of a segment.
    """
    constants = library.CMQC
    with connected(library, manager) as connection:
        opened = library.Queue(connection, queue, constants.MQOO_OUTPUT)
        for number, message in enumerate(messages, 1):
            descriptor, body = described(library, _with_own_properties(message)._replace(original_length=-1), version)
            descriptor.Persistence = persistence
            opened.put(body, descriptor, library.PMO(Options=constants.MQPMO_SYNCPOINT))
            if number % _UNIT == 0:
                connection.commit()
        connection.commit()
        opened.close()


def described(library: ModuleType, message: PhysicalMessage, version: Literal[1, 2]) -> tuple[Any, bytes]:
    """Return the descriptor and the data with which a program puts a message."""
    fields: dict[str, Any] = {
        "MsgType": message.msg_type,
        "CorrelId": message.correl_id,
        "MsgId": message.message_id,
        "Format": message.format.encode(),
    }
    if message.encoding:
        fields["Encoding"] = message.encoding
    if message.ccsid:
        fields["CodedCharSetId"] = message.ccsid
    grouping = (
        message.group_id,
        message.msg_seq_number,
        message.offset,
        message.msg_flags,
        message.original_length,
    )
    body = bytes(message.body)
    if version == 2:
        names = ("GroupId", "MsgSeqNumber", "Offset", "MsgFlags", "OriginalLength")
        return library.MD(Version=2, **fields, **dict(zip(names, grouping, strict=True))), body
    if grouping != _INITIAL:
        body = extension(message) + body
        fields |= {"Format": b"MQHMDE", "Encoding": 546, "CodedCharSetId": _CCSID}
    return library.MD(Version=1, **fields), body


def extension(message: PhysicalMessage) -> bytes:
    """Return an MQMDE as a program on x86 writes it for a queue manager there."""
    return struct.pack(
        "<4s4i8si24s4i",
        *(b"MDE ", 2, 72, message.encoding or 546, message.ccsid or _CCSID, message.format.encode().ljust(8), 0),
        *(message.group_id, message.msg_seq_number, message.offset, message.msg_flags, message.original_length),
    )


def _with_own_properties(message: PhysicalMessage) -> PhysicalMessage:
    named = "".join(f"<{name}>{escape(text)}</{name}>" for name, text in message.properties.items())
    return with_properties(message, f"<usr>{named}</usr>".encode()) if named else message


def with_properties(message: PhysicalMessage, folder: bytes) -> PhysicalMessage:
    """Return the message with an MQRFH2 before it, as a program with this encoding and ASCII writes it."""
    order = "<" if (message.encoding or 546) & 0xF == 2 else ">"
    folder += b" " * (-len(folder) % 4)
    header = struct.pack(
        f"{order}4siiii8siii",
        *(
            b"RFH ",
            2,
            40 + len(folder),
            message.encoding or 546,
            message.ccsid or _CCSID,
            message.format.encode().ljust(8),
        ),
        *(0, 1208, len(folder)),
    )
    body = b"".join((header, folder, bytes(message.body)))
    return message._replace(body=body, format="MQHRF2", ccsid=819)


def as_dead_letter(message: PhysicalMessage, reason: int, queue: str) -> PhysicalMessage:
    """Return the message with an MQDLH, as an application on x86 puts it on the dead-letter queue."""
    header = struct.pack(
        "<4sii48s48sii8si28s8s8s",
        *(b"DLH ", 1, reason, queue.encode().ljust(48), b"QM1".ljust(48), message.encoding or 546),
        *(
            message.ccsid or _CCSID,
            message.format.encode().ljust(8),
            11,
            b"channel".ljust(28),
            b"20261121",
            b"12000000",
        ),
    )
    return message._replace(body=header + bytes(message.body), format="MQDEAD", encoding=546, ccsid=1208)


def taken(library: ModuleType, manager: QueueManager, queue: str) -> list[tuple[Any, bytes]]:
    """Get all messages of a queue, each with its version-2 descriptor."""
    found: list[tuple[Any, bytes]] = []
    with connected(library, manager) as connection:
        opened = library.Queue(connection, queue, library.CMQC.MQOO_INPUT_SHARED)
        while True:
            descriptor = library.MD(Version=2)
            try:
                body = opened.get(_LONGEST, descriptor, library.GMO(Options=library.CMQC.MQGMO_NO_SYNCPOINT))
            except library.MQMIError as error:
                if error.reason == _NO_MSG_AVAILABLE:
                    return found
                raise
            found.append((descriptor, body))


def back_out(library: ModuleType, manager: QueueManager, queue: str, times: int) -> None:
    """Get the first message this number of times and back out each time."""
    with connected(library, manager) as connection:
        opened = library.Queue(connection, queue, library.CMQC.MQOO_INPUT_SHARED)
        for _ in range(times):
            opened.get(_LONGEST, library.MD(), library.GMO(Options=library.CMQC.MQGMO_SYNCPOINT))
            connection.backout()


@contextmanager
def held(library: ModuleType, manager: QueueManager, queue: str) -> Iterator[None]:
    """Hold the first message in a unit of work, which is backed out after the block."""
    with connected(library, manager) as connection:
        opened = library.Queue(connection, queue, library.CMQC.MQOO_INPUT_SHARED)
        opened.get(_LONGEST, library.MD(), library.GMO(Options=library.CMQC.MQGMO_SYNCPOINT))
        yield
        connection.backout()


def mq_source(name: str, manager: QueueManager, queue: str, options: str = "") -> str:
    """Return a source's table for the configuration file."""
    return f'[sources.{name}]\ntransport = "ibm_mq"\n{_connection(manager, queue)}wait = 0.1\n{options}'


def mq_destination(name: str, manager: QueueManager, queue: str, options: str = "") -> str:
    """Return a destination's table for the configuration file."""
    return f'[destinations.{name}]\ntransport = "ibm_mq"\n{_connection(manager, queue)}{options}'


def _connection(manager: QueueManager, queue: str) -> str:
    return (
        f'queue_manager = "{manager.name}"\nchannel = "{manager.channel}"\n'
        f'connection = "{manager.connection_name}"\nqueue = "{queue}"\n'
    )
