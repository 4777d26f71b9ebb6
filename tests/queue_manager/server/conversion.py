"""MQGMO_CONVERT: data in the encoding and character set that the getter asks for.

Headers are converted one after the other, then the data behind them. Where one cannot be, it stays as it is with all
that follows it, and the fields in front of it say so. Sources: IBM MQ, "Conversion processing", "Processing
conventions", and the pages of reasons 2110, 2111, 2112, 2115, 2116, 2119, 2120 and 2190. Of the formats that IBM MQ
converts by itself those are known that `headers` has, MQSTR, MQTRIG, and PCF (MQADMIN, MQPCF, MQEVENT); of character
sets those that Python has. That an MQRFH's string has to keep its length, is believed.
"""

import codecs
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server import pcf
from tests.queue_manager.server.charsets import UTF_16, codec
from tests.queue_manager.server.errors import Refused
from tests.queue_manager.server.headers import LAYOUTS, Description, Field, Layout, Link, join, split

_TRIGGER = Layout("TM  ", 1, "c4 i c48 c48 c64 i c256 c128 c128")
_FOLDERS = LAYOUTS[mq.MQFMT_RF_HEADER_2]
_STRINGS = LAYOUTS[mq.MQFMT_RF_HEADER_1]


@dataclass(frozen=True, slots=True)
class _Conversion:
    """From one encoding and character set into another."""

    source: Description
    target: Description
    from_charset: str
    to_charset: str

    @classmethod
    def between(cls, source: Description, target: Description) -> "_Conversion":
        """Raises Refused for an encoding or a character set that is not known."""
        from_charset, to_charset = codec(source.ccsid, source.order), codec(target.ccsid, target.order)
        for known, reason in (
            (from_charset, mq.MQRC_SOURCE_CCSID_ERROR),
            (to_charset, mq.MQRC_TARGET_CCSID_ERROR),
            (source.known_integers, mq.MQRC_SOURCE_INTEGER_ENC_ERROR),
            (target.known_integers, mq.MQRC_TARGET_INTEGER_ENC_ERROR),
        ):
            if not known:
                raise Refused(reason)
        return cls(source, target, from_charset or "", to_charset or "")

    def text(self, data: bytes, ccsid: int | None = None) -> bytes:
        """Characters, of another character set than the message's if it is said. Raises Refused."""
        charset = self.from_charset if ccsid is None else codec(ccsid, self.source.order)
        if charset is None:
            raise Refused(mq.MQRC_SOURCE_CCSID_ERROR)
        try:
            return codecs.encode(codecs.decode(data, charset), self.to_charset, "replace")
        except UnicodeDecodeError:
            raise Refused(mq.MQRC_NOT_CONVERTED) from None

    def fixed(self, data: bytes) -> bytes:
        """Characters of a field that keeps its size; blanks at the end and what follows a NUL may go."""
        made = self.text(data)
        if len(made) <= len(data):
            return made.ljust(len(data), " ".encode(self.to_charset))
        made = self.text(data.partition("\0".encode(self.from_charset))[0]).rstrip(" ".encode(self.to_charset))
        if len(made) > len(data):
            raise Refused(mq.MQRC_CONVERTED_STRING_TOO_BIG)
        return made.ljust(len(data), " ".encode(self.to_charset))

    def numbers(self, data: bytes) -> bytes:
        return data if self.source.order == self.target.order else _swapped(data, 4)

    def fields(self, layout: Layout, data: bytes) -> bytes:
        """The fields of a structure, which begins the data. Raises Refused where it is another one."""
        if len(data) < layout.least or data[:4] != layout.identifier.encode(self.from_charset):
            raise Refused(mq.MQRC_FORMAT_ERROR)
        return b"".join(self._field(field, data) for field in layout.fields)

    def _field(self, field: Field, data: bytes) -> bytes:
        value = data[field.at : field.at + field.size]
        if field.kind == "b":
            return value
        return self.fixed(value) if field.kind in "cF" else self.numbers(value)

    def link(self, link: Link) -> Link:
        """A header. Raises Refused."""
        behind = link.data[link.layout.least :]
        if link.layout is _FOLDERS:
            behind = self._folders(link, behind)
        elif link.layout is _STRINGS:
            behind = self.fixed(behind)
        data = self.fields(link.layout, link.data) + behind
        return replace(link, description=self.target._replace(format=link.description.format), data=data)

    def _folders(self, link: Link, folders: bytes) -> bytes:
        """The folders of an MQRFH2 keep their character set; the byte order of UTF-16 is that of the integers."""
        if self.source.order == self.target.order:
            return folders
        two_bytes = link.number(_FOLDERS.least - 4) in UTF_16
        made, at = b"", 0
        while at + 4 <= len(folders):
            (length,) = struct.unpack_from(self.source.order + "i", folders, at)
            text = folders[at + 4 : at + 4 + max(length, 0)]
            made += _swapped(folders[at : at + 4], 4) + (_swapped(text, 2) if two_bytes else text)
            at += 4 + max(length, 0)
        return made + folders[at:]

    def body(self, data: bytes) -> bytes:
        """What follows the headers. Raises Refused for a format that cannot be converted."""
        made = _BODIES.get(self.source.format)
        if made is None:
            raise Refused(mq.MQRC_FORMAT_ERROR)
        return made(self, data)

    def pcf(self, data: bytes) -> bytes:
        def transcode(text: bytes, ccsid: int) -> bytes:
            return self.text(text, ccsid or self.source.ccsid)

        return pcf.convert(data, self.source.order, self.target.order, self.target.ccsid, transcode)


_BODIES: dict[bytes, Callable[[_Conversion, bytes], bytes]] = {
    mq.MQFMT_STRING: lambda conversion, data: conversion.text(data),
    mq.MQFMT_TRIGGER: lambda conversion, data: conversion.fields(_TRIGGER, data),
    **dict.fromkeys((mq.MQFMT_ADMIN, mq.MQFMT_PCF, mq.MQFMT_EVENT), _Conversion.pcf),
}


def _swapped(data: bytes, size: int) -> bytes:
    return b"".join(data[at : at + size][::-1] for at in range(0, len(data), size))


def convert(description: Description, data: bytes, encoding: int, ccsid: int) -> tuple[Description, bytes, int]:
    """The message as wanted, what describes it then, and the reason why a part of it is not converted, if there is
    one."""
    target = Description(encoding, ccsid, b"")
    if not data or _alike(description, target):
        return description, data, mq.MQRC_NONE
    links, rest, body = split(description, data)
    done: list[Link] = []
    try:
        for link in links:
            alike = _alike(link.description, target)
            done.append(link if alike else _of(link.description, target).link(link))
        if body and not _alike(rest, target):
            body = _of(rest, target).body(body)
        if not _alike(rest, target):
            rest = target._replace(format=rest.format)
        reason = mq.MQRC_NONE
    except Refused as refused:
        reason = refused.reason
    return *join(done + links[len(done) :], rest, body), reason


def _alike(description: Description, target: Description) -> bool:
    return description[:2] == target[:2]


def _of(source: Description, target: Description) -> _Conversion:
    if source.format == mq.MQFMT_NONE:
        raise Refused(mq.MQRC_FORMAT_ERROR)
    return _Conversion.between(source, target)
