"""The structures that calls carry and messages are headed by, each declared once as a table of fields.

Sources: the "C declaration" of each structure's page in IBM MQ's developer reference. Written apart from the gateway's
own codecs, so that an error in one does not hide in the other.
"""

import struct
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Annotated, Any, ClassVar, TypeVar, dataclass_transform

from tests.queue_manager.server import constants as mq

Buffer = bytes | bytearray | memoryview

Long = Annotated[int, "i"]
LongLong = Annotated[int, "q"]
Char = Annotated[bytes, "c"]
Byte4 = Annotated[bytes, "4s"]
Byte8 = Annotated[bytes, "8s"]
Byte12 = Annotated[bytes, "12s"]
Byte16 = Annotated[bytes, "16s"]
Byte20 = Annotated[bytes, "20s"]
Byte24 = Annotated[bytes, "24s"]
Byte28 = Annotated[bytes, "28s"]
Byte32 = Annotated[bytes, "32s"]
Byte40 = Annotated[bytes, "40s"]
Byte48 = Annotated[bytes, "48s"]

S = TypeVar("S", bound="Structure")


class Structure:
    """Fields in the order and with the sizes of their annotations, in native byte order.

    A structure of a lower version ends earlier: what is missing is read as zeros, and `packed` cuts it off again.
    """

    __slots__ = ()
    SIZE: ClassVar[int]
    _struct: ClassVar[struct.Struct]
    _values: ClassVar["attrgetter[tuple[Any, ...]]"]
    _places: ClassVar[dict[str, int]]

    @classmethod
    def unpack(cls: type[S], buffer: Buffer) -> S:
        missing = cls.SIZE - len(buffer)
        return cls(*cls._struct.unpack_from(bytes(buffer) + bytes(missing) if missing > 0 else buffer))

    @classmethod
    def names(cls) -> list[str]:
        """The names of the fields."""
        return list(cls._places)

    def copy(self: S) -> S:
        return type(self)(*self._values(self))

    def packed(self, length: int | None = None, **changes: Any) -> bytes:
        """The first `length` bytes of the structure, all by default, with these fields changed."""
        values = self._values(self)
        if changes:
            changed = list(values)
            for name, value in changes.items():
                changed[self._places[name]] = value
            return self._struct.pack(*changed)[:length]
        return self._struct.pack(*values)[:length]


@dataclass_transform()
def structure(cls: type[S]) -> type[S]:
    """Makes a class with annotated fields a structure: a dataclass with slots that knows its layout."""
    made = dataclass(slots=True)(cls)
    rows: dict[str, Any] = {field.name: field.type for field in fields(made)}  # type: ignore[arg-type]
    made._struct = struct.Struct("=" + "".join(annotation.__metadata__[0] for annotation in rows.values()))
    made.SIZE = made._struct.size
    made._values = attrgetter(*rows)
    made._places = {name: place for place, name in enumerate(rows)}
    return made


def padded(text: str | bytes, size: int) -> bytes:
    """Characters filled up with blanks, or cut, to `size` bytes."""
    characters = text.encode("latin-1") if isinstance(text, str) else text
    return characters[:size].ljust(size)


def blanked(field: bytes) -> bytes:
    """A character field as the queue manager gives it back: a NUL and what follows it are blanks."""
    end = field.find(0)
    return field if end < 0 else field[:end].ljust(len(field))


def trimmed(field: bytes) -> str:
    """A character field's text, without what fills it up."""
    return field.partition(b"\0")[0].rstrip(b" ").decode("latin-1")


MQMD_LENGTH_1, MQMD_LENGTH_2 = 324, 364


@structure
class MessageDescriptor(Structure):
    """MQMD."""

    struc_id: Byte4
    version: Long
    report: Long
    msg_type: Long
    expiry: Long
    feedback: Long
    encoding: Long
    coded_char_set_id: Long
    format: Byte8
    priority: Long
    persistence: Long
    msg_id: Byte24
    correl_id: Byte24
    backout_count: Long
    reply_to_q: Byte48
    reply_to_q_mgr: Byte48
    user_identifier: Byte12
    accounting_token: Byte32
    appl_identity_data: Byte32
    put_appl_type: Long
    put_appl_name: Byte28
    put_date: Byte8
    put_time: Byte8
    appl_origin_data: Byte4
    group_id: Byte24
    msg_seq_number: Long
    offset: Long
    msg_flags: Long
    original_length: Long


def default_descriptor() -> MessageDescriptor:
    """An MQMD with the initial values of its fields."""
    texts = (b" " * 48, b" " * 48, b" " * 12, bytes(32), b" " * 32)
    origin = (0, b" " * 28, b" " * 8, b" " * 8, b" " * 4)
    head = (b"MD  ", 2, 0, mq.MQMT_DATAGRAM, mq.MQEI_UNLIMITED, 0, mq.MQENC_NATIVE, mq.MQCCSI_Q_MGR, mq.MQFMT_NONE)
    kept = (mq.MQPRI_PRIORITY_AS_Q_DEF, mq.MQPER_PERSISTENCE_AS_Q_DEF, mq.MQ_NO_ID, mq.MQ_NO_ID, 0)
    return MessageDescriptor(*head, *kept, *texts, *origin, *_DEFAULTS)


VERSION_2_DEFAULTS = {
    "group_id": mq.MQ_NO_ID,
    "msg_seq_number": 1,
    "offset": 0,
    "msg_flags": 0,
    "original_length": mq.MQOL_UNDEFINED,
}
"""The fields that version 1 of MQMD lacks, and what it stands for (IBM MQ, "MQMDE", table 2)."""

version_2_fields = attrgetter(*VERSION_2_DEFAULTS)
_DEFAULTS: tuple[Any, ...] = tuple(VERSION_2_DEFAULTS.values())
_DEFAULT_END = struct.pack("=24s4i", *_DEFAULTS)


def is_default(fields_of: "MessageDescriptor | DescriptorExtension") -> bool:
    """Whether all version-2 fields have their defaults."""
    return bool(version_2_fields(fields_of) == _DEFAULTS)


def unpack_descriptor(buffer: Buffer) -> MessageDescriptor:
    """An MQMD of either version; one of version 1 gets the defaults of what it lacks."""
    whole = buffer if len(buffer) >= MQMD_LENGTH_2 else bytes(buffer) + _DEFAULT_END
    return MessageDescriptor.unpack(whole)


def set_version_2_fields(descriptor: MessageDescriptor, values: tuple[Any, ...]) -> None:
    for name, value in zip(VERSION_2_DEFAULTS, values, strict=True):
        setattr(descriptor, name, value)


def set_default_place(descriptor: MessageDescriptor) -> None:
    """Makes it the descriptor of a message that is in no group and no segment."""
    set_version_2_fields(descriptor, _DEFAULTS)


@structure
class DescriptorExtension(Structure):
    """MQMDE."""

    struc_id: Byte4
    version: Long
    struc_length: Long
    encoding: Long
    coded_char_set_id: Long
    format: Byte8
    flags: Long
    group_id: Byte24
    msg_seq_number: Long
    offset: Long
    msg_flags: Long
    original_length: Long


@structure
class DeadLetterHeader(Structure):
    """MQDLH."""

    struc_id: Byte4
    version: Long
    reason: Long
    dest_q_name: Byte48
    dest_q_mgr_name: Byte48
    encoding: Long
    coded_char_set_id: Long
    format: Byte8
    put_appl_type: Long
    put_appl_name: Byte28
    put_date: Byte8
    put_time: Byte8


@structure
class TransmissionHeader(Structure):
    """MQXQH without the version-1 MQMD that is its end."""

    struc_id: Byte4
    version: Long
    remote_q_name: Byte48
    remote_q_mgr_name: Byte48


@structure
class GetOptions(Structure):
    """MQGMO."""

    struc_id: Byte4
    version: Long
    options: Long
    wait_interval: Long
    signal1: Long
    signal2: Long
    resolved_q_name: Byte48
    match_options: Long
    group_status: Char
    segment_status: Char
    segmentation: Char
    reserved1: Char
    msg_token: Byte16
    returned_length: Long
    reserved2: Long
    msg_handle: LongLong


@structure
class PutOptions(Structure):
    """MQPMO."""

    struc_id: Byte4
    version: Long
    options: Long
    timeout: Long
    context: Long
    known_dest_count: Long
    unknown_dest_count: Long
    invalid_dest_count: Long
    resolved_q_name: Byte48
    resolved_q_mgr_name: Byte48
    recs_present: Long
    put_msg_rec_fields: Long
    put_msg_rec_offset: Long
    response_rec_offset: Long
    put_msg_rec_ptr: LongLong
    response_rec_ptr: LongLong
    original_msg_handle: LongLong
    new_msg_handle: LongLong
    action: Long
    pub_level: Long


@structure
class ObjectDescriptor(Structure):
    """MQOD as far as it is used: up to version 3, and no further."""

    struc_id: Byte4
    version: Long
    object_type: Long
    object_name: Byte48
    object_q_mgr_name: Byte48
    dynamic_q_name: Byte48
    alternate_user_id: Byte12
    recs_present: Long
    known_dest_count: Long
    unknown_dest_count: Long
    invalid_dest_count: Long
    object_rec_offset: Long
    response_rec_offset: Long
    object_rec_ptr: LongLong
    response_rec_ptr: LongLong
    alternate_security_id: Byte40
    resolved_q_name: Byte48
    resolved_q_mgr_name: Byte48


@structure
class ConnectRequest(Structure):
    """What the client library sends first; user, password, token and the peer name that it wants follow. `ccsid` is the
    character set of its locale, or of MQCCSID."""

    queue_manager: Byte48
    channel: Byte20
    application: Byte28
    cipher: Byte32
    options: Long
    process: Long
    max_message_length: Long
    user_length: Long
    password_length: Long
    token_length: Long
    peer_length: Long
    ccsid: Long


@structure
class Options(Structure):
    """MQCMHO, MQDMHO, MQDMPO, MQBMHO and MQMHBO, which differ in their identifiers alone."""

    struc_id: Byte4
    version: Long
    options: Long


@structure
class SetPropertyOptions(Structure):
    """MQSMPO."""

    struc_id: Byte4
    version: Long
    options: Long
    value_encoding: Long
    value_ccsid: Long


@structure
class InquirePropertyOptions(Structure):
    """MQIMPO."""

    struc_id: Byte4
    version: Long
    options: Long
    requested_encoding: Long
    requested_ccsid: Long
    returned_encoding: Long
    returned_ccsid: Long
    reserved1: Long
    name_pointer: LongLong
    name_offset: Long
    name_size: Long
    name_length: Long
    name_ccsid: Long
    type_string: Byte8


@structure
class PropertyDescriptor(Structure):
    """MQPD."""

    struc_id: Byte4
    version: Long
    options: Long
    support: Long
    context: Long
    copy_options: Long
