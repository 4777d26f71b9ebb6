"""What a row of a layout can be, and what comes with the message instead of standing in the table."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

Order = Literal["<", ">"]
Long = Literal[4, 8]
Nul = Literal["excluded", "included", "absent", "excluded_nonempty"]
NumCode = Literal["b", "B", "h", "H", "i", "I", "q", "Q", "f", "d", "long"]
Buffer = bytes | memoryview

NUL_RULES: tuple[Nul, ...] = ("excluded", "included", "absent", "excluded_nonempty")

PADDING = "\0 "
"""What is trimmed behind the text of a `Chars` row."""

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
    """How one sender writes numbers and characters; a table never says any of it.

    `order` is the byte order, `charset` a Python codec for text, `long` the bytes of a C long. `nul` tells how text
    ends: "excluded" has a NUL that the length does not count, "included" one that it counts, "absent" none, and
    "excluded_nonempty" is "excluded" except that an empty text has no NUL. With `aligned`, every number starts at a
    multiple of its own size, counted from the start of the message, and what is skipped is zero.
    """

    order: Order = ">"
    charset: str = "latin-1"
    long: Long = 4
    nul: Nul = "excluded"
    aligned: bool = False


def number_code(code: str, context: Context) -> str:
    """The `struct` code of a number: a long's width comes with the context."""
    return code if code != "long" else "q" if context.long == 8 else "i"


def number_size(code: str, context: Context) -> int:
    """Bytes of a number."""
    return context.long if code == "long" else _SIZES[code]


@dataclass(frozen=True, slots=True)
class Num:
    """A number. With `enum` its known values have names, and unknown values stay numbers."""

    code: NumCode
    enum: type[IntEnum] | None = None

    def __str__(self) -> str:
        return _NAMES[self.code]


@dataclass(frozen=True, slots=True)
class Raw:
    """So many bytes, kept as they are."""

    size: int

    def __str__(self) -> str:
        return f"byte[{self.size}]"


@dataclass(frozen=True, slots=True)
class Chars:
    """Text in a field of fixed size. Blanks and NULs behind the text are padding: trimmed, and written as blanks."""

    size: int

    def __str__(self) -> str:
        return f"char[{self.size}]"


@dataclass(frozen=True, slots=True)
class Text:
    """A length and so many bytes of text; the context says whether a NUL follows and whether the length counts it.

    With `or_one`, a length of one followed by a single NUL is the empty text under every NUL rule.
    """

    length: Literal["i", "long"] = "i"
    or_one: bool = False

    def __str__(self) -> str:
        return f"{_NAMES[self.length]} length, text"


@dataclass(frozen=True, slots=True)
class Texts:
    """The length of some texts together, then the texts: as many as the earlier row `count` says.

    Each ends with a NUL under every NUL rule. The rule tells whether the length counts them ("included", "absent") when
    it is written; when it is read, the other way is tried where this one does not fit.
    """

    count: str
    length: Literal["i", "long"] = "i"

    def __str__(self) -> str:
        return f"{_NAMES[self.length]} length, {self.count} texts"


@dataclass(frozen=True, slots=True)
class Varint:
    """Seven bits a byte, lowest first, the high bit set on all bytes but the last; at most four bytes."""

    LIMIT: ClassVar[int] = 1 << 28

    def __str__(self) -> str:
        return "varint, 1 to 4 bytes"


@dataclass(frozen=True, slots=True)
class Bits:
    """Some bits of a byte. Rows of bits that follow each other share bytes, highest bit first."""

    width: int
    enum: type[IntEnum] | None = None

    def __str__(self) -> str:
        return f"{self.width} bit" + "s" * (self.width > 1)


@dataclass(frozen=True, slots=True)
class Many:
    """A repeated layout: as often as the earlier row `count` says, or else to the end of the message."""

    of: "type[Table]"
    count: str | None = None

    def __str__(self) -> str:
        return f"{self.of.__name__} x {self.count}" if self.count else f"{self.of.__name__}, to the end"


@dataclass(frozen=True, slots=True)
class Rest:
    """All bytes that are left; a slice of what was given, so a memoryview is not copied."""

    def __str__(self) -> str:
        return "bytes, to the end"


Kind = Num | Raw | Chars | Text | Texts | Varint | Bits | Many | Rest


class Row(NamedTuple):
    """One row of a table: its name, what it is and what it means."""

    name: str
    kind: Kind
    meaning: str


class Table(Protocol):
    """What a row of the kind `Many` needs of the layout that it repeats; `app.wire.layout.Layout` has it."""

    ROWS: ClassVar[tuple[Row, ...]]

    @classmethod
    def plan(cls, context: Context) -> "Planned": ...


class Planned(Protocol):
    """A layout made ready for one context; `app.wire.plan.Plan` is one."""

    least: int

    def read(self, buffer: Buffer, at: int, origin: int) -> tuple[Any, int]: ...

    def write(self, layout: Any, out: bytearray, path: str) -> None: ...


def counts_nuls(context: Context) -> bool:
    """Whether the length of a row of the kind `Texts` counts its NULs."""
    return context.nul in {"included", "absent"}


def texts_in(buffer: Buffer, at: int, size: int, count: int, context: Context) -> list[bytes] | None:
    """Return the `count` texts of a row of the kind `Texts` whose length is `size`; None where it does not fit.

    Senders differ in whether this length counts the NULs, whatever they do with other lengths: the way of the context's
    rule is tried first, then the other one.
    """
    counting, not_counting = size, size + count
    for total in (counting, not_counting) if counts_nuls(context) else (not_counting, counting):
        if 0 <= count <= total <= len(buffer) - at:
            *texts, rest = bytes(buffer[at : at + total]).split(b"\0")
            if not rest and len(texts) == count:
                return texts
    return None


def least_size(rows: tuple[Row, ...], context: Context) -> int:
    """The fewest bytes that these rows can take: what a count must be able to pay for."""
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
    """Groups of bit rows that share bytes, each by the index of its first row.

    Raises TypeError when a group does not fill whole bytes.
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
    """Gives a number its name where it has one; None where there are no names."""
    if enum is None:
        return None
    members: dict[int, IntEnum] = {member.value: member for member in enum}

    def load(value: int) -> int:
        return members.get(value, value)

    return load
