"""The kinds of rows in a layout, and the context that comes with a message rather than with its table."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar, Literal, NamedTuple, Protocol


class WireError(ValueError):
    """Bytes or values that do not fit a layout.

    `row` is the dotted path of the row (`AttachmentHeader.attachments[0].description`). `at` is the byte of the message
    where the error is, and `why` explains it in a sentence. Of several messages that are read together, `part` is the
    number of that message (0 is the first).
    """

    def __init__(self, row: str, at: int, why: str, part: int | None = None) -> None:
        super().__init__(row, at, why)
        self.row, self.at, self.why, self.part = row, at, why, part

    def __str__(self) -> str:
        return f"{self.row} at byte {self.at}: {self.why}"

    def locate(self, sizes: Iterable[int], left_out: int = 0) -> "WireError":
        """Return the error of joined messages of these sizes with its message and the byte of that. `left_out` is the
        number of bytes at the beginning of each but the first that were not joined."""
        at, skipped = self.at, 0
        for number, size in enumerate(sizes):
            self.part, self.at = number, at + skipped
            if self.at < size:
                break
            at -= size - skipped
            skipped = left_out
        return self


@contextmanager
def in_part(*numbers: int) -> Iterator[None]:
    """Have a WireError name its message by these numbers of the messages that are read."""
    try:
        yield
    except WireError as error:
        error.part = numbers[error.part or 0]
        raise


Order = Literal["<", ">"]
Long = Literal[4, 8]
Nul = Literal["excluded", "included", "absent", "excluded_nonempty"]
NumCode = Literal["b", "B", "h", "H", "i", "I", "q", "Q", "f", "d", "long"]
Buffer = bytes | memoryview

NUL_RULES: tuple[Nul, ...] = ("excluded", "included", "absent", "excluded_nonempty")

PADDING = "\0 "
"""Characters that are removed from the end of the text of a `Chars` row."""

_NAMES = {
    "b": "int8",
    "B": "uint8",
    "h": "int16",
    "H": "uint16",
    "i": "int32",
    "I": "uint32",
    "q": "int64",
    "Q": "uint64",
    "f": "float",
    "d": "double",
    "long": "long",
}
_SIZES = {"b": 1, "B": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "Q": 8, "f": 4, "d": 8}


class Context(NamedTuple):
    """One sender's representation of numbers and characters, which a table never states.

    `order` is the byte order, `charset` a Python codec for text, `long` the bytes of a C long. `nul` states how a text
    ends. "excluded": with a NUL that the length does not count. "included": with a NUL that the length counts.
    "absent": without a NUL. "excluded_nonempty": as "excluded", but an empty text has no NUL. With `aligned`, every
    number starts at a multiple of its own size, counted from the start of the message, and the bytes skipped are zero.
    """

    order: Order = ">"
    charset: str = "latin-1"
    long: Long = 4
    nul: Nul = "excluded"
    aligned: bool = False


def number_code(code: str, context: Context) -> str:
    """Return the `struct` code of a number. The width of a long comes from the context."""
    return code if code != "long" else "q" if context.long == 8 else "i"


def number_size(code: str, context: Context) -> int:
    """Return the size of a number in bytes."""
    return context.long if code == "long" else _SIZES[code]


@dataclass(frozen=True, slots=True)
class Num:
    """A number. With `enum`, its known values have names, and unknown values stay numbers."""

    code: NumCode
    enum: type[IntEnum] | None = None

    def __str__(self) -> str:
        return _NAMES[self.code]


@dataclass(frozen=True, slots=True)
class Raw:
    """A fixed number of bytes, kept unchanged."""

    size: int

    def __str__(self) -> str:
        return f"byte[{self.size}]"


@dataclass(frozen=True, slots=True)
class Chars:
    """Text in a field of fixed size.

    Blanks and NULs after the text are padding: removed when read, blanks when written.
    """

    size: int

    def __str__(self) -> str:
        return f"char[{self.size}]"


@dataclass(frozen=True, slots=True)
class Text:
    """A length and that many bytes of text. The context states whether a NUL follows and whether the length counts it.

    With `or_one`, a length of one followed by a single NUL is the empty text under every NUL rule.
    """

    length: Literal["i", "long"] = "i"
    or_one: bool = False

    def __str__(self) -> str:
        return f"{_NAMES[self.length]} length, text"


@dataclass(frozen=True, slots=True)
class Texts:
    """The total length of some texts, then the texts. The earlier row `count` holds their number.

    Each text ends with a NUL under every NUL rule. When written, the rule states whether the length counts the NULs
    ("included", "absent"). When read, the other way is tried if the length does not fit.
    """

    count: str
    length: Literal["i", "long"] = "i"

    def __str__(self) -> str:
        return f"{_NAMES[self.length]} length, {self.count} texts"


@dataclass(frozen=True, slots=True)
class Varint:
    """A number of at most four bytes: seven bits each, lowest first, the high bit set on all bytes but the last."""

    LIMIT: ClassVar[int] = 1 << 28

    def __str__(self) -> str:
        return "varint, 1 to 4 bytes"


@dataclass(frozen=True, slots=True)
class Bits:
    """Some bits of a byte. Consecutive rows of bits share bytes, highest bit first."""

    width: int
    enum: type[IntEnum] | None = None

    def __str__(self) -> str:
        return f"{self.width} bit" + "s" * (self.width > 1)


@dataclass(frozen=True, slots=True)
class Many:
    """A repeated layout. The earlier row `count` holds the number of repetitions; without it, they fill the message."""

    of: "type[Table]"
    count: str | None = None

    def __str__(self) -> str:
        return f"{self.of.__name__} x {self.count}" if self.count else f"{self.of.__name__}, to the end"


@dataclass(frozen=True, slots=True)
class Rest:
    """All remaining bytes, as a slice of the given buffer, so a memoryview is not copied."""

    def __str__(self) -> str:
        return "bytes, to the end"


Kind = Num | Raw | Chars | Text | Texts | Varint | Bits | Many | Rest


class Row(NamedTuple):
    """One row of a table: its name, kind and meaning."""

    name: str
    kind: Kind
    meaning: str


class Table(Protocol):
    """The part of a layout that a row of the kind `Many` needs; `app.wire.layout.Layout` implements it."""

    ROWS: ClassVar[tuple[Row, ...]]

    @classmethod
    def plan(cls, context: Context) -> "PlannedLayout": ...


class PlannedLayout(Protocol):
    """A layout prepared for one context; `app.wire.plan.LayoutPlan` implements it."""

    least: int

    def read(self, buffer: Buffer, at: int, origin: int) -> tuple[Any, int]: ...

    def write(self, layout: Any, out: bytearray, path: str) -> None: ...


def counts_nuls(context: Context) -> bool:
    """Tell whether the length of a row of the kind `Texts` counts its NULs."""
    return context.nul in {"included", "absent"}


def texts_in(buffer: Buffer, at: int, size: int, count: int, context: Context) -> list[bytes] | None:
    """Return the `count` texts of a row of the kind `Texts` whose length is `size`, or None if they do not fit.

    Senders differ in whether this length counts the NULs, whatever rule they use for other lengths. The way of the
    context's rule is tried first, then the other one.
    """
    counting, not_counting = size, size + count
    for total in (counting, not_counting) if counts_nuls(context) else (not_counting, counting):
        if 0 <= count <= total <= len(buffer) - at:
            *texts, rest = bytes(buffer[at : at + total]).split(b"\0")
            if not rest and len(texts) == count:
                return texts
    return None


def least_size(rows: tuple[Row, ...], context: Context) -> int:
    """Return the smallest number of bytes that these rows can take. It bounds the counts that a message can state."""
    bits = sum(row.kind.width for row in rows if isinstance(row.kind, Bits))
    return bits // 8 + sum(_least(row.kind, context) for row in rows)


def _least(kind: Kind, context: Context) -> int:
    match kind:
        case Num(code):
            return number_size(code, context)
        case Raw(size) | Chars(size):
            return size
        case Text(length):
            return number_size(length, context) + (context.nul in {"excluded", "included"})
        case Texts(_, length):
            return number_size(length, context)
        case Varint():
            return 1
        case _:
            return 0


def bit_groups(rows: tuple[Row, ...]) -> dict[int, list[Bits]]:
    """Return the groups of bit rows that share bytes, by the index of each group's first row.

    Raises TypeError if a group does not fill whole bytes.
    """
    groups: dict[int, list[Bits]] = {}
    start = 0
    for index, row in enumerate(rows):
        if isinstance(row.kind, Bits):
            groups.setdefault(start, []).append(row.kind)
        else:
            start = index + 1
    for start, group in groups.items():
        if sum(bits.width for bits in group) % 8:
            raise TypeError(f"the bits from row {rows[start].name} on do not fill whole bytes")
    return groups


def named(enum: type[IntEnum] | None) -> Callable[[Any], Any] | None:
    """Return a function that replaces a number by its enum member if it has one. Return None without an enum."""
    if enum is None:
        return None
    members: dict[int, IntEnum] = {member.value: member for member in enum}

    def load(value: int) -> int:
        return members.get(value, value)

    return load
