"""Layouts: a specification's table, typed in once, decodes, encodes, traces and documents itself.

A layout is a class whose annotated names are the rows of the table, in the order of the bytes. A row's type carries
its kind: `Annotated[int, Num("i")]`, usually under the specification's own word for it.

    class Part(Layout):
        "One part of a packet."
        kind: Int1 = row("what the buffer holds")
        size: Int4 = row("bytes in use", default=0)

A subclass of a layout continues its table. The table never states byte order, character set and the like: they come
with the message, as a `Context`.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar, Self, cast, dataclass_transform, get_args, get_type_hints

from app.wire.cells import Cell, markdown, walk
from app.wire.kinds import Bits, Buffer, Chars, Context, Kind, Many, Num, Raw, Rest, Row, Texts, bit_groups, least_size
from app.wire.plan import MISFITS, LayoutPlan

DEFAULT = Context()


def row(meaning: str, *, default: Any = dataclasses.MISSING) -> Any:
    """Declare a row with its meaning and the initial value that the specification gives it."""
    return dataclasses.field(default=default, metadata={"meaning": meaning})


@dataclass_transform(field_specifiers=(row,), frozen_default=True)
class Layout:
    """Base class of every layout.

    Only the type checker treats instances as frozen: creating a dataclass that is frozen at run time takes ten times as
    long. `SIZE` is the size in bytes of a layout of fixed size, and 0 for any other.
    """

    ROWS: ClassVar[tuple[Row, ...]] = ()
    SIZE: ClassVar[int] = 0
    _plans: ClassVar[dict[Context, LayoutPlan]]

    def __init_subclass__(cls) -> None:
        dataclasses.dataclass(cls)
        hints = get_type_hints(cls, include_extras=True)
        fields = dataclasses.fields(cast("Any", cls))
        cls.ROWS = tuple(Row(f.name, _kind(hints[f.name]), f.metadata.get("meaning", "")) for f in fields)
        cls._plans = {}
        bit_groups(cls.ROWS)  # raises TypeError for bits that fill no whole bytes
        numbers: set[str] = set()
        for index, (name, kind, _) in enumerate(cls.ROWS):
            match kind:
                case Num(_, None):
                    numbers.add(name)
                case Many(_, str(count)) | Texts(count) if count not in numbers:
                    raise TypeError(f"{name} is repeated by {count}, which is not a number in an earlier row")
                case Many(of):
                    if not least_size(of.ROWS, DEFAULT):
                        raise TypeError(f"{name} repeats {of.__name__}, which can be empty")
            to_the_end = isinstance(kind, Rest) or (isinstance(kind, Many) and kind.count is None)
            if to_the_end and index < len(cls.ROWS) - 1:
                raise TypeError(f"{name} takes all remaining bytes, so it must be the last row")
        is_fixed = all(isinstance(r.kind, Num | Raw | Chars | Bits) and r.kind != Num("long") for r in cls.ROWS)
        cls.SIZE = least_size(cls.ROWS, DEFAULT) if is_fixed else 0

    @classmethod
    def plan(cls, context: Context) -> LayoutPlan:
        """Return the layout prepared for a context. It is created once for each context."""
        plan = cls._plans.get(context)
        if plan is None:
            plan = cls._plans[context] = LayoutPlan(cls, cls.ROWS, context)
        return plan

    @classmethod
    def decode(cls, buffer: Buffer, at: int = 0, context: Context = DEFAULT) -> tuple[Self, int]:
        """Return the layout that starts at byte `at`, and the position after it. Raises WireError."""
        try:
            return cls.plan(context).read(buffer, at, at)
        except MISFITS as error:
            for _ in cls.cells(buffer, at, context):
                pass
            raise AssertionError(f"{cls.__name__}: the plan refuses what the cells accept") from error

    @classmethod
    def attempt(cls, buffer: Buffer, at: int = 0, context: Context = DEFAULT) -> tuple[Self, int] | None:
        """Do the same as `decode`, but return None for bytes that do not fit: cheaper when many contexts are tried."""
        try:
            return cls.plan(context).read(buffer, at, at)
        except MISFITS:
            return None

    def encode(self, context: Context = DEFAULT) -> bytes:
        """Return the layout's bytes. Raises WireError that names the row whose value does not fit."""
        out = bytearray()
        self.append(out, context)
        return bytes(out)

    def append(self, out: bytearray, context: Context = DEFAULT) -> None:
        """Append the layout's bytes to a message. Numbers are aligned to the start of the message. Raises WireError."""
        self.plan(context).write(self, out, f"{type(self).__name__}.")

    @classmethod
    def cells(cls, buffer: Buffer, at: int = 0, context: Context = DEFAULT, path: str = "") -> Iterator[Cell]:
        """Return the message row by row.

        Names begin with `path`, or the layout's name. Raises WireError where it fails.
        """
        return walk(cls, buffer, at, context, path or f"{cls.__name__}.")

    @classmethod
    def table(cls) -> str:
        """Return the layout as a Markdown table, for the documentation."""
        return markdown(cls.ROWS)


def _kind(hint: Any) -> Kind:
    for extra in get_args(hint)[1:]:
        if isinstance(extra, Kind):
            return extra
    raise TypeError(f"{hint!r} has no row kind; annotate it with one, as in Annotated[int, Num('i')]")
