"""The results of an explanation, and the search for the format that fits."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from app.codecs.ibm_mq.encodings import charset, integer_order
from app.codecs.sas.dialect import ALL, with_order
from app.wire import Cell, WireError


class Frame(NamedTuple):
    """One structure: its format, its first byte, its cells in order, and a note.

    `decoded` is the structure's meaning as a whole, by name and as JSON values, for formats where the cells do not show
    it.
    """

    format: str
    offset: int
    cells: list[Cell]
    note: str = ""
    decoded: Mapping[str, Any] = MappingProxyType({})


class Tried(NamedTuple):
    """A format that does not fit: the byte where it failed, and why."""

    format: str
    at: int
    why: str


class NotRecognised(ValueError):
    """Bytes that match none of the formats tried; `tried` begins with the format that failed at the highest byte."""

    def __init__(self, tried: Sequence[Tried]) -> None:
        self.tried = sorted(tried, key=lambda one: -one.at)
        lines = [f"  {one.format}: to byte {one.at}: {one.why}" for one in self.tried]
        super().__init__("\n".join(["not recognised; tried were:", *lines]))


MOST_FRAMES = 20_000
"""The maximum number of structures explained at once: a structure of two bytes takes a thousand bytes of memory."""


class TooManyFrames(ValueError):
    """Bytes with more structures, or more cells of them, than are explained at once."""


class Hints(NamedTuple):
    """Facts about bytes that are known from the data before them; 0 if unknown.

    `direction` is the word before an order packet.
    """

    encoding: int = 0
    ccsid: int = 0
    direction: Literal["", "REQUEST", "RECEIVE"] = ""

    @property
    def dialects(self) -> int:
        """The SAS dialects that agree with the Encoding."""
        order = integer_order(self.encoding)
        return with_order(ALL, order) if order else ALL

    @property
    def charset(self) -> str | None:
        """The Python codec of the CCSID, or None if it has none."""
        return charset(self.ccsid, self.encoding) if self.ccsid > 0 else None

    @property
    def charsets(self) -> list[str]:
        """The character sets to try; Latin-1, the last, can decode any bytes."""
        return list(dict.fromkeys(name for name in (self.charset, "utf-8", "cp1252", "latin-1") if name))


NO_HINTS = Hints()
"""No facts known."""

Explain = Callable[[memoryview, Hints], list[Frame]]
"""A function that explains all of some bytes as one format. It raises WireError where they stop matching."""

Formats = Mapping[str, Explain]


def first_that_fits(data: memoryview, formats: Formats, hints: Hints) -> list[Frame]:
    """Return the structures of the first format that fits the bytes. Raises NotRecognised."""
    tried = []
    for name, explain in formats.items():
        try:
            return explain(data, hints)
        except WireError as error:
            tried.append(Tried(name, error.at, f"{error.row}: {error.why}" if error.row else error.why))
    raise NotRecognised(tried)


def raw(data: memoryview, note: str = "") -> Frame:
    """Return a frame for bytes without an explanation."""
    return Frame("bytes", 0, [Cell(0, len(data), "bytes", bytes(data))] if data else [], note)


def moved(frames: Sequence[Frame], by: int) -> list[Frame]:
    """Return the same frames, moved by a number of bytes."""
    return [
        frame._replace(offset=frame.offset + by, cells=[cell._replace(at=cell.at + by) for cell in frame.cells])
        for frame in frames
    ]
