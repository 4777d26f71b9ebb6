"""The names and values in the folders of an MQRFH2, and in an MQRFH.

A folder is one XML element. Elements with text are properties, elements that hold others are groups, and a property's
dotted name begins with the names of its groups. The attribute `dt` gives a property's type; `xsi:nil` marks a property
without a value. Document types are refused, and so senders cannot define entities (IBM MQ, "MQRFH2": NameValueData).

The size of the result is limited by the size of the input. Dotted names repeat the names of their groups; all dotted
names of a folder together may take `WIDEST` times its bytes.
"""

import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple
from xml.parsers import expat

from app.codecs.ibm_mq.constants import MQCCSI_UNDEFINED, MQFMT_RF_HEADER_2
from app.codecs.ibm_mq.encodings import MQENC_BIG_ENDIAN, MQENC_LITTLE_ENDIAN, charset
from app.codecs.ibm_mq.headers import MQRFH2
from app.codecs.ibm_mq.structure_writing import written
from app.model.message import NO_PROPERTIES, PhysicalMessage
from app.wire import Context, WireError
from app.wire.kinds import Buffer

USER_FOLDER: Final = "usr"
STRING: Final = "string"
WIDEST: Final = 16
_UTF_8 = 1208
_ELEMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_NO_CHARACTER = re.compile(r"[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]")
_ESCAPES = str.maketrans({char: f"&#{ord(char)};" for char in "&<>'\"\t\n\r"})
_PAIR_MEMBER = re.compile(r'(?:"((?:[^"]|"")*)"|([^ "]+))(?: +|$)')


class Property(NamedTuple):
    """A property of a folder.

    `text` is its value as written in the folder, None for no value. `type` is one of IBM's type names, such as
    `string`, `boolean`, `bin.hex`, `i4`, `r8`.
    """

    name: str
    text: str | None
    type: str = STRING


class RfhFolder(NamedTuple):
    """One folder: an element that holds properties."""

    name: str
    properties: tuple[Property, ...]


def read_folders(buffer: Buffer, at: int, end: int, header: MQRFH2, context: Context) -> Iterator[RfhFolder]:
    """Yield the folders of a header whose NameValueLengths and NameValueData are at these bytes. Raises WireError.

    A NameValueCCSID of 0 is read as UTF-8; lengths need not be multiples of four.
    """
    codec = _codec(header.name_value_ccsid, context, at)
    length = struct.Struct(context.order + "i")
    number = 0
    while at < end:
        row = f"MQRFH2.folders[{number}]"
        if end - at < length.size:
            raise WireError(f"{row}.length", at, f"the length takes 4 bytes, but only {end - at} are left")
        (size,) = length.unpack_from(buffer, at)
        at += length.size
        if not 0 <= size <= end - at:
            raise WireError(f"{row}.length", at - length.size, f"{size} bytes, but {end - at} are left")
        folder = _read_folder(buffer[at : at + size], at, codec, row)
        if folder is not None:
            yield folder
        at += size
        number += 1


def write_rfh2(
    folders: Iterable[RfhFolder],
    format: str,  # noqa: A002
    encoding: int,
    ccsid: int,
    context: Context,
    name_value_ccsid: int = _UTF_8,
) -> bytes:
    """Return an MQRFH2 with these folders, for data of this Format, Encoding and CodedCharSetId.

    Raises WireError for a name that is not valid for an element, and for a value that XML or the character set cannot
    express.
    """
    codec = _codec(name_value_ccsid, context, MQRFH2.SIZE)
    length = struct.Struct(context.order + "i")
    out = bytearray(MQRFH2.SIZE)
    for number, folder in enumerate(folders):
        try:
            data = _xml(folder).encode(codec)
        except ValueError as error:
            raise WireError(f"MQRFH2.folders[{number}]", len(out), str(error)) from None
        blank = " ".encode(codec)
        data += blank * (-len(data) % 4 // len(blank))
        out += length.pack(len(data)) + data
    header = MQRFH2(
        struc_length=len(out),
        encoding=encoding,
        coded_char_set_id=ccsid,
        format=format,
        name_value_ccsid=name_value_ccsid,
    )
    out[: MQRFH2.SIZE] = header.encode(context)
    return bytes(out)


def with_properties(message: PhysicalMessage, encoding: int, ccsid: int) -> PhysicalMessage:
    """Return the message with its properties in an MQRFH2 before the body, written in this Encoding and CodedCharSetId.

    Raises WireError, as `write_rfh2` does.
    """
    header = write_rfh2(
        folders_of(message.properties), message.format, message.encoding, message.ccsid, written(encoding, ccsid)
    )
    body = b"".join((header, message.body))
    return message._replace(
        body=body, properties=NO_PROPERTIES, format=MQFMT_RF_HEADER_2, encoding=encoding, ccsid=ccsid
    )


def properties_of(folders: Iterable[RfhFolder]) -> dict[str, str]:
    """Return the properties in these folders: properties of `usr` by their own names, others by `folder.name`."""
    return {
        prop.name if folder.name == USER_FOLDER and "." not in prop.name else f"{folder.name}.{prop.name}": prop.text
        for folder in folders
        for prop in folder.properties
        if prop.text is not None
    }


def folders_of(properties: Mapping[str, str]) -> list[RfhFolder]:
    """Return the folders that hold these properties: the inverse of `properties_of`."""
    folders: dict[str, list[Property]] = {}
    for name, text in properties.items():
        folder, dot, own = name.partition(".")
        if not dot:
            folder, own = USER_FOLDER, name
        folders.setdefault(folder, []).append(Property(own, text))
    return [RfhFolder(name, tuple(held)) for name, held in folders.items()]


def read_pairs(buffer: Buffer, at: int, end: int, codec: str) -> dict[str, str]:
    """Return the names and values of an MQRFH's NameValueString at these bytes (IBM MQ, reason 2335).

    Raises WireError.
    """
    row = "MQRFH.name_value_string"
    text = _text(buffer[at:end], at, codec, row).partition("\0")[0]
    members: list[str] = []
    place = len(text) - len(text.lstrip(" "))
    while place < len(text):
        found = _PAIR_MEMBER.match(text, place)
        if found is None:
            raise WireError(row, at + len(text[:place].encode(codec)), "unmatched quotation mark")
        quoted, plain = found.groups()
        members.append(plain if quoted is None else quoted.replace('""', '"'))
        place = found.end()
    if len(members) % 2:
        raise WireError(row, at + len(text.encode(codec)), f"the name {members[-1][:80]!r} has no value")
    return dict(zip(members[::2], members[1::2], strict=True))


def _codec(ccsid: int, context: Context, end: int) -> str:
    """Return the Python codec of NameValueData; NameValueCCSID lies before byte `end`."""
    encoding = MQENC_BIG_ENDIAN if context.order == ">" else MQENC_LITTLE_ENDIAN
    codec = charset(_UTF_8 if ccsid == MQCCSI_UNDEFINED else ccsid, encoding)
    if codec is None:
        raise WireError("MQRFH2.name_value_ccsid", end - 4, f"unknown character set {ccsid}")
    return codec


def _text(raw: Buffer, at: int, codec: str, row: str) -> str:
    try:
        return str(raw, codec)
    except UnicodeDecodeError as error:
        raise WireError(row, at + error.start, f"not {codec}: {error.reason}") from None


class _RefusedError(Exception):
    """An error for XML that is well-formed but not a valid folder."""


def _read_folder(raw: Buffer, at: int, codec: str, row: str) -> RfhFolder | None:
    """Return the folder in these bytes, which start at byte `at` of the message; None for a blank one."""
    text = _text(raw, at, codec, row).rstrip("\0 ")
    if not text:
        return None
    data = text.encode()
    parser = expat.ParserCreate("utf-8")
    reader = _Reader(WIDEST * len(raw))
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = reader.document_type
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, _RefusedError) as error:
        before = str(data[: parser.ErrorByteIndex], "utf-8", "ignore")
        why = expat.errors.messages[error.code] if isinstance(error, expat.ExpatError) else str(error)
        raise WireError(row, at + len(before.encode(codec)), why) from None
    return RfhFolder(reader.folder, tuple(reader.found))


class _Element:
    """An open element."""

    __slots__ = ("attributes", "is_group", "name", "text")

    def __init__(self, name: str, attributes: dict[str, str]) -> None:
        self.name, self.attributes = name, attributes
        self.text: list[str] = []
        self.is_group = False


class _Reader:
    """A collector of a folder's properties; their dotted names may together take `room` characters."""

    def __init__(self, room: int) -> None:
        self.found: list[Property] = []
        self.folder = ""
        self._room = room
        self._open: list[_Element] = []
        self._width = 0

    def document_type(self, *_: object) -> None:
        raise _RefusedError("a folder must not have a document type")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if self._open:
            self._open[-1].is_group = True
            self._width += len(name) + 1
        else:
            self.folder = name
        self._open.append(_Element(name, attributes))

    def text(self, text: str) -> None:
        self._open[-1].text.append(text)

    def end(self, name: str) -> None:
        element = self._open.pop()
        text = "".join(element.text)
        if self._open:
            if not element.is_group or text.strip():
                self._room -= self._width
                if self._room < 0:
                    raise _RefusedError(f"the dotted names take more than {WIDEST} times the folder's bytes")
                dotted = ".".join([*(group.name for group in self._open[1:]), element.name])
                is_nil = element.attributes.get("xsi:nil") == "true"
                self.found.append(Property(dotted, None if is_nil else text, element.attributes.get("dt", STRING)))
            self._width -= len(name) + 1


def _xml(folder: RfhFolder) -> str:
    """Return the folder's element. Raises ValueError."""
    out = [f"<{_name(folder.name)}>"]
    groups: list[str] = []
    for prop in folder.properties:
        *path, name = map(_name, prop.name.split("."))
        shared = 0
        while shared < min(len(groups), len(path)) and groups[shared] == path[shared]:
            shared += 1
        out += [f"</{group}>" for group in reversed(groups[shared:])]
        out += [f"<{group}>" for group in path[shared:]]
        attributes = "" if prop.type == STRING else f' dt="{_escaped(prop.type)}"'
        if prop.text is None:
            attributes += ' xsi:nil="true"'
        out.append(f"<{name}{attributes}>{_escaped(prop.text or '')}</{name}>")
        groups = path
    out += [f"</{group}>" for group in reversed(groups)]
    return "".join([*out, f"</{folder.name}>"])


def _name(name: str) -> str:
    if not _ELEMENT_NAME.fullmatch(name):
        raise ValueError(f"{name[:80]!r} is not a valid element name")
    return name


def _escaped(text: str) -> str:
    bad = _NO_CHARACTER.search(text)
    if bad:
        raise ValueError(f"the character {bad[0]!r} is not allowed in XML")
    return text.translate(_ESCAPES)
