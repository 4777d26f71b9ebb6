"""A SAS program that sends attachments over TIB/Rendezvous: *Overview of Attachment Layout for TIB/Rendezvous*, in the
tibrvMsg wire format.

The specification does not say whether a last message counts the header and the application message, too.
"""

import struct
from collections.abc import Iterator, Sequence
from itertools import chain, product
from typing import NamedTuple

from tests.evidence.senders import contents
from tests.evidence.senders.sent import Files, Physical, Sending, Sent, Table

BLANKS = b" " * 24
KINDS = {"data set": 1, "text": 2, "binary": 3}
Field = tuple[int, bytes]
"""The type of a field on the wire, and its data."""


def i32(*values: int) -> list[Field]:
    return [(11, struct.pack(">i", value)) for value in values]


def u32(value: int) -> list[Field]:
    return [(12, struct.pack(">I", value))]


def i16(value: int) -> list[Field]:
    return [(11, struct.pack(">h", value))]


def f64(value: float) -> list[Field]:
    return [(13, struct.pack(">d", value))]


def string(*texts: bytes) -> list[Field]:
    return [(8, text + b"\0") for text in texts]


def opaque(data: bytes) -> list[Field]:
    return [(7, data)]


def text(*texts: str) -> list[Field]:
    """Return each text behind its length."""
    return [*chain.from_iterable([*i32(len(each)), *string(each.encode())] for each in texts)]


def message(name: str, fields: Sequence[Field]) -> bytes:
    """Return a tibrvMsg whose fields all have one name, and identifiers from 1 on."""
    body = b""
    for identifier, (kind, data) in enumerate(fields, 1):
        called = name.encode() + b"\0" + struct.pack(">H", identifier)
        body += bytes([len(called)]) + called + bytes([kind]) + _size(len(data)) + data
    return struct.pack(">I", len(body) + 8) + b"\x99\x55\xee\xaa" + body


def _size(size: int) -> bytes:
    if size < 120:
        return bytes([size])
    return b"\x79" + struct.pack(">H", size + 2) if size < 30_000 else b"\x7a" + struct.pack(">I", size + 4)


class Attachment(NamedTuple):
    """An attachment with its kind, its name and its own messages, and what a receiver must get."""

    kind: str
    name: str
    parts: Sequence[tuple[str, bytes]]
    content: bytes | Files | Table


class Counting(NamedTuple):
    """What a sender counts in a last message beside the messages of the attachment."""

    header: bool
    application: bool

    def __str__(self) -> str:
        counted = [word for word, is_counted in zip(("HDR", "MSG"), self, strict=True) if is_counted]
        return "LST counts " + " and ".join(["its own", *counted])


OWN = Counting(header=False, application=False)
COUNTINGS = [Counting(*each) for each in product((False, True), repeat=2)]


def text_file(size: int, lines: Sequence[Sequence[bytes]] = contents.LINES, longest: int = 80) -> Attachment:
    parts = [("FDC", message("FDC", i32(longest, size)))]
    for some in lines:
        records = chain.from_iterable([*i32(len(line)), *string(line)] for line in some)
        parts.append(("ATX", message("ATX", [*i32(len(some)), *records])))
    content = b"".join(line + b"\n" for line in chain.from_iterable(lines))
    return Attachment("text", "notes.txt", parts, content)


def binary_file(size: int, records: Sequence[Sequence[bytes]] = contents.RECORDS, longest: int = 65) -> Attachment:
    parts = [("FDC", message("FDC", i32(longest, size)))]
    for some in records:
        fields = chain.from_iterable([*i32(len(record)), *opaque(record)] for record in some)
        parts.append(("ATB", message("ATB", [*i32(len(some)), *fields])))
    return Attachment("binary", "picture.bin", parts, b"".join(chain.from_iterable(records)))


def several(name: str, *files: Attachment) -> Attachment:
    """Return an attachment of several files, each with its descriptor and its records."""
    parts = [part for each in files for part in each.parts]
    return Attachment(
        files[0].kind, name, parts, tuple(each.content for each in files if isinstance(each.content, bytes))
    )


def data_set(observations: int, rows: Sequence[Sequence[tuple[float, str]]] = contents.ROWS) -> Attachment:
    definition = [*i32(1, 0), *text("DATA", "some rows"), *i32(observations, 2, 14), *text("NO"), *string(b"R")]
    definition += [*text("NO"), *i32(0, 1), *string(b""), *i16(0)]
    for _ in ("read", "write", "alter"):
        definition += [*i32(0), *opaque(bytes(4))]
    variables = i32(len(contents.COLUMNS))
    for column in contents.COLUMNS:
        variables += [*i32(2), *text(column.name, "", "", column.label), *string(b"2" if column.width else b"1")]
        variables += [*i32(column.width or 8, 0, 0, 0, 0), *string(b"")]
    parts = [("DAT", message("DAT", [*definition, *i32(0)])), ("VAR", message("VAR", variables))]
    for some in rows:
        values = [
            *chain.from_iterable((i32(3, 1) + f64(number), i32(3, 2) + string(word.encode())) for number, word in some)
        ]
        parts.append(("ATO", message("ATO", [*i32(len(values)), *chain.from_iterable(values)])))
    return Attachment("data set", "STATIONS", parts, Table(contents.COLUMNS, tuple(chain.from_iterable(rows))))


def sending(
    kind: str,
    told: str,
    counting: Counting,
    *attachments: Attachment,
    application: bool = True,
    one_last: bool = False,
) -> Sending:
    """Return all messages of a header with these attachments; each has a last message, or all have one."""
    header = [*string(BLANKS), *u32(0), *string(BLANKS, BLANKS), *i32(len(attachments))]
    for each in attachments:
        header += [*i32(KINDS[each.kind]), *string(BLANKS)]
        header += [*text("WORK" if each.kind == "data set" else "FILENAME", each.name, "what it is"), *i32(0, 1)]
    messages = [_physical("HDR", message("HDR", header))]
    if application:
        messages.append(_physical("MSG", message("MSG", [*i32(1, 4), *string(b"look at this")])))
    beside = counting.header + (counting.application and application)
    count = 0
    for number, each in enumerate(attachments, 1):
        messages += [_physical(role, body) for role, body in each.parts]
        count += len(each.parts)
        if not one_last or number == len(attachments):
            messages.append(_physical("LST", message("LST", i32(count + beside))))
            count = 0
    carried = tuple(Sent(each.name, each.content) for each in attachments)
    manner = f"{counting}{'' if application else ', no MSG'}{', one LST' if one_last else ''}"
    return Sending("sas_rendezvous", kind, told, manner, tuple(messages), carried)


def _physical(role: str, body: bytes) -> Physical:
    return Physical(role, body)


def sendings(counting: Counting) -> Iterator[Sending]:
    """Yield every kind of attachment, with what it may announce, from a sender that counts so."""
    size, rows = len(contents.TEXT), len(contents.TABLE.rows)
    lines = contents.TEXT.count(b"\n")
    for application in (True, False):
        if counting.application and not application:
            continue
        files = {"size with line ends": size, "size without line ends": size - lines, "no size": 0}
        for told, announced in files.items():
            yield sending("text", told, counting, text_file(announced), application=application)
        for told, announced in {"size": len(contents.BINARY), "no size": 0}.items():
            yield sending("binary", told, counting, binary_file(announced), application=application)
        for told, announced in {"count": rows, "no count": -1}.items():
            yield sending("data set", told, counting, data_set(announced), application=application)
    yield sending("text, empty", "no size", counting, text_file(0, ()))
    yield sending("binary, empty", "no size", counting, binary_file(0, ()))
    yield sending("data set, no rows", "count", counting, data_set(0, ()))
    yield sending("data set, no rows", "no count", counting, data_set(-1, ()))
    short = sum(len(line) + 1 for line in contents.LINES[0])
    for one_last in (False, True):
        two = [text_file(short, contents.LINES[:1]), data_set(2, contents.ROWS[:1])]
        yield sending("text and data set", "size and count", counting, *two, one_last=one_last)
        two = [text_file(0, contents.LINES[:1]), data_set(-1, contents.ROWS[:1])]
        yield sending("text and data set", "no size, no count", counting, *two, one_last=one_last)
    yield from _several_files(counting)


SHARED = "which may be of its own"
"""Of files that may be the attachments behind theirs, if one last message is for all attachments."""


def _several_files(counting: Counting) -> Iterator[Sending]:
    """Yield attachments of several files, alone and before others."""
    lines = [contents.LINES[:1], contents.LINES[1:2], contents.LINES[2:]]
    for told in ("size", "no size"):
        one, two, three = (
            text_file(sum(len(line) + 1 for line in some[0]) if told == "size" else 0, some, 80 + number)
            for number, some in enumerate(lines)
        )
        yield sending(
            "several texts", told, counting, several("all", one, two, three), application=counting.application
        )
        yield sending(f"texts and text {SHARED}", told, counting, several("texts", one, two), three)
    texts = several("texts", *(text_file(sum(len(line) + 1 for line in some[0]), some) for some in lines[:2]))
    sized = (
        binary_file(sum(map(len, chain.from_iterable(some))), some)
        for some in (contents.RECORDS[:2], contents.RECORDS[2:])
    )
    yield sending("several binaries", "size", counting, several("binaries", *sized))
    for one_last in (False, True):
        yield sending("texts and data set", "size", counting, texts, data_set(2, contents.ROWS[:1]), one_last=one_last)
    alone = [text_file(0, some)._replace(name=str(number)) for number, some in enumerate(lines)]
    yield sending("three texts", "no size", counting, *alone)
