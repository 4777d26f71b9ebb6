"""The calls about message handles: MQCRTMH, MQDLTMH, MQSETMP, MQINQMP, MQDLTMP, MQBUFMH and MQMHBUF.

A handle belongs to the connection that made it; handles of no connection (MQHC_UNASSOCIATED_HCONN) are not offered.
Sources: IBM MQ, the pages of the calls, of their structures and of the reasons. That a string is returned in the
character set in which it was set where no conversion is asked for, is believed.
"""

import struct
from typing import TYPE_CHECKING, TypeVar

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.charsets import codec
from tests.queue_manager.server.errors import Refused
from tests.queue_manager.server.folders import parse, with_properties, without_properties
from tests.queue_manager.server.headers import Description, description_of
from tests.queue_manager.server.messagehandle import MessageHandle
from tests.queue_manager.server.properties import (
    NUMBERS,
    Property,
    check_length,
    check_name_length,
    converted,
    path_of,
)
from tests.queue_manager.server.structures import (
    InquirePropertyOptions,
    Options,
    PropertyDescriptor,
    SetPropertyOptions,
    Structure,
    unpack_descriptor,
)
from tests.queue_manager.server.wire import Reply

if TYPE_CHECKING:
    from tests.queue_manager.server.connection import Connection

S = TypeVar("S", bound=Structure)

_HANDLE = struct.Struct("=q")
_NAMED = struct.Struct("=q4i")
"""A handle, a type, a length, and the length and the character set of the name that follows the structures."""
_BUFFER = struct.Struct("=q4i")
_TWO_LONGS = struct.Struct("=2i")
_LONG = struct.Struct("=i")

_SET_PLACES = (
    mq.MQSMPO_SET_PROP_UNDER_CURSOR
    | mq.MQSMPO_SET_PROP_AFTER_CURSOR
    | mq.MQSMPO_APPEND_PROPERTY
    | mq.MQSMPO_SET_PROP_BEFORE_CURSOR
)
_INQUIRE_PLACES = mq.MQIMPO_INQ_NEXT | mq.MQIMPO_INQ_PROP_UNDER_CURSOR
_SUPPORTS = (mq.MQPD_SUPPORT_OPTIONAL, mq.MQPD_SUPPORT_REQUIRED, mq.MQPD_SUPPORT_REQUIRED_IF_LOCAL)


class _Arguments:
    """A call's structures and what follows them, taken off one after the other."""

    def __init__(self, body: memoryview, start: int) -> None:
        self._body, self._at = body, start

    def structure(self, kind: type[S]) -> S:
        return kind.unpack(self.take(kind.SIZE))

    def take(self, length: int) -> bytes:
        start, self._at = self._at, self._at + max(length, 0)
        return bytes(self._body[start : self._at])

    def rest(self) -> bytes:
        return bytes(self._body[self._at :])


def _check_options(options: Options, reason: int, exclusive: int = 0) -> int:
    """Raises Refused for a version that there is not, or for options that exclude each other."""
    if options.version != 1:
        raise Refused(reason)
    _check_exclusive(options.options, exclusive)
    return options.options


def _check_exclusive(flags: int, exclusive: int) -> None:
    chosen = flags & exclusive
    if chosen & (chosen - 1):
        raise Refused(mq.MQRC_OPTIONS_ERROR)


def message_handle(connection: "Connection", number: int) -> MessageHandle:
    """Raises Refused for a number that is no message handle of this connection."""
    try:
        return connection.message_handles[number]
    except KeyError:
        raise Refused(mq.MQRC_HMSG_ERROR) from None


# --- handles ------------------------------------------------------------------------------------------------------


def create(connection: "Connection", body: memoryview) -> Reply:
    options = _check_options(Options.unpack(body), mq.MQRC_CMHO_ERROR, mq.MQCMHO_VALIDATE | mq.MQCMHO_NO_VALIDATION)
    number = connection.manager.unique()
    connection.message_handles[number] = MessageHandle(validates=not options & mq.MQCMHO_NO_VALIDATION)
    return Reply(parts=(_HANDLE.pack(number),))


def delete(connection: "Connection", body: memoryview) -> Reply:
    (number,) = _HANDLE.unpack_from(body)
    _check_options(Options.unpack(body[_HANDLE.size :]), mq.MQRC_DMHO_ERROR)
    message_handle(connection, number)
    del connection.message_handles[number]
    return Reply()


# --- properties ---------------------------------------------------------------------------------------------------


def _name(connection: "Connection", encoded: bytes, length: int, ccsid: int) -> str:
    check_name_length(length)
    charset = codec(_ccsid(connection, ccsid), "<")
    if charset is None:
        raise Refused(mq.MQRC_PROPERTY_NAME_ERROR)
    return encoded.decode(charset, "replace").rstrip(" ")


def _ccsid(connection: "Connection", ccsid: int) -> int:
    if ccsid == mq.MQCCSI_APPL:
        return connection.ccsid
    return connection.manager.settings.ccsid if ccsid == mq.MQCCSI_Q_MGR else ccsid


def _order(encoding: int) -> str:
    return Description(encoding, 0, b"").order


def set_property(connection: "Connection", body: memoryview) -> Reply:
    number, type_, length, name_length, name_ccsid = _NAMED.unpack_from(body)
    arguments = _Arguments(body, _NAMED.size)
    options, descriptor = arguments.structure(SetPropertyOptions), arguments.structure(PropertyDescriptor)
    name = _name(connection, arguments.take(name_length), name_length, name_ccsid)
    handle = message_handle(connection, number)
    if options.version != 1:
        raise Refused(mq.MQRC_SMPO_ERROR)
    _check_exclusive(options.options, _SET_PLACES)
    if descriptor.version != 1 or descriptor.context not in (0, mq.MQPD_USER_CONTEXT):
        raise Refused(mq.MQRC_PD_ERROR)
    if descriptor.support not in _SUPPORTS:
        raise Refused(mq.MQRC_PD_ERROR)
    check_length(type_, length)
    ccsid = _ccsid(connection, options.value_ccsid)
    made = Property(path_of(name), type_, None, ccsid)
    made.support, made.context, made.copy_options = descriptor.support, descriptor.context, descriptor.copy_options
    made.value = _value(type_, arguments.rest(), _order(options.value_encoding), ccsid)
    handle.set(name, made, options.options)
    return Reply(parts=(descriptor.packed(),))


def _value(type_: int, encoded: bytes, order: str, ccsid: int) -> object:
    if type_ in NUMBERS:
        return struct.unpack(order + NUMBERS[type_], encoded)[0]
    if type_ == mq.MQTYPE_STRING:
        charset = codec(ccsid, order)
        if charset is None:
            raise Refused(mq.MQRC_SOURCE_CCSID_ERROR)
        return encoded.decode(charset, "replace")
    return encoded if type_ == mq.MQTYPE_BYTE_STRING else None


def inquire_property(connection: "Connection", body: memoryview) -> Reply:
    number, type_, size, name_length, name_ccsid = _NAMED.unpack_from(body)
    arguments = _Arguments(body, _NAMED.size)
    options, descriptor = arguments.structure(InquirePropertyOptions), arguments.structure(PropertyDescriptor)
    pattern = _name(connection, arguments.take(name_length), name_length, name_ccsid)
    handle = message_handle(connection, number)
    if options.version != 1:
        raise Refused(mq.MQRC_IMPO_ERROR)
    _check_exclusive(options.options, _INQUIRE_PLACES)
    if size < 0:
        raise Refused(mq.MQRC_BUFFER_LENGTH_ERROR)
    found = handle.find(pattern, options.options)
    return _Inquiry(connection, handle, options, descriptor, size).answer(found, pattern, type_)


class _Inquiry:
    """What an inquiry gives back of the property that it found."""

    def __init__(
        self,
        connection: "Connection",
        handle: MessageHandle,
        options: InquirePropertyOptions,
        descriptor: PropertyDescriptor,
        size: int,
    ) -> None:
        self.connection, self.handle, self.options, self.descriptor = connection, handle, options, descriptor
        self.size = size

    def answer(self, found: Property, pattern: str, type_: int) -> Reply:
        """Raises Refused; then the cursor is where it was, and so it is when the value or the name is too long."""
        flags = self.options.options
        wanted = type_ if flags & mq.MQIMPO_CONVERT_TYPE else mq.MQTYPE_AS_SET
        type_, value = converted(found, wanted)
        encoded, reason = self._encoded(found, type_, value)
        name = found.name.encode(codec(_ccsid(self.connection, self.options.name_ccsid), "<") or "utf-8", "replace")
        completion = mq.MQCC_WARNING if reason else mq.MQCC_OK
        if flags & mq.MQIMPO_QUERY_LENGTH:
            completion, reason = mq.MQCC_OK, mq.MQRC_NONE
        elif self.options.name_pointer and len(name) > self.options.name_size:
            completion, reason = mq.MQCC_FAILED, mq.MQRC_PROPERTY_NAME_TOO_BIG
        elif len(encoded) > self.size:
            completion, reason = mq.MQCC_FAILED, mq.MQRC_PROPERTY_VALUE_TOO_BIG
        if completion != mq.MQCC_FAILED:
            self.handle.move(found, pattern, flags)
        given = b"" if flags & mq.MQIMPO_QUERY_LENGTH else encoded[: self.size]
        capacity = self.options.name_size if self.options.name_pointer else 0
        self.options.name_length = min(len(name), capacity)
        self.options.type_string = found.unknown_type.encode()[:8].ljust(8)
        self.descriptor.support, self.descriptor.context = found.support, found.context
        self.descriptor.copy_options = found.copy_options
        return Reply(
            completion,
            reason,
            (
                _TWO_LONGS.pack(type_, len(encoded)),
                self.options.packed(),
                self.descriptor.packed(),
                name[:capacity].ljust(capacity, b"\0"),
                given,
            ),
        )

    def _encoded(self, found: Property, type_: int, value: object) -> tuple[bytes, int]:
        """The value's bytes, and the reason of a warning; the options get their encoding and character set."""
        converts = self.options.options & mq.MQIMPO_CONVERT_VALUE
        encoding = self.options.requested_encoding if converts else mq.MQENC_NATIVE
        self.options.returned_encoding = encoding
        if type_ in NUMBERS:
            return struct.pack(_order(encoding) + NUMBERS[type_], value), mq.MQRC_NONE
        if not isinstance(value, str):
            return (value if isinstance(value, bytes) else b""), mq.MQRC_NONE
        warning = mq.MQRC_PROP_TYPE_NOT_SUPPORTED if found.unknown_type else mq.MQRC_NONE
        own = codec(found.ccsid, _order(mq.MQENC_NATIVE)) or "utf-8"
        self.options.returned_ccsid = found.ccsid
        if not converts:
            return value.encode(own, "replace"), warning
        wanted = _ccsid(self.connection, self.options.requested_ccsid)
        charset = codec(wanted, _order(encoding))
        if charset is None:
            return value.encode(own, "replace"), mq.MQRC_PROP_VALUE_NOT_CONVERTED
        self.options.returned_ccsid = wanted
        return value.encode(charset, "replace"), warning


def delete_property(connection: "Connection", body: memoryview) -> Reply:
    number, _, _, name_length, name_ccsid = _NAMED.unpack_from(body)
    arguments = _Arguments(body, _NAMED.size)
    options = _check_options(arguments.structure(Options), mq.MQRC_DMPO_ERROR)
    name = _name(connection, arguments.take(name_length), name_length, name_ccsid)
    handle = message_handle(connection, number)
    handle.delete(name, options)
    return Reply()


# --- buffers ------------------------------------------------------------------------------------------------------


def to_buffer(connection: "Connection", body: memoryview) -> Reply:
    """MQMHBUF: the properties of this name as an MQRFH2, which the descriptor describes then."""
    number, size, name_length, name_ccsid, md_length = _BUFFER.unpack_from(body)
    arguments = _Arguments(body, _BUFFER.size)
    options = _check_options(arguments.structure(Options), mq.MQRC_MHBO_ERROR)
    name = _name(connection, arguments.take(name_length), name_length, name_ccsid)
    descriptor = unpack_descriptor(arguments.take(md_length))
    handle = message_handle(connection, number)
    if not options & mq.MQMHBO_PROPERTIES_IN_MQRFH2:
        raise Refused(mq.MQRC_OPTIONS_ERROR)
    found = [each for each in handle.properties if each.matches(name)]
    if not found:
        raise Refused(mq.MQRC_PROPERTY_NOT_AVAILABLE)
    empty = Description(descriptor.encoding, _ccsid(connection, descriptor.coded_char_set_id), mq.MQFMT_NONE)
    described, data = with_properties(empty, b"", found)
    descriptor.encoding, descriptor.coded_char_set_id, descriptor.format = described
    fits = len(data) <= size
    if fits and options & mq.MQMHBO_DELETE_PROPERTIES:
        handle.properties = [each for each in handle.properties if each not in found]
    completion, reason = (mq.MQCC_OK, 0) if fits else (mq.MQCC_FAILED, mq.MQRC_PROPERTY_VALUE_TOO_BIG)
    parts = (_LONG.pack(len(data)), descriptor.packed(md_length), data[: max(size, 0)])
    return Reply(completion, reason, parts)


def from_buffer(connection: "Connection", body: memoryview) -> Reply:
    """MQBUFMH: the properties of the buffer's MQRFH2 headers, which may be taken out of it."""
    number, size, _, _, md_length = _BUFFER.unpack_from(body)
    arguments = _Arguments(body, _BUFFER.size)
    options = _check_options(arguments.structure(Options), mq.MQRC_BMHO_ERROR)
    descriptor = unpack_descriptor(arguments.take(md_length))
    handle = message_handle(connection, number)
    if size < 0:
        raise Refused(mq.MQRC_BUFFER_LENGTH_ERROR)
    data = arguments.rest()
    parsed = parse(description_of(descriptor), data)
    if parsed.flawed:
        raise Refused(mq.MQRC_RFH_FORMAT_ERROR)
    if options & mq.MQBMHO_DELETE_PROPERTIES:
        described, data = without_properties(parsed)
        descriptor.encoding, descriptor.coded_char_set_id, descriptor.format = described
    handle.fill(descriptor, parsed.properties)
    return Reply(parts=(_LONG.pack(len(data)), descriptor.packed(md_length), data))
