"""What explaining is made of."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from app.codecs.ibm_mq.encodings import charset, integer_order
from app.codecs.sas.dialect import ALL, with_order
from app.wire import Cell, WireError


class Frame(NamedTuple):
    """One structure: its format, the byte where it starts, its cells in order, and what else is to be said of it.

    `decoded` is what it means as a whole, by name and as JSON has it, where the format has more to say than its cells.
    """

    format: str
    offset: int
    cells: list[Cell]
    note: str = ""
    decoded: Mapping[str, Any] = MappingProxyType({})


class Tried(NamedTuple):
    """A format that does not fit: the byte it came to, and why it went no further."""

    format: str
    at: int
    why: str


class NotRecognised(ValueError):
    """Bytes that are none of the formats tried; `tried` has the one that came furthest first."""

    def __init__(self, tried: Sequence[Tried]) -> None:
        self.tried = sorted(tried, key=lambda one: -one.at)
        lines = [f"  {one.format}: to byte {one.at}: {one.why}" for one in self.tried]
        super().__init__("\n".join(["this is none of:", *lines]))


MOST_FRAMES = 20_000
"""Structures that are explained at once: one of two bytes takes a thousand bytes of memory."""


class TooManyFrames(ValueError):
    """Bytes that are more structures, or more cells of such, than are explained at once."""


class Said(NamedTuple):
    """What is known of bytes from what stood before them; 0 where nothing is.

    `direction` is the word in front of an order packet.
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
        """The Python codec of the CCSID, where it names one."""
        return charset(self.ccsid, self.encoding) if self.ccsid > 0 else None

    @property
    def charsets(self) -> list[str]:
        """The character sets to try; Latin-1, the last, reads any bytes."""
        return list(dict.fromkeys(name for name in (self.charset, "utf-8", "latin-1") if name))


Explain = Callable[[memoryview, Said], list[Frame]]
"""Explains all of some bytes as one format. Raises WireError where they stop being that."""

Formats = Mapping[str, Explain]


def first_that_fits(data: memoryview, formats: Formats, said: Said) -> list[Frame]:
    """What bytes are in the first of some formats that takes them. Raises NotRecognised."""
    tried = []
    for name, explain in formats.items():
        try:
            return explain(data, said)
        except WireError as error:
            tried.append(Tried(name, error.at, f"{error.row}: {error.why}" if error.row else error.why))
    raise NotRecognised(tried)


def raw(data: memoryview, note: str = "") -> Frame:
    """Bytes that nothing explains."""
    return Frame("bytes", 0, [Cell(0, len(data), "bytes", bytes(data))] if data else [], note)


def moved(frames: Sequence[Frame], by: int) -> list[Frame]:
    """The same frames so many bytes further on."""
    return [
        frame._replace(offset=frame.offset + by, cells=[cell._replace(at=cell.at + by) for cell in frame.cells])
        for frame in frames
    ]
