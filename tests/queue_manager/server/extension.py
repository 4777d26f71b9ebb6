"""MQMDE: honoured when a message is put with one, made when one is got with a version-1 MQMD.

Its OriginalLength is checked, like that of an MQMD, in a report on a segment alone (`grouping`).

Source: IBM MQ, "MQMDE - Message descriptor extension", tables 1 and 2, and the pages of reasons 2248 to 2251.
Where these pages disagree (are an unsupported version and a CCSID of zero errors?), table 1 and the field's page are
followed: the first makes the MQMDE data, the second is accepted.
"""

from collections.abc import Callable

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.errors import Refused
from tests.queue_manager.server.grouping import KNOWN_FLAGS
from tests.queue_manager.server.headers import Description
from tests.queue_manager.server.structures import (
    DeadLetterHeader,
    DescriptorExtension,
    MessageDescriptor,
    is_default,
    set_default_place,
    set_version_2_fields,
    version_2_fields,
)

_LARGEST = 999_999_999

_RULES: tuple[tuple[Callable[[DescriptorExtension], bool], int], ...] = (
    (lambda mde: mde.struc_id == b"MDE " and mde.struc_length == DescriptorExtension.SIZE, mq.MQRC_MDE_ERROR),
    (lambda mde: not mde.msg_flags & mq.MQMF_REJECT_UNSUP_MASK & ~KNOWN_FLAGS, mq.MQRC_MSG_FLAGS_ERROR),
    (lambda mde: 1 <= mde.msg_seq_number <= _LARGEST, mq.MQRC_MSG_SEQ_NUMBER_ERROR),
    (lambda mde: 0 <= mde.offset <= _LARGEST, mq.MQRC_OFFSET_ERROR),
)
"""What a valid MQMDE keeps to, and the reason that a call fails with where it does not."""


def fold(descriptor: MessageDescriptor, data: bytes, ccsid: int) -> bytes:
    """Takes an MQMDE that begins the data into a descriptor that announces it; returns the data after it.

    One that cannot be honoured stays what it is, data. Raises Refused for one that is invalid.
    """
    if descriptor.encoding != mq.MQENC_NATIVE or descriptor.coded_char_set_id not in (mq.MQCCSI_Q_MGR, ccsid):
        return data
    if len(data) < DescriptorExtension.SIZE:
        raise Refused(mq.MQRC_MDE_ERROR)
    extension = DescriptorExtension.unpack(data)
    if extension.version != 2:
        return data
    for holds, reason in _RULES:
        if not holds(extension):
            raise Refused(reason)
    if descriptor.version > 1 and not is_default(descriptor):
        return data
    set_version_2_fields(descriptor, version_2_fields(extension))
    descriptor.encoding, descriptor.format = extension.encoding, extension.format
    if extension.coded_char_set_id != mq.MQCCSI_INHERIT:
        descriptor.coded_char_set_id = extension.coded_char_set_id or ccsid
    return data[DescriptorExtension.SIZE :]


def extension_of(descriptor: MessageDescriptor, description: Description) -> bytes:
    """An MQMDE with what version 1 of the descriptor cannot say, for data that are described so."""
    return _extension(descriptor, *description)


def move_behind_dead_letter_header(descriptor: MessageDescriptor, data: bytes) -> bytes:
    """The data of a segment that begins with an MQDLH, with an MQMDE between that and the rest.

    The descriptor's version-2 fields get their defaults.
    """
    if len(data) < DeadLetterHeader.SIZE:
        return data
    header = DeadLetterHeader.unpack(data)
    extension = _extension(descriptor, header.encoding, header.coded_char_set_id, header.format)
    changed = header.packed(
        encoding=descriptor.encoding, coded_char_set_id=descriptor.coded_char_set_id, format=mq.MQFMT_MD_EXTENSION
    )
    set_default_place(descriptor)
    return changed + extension + data[DeadLetterHeader.SIZE :]


def _extension(descriptor: MessageDescriptor, encoding: int, ccsid: int, format: bytes) -> bytes:  # noqa: A002
    head = (b"MDE ", 2, DescriptorExtension.SIZE, encoding, ccsid, format, 0)
    return DescriptorExtension(*head, *version_2_fields(descriptor)).packed()
