"""MQRFH2 folders and the properties in them.

Sources: IBM MQ, "NameValueData", "Supported MQRFH2 folders", "MQRFH2 folder restrictions", "Mapping property data types
to MQRFH2 data types", "Mapping property descriptor fields into MQRFH2 headers", "Generation of MQRFH2 headers" and
"MQRFH2 headers that are not valid". That a property of a handle takes the place of one of the same name in the data, is
believed.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any
from xml.parsers import expat
from xml.sax.saxutils import escape

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.charsets import codec
from tests.queue_manager.server.errors import Refused
from tests.queue_manager.server.headers import LAYOUTS, Description, Link, first_link, join, split
from tests.queue_manager.server.properties import KEYWORDS, NUMBERS, USER_FOLDER, UTF_8, Property

_FIXED = LAYOUTS[mq.MQFMT_RF_HEADER_2]
_CCSID_AT = _FIXED.least - 4
_LENGTH_AT = 8
DEFINED_FOLDER = "mq"
_PROPERTY_FOLDERS = frozenset({USER_FOLDER, DEFINED_FOLDER, "mq_usr", "mqps", "mqext", "mcd", "jms", "sib", "sib_usr"})
COMPATIBLE = frozenset({"mcd", "jms", USER_FOLDER, "mqext"})
"""The folders whose properties programs of old expect in an MQRFH2."""
_BEFORE = frozenset({mq.MQFMT_XMIT_Q_HEADER, mq.MQFMT_RF_HEADER_1, mq.MQFMT_DEAD_LETTER_HEADER})
"""The headers that stay in front of an MQRFH2 that the queue manager makes."""

_DATA_TYPES = {
    "bin.hex": mq.MQTYPE_BYTE_STRING,
    "boolean": mq.MQTYPE_BOOLEAN,
    "i1": mq.MQTYPE_INT8,
    "i2": mq.MQTYPE_INT16,
    "i4": mq.MQTYPE_INT32,
    "i8": mq.MQTYPE_INT64,
    "int": mq.MQTYPE_INT64,
    "r4": mq.MQTYPE_FLOAT32,
    "r8": mq.MQTYPE_FLOAT64,
    "string": mq.MQTYPE_STRING,
}
_TYPE_NAMES = {type_: name for name, type_ in _DATA_TYPES.items() if name not in ("int", "string")}
_SUPPORTS = {
    ("sr", "required"): mq.MQPD_SUPPORT_REQUIRED,
    ("sx", "local"): mq.MQPD_SUPPORT_REQUIRED_IF_LOCAL,
}
_COPIES = {
    "forward": mq.MQCOPY_FORWARD,
    "publish": mq.MQCOPY_PUBLISH,
    "reply": mq.MQCOPY_REPLY,
    "report": mq.MQCOPY_REPORT,
    "all": mq.MQCOPY_ALL,
}


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of an MQRFH2: its text as it stands there, and the properties in it, None where it holds none."""

    text: str
    properties: list[Property] | None


@dataclass(frozen=True, slots=True)
class Parsed:
    """A message taken apart: the MQRFH2 headers' folders beside the chain of headers."""

    links: list[Link]
    description: Description
    data: bytes
    folders: list[list[Folder]]
    """By header; those that are no MQRFH2 have none."""
    flawed: bool
    """Whether a folder that should hold properties could not be read."""

    @property
    def properties(self) -> list[Property]:
        return [found for folders in self.folders for folder in folders for found in folder.properties or ()]


def may_hold_properties(name: bytes) -> bool:
    """Whether data of this Format can begin with headers at all."""
    return name in LAYOUTS


def holds_defined_properties(description: Description, data: bytes) -> bool:
    """Whether there are properties in the data that IBM MQ defines itself."""
    return may_hold_properties(description.format) and any(
        found.path[0] == DEFINED_FOLDER for found in parse(description, data).properties
    )


def parse(description: Description, data: bytes) -> Parsed:
    """Takes a message apart as far as its headers are valid."""
    links, rest_description, rest = split(description, data)
    flawed = False
    every = []
    for link in links:
        folders: list[Folder] = []
        for text in _texts(link) if link.layout is _FIXED else ():
            try:
                folders.append(Folder(text, _read(text)))
            except (expat.ExpatError, ValueError):
                flawed = True
                folders.append(Folder(text, None))
        every.append(folders)
    return Parsed(links, rest_description, rest, every, flawed)


def check(description: Description, data: bytes) -> None:
    """Raises Refused for an MQRFH2 that cannot be read, where the application puts a message with a handle."""
    while (link := first_link(description, data)) is not None:
        description, data = link.next, data[len(link.data) :]
    if parse(description, data).flawed:
        raise Refused(mq.MQRC_RFH_FORMAT_ERROR)


def without_properties(parsed: Parsed) -> tuple[Description, bytes]:
    """The message without folders that hold properties, and without an MQRFH2 where nothing else was in it."""
    links = []
    for link, folders in zip(parsed.links, parsed.folders, strict=True):
        kept = [folder.text for folder in folders if folder.properties is None]
        if len(kept) == len(folders):
            links.append(link)
        elif kept:
            links.append(_with_texts(link, kept))
    return join(links, parsed.description, parsed.data)


def with_properties(description: Description, data: bytes, properties: list[Property]) -> tuple[Description, bytes]:
    """The message with these properties beside those that it has, in its MQRFH2 or in one that is made."""
    if not properties:
        return description, data
    parsed = parse(description, data)
    named = {found.path for found in properties}
    texts = list(_written([found for found in parsed.properties if found.path not in named] + properties))
    description, data = without_properties(parsed)
    links, description, data = split(description, data)
    place = next((at for at, link in enumerate(links) if link.layout is _FIXED), None)
    if place is None:
        before = (at for at, link in enumerate(links) if link.description.format not in _BEFORE)
        place = next(before, len(links))
        follows = links[place].description if place < len(links) else description
        links.insert(place, _new_header(follows, texts))
    else:
        links[place] = _with_texts(links[place], [*_texts(links[place]), *texts])
    return join(links, description, data)


# --- headers ------------------------------------------------------------------------------------------------------


def _texts(link: Link) -> Iterator[str]:
    """The text of each folder. One that goes beyond the header's end ends there."""
    name = codec(link.number(_CCSID_AT), link.description.order) or "utf-8"
    at = _FIXED.least
    while at + 4 <= len(link.data):
        length = link.number(at)
        yield link.data[at + 4 : at + 4 + max(length, 0)].decode(name, "replace").rstrip(" \0")
        at += 4 + max(length, 0)


def _with_texts(link: Link, texts: list[str]) -> Link:
    order = link.description.order
    name = codec(link.number(_CCSID_AT), order) or "utf-8"
    blank = " ".encode(name)
    body = b""
    for text in texts:
        encoded = text.encode(name)
        encoded += blank * (-len(encoded) % 4 // len(blank))
        body += struct.pack(order + "i", len(encoded)) + encoded
    fixed = link.data[: _FIXED.least]
    length = struct.pack(order + "i", len(fixed) + len(body))
    return replace(link, data=fixed[:_LENGTH_AT] + length + fixed[_LENGTH_AT + 4 :] + body)


def _new_header(follows: Description, texts: list[str]) -> Link:
    """An MQRFH2 in this machine's encoding, and in the character set of what follows where that has a number."""
    ccsid = follows.ccsid if codec(follows.ccsid) not in (None, "utf-16-le", "utf-16-be") else UTF_8
    description = Description(mq.MQENC_NATIVE, ccsid, mq.MQFMT_RF_HEADER_2)
    name = "RFH ".encode(description.charset)
    fixed = struct.pack("=4s4i8s2i", name, 2, _FIXED.least, follows.encoding, follows.ccsid, b" " * 8, 0, UTF_8)
    return _with_texts(Link(_FIXED, description, fixed).followed_by(follows), texts)


# --- reading ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Element:
    """An element that is being read; one with others in it is a group."""

    name: str
    attributes: dict[str, str]
    text: str = ""
    group: bool = False


def _read(text: str) -> list[Property] | None:
    """The properties of a folder, None for one that holds other things. Raises ExpatError or ValueError."""
    found: list[Property] = []
    open_: list[_Element] = []
    folders: list[_Element] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        element = _Element(name, attributes)
        if open_:
            open_[-1].group = True
        else:
            folders.append(element)
        open_.append(element)

    def characters(text: str) -> None:
        open_[-1].text += text

    def end(_: str) -> None:
        path = tuple(element.name for element in open_)
        element = open_.pop()
        if open_ and not element.group and not _inaccessible(path):
            found.append(_property(path, element.attributes, element.text))

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = characters
    parser.Parse(text, True)
    (folder,) = folders
    return found if folder.name in _PROPERTY_FOLDERS or folder.attributes.get("content") == "properties" else None


def _inaccessible(path: tuple[str, ...]) -> bool:
    """Names in the folder <usr> that are reserved are no properties."""
    return path[0] == USER_FOLDER and (path[1].startswith("JMS") or path[1].upper() in KEYWORDS)


def _property(path: tuple[str, ...], attributes: dict[str, str], text: str) -> Property:
    said = attributes.get("dt", "string")
    type_ = _DATA_TYPES.get(said, mq.MQTYPE_STRING)
    value: Any = text
    if attributes.get("xsi:nil") == "true":
        type_, value = mq.MQTYPE_NULL, None
    elif type_ == mq.MQTYPE_BYTE_STRING:
        value = bytes.fromhex(text)
    elif type_ == mq.MQTYPE_BOOLEAN:
        value = int(text.strip() in ("1", "true", "TRUE"))
    elif type_ in (mq.MQTYPE_FLOAT32, mq.MQTYPE_FLOAT64):
        value = float(text)
    elif type_ in NUMBERS:
        value = int(text)
    made = Property(path, type_, value, unknown_type="" if said in _DATA_TYPES else said)
    made.support = next(
        (support for (name, said), support in _SUPPORTS.items() if attributes.get(name) == said), made.support
    )
    made.context = mq.MQPD_USER_CONTEXT if attributes.get("context") == "user" else 0
    if "copy" in attributes:
        made.copy_options = sum(_COPIES.get(name.strip(), 0) for name in set(attributes["copy"].split(",")))
    return made


# --- writing ------------------------------------------------------------------------------------------------------


def _written(properties: list[Property]) -> Iterator[str]:
    """The folders that these properties make, in the order of each folder's first one."""
    order = list(dict.fromkeys(found.path[0] for found in properties))
    for name, members in groupby(
        sorted(properties, key=lambda found: order.index(found.path[0])), lambda found: found.path[0]
    ):
        content = "" if name in _PROPERTY_FOLDERS else ' content="properties"'
        yield f"<{name}{content}>{_elements(list(members), 1)}</{name}>"


def _elements(members: list[Property], depth: int) -> str:
    text = ""
    for name, group in groupby(members, lambda found: found.path[depth]):
        some = list(group)
        if len(some[0].path) > depth + 1:
            text += f"<{name}>{_elements(some, depth + 1)}</{name}>"
        else:
            text += "".join(f"<{name}{_attributes(found)}>{_text(found)}</{name}>" for found in some)
    return text


def _attributes(found: Property) -> str:
    attributes = {"dt": _TYPE_NAMES[found.type]} if found.type in _TYPE_NAMES else {}
    if found.unknown_type:
        attributes["dt"] = found.unknown_type
    if found.type == mq.MQTYPE_NULL:
        attributes["xsi:nil"] = "true"
    if found.path[0] == DEFINED_FOLDER:
        attributes |= {name: said for (name, said), support in _SUPPORTS.items() if support == found.support}
    if found.context:
        attributes["context"] = "user"
    if found.copy_options != mq.MQCOPY_DEFAULT:
        attributes["copy"] = ",".join(name for name, option in _COPIES.items() if found.copy_options & option) or "none"
    return "".join(f' {name}="{value}"' for name, value in attributes.items())


def _text(found: Property) -> str:
    if found.value is None:
        return ""
    return found.value.hex() if isinstance(found.value, bytes) else escape(str(found.value))
