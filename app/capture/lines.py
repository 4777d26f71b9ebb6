"""The lines of a file, of any length and yet none without end."""

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

LONGEST_LINE: Final = (1 << 29) + (1 << 16)
"""Bytes of the longest line that is read: the largest MQTT packet in hexadecimal, with some room for a time."""

_PIECE = 1 << 20


class Readable(Protocol):
    """A binary file, as far as lines need one."""

    def readline(self, size: int, /) -> bytes: ...


class LineError(ValueError):
    """A line that does not hold what it should; `at` is the byte where."""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(f"{why} (byte {at})")
        self.at, self.why = at, why


class Line(NamedTuple):
    """A line without its end. `is_whole` is false for one that is longer than `LONGEST_LINE` and was cut there."""

    number: int
    content: bytes
    is_whole: bool = True

    def require_whole(self) -> None:
        """Raises LineError."""
        if not self.is_whole:
            raise LineError(len(self.content), "the line is longer than any that is read")


def lines(file: Readable) -> Iterator[Line]:
    """The lines of a file by their numbers, from 1 on."""
    number = 0
    while content := file.readline(LONGEST_LINE):
        number += 1
        is_whole = content.endswith(b"\n") or len(content) < LONGEST_LINE
        yield Line(number, content.removesuffix(b"\n").removesuffix(b"\r"), is_whole)
        while not is_whole and (rest := file.readline(_PIECE)):
            is_whole = rest.endswith(b"\n")
