"""Read a message row by row, for its trace and for the exact position of an error.

This second reader favours clarity over speed. `app.wire.plan` reads the same rows fast, but does not track positions.
When it fails, this reader finds the row, the byte and the reason.
"""

import struct
from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple

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
    Table,
    Text,
    Texts,
    Varint,
    WireError,
    bit_groups,
    least_size,
    named,
    number_code,
    number_size,
    texts_in,
)


class Cell(NamedTuple):
    """One row as found in a message: its first byte, its size in bytes, its dotted name and its value."""

    at: int
    size: int
    name: str
    value: Any

    def __str__(self) -> str:
        return f"{self.at:6d} {self.size:5d}  {self.name:48s} {self.value!r}"


def walk(table: type[Table], buffer: Buffer, at: int, context: Context, path: str) -> Iterator[Cell]:
    """Yield the cells of the message that starts at byte `at`, in order and without gaps.

    Raises WireError where it fails.
    """
    return _Walk(buffer, at, context).table(table, path)


Cells = Generator[Cell, None, Any]
"""A generator of cells that returns the value they make."""


class _Walk:
    """The current position in a message that starts at `origin`."""

    def __init__(self, buffer: Buffer, at: int, context: Context) -> None:
        self.buffer, self.at, self.context, self.origin = buffer, at, context, at
        self.numbers: dict[str, int] = {}  # the byte where each number begins

    def table(self, table: type[Table], path: str) -> Iterator[Cell]:
        values: dict[str, Any] = {}
        groups = bit_groups(table.ROWS)
        for index, row in enumerate(table.ROWS):
            if index in groups:
                yield from self._bits(path, table.ROWS[index : index + len(groups[index])], groups[index])
            elif not isinstance(row.kind, Bits):
                values[row.name] = yield from self._row(path + row.name, row.kind, values)

    def _row(self, name: str, kind: Kind, values: dict[str, Any]) -> Cells:
        start = self.at
        value: Any
        match kind:
            case Num(code, enum):
                return (yield from self._number(name, code, named(enum)))
            case Text():
                return (yield from self._text(name, kind))
            case Texts(count, length):
                return (yield from self._texts(name, length, values[count]))
            case Many(of, count):
                return (yield from self._many(name, of, count, None if count is None else values[count]))
            case Raw(size):
                value = bytes(self._bytes(name, size, kind))
            case Chars(size):
                self._bytes(name, size, kind)
                value = self._decoded(name, start, self.at).rstrip(PADDING)
            case Varint():
                value = self._varint(name)
            case _:
                self.at = max(start, len(self.buffer))
                value = self.buffer[start:]
        yield Cell(start, self.at - start, name, value)
        return value

    def _number(self, name: str, code: str, load: Callable[[Any], Any] | None = None) -> Cells:
        size = number_size(code, self.context)
        if self.context.aligned and (pad := (self.origin - self.at) % size):
            start = self.at
            padding = bytes(self._bytes(name, pad, "padding"))
            if any(padding):
                raise WireError(name, start, f"padding must be zero, but is {padding.hex().upper()}")
            yield Cell(start, pad, f"{name}.padding", padding)
        start = self.at
        (value,) = struct.unpack(
            self.context.order + number_code(code, self.context), self._bytes(name, size, f"a number of {size} bytes")
        )
        value = load(value) if load else value
        self.numbers[name] = start
        yield Cell(start, size, name, value)
        return value

    def _bits(self, path: str, rows: tuple[Row, ...], group: list[Bits]) -> Iterator[Cell]:
        start, left = self.at, sum(bits.width for bits in group)
        size = left // 8
        word = int.from_bytes(self._bytes(path + rows[0].name, size, group[0]), "big")
        for row, bits in zip(rows, group, strict=True):
            left -= bits.width
            value = word >> left & (1 << bits.width) - 1
            load = named(bits.enum)
            yield Cell(start, size, path + row.name, load(value) if load else value)

    def _many(self, name: str, of: type[Table], count: str | None, times: int | None) -> Cells:
        if count is not None and times is not None:
            least, left = least_size(of.ROWS, self.context), len(self.buffer) - self.at
            if times < 0 or times * least > left:
                table, dot, _ = name.rpartition(".")
                counted = f"{table}{dot}{count}"
                why = f"{times} items of at least {least} bytes do not fit in the {left} bytes left"
                raise WireError(counted, self.numbers[counted], why)
        index = 0
        while self.at < len(self.buffer) if times is None else index < times:
            yield from self.table(of, f"{name}[{index}].")
            index += 1

    def _text(self, name: str, kind: Text) -> Cells:
        nul = self.context.nul
        size = yield from self._number(f"{name}.length", kind.length)
        start = self.at
        if kind.or_one and size == 1 and self.buffer[start : start + 1] == b"\0":
            self.at += 1
            yield Cell(start, 1, name, "")
            return ""
        counted = nul == "included"
        if size < counted:
            raise WireError(name, start, f"a length of {size}" + "; it must count the NUL" * counted)
        ended = counted or nul == "excluded" or (nul == "excluded_nonempty" and size > 0)
        self._bytes(name, size + (ended and not counted), f"text of {size} bytes")
        end = self.at - ended
        if ended and self.buffer[end]:
            raise WireError(name, end, f"expected a NUL, found {self.buffer[end]:02X}")
        value = self._decoded(name, start, end)
        yield Cell(start, self.at - start, name, value)
        return value

    def _texts(self, name: str, length: str, count: int) -> Cells:
        size = yield from self._number(f"{name}.length", length)
        start = self.at
        if count < 0 or size < 0:
            raise WireError(name, start, f"{count} texts in {size} bytes")
        texts = texts_in(self.buffer, start, size, count, self.context)
        if texts is None:
            raw = bytes(self._bytes(name, size, f"{count} texts of {size} bytes"))
            raise WireError(
                name, start, f"expected {count} texts, each with a NUL at its end, found {raw.count(0)} NULs"
            )
        for index, text in enumerate(texts):
            start = self.at
            self.at += len(text) + 1
            yield Cell(start, len(text) + 1, f"{name}[{index}]", self._decoded(f"{name}[{index}]", start, self.at - 1))

    def _varint(self, name: str) -> int:
        value = 0
        for shift in (0, 7, 14, 21):
            digit = self._bytes(name, 1, "varint")[0]
            value |= (digit & 0x7F) << shift
            if digit < 0x80:
                return value
        raise WireError(name, self.at - 1, "the varint has more than four bytes")

    def _bytes(self, name: str, size: int, what: object) -> Buffer:
        start, end = self.at, self.at + size
        if end > len(self.buffer):
            raise WireError(name, start, f"{what} does not fit in the {max(0, len(self.buffer) - start)} bytes left")
        self.at = end
        return self.buffer[start:end]

    def _decoded(self, name: str, start: int, end: int) -> str:
        try:
            return str(self.buffer[start:end], self.context.charset)
        except UnicodeDecodeError as error:
            byte = start + error.start
            why = f"byte {self.buffer[byte]:02X} is not {self.context.charset}: {error.reason}"
            raise WireError(name, byte, why) from None
        except UnicodeError as error:
            raise WireError(name, start, f"not {self.context.charset}: {error}") from None


def markdown(rows: tuple[Row, ...]) -> str:
    """Return rows as a Markdown table."""
    lines = ["| row | type | meaning |", "|---|---|---|"]
    lines += [f"| {row.name} | {row.kind} | {row.meaning.replace('|', chr(92) + '|')} |" for row in rows]
    return "\n".join(lines)
