"""The rows of a layout, prepared to be read and written fast in one context.

Consecutive fixed rows share one `struct` call (a *run*), together with the length before a text. A row of another
kind follows its run as the *tail* of a step. Reading does not locate an error: it raises one of `MISFITS`, and
`app.wire.cells` then finds the position.
"""

import codecs
import struct
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, NoReturn

from app.wire.kinds import (
    PADDING,
    Bits,
    Buffer,
    Chars,
    Context,
    Kind,
    Many,
    Num,
    Raw,
    Row,
    Text,
    Texts,
    Varint,
    WireError,
    bit_groups,
    least_size,
    named,
    number_code,
    number_size,
)
from app.wire.tails import (
    Put,
    TailError,
    Take,
    TextDump,
    bits_put,
    bits_take,
    many_put,
    many_take,
    rest_put,
    rest_take,
    text_dump,
    text_take,
    texts_dump,
    texts_take,
    varint_put,
    varint_take,
)

MISFITS = (TailError, struct.error, IndexError, UnicodeError)

Dump = Callable[[Any], Any]


class _Run(NamedTuple):
    """One struct call. `pads` are the slices of it that must be zero."""

    struct: struct.Struct
    pads: tuple[tuple[int, int], ...]


class _Step(NamedTuple):
    """A run of fixed rows and an optional tail.

    There is one run for each start modulo 8. All are equal unless numbers are aligned. `text` writes a text after its
    length, `put` writes any other tail, and `tail` is the tail's index.
    """

    runs: tuple[_Run, ...]
    dumps: tuple[tuple[int, Dump | None], ...]
    take: Take | None
    text: TextDump | None
    put: Put | None
    tail: int


class LayoutPlan:
    """One layout's rows in one context."""

    def __init__(self, make: type[Any], rows: tuple[Row, ...], context: Context) -> None:
        codecs.lookup(context.charset)
        self.make, self.rows, self.context = make, rows, context
        self.least = least_size(rows, context)
        names = [row.name for row in rows]
        self._values = attrgetter(*names) if len(names) > 1 else lambda layout: (getattr(layout, names[0]),)
        self._loads = [(index, load) for index, row in enumerate(rows) if (load := _load(row.kind, context))]
        self._steps = _steps(rows, context)

    def read(self, buffer: Buffer, at: int, origin: int) -> tuple[Any, int]:
        """Return the layout at byte `at` of a message that starts at `origin`, and its end. Raises one of `MISFITS`."""
        values: list[Any] = []
        for runs, _, take, _, _, _ in self._steps:
            if runs:
                run, pads = runs[(at - origin) & 7]
                values += run.unpack_from(buffer, at)
                for start, end in pads:
                    if any(buffer[at + start : at + end]):
                        raise TailError
                at += run.size
            if take is not None:
                at = take(buffer, at, origin, values)
        for index, load in self._loads:
            values[index] = load(values[index])
        return self.make(*values), at

    def write(self, layout: Any, out: bytearray, path: str) -> None:
        """Append the layout to a message. Row names begin with `path`. Raises WireError."""
        values = self._values(layout)
        for step in self._steps:
            runs, dumps, _, text, put, _ = step
            try:
                args = [values[index] if dump is None else dump(values[index]) for index, dump in dumps]
                behind = b""
                if text is not None:
                    length, behind = text(values)
                    args.append(length)
                if runs:
                    out += runs[len(out) & 7].struct.pack(*args)
                out += behind
            except (struct.error, ValueError) as error:
                self._blame(step, values, len(out), path, error)
            if put is not None:
                put(out, values, path)

    def _blame(self, step: _Step, values: tuple[Any, ...], at: int, path: str, error: Exception) -> NoReturn:
        """Raise WireError for the row of a step whose value does not fit."""
        for index, dump in step.dumps:
            row = self.rows[index]
            code, align = _code(row.kind, self.context)
            at += -at % align
            try:
                value = values[index] if dump is None else dump(values[index])
                at += len(struct.pack(self.context.order + code, value))
            except (struct.error, ValueError) as reason:
                raise WireError(path + row.name, at, str(reason)) from None
        why = str(error)
        if isinstance(error, UnicodeEncodeError):
            why = f"{error.object[error.start : error.end]!r:.80} cannot be encoded in {error.encoding}"
        raise WireError(path + self.rows[step.tail].name, at, why) from None


def _steps(rows: tuple[Row, ...], context: Context) -> list[_Step]:
    groups = bit_groups(rows)
    steps: list[_Step] = []
    run: list[int] = []

    def close(tail: int, how: _Tail) -> None:
        kinds = [rows[index].kind for index in run]
        if isinstance(kind := rows[tail].kind, Text | Texts):
            kinds.append(Num(kind.length))
        dumps = tuple((index, _dump(rows[index].kind, context)) for index in run)
        steps.append(_Step(_runs(kinds, context), dumps, *how, tail))
        run.clear()

    for index, row in enumerate(rows):
        if isinstance(row.kind, Num | Raw | Chars):
            run.append(index)
        elif not isinstance(row.kind, Bits):
            close(index, _tail(index, rows, context))
        elif index in groups:
            close(index, _Tail(bits_take(groups[index]), None, bits_put(groups[index], index, rows)))
    if run:
        close(run[-1], _Tail(None, None, None))
    return steps


class _Tail(NamedTuple):
    """The reader and the writer of a row of variable size; a text has a writer of its own."""

    take: Take | None
    text: TextDump | None
    put: Put | None


def _tail(index: int, rows: tuple[Row, ...], context: Context) -> _Tail:
    name, kind, _ = rows[index]
    match kind:
        case Text():
            return _Tail(text_take(kind, context), text_dump(index, context), None)
        case Texts(count):
            counted = _index(rows, count)
            return _Tail(texts_take(counted, context), texts_dump(index, counted, context), None)
        case Varint():
            return _Tail(varint_take, None, varint_put(index, name))
        case Many(of, count):
            plan, times = of.plan(context), None if count is None else _index(rows, count)
            return _Tail(many_take(plan, times), None, many_put(plan, times, index, name))
        case _:
            return _Tail(rest_take, None, rest_put(index))


def _index(rows: tuple[Row, ...], name: str) -> int:
    return [row.name for row in rows].index(name)


def _runs(kinds: list[Kind], context: Context) -> tuple[_Run, ...]:
    if not kinds:
        return ()
    if not context.aligned:
        packed = context.order + "".join(_code(kind, context)[0] for kind in kinds)
        return (_Run(struct.Struct(packed), ()),) * 8
    runs: list[_Run] = []
    for phase in range(8):
        codes: list[str] = [context.order]
        pads: list[tuple[int, int]] = []
        at = phase
        for kind in kinds:
            code, align = _code(kind, context)
            if pad := -at % align:
                codes.append(f"{pad}x")
                pads.append((at - phase, at - phase + pad))
            codes.append(code)
            at += pad + struct.calcsize(context.order + code)
        runs.append(_Run(struct.Struct("".join(codes)), tuple(pads)))
    return tuple(runs)


def _code(kind: Kind, context: Context) -> tuple[str, int]:
    """Return the `struct` code of a fixed row, and the alignment of its start."""
    match kind:
        case Num(code):
            return number_code(code, context), number_size(code, context) if context.aligned else 1
        case Raw(size) | Chars(size):
            return f"{size}s", 1
        case _:
            return "", 1


def _load(kind: Kind, context: Context) -> Callable[[Any], Any] | None:
    match kind:
        case Num(_, enum) | Bits(_, enum):
            return named(enum)
        case Chars():
            charset = context.charset
            return lambda raw: str(raw, charset).rstrip(PADDING)
        case _:
            return None


def _dump(kind: Kind, context: Context) -> Dump | None:
    match kind:
        case Raw(size):
            return partial(_raw, size)
        case Chars(size):
            return partial(_chars, size, context.charset, " ".encode(context.charset))
        case _:
            return None


def _raw(size: int, value: bytes) -> bytes:
    if len(value) != size:
        raise ValueError(f"expected {size} bytes, found {len(value)}")
    return value


def _chars(size: int, charset: str, blank: bytes, value: str) -> bytes:
    raw = value.encode(charset)
    if len(raw) > size:
        raise ValueError(f"{value!r} takes {len(raw)} bytes, but the field has {size}")
    return raw + blank * (size - len(raw))
