"""A SAS program that sends attachments to an IBM MQ queue, by *Using the SAS Common Messaging Interface*.

The specification leaves byte order, width of a long, NUL and alignment to the sender; `Dialect` is one choice of each.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, product
from typing import NamedTuple

from tests.evidence.senders import contents
from tests.evidence.senders.sent import Physical, Sending, Sent, Table

HEADER, SUBORDINATE = 100_000, 100_001
KINDS = {"data set": 1, "text": 2, "binary": 3}
UTF8 = 1208


class Dialect(NamedTuple):
    """What the specification leaves to the sender."""

    order: str
    long: int
    nul: str
    aligned: bool
    charset: str = "utf-8"
    number: Callable[[float], bytes] | None = None

    def __str__(self) -> str:
        alignment = "aligned" if self.aligned else "packed"
        return f"{'big' if self.order == '>' else 'little'}-{self.long}-{self.nul}-{alignment}"


DIALECTS = [
    Dialect(*each)
    for each in product("><", (4, 8), ("excluded", "included", "absent", "excluded_nonempty"), (False, True))
]


class Bytes:
    """The body of a message under construction."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect, self.data = dialect, bytearray()
        self.records: list[int] = []

    def number(self, value: int, size: int) -> "Bytes":
        if self.dialect.aligned:
            self.data += bytes(-len(self.data) % size)
        self.data += struct.pack(self.dialect.order + {2: "h", 4: "i", 8: "q"}[size], value)
        return self

    def integer(self, *values: int) -> "Bytes":
        for value in values:
            self.number(value, 4)
        return self

    def long(self, *values: int) -> "Bytes":
        for value in values:
            self.number(value, self.dialect.long)
        return self

    def raw(self, data: bytes) -> "Bytes":
        self.data += data
        return self

    def text(self, text: bytes, size: int) -> "Bytes":
        """Add the length of a text, as a number of so many bytes, and the text."""
        match self.dialect.nul:
            case "absent":
                end, counted = b"", 0
            case "included":
                end, counted = b"\0", 1
            case "excluded":
                end, counted = b"\0", 0
            case _:
                end, counted = b"\0" if text else b"", 0
        return self.number(len(text) + counted, size).raw(text + end)

    def int_text(self, text: str) -> "Bytes":
        return self.text(text.encode(self.dialect.charset), 4)

    def long_text(self, *texts: str) -> "Bytes":
        for text in texts:
            self.text(text.encode(self.dialect.charset), self.dialect.long)
        return self

    def end_of_record(self) -> "Bytes":
        self.records.append(len(self.data))
        return self


class Attachment(NamedTuple):
    """An attachment with its kind, its name and its sequenced messages, and what a receiver must get."""

    kind: str
    name: str
    bodies: Sequence[tuple[str, Bytes]]
    content: bytes | Table


def text_file(dialect: Dialect, size: int, lines: Sequence[Sequence[bytes]] = contents.LINES) -> Attachment:
    """Return a text file of these lines, whose sender announces so many bytes."""
    content = b"".join(line + b"\n" for line in chain.from_iterable(lines))
    return Attachment("text", "notes.txt", [*_records(dialect, 80, size, lines)], content)


def binary_file(dialect: Dialect, size: int, records: Sequence[Sequence[bytes]] = contents.RECORDS) -> Attachment:
    content = b"".join(chain.from_iterable(records))
    return Attachment("binary", "picture.bin", [*_records(dialect, 65, size, records)], content)


def _records(
    dialect: Dialect, longest: int, size: int, messages: Sequence[Sequence[bytes]]
) -> Iterator[tuple[str, Bytes]]:
    yield "description", Bytes(dialect).integer(longest, size)
    for records in messages:
        body = Bytes(dialect)
        for record in records:
            body.long(len(record)).raw(record).end_of_record()
        yield "records", body


def data_set(
    dialect: Dialect,
    observations: int,
    rows: Sequence[Sequence[tuple[float, str]]] = contents.ROWS,
    variables_apart: bool = False,
    label: str = "some rows",
) -> Attachment:
    """Return a data set whose sender announces so many observations; its variables come in one message each, or not."""
    definition = Bytes(dialect).integer(1, 0).long_text("DATA", label).long(observations, 2, 14).long_text("NO")
    definition.raw(b"E").long_text("NO").long(0).long_text("").number(0, 2)
    for _ in ("read", "write", "alter"):
        definition.integer(0).raw(bytes(4))
    bodies = [("definition", definition)]
    for column in contents.COLUMNS:
        if variables_apart or len(bodies) == 1:
            bodies.append(("variables", Bytes(dialect).integer(2)))
        body = bodies[-1][1].long_text(column.name, "", "", column.label).raw(b"\2" if column.width else b"\1")
        body.long(column.width or 8, 0, 0, 0, 0).raw(b"\0").end_of_record()
    for some in rows:
        body = Bytes(dialect).integer(3)
        for number, word in some:
            eight = dialect.number(number) if dialect.number else struct.pack(dialect.order + "d", number)
            body.raw(eight + word.ljust(6).encode(dialect.charset)).end_of_record()
        bodies.append(("observations", body))
    table = Table(contents.COLUMNS, tuple(chain.from_iterable(rows)))
    return Attachment("data set", "STATIONS", bodies, table)


def sending(dialect: Dialect, kind: str, told: str, *attachments: Attachment) -> Sending:
    """Return all messages of a header with these attachments, in the order of the specification."""
    header = Bytes(dialect).raw(_correlid(b"header")).long(8).raw(bytes(24)).raw(_correlid(b"message"))
    header.integer(len(attachments))
    messages = []
    for number, attachment in enumerate(attachments):
        is_data_set = attachment.kind == "data set"
        header.integer(KINDS[attachment.kind]).raw(_correlid(b"attachment %d" % number))
        header.int_text("WORK" if is_data_set else "FILENAME").int_text(attachment.name).int_text("what it is").integer(
            0, 0
        )
        for sequence, (role, body) in enumerate(attachment.bodies, 1):
            key = _correlid(b"attachment %d" % number, sequence)
            messages.append(_physical(dialect, role, SUBORDINATE, key, body))
        count = Bytes(dialect).integer(len(attachment.bodies))
        messages.append(_physical(dialect, "count", SUBORDINATE, _correlid(b"attachment %d" % number), count))
    sent = (
        _physical(dialect, "header", HEADER, _correlid(b"header"), header),
        _physical(dialect, "application", SUBORDINATE, _correlid(b"message"), Bytes(dialect).raw(b"look at this")),
        *messages,
    )
    carried = tuple(Sent(attachment.name, attachment.content) for attachment in attachments)
    return Sending("sas_queue", kind, told, str(dialect), sent, carried)


def _correlid(name: bytes, sequence: int = 0) -> bytes:
    return name.rjust(16, b"-") + struct.pack(">i", sequence) + bytes(4)


def _physical(dialect: Dialect, role: str, msg_type: int, correl_id: bytes, body: Bytes) -> Physical:
    encoding = 273 if dialect.order == ">" else 546
    return Physical(
        role, bytes(body.data), msg_type, correl_id, encoding=encoding, ccsid=UTF8, records=tuple(body.records)
    )


def sendings(dialect: Dialect) -> Iterator[Sending]:
    """Yield every kind of attachment in a dialect, with what it may announce."""
    text, binary, rows = len(contents.TEXT), len(contents.BINARY), len(contents.TABLE.rows)
    lines = contents.TEXT.count(b"\n")
    for told, size in {
        "size with line ends": text,
        "size without line ends": text - lines,
        "size with CRLF": text + lines,
        "no size": 0,
    }.items():
        yield sending(dialect, "text", told, text_file(dialect, size))
    yield sending(dialect, "text, empty", "no size", text_file(dialect, 0, ()))
    yield sending(dialect, "binary", "size", binary_file(dialect, binary))
    yield sending(dialect, "binary", "no size", binary_file(dialect, 0))
    yield sending(dialect, "binary, empty", "no size", binary_file(dialect, 0, ()))
    yield sending(dialect, "data set", "count", data_set(dialect, rows))
    yield sending(dialect, "data set", "no count", data_set(dialect, -1))
    yield sending(dialect, "data set, variables apart", "count", data_set(dialect, rows, variables_apart=True))
    yield sending(dialect, "data set, no rows", "count", data_set(dialect, 0, ()))
    yield sending(dialect, "data set, no rows", "no count", data_set(dialect, -1, ()))
    short = sum(len(line) + 1 for line in contents.LINES[0])
    both = text_file(dialect, short, contents.LINES[:1]), data_set(dialect, 2, contents.ROWS[:1])
    yield sending(dialect, "text and data set", "size and count", *both)
