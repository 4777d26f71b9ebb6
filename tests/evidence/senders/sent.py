"""What a program sends, and what a receiver must get of it."""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple

Cell = float | str | Decimal | None
Files = tuple[bytes, ...]
"""The bytes of several files in one attachment."""


class Physical(NamedTuple):
    """A physical message: the fields of an MQMD that matter here, and a body.

    `role` is what the message is for its program; `records` are the places in the body where a record, a row or a
    variable ends, so that a cut there leaves whole ones.
    """

    role: str
    body: bytes
    msg_type: int = 0
    correl_id: bytes = bytes(24)
    message_id: bytes = b""
    group_id: bytes = b""
    msg_seq_number: int = 1
    offset: int = 0
    msg_flags: int = 0
    original_length: int = -1
    encoding: int = 0
    ccsid: int = 0
    format: str = ""
    records: tuple[int, ...] = ()


class Column(NamedTuple):
    """A variable of a data set: its name, its label, and its length in a row; a number has none."""

    name: str
    label: str = ""
    width: int | None = None


class Table(NamedTuple):
    """A data set: its variables, and its rows."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Sent:
    """An attachment under the name that its sender gives it, and its content: a file's bytes, or a table."""

    name: str
    content: bytes | Files | Table


@dataclass(frozen=True)
class Sending:
    """All physical messages of one application message, and the attachments that they carry.

    `told` is what the sender says beside the content, such as a size, and `manner` how it writes.
    """

    framing: str
    kind: str
    told: str
    manner: str
    messages: tuple[Physical, ...]
    attachments: tuple[Sent, ...] = field(default=())
