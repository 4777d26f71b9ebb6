"""A message row by row: its trace, and the exact place of an error.

This second reader is slow and plain on purpose. `app.wire.plan` reads the same rows fast and without knowing where it
is; when it fails, this one says why.
"""

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from app.wire.errors import WireError
from app.wire.kinds import (
    PADDING,
    Bits,
    Buffer,
    Chars,
    Context,
    Many,
    Num,
    Raw,
    Rest,
    Row,
    Table,
    Text,
    Varint,
    bit_groups,
    least_size,
    named,
    number_code,
    number_size,
)


class Cell(NamedTuple):
    """One row as found in a message: the byte where it starts, how many it takes, its dotted name and its value."""

    at: int
    size: int
    name: str
    value: Any

    def __str__(self) -> str:
        return f"{self.at:6d} {self.size:5d}  {self.name:48s} {self.value!r}"


def walk(table: type[Table], buffer: Buffer, at: int, context: Context, path: str) -> Iterator[Cell]:
    """The cells of a message that starts at byte `at`, in order and without gaps. Raises WireError where it breaks."""
    return _Walk(buffer, at, context).table(table, path)


class _Walk:
    def __init__(self, buffer: Buffer, at: int, context: Context) -> None:
        self.buffer, self.at, self.context, self.origin = buffer, at, context, at

    def table(self, table: type[Table], path: str) -> Iterator[Cell]:
        values: dict[str, Any] = {}
        groups = bit_groups(table.ROWS)
        group = bits_left = word = 0
        for index, row in enumerate(table.ROWS):
            name = path + row.name
            match row.kind:
                case Bits(width, enum):
                    if index in groups:
                        group = bits_left = sum(bits.width for bits in groups[index])
                        word = int.from_bytes(self._bytes(name, group // 8, row), "big")
                    bits_left -= width
                    bits = word >> bits_left & (1 << width) - 1
                    load = named(enum)
                    yield Cell(self.at - group // 8, group // 8, name, load(bits) if load else bits)
                case Many(of, count):
                    yield from self._many(name, of, None if count is None else values[count])
                case Text():
                    yield from self._text(name, row.kind)
                case _:
                    for cell in self._simple(name, row):
                        values[row.name] = cell.value
                        yield cell

    def _many(self, name: str, of: type[Table], times: int | None) -> Iterator[Cell]:
        if times is not None:
            least, left = least_size(of.ROWS, self.context), len(self.buffer) - self.at
            if times < 0 or times * least > left:
                raise WireError(name, self.at, f"{times} times at least {least} bytes, where {max(0, left)} are left")
        index = 0
        while self.at < len(self.buffer) if times is None else index < times:
            yield from self.table(of, f"{name}[{index}].")
            index += 1

    def _text(self, name: str, kind: Text) -> Iterator[Cell]:
        nul = self.context.nul
        size = 0
        for cell in self._number(name + ".length", kind.length):
            size = cell.value
            yield cell
        start = self.at
        if size < 0:
            raise WireError(name, start, f"a length of {size}")
        if kind.or_one and size == 1 and self.buffer[start : start + 1] == b"\0":
            self.at += 1
            yield Cell(start, 1, name, "")
            return
        if nul == "included" and not size:
            raise WireError(name, start, "a length of 0, where it should count a NUL")
        ended = nul in {"excluded", "included"} or (nul == "excluded_nonempty" and size > 0)
        counted = nul == "included"
        total = size + (ended and not counted)
        if total > len(self.buffer) - start:
            raise WireError(name, start, f"{total} bytes of text, where {len(self.buffer) - start} are left")
        end = start + total - ended
        if ended and self.buffer[end]:
            raise WireError(name, end, f"a NUL belongs here, not {self.buffer[end]:02X}")
        self.at += total
        yield Cell(start, total, name, self._decoded(name, start, end))

    def _simple(self, name: str, row: Row) -> Iterator[Cell]:
        start = self.at
        match row.kind:
            case Num(code, enum):
                yield from self._number(name, code, named(enum))
            case Raw(size):
                yield Cell(start, size, name, bytes(self._bytes(name, size, row)))
            case Chars(size):
                self._bytes(name, size, row)
                yield Cell(start, size, name, self._decoded(name, start, start + size).rstrip(PADDING))
            case Varint():
                value = self._varint(name)
                yield Cell(start, self.at - start, name, value)
            case Rest():
                self.at = max(start, len(self.buffer))
                yield Cell(start, self.at - start, name, self.buffer[start:])

    def _number(self, name: str, code: str, load: Any = None) -> Iterator[Cell]:
        size = number_size(code, self.context)
        if self.context.aligned and (pad := (self.origin - self.at) % size):
            start = self.at
            padding = bytes(self._bytes(name, pad, "padding"))
            if any(padding):
                raise WireError(name, start, f"padding of {padding.hex().upper()}, where zeros belong")
            yield Cell(start, pad, f"{name}.padding", padding)
        start = self.at
        code = self.context.order + number_code(code, self.context)
        (value,) = struct.unpack(code, self._bytes(name, size, code_name(size)))
        yield Cell(start, size, name, load(value) if load else value)

    def _varint(self, name: str) -> int:
        value = 0
        for shift in (0, 7, 14, 21):
            digit = self._bytes(name, 1, "varint")[0]
            value |= (digit & 0x7F) << shift
            if digit < 0x80:
                return value
        raise WireError(name, self.at - 1, "a fourth byte that says there is a fifth")

    def _bytes(self, name: str, size: int, what: object) -> Buffer:
        start, end = self.at, self.at + size
        if end > len(self.buffer):
            kind = what.kind if isinstance(what, Row) else what
            raise WireError(name, start, f"{kind} does not fit in the {max(0, len(self.buffer) - start)} bytes left")
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


def code_name(size: int) -> str:
    return f"a number of {size} byte" + "s" * (size > 1)


def markdown(rows: tuple[Row, ...]) -> str:
    """Rows as a Markdown table."""
    lines = ["| row | type | meaning |", "|---|---|---|"]
    lines += [f"| {row.name} | {row.kind} | {row.meaning.replace('|', chr(92) + '|')} |" for row in rows]
    return "\n".join(lines)
