"""Read and write rows of variable size: texts, varints, bits, repetitions and the rest of a message.

A *take* gets the buffer, its start, the start of the message and the values read so far. It appends its values (a text
replaces its length) and returns its end. A *put* gets the message so far, the values of all rows and the path for
errors. A *dump* gets the values of all rows and returns a text's length and the bytes after it.
"""

from collections.abc import Callable
from typing import Any

from app.wire.kinds import (
    Bits,
    Buffer,
    Context,
    Nul,
    PlannedLayout,
    Row,
    Text,
    Varint,
    WireError,
    counts_nuls,
    texts_in,
)

Take = Callable[[Buffer, int, int, list[Any]], int]
Put = Callable[[bytearray, tuple[Any, ...], str], None]
TextDump = Callable[[tuple[Any, ...]], tuple[int, bytes]]


class TailError(Exception):
    """Bytes that do not fit the layout."""


def text_take(kind: Text, context: Context) -> Take:
    take = _TEXT_TAKES[context.nul](context.charset)
    if not kind.or_one:
        return take

    def or_one(buffer: Buffer, at: int, origin: int, values: list[Any]) -> int:
        if values[-1] == 1 and buffer[at] == 0:
            values[-1] = ""
            return at + 1
        return take(buffer, at, origin, values)

    return or_one


def _nul_ended(charset: str, counted: int = 0) -> Take:
    """Return the reader of a text with a NUL, of whose bytes the length counts `counted` (0 or 1)."""

    def take(buffer: Buffer, at: int, _: int, values: list[Any]) -> int:
        end: int = at + values[-1] - counted
        if end < at or buffer[end]:
            raise TailError
        values[-1] = str(buffer[at:end], charset)
        return end + 1

    return take


def _absent(charset: str) -> Take:
    def take(buffer: Buffer, at: int, _: int, values: list[Any]) -> int:
        end: int = at + values[-1]
        if not at <= end <= len(buffer):
            raise TailError
        values[-1] = str(buffer[at:end], charset)
        return end

    return take


def _excluded_nonempty(charset: str) -> Take:
    nonempty, empty = _nul_ended(charset), _absent(charset)

    def take(buffer: Buffer, at: int, origin: int, values: list[Any]) -> int:
        return (nonempty if values[-1] else empty)(buffer, at, origin, values)

    return take


_TEXT_TAKES: dict[Nul, Callable[[str], Take]] = {
    "excluded": _nul_ended,
    "included": lambda charset: _nul_ended(charset, 1),
    "absent": _absent,
    "excluded_nonempty": _excluded_nonempty,
}


def text_dump(index: int, context: Context) -> TextDump:
    charset, nul = context.charset, context.nul

    def dump(values: tuple[Any, ...]) -> tuple[int, bytes]:
        raw = values[index].encode(charset)
        ended = nul in {"excluded", "included"} or (nul == "excluded_nonempty" and bool(raw))
        return len(raw) + (nul == "included"), raw + b"\0" * ended

    return dump


def texts_take(counted: int, context: Context) -> Take:
    charset = context.charset

    def take(buffer: Buffer, at: int, _: int, values: list[Any]) -> int:
        texts = texts_in(buffer, at, values[-1], values[counted], context)
        if texts is None:
            raise TailError
        values[-1] = [str(text, charset) for text in texts]
        return at + len(texts) + sum(map(len, texts))

    return take


def texts_dump(index: int, counted: int, context: Context) -> TextDump:
    charset, nuls_count = context.charset, counts_nuls(context)

    def dump(values: tuple[Any, ...]) -> tuple[int, bytes]:
        texts = values[index]
        count = len(texts)
        if values[counted] != count:
            raise ValueError(f"{count} texts, but the count is {values[counted]}")
        raw = b"".join([text.encode(charset) + b"\0" for text in texts])
        if raw.count(0) != count:
            raise ValueError("a text contains a NUL")
        return len(raw) if nuls_count else len(raw) - count, raw

    return dump


def varint_take(buffer: Buffer, at: int, _: int, values: list[Any]) -> int:
    value = 0
    for shift in (0, 7, 14, 21):
        digit = buffer[at]
        at += 1
        value |= (digit & 0x7F) << shift
        if digit < 0x80:
            values.append(value)
            return at
    raise TailError


def varint_put(index: int, name: str) -> Put:
    def put(out: bytearray, values: tuple[Any, ...], path: str) -> None:
        value = values[index]
        if not 0 <= value < Varint.LIMIT:
            raise WireError(path + name, len(out), f"{value} does not fit four bytes of seven bits")
        while value >= 0x80:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)

    return put


def bits_take(group: list[Bits]) -> Take:
    width = sum(bits.width for bits in group)
    shifts = []
    left = width
    for bits in group:
        left -= bits.width
        shifts.append((left, (1 << bits.width) - 1))

    def take(buffer: Buffer, at: int, _: int, values: list[Any]) -> int:
        end = at + width // 8
        if end > len(buffer):
            raise TailError
        word = int.from_bytes(buffer[at:end], "big")
        values += [word >> shift & mask for shift, mask in shifts]
        return end

    return take


def bits_put(group: list[Bits], first: int, rows: tuple[Row, ...]) -> Put:
    size = sum(bits.width for bits in group) // 8

    def put(out: bytearray, values: tuple[Any, ...], path: str) -> None:
        word = 0
        for index, bits in enumerate(group, first):
            value = int(values[index])
            if not 0 <= value < 1 << bits.width:
                raise WireError(path + rows[index].name, len(out), f"{value} does not fit {bits}")
            word = word << bits.width | value
        out += word.to_bytes(size, "big")

    return put


def many_take(plan: PlannedLayout, counted: int | None) -> Take:
    read, least = plan.read, plan.least

    def to_the_end(buffer: Buffer, at: int, origin: int, values: list[Any]) -> int:
        items = []
        while at < len(buffer):
            item, at = read(buffer, at, origin)
            items.append(item)
        values.append(items)
        return at

    def so_often(buffer: Buffer, at: int, origin: int, values: list[Any]) -> int:
        times: int = values[counted]  # type: ignore[index]
        if times < 0 or times * least > len(buffer) - at:
            raise TailError
        items = []
        for _ in range(times):
            item, at = read(buffer, at, origin)
            items.append(item)
        values.append(items)
        return at

    return to_the_end if counted is None else so_often


def many_put(plan: PlannedLayout, counted: int | None, index: int, name: str) -> Put:
    def put(out: bytearray, values: tuple[Any, ...], path: str) -> None:
        items = values[index]
        if counted is not None and values[counted] != len(items):
            raise WireError(path + name, len(out), f"{len(items)} items, but the count is {values[counted]}")
        for number, item in enumerate(items):
            plan.write(item, out, f"{path}{name}[{number}].")

    return put


def rest_take(buffer: Buffer, at: int, _: int, values: list[Any]) -> int:
    values.append(buffer[at:])
    return max(at, len(buffer))


def rest_put(index: int) -> Put:
    def put(out: bytearray, values: tuple[Any, ...], _: str) -> None:
        out += values[index]

    return put
