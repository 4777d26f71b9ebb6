"""Headers in front of a message's data: their layouts, and the chain that they make.

Each header says the Encoding, CodedCharSetId and Format of what follows it; the MQMD says those of the first. When a
message is put, the queue manager checks headers for programs that put with a version-2 MQMD (IBM MQ, "MQMD", Version),
and of them what the pages of reasons 2141 and 2334 list. Other sources: IBM MQ, the pages of the structures. That it
follows a chain of headers, and takes structures for data that are not in the announced Encoding and CodedCharSetId, is
believed.
"""

import struct
from dataclasses import dataclass, replace
from typing import NamedTuple

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.errors import Refused
from tests.queue_manager.server.structures import MessageDescriptor

_EBCDIC = frozenset({37, 273, 277, 278, 280, 284, 285, 297, 500, 871, 1047, *range(1140, 1150)})
_INTEGERS = 0xF
_NORMAL, _REVERSED = 1, 2

_DESCRIPTOR_1 = "c4 i i i i i E C F i i b24 b24 i c48 c48 c12 b32 c32 i c28 c8 c8 c4"


class Field(NamedTuple):
    """A field: a number `i`, characters `c` or bytes `b`. E, C, F and L are the Encoding, CodedCharSetId and Format of
    what follows, and the length of the structure."""

    kind: str
    at: int
    size: int


class Layout:
    """A header, or what can be converted like one: its identifier, version and fields."""

    def __init__(self, identifier: str, version: int, fields: str, reason: int = mq.MQRC_NONE) -> None:
        self.identifier, self.version, self.reason = identifier, version, reason
        self.fields: list[Field] = []
        self.least = 0
        for field in fields.split():
            size = int(field[1:]) if field[1:] else 8 if field == "F" else 4
            self.fields.append(Field(field[0], self.least, size))
            self.least += size

    def at(self, kind: str) -> int | None:
        """Where the field of this kind stands, None where there is none."""
        return next((field.at for field in self.fields if field.kind == kind), None)


LAYOUTS = {
    mq.MQFMT_DEAD_LETTER_HEADER: Layout("DLH ", 1, "c4 i i c48 c48 E C F i c28 c8 c8", mq.MQRC_DLH_ERROR),
    mq.MQFMT_MD_EXTENSION: Layout("MDE ", 2, "c4 i L E C F i b24 i i i i"),
    mq.MQFMT_XMIT_Q_HEADER: Layout("XQH ", 1, "c4 i c48 c48 " + _DESCRIPTOR_1),
    mq.MQFMT_IMS: Layout("IIH ", 1, "c4 i L E C F i c8 c8 c8 c8 b16 c1 c1 c1 c1"),
    mq.MQFMT_RF_HEADER_1: Layout("RFH ", 1, "c4 i L E C F i", mq.MQRC_RFH_ERROR),
    mq.MQFMT_RF_HEADER_2: Layout("RFH ", 2, "c4 i L E C F i i", mq.MQRC_RFH_ERROR),
}
"""By Format. Behind its fields an MQRFH has a string, and an MQRFH2 has folders."""


class Description(NamedTuple):
    """How data are to be read."""

    encoding: int
    ccsid: int
    format: bytes

    @property
    def order(self) -> str:
        """The byte order of integers, as `struct` writes it."""
        return "<" if self.encoding & _INTEGERS == _REVERSED else ">"

    @property
    def charset(self) -> str:
        """A codec that reads the characters that names consist of."""
        return "cp500" if self.ccsid in _EBCDIC else "latin-1"

    @property
    def known_integers(self) -> bool:
        return self.encoding & _INTEGERS in (_NORMAL, _REVERSED)


@dataclass(frozen=True, slots=True)
class Link:
    """One header of a chain, and how it itself is to be read."""

    layout: Layout
    description: Description
    data: bytes

    def number(self, at: int) -> int:
        found: int = struct.unpack_from(self.description.order + "i", self.data, at)[0]
        return found

    @property
    def next(self) -> Description:
        """The description of what follows."""
        encoding_at = self.layout.at("E")
        assert encoding_at is not None
        encoding, ccsid, name = struct.unpack_from(self.description.order + "ii8s", self.data, encoding_at)
        if ccsid == mq.MQCCSI_INHERIT:
            ccsid = self.description.ccsid
        return Description(encoding, ccsid, _plain(name, self.description.charset))

    def followed_by(self, description: Description) -> "Link":
        """The same header, in front of something else."""
        if self.next == description:
            return self
        name = description.format.decode("latin-1").encode(self.description.charset)
        fields = struct.pack(self.description.order + "ii8s", description.encoding, description.ccsid, name)
        at = self.layout.at("E") or 0
        return replace(self, data=self.data[:at] + fields + self.data[at + len(fields) :])


def _plain(name: bytes, charset: str) -> bytes:
    return name.decode(charset, "replace").encode("latin-1", "replace")


def description_of(descriptor: MessageDescriptor) -> Description:
    return Description(descriptor.encoding, descriptor.coded_char_set_id, descriptor.format)


def first_link(description: Description, data: bytes) -> Link | None:
    """The header that the data begin with, None where that is not one of the known ones.

    Raises Refused, with the reason of the kind of header, for one that is not valid.
    """
    layout = LAYOUTS.get(description.format)
    if layout is None:
        return None
    link = Link(layout, description, data)
    if len(data) < layout.least or data[:4] != layout.identifier.encode(description.charset):
        raise Refused(layout.reason)
    length_at = layout.at("L")
    length = layout.least if length_at is None else link.number(length_at)
    if link.number(4) != layout.version or not layout.least <= length <= len(data):
        raise Refused(layout.reason)
    return replace(link, data=data[:length])


def split(description: Description, data: bytes) -> tuple[list[Link], Description, bytes]:
    """The headers of a message, as far as they are valid, and what follows them with its description."""
    links = []
    try:
        while (link := first_link(description, data)) is not None:
            links.append(link)
            description, data = link.next, data[len(link.data) :]
    except Refused:
        pass
    return links, description, data


def join(links: list[Link], description: Description, data: bytes) -> tuple[Description, bytes]:
    """A message of these headers and data: its description and its bytes."""
    parts = [data]
    for link in reversed(links):
        parts.append(link.followed_by(description).data)
        description = link.description
    return description, b"".join(reversed(parts))


def check_headers(descriptor: MessageDescriptor, data: bytes) -> None:
    """Raises Refused for a header that is not valid, of those that the queue manager checks."""
    description = description_of(descriptor)
    while (layout := LAYOUTS.get(description.format)) is not None and layout.reason:
        link = first_link(description, data)
        assert link is not None
        ccsid = link.number((layout.at("C")) or 0)
        if ccsid <= 0 and ccsid != mq.MQCCSI_INHERIT:
            raise Refused(layout.reason)
        description, data = link.next, data[len(link.data) :]
